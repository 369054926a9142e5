//! All disks of a node: where new content goes, where content is looked for, purges for all.

use super::budget::{Seen, Use};
use super::drive::{Disk, DiskSpec, in_place};
use super::erase::Asked;
use super::geometry::{FormatOptions, Geometry};
use super::health::Levels;
use super::intake::Description;
use super::limits::{BLOCK_BYTES, DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, NOTE_BYTES_MAX};
use super::notes::{Note, Notes};
use super::purges::{Mark, Soft, Target};
use super::record::key_hash;
use super::recovery::{self, Opened};
use super::stream::ObjectStream;
use super::superblock::{Superblock, Uuid, contents};
use super::tactic::Chosen;
use super::takes::Wish;
use super::volume::{Common, Volume};
use crate::error::DiskError;
use freshet_base::splitmix::mixed;
use freshet_device::file::{self, FileDevice};
use freshet_device::mounts;
use freshet_device::place;
use freshet_device::ring::Ring;
use freshet_device::{Completion, Device, IoError};
use freshet_store::{Body, Standing};
use rustix::fs::Access;
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// A purge or a note on its way to the disks.
#[derive(Debug, Default)]
#[must_use]
pub struct Pending {
    /// One for each disk in use: it ends when it is durable there.
    pub completions: Vec<Completion>,
    /// Disks that are away. It is applied to them when they come back, by a process that knows of
    /// it: this one, or one that finds it on another disk.
    pub away: usize,
}

/// The disks of a node.
#[derive(Debug)]
pub struct Disks {
    disks: Vec<Arc<Disk>>,
    common: Common,
    secret: [u8; 16],
    seen: Seen,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held by who begins an erasure.
    erasing: Mutex<()>,
}

/// The right to begin an erasure, which one at a time has.
#[derive(Debug)]
pub struct ErasureTurn<'a> {
    disks: &'a Disks,
    _turn: MutexGuard<'a, ()>,
}

/// Says where a thread of a disk runs: called by each of them before it does anything, with the disk's path.
/// Threads that it begins run there as well.
pub type Seat = Arc<dyn Fn(&Path) + Send + Sync>;

impl Disks {
    /// Opens these disks, making and formatting files that are not there. What fails for now, as a
    /// device that is not plugged in, is tried again later. A drive that is wrong
    /// ([`DiskError::is_of_one_drive`]) is left as it is and said to be, where others are right. A
    /// process that `takes_over` from another does not wait for what that one still has.
    ///
    /// # Errors
    /// The path, and what is wrong: something that was asked for cannot be, or all drives are wrong.
    pub fn open(
        specs: Vec<DiskSpec>,
        now_us: fn() -> u64,
        takes_over: bool,
        seat: &Seat,
    ) -> Result<Arc<Self>, (String, DiskError)> {
        let named = |spec: &DiskSpec, error| (spec.path.display().to_string(), error);
        let (mut blank, mut stores, mut wrong, mut away) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for spec in &specs {
            match look_at(spec) {
                Ok(Found::Store(superblock)) => stores.push((spec, superblock)),
                Ok(Found::Blank(device)) => blank.push((spec, device)),
                Ok(Found::Away) => away += 1,
                Err(error) if error.is_of_one_drive() => wrong.push(named(spec, error)),
                Err(error) => return Err(named(spec, error)),
            }
        }
        let wanted = common_set(stores.iter().map(|(_, superblock)| superblock.set));
        let mut known: Option<(Uuid, [u8; 16])> = None;
        for (spec, superblock) in stores {
            match wanted {
                Some(wanted) if superblock.set != wanted => {
                    let error = DiskError::DeviceOfOtherSet { found: superblock.set, wanted };
                    wrong.push(named(spec, error));
                }
                _ => known = Some((superblock.set, superblock.secret)),
            }
            if let Some(has) = differs(spec, &superblock) {
                let (store, configured) = (spec.path.display(), spec.bytes);
                tracing::warn!(%store, has, configured, "the store keeps the size it was made with");
            }
        }
        for (path, error) in wrong {
            if known.is_none() && blank.is_empty() && away == 0 {
                return Err((path, error));
            }
            tracing::error!(store = %path, %error, "the node starts without this store");
        }
        let is_known = known.is_some() || !blank.is_empty();
        let set = known.unwrap_or_else(|| (Uuid::random(), Uuid::random().0));
        for (spec, device) in blank {
            if known.is_some() {
                let store = spec.path.display();
                tracing::warn!(
                    %store,
                    "a store is made beside others that are there: where it is not a new one, \
                     what it had is not on this file system"
                );
            }
            recovery::format(&*device, set, format_options(spec), now_us() / 1000)
                .map_err(|error| named(spec, error))?;
        }
        let common = Common::new(now_us);
        let levels = Levels::new(specs.len());
        let disks: Vec<Arc<Disk>> = specs
            .into_iter()
            .enumerate()
            .map(|(number, spec)| {
                let set = is_known.then_some(set.0);
                Disk::new(spec, set, common.clone(), (levels.clone(), number))
            })
            .collect();
        // Side by side: the slowest decides. Purges and notes one of them knows hold for all.
        let mut opened = open_all(&disks, takes_over, seat);
        for opened in opened.iter_mut().flatten() {
            opened.last_mark = opened.volume.catch_up(opened.last_mark);
        }
        let objects = disks.iter().map(|disk| disk.objects_planned()).sum();
        let this = Arc::new(Self {
            disks,
            common,
            secret: set.1,
            seen: Seen::of_disks(objects),
            threads: Mutex::default(),
            erasing: Mutex::default(),
        });
        for (number, (disk, opened)) in this.disks.iter().zip(opened).enumerate() {
            let disk = Arc::clone(disk);
            disk.show(opened.as_ref());
            #[cfg(feature = "simulation")]
            if let Some(runtime) = freshet_device::attached::runtime() {
                (runtime.spawn)(Box::pin(disk.run(opened)));
                continue;
            }
            let seat = Arc::clone(seat);
            let thread = Builder::new().name(format!("disk-{number}")).spawn(move || {
                seat(&disk.spec.path);
                let _ring = Ring::install();
                in_place(disk.run(opened));
            });
            let path = this.disks.get(number).map(|disk| disk.spec.path.display().to_string());
            let thread = thread.map_err(|error| {
                let code = error.raw_os_error().unwrap_or(0);
                (path.unwrap_or_default(), DiskError::DeviceIo(IoError::Failed(code)))
            })?;
            this.threads().push(thread);
        }
        Ok(this)
    }

