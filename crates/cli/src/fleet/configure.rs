//! What a node does with the configuration its fleet sends.

use super::key::parsed;
use crate::acme;
use crate::check;
use crate::reload::reload;
use crate::runtime;
use crate::settings::{Below, SettingsArguments};
use anyhow::Result;
use freshet_config::fleet::FleetConfig;
use freshet_fleet::config::{ConfigState, Counts, Folder, Secret, Version};
use freshet_fleet::nats::{ConfigSettings, Configures};
use freshet_node::node::Node;
use freshet_node::versions::Numbers;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a reload needs, and an upgrade.
pub(crate) struct Configured {
    pub(crate) node: Arc<Node>,
    pub(crate) acme: acme::Shared,
    pub(crate) arguments: SettingsArguments,
    pub(crate) directory: PathBuf,
    /// The version of the program that ran before this one, where it is kept.
    pub(crate) program_before: Option<String>,
}

impl Configured {
    fn take_in(&self, below: &Below) -> Result<()> {
        let (settings, source) = self.arguments.load(below)?;
        let wrong = source.wrong(check::examine(settings, true));
        if wrong.is_error() {
            return Err(wrong.into());
        }
        reload(&self.node, &self.acme, &self.arguments, &self.directory, below).map(drop)
    }
}

impl Configures for Configured {
    fn apply(&self, version: Option<&Version>) -> Result<(), String> {
        let taken = self.take_in(&Below::Version(version.cloned()));
        taken.map_err(|error| format!("{error:#}"))
    }

    fn counts(&self) -> Counts {
        counts(&self.node)
    }

    fn said(&self, state: &ConfigState) {
        let number = |version: Option<&Version>| version.map_or(0, |version| version.number);
        self.node.shared.versions.set(Numbers {
            kept: number(state.kept.as_ref()),
            trying: number(state.trying.as_ref()),
            refused: number(state.refused.as_ref().map(|refusal| &refusal.version)),
        });
    }
}

/// What a node has counted since its start.
pub(super) fn counts(node: &Node) -> Counts {
    let sums = node.sums();
    Counts {
        requests: sums.counter("requests"),
        errors: sums.statuses[5],
        hits: sums.counter("hits") + sums.counter("hits_stale"),
    }
}

/// How a node gets its configuration, as its own file says.
///
/// # Errors
/// The secret cannot be read.
pub(super) fn settings(config: &FleetConfig) -> Result<ConfigSettings> {
    Ok(ConfigSettings {
        folder: Folder::new(&config.folder),
        group: config.group.clone(),
        labels: config.labels.clone(),
        secret: config.secret.as_deref().map(secret).transpose()?,
        takes_over: std::env::var_os(runtime::HOME_VARIABLE).is_some(),
    })
}

/// The secret in a file.
///
/// # Errors
/// It cannot be read, or is none.
pub(super) fn secret(path: &Path) -> Result<Secret> {
    parsed(path, Secret::parse)
}
