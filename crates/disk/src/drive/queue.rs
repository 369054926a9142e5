//! What waits for a disk's thread.

use super::Disk;
use super::waiting::pass;
use crate::erase::Asked;
use crate::intake::Description;
use crate::limits::{PURGE_DELAY, QUEUE_BYTES_MAX};
use freshet_base::ledger::Ledger;
use freshet_device::block::Block;
use freshet_device::{Completion, Finish};
use freshet_store::{Body, BodyReader, Standing};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// What is to be written.
pub(crate) enum Job {
    Object { description: Description, offered: Offered },
    Chunk { of: (u128, u64), object: u128, number: u32, chunk_bytes: u32, len: usize, block: Block },
    Head { description: Description, object: u128, total: u64, chunk_bytes: u32, last: Last },
    Renewal { description: Description, body: Arc<Body> },
    Drain(Finish),
    Erase(Asked, Finish),
    Release,
    Stop,
}

impl Job {
    /// Bytes of what would be new on the disk, where it is that.
    pub(super) fn new_bytes(&self) -> Option<u64> {
        match self {
            Self::Object { offered, .. } => Some(offered.body.total().unwrap_or(0)),
            Self::Chunk { len, .. } | Self::Head { last: (_, len), .. } => Some(*len as u64),
            Self::Renewal { description, .. } => Some(description.meta.len() as u64),
            Self::Drain(_) | Self::Erase(..) | Self::Release | Self::Stop => None,
        }
    }
}

/// A body that waits to be written. Where it is dropped before that, it was refused.
pub(crate) struct Offered {
    body: Arc<Body>,
    generation: Arc<AtomicU32>,
    /// Its bytes stay.
    _hold: BodyReader,
}

impl Offered {
    /// A body whose bytes `hold` keeps.
    pub(super) const fn new(body: Arc<Body>, generation: Arc<AtomicU32>, hold: BodyReader) -> Self {
        Self { body, generation, _hold: hold }
    }

    pub(super) const fn body(&self) -> &Arc<Body> {
        &self.body
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if self.body.standing() == Standing::Waits {
            self.body.set_standing(Standing::Refused(self.generation.load(Relaxed)));
        }
    }
}

/// The last bytes of an object: a block and how much of it they fill.
pub(crate) type Last = (Block, usize);

#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    has_purges: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs", self.jobs.len())
    }
}

impl Disk {
    /// Ends when all that was offered so far has been written.
    pub fn drain(&self) -> Completion {
        let (completion, finish) = Completion::new();
        self.push(Job::Drain(finish));
        completion
    }

    /// Has all overwritten that is purged by then. The completion ends when it has begun durably: it is
    /// gone on with until it is done, by the next process too. A disk that is away has no thread that
    /// would come to it soon: it is not asked.
    pub(crate) fn erase(&self, asked: Asked) -> Option<Completion> {
        if self.volume().is_none() || self.is_released() {
            return None;
        }
        let (completion, finish) = Completion::new();
        self.push(Job::Erase(asked, finish));
        Some(completion)
    }

    /// Tells the thread that there are purges to be made durable.
    pub(crate) fn has_purges(&self) {
        self.queue().has_purges = true;
        self.more.notify_one();
    }

    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.is_writable()
            && self.queued_bytes.load(Relaxed) + bytes.min(QUEUE_BYTES_MAX / 2) <= QUEUE_BYTES_MAX
    }

    /// Counts what found no room. It may come again once there is some.
    pub(crate) fn turn_away(&self) {
        self.counts.refused_busy.add(1);
        self.has_turned_away.store(true, Relaxed);
    }

    /// A job is done that so many bytes waited with. Once half of the queue is free, what was turned away
    /// is worth offering again: without that it would wait until the log reclaims something.
    pub(super) fn leave(&self, bytes: u64) {
        let left = self.queued_bytes.give_back(bytes, Relaxed);
        if left <= QUEUE_BYTES_MAX / 2 && self.has_turned_away.swap(false, Relaxed) {
            self.common.begin_generation();
        }
    }

    pub(crate) fn push(&self, job: Job) {
        self.queued_bytes.fetch_add(job.new_bytes().unwrap_or(0), Relaxed);
        self.queue().jobs.push_back(job);
        self.more.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks this thread until there is a job, at most so long.
    pub(super) fn block_for_job(&self, limit: Duration) {
        let idle = |queue: &mut Queue| queue.jobs.is_empty();
        let _ = self.more.wait_timeout_while(self.queue(), limit, idle);
    }

    /// Blocks this thread until there is a job or a purge, at most so long.
    pub(super) fn block_for_work(&self, limit: Duration) {
        let idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.has_purges;
        let _ = self.more.wait_timeout_while(self.queue(), limit, idle);
    }

    /// Whether there is a job or a purge.
    #[cfg(feature = "simulation")]
    pub(super) fn has_work(&self) -> bool {
        let queue = self.queue();
        !queue.jobs.is_empty() || queue.has_purges
    }

    /// Drops all that waits; true where the thread was told to stop.
    pub(super) fn drop_all(&self) -> bool {
        let mut queue = self.queue();
        let jobs = std::mem::take(&mut queue.jobs);
        queue.has_purges = false;
        drop(queue);
        self.leave(jobs.iter().filter_map(Job::new_bytes).sum());
        jobs.iter().any(|job| matches!(job, Job::Stop))
    }

    /// What to do next, once there is something or after this time; and whether there are purges to be
    /// made durable.
    pub(super) async fn next_job(&self, limit: Duration) -> (Option<Job>, bool) {
        self.wait_for_work(limit).await;
        let (job, has_purges) = self.take_work();
        if has_purges {
            // Others that come just now share the flush.
            pass(PURGE_DELAY).await;
        }
        (job, has_purges)
    }

    fn take_work(&self) -> (Option<Job>, bool) {
        let mut queue = self.queue();
        let has_purges = std::mem::take(&mut queue.has_purges);
        (queue.jobs.pop_front(), has_purges)
    }
}
