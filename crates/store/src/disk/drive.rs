//! One configured disk: its thread, its health, and its coming and going.
//!
//! ```text
//!                           suspect ─────── a hang ─────┐
//!                    slow │  ▲  │ fast                  ▼
//!            ┌── opened ──►  healthy ── errors, a hang ──► offline ─┐
//!  offline ──┤                 ▲                                    │ every few seconds
//!            └── not yet ◄─────┴──────── opened again ◄─────────────┘
//! ```
//! The thread writes. When the disk fails it drops the volume, which turns its share into misses,
//! and tries to open it anew: the same way as when the node starts, so content and purges are what
//! recovery finds. Nobody who serves ever waits for this thread.

use super::block::Block;
use super::budget::{Budget, Use};
use super::device::{Completion, Device, Finish, IoError};
use super::file::FileDevice;
use super::health::{Health, Levels, Space, Watch, is_fatal, try_out};
use super::intake::Description;
use super::limits::{CHECKPOINT_EVERY, FLUSH_EVERY, PURGE_DELAY, QUEUE_BYTES_MAX, WRITE_DELAY};
use super::pace::Pace;
use super::recovery::{self, Opened};
use super::ring::Ring;
use super::stream::ObjectStream;
use super::superblock::{Superblock, Uuid};
use super::takes::Takes;
use super::volume::{Common, Volume, VolumeStats};
use super::writer::Writer;
use crate::body::{Body, BodyReader, Standing};
use crate::error::DiskError;
use freshet_base::counter::SharedCounter;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long the thread waits before it looks after a disk it could not open, at first and at most:
/// a disk that works again is back within twice the latter.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// How often a disk is tried that another process has: it is about to let go of it.
const RETRY_TAKEN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// How long a disk has to be used before it is looked after as often as at first when it fails
/// again: one that fails once it is used does not come and go all the time.
const RETRY_FORGOTTEN: Duration = Duration::from_secs(60);
/// Why a disk is not opened yet when a node is upgraded.
const TAKEN: &str = "another process has it";
/// How often the thread looks around while nothing comes.
const TICK: Duration = Duration::from_millis(100);

/// A disk as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// File or block device.
    pub path: PathBuf,
    /// Length of a file that is made; a device is used whole.
    pub bytes: Option<u64>,
    /// Share of new content beside other disks; its length in bytes where this is `None`.
    pub weight: Option<f64>,
    /// How often a day the drive may be written whole.
    pub drive_writes: f64,
    /// Mean length of what is stored, for a file that is made.
    pub object_bytes: Option<u64>,
    /// Whether content that was used is kept when its segment is freed.
    pub keeps: bool,
    /// What may go there.
    pub takes: Takes,
}

/// What is to be written.
pub(super) enum Job {
    Object { description: Description, offered: Offered },
    Chunk { key: u128, object: u128, number: u32, chunk_bytes: u32, len: usize, block: Block },
    Head { description: Description, object: u128, total: u64, chunk_bytes: u32, last: Last },
    Drain(Finish),
    Release,
    Stop,
}

impl Job {
    /// Bytes of what would be new on the disk, where it is that.
    fn new_bytes(&self) -> Option<u64> {
        match self {
            Self::Object { offered, .. } => Some(offered.body.total().unwrap_or(0)),
            Self::Chunk { len, .. } | Self::Head { last: (_, len), .. } => Some(*len as u64),
            Self::Drain(_) | Self::Release | Self::Stop => None,
        }
    }
}

/// A body that waits to be written. Where it is dropped before that, it was refused.
pub(super) struct Offered {
    body: Arc<Body>,
    generation: Arc<AtomicU32>,
    /// Its bytes stay.
    _hold: BodyReader,
}

impl Drop for Offered {
    fn drop(&mut self) {
        if self.body.standing() == Standing::Waits {
            self.body.set_standing(Standing::Refused(self.generation.load(Relaxed)));
        }
    }
}

/// The last bytes of an object: a block and how much of it they fill.
pub(super) type Last = (Block, usize);