    /// The secret under which keys are hashed, the same as long as these disks are used.
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// The disks, in the order they were configured.
    pub fn disks(&self) -> &[Arc<Disk>] {
        &self.disks
    }

    /// How the disks are run, to be changed by who knows better.
    pub fn chosen_tactic(&self) -> Chosen {
        self.common.chosen.clone()
    }

    /// The number at which a fetch that begins now is born.
    pub fn born(&self) -> u64 {
        self.common.next_seq()
    }

    /// Whether a response of this resource may be on a disk. Looks at memory only.
    pub fn may_have(&self, key: u128) -> bool {
        self.may_have_under(key, 0)
    }

    /// Whether the response of this resource that was written under a kind may be on a disk still; 0 is any.
    /// Looks at memory only.
    pub fn may_have_under(&self, key: u128, kind: u8) -> bool {
        if self.disks.len() > 1 {
            // So that the indexes are waited for together, and not one after another.
            self.disks.iter().filter_map(|disk| disk.volume()).for_each(|one| one.prefetch(key));
        }
        let has = |volume: Arc<Volume>| volume.may_have_under(key, kind);
        self.disks.iter().any(|disk| disk.volume().is_some_and(has))
    }

    /// The disks that may have responses of a resource, those first that answer in time. Looks at
    /// memory only.
    pub fn holders(&self, key: u128) -> Vec<Arc<Volume>> {
        let open = self.disks.iter().filter_map(|disk| disk.volume());
        let mut holders: Vec<_> = open.filter(|volume| volume.may_have(key)).collect();
        holders.sort_by_key(|volume| volume.is_suspect());
        holders
    }

    /// Notes that a resource is fetched; whether it was before, lately.
    pub fn note_fetch(&self, key: u128) -> bool {
        self.seen.note(key)
    }

    /// Has an object written whose bytes are in memory, to a disk that takes it; whether it will
    /// be.
    pub fn offer(
        &self,
        description: Description,
        body: &Arc<Body>,
        shown: Use,
        wish: &Wish,
    ) -> bool {
        let bytes = body.total().unwrap_or(0);
        let may =
            |disk: &&Arc<Disk>| disk.has_share(wish.share, bytes) && disk.admits(bytes, shown);
        let disk = self.place(description.key, wish).filter(may);
        let is_taken = disk.is_some_and(|disk| disk.offer(description, body));
        if !is_taken {
            body.set_standing(Standing::Refused(self.generation()));
        }
        is_taken
    }

