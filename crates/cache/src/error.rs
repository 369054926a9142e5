//! What can be wrong with how a cache is set up.

use thiserror::Error;

/// The errors of this crate. Variants name who is to blame.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CacheError {
    /// Nobody could wait for a fetch.
    #[error("the number of requests that may wait for one fetch must not be 0")]
    ConfigWaiters,
}
