//! Services of apps as a gateway looks them up: by their names and by their instances, without a look
//! at the whole registry. It is made of the registry's documents and follows each change of them.

use super::Setup;
use crate::api;
use freshet_base::{hexadecimal, random};
use freshet_documents::tree::{Changed, Tree};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// An instance of a service, as its app has registered it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Offer {
    /// `serName`
    pub(crate) name: String,
    /// `serInstanceId`
    pub(crate) instance: String,
    /// Whether its state is `ACTIVE`.
    pub(crate) is_active: bool,
    /// Where it is.
    pub(crate) place: Place,
}

/// Where an instance is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The registry does not say: it uses the platform's own transport, and the gateway has to know.
    Unsaid,
    /// At this URL.
    At(String),
    /// Where a gateway does not ask.
    Forbidden,
}

/// All of them. A change costs what the instances of its service do, a look-up what it finds.
#[derive(Debug)]
pub(super) struct Offers {
    by_path: HashMap<String, Offer>,
    /// Paths by names of services.
    named: HashMap<String, BTreeSet<String>>,
    /// The path of each instance.
    instances: HashMap<String, String>,
    /// Unlike that of any other process.
    process: String,
    /// How often something changed that decisions rest on.
    changes: u64,
}

impl Offers {
    /// Those of a registry.
    pub(super) fn of(tree: &Tree, setup: &Setup) -> Self {
        let mut offers = Self {
            by_path: HashMap::new(),
            named: HashMap::new(),
            instances: HashMap::new(),
            process: hexadecimal::encode(&random::secret()[..8]),
            changes: 0,
        };
        for (path, value) in api::registered(tree) {
            offers.set(path, Some(value), setup);
        }
        offers
    }

    /// Follows a change.
    pub(super) fn follow(&mut self, change: &Changed, setup: &Setup) {
        if api::is_service(&change.path) {
            self.set(&change.path, change.new.as_ref(), setup);
        } else if crate::life::is_life_path(&change.path) {
            // Who is a client, and what it may, follows from it.
            self.changes += 1;
        }
    }

    fn set(&mut self, path: &str, value: Option<&Value>, setup: &Setup) {
        let new = value.map(|value| api::offer(value, setup));
        let old = self.by_path.get(path);
        if old == new.as_ref() {
            return;
        }
        self.changes += 1;
        if let Some(old) = self.by_path.remove(path) {
            self.instances.remove(&old.instance);
            if let Some(paths) = self.named.get_mut(&old.name) {
                paths.remove(path);
                if paths.is_empty() {
                    self.named.remove(&old.name);
                }
            }
        }
        if let Some(new) = new {
            self.instances.insert(new.instance.clone(), path.to_owned());
            self.named.entry(new.name.clone()).or_default().insert(path.to_owned());
            self.by_path.insert(path.to_owned(), new);
        }
    }

    /// The one instance of this identifier, or all of the service of this name. A service that is named as an
    /// instance of another takes nothing from it.
    pub(super) fn find(&self, asked: &str) -> Vec<&Offer> {
        if let Some(path) = self.instances.get(asked) {
            return self.by_path.get(path).into_iter().collect();
        }
        let paths = self.named.get(asked).into_iter().flatten();
        paths.filter_map(|path| self.by_path.get(path)).collect()
    }

    /// The name of the service that is asked for by its name or that of an instance.
    pub(super) fn name<'a>(&'a self, asked: &'a str) -> &'a str {
        let path = self.instances.get(asked);
        let offer = path.and_then(|path| self.by_path.get(path));
        offer.map_or(asked, |offer| &offer.name)
    }

    /// Another one after each change.
    pub(super) fn version(&self) -> String {
        format!("{}-{}", self.process, self.changes)
    }
}
