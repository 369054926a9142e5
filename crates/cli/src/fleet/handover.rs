//! What a node does when its fleet has it upgraded: what `freshet upgrade` would have it do.

use super::configure::counts;
use crate::upgrade;
use freshet_base::clock::UnixMillis;
use freshet_fleet::config::Counts;
use freshet_fleet::nats::Upgrades;
use freshet_node::node::Node;
use std::path::PathBuf;
use std::sync::Arc;

/// A node that can be upgraded.
pub(super) struct HandsOver {
    node: Arc<Node>,
    directory: PathBuf,
    began_ms: u64,
}

impl HandsOver {
    pub(super) fn new(node: Arc<Node>, directory: PathBuf) -> Self {
        Self { node, directory, began_ms: UnixMillis::now().0 }
    }
}

impl Upgrades for HandsOver {
    fn installed(&self) -> Result<String, String> {
        upgrade::installed().map_err(|error| format!("{error:#}"))
    }

    fn hand_over(&self) -> Result<(), String> {
        let handed = upgrade::hand_over(&self.directory, std::process::id());
        handed.map(drop).map_err(|error| format!("{error:#}"))
    }

    fn counts(&self) -> Counts {
        counts(&self.node)
    }

    fn began_ms(&self) -> u64 {
        self.began_ms
    }
}
