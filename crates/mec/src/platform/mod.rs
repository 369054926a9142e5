//! What becomes of a request. A decision is made on what there is and changes nothing; its changes are
//! made when they are on the disk and, where they are rules, in force.

mod decide;
mod event;
mod links;

pub(crate) use event::Event;

use crate::api;
use crate::callback::CallbackPolicy;
use crate::client::{self, Client};
use crate::journal::Journal;
use crate::notify::Notice;
use crate::problem::Problem;
use crate::radio::Radio;
use crate::table::{self, Table};
use crate::token::{Issuer, Verified};
use crate::tree::{Change, Changed, Tree};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A request, as far as it counts here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// Its method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// `Authorization`.
    pub authorization: Option<&'a str>,
    /// `Accept`.
    pub accept: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Call<'a> {
    /// A `GET` with a token.
    pub fn get(target: &'a str, authorization: Option<&'a str>) -> Self {
        Self { method: "GET", target, authorization, ..Self::default() }
    }
}

/// A response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Fields of its head, besides those of its body: name and value.
    pub fields: Vec<(&'static str, String)>,
    /// Its body, JSON.
    pub body: Option<Value>,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, fields: Vec::new(), body: Some(body) }
    }

    pub(crate) fn nothing() -> Self {
        Self { status: 204, ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Its media type.
    pub fn media_type(&self) -> &'static str {
        let is_problem =
            self.status >= 400 && self.body.as_ref().is_some_and(|body| body["title"].is_string());
        if is_problem { crate::problem::MEDIA_TYPE } else { "application/json" }
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let challenge = problem.challenge.iter().map(|value| ("WWW-Authenticate", value.clone()));
        let retry = problem.retry_after_s.iter().map(|value| ("Retry-After", value.to_string()));
        let fields = challenge.chain(retry).collect();
        Self { status: problem.status, fields, body: Some(problem.body()) }
    }
}

/// What is to be done: nothing of it is done yet.
#[derive(Debug)]
pub struct Decision {
    pub(crate) answer: Answer,
    pub(crate) changes: Vec<Change>,
    /// What happened besides the changes.
    pub(crate) events: Vec<Event>,
    /// What the radio network tells.
    pub(crate) radio: Option<Radio>,
}

impl Decision {
    /// Whether it changes nothing, so that it may be made beside others.
    pub fn is_reading(&self) -> bool {
        self.changes.is_empty() && self.events.is_empty() && self.radio.is_none()
    }

    /// What the client is told when all of it is done.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer, changes: Vec::new(), events: Vec::new(), radio: None }
    }
}

/// What a platform is made with.
#[derive(Debug)]
pub struct Setup {
    url: String,
    issuer: Issuer,
    clients: BTreeMap<String, Client>,
    /// Where notifications may go.
    pub callbacks: CallbackPolicy,
    /// App instances the operator runs here, with the traffic and DNS rules of their descriptors.
    pub apps: BTreeMap<String, App>,
    /// Clients of the mobile network that each tag stands for, by their addresses.
    pub tags: BTreeMap<String, Vec<String>>,
}

/// An app instance that the operator's configuration has.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct App {
    /// TrafficRule of ETSI GS MEC 011, each.
    pub traffic_rules: Vec<Value>,
    /// DnsRule of ETSI GS MEC 011, each.
    pub dns_rules: Vec<Value>,
}

impl Setup {
    /// `url` is where clients reach it, without a path; clients are by their names.
    pub fn new(url: &str, issuer: Issuer, clients: BTreeMap<String, Client>) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        let callbacks = CallbackPolicy::default();
        Self { url, issuer, clients, callbacks, apps: BTreeMap::new(), tags: BTreeMap::new() }
    }
}

/// The platform.
#[derive(Debug)]
pub struct Platform {
    setup: Setup,
    table: Table,
    tree: Tree,
    /// The last report of the radio network. It is not kept: the next one is near.
    radio: Radio,
    journal: Option<Journal>,
    verified: Mutex<Verified>,
}

impl Platform {
    /// A platform that forgets what it was told when it ends.
    ///
    /// # Errors
    /// Mistakes of the apps' rules, with their places.
    pub fn new(setup: Setup) -> Result<Self, String> {
        Self::begin(setup, Tree::default(), None)
    }

