//! How a disk's loop waits: on a thread of its own in place, in a simulated world as a task in virtual
//! time. The loop itself is one.

use super::Disk;
#[cfg(feature = "simulation")]
use freshet_device::attached;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

impl Disk {
    /// Waits for a job or purges, at most so long.
    pub(super) async fn wait_for_work(&self, limit: Duration) {
        #[cfg(feature = "simulation")]
        if let Some(runtime) = attached::runtime() {
            // Work that came meanwhile is found a step later.
            let step = if self.has_work() { Duration::from_millis(1) } else { limit };
            return (runtime.sleep)(step).await;
        }
        self.block_for_work(limit);
    }

    /// Waits for a job, at most so long.
    pub(super) async fn wait_for_job(&self, limit: Duration) {
        #[cfg(feature = "simulation")]
        if let Some(runtime) = attached::runtime() {
            return (runtime.sleep)(limit).await;
        }
        self.block_for_job(limit);
    }
}

/// Lets a span pass.
pub(super) async fn pass(span: Duration) {
    #[cfg(feature = "simulation")]
    if let Some(runtime) = attached::runtime() {
        return (runtime.sleep)(span).await;
    }
    std::thread::sleep(span);
}

/// Runs a loop on this thread, where all its waiting is done in place.
pub(crate) fn in_place(running: impl Future<Output = ()>) {
    let polled = pin!(running).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready(), "what waits in place is never pending");
}
