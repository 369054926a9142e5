//! What packets and names meet: rules and tags for the edge router, and addresses of names.

use super::{Decision, Platform};
use crate::api;
use crate::life;
use freshet_documents::tree::{Change, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Platform {
    /// What the edge router has to have before a decision is done, where that changes.
    pub fn packet_path_after(&self, decision: &Decision) -> Option<PacketPath> {
        let concerns = |change: &Change| {
            api::is_traffic_rule(&change.path)
                || api::is_tags(&change.path)
                || api::is_allocation(&change.path)
                || api::decides_rules(change)
        };
        let is_told = decision.changes.iter().any(concerns);
        if !is_told && !decision.changes.iter().any(life::is_life) {
            return None;
        }
        let mut after = self.tree.clone();
        decision.changes.iter().for_each(|change| drop(after.apply(change.clone())));
        // Of the steps of lives few are the router's concern.
        (is_told || self.apps_of(&after) != self.apps_of(&self.tree))
            .then(|| self.packet_path_of(&after))
    }

    /// What the edge router has to have now.
    pub fn packet_path(&self) -> PacketPath {
        self.packet_path_of(&self.tree)
    }

    fn packet_path_of(&self, tree: &Tree) -> PacketPath {
        let tags = api::tags_of_clients(tree, &self.setup.tags);
        let (rules, limits) = (api::traffic_rules(tree), api::limits(tree));
        PacketPath { apps: self.apps_of(tree), rules, limits, tags }
    }

    fn apps_of(&self, tree: &Tree) -> BTreeMap<String, Value> {
        let place = self.setup.place.as_ref();
        place.map(|place| api::instances::behind_router(tree, place)).unwrap_or_default()
    }

    /// The address an active DNS rule gives a name, and for how many seconds; `is_v6` says of which
    /// kind. The name is in lower case and without a dot at its end.
    pub fn resolve(&self, name: &str, is_v6: bool) -> Option<Resolved> {
        api::resolve(&self.tree, name, is_v6)
    }
}

/// What the edge router does for the platform.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketPath {
    /// Apps of packages that packets are led to, as the router is told of them, by their instances.
    pub apps: BTreeMap<String, Value>,
    /// All traffic rules, each named after its app instance and itself.
    pub rules: Value,
    /// Rates that rules share, as the router is told of them.
    pub limits: Value,
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
