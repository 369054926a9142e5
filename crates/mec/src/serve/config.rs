//! The configuration of a platform: a TOML file.

use super::machine;
use super::room::{Elsewhere, Runtime, RuntimeFile};
use crate::objective::{Objective, ServiceFile};
use freshet_apps::hosts::PackagesFile;
use freshet_base::hexadecimal;
use freshet_limits::Rate;
use freshet_net::address::Address;
use freshet_package::Trust;
use freshet_platform::Client;
use freshet_platform::Issuer;
use freshet_platform::{Access, App, DeviceApp, Host, Neighbour, SERVICES_SCOPE, Setup};
use freshet_platform::{Place, Reach};
use freshet_radio::observed::Stations;
use freshet_radio::simulator::CLIENTS_MAX;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A platform's configuration.
#[derive(Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: Address,
    /// How they name it; by `listen` where it is not said.
    pub url: Option<String>,
    /// The folder of the journal and the key of tokens.
    pub state: PathBuf,
    /// Whom tokens are for.
    pub audience: String,
    /// The edge router's socket; without one, traffic rules that are active are refused.
    pub router: Option<PathBuf>,
    /// Addresses of callbacks that are allowed although they are this machine's.
    pub callbacks_allowed: Vec<IpAddr>,
    /// Addresses of gateways that are believed about certificates their clients have shown.
    pub gateways: Vec<IpAddr>,
    /// The resolver for clients of the mobile network.
    pub dns: Option<Dns>,
    /// A simulated radio network.
    pub simulator: Option<Simulated>,
    /// Base stations whose clients the edge router tells of, in place of a feed.
    pub(super) radio: Option<Stations>,
    /// Who may ask, by name.
    pub clients: BTreeMap<String, Client>,
    /// App instances, by name.
    pub apps: BTreeMap<String, App>,
    /// Addresses of the clients that each tag stands for.
    pub tags: BTreeMap<String, Vec<String>>,
    /// This host, and those beside it.
    pub host: Host,
    /// Whose packages are taken; none where it is not said.
    pub packages: Option<Trust>,
    /// What apps of packages may have; none are run where it is not said.
    pub(super) runtime: Option<Runtime>,
    /// What is promised of services behind the gateway.
    pub objectives: Vec<Objective>,
    /// How many calls of a service may be under way at a gateway.
    pub concurrent: BTreeMap<String, u32>,
}

impl Config {
    /// What may be a mistake and need not be one.
    pub fn doubts(&self) -> Vec<String> {
        let known = |app: &String| self.apps.is_empty() || self.apps.contains_key(app);
        let doubt = |(name, client): (&String, &Client)| {
            let app = client.app.as_ref().filter(|app| !known(app))?;
            Some(format!(
                "client.{name}.app: there is no [app.{app}]; this client can do little until it registers as that"
            ))
        };
        self.clients.iter().filter_map(doubt).collect()
    }

    /// What a platform is made with that is reached at `url`. The clients, apps and tags go there, and what apps of
    /// packages may have.
    ///
    /// # Errors
    /// What this machine refused.
    pub(super) fn setup(&mut self, url: &str, issuer: Issuer) -> Result<Setup, String> {
        let mut setup = Setup::new(url, issuer, take(&mut self.clients));
        setup.apps = take(&mut self.apps);
        setup.tags = take(&mut self.tags);
        setup.host = take(&mut self.host);
        setup.concurrent = take(&mut self.concurrent);
        setup.callbacks.own = machine::own_addresses;
        setup.callbacks.allowed = take(&mut self.callbacks_allowed);
        // The runtime goes to its own folder before it reads names.
        let state = std::path::absolute(&self.state)
            .map_err(|error| format!("state: {}: {error}", self.state.display()))?;
        // A cluster gives apps addresses of its own, and none to a host beside them.
        let runtime = self.runtime.as_ref();
        let has_hosts = |one: &&Runtime| !matches!(one.elsewhere, Some(Elsewhere::Cluster(_)));
        setup.callbacks.apps = runtime.filter(has_hosts).map(|runtime| runtime.network);
        setup.place = self.runtime.take().map(|runtime| Place {
            rooms: runtime.rooms,
            network: runtime.network,
            reach: match &runtime.elsewhere {
                None => Reach::Interface,
                Some(Elsewhere::Cluster(_)) => Reach::Service,
                Some(Elsewhere::Hosts(_)) => Reach::Host,
            },
            tunnel: runtime.tunnel,
            away: BTreeSet::new(),
            packages: state.join("packages"),
            apps: state.join("apps"),
        });
        Ok(setup)
    }
}

/// The resolver of DNS rules.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Where it is asked: one address, which answers come from.
    pub listen: SocketAddr,
    /// Who answers for other names; without one they are refused.
    pub upstream: Option<SocketAddr>,
}