    /// A platform whose documents are in a journal at `path`, which is made where there is none.
    ///
    /// # Errors
    /// Those of the file, and mistakes of the apps' rules with their places.
    pub fn open(setup: Setup, path: &Path) -> Result<Self, String> {
        let mut tree = Tree::default();
        let journal = Journal::open(path, &mut tree);
        let journal = journal.map_err(|error| format!("{}: {error}", path.display()))?;
        Self::begin(setup, tree, Some(journal))
    }

    fn begin(setup: Setup, tree: Tree, journal: Option<Journal>) -> Result<Self, String> {
        let table = api::table();
        let mut platform = Self {
            setup,
            table,
            tree,
            radio: Radio::default(),
            journal,
            verified: Mutex::default(),
        };
        let changes =
            api::begin(&platform.tree, &platform.table, &platform.setup.url, &platform.setup.apps)?;
        let decision = Decision { changes, ..Answer::nothing().into() };
        platform.commit(decision, 0).map_err(|error| format!("the journal: {error}"))?;
        Ok(platform)
    }

    /// What becomes of a request. `fresh` is a name unlike any other, `now_ms` milliseconds since 1970.
    ///
    /// # Errors
    /// Why nothing becomes of it.
    pub fn decide(&self, call: &Call<'_>, fresh: &str, now_ms: u64) -> Result<Decision, Problem> {
        let path = call.target.split_once('?').map_or(call.target, |(path, _)| path);
        if let Some(answer) = self.open_path(call, path, fresh, now_ms) {
            return Ok(answer.into());
        }
        let Some(route) = self.table.route(path) else {
            self.caller(call, now_ms)?;
            return Err(Problem::not_found(path));
        };
        let caller = self.caller(call, now_ms)?;
        let decision = decide::decide(self, call, &route, &caller, fresh, now_ms)?;
        if cfg!(debug_assertions) {
            assert_eq!(
                decide::mistakes(call, &route, &decision.answer),
                Vec::<String>::new(),
                "{} {path}",
                call.method
            );
        }
        Ok(decision)
    }

    /// What needs no token.
    fn open_path(&self, call: &Call<'_>, path: &str, fresh: &str, now_ms: u64) -> Option<Answer> {
        let url = &self.setup.url;
        let document = path
            .strip_suffix("/openapi.json")
            .and_then(|root| self.table.0.iter().find(|api| api.root() == root));
        match (call.method, path) {
            ("POST", "/oauth2/token") => {
                let form = std::str::from_utf8(call.body).unwrap_or_default();
                let (clients, issuer) = (&self.setup.clients, &self.setup.issuer);
                Some(client::token(clients, issuer, call.authorization, form, fresh, now_ms / 1000))
            }
            ("GET", "/oauth2/keys") => Some(Answer::ok(self.setup.issuer.keys())),
            ("GET", "/.well-known/oauth-authorization-server") => Some(Answer::ok(json!({
                "issuer": url,
                "token_endpoint": format!("{url}/oauth2/token"),
                "jwks_uri": format!("{url}/oauth2/keys"),
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                "response_types_supported": [],
            }))),
            ("GET", "/") => {
                let documents: Vec<Value> = self
                    .table
                    .0
                    .iter()
                    .map(|api| {
                        json!({
                            "title": api.title,
                            "url": format!("{url}{}", api.root()),
                            "document": format!("{url}{}/openapi.json", api.root()),
                        })
                    })
                    .collect();
                Some(Answer::ok(documents.into()))
            }
            ("GET", _) => document.map(|api| Answer::ok(api.document(url))),
            _ => None,
        }
    }

