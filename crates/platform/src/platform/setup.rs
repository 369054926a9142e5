//! What a platform is made with.

use super::host::Host;
use crate::callback::CallbackPolicy;
use crate::client::Client;
use crate::life::Place;
use crate::token::Issuer;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a platform is made with.
#[derive(Debug)]
pub struct Setup {
    pub(crate) url: String,
    pub(super) issuer: Issuer,
    /// Who may ask, by name.
    pub(crate) clients: BTreeMap<String, Client>,
    /// Where notifications may go.
    pub callbacks: CallbackPolicy,
    /// App instances the operator runs here, with the traffic and DNS rules of their descriptors.
    pub apps: BTreeMap<String, App>,
    /// Clients of the mobile network that each tag stands for, by their addresses.
    pub tags: BTreeMap<String, Vec<String>>,
    /// This host, and those beside it.
    pub host: Host,
    /// What apps of packages may have here; none are run where it is not said.
    pub place: Option<Place>,
    /// How many calls of a service may be under way at a gateway, by its name.
    pub concurrent: BTreeMap<String, u32>,
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
        let (apps, tags, host) = (BTreeMap::new(), BTreeMap::new(), Host::default());
        let concurrent = BTreeMap::new();
        Self { url, issuer, clients, callbacks, apps, tags, host, place: None, concurrent }
    }

    /// The secret of an app instance that is run here: the same one for as long as the key is.
    pub(crate) fn secret_of(&self, instance: &str) -> String {
        self.issuer.secret_of(instance)
    }
}
