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

mod queue;
mod thread;
mod waiting;

use super::budget::{Budget, Use};
use super::erasure::Progress;
use super::health::{Health, Levels};
use super::intake::Description;
use super::limits::OBJECT_BYTES_DEFAULT;
use super::recovery::Opened;
use super::stream::ObjectStream;
use super::superblock::Uuid;
use super::takes::Takes;
use super::volume::{Common, Volume, VolumeStats};
use freshet_base::counter::SharedCounter;
use freshet_device::WriteLife;
use freshet_device::place;
use freshet_store::{Body, Standing};
pub(super) use queue::Job;
use queue::{Offered, Queue};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
pub(super) use waiting::in_place;

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
    /// Whether the drive is told what it need not keep.
    pub discard: Discard,
    /// How long most of what is written stays, as the drive is told.
    pub write_life: WriteLife,
    /// What may go there.
    pub takes: Takes,
}

/// Whether a drive is told what it need not keep.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Discard {
    /// Where the store is a device of blocks. A file would give away the blocks that were reserved for it.
    #[default]
    Devices,
    /// Also where it is a file.
    Always,
    /// Never.
    Never,
}

impl Discard {
    fn is_for(self, is_block_device: bool) -> bool {
        match self {
            Self::Devices => is_block_device,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

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
    /// Whether something found too much waiting since there was last room.
    has_turned_away: AtomicBool,
    identity: AtomicU64,
    budget: Mutex<Option<Arc<Budget>>>,
}

/// What is counted of a disk besides its volume.
#[derive(Debug, Default)]
pub struct DiskCounts {
    /// Objects not written because too much waited already, or the disk was not healthy.
    pub refused_busy: SharedCounter,
    /// Objects not written because nothing showed that they will be asked for again.
    pub refused_unproven: SharedCounter,
    /// Objects not written because of the write budget.
    pub refused_budget: SharedCounter,
    /// Objects not written because what they are of has all that it may have of the disks.
    pub refused_share: SharedCounter,
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
            has_turned_away: AtomicBool::new(false),
            identity: AtomicU64::new(0),
            budget: Mutex::default(),
        })
    }

    /// The volume, while the disk is in use.
    pub fn volume(&self) -> Option<Arc<Volume>> {
        self.volume.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its last erasure, while it is in use.
    pub fn erasure(&self) -> Option<Progress> {
        self.volume()?.erasure()
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

    /// The same in the words of [`Uuid`], also while it is away; `None` where it was never open.
    pub fn id(&self) -> Option<String> {
        let mut id = Uuid([0; 16]);
        let (told, _) = id.0.split_at_mut(size_of::<u64>());
        told.copy_from_slice(&self.identity().to_le_bytes());
        (self.identity() != 0).then(|| id.to_string())
    }

    /// What it shares with the others of its node.
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    /// Bytes for content; while it is not open what was configured, or its length.
    pub(super) fn log_bytes(&self) -> u64 {
        let open = self.volume().map(|volume| volume.geometry().log_bytes());
        open.or(self.spec.bytes).or_else(|| place::bytes(&self.spec.path)).unwrap_or(1)
    }

    /// Objects of the configured length there is room for.
    pub(super) fn objects_planned(&self) -> u64 {
        self.log_bytes() / self.spec.object_bytes.unwrap_or(OBJECT_BYTES_DEFAULT).max(1)
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

    /// Whether the tactic and the write budget let so many bytes in of an object that was used like
    /// this.
    pub(super) fn admits(&self, bytes: u64, shown: Use) -> bool {
        let Some(budget) = self.budget() else { return false };
        let is_filling = self.volume().is_some_and(|volume| volume.is_filling());
        if !self.common.tactic().admits(shown, is_filling) {
            self.counts.refused_unproven.add(1);
            return false;
        }
        let waiting_bytes = self.queued_bytes.load(Relaxed);
        let admitted = budget.admits(self.common.now_ms(), waiting_bytes, bytes, shown);
        self.counts.refused_budget.add(u64::from(!admitted));
        admitted
    }

    /// Whether what is of this share may take so many bytes more of the disks.
    pub(super) fn has_share(&self, share: u64, bytes: u64) -> bool {
        let has_room = self.common.shares.has_room(share, bytes);
        self.counts.refused_share.add(u64::from(!has_room));
        has_room
    }

    /// Has an object written whose bytes are all in memory, where there is room to wait.
    pub(super) fn offer(&self, description: Description, body: &Arc<Body>) -> bool {
        let Some(total) = body.total().filter(|_| body.is_complete() && description.fits()) else {
            return false;
        };
        let hold = body.reader(..);
        // Evicted since: its bytes are gone.
        if !body.holds(0..total) || !self.has_room(total) {
            self.turn_away();
            return false;
        }
        body.set_standing(Standing::Waits);
        let generation = Arc::clone(&self.common.generation);
        let offered = Offered::new(Arc::clone(body), generation, hold);
        self.push(Job::Object { description, offered });
        true
    }

    /// Has new words about an object written that it has, or is about to; see
    /// [`super::renewal`].
    pub(super) fn renew(&self, description: Description, body: &Arc<Body>) -> bool {
        let bytes = description.meta.len() as u64;
        let wanted = Use { hits: 2, was_seen: true };
        let is_taken = description.fits() && self.has_room(bytes) && self.admits(bytes, wanted);
        if is_taken {
            self.push(Job::Renewal { description, body: Arc::clone(body) });
        }
        is_taken
    }

    /// Begins to write an object of which the bytes are still coming.
    pub(super) fn stream(self: &Arc<Self>, of: (u128, u64), shown: Use) -> Option<ObjectStream> {
        ObjectStream::begin(self, of, shown)
    }

    /// Lets the process have it that takes over from this one, once all that was offered is written
    /// and the journal is whole. It is only read from then on.
    pub(super) fn release(&self) {
        self.is_writable.store(false, Relaxed);
        self.is_released.store(true, Relaxed);
        self.push(Job::Release);
    }

    /// Whether [`Disk::release`] was called: purges are the other process' to keep.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.load(Relaxed)
    }

    pub(super) fn stop(&self) {
        self.push(Job::Stop);
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
}
