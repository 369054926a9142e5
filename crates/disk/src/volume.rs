//! One disk in use: its index, its segments, and what may be asked of them on any thread.
//!
//! A volume is made by [`super::recovery::open`] and written to by its one
//! [`super::writer::Writer`]. Locks: `books` guards every change of the index, with the tables that
//! have to agree with it. It is held for memory operations only, never over I/O.

use super::budget::Account;
use super::checkpoint::Written;
use super::erasure::Progress;
use super::geometry::{Geometry, SEGMENT_ENTRY_BYTES};
use super::index::{Found, Index, Inserted};
use super::journal::{Event, Journal};
use super::limits::{BLOCK_BYTES, MARKS_MAX, SUSPECT_READS_MAX};
use super::notes::{Note, Notes};
use super::purges::{Floors, Mark, Purges, Sequence, Target, Verdict};
use super::record::key_hash;
use super::segment::Entry;
use super::share::{Place, Shares};
use super::slot::{KIND_CHUNK, Slot};
use super::superblock::Superblock;
use super::table::{SegmentInfo, SegmentState, SegmentTable};
use super::tactic::{Chosen, Tactic};
use crate::error::DiskError;
use arc_swap::{ArcSwap, Guard};
use freshet_base::counter::SharedCounter;
use freshet_device::block::{Block, Buffer};
use freshet_device::{Completion, Device, Finish, IoError};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the volumes of a node share.
#[derive(Clone, Debug)]
pub struct Common {
    /// Marks of purges.
    pub purges: Arc<Purges>,
    /// Notes of the node.
    pub notes: Arc<Notes>,
    /// The order of purges and insertions.
    pub sequence: Arc<Sequence>,
    /// Changes whenever something that was stored may have gone. Never 0.
    pub(crate) generation: Arc<AtomicU32>,
    /// What decides what is let in and what is kept.
    pub(crate) chosen: Chosen,
    /// What some may have together.
    pub(crate) shares: Arc<Shares>,
    /// Microseconds of the wall clock.
    pub now_us: fn() -> u64,
}

impl Common {
    /// Of a node that knows nothing yet.
    pub fn new(now_us: fn() -> u64) -> Self {
        Self {
            purges: Arc::new(Purges::new(MARKS_MAX as usize)),
            notes: Arc::default(),
            sequence: Arc::default(),
            generation: Arc::new(AtomicU32::new(1)),
            chosen: Chosen::default(),
            shares: Arc::default(),
            now_us,
        }
    }

    /// How disks are run.
    pub(crate) fn tactic(&self) -> Tactic {
        self.chosen.tactic()
    }

    /// Milliseconds of the wall clock.
    pub(crate) fn now_ms(&self) -> u64 {
        (self.now_us)() / 1000
    }

    /// The next number in the order of purges and insertions.
    pub fn next_seq(&self) -> u64 {
        self.sequence.next((self.now_us)())
    }

    /// Says that something that was stored may have gone.
    pub(crate) fn begin_generation(&self) {
        if self.generation.fetch_add(1, Relaxed) == u32::MAX {
            self.generation.store(1, Relaxed);
        }
    }

    /// Notes what was found on a disk.
    pub(crate) fn found(&self, note: Note) {
        self.sequence.raise(note.seq);
        self.refuse_before(self.notes.add_found(note));
    }

    /// Forgets notes up to this number; what is older than it is refused.
    pub(crate) fn forget_notes(&self, up_to: u64) {
        self.refuse_before(Some(up_to));
        self.notes.forget(up_to);
    }

    /// Refuses content from before a note that was forgotten.
    pub(crate) fn refuse_before(&self, floor: Option<u64>) {
        if let Some(looked_up) = floor {
            self.purges.raise_floors(Floors { any: 0, looked_up });
        }
    }
}