    /// Has new words about an object written that a disk has, or is about to have. Of many that come
    /// one after another the last is written.
    pub fn renew(&self, description: Description, body: &Arc<Body>) {
        let has = |disk: &&Arc<Disk>| {
            disk.volume().is_some_and(|volume| volume.may_have(description.key))
        };
        // Where it is only about to be found, each disk is told: what is no word about anything there
        // is never read.
        let is_found = self.disks.iter().any(|disk| has(&disk));
        let writable = self.disks.iter().filter(|disk| disk.is_writable());
        for disk in writable.filter(|disk| !is_found || has(disk)) {
            disk.renew(description.clone(), body);
        }
    }

    /// A number that changes whenever something that was stored may have gone; never 0.
    pub fn generation(&self) -> u32 {
        self.common.generation.load(Relaxed)
    }

    /// Begins to write an object while its bytes arrive, to a disk that takes it.
    pub fn stream(&self, key: u128, shown: Use, wish: &Wish) -> Option<ObjectStream> {
        // What was let in as a whole has all of the write budget to come to its end. What nobody knows the length of
        // would use that up, and be of no use to anyone where it does not come to its end in it.
        const BEGUN: Use = Use { hits: 2, was_seen: true };
        let rest_shown = if wish.bytes.is_some() { BEGUN } else { shown };
        let disk = self.place(key, wish)?;
        let bytes = wish.bytes.unwrap_or(0);
        let is_let_in = disk.has_share(wish.share, bytes) && disk.admits(bytes, shown);
        is_let_in.then(|| disk.stream((key, wish.share), rest_shown)).flatten()
    }

    /// Purges on all disks, those that are away included once they are back.
    pub fn purge(&self, target: Target, soft: Option<Soft>) -> Pending {
        self.mark(Mark { target, seq: self.common.next_seq(), soft })
    }

