//! What putting one page together costs, over the page a client asked for and all within it.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Counts of one page.
#[derive(Debug, Default)]
pub struct Spent {
    includes: Cell<u32>,
    bytes: Cell<u64>,
}

/// Time in which a page had nothing for its client. That in which the client did not take what there
/// was is the client's.
#[derive(Debug)]
pub(super) struct Work {
    left: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Spent {
    /// Counts an include; how many came before it.
    pub(super) fn include(&self) -> u32 {
        let before = self.includes.get();
        self.includes.set(before.saturating_add(1));
        before
    }

    /// Counts bytes for the client; how many there are now.
    pub(super) fn add(&self, bytes: usize) -> u64 {
        let sum = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(sum);
        sum
    }
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