/// A radio network that is simulated.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// The same seed gives the same network.
    #[serde(default)]
    pub seed: u64,
    /// Clients in it, at most [`CLIENTS_MAX`].
    pub clients: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: String,
    url: Option<String>,
    state: PathBuf,
    #[serde(default = "audience")]
    audience: String,
    router: Option<PathBuf>,
    #[serde(default)]
    callbacks_allowed: Vec<IpAddr>,
    #[serde(default)]
    gateways: Vec<IpAddr>,
    dns: Option<Dns>,
    simulator: Option<Simulated>,
    radio: Option<Stations>,
    #[serde(default)]
    client: BTreeMap<String, ClientFile>,
    #[serde(default)]
    app: BTreeMap<String, App>,
    #[serde(default)]
    tag: BTreeMap<String, TagFile>,
    bandwidth_bps: Option<u64>,
    #[serde(default)]
    access: Vec<Access>,
    #[serde(default)]
    device_app: BTreeMap<String, DeviceApp>,
    #[serde(default)]
    neighbour: BTreeMap<String, Neighbour>,
    packages: Option<PackagesFile>,
    runtime: Option<RuntimeFile>,
    #[serde(default)]
    service: BTreeMap<String, ServiceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TagFile {
    clients: Vec<IpAddr>,
}

fn audience() -> String {
    "mec".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    secret_sha256: Option<String>,
    certificate_sha256: Option<String>,
    #[serde(default)]
    certificate_bound: bool,
    app: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    rate: Option<String>,
    group: Option<String>,
    weight: Option<u32>,
}

/// Reads a configuration.
///
/// # Errors
/// What is wrong, and where.
pub fn read(text: &str) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let listen = file.listen.parse().map_err(|error| format!("listen: {error}"))?;
    if let Some(url) = &file.url {
        let is_absolute =
            freshet_platform::callback::Target::read(url).is_some_and(|target| target.path == "/");
        if !is_absolute {
            return Err(format!(
                "url: `{url}` must be such as https://mec.example, without a path"
            ));
        }
    }
    let mut known: Vec<String> =
        freshet_platform::table().0.into_iter().map(|api| api.name).collect();
    // An interface may be there in two versions.
    known.dedup();
    known.push(SERVICES_SCOPE.to_owned());
    let tells_certificates = !file.gateways.is_empty();
    let clients = file.client.into_iter().map(|(name, client)| {
        let wrong = |what: String| format!("client.{name}.{what}");
        let read = |key: &str, text: &Option<String>, of: &str| {
            let text = text.as_deref();
            let found = text.map(|text| {
                hexadecimal::decode(text).ok_or_else(|| {
                    wrong(format!("{key}: must be the 64 hexadecimal digits of {of}"))
                })
            });
            found.transpose()
        };
        let of_secret = "`printf %s SECRET | sha256sum`";
        let secret_digest = read("secret_sha256", &client.secret_sha256, of_secret)?;
        let of_certificate = "`openssl x509 -outform DER | sha256sum`";
        let certificate_digest =
            read("certificate_sha256", &client.certificate_sha256, of_certificate)?;
        if secret_digest.is_none() && certificate_digest.is_none() {
            return Err(wrong(
                "secret_sha256: this or certificate_sha256 must be there".to_owned(),
            ));
        }
        if !tells_certificates && (client.certificate_bound || certificate_digest.is_some()) {
            let key =
                if client.certificate_bound { "certificate_bound" } else { "certificate_sha256" };
            return Err(wrong(format!(
                "{key}: a gateway tells of certificates: `gateways` has its address"
            )));
        }
        for scope in &client.scopes {
            let api = scope.split(':').next().unwrap_or_default();
            if !known.iter().any(|name| name == api) {
                return Err(wrong(format!("scopes: `{scope}` is of none of {}", known.join(", "))));
            }
        }
        let rate = client.rate.as_deref().map(|text| Rate::parse(text, None)).transpose();
        let rate = rate.map_err(|error| wrong(format!("rate: {error}")))?;
        let (is_bound, app, scopes) = (client.certificate_bound, client.app, client.scopes);
        let weight = client.weight.unwrap_or(1);
        if weight == 0 {
            return Err(wrong("weight: of none, it would get nothing".to_owned()));
        }
        let group = client.group;
        let client = Client {
            secret_digest,
            certificate_digest,
            is_bound,
            app,
            scopes,
            rate,
            group,
            weight,
        };
        Ok((name, client))
    });
    if file.router.is_none() {
        for (name, app) in &file.app {
            let active = app.traffic_rules.iter().position(|rule| rule["state"] == "ACTIVE");
            if let Some(index) = active {
                return Err(format!(
                    "app.{name}.traffic_rules[{index}]: /state: no rule is active without an edge router; `router` \
                     names its socket"
                ));
            }
        }
    }
    if let Some(radio) = &file.radio {
        let wrong = match (&file.router, &file.simulator) {
            (None, _) => {
                Some("the edge router tells of clients: `router` names its socket".to_owned())
            }
            (_, Some(_)) => Some("either this or `simulator`".to_owned()),
            _ => radio.mistake(),
        };
        if let Some(wrong) = wrong {
            return Err(format!("radio: {wrong}"));
        }
    }
    if let Some(simulated) = file.simulator.as_ref().filter(|one| one.clients > CLIENTS_MAX) {
        return Err(format!(
            "simulator.clients: {CLIENTS_MAX} are the most; this has {}",
            simulated.clients
        ));
    }
    if let Some(dns) = file.dns.filter(|dns| dns.listen.ip().is_unspecified()) {
        let (listen, port) = (dns.listen, dns.listen.port());
        return Err(format!(
            "dns.listen: `{listen}` is all addresses, and an answer has to come from the one that was asked: \
             write the one that clients ask, such as `10.99.0.1:{port}`"
        ));
    }
    let host = Host {
        bandwidth_bps: file.bandwidth_bps,
        accesses: file.access,
        device_apps: file.device_app,
        neighbours: file.neighbour,
    };
    let (mut objectives, mut concurrent) = (Vec::new(), BTreeMap::new());
    for (service, file) in file.service {
        let (objective, most) =
            file.read(&service).map_err(|what| format!("service.{service}.{what}"))?;
        concurrent.extend(most.map(|most| (service, most)));
        objectives.extend(Some(objective).filter(|one| !one.promises.is_empty()));
    }
    Ok(Config {
        objectives,
        concurrent,
        listen,
        url: file.url,
        state: file.state,
        audience: file.audience,
        router: file.router,
        callbacks_allowed: file.callbacks_allowed,
        gateways: file.gateways,
        dns: file.dns,
        simulator: file.simulator,
        radio: file.radio,
        clients: clients.collect::<Result<_, String>>()?,
        apps: file.app,
        tags: file.tag.into_iter().map(addresses).collect(),
        host,
        packages: file.packages.map(|packages| packages.trust()).transpose()?,
        runtime: file.runtime.map(RuntimeFile::runtime).transpose()?,
    })
}

