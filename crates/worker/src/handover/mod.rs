//! What is in memory moves from a process to the one that takes over from it.
//!
//! The old process describes every object it has whole; the new one puts them all into its index
//! and begins to serve. Bodies follow as bytes: at once where somebody asks for one, the rest best
//! first when the old process has answered what it had open. Each that has arrived is let go on the
//! other side and its pages go back to the kernel, so that there is never much more than one copy.
//!
//! Bytes are copied rather than shared: two versions of the program need not lay memory out alike,
//! arenas may differ in size, memory stays private with huge pages, and no process can ever change
//! what another is sending.
//!
//! ```text
//!  old: Hello           Ban … Object … Listed   Piece … End   Purge  Object … Settled  Piece … End
//!  new:        Accept                 (serves) Want …          Purged           Want …        Finished
//! ```
//! Purges in the old process are told to the new one, and answered once it has them; what was
//! purged in the new one since the move began does not come back.

mod frame;
mod giving;
mod object;
mod taking;

pub use giving::Giving;
pub use taking::Taking;

use crate::worker::Shared;
use freshet_site::sites::Sites;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Takes over what the process before has in memory. Whatever fails leaves the cache empty, and the
/// log says so.
pub fn take_over(line: UnixStream, shared: &Arc<Shared>, sites: &Arc<Sites>) {
    match Taking::begin(line, shared, sites) {
        Ok((taking, receiver)) => {
            let _ = shared.taking.set(taking);
            receiver.spawn(Arc::clone(shared));
        }
        Err(error) => {
            let dropped = shared.cache.purge_all(freshet_cache::Purge::Hard);
            tracing::warn!(%error, dropped, "memory was not taken over: it starts empty");
        }
    }
}
