//! A platform to ask, and what it answers.

use freshet_platform::notify::Notice;
use freshet_platform::{
    Access, Answer, App, Call, CallbackPolicy, Client, DeviceApp, Host, Issuer, Neighbour,
    NeighbourApp, Place, Platform, Reach, Room, Setup, Technology,
};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// A time to begin at: milliseconds since 1970.
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;
pub(crate) const URL: &str = "http://mec.example";
pub(crate) const SUPPORT: &str = "/mec_app_support/v1";
pub(crate) const SERVICES: &str = "/mec_service_mgmt/v1";

/// A platform with an operator, two apps and a client without any scope, in memory.
pub(crate) struct World {
    pub(crate) platform: Platform,
    pub(crate) now_ms: u64,
    tokens: BTreeMap<&'static str, String>,
    fresh: u64,
    /// What was sent and answered: method, target, body, status, answer.
    pub(crate) record: RefCell<Vec<Value>>,
}

pub(crate) fn clients() -> BTreeMap<String, Client> {
    let interfaces = [
        "mec_app_support",
        "mec_service_mgmt",
        "rni",
        "location",
        "ui",
        "bwm",
        "mts",
        "dev_app",
        "amsi",
        "wai",
        "fai",
        "vis",
        "app_pkgm",
        "app_lcm",
        "granting",
        "location-verification",
        "claims",
    ];
    let app = interfaces.map(str::to_owned).to_vec();
    let mut all = app.clone();
    all.push("mec_platform".to_owned());
    [
        ("operator", Client::new("operator", None, all)),
        ("camera", Client::new("camera", Some("camera".into()), app.clone())),
        ("viewer", Client::new("viewer", Some("viewer".into()), app)),
        ("stranger", Client::new("stranger", None, Vec::new())),
    ]
    .map(|(name, client)| (name.to_owned(), client))
    .into()
}

pub(crate) fn setup() -> Setup {
    let issuer = Issuer::new(&Issuer::new_key(), URL, "mec").unwrap();
    let mut setup = Setup::new(URL, issuer, clients());
    setup.callbacks = CallbackPolicy::default();
    let camera = App { traffic_rules: vec![rule()], dns_rules: vec![name()] };
    setup.tags = [
        ("gold".to_owned(), vec!["10.45.0.2".to_owned(), "10.45.0.3".to_owned()]),
        ("guest".to_owned(), vec!["10.45.0.3".to_owned()]),
    ]
    .into();
    setup.host = host();
    setup.place = Some(Place {
        rooms: vec![Room {
            host: "here".to_owned(),
            cpu_milli: 1000,
            memory_mib: 1024,
            accelerators: BTreeMap::new(),
            zone: None,
            network: None,
            tunnel: None,
        }],
        network: ([10, 99, 0, 0].into(), 28),
        reach: Reach::Interface,
        tunnel: None,
        packages: "/nowhere/packages".into(),
        apps: "/nowhere/apps".into(),
        away: BTreeSet::new(),
    });
    setup.apps = [("camera".to_owned(), camera), ("viewer".to_owned(), App::default())].into();
    setup
}

/// A host with two networks and an application for devices, and one beside it in the south.
fn host() -> Host {
    let access = |id, technology, is_metered| Access { id, technology, is_metered };
    let detector = DeviceApp {
        name: "detector".to_owned(),
        provider: "freshet".to_owned(),
        soft_version: "1.0".to_owned(),
        version: "1".to_owned(),
        description: String::new(),
        instance: "camera".to_owned(),
        uri: "http://10.99.0.2/".to_owned(),
        area: vec![[60.0, 25.0], [60.0, 25.1], [60.1, 25.0]],
    };
    let stand_in = NeighbourApp {
        of: "camera".to_owned(),
        descriptor: "camera-d".to_owned(),
        address: [10, 98, 0, 2].into(),
        port: 80,
    };
    let south = Neighbour {
        zones: vec!["south".to_owned()],
        apps: [("camera-south".to_owned(), stand_in)].into(),
    };
    Host {
        bandwidth_bps: Some(1_000_000),
        accesses: vec![
            access(1, Technology::Cellular, Some(true)),
            access(2, Technology::Wlan, None),
        ],
        device_apps: [("detector-d".to_owned(), detector)].into(),
        neighbours: [("south".to_owned(), south)].into(),
    }
}