    fn caller(&self, call: &Call<'_>, now_ms: u64) -> Result<client::Caller, Problem> {
        let Some(field) = call.authorization else { return Err(client::unauthorized(None)) };
        let token =
            field.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) =
            token.ok_or_else(|| client::unauthorized(Some("it is not of the Bearer scheme")))?;
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = verified
            .verify(&self.setup.issuer, token.trim(), now_ms / 1000)
            .map_err(|error| client::unauthorized(Some(&error.to_string())))?;
        let client = self.setup.clients.get(&claims.client_id);
        let client =
            client.ok_or_else(|| client::unauthorized(Some("its client is none any more")))?;
        Ok(client::Caller::new(&claims.client_id, client, &claims.scope))
    }

    /// What the edge router has to have before a decision is done, where that changes.
    pub fn packet_path_after(&self, decision: &Decision) -> Option<PacketPath> {
        let concerns =
            |change: &Change| api::is_traffic_rule(&change.path) || api::is_tags(&change.path);
        if !decision.changes.iter().any(concerns) {
            return None;
        }
        let mut after = self.tree.clone();
        decision.changes.iter().for_each(|change| drop(after.apply(change.clone())));
        Some(self.packet_path_of(&after))
    }

    /// What the edge router has to have now.
    pub fn packet_path(&self) -> PacketPath {
        self.packet_path_of(&self.tree)
    }

    fn packet_path_of(&self, tree: &Tree) -> PacketPath {
        let tags = api::tags_of_clients(tree, &self.setup.tags);
        PacketPath { rules: api::traffic_rules(tree), tags }
    }

    /// The address an active DNS rule gives a name, and for how many seconds; `is_v6` says of which
    /// kind. The name is in lower case and without a dot at its end.
    pub fn resolve(&self, name: &str, is_v6: bool) -> Option<Resolved> {
        api::resolve(&self.tree, name, is_v6)
    }

    /// Does what was decided, when the packet path has it: the changes are on the disk when this
    /// returns. What is to be told to subscribers is returned.
    ///
    /// # Errors
    /// Those of the journal; then nothing is changed.
    pub fn commit(&mut self, decision: Decision, now_ms: u64) -> io::Result<(Answer, Vec<Notice>)> {
        let Decision { answer, changes, mut events, radio } = decision;
        if !changes.is_empty()
            && let Some(journal) = &mut self.journal
        {
            journal.append(self.tree.version() + changes.len() as u64, changes.clone())?;
        }
        if let Some(radio) = radio {
            events.extend(api::reported(&self.radio, &radio, now_ms));
            self.radio = radio;
        }
        // Also to subscriptions that are over with this.
        let told =
            events.iter().flat_map(|event| event::notices(&self.tree, event, &self.setup.url));
        let mut notices: Vec<Notice> = told.collect();
        let changed: Vec<Changed> =
            changes.into_iter().map(|change| self.tree.apply(change)).collect();
        // All is done by now: a journal that stays long is no reason to refuse it.
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.compact(&self.tree)
        {
            tracing::warn!(%error, "the journal cannot be written anew");
        }
        let url = &self.setup.url;
        notices.extend(event::first_notices(&self.table, &changed, url));
        let events = changed.iter().flat_map(|one| api::events(&self.tree, one, url, now_ms));
        notices.extend(events.flat_map(|event| event::notices(&self.tree, &event, url)));
        Ok((answer, notices))
    }

    /// What is due by time: subscriptions that expire, services that went silent.
    pub fn due(&self, now_ms: u64) -> Decision {
        let (mut changes, mut events) = event::expired(&self.table, &self.tree, now_ms);
        let (more, others) = api::due(&self.tree, now_ms);
        changes.extend(more);
        events.extend(others);
        Decision { changes, events, ..Answer::nothing().into() }
    }

    /// What a radio network tells in this process.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn report(&self, radio: Radio) -> Result<Decision, String> {
        match radio.mistake() {
            Some(mistake) => Err(mistake),
            None => Ok(Decision { radio: Some(radio), ..Answer::nothing().into() }),
        }
    }

    /// Every operation there is: method, path and scope.
    pub fn operations(&self) -> Vec<(&'static str, String, String)> {
        let of = |api: &table::Api| {
            let root = api.root();
            let all =
                api.resources.iter().flat_map(|one| one.operations.iter().map(move |op| (one, op)));
            all.map(|(one, op)| {
                (op.method.name(), format!("{root}{}", one.template()), op.scope.clone())
            })
            .collect::<Vec<_>>()
        };
        self.table.0.iter().flat_map(of).collect()
    }
}

/// What the edge router does for the platform.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketPath {
    /// All traffic rules, each named after its app instance and itself.
    pub rules: Value,
    /// Tags of clients, by their addresses.
    pub tags: BTreeMap<String, BTreeSet<String>>,
}

/// What a DNS rule says of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resolved {
    /// The address; none where the name has one of the other kind only.
    pub address: Option<std::net::IpAddr>,
    /// How long it holds, in seconds.
    pub ttl_s: u32,
}