    /// The right to begin an erasure, held until that has begun on each disk; `None` where another is
    /// under way, or about to begin.
    pub fn erasure_turn(&self) -> Option<ErasureTurn<'_>> {
        let turn = match self.erasing.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let mut erasures = self.disks.iter().filter_map(|disk| disk.erasure());
        let is_under_way = erasures.any(|progress| !progress.erased.is_over());
        (!is_under_way).then_some(ErasureTurn { disks: self, _turn: turn })
    }

    /// Purges a resource with all its variants.
    pub fn purge_key(&self, key: u128, soft: Option<Soft>) -> Pending {
        self.purge(Target::Key(key_hash(key)), soft)
    }

    /// Ends what is there of a resource, with all its variants, for a response whose fetch was `born`: what is
    /// as new as that may be written.
    pub fn supersede(&self, key: u128, born: u64) -> Pending {
        self.mark(Mark { target: Target::Key(key_hash(key)), seq: born, soft: None })
    }

    fn mark(&self, mark: Mark) -> Pending {
        self.common.purges.note(mark);
        if mark.soft.is_none() {
            self.common.shares.purged(mark.target);
        }
        self.on_each(|volume| volume.purge(mark))
    }

    /// What all that has a tag may have of all disks together, in bytes, for each such tag: at that nothing new of it is
    /// let in. What is there of it already is counted beside what else the disks do.
    pub fn set_shares(&self, bounds: &[(u64, u64)]) {
        self.common.shares.set(bounds);
    }

    /// What all that has a tag has of the disks, in bytes, where it has a bound; without what another process wrote and
    /// was not counted yet.
    pub fn share_bytes(&self, tag: u64) -> Option<u64> {
        self.common.shares.bytes(tag)
    }

    /// Keeps a note of at most [`NOTE_BYTES_MAX`] bytes on all disks, in the place of one that says
    /// the same, with the number it had in the process before where there is one. Returns its
    /// number: it is about what was born before. A longer note is not kept.
    pub fn note(&self, bytes: &[u8], seq: Option<u64>) -> Option<(u64, Pending)> {
        if bytes.len() > NOTE_BYTES_MAX {
            return None;
        }
        let seq = seq.unwrap_or_else(|| self.common.next_seq());
        self.common.sequence.raise(seq);
        let note = Note { seq, bytes: bytes.into() };
        self.common.refuse_before(self.common.notes.add(note.clone()));
        Some((seq, self.on_each(|volume| volume.note(note.clone()))))
    }

    /// Notes of this process and of those before.
    pub fn notes(&self) -> &Notes {
        &self.common.notes
    }

    /// Forgets notes up to this number. What is older than it is not served any more.
    pub fn forget_notes(&self, up_to: u64) {
        self.common.forget_notes(up_to);
    }

    /// Whether an object of which the fetch began then may be meant by a note that was forgotten.
    pub fn refuses(&self, born: u64) -> bool {
        born < self.common.purges.floors().looked_up
    }

    /// A number before which the fetch of no object began that is on a disk; `None` while a disk is
    /// away. O(segments).
    pub fn oldest_born(&self) -> Option<u64> {
        let oldest = |disk: &Arc<Disk>| disk.volume().map(|volume| volume.oldest_born());
        self.disks.iter().map(oldest).try_fold(u64::MAX, |least, each| Some(least.min(each?)))
    }

    /// Has something made durable on each disk that is not the business of another process.
    fn on_each(&self, mut begin: impl FnMut(&Volume) -> Completion) -> Pending {
        let mut pending = Pending::default();
        for disk in self.disks.iter().filter(|disk| !disk.is_released()) {
            match disk.volume() {
                Some(volume) => {
                    pending.completions.push(begin(&volume));
                    disk.has_purges();
                }
                None => pending.away += 1,
            }
        }
        pending
    }

    /// Lets the process have the disks that takes over from this one: what was offered is written,
    /// the journals are whole. They are only read here from then on.
    pub fn release(&self) {
        self.disks.iter().for_each(|disk| disk.release());
    }

    /// Ends in order: what was offered is written, segments are sealed, the index is written out.
    pub fn stop(&self) {
        self.disks.iter().for_each(|disk| disk.stop());
        let until = Instant::now() + STOP_MAX;
        let threads = std::mem::take(&mut *self.threads());
        for (thread, disk) in threads.into_iter().zip(&self.disks) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(STOP_STEP);
            }
            if thread.is_finished() {
                let _ = thread.join();
            } else {
                let path = disk.spec.path.display();
                tracing::warn!(disk = %path, "the disk still hangs and was not closed in order");
            }
        }
    }

    /// Bytes for content, on all disks.
    pub fn log_bytes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.log_bytes()).sum()
    }

    /// The disk new content of a resource goes to: of those that take it, by weighted rendezvous,
    /// so that the loss of one moves its share only.
    fn place(&self, key: u128, wish: &Wish) -> Option<&Arc<Disk>> {
        let score = |disk: &Disk| {
            let name = disk.identity();
            let uniform = (mixed(key as u64 ^ mixed(name)) >> 11) as f64 / (1u64 << 53) as f64;
            let weight = disk.spec.weight.unwrap_or_else(|| disk.log_bytes() as f64).max(1e-9);
            -uniform.max(1e-18).ln() / weight
        };
        let takes = |disk: &&Arc<Disk>| disk.is_writable() && disk.spec.takes.accepts(wish);
        self.disks
            .iter()
            .filter(takes)
            .map(|disk| (score(disk), disk))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, disk)| disk)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ErasureTurn<'_> {
    /// Has all overwritten that is purged by now, on each disk in use; its number, and when it has begun
    /// durably. What is purged has to be durable first, so that nothing of it is found again meanwhile.
    pub fn erase(&self, what: &str) -> (u64, Pending) {
        let since = self.disks.common.next_seq();
        let mut pending = Pending::default();
        for disk in &self.disks.disks {
            match disk.erase(Asked { since, what: what.to_owned() }) {
                Some(begun) => pending.completions.push(begun),
                None => pending.away += 1,
            }
        }
        (since, pending)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How long an end waits for disks that hang: longer than operations that are waited for take, one
/// after another. The kernel may never let go of such a thread.
const STOP_MAX: Duration = Duration::from_secs(30);
const STOP_STEP: Duration = Duration::from_millis(2);

/// How long a start waits for a process that has a disk to let go of it: one that was killed still
/// has it until its last writes have ended.
const TAKEN_MAX: Duration = Duration::from_secs(3);

/// Opens disks side by side.
fn open_all(disks: &[Arc<Disk>], takes_over: bool, seat: &Seat) -> Vec<Option<Opened>> {
    #[cfg(feature = "simulation")]
    if freshet_device::attached::runtime().is_some() {
        return disks.iter().map(|disk| disk.open().ok()).collect();
    }
    std::thread::scope(|scope| {
        let opening: Vec<_> =
            disks.iter().map(|disk| scope.spawn(|| open_one(disk, takes_over, seat))).collect();
        opening.into_iter().map(|thread| thread.join().unwrap_or(None)).collect()
    })
}

/// Opens a disk on a thread of its own; why it cannot be is said by the thread that serves it.
fn open_one(disk: &Disk, takes_over: bool, seat: &Seat) -> Option<Opened> {
    seat(&disk.spec.path);
    let _ring = Ring::install();
    let until = Instant::now() + if takes_over { Duration::ZERO } else { TAKEN_MAX };
    loop {
        match disk.open() {
            Ok(opened) => return Some(opened),
            Err(DiskError::DeviceOpen(IoError::Taken)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

/// The set that most of some disks are of, the first of them where as many are of another.
pub fn common_set(sets: impl Iterator<Item = Uuid> + Clone) -> Option<Uuid> {
    let count = |set: Uuid| sets.clone().filter(|other| *other == set).count();
    // Of those with as many the first, which `max_by_key` would leave.
    sets.clone().reduce(|best, set| if count(set) > count(best) { set } else { best })
}

/// What [`examine`] found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Examined {
    /// The set of disks it is of, where there is a store.
    pub set: Option<Uuid>,
    /// Bytes that a start would take from its file system, which a file that is not there gets.
    pub makes_bytes: u64,
    /// The number of that file system.
    pub file_system: u64,
    /// Bytes that are free there.
    pub free_bytes: u64,
    /// Bytes of the store that is there, where that is another length than is configured.
    pub keeps_bytes: Option<u64>,
    /// That another process has it. A start waits a moment, goes on without it, and tries again.
    pub taken: Option<DiskError>,
    /// Why it cannot be opened now. A start goes on without it, and tries again.
    pub away: Option<DiskError>,
}

/// Looks at the place of a disk as [`Disks::open`] does, without making or changing anything, also
/// while another process has it.
///
/// # Errors
/// What is wrong there.
pub fn examine(spec: &DiskSpec) -> Result<Examined, DiskError> {
    let failed = |error: Errno| DiskError::DeviceOpen(IoError::Failed(error.raw_os_error()));
    let away = |error: DiskError| Examined { away: Some(error), ..Examined::default() };
    let device = match FileDevice::peek(&spec.path) {
        Ok(device) if has_dropped_out(&device) => return Ok(away(DiskError::DeviceShort)),
        // What is there is left alone, however short.
        Ok(device)
            if device.bytes() == 0 && spec.path.metadata().is_ok_and(|file| file.len() > 0) =>
        {
            return Err(DiskError::DeviceShort);
        }
        Ok(device) => Some(device).filter(|device| device.bytes() > 0),
        Err(IoError::Failed(2)) if spec.bytes.is_some() => None,
        Err(error) if is_unfit(error) => return Err(DiskError::DeviceUnfit),
        Err(error) => return Ok(away(unopened(spec, error))),
    };
    if let Some(device) = device {
        if let Err(error) = rustix::fs::access(&spec.path, Access::WRITE_OK) {
            return Ok(away(failed(error)));
        }
        let mut keeps_bytes = None;
        let set = match Superblock::read(&device) {
            Ok(superblock) => {
                keeps_bytes = differs(spec, &superblock);
                Some(superblock.set)
            }
            Err(error @ DiskError::DeviceForeign { .. }) => match contents(&device)? {
                None => {
                    Geometry::plan(device.bytes(), format_options(spec))?;
                    None
                }
                Some(_) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        let taken = device.is_taken().then_some(DiskError::DeviceOpen(IoError::Taken));
        return Ok(Examined { set, keeps_bytes, taken, ..Examined::default() });
    }
    if let Some(error) = unmounted(spec) {
        return Ok(away(error));
    }
    let bytes = bytes_to_make(spec.bytes.unwrap_or(0))?;
    Geometry::plan(bytes, format_options(spec))?;
    let folder = spec.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(failed)?;
    let space = rustix::fs::statvfs(folder).map_err(failed)?;
    let free_bytes = file::free_bytes(&space);
    if free_bytes < bytes {
        return Err(DiskError::DeviceNoSpace { bytes });
    }
    let file_system = rustix::fs::stat(folder).map_err(failed)?.st_dev;
    Ok(Examined { makes_bytes: bytes, file_system, free_bytes, ..Examined::default() })
}

/// How a file or device is formatted that holds nothing.
fn format_options(spec: &DiskSpec) -> FormatOptions {
    FormatOptions { object_bytes: spec.object_bytes, ..FormatOptions::default() }
}

/// The length of a file that is to be made, where it is in bounds.
fn bytes_to_make(bytes: u64) -> Result<u64, DiskError> {
    let is_in_bounds = (DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&bytes);
    if is_in_bounds { Ok(bytes) } else { Err(DiskError::ConfigDeviceBytes { bytes }) }
}

/// Makes a file of this length, where that is in bounds.
fn make(path: &Path, bytes: u64) -> Result<FileDevice, DiskError> {
    let bytes = bytes_to_make(bytes)?;
    FileDevice::create(path, bytes).map_err(|error| DiskError::of_making(error, bytes))
}

/// The length of a store, where it is another than that of the file that would be made now.
fn differs(spec: &DiskSpec, superblock: &Superblock) -> Option<u64> {
    let (wanted, has) = (spec.bytes?, superblock.geometry.device_bytes);
    // A device is used whole, whatever is said of it.
    let is_file = || spec.path.metadata().is_ok_and(|found| found.is_file());
    (wanted & !(BLOCK_BYTES - 1) != has && is_file()).then_some(has)
}

/// Whether it is a drive that is there by name only.
fn has_dropped_out(device: &dyn Device) -> bool {
    device.bytes() == 0 && device.is_block_device()
}

/// Why a file is not made now: it would be on the file system behind the one it is meant for.
fn unmounted(spec: &DiskSpec) -> Option<DiskError> {
    let at = mounts::missing(&spec.path).filter(|_| spec.bytes.is_some())?;
    Some(DiskError::DeviceUnmounted { at: at.display().to_string() })
}

/// Why what could not be opened cannot be used: of what is not there, what would have it be there.
pub(super) fn unopened(spec: &DiskSpec, error: IoError) -> DiskError {
    // What is below `/dev` comes with its drive.
    let is_file = !spec.path.starts_with("/dev");
    match (error, spec.bytes) {
        (IoError::Failed(2), None) if is_file => DiskError::DeviceUnmade,
        (IoError::Failed(2), Some(_)) => unmounted(spec).unwrap_or(DiskError::DeviceOpen(error)),
        _ => DiskError::DeviceOpen(error),
    }
}

/// Whether what is there is no place to keep anything in.
fn is_unfit(error: IoError) -> bool {
    let unfit = [Errno::ISDIR, Errno::NOTBLK].map(|errno| IoError::Failed(errno.raw_os_error()));
    unfit.contains(&error)
}

/// What is where a disk should be.
enum Found {
    Store(Box<Superblock>),
    Blank(Box<dyn Device>),
    /// It cannot be reached now.
    Away,
}

fn look_at(spec: &DiskSpec) -> Result<Found, DiskError> {
    let device = match (spec.bytes, place::open(&spec.path)) {
        (_, Ok(device)) if device.bytes() > 0 => device,
        (_, Ok(device)) if has_dropped_out(&*device) => return Ok(Found::Away),
        (Some(_), Ok(_) | Err(IoError::Failed(2))) if unmounted(spec).is_some() => {
            return Ok(Found::Away);
        }
        (Some(bytes), Ok(empty)) => {
            drop(empty);
            Box::new(make(&spec.path, bytes)?)
        }
        (Some(bytes), Err(IoError::Failed(2))) => Box::new(make(&spec.path, bytes)?),
        (None, Ok(_)) => return Err(DiskError::ConfigDeviceBytes { bytes: 0 }),
        // The process that is about to be replaced has it: its set is this one's too.
        (_, Err(IoError::Taken)) => {
            let device = FileDevice::peek(&spec.path).map_err(DiskError::DeviceOpen)?;
            return Superblock::read(&device).map(|found| Found::Store(Box::new(found)));
        }
        (_, Err(error)) if is_unfit(error) => return Err(DiskError::DeviceUnfit),
        (_, Err(_)) => return Ok(Found::Away),
    };
    match Superblock::read(&*device) {
        Ok(superblock) => Ok(Found::Store(Box::new(superblock))),
        Err(DiskError::DeviceIo(_)) => Ok(Found::Away),
        Err(error @ DiskError::DeviceForeign { .. }) => match contents(&*device) {
            Ok(None) => Ok(Found::Blank(device)),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}
