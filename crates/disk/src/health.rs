//! How a disk is, and what says so.

use super::limits::{BLOCK_BYTES, IO_TIMEOUT};
use super::pace::{Pace, Second};
use super::volume::Volume;
use super::writer::Writer;
use crate::error::DiskError;
use freshet_base::splitmix::mixed;
use freshet_device::{IoError, ReadTimes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Failed operations within [`FAILURE_WINDOW`] at which a disk is left, where they are also more
/// than one in [`OPERATIONS_PER_FAILURE`]: bad places of a large disk that does much are no reason.
const FAILURES_MAX: u64 = 8;
const OPERATIONS_PER_FAILURE: u64 = 100;
const FAILURE_WINDOW: Duration = Duration::from_secs(10);
/// How long a disk may have work and finish none before it is suspect.
const STALL_MAX: Duration = Duration::from_secs(1);
/// How often it is judged whether a disk is slow.
const JUDGED_EVERY: Duration = Duration::from_secs(1);
/// Bytes in such a time at which a disk is written to; its journal alone is less.
const MUCH_BYTES: u64 = 1 << 20;
/// What a probe reads.
const PROBE_BYTES: usize = 16 << 10;
/// How long a probe is waited for. A disk that takes longer is slow, and the thread that asks has
/// to look whether it answers at all.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// Reads here and there that tell bad places from a bad disk: after a read that failed, and before
/// a disk that was left is used again.
const TRIAL_READS: u64 = 16;
/// Failures of these at which a disk in use is left.
const TRIAL_FAILURES_LEFT: u64 = 8;
/// Failures of these with which a disk that was left is used again.
const TRIAL_FAILURES_TRUSTED: u64 = 2;
/// How often a disk is tried out while reads fail.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// How long nothing new is written to a disk without space, at first and at most: each attempt costs
/// the content of a segment.
const SHORT_FIRST: Duration = Duration::from_secs(10);
const SHORT_MAX: Duration = Duration::from_secs(600);

/// How a disk is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Health {
    /// It is read and written.
    Healthy,
    /// There is no space for what is new on its file system: it is read.
    Full,
    /// It answers late, as is said here: it gets nothing new, and what it has is read where it
    /// answers in time.
    Suspect(String),
    /// It is not used; why, and that it is looked after.
    Offline(String),
    /// The node stops.
    Stopped,
}

impl Health {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Full => "full",
            Self::Suspect(_) => "suspect",
            Self::Offline(_) => "offline",
            Self::Stopped => "stopped",
        }
    }

    /// Why it is not healthy, where there is a reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Suspect(why) | Self::Offline(why) => Some(why),
            Self::Full => Some("its file system has no space for what is new"),
            Self::Healthy | Self::Stopped => None,
        }
    }
}

/// How long reads of each disk of a node took in the last second, in microseconds; 0 of those that
/// were not read.
#[derive(Clone, Debug)]
pub(super) struct Levels(Arc<[AtomicU64]>);

impl Levels {
    /// For this many disks.
    pub(super) fn new(disks: usize) -> Self {
        Self((0..disks).map(|_| AtomicU64::new(0)).collect())
    }

    fn set(&self, disk: usize, read_us: Option<f64>) {
        if let Some(level) = self.0.get(disk) {
            level.store(read_us.map_or(0, |us| us.max(1.0) as u64), Relaxed);
        }
    }

    /// How long reads of a disk took in the last second that had any.
    pub(super) fn of(&self, disk: usize) -> Duration {
        Duration::from_micros(self.0.get(disk).map_or(0, |level| level.load(Relaxed)))
    }

    /// What is in the middle of the other disks.
    fn beside(&self, disk: usize) -> Option<f64> {
        let others = self.0.iter().enumerate().filter(|(number, _)| *number != disk);
        let mut known: Vec<u64> =
            others.map(|(_, us)| us.load(Relaxed)).filter(|us| *us > 0).collect();
        known.sort_unstable();
        known.get(known.len() / 2).map(|us| *us as f64)
    }
}

