//! What can be wrong with how a cache is set up.

use freshet_store::StoreError;
use thiserror::Error;

/// The errors of this crate. Variants name who is to blame.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CacheError {
    /// Not even what it takes to begin fits into memory.
    #[error("no room for the tables of the cache: {0}")]
    LocalMemory(StoreError),
    /// Nobody could wait for a fetch.
    #[error("the number of requests that may wait for one fetch must not be 0")]
    ConfigWaiters,
}