pub(crate) fn rule() -> Value {
    json!({
        "trafficRuleId": "video", "filterType": "FLOW", "priority": 1, "state": "INACTIVE",
        "trafficFilter": [{"dstAddress": ["203.0.113.10/32"], "dstPort": ["80"], "protocol": ["TCP"]}],
        "action": "FORWARD_DECAPSULATED",
        "dstInterface": {"interfaceType": "IP", "dstIpAddress": "10.99.0.2"},
    })
}

pub(crate) fn name() -> Value {
    json!({
        "dnsRuleId": "www", "domainName": "www.example.com", "ipAddressType": "IP_V4",
        "ipAddress": "10.99.0.2", "ttl": 30, "state": "ACTIVE",
    })
}

pub(crate) fn service() -> Value {
    json!({
        "serName": "detector", "version": "1.0", "state": "ACTIVE", "transportId": "rest", "serializer": "JSON",
        "serCategory": {"href": "/categories/1", "id": "1", "name": "vision", "version": "1"},
    })
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Platform::new(setup()).unwrap())
    }

    pub(crate) fn with(platform: Platform) -> Self {
        let record = RefCell::default();
        let mut world =
            Self { platform, now_ms: NOW_MS, tokens: BTreeMap::new(), fresh: 0, record };
        for name in ["operator", "camera", "viewer", "stranger"] {
            world.renew(name);
        }
        world
    }

    /// Gets a token for a client.
    pub(crate) fn renew(&mut self, name: &'static str) {
        let form = format!("grant_type=client_credentials&client_id={name}&client_secret={name}");
        let call = Call {
            method: "POST",
            target: "/oauth2/token",
            body: form.as_bytes(),
            ..Call::default()
        };
        let (answer, _) = self.call(&call);
        let token = answer.body.unwrap()["access_token"].as_str().unwrap().to_owned();
        self.tokens.insert(name, format!("Bearer {token}"));
    }

    pub(crate) fn token(&self, name: &str) -> &str {
        &self.tokens[name]
    }

    /// Has a request decided and done.
    pub(crate) fn call(&mut self, call: &Call<'_>) -> (Answer, Vec<Notice>) {
        self.fresh += 1;
        let fresh = format!("fresh-{}", self.fresh);
        let done = match self.platform.decide(call, &fresh, self.now_ms) {
            Ok(decision) => self.platform.commit(decision, self.now_ms).unwrap(),
            Err(problem) => (problem.into(), Vec::new()),
        };
        self.record.borrow_mut().push(json!({
            "method": call.method, "target": call.target,
            "request": serde_json::from_slice::<Value>(call.body).ok(),
            "status": done.0.status, "answer": done.0.body,
        }));
        done
    }

    /// A request with JSON.
    pub(crate) fn ask(
        &mut self,
        who: &str,
        method: &str,
        target: &str,
        body: &Value,
    ) -> (Answer, Vec<Notice>) {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let token = self.tokens[who].clone();
        self.call(&Call {
            method,
            target,
            authorization: Some(&token),
            body: &bytes,
            ..Call::default()
        })
    }

    pub(crate) fn get(&mut self, who: &str, target: &str) -> Answer {
        self.ask(who, "GET", target, &Value::Null).0
    }

    /// Lets time go by, with what is due.
    pub(crate) fn wait(&mut self, ms: u64) -> Vec<Notice> {
        self.now_ms += ms;
        let due = self.platform.due(self.now_ms);
        self.platform.commit(due, self.now_ms).unwrap().1
    }
}

/// Where an answer says that its document is, without the platform's own address.
pub(crate) fn location(answer: &Answer) -> String {
    let location = answer.field("Location").expect("what is made has a place");
    location.strip_prefix(URL).expect("it is ours").to_owned()
}