/// Looks after a volume in use.
pub(super) struct Watch<'a> {
    volume: Arc<Volume>,
    levels: Levels,
    /// Which of the levels is this disk's.
    number: usize,
    /// Known longer than the volume is open.
    pace: &'a mut Pace,
    judged: Instant,
    /// Bytes written until then.
    written: u64,
    seen: ReadTimes,
    window: Instant,
    failures: u64,
    reads: u64,
    /// Reads that had failed when the disk was tried out last, and when that was.
    read_errors: u64,
    tried: Option<Instant>,
    /// When it last answered though it seemed to finish nothing.
    answered: Option<Instant>,
    random: u64,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        volume: &Arc<Volume>,
        (levels, number): (Levels, usize),
        pace: &'a mut Pace,
        now: Instant,
    ) -> Self {
        Self {
            levels,
            number,
            pace,
            judged: now,
            written: volume.books().written.total(),
            seen: volume.device().read_times(),
            window: now,
            failures: volume.failures(),
            reads: volume.counts().reads.value(),
            read_errors: volume.counts().read_errors.value(),
            tried: None,
            answered: None,
            random: (volume.common.now_us)(),
            volume: Arc::clone(volume),
        }
    }

    /// What the disk is like. Reads from it where that is in doubt, and waits for that
    /// [`PROBE_LIMIT`] at most.
    pub(super) fn look(&mut self, now: Instant) -> Health {
        let failures = self.volume.failures() - self.failures;
        let reads = self.volume.counts().reads.value() - self.reads;
        if self.volume.is_gone() {
            return Health::Offline("the device is gone".into());
        }
        if failures >= FAILURES_MAX && failures * OPERATIONS_PER_FAILURE > reads {
            return Health::Offline(format!("{failures} operations failed within seconds"));
        }
        let stalled = self.volume.device().stalled();
        if stalled >= IO_TIMEOUT {
            return Health::Offline(format!("no answer for {} s", stalled.as_secs()));
        }
        if let Some(failed) = self.try_out(now) {
            return Health::Offline(format!("{failed} reads in {TRIAL_READS} fail"));
        }
        if now.duration_since(self.window) >= FAILURE_WINDOW {
            self.window = now;
            self.failures = self.volume.failures();
            self.reads = self.volume.counts().reads.value();
        }
        if stalled >= STALL_MAX && !self.answers(now) {
            self.pace.note_stall(now);
        } else if now.duration_since(self.judged) >= JUDGED_EVERY {
            self.judged = now;
            self.judge(now);
        }
        match self.pace.suspicion() {
            Some(why) => Health::Suspect(why.to_owned()),
            None => Health::Healthy,
        }
    }

    /// Whether a disk that seems to finish nothing answers who waits for nothing else: it is the processor then
    /// that has too much to do. One that does not is not asked again before it finishes something.
    fn answers(&mut self, now: Instant) -> bool {
        if self.answered.is_some_and(|at| now.duration_since(at) < JUDGED_EVERY) {
            return true;
        }
        self.random = self.random.wrapping_add(1);
        let is_asked = self.pace.suspicion().is_none();
        let took = if is_asked { probe(&self.volume, mixed(self.random)) } else { None };
        let answers = took.is_some_and(|took| took < PROBE_LIMIT);
        self.answered = answers.then_some(now);
        answers
    }

    /// How long a read of the disk is waited for while it is suspect.
    pub(super) fn hedge_after(&self) -> Duration {
        self.pace.hedge_after()
    }

    /// Tries the disk out where a read failed; how many fail, where it is to be left for that.
    fn try_out(&mut self, now: Instant) -> Option<u64> {
        let read_errors = self.volume.counts().read_errors.value();
        let was_lately = self.tried.is_some_and(|at| now.duration_since(at) < TRIED_EVERY);
        if read_errors == self.read_errors || was_lately {
            return None;
        }
        self.read_errors = read_errors;
        self.tried = Some(now);
        self.random = self.random.wrapping_add(1);
        // One that does not answer is noticed as that.
        let failed = trial(&self.volume, self.random).unwrap_or(0);
        (failed >= TRIAL_FAILURES_LEFT).then_some(failed)
    }

    /// Judges the second that has passed.
    fn judge(&mut self, now: Instant) {
        let times = self.volume.device().read_times();
        let reads = times.since(self.seen);
        self.levels.set(self.number, reads.mean_us());
        let peers_us = self.levels.beside(self.number);
        let written = self.volume.books().written.total();
        let is_written = written.saturating_sub(self.written) >= MUCH_BYTES;
        self.written = written;
        self.random = self.random.wrapping_add(1);
        let (volume, mut random) = (&self.volume, mixed(self.random));
        let second = Second { reads, is_written, peers_us };
        self.pace.judge(second, now, || {
            random = mixed(random);
            probe(volume, random)
        });
        // Without the probe: it says what the disk does, and not what its users see.
        self.seen = self.volume.device().read_times();
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.levels.set(self.number, None);
    }
}