/// One disk in use.
pub struct Volume {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) superblock: Superblock,
    pub(crate) common: Common,
    index: ArcSwap<Index>,
    pub(crate) counts: VolumeCounts,
    books: Mutex<Books>,
    /// The number of each segment's opening: what is read must be of it.
    segment_seqs: Box<[AtomicU64]>,
    /// Blocks of the journal below this are durable.
    durable_journal: AtomicU64,
    is_gone: AtomicBool,
    /// How long a read is waited for by who can have the bytes from elsewhere, in µs, while the disk answers
    /// late; 0 while it does not.
    suspect_us: AtomicU64,
    /// Whether what is written now costs nothing that is stored.
    is_filling: AtomicBool,
    /// Whether the device is told what it need not keep.
    pub(super) discards: AtomicBool,
}

/// What changes together with the index.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) table: SegmentTable,
    pub(crate) journal: Journal,
    pub(crate) written: Written,
    pub(crate) formatted_ms: u64,
    /// What the write budget remembered when the volume was opened.
    pub(crate) account: Account,
    /// The last erasure of the volume.
    pub(crate) erasure: Option<Progress>,
    /// Numbers of the notes that are in its journal or its checkpoint, or will be next.
    noted: BTreeSet<u64>,
    /// Who waits for a block of the journal to be durable.
    waiting: Vec<(u64, Finish)>,
}

/// What was counted since the volume was opened.
#[derive(Debug, Default)]
pub struct VolumeCounts {
    /// Look-ups that led to a record of the wanted resource.
    pub hits: SharedCounter,
    /// Records that were not what the index took them for.
    pub mismatches: SharedCounter,
    /// Records with a wrong checksum.
    pub damaged: SharedCounter,
    /// Reads that failed.
    pub read_errors: SharedCounter,
    /// Of these, reads from segments that had been given up before.
    pub read_errors_known: SharedCounter,
    /// Reads of a suspect disk that were not waited for.
    pub hedges: SharedCounter,
    /// Writes that failed.
    pub write_errors: SharedCounter,
    /// Writes there was no space for on the file system.
    pub no_space: SharedCounter,
    /// Reads that did not end in time.
    pub timeouts: SharedCounter,
    /// Bytes read for clients.
    pub read_bytes: SharedCounter,
    /// Reads for clients.
    pub reads: SharedCounter,
    /// Objects written.
    pub objects_written: SharedCounter,
    /// Objects of which new words were written, and no bytes.
    pub renewals_written: SharedCounter,
    /// Segments freed to be written again.
    pub segments_reclaimed: SharedCounter,
    /// Bytes the drive was told it need not keep.
    pub discarded_bytes: SharedCounter,
    /// Index entries dropped because the index was full.
    pub index_dropped: SharedCounter,
    /// Checkpoints written.
    pub checkpoints: SharedCounter,
}

/// What a volume holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct VolumeStats {
    /// Bytes for content.
    pub log_bytes: u64,
    /// Bytes of records the index leads to, about.
    pub live_bytes: u64,
    /// Records.
    pub entries: u64,
    /// Entries the index has room for.
    pub slots: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    /// Segments not in use.
    pub segments_free: u32,
    /// Segments given up.
    pub segments_retired: u32,
    /// Segments in all.
    pub segments: u32,
    /// Bytes written since it was formatted.
    pub written: Written,
    /// When it was formatted, Unix milliseconds.
    pub formatted_ms: u64,
}

