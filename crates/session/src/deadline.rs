//! A time limit that a connection keeps and moves, instead of a timer for each wait.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// One timer of a connection. Moving it later costs an atomic store; only a wait that really has
/// to wait touches it.
pub(super) struct Deadline(Pin<Box<Sleep>>);

/// The time limit was reached.
#[derive(Debug)]
pub(super) struct Expired;

impl Deadline {
    /// A timer that is not running yet.
    pub(super) fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }

    /// Waits for `work`, at most for `limit`.
    ///
    /// # Errors
    /// [`Expired`] when the time is over first.
    pub(super) async fn within<T>(
        &mut self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Expired> {
        let mut work = pin!(work);
        let mut armed = false;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            if !armed {
                self.0.as_mut().reset(Instant::now() + limit);
                armed = true;
            }
            self.0.as_mut().poll(cx).map(|()| Err(Expired))
        })
        .await
    }
}