/// One disk of a node.
#[derive(Debug)]
pub struct Disk {
    /// How it is configured.
    pub spec: DiskSpec,
    /// Counted since the node started.
    pub counts: DiskCounts,
    /// The set it has to be of; `None` where none was to be seen when the node started.
    set: Option<Uuid>,
    common: Common,
    levels: Levels,
    /// Which disk of the node it is.
    number: usize,
    volume: RwLock<Option<Arc<Volume>>>,
    health: Mutex<Health>,
    is_writable: AtomicBool,
    is_released: AtomicBool,
    queue: Mutex<Queue>,
    more: Condvar,
    queued_bytes: AtomicU64,
    identity: AtomicU64,
    budget: Mutex<Option<Arc<Budget>>>,
}

/// What is counted of a disk besides its volume.
#[derive(Debug, Default)]
pub struct DiskCounts {
    /// Objects not written because too much waited already, or the disk was not healthy.
    pub refused_busy: SharedCounter,
    /// Objects not written because of the write budget.
    pub refused_budget: SharedCounter,
    /// Times the disk was left.
    pub left: SharedCounter,
    /// Times it was opened.
    pub opened: SharedCounter,
    /// Milliseconds the last opening took.
    pub opened_ms: AtomicU64,
}

/// What a disk is like now.
#[derive(Clone, Debug)]
pub struct DiskStats {
    /// Where it is.
    pub path: PathBuf,
    /// How it is.
    pub health: Health,
    /// What it holds, while it is open.
    pub volume: Option<VolumeStats>,
    /// Part of its write budget in use.
    pub pressure: f64,
    /// How long it lasts at this rate.
    pub life_left: Option<Duration>,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// How long a read took in the last second, on the average; zero where there was none.
    pub read_time: Duration,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    has_purges: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs", self.jobs.len())
    }
}

/// Why the thread stopped writing.
enum Left {
    Stopped,
    /// Another process takes it over.
    Released,
    Failed(String),
}

impl Disk {
    pub(super) fn new(
        spec: DiskSpec,
        set: Option<Uuid>,
        common: Common,
        (levels, number): (Levels, usize),
    ) -> Arc<Self> {
        Arc::new(Self {
            spec,
            counts: DiskCounts::default(),
            set,
            common,
            levels,
            number,
            volume: RwLock::default(),
            health: Mutex::new(Health::Offline("not opened yet".into())),
            is_writable: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            queue: Mutex::default(),
            more: Condvar::new(),
            queued_bytes: AtomicU64::new(0),
            identity: AtomicU64::new(0),
            budget: Mutex::default(),
        })
    }

