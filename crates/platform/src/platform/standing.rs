//! What there is, for whoever serves it.

use super::{Platform, gateway};
use crate::api;
use freshet_documents::table;
use freshet_documents::tree::Tree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Platform {
    /// The package whose archive a request sends or asks for, where it is such a request.
    pub fn archive_of(&self, method: &str, target: &str) -> Option<String> {
        let path = target.split('?').next().unwrap_or_default();
        let route = self.table.route(path)?;
        // A HEAD is a GET whose bytes are not sent.
        let is_archive =
            route.template_has("package_content") && matches!(method, "GET" | "HEAD" | "PUT");
        route.name("appPkgId").filter(|_| is_archive).map(str::to_owned)
    }

    /// A member of a package's document.
    pub fn package(&self, id: &str) -> Option<&Value> {
        api::package(&self.tree, id)
    }

    /// The interface that a request is for, where it is for one.
    pub fn interface(&self, target: &str) -> Option<&str> {
        let path = target.split('?').next().unwrap_or_default();
        if matches!(path, gateway::PATH | gateway::CHANGES) {
            return Some("gateway");
        }
        self.table.route(path).map(|route| route.api.name.as_str())
    }

    /// How much there is.
    pub fn standing(&self) -> Standing {
        let all = self.tree.below("/");
        let (mut documents, mut subscriptions) = (0, 0);
        for (_, document) in all {
            documents += 1;
            subscriptions += usize::from(api::callback(&document.value).is_some());
        }
        let mut apps = BTreeMap::new();
        for state in api::app_states(&self.tree) {
            *apps.entry(state.to_owned()).or_default() += 1;
        }
        Standing { documents, subscriptions, packages: self.packages().len(), apps }
    }

    /// Packages whose archive is there.
    pub fn packages(&self) -> BTreeSet<String> {
        packages(&self.tree)
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

/// How much there is.
#[derive(Debug, Default)]
pub struct Standing {
    /// Documents, of all clients and interfaces.
    pub documents: usize,
    /// Of these, what somebody is to be told by.
    pub subscriptions: usize,
    /// Packages whose archive is there.
    pub packages: usize,
    /// App instances by their states.
    pub apps: BTreeMap<String, i64>,
}

/// Packages whose archive is there.
pub(super) fn packages(tree: &Tree) -> BTreeSet<String> {
    let there = api::packages(tree).filter(|(_, is_there)| *is_there);
    there.map(|(id, _)| id.to_owned()).collect()
}
