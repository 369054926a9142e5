//! What a disk is to the store: reads, writes and flushes that end some time, with an error maybe.
//!
//! [`FileDevice`](super::file::FileDevice) is a block device or a file; [`SimulatedDevice`](super::simulation::SimulatedDevice) is memory
//! with the faults of a drive, by a seed. An I/O owns its buffer until it ends: who stops waiting
//! detaches from it and frees nothing the kernel may still write to.

use super::block::{Block, Buffer};
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why an I/O failed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum IoError {
    /// The device is gone or was given up.
    #[error("the device is closed")]
    Closed,
    /// The kernel's `errno`.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Failed(i32),
    /// Another process has the device.
    #[error("another process has it")]
    Taken,
    /// It ended before its end.
    #[error("the device moved fewer bytes than it was asked for")]
    Short,
    /// It did not end in time.
    #[error("the device did not answer in time")]
    TimedOut,
}

impl IoError {
    /// The kernel's word for want of space.
    pub const NO_SPACE: Self = Self::Failed(28);

    /// The kernel's word for what a device or a file system does not know.
    pub const NOT_SUPPORTED: Self = Self::Failed(95);

    /// Whether the whole device is gone, rather than a part of it.
    pub fn is_gone(self) -> bool {
        const ENXIO: i32 = 6;
        const EBADF: i32 = 9;
        const ENODEV: i32 = 19;
        // Of file systems whose server is gone.
        const ECONNABORTED: i32 = 103;
        const ENOTCONN: i32 = 107;
        const ESHUTDOWN: i32 = 108;
        const ESTALE: i32 = 116;
        match self {
            Self::Closed => true,
            Self::Failed(code) => matches!(
                code,
                ENXIO | EBADF | ENODEV | ECONNABORTED | ENOTCONN | ESHUTDOWN | ESTALE
            ),
            Self::Taken | Self::Short | Self::TimedOut => false,
        }
    }

    /// Whether there was no space for a write: what is there can be read all the same.
    pub fn is_full(self) -> bool {
        const EDQUOT: i32 = 122;
        matches!(self, Self::NO_SPACE | Self::Failed(EDQUOT))
    }
}

/// How long most of what is written to a device stays there, beside all else that is written to the same drive:
/// drives that are told keep together in their cells what goes together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WriteLife {
    /// Nothing is said of it.
    #[default]
    Unsaid,
    /// As logs and databases do.
    Short,
    /// Longer than that.
    Medium,
    /// As a log that goes round once in days.
    Long,
    /// Longer still.
    Extreme,
}

/// What to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Op {
    /// Fill the buffer's first `len` bytes.
    Read,
    /// Write the buffer's first `len` bytes.
    Write,
    /// Make all writes that have ended durable.
    Flush,
}

/// One operation. Offset and length are multiples of [`super::limits::BLOCK_BYTES`].
#[derive(Debug)]
pub struct Io {
    /// What to do.
    pub op: Op,
    /// Where on the device.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
    /// Memory, at least `len` bytes.
    pub buffer: Buffer,
}

/// How an operation ended, with its buffer.
#[derive(Debug)]
pub struct Outcome {
    /// Whether all of it was done.
    pub result: Result<(), IoError>,
    /// The buffer; none where the wait was given up.
    pub buffer: Buffer,
}

/// Reads that have ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReadTimes {
    /// How many.
    pub count: u64,
    /// How long they took together, in microseconds.
    pub total_us: u64,
}

impl ReadTimes {
    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.wrapping_sub(earlier.count),
            total_us: self.total_us.wrapping_sub(earlier.total_us),
        }
    }

    /// How long one took on the average, in microseconds.
    pub fn mean_us(self) -> Option<f64> {
        (self.count > 0).then(|| self.total_us as f64 / self.count as f64)
    }
}

/// A device of blocks.
pub trait Device: Send + Sync + fmt::Debug {
    /// Its length.
    fn bytes(&self) -> u64;

    /// Begins an operation. Never waits for the device.
    fn submit(&self, io: Io) -> Completion;

    /// Waits for an operation on this thread, at most `limit`.
    fn wait(&self, completion: Completion, limit: Duration) -> Outcome;

    /// Reads under way now: writes step back for them.
    fn reads_in_flight(&self) -> usize;

    /// How long the device has had work and finished none of it.
    fn stalled(&self) -> Duration;

