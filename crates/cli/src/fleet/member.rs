//! What a node does with certificates of its fleet's issuer.

use freshet_config::Settings;
use freshet_fleet::identity::{Identity, Removed, node_name};
use freshet_fleet::nats::Belongs;
use freshet_node::node::Node;
use std::sync::Arc;

/// A node that has joined.
pub(super) struct Member {
    pub(super) node: Arc<Node>,
    pub(super) fleet: String,
    pub(super) identity: Identity,
}

impl Belongs for Member {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Listeners and parents may be shown it, too. What is in force is taken in once more, not what its file says by now.
    fn renewed(&self) {
        let settings = Settings::clone(&self.node.snapshot().settings);
        if let Err(error) = self.node.reload(settings) {
            tracing::error!("the later certificate is for the fleet's servers alone: {error}");
        }
    }

    fn refuse(&self, removed: &Removed) {
        let name = |node: &str| node_name(&self.fleet, node).to_ascii_lowercase().into();
        self.node.shared.refused_certificates.set(removed.nodes().map(name));
    }
}