    /// The volume, while the disk is in use.
    pub fn volume(&self) -> Option<Arc<Volume>> {
        self.volume.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a volume that was opened findable before the thread has begun.
    pub(super) fn show(&self, opened: Option<&Opened>) {
        if let Some(opened) = opened {
            self.put_in_use(&opened.volume);
        }
    }

    fn put_in_use(&self, volume: &Arc<Volume>) -> Arc<Budget> {
        let [id @ .., _, _, _, _, _, _, _, _] = volume.superblock().device.0;
        self.identity.store(u64::from_le_bytes(id), Relaxed);
        let account = volume.books().account;
        let budget = Arc::new(Budget::new(volume.geometry(), self.spec.drive_writes, account));
        *self.budget.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&budget));
        *self.volume.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(volume));
        self.set_health(Health::Healthy);
        budget
    }

    /// What tells it from other disks, wherever it is plugged in; 0 where it was never open.
    pub(super) fn identity(&self) -> u64 {
        self.identity.load(Relaxed)
    }

    /// What it shares with the others of its node.
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    /// Bytes for content; while it is not open what was configured, or its length.
    pub(super) fn log_bytes(&self) -> u64 {
        let open = self.volume().map(|volume| volume.geometry().log_bytes());
        let length = || FileDevice::peek(&self.spec.path).ok().map(|device| device.bytes());
        open.or(self.spec.bytes).or_else(length).unwrap_or(1)
    }

    /// How it is.
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether new content may go to it.
    pub fn is_writable(&self) -> bool {
        self.is_writable.load(Relaxed)
    }

    /// What it is like.
    pub fn stats(&self) -> DiskStats {
        let volume = self.volume().map(|volume| volume.stats());
        let now_ms = self.common.now_ms();
        let budget = self.budget();
        DiskStats {
            path: self.spec.path.clone(),
            health: self.health(),
            volume,
            pressure: budget.as_ref().map_or(0.0, |budget| budget.pressure(now_ms)),
            life_left: budget.as_ref().and_then(|budget| budget.life_left(now_ms)),
            queued_bytes: self.queued_bytes.load(Relaxed),
            read_time: self.levels.of(self.number),
        }
    }

    fn budget(&self) -> Option<Arc<Budget>> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the write budget lets so many bytes in of an object that was used like this.
    pub(super) fn admits(&self, bytes: u64, shown: Use) -> bool {
        let Some(budget) = self.budget() else { return false };
        let waiting_bytes = self.queued_bytes.load(Relaxed);
        let admitted = budget.admits(self.common.now_ms(), waiting_bytes, bytes, shown);
        self.counts.refused_budget.add(u64::from(!admitted));
        admitted
    }

    /// Has an object written whose bytes are all in memory, where there is room to wait.
    pub(super) fn offer(&self, description: Description, body: &Arc<Body>) -> bool {
        let Some(total) = body.total().filter(|_| body.is_complete() && description.fits()) else {
            return false;
        };
        let hold = body.reader(..);
        // Evicted since: its bytes are gone.
        if !body.holds(0..total) || !self.has_room(total) {
            self.counts.refused_busy.add(1);
            return false;
        }
        body.set_standing(Standing::Waits);
        let generation = Arc::clone(&self.common.generation);
        let offered = Offered { body: Arc::clone(body), generation, _hold: hold };
        self.push(Job::Object { description, offered }, total);
        true
    }

    /// Begins to write an object of which the bytes are still coming.
    pub(super) fn stream(self: &Arc<Self>, key: u128) -> Option<ObjectStream> {
        ObjectStream::begin(self, key)
    }

    /// Ends when all that was offered so far has been written.
    pub fn drain(&self) -> Completion {
        let (completion, finish) = Completion::new();
        self.push(Job::Drain(finish), 0);
        completion
    }

    /// Lets the process have it that takes over from this one, once all that was offered is written
    /// and the journal is whole. It is only read from then on.
    pub(super) fn release(&self) {
        self.is_writable.store(false, Relaxed);
        self.is_released.store(true, Relaxed);
        self.push(Job::Release, 0);
    }

    /// Whether [`Disk::release`] was called: purges are the other process' to keep.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.load(Relaxed)
    }

    pub(super) fn stop(&self) {
        self.push(Job::Stop, 0);
    }

    /// Tells the thread that there are purges to be made durable.
    pub(super) fn has_purges(&self) {
        self.queue().has_purges = true;
        self.more.notify_one();
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.is_writable()
            && self.queued_bytes.load(Relaxed) + bytes.min(QUEUE_BYTES_MAX / 2) <= QUEUE_BYTES_MAX
    }

    pub(super) fn push(&self, job: Job, bytes: u64) {
        self.queued_bytes.fetch_add(bytes, Relaxed);
        self.queue().jobs.push_back(job);
        self.more.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_health(&self, health: Health) {
        self.is_writable.store(health == Health::Healthy, Relaxed);
        let mut slot = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if *slot == health {
            return;
        }
        let path = self.spec.path.display();
        match &health {
            Health::Healthy => tracing::info!(disk = %path, "the disk is in use"),
            Health::Full => tracing::warn!(disk = %path, "the disk is full: it gets nothing new"),
            Health::Suspect(why) => {
                tracing::warn!(disk = %path, %why, "the disk is suspect: it gets nothing new")
            }
            Health::Offline(why) => tracing::warn!(disk = %path, %why, "the disk is not in use"),
            Health::Stopped => tracing::debug!(disk = %path, "the disk was closed"),
        }
        *slot = health;
    }

    /// Serves the disk until the node stops. On a thread of its own.
    pub(super) fn run(self: &Arc<Self>, first: Option<Opened>) {
        let _ring = Ring::install();
        let mut opened = first;
        let mut retry = RETRY_FIRST;
        let mut pace = Pace::new();
        loop {
            let now = match opened.take() {
                Some(opened) => Ok(opened),
                None => self.open().and_then(|opened| self.trust(opened)),
            };
            match now {
                Ok(Opened { volume, mut writer, report, last_mark }) => {
                    let begun = Instant::now();
                    tracing::info!(disk = %self.spec.path.display(), ?report, "opened");
                    if report.lost_purges {
                        tracing::warn!(
                            disk = %self.spec.path.display(),
                            "its journal of purges is not whole: what was on it is not served"
                        );
                    }
                    let left = self.serve(&volume, &mut writer, last_mark, &mut pace);
                    if matches!(left, Left::Released) {
                        tracing::info!(disk = %self.spec.path.display(), "left to the new process");
                        volume.device().share();
                        self.await_stop();
                    }
                    *self.volume.write().unwrap_or_else(PoisonError::into_inner) = None;
                    self.common.begin_generation();
                    volume.device().close();
                    if begun.elapsed() > RETRY_FORGOTTEN {
                        retry = RETRY_FIRST;
                    }
                    match left {
                        Left::Stopped | Left::Released => {
                            return self.set_health(Health::Stopped);
                        }
                        Left::Failed(why) => {
                            self.counts.left.add(1);
                            self.set_health(Health::Offline(why));
                        }
                    }
                }
                Err(error) => self.set_health(Health::Offline(explain(&error))),
            }
            if self.is_released() {
                // It was not open here, so there is nothing to wait for.
                self.await_stop();
                return self.set_health(Health::Stopped);
            }
            // Another process is about to let go of it: it is waited for without a pause that grows.
            let is_taken = self.health() == Health::Offline(TAKEN.into());
            if self.rest(if is_taken { RETRY_TAKEN } else { retry }) {
                return self.set_health(Health::Stopped);
            }
            if !is_taken {
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }

    /// Opens the device as it was left.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(&self) -> Result<Opened, DiskError> {
        let device = FileDevice::open(&self.spec.path).map_err(DiskError::DeviceOpen)?;
        let found = Superblock::read(&device)?;
        let wanted = self.set.ok_or(DiskError::DeviceLate)?;
        if found.set != wanted {
            return Err(DiskError::DeviceOfOtherSet { found: found.set, wanted });
        }
        // Content may wait for space; a journal that cannot be written costs the disk.
        device.reserve_blocks(found.geometry.segment_at(0));
        let device: Arc<dyn Device> = Arc::new(device);
        let begun = Instant::now();
        let opened = recovery::open(device, self.common.clone())?;
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counts.opened_ms.store(took, Relaxed);
        Ok(opened)
    }

    /// Makes sure that a disk which was left can be read, and not only opened.
    fn trust(&self, opened: Opened) -> Result<Opened, DiskError> {
        let left = self.counts.left.value();
        if left > 0 {
            try_out(&opened.volume, left)?;
        }
        Ok(opened)
    }

    /// Writes what comes, until told to stop or the disk fails.
    fn serve(
        &self,
        volume: &Arc<Volume>,
        writer: &mut Writer,
        last_mark: u64,
        pace: &mut Pace,
    ) -> Left {
        writer.set_keeps(self.spec.keeps);
        writer.set_budget(self.put_in_use(volume));
        self.counts.opened.add(1);
        // Purges that came between its opening and now.
        volume.catch_up(last_mark);
        let mut watch =
            Watch::new(volume, (self.levels.clone(), self.number), pace, Instant::now());
        let mut space = Space::new();
        let (mut flushed, mut checkpointed, mut waiting_since) =
            (Instant::now(), Instant::now(), None);
        loop {
            let (job, has_purges) =
                self.next_job(if waiting_since.is_some() { WRITE_DELAY } else { TICK });
            let result = match job {
                Some(job @ (Job::Stop | Job::Release)) => {
                    self.is_writable.store(false, Relaxed);
                    if let Err(error) = writer.stop() {
                        tracing::warn!(disk = %self.spec.path.display(), %error, "not closed in order");
                    }
                    return match job {
                        Job::Stop => Left::Stopped,
                        _ => Left::Released,
                    };
                }
                Some(job) => {
                    let bytes = job.new_bytes();
                    let result = if bytes.is_some() && space.is_short(Instant::now()) {
                        self.counts.refused_busy.add(1);
                        Ok(())
                    } else {
                        self.carry_out(writer, job)
                    };
                    // It is charged before it is no longer what waits.
                    writer.charge(0);
                    self.queued_bytes.fetch_sub(bytes.unwrap_or(0), Relaxed);
                    result
                }
                None => Ok(()),
            };
            let mut result = result.and_then(|()| if has_purges { writer.tend() } else { Ok(()) });
            if writer.has_waiting() {
                let since = *waiting_since.get_or_insert_with(Instant::now);
                if result.is_ok()
                    && since.elapsed() >= WRITE_DELAY
                    && self.queued_bytes.load(Relaxed) == 0
                {
                    result = writer.drain();
                    waiting_since = None;
                }
            } else {
                waiting_since = None;
            }
            if result.is_ok() && flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                result = writer.flush().and_then(|()| writer.tend());
            }
            if result.is_ok() && checkpointed.elapsed() >= CHECKPOINT_EVERY {
                checkpointed = Instant::now();
                result = writer.checkpoint_in_time();
            }
            space.note(&result, writer, Instant::now());
            if let Err(error) = &result
                && is_fatal(error)
            {
                return Left::Failed(error.to_string());
            }
            match watch.look(Instant::now()) {
                Health::Offline(why) => return Left::Failed(why),
                Health::Healthy if space.is_short(Instant::now()) => self.set_health(Health::Full),
                health => {
                    volume.set_suspect(matches!(health, Health::Suspect(_)));
                    self.set_health(health);
                }
            }
        }
    }

    /// Drops what comes until the node stops.
    fn await_stop(&self) {
        loop {
            match self.next_job(TICK).0 {
                Some(Job::Stop) => return,
                Some(Job::Drain(finish)) => {
                    finish.finish(Err(IoError::Closed), super::block::Buffer::None);
                }
                _ => {}
            }
        }
    }

    fn next_job(&self, limit: Duration) -> (Option<Job>, bool) {
        let queue = self.queue();
        let idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.has_purges;
        let waited = self.more.wait_timeout_while(queue, limit, idle);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_purges = std::mem::take(&mut queue.has_purges);
        let job = queue.jobs.pop_front();
        drop(queue);
        if has_purges {
            // Others that come just now share the flush.
            std::thread::sleep(PURGE_DELAY);
        }
        (job, has_purges)
    }

    fn carry_out(&self, writer: &mut Writer, job: Job) -> Result<(), DiskError> {
        self.step_back(writer);
        match job {
            Job::Object { description, offered } => {
                let generation = self.common.generation.load(Relaxed);
                let result = writer.store(description, &offered.body);
                if result.is_ok() {
                    offered.body.set_standing(Standing::Kept(generation));
                }
                result
            }
            Job::Chunk { key, object, number, chunk_bytes, len, block } => {
                let bytes = block.get(..len).unwrap_or(&[]);
                writer.store_chunk(key, object, number, chunk_bytes, &[bytes])
            }
            Job::Head { description, object, total, chunk_bytes, last: (block, len) } => {
                let bytes = block.get(..len).unwrap_or(&[]);
                writer.store_head(description, object, (total, chunk_bytes), &[bytes])
            }
            Job::Drain(finish) => {
                let result = writer.drain().and_then(|()| writer.flush());
                let result = result.map_err(|_| IoError::Closed);
                finish.finish(result, super::block::Buffer::None);
                Ok(())
            }
            Job::Release | Job::Stop => Ok(()),
        }
    }

    /// Lets reads pass while there is time.
    fn step_back(&self, writer: &Writer) {
        let device = writer.volume().device();
        let mut left = 8;
        while left > 0
            && device.reads_in_flight() > 4
            && self.queued_bytes.load(Relaxed) < QUEUE_BYTES_MAX / 2
        {
            std::thread::sleep(Duration::from_millis(1));
            left -= 1;
        }
    }

    /// Waits and drops what is offered meanwhile; true when told to stop.
    fn rest(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        loop {
            let mut queue = self.queue();
            let jobs: Vec<Job> = queue.jobs.drain(..).collect();
            queue.has_purges = false;
            drop(queue);
            self.queued_bytes.store(0, Relaxed);
            if jobs.iter().any(|job| matches!(job, Job::Stop)) {
                return true;
            }
            drop(jobs);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let queue = self.queue();
            let idle = |queue: &mut Queue| queue.jobs.is_empty();
            let _ = self.more.wait_timeout_while(queue, left, idle);
        }
    }
}

fn explain(error: &DiskError) -> String {
    match error {
        DiskError::DeviceOpen(IoError::Taken) => TAKEN.into(),
        other => other.to_string(),
    }
}
