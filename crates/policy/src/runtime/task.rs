//! What a policy keeps for one request or one fetch between its states.

use crate::modules::cookie::Cookies;
use crate::modules::var::Variables;
use crate::program::Text;
use crate::runtime::Failure;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes a policy may add to one request, or to one fetch, over all its states: header fields,
/// cookies, variables and texts under way. As large as Varnish's workspaces.
pub const WORKSPACE_BYTES_MAX: usize = 128 << 10;
/// Bytes of one synthetic body.
pub const SYNTHETIC_BYTES_MAX: usize = 4 << 20;
/// Statements one state may run. Without loops a policy needs a few thousand; subroutines that
/// call one another twice each could need 2^n. Matches and calls count as well.
pub const STATEMENTS_MAX: u32 = 100_000;

/// One side's memory of a request. Made when it begins, dropped when it ends.
#[derive(Debug)]
pub struct Task {
    /// What of [`WORKSPACE_BYTES_MAX`] is left.
    pub(crate) budget: usize,
    /// Texts under way; cut back after each statement.
    pub(crate) work: Vec<u8>,
    /// Where texts are joined.
    pub(crate) scratch: Vec<u8>,
    /// The text that was joined last, and the length of its first piece.
    pub(crate) joined: Option<(Text, usize)>,
    /// Bytes held for one state.
    pub(crate) held: Vec<Arc<[u8]>>,
    pub(crate) cookies: Option<Box<Cookies>>,
    pub(crate) variables: Option<Variables>,
    /// `shard_param`s that were set for this task only, by object.
    pub(crate) shard_params: Option<HashMap<u32, crate::modules::directors::ShardParameters>>,
    /// What it asked of shard directors and did not have done yet, by object.
    pub(crate) shard_changes: Option<HashMap<u32, crate::modules::directors::Gathered>>,
    /// What `hash_data` was given, each part followed by a NUL.
    pub(crate) hash_parts: Vec<u8>,
    pub(crate) ban_error: String,
    /// The last failure, for logs.
    pub(crate) failure: Option<Failure>,
}

impl Task {
    /// A new one.
    pub fn new() -> Self {
        Self::with_budget(WORKSPACE_BYTES_MAX)
    }

    /// With this many bytes to spend.
    pub fn with_budget(budget: usize) -> Self {
        Self {
            budget,
            work: Vec::new(),
            scratch: Vec::new(),
            joined: None,
            held: Vec::new(),
            cookies: None,
            variables: None,
            shard_params: None,
            shard_changes: None,
            hash_parts: Vec::new(),
            ban_error: String::new(),
            failure: None,
        }
    }

    /// A task for a fetch that this request begins: what the policy set for it comes along.
    #[must_use]
    pub fn for_fetch(&self) -> Self {
        Self { shard_params: self.shard_params.clone(), ..Self::new() }
    }

    /// Forgets what modules keep of the request, as when it begins: cookies, variables, parameters, the last ban's error.
    pub(crate) fn forget_kept(&mut self) {
        (self.cookies, self.variables, self.shard_params) = (None, None, None);
        self.ban_error.clear();
    }

    /// What was hashed since the last [`Task::clear_hash`]: parts, each followed by a NUL.
    pub fn hash_parts(&self) -> &[u8] {
        &self.hash_parts
    }

    /// Forgets what was hashed.
    pub fn clear_hash(&mut self) {
        self.hash_parts.clear();
    }

    /// Begins anew behind a failure: with a workspace as at the beginning, for what the policy says of it, and with
    /// nothing that modules kept.
    pub fn begin_anew(&mut self) {
        self.budget = WORKSPACE_BYTES_MAX;
        self.forget_kept();
    }

    /// The failure that ended the last state, taken.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}

impl Default for Task {
    fn default() -> Self {
        Self::new()
    }
}