impl Volume {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        superblock: Superblock,
        common: Common,
        index: Index,
        books: Books,
    ) -> Self {
        let seqs = books.table.iter().map(|(_, info)| AtomicU64::new(info.seq)).collect();
        let durable = books.journal.next();
        let is_filling = AtomicBool::new(books.table.is_filling());
        Self {
            device,
            superblock,
            common,
            index: ArcSwap::from_pointee(index),
            counts: VolumeCounts::default(),
            books: Mutex::new(books),
            segment_seqs: seqs,
            durable_journal: AtomicU64::new(durable),
            is_gone: AtomicBool::new(false),
            suspect_us: AtomicU64::new(0),
            is_filling,
            discards: AtomicBool::new(false),
        }
    }

    /// Where records are. A longer one may take its place at any time; it is changed under the lock of
    /// the books.
    pub(crate) fn index(&self) -> Guard<Arc<Index>> {
        self.index.load()
    }

    /// Puts a longer index in the place of the one before, under the lock of the books.
    pub(crate) fn set_index(&self, index: Arc<Index>) {
        self.index.store(index);
    }

    /// How the device is divided.
    pub fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// What the device says of itself.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// What was counted.
    pub fn counts(&self) -> &VolumeCounts {
        &self.counts
    }

    /// Whether what is written now costs nothing that is stored.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_filling.load(Relaxed)
    }

    pub(crate) fn set_filling(&self, is_filling: bool) {
        self.is_filling.store(is_filling, Relaxed);
    }

    /// What it holds. Walks the table of segments.
    pub fn stats(&self) -> VolumeStats {
        let books = self.books();
        let unit = u64::from(self.geometry().unit_bytes);
        let live: u64 = books.table.iter().map(|(_, info)| u64::from(info.live_units)).sum();
        VolumeStats {
            log_bytes: self.geometry().log_bytes(),
            live_bytes: live * unit,
            entries: self.index().entries(),
            slots: self.index().slots(),
            index_bytes: self.index().memory_bytes(),
            segments_free: books.table.count(SegmentState::Free),
            segments_retired: books.table.count(SegmentState::Retired),
            segments: self.geometry().segments,
            written: books.written,
            formatted_ms: books.formatted_ms,
        }
    }

    /// The length of a checkpoint, but for marks and notes.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.index().bytes() + u64::from(self.geometry().segments) * SEGMENT_ENTRY_BYTES
    }

    /// Whether some response of this resource may be here. Looks at memory only.
    pub fn may_have(&self, key: u128) -> bool {
        self.may_have_under(key, 0)
    }

    /// Whether a response of this resource may be here under a kind; 0 is any. Looks at memory only.
    pub fn may_have_under(&self, key: u128, kind: u8) -> bool {
        self.heads(key).iter().any(|slot| kind == 0 || slot.kind() == kind)
    }

    /// Says that this is about to be asked of a resource.
    pub fn prefetch(&self, key: u128) {
        self.index().prefetch(key_hash(key));
    }

    pub(crate) fn heads(&self, key: u128) -> Found {
        self.index().heads(key_hash(key))
    }

    /// Carries out a purge that was noted in the marks all volumes share. The completion ends when
    /// it is durable.
    pub fn purge(&self, mark: Mark) -> Completion {
        let (completion, finish) = Completion::new();
        let mut books = self.books();
        if let Mark { target: Target::Key(hash), soft: None, .. } = mark {
            self.index().remove_heads(hash, |slot| books.left(slot, self.geometry()));
        }
        let number = books.add_event(Event::Purged(mark));
        books.waiting.push((number, finish));
        completion
    }

    /// Keeps a note that all volumes share. The completion ends when it is durable.
    pub(crate) fn note(&self, note: Note) -> Completion {
        let (completion, finish) = Completion::new();
        let mut books = self.books();
        books.noted.insert(note.seq);
        let number = books.add_event(Event::Noted(note));
        books.waiting.push((number, finish));
        completion
    }

    /// The last erasure of the volume, done or not.
    pub fn erasure(&self) -> Option<Progress> {
        self.books().erasure.clone()
    }

    /// Notes how far an erasure is. It is durable with the journal.
    pub(crate) fn note_erasure(&self, progress: Progress) {
        let mut books = self.books();
        books.erasure = Some(progress.clone());
        books.add_event(Event::Erasing(progress));
    }

    /// The number at which the fetch of the oldest object here began, or an earlier one.
    pub fn oldest_born(&self) -> u64 {
        self.books().table.oldest_born()
    }

    /// Carries out the purges after `last_mark` and keeps the notes that it missed; returns the
    /// newest purge.
    pub(crate) fn catch_up(&self, last_mark: u64) -> u64 {
        for note in self.common.notes.all() {
            if !self.books().noted.contains(&note.seq) {
                drop(self.note(note));
            }
        }
        let missed = self.common.purges.since(last_mark);
        let newest = missed.last().map_or(last_mark, |mark| mark.seq);
        missed.into_iter().for_each(|mark| drop(self.purge(mark)));
        newest
    }

    /// Writes pending events and makes them durable. Called by the writer only.
    ///
    /// # Errors
    /// The journal could not be written: the volume has to be opened again, because purges it
    /// should know are not on it.
    pub(crate) fn commit_journal(&self) -> Result<(), DiskError> {
        loop {
            let Some((places, block)) = self.books().journal.take() else { return Ok(()) };
            if let Err(error) = self.write_journal(places, block) {
                let waiting = std::mem::take(&mut self.books().waiting);
                for (_, finish) in waiting {
                    finish.finish(Err(error), Buffer::None);
                }
                return Err(DiskError::JournalLost(error));
            }
            let mut books = self.books();
            books.written.metadata_bytes += Journal::BLOCK_WRITTEN_BYTES;
            let durable = self.durable_journal.fetch_add(1, Release) + 1;
            let done: Vec<Finish> = books
                .waiting
                .extract_if(.., |(number, _)| *number < durable)
                .map(|(_, f)| f)
                .collect();
            drop(books);
            for finish in done {
                finish.finish(Ok(()), Buffer::None);
            }
        }
    }

    fn write_journal(&self, places: [u64; 2], block: Block) -> Result<(), IoError> {
        let copy = Block::from_bytes(&block);
        let [first, second] = places;
        self.device.write(first, block)?;
        self.device.write(second, copy)?;
        self.device.flush()
    }

    /// Makes written records findable, but for those that were purged while they were written.
    pub(crate) fn commit_entries(&self, segment: u32, entries: &[Entry]) {
        let base = self.geometry().segment_at(segment) / u64::from(self.geometry().unit_bytes);
        let floors = self.common.purges.floors();
        let mut books = self.books();
        for entry in entries {
            let is_head = entry.kind != KIND_CHUNK;
            if is_head
                && (entry.born < floors.any
                    || self.common.purges.verdict(entry.hash, &[], entry.born) == Verdict::Purged)
            {
                continue;
            }
            let at = base + u64::from(entry.units_at);
            match self.index().insert(entry.hash, entry.kind, at, entry.units) {
                Inserted::Known => continue,
                Inserted::Added => {}
                Inserted::Replaced(old) => books.left(old, self.geometry()),
                Inserted::Dropped(old) => {
                    self.counts.index_dropped.add(1);
                    books.left(old, self.geometry());
                }
            }
            books.table.change(segment, |info| {
                info.live_units += entry.units;
                if is_head {
                    info.note_born(entry.born);
                }
            });
        }
    }

    /// Takes a record out that is not what it should be.
    pub(crate) fn forget(&self, hash: u64, units_at: u64) {
        let mut books = self.books();
        if let Some(slot) = self.index().remove(hash, units_at) {
            books.left(slot, self.geometry());
        }
    }

    /// Gives the segment of a bad range up: what can be read of it is still served, nothing more is
    /// written to it. False where that was done before.
    pub(crate) fn retire(&self, offset: u64) -> bool {
        let Some(segment) = self.geometry().segment_of(offset) else { return true };
        let mut books = self.books();
        if matches!(books.table.get(segment).state, SegmentState::Retired) {
            return false;
        }
        books.table.change(segment, |info| info.state = SegmentState::Retired);
        books.add_event(Event::Retired { segment });
        drop(books);
        tracing::warn!(device = %self.superblock.device, segment, "a segment was given up");
        true
    }

    /// Leaves a segment as it is, because there is no space for more of it. It is written again when
    /// its turn comes.
    pub(crate) fn leave_short(&self, segment: u32) {
        self.books().table.leave_short(segment);
    }

    /// A place where something was written, by a random number; `None` where nothing was.
    pub(crate) fn written_place(&self, random: u64) -> Option<u64> {
        let geometry = self.geometry();
        let books = self.books();
        let from = (random % u64::from(geometry.segments.max(1))) as usize;
        let is_written = |(_, info): &(u32, SegmentInfo)| info.live_units > 0;
        let (before, after) = (books.table.iter().take(from), books.table.iter().skip(from));
        let (segment, _) = after.chain(before).find(is_written)?;
        let blocks = geometry.segment_bytes / BLOCK_BYTES;
        // Segments are long, and written from the front: what is there is in its first part for sure.
        let block = (random >> 32) % (blocks / 4).max(1);
        Some(geometry.segment_at(segment) + block * BLOCK_BYTES)
    }

    /// How shares name a segment of this disk.
    pub(crate) fn place_of(&self, segment: u32) -> Place {
        (self.superblock.device, segment)
    }

    /// Whether a record belongs to the present use of its segment.
    pub(crate) fn is_of_segment(&self, offset: u64, segment_seq: u64) -> bool {
        let segment = self.geometry().segment_of(offset);
        let seq = segment.and_then(|segment| self.segment_seqs.get(segment as usize));
        seq.is_some_and(|seq| seq.load(Acquire) == segment_seq)
    }

    pub(crate) fn set_segment_seq(&self, segment: u32, seq: u64) {
        if let Some(place) = self.segment_seqs.get(segment as usize) {
            place.store(seq, Release);
        }
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an operation failed because the device is not there any more.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    pub(crate) fn set_gone(&self) {
        self.is_gone.store(true, Relaxed);
    }

    /// Whether the disk answers late: who can have bytes from elsewhere does not wait for it.
    pub fn is_suspect(&self) -> bool {
        self.suspect_us.load(Relaxed) > 0
    }

    /// How long a read may take that others can do instead, where a healthy disk is given `usual`;
    /// `None` where the disk is not to be asked at all.
    pub fn patience(&self, usual: Duration) -> Option<Duration> {
        let suspect_us = self.suspect_us.load(Relaxed);
        if suspect_us == 0 {
            return Some(usual);
        }
        let has_room = self.device.reads_in_flight() < SUSPECT_READS_MAX;
        has_room.then_some(Duration::from_micros(suspect_us).min(usual))
    }

    /// Takes note of a read that was not waited for any longer, or not asked for.
    pub fn note_late(&self) {
        let counts = &self.counts;
        if self.is_suspect() { counts.hedges.add(1) } else { counts.timeouts.add(1) }
    }

    /// Says whether the disk answers late, and how long it is waited for then.
    pub(crate) fn set_suspect(&self, hedge_after: Option<Duration>) {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        self.suspect_us.store(hedge_after.map_or(0, micros), Relaxed);
    }

    /// Errors and timeouts so far, for the disk's health. What is known to be bad already says
    /// nothing of the rest.
    pub fn failures(&self) -> u64 {
        let VolumeCounts { read_errors_known, read_errors, write_errors, timeouts, .. } =
            &self.counts;
        let known = read_errors_known.value();
        read_errors.value().saturating_sub(known) + write_errors.value() + timeouts.value()
    }
}

impl Books {
    pub(crate) fn new(
        table: SegmentTable,
        journal: Journal,
        written: Written,
        formatted_ms: u64,
        account: Account,
    ) -> Self {
        let (noted, waiting) = (BTreeSet::new(), Vec::new());
        Self { table, journal, written, formatted_ms, account, erasure: None, noted, waiting }
    }

    /// Adds an event; the number of the block it will be in.
    pub(crate) fn add_event(&mut self, event: Event) -> u64 {
        self.journal.add(event)
    }

    /// Says which notes it has.
    pub(crate) fn has_notes(&mut self, notes: &[Note]) {
        self.noted = notes.iter().map(|note| note.seq).collect();
    }

    /// Notes that the index leads to a record no more.
    pub(crate) fn left(&mut self, slot: Slot, geometry: &Geometry) {
        let offset = slot.units_at() * u64::from(geometry.unit_bytes);
        if let Some(segment) = geometry.segment_of(offset) {
            self.table.change(segment, |info| {
                info.live_units = info.live_units.saturating_sub(slot.units());
            });
        }
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("device", &self.superblock.device)
            .field("index", &*self.index())
            .finish_non_exhaustive()
    }
}
