//! What a node does when its fleet has it upgraded: what `freshet upgrade` would have it do.

use super::configure::{Configured, counts};
use crate::upgrade;
use freshet_base::clock::UnixMillis;
use freshet_fleet::config::Counts;
use freshet_fleet::nats::Upgrades;
use freshet_fleet::upgrade::Program;
use freshet_node::node::Node;
use std::path::PathBuf;
use std::sync::Arc;

/// A node that can be upgraded.
pub(super) struct HandsOver {
    node: Arc<Node>,
    directory: PathBuf,
    program_before: Option<String>,
    began_ms: u64,
}

impl HandsOver {
    pub(super) fn new(configured: &Configured) -> Self {
        Self {
            node: Arc::clone(&configured.node),
            directory: configured.directory.clone(),
            program_before: configured.program_before.clone(),
            began_ms: UnixMillis::now().0,
        }
    }
}

impl Upgrades for HandsOver {
    fn installed(&self) -> Result<String, String> {
        upgrade::installed().map_err(|error| format!("{error:#}"))
    }

    fn before(&self) -> Option<String> {
        self.program_before.clone()
    }

    fn hand_over(&self, program: Program) -> Result<(), String> {
        let handed = upgrade::hand_over(&self.directory, std::process::id(), program);
        handed.map(drop).map_err(|error| format!("{error:#}"))
    }

    fn counts(&self) -> Counts {
        counts(&self.node)
    }

    fn began_ms(&self) -> u64 {
        self.began_ms
    }
}
