//! How long a page may have nothing for its client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Time in which a page had nothing for its client. That in which the client did not take what there
/// was is the client's.
#[derive(Debug)]
pub(super) struct Work {
    left: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Work {
    /// This much of it.
    pub(super) fn new(left: Duration) -> Self {
        Self { left, waiting: None }
    }

    /// There is nothing for the client: ready when that was so for too long.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let begin = || (Instant::now(), Box::pin(sleep(self.left)));
        let (_, timer) = self.waiting.get_or_insert_with(begin);
        timer.as_mut().poll(cx)
    }

    /// There is something.
    pub(super) fn pause(&mut self) {
        if let Some((since, _)) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }
}
