//! Certificates that are got while the client that wants one waits in its handshake.

use std::fmt;
use std::pin::Pin;

/// When a client need not wait any more.
pub type Settled = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who gets certificates for names that there is none for.
pub trait OnDemand: fmt::Debug + Send + Sync {
    /// Asks for one for this name, which is in lower case. Ends when it is there, or when none will come
    /// for now. Whoever waits bounds the time.
    fn provide(&self, name: &str) -> Settled;
}