/// How long a read takes of a place where something is; `None` where nothing is, or where that place
/// is bad.
fn probe(volume: &Volume, random: u64) -> Option<Duration> {
    let offset = volume.written_place(random)?;
    match volume.device().probe(offset, PROBE_BYTES, PROBE_LIMIT) {
        Ok(took) => Some(took),
        Err(IoError::TimedOut) => Some(PROBE_LIMIT),
        Err(_) => None,
    }
}

/// Reads here and there from a disk that was left, before it is used again.
///
/// # Errors
/// Too many of the reads failed, or it did not answer in time.
pub(super) fn try_out(volume: &Volume, random: u64) -> Result<(), DiskError> {
    match trial(volume, random)? {
        0..=TRIAL_FAILURES_TRUSTED => Ok(()),
        failed => Err(DiskError::DeviceFailing { failed, reads: TRIAL_READS }),
    }
}

/// How many of [`TRIAL_READS`] reads here and there fail.
fn trial(volume: &Volume, random: u64) -> Result<u64, IoError> {
    let mut failed = 0;
    for number in 0..TRIAL_READS {
        let Some(offset) = volume.written_place(mixed(random ^ number << 32)) else { break };
        match volume.device().probe(offset, PROBE_BYTES, PROBE_LIMIT) {
            Ok(_) => {}
            Err(IoError::TimedOut) => return Err(IoError::TimedOut),
            Err(_) => failed += 1,
        }
    }
    Ok(failed)
}

/// Whether there is space for what is new. A store of which not all blocks were reserved can lie on
/// a file system that has become full.
pub(super) struct Space {
    short_until: Option<Instant>,
    pause: Duration,
}

impl Space {
    pub(super) fn new() -> Self {
        Self { short_until: None, pause: Duration::ZERO }
    }

    /// Whether nothing new is to be written now.
    pub(super) fn is_short(&self, now: Instant) -> bool {
        self.short_until.is_some_and(|until| now < until)
    }

    /// Takes note of how writing ended. Segments that were never written are gone through without a
    /// pause: those that were may have space still.
    pub(super) fn note(&mut self, result: &Result<(), DiskError>, writer: &Writer, now: Instant) {
        let Err(DiskError::DeviceIo(error)) = result else { return };
        if !error.is_full() || writer.has_unused() {
            return;
        }
        let is_again = self.short_until.is_some_and(|until| now < until + self.pause);
        let pause = if is_again { self.pause * 2 } else { SHORT_FIRST };
        self.pause = pause.min(SHORT_MAX);
        self.short_until = Some(now + self.pause);
    }
}

/// Whether a volume is to be left at once, rather than after several such errors.
pub(super) fn is_fatal(error: &DiskError) -> bool {
    match error {
        DiskError::JournalLost(_) => true,
        DiskError::DeviceIo(error) => error.is_gone() || *error == IoError::TimedOut,
        _ => false,
    }
}

const _: () = assert!((PROBE_BYTES as u64).is_multiple_of(BLOCK_BYTES));