    /// Reads that have ended so far, and how long they took.
    fn read_times(&self) -> ReadTimes;

    /// Reads `len` bytes for nothing but to see how long that takes.
    ///
    /// # Errors
    /// Why they cannot be read, or not within `limit`.
    fn probe(&self, offset: u64, len: usize, limit: Duration) -> Result<Duration, IoError> {
        let began = Instant::now();
        let buffer = Buffer::Block(Block::new(len));
        let done = self.submit(Io { op: Op::Read, offset, len, buffer });
        self.wait(done, limit).result.map(|()| began.elapsed())
    }

    /// Has what is below it keep blocks for the first `bytes`, so that writes there do not fail where
    /// something else takes all its space.
    fn reserve_blocks(&self, _bytes: u64) {}

    /// Whether it is a device of blocks, and not a file in a file system that has one.
    fn is_block_device(&self) -> bool {
        false
    }

    /// Says how long most of what is written there stays, where the kernel takes such a word.
    fn hint_life(&self, _life: WriteLife) {}

    /// Begins to tell the device that nothing of a range is of use any more, of whole blocks: it may read as
    /// zeroes from now on, or as it did. Never waits for the device; who does waits on the completion
    /// itself, and writes nothing there before.
    fn discard(&self, _range: Range<u64>) -> Completion {
        let (completion, finish) = Completion::new();
        finish.finish(Err(IoError::NOT_SUPPORTED), Buffer::None);
        completion
    }

    /// Lets another process have the device. It can still be read here, and what is read may be of
    /// the other one.
    fn share(&self) {}

    /// Lets the device go; what is under way ends by itself or never.
    fn close(&self);
}

impl dyn Device + '_ {
    /// Reads `len` bytes into a new block.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn read(&self, offset: u64, len: usize) -> Result<Block, IoError> {
        let buffer = Buffer::Block(Block::new(len));
        let done = self.submit(Io { op: Op::Read, offset, len, buffer });
        let outcome = self.wait(done, super::limits::IO_TIMEOUT);
        outcome.result.map(|()| outcome.buffer.into_block())
    }

    /// Writes a block.
    ///
    /// # Errors
    /// Why it may not have been written.
    pub fn write(&self, offset: u64, block: Block) -> Result<(), IoError> {
        let len = block.len();
        let done = self.submit(Io { op: Op::Write, offset, len, buffer: Buffer::Block(block) });
        self.wait(done, super::limits::IO_TIMEOUT).result
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// Why it may not be.
    pub fn flush(&self) -> Result<(), IoError> {
        let done = self.submit(Io { op: Op::Flush, offset: 0, len: 0, buffer: Buffer::None });
        self.wait(done, super::limits::IO_TIMEOUT).result
    }
}

/// The end of an operation, to come. Dropping it only stops the waiting.
#[derive(Debug)]
pub struct Completion(Arc<Shared>);

/// The device's side of a [`Completion`]. Dropped without an outcome it says that the device is
/// closed.
#[derive(Debug)]
pub struct Finish(Option<Arc<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Completion {
    /// A completion and the other side of it.
    pub fn new() -> (Self, Finish) {
        let shared = Arc::new(Shared::default());
        (Self(Arc::clone(&shared)), Finish(Some(shared)))
    }

    /// Whether the outcome is there.
    pub fn is_ready(&self) -> bool {
        self.0.lock().outcome.is_some()
    }

    /// The outcome, if it is there.
    pub fn take(&self) -> Option<Outcome> {
        self.0.lock().outcome.take()
    }

    /// Blocks this thread until the outcome is there, at most `limit`.
    pub fn wait(self, limit: Duration) -> Outcome {
        let state = self.0.lock();
        let waiting =
            self.0.ended.wait_timeout_while(state, limit, |state| state.outcome.is_none());
        let (mut state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state
            .outcome
            .take()
            .unwrap_or(Outcome { result: Err(IoError::TimedOut), buffer: Buffer::None })
    }
}

impl Future for Completion {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.0.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Finish {
    /// Ends the operation.
    pub fn finish(mut self, result: Result<(), IoError>, buffer: Buffer) {
        self.end(Outcome { result, buffer });
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(shared) = self.0.take() else { return };
        let mut state = shared.lock();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        shared.ended.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        self.end(Outcome { result: Err(IoError::Closed), buffer: Buffer::None });
    }
}