fn addresses((name, tag): (String, TagFile)) -> (String, Vec<String>) {
    (name, tag.clients.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str =
        "secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"";

    #[test]
    fn a_configuration_is_read() {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate = \"x\"\n[client.a]\n{SECRET}\nscopes = [\"mec_app_support\"]\n\
             [[app.a.dns_rules]]\ndnsRuleId = \"www\"\nttl = 30\n"
        );
        let config = read(&text).unwrap();
        assert_eq!(
            config.clients["a"].secret_digest,
            Client::new("secret", None, Vec::new()).secret_digest
        );
        assert_eq!(config.apps["a"].dns_rules[0]["ttl"], 30);
    }

    #[test]
    fn a_client_of_no_app_is_doubted_where_there_are_apps() {
        let doubts = |apps: &str| {
            let client = format!("[client.a]\n{SECRET}\napp = \"camra\"");
            let text = format!("listen = \"127.0.0.1:0\"\nstate = \"x\"\n{client}\n{apps}");
            read(&text).unwrap().doubts()
        };
        assert!(doubts("").is_empty() && doubts("[app.camra]").is_empty());
        let [doubt] = &doubts("[app.camera]")[..] else { panic!("there is one") };
        assert!(doubt.starts_with("client.a.app: there is no [app.camra]"), "{doubt}");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let whole = |rest: &str| format!("listen = \"127.0.0.1:0\"\nstate = \"x\"\n{rest}");
        for (text, what) in [
            ("state = \"x\"".to_owned(), "missing field `listen`"),
            ("listen = \"here\"\nstate = \"x\"".to_owned(), "listen: "),
            (whole("url = \"mec.example\""), "url: `mec.example` must"),
            (whole("url = \"http://mec.example/x\""), "url: "),
            (whole("ur = 1"), "unknown field `ur`"),
            (whole("[simulator]\nclients = 251"), "simulator.clients: 250 are the most"),
            (whole("[dns]\nlisten = \"0.0.0.0:53\""), "dns.listen: `0.0.0.0:53` is all addresses"),
            (whole("[dns]\nlisten = \"[::]:53\""), "dns.listen: `[::]:53` is all addresses"),
            (
                whole("[radio]\nplmn = [\"001\", \"01\"]\nqci = 9\nstation = {}"),
                "radio: the edge router tells of clients: `router` names its socket",
            ),
            (
                format!(
                    "router = \"r\"\n{}",
                    whole("[radio]\nplmn = [\"1\", \"01\"]\nqci = 9\nstation = {}")
                ),
                "radio: /plmn must be three digits",
            ),
            (
                whole("[[app.a.traffic_rules]]\nstate = \"ACTIVE\""),
                "app.a.traffic_rules[0]: /state: no rule is active without an edge router",
            ),
            (whole("[client.a]\nsecret_sha256 = \"secret\""), "client.a.secret_sha256: must"),
            (
                whole("[client.a]\nscopes = []"),
                "client.a.secret_sha256: this or certificate_sha256",
            ),
            (
                whole(&format!("[client.a]\n{SECRET}\ncertificate_bound = true")),
                "client.a.certificate_bound: a gateway tells of certificates",
            ),
            (
                whole(&format!("[client.a]\n{SECRET}\nscopes = [\"mec\"]")),
                "client.a.scopes: `mec` is of none of app_pkgm, app_lcm, granting, mec_app_support, \
                 mec_service_mgmt, rni, location, ui",
            ),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }
}
