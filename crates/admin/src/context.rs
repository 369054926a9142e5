//! What all requests of the interface need.

use crate::guard::Refusals;
use crate::metrics::Metrics;
use crate::scope::SiteTokens;
use crate::token::Token;
use freshet_node::node::Node;
use std::sync::Arc;

/// Reads the configuration again, and says which keys have changed that wait for an upgrade or a restart; the
/// error is what is wrong with it.
pub type Reload = dyn Fn() -> Result<Vec<&'static str>, String> + Send + Sync;

/// Who gets certificates for the node, where somebody does.
pub(crate) type Acme = Option<Arc<freshet_acme::Running>>;

/// What all requests need.
pub(crate) struct Context {
    pub(crate) node: Arc<Node>,
    pub(crate) reload: Box<Reload>,
    pub(crate) metrics: Metrics,
    pub(crate) acme: Acme,
    pub(crate) token: Token,
    pub(crate) site_tokens: SiteTokens,
    /// Whether only processes of this machine can connect: over a Unix socket.
    pub(crate) is_local: bool,
    /// The machine's name.
    pub(crate) host_name: String,
    pub(crate) refusals: Refusals,
}
