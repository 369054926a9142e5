//! Opening a volume, however it was left.
//!
//! 1. The superblock says whose it is and where things are.
//! 2. The newest whole checkpoint gives index, segments, marks and notes as they were.
//! 3. The journal says what was purged, noted, opened and sealed since.
//! 4. Of segments opened since, the old content leaves the index, and the new one comes from their
//!    footers, or, of those that were not sealed, from the heads of their records.
//!
//! So what is read is bounded by the checkpoint, the journal, the footers since and the segments that
//! were open, however the store ended. Payload is not looked at: a torn record fails its checksum
//! when it is read, and is a miss. Without any checkpoint all footers are read.

use super::budget::Account;
use super::checkpoint::{self, Loaded, Written};
use super::codec::round_up;
use super::erasure::Progress;
use super::geometry::{FormatOptions, Geometry};
use super::index::{Index, Inserted, LINE_SLOTS};
use super::journal::{self, Event, Journal, Replay};
use super::limits::{BLOCK_BYTES, FORMAT_VERSION_AT_FIRST, INDEX_LOAD};
use super::notes::Note;
use super::purges::{Floors, Mark, Target, Verdict};
use super::reclaim::read_footer;
use super::record::{Bad, RecordHead, place};
use super::segment::{self, Entry, footer_bytes};
use super::slot::{KIND_CHUNK, Slot};
use super::superblock::{Superblock, Uuid};
use super::table::{SegmentInfo, SegmentState, SegmentTable};
use super::volume::{Books, Common, Volume};
use super::writer::{Stream, Writer};
use crate::error::DiskError;
use freshet_device::{Device, IoError};
use std::sync::Arc;

/// What a scan reads at once: heads of many small records, or of one large one.
const SCAN_BYTES: u64 = 64 << 10;

/// How a volume was found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Whether it had been stopped in order.
    pub was_clean: bool,
    /// Whether a checkpoint could be used.
    pub had_checkpoint: bool,
    /// Records in the index.
    pub entries: u64,
    /// Records found after the checkpoint.
    pub replayed: u64,
    /// Segments that were open and were read through.
    pub scanned: u32,
    /// Purges since the checkpoint.
    pub purges: u64,
    /// Whether purges may have been lost, so that all content is refused.
    pub lost_purges: bool,
}

/// An opened volume with the one that writes to it.
#[derive(Debug)]
pub struct Opened {
    /// For everybody.
    pub volume: Arc<Volume>,
    /// For one thread.
    pub writer: Writer,
    /// How it was found.
    pub report: Report,
    /// The newest purge it knows.
    pub last_mark: u64,
}

/// Divides a device and makes it an empty volume of a set. What was on it is gone.
///
/// # Errors
/// The device is too small, or failed.
pub fn format(
    device: &dyn Device,
    (set, secret): (Uuid, [u8; 16]),
    options: FormatOptions,
    now_ms: u64,
) -> Result<Superblock, DiskError> {
    let geometry = Geometry::plan(device.bytes(), options)?;
    let superblock = Superblock {
        version: FORMAT_VERSION_AT_FIRST,
        device: Uuid::random(),
        set,
        secret,
        geometry,
    };
    let table = SegmentTable::new(&geometry);
    let header = checkpoint::Header {
        seq: 0,
        journal: 1,
        formatted_ms: now_ms,
        is_clean: true,
        ..Default::default()
    };
    checkpoint::write_empty(device, superblock.device, &geometry, header, &table)?;
    device.write(
        geometry.checkpoint_at[1],
        freshet_device::block::Block::new(BLOCK_BYTES as usize),
    )?;
    superblock.write(device)?;
    Ok(superblock)
}

/// Opens a volume. Marks of purges and notes found on it are added to `common`, those there that it
/// does not know are applied to it.
///
/// # Errors
/// What the device holds instead of a store, or why it cannot be read.
pub fn open(device: Arc<dyn Device>, common: Common) -> Result<Opened, DiskError> {
    let mut superblock = Superblock::read(&*device)?;
    if superblock.version < FORMAT_VERSION_AT_FIRST {
        // What was written before is read as it is; what is written from now on, programs that
        // know the version before do not understand.
        superblock.version = FORMAT_VERSION_AT_FIRST;
        superblock.write(&*device)?;
    }
    let recovered = recover(&*device, &superblock, &common)?;
    let Recovered { index, table, journal, written, formatted_ms, to_seal, report, .. } = recovered;
    let (place, journal_from) = (recovered.place, recovered.journal_from);
    let journal = Journal::new(superblock.device, superblock.geometry, journal);
    let mut books = Books::new(table, journal, written, formatted_ms, recovered.account);
    books.has_notes(&recovered.notes);
    books.erasure = recovered.erasure;
    let volume = Arc::new(Volume::new(device, superblock, common.clone(), index, books));
    let last_mark = volume.catch_up(recovered.last_mark);
    let mut writer = Writer::new(Arc::clone(&volume), place, journal_from);
    writer.count_sealed(recovered.unknown);
    writer.seal_recovered(&to_seal)?;
    writer.tend()?;
    Ok(Opened { volume, writer, report, last_mark })
}

/// Looks at a volume and changes nothing.
///
/// # Errors
/// As [`open`].
pub fn inspect(device: &dyn Device, common: &Common) -> Result<(Superblock, Report), DiskError> {
    let superblock = Superblock::read(device)?;
    let recovered = recover(device, &superblock, common)?;
    Ok((superblock, recovered.report))
}

/// A volume as it was left.
struct Recovered {
    index: Index,
    table: SegmentTable,
    /// The next block of the journal.
    journal: u64,
    /// The first block of the journal the checkpoint does not know.
    journal_from: u64,
    written: Written,
    account: Account,
    erasure: Option<Progress>,
    formatted_ms: u64,
    place: usize,
    /// Segments the checkpoint does not know, which the next start would have to read again.
    unknown: u32,
    to_seal: Vec<(u32, u64, Vec<Entry>)>,
    /// The newest purge it knows.
    last_mark: u64,
    notes: Vec<Note>,
    report: Report,
}

fn recover(
    device: &dyn Device,
    superblock: &Superblock,
    common: &Common,
) -> Result<Recovered, DiskError> {
    let geometry = &superblock.geometry;
    let id = superblock.device;
    let replay = journal::read(device, id, geometry)?;
    let first_kept = replay.blocks.first().map_or(replay.next, |(number, _)| *number);
    let loaded = newest(device, id, geometry)?;
    let mut report = Report { had_checkpoint: loaded.is_some(), ..Report::default() };
    let Loaded { header, index, mut table, marks, mut notes, place } = match loaded {
        Some(loaded) => loaded,
        None => Loaded {
            header: checkpoint::Header { journal: 1, ..Default::default() },
            index: Index::new(geometry.lines)?,
            table: headers(device, id, geometry),
            marks: Vec::new(),
            notes: Vec::new(),
            place: 0,
        },
    };
    let mut last_mark = marks.iter().map(|mark| mark.seq).max().unwrap_or(0);
    common.sequence.raise(header.seq);
    marks.into_iter().for_each(|mark| common.purges.note(mark));
    common.purges.raise_floors(header.floors);
    let changes = Changes::of(&replay, header.journal, &mut table);
    for mark in &changes.marks {
        common.purges.note(*mark);
        last_mark = last_mark.max(mark.seq);
        if let Mark { target: Target::Key(hash), soft: None, .. } = *mark {
            index.remove_heads(hash, |_| {});
        }
    }
    notes.extend(changes.notes);
    notes.iter().for_each(|note| common.found(note.clone()));
    report.purges = changes.marks.len() as u64;
    let is_of_this = |erasure: &Progress| erasure.erased.segments == geometry.segments;
    let erasure = changes.erasure.or(header.erasure).filter(is_of_this);
    let erased_since = erasure.as_ref().map_or(0, |progress| progress.since);
    common.sequence.raise(changes.last_seq.max(erased_since));
    // Of a journal that ends before what the checkpoint knows of it neither copy is there.
    let is_journal_lost = replay.next < header.journal;
    if first_kept > header.journal || is_journal_lost {
        // What was purged in between is not known any more.
        report.lost_purges = report.had_checkpoint || first_kept > 1;
    }
    let journal = match is_journal_lost {
        // Behind all it may have held: what of it comes back is not taken for newer, and the gap says until
        // the next checkpoint that something is missing.
        true => header.journal + Journal::ring_blocks(geometry),
        false => replay.next,
    };
    // Segments whose content the checkpoint does not know, with the first number it does not.
    let mut unknown: Vec<(u32, u64)> = Vec::new();
    let mut reopened = vec![false; geometry.segments as usize];
    for (segment, info) in table.iter() {
        let is_new = info.seq > header.seq || !report.had_checkpoint;
        if let Some(reopened) = reopened.get_mut(segment as usize) {
            *reopened = is_new && report.had_checkpoint;
        }
        let may_have_more = is_new || changes.was_open.contains(&segment);
        if may_have_more && info.seq > 0 && info.state != SegmentState::Free {
            unknown.push((segment, if is_new { 0 } else { header.seq }));
        }
    }
    if reopened.contains(&true) {
        let unit = u64::from(geometry.unit_bytes);
        let goes = |slot: Slot| {
            let segment = geometry.segment_of(slot.units_at() * unit);
            segment.is_none_or(|segment| reopened.get(segment as usize) == Some(&true))
        };
        index.remove_where(goes, |_| {});
    }
    let mut written = header.written;
    let journal_blocks = replay.next.saturating_sub(header.journal);
    if report.had_checkpoint {
        written.metadata_bytes += journal_blocks * Journal::BLOCK_WRITTEN_BYTES;
    }
    let mut to_seal = Vec::new();
    let mut entries: Vec<(u32, Entry)> = Vec::new();
    let unknown_count = unknown.len() as u32;
    for (segment, from_seq) in unknown {
        let info = table.get(segment);
        let footer = read_footer(device, geometry, segment, info.seq).ok().flatten();
        let is_sealed = footer.is_some();
        let found = footer.unwrap_or_else(|| {
            report.scanned += 1;
            scan(device, geometry, segment, info.seq)
        });
        let used = found.iter().map(|entry| entry.units).sum();
        // What was written after the checkpoint wore the drive whether it is known there or not.
        // Without a checkpoint the headers are what is known of it.
        let is_reopened = from_seq == 0 && report.had_checkpoint;
        let header = is_reopened.then(|| header_of(device, id, geometry, segment)).flatten();
        let is_kept = header.map_or(info.is_kept, |(seq, is_kept)| is_kept && seq == info.seq);
        count_written(&mut written, &found, from_seq, is_kept, geometry.unit_bytes.into());
        if is_sealed {
            written.metadata_bytes += footer_bytes(found.len());
        }
        let heads = found.iter().filter(|entry| entry.kind != KIND_CHUNK);
        let oldest_born = heads.map(|entry| entry.born).min().unwrap_or(u64::MAX);
        let retired = info.state == SegmentState::Retired;
        table.change(segment, |info| {
            info.used_units = used;
            info.oldest_born = oldest_born;
            info.is_kept = is_kept;
            info.live_units = if from_seq == 0 { 0 } else { info.live_units };
            info.state = match (retired, found.is_empty()) {
                (true, _) => SegmentState::Retired,
                (false, true) => SegmentState::Free,
                (false, false) if is_sealed => SegmentState::Sealed,
                (false, false) => SegmentState::Open,
            };
        });
        entries.extend(
            found.iter().filter(|entry| entry.seq >= from_seq).map(|entry| (segment, *entry)),
        );
        if !is_sealed && !retired && !found.is_empty() {
            to_seal.push((segment, info.seq, found));
        }
    }
    entries.sort_unstable_by_key(|(_, entry)| entry.seq);
    let last_seq = entries.last().map_or(0, |(_, entry)| entry.seq);
    common.sequence.raise(last_seq.max(header.seq));
    if report.lost_purges {
        let all = common.next_seq();
        common.purges.raise_floors(Floors { any: all, looked_up: all });
    }
    report.replayed = entries.len() as u64;
    let index = match report.had_checkpoint {
        true => index,
        // All there is comes from the segments: how long the index had been is to be seen from that.
        false => Index::new(lines_for(geometry, report.replayed))?,
    };
    insert(&index, &mut table, geometry, common, &entries);
    report.was_clean = header.is_clean && report.replayed == 0 && report.scanned == 0;
    report.entries = index.entries();
    Ok(Recovered {
        index,
        table,
        journal,
        journal_from: header.journal,
        written,
        account: header.account,
        erasure,
        formatted_ms: header.formatted_ms,
        place,
        unknown: unknown_count,
        to_seal,
        last_mark,
        notes,
        report,
    })
}

/// The newest checkpoint that is whole.
fn newest(device: &dyn Device, id: Uuid, geometry: &Geometry) -> Result<Option<Loaded>, DiskError> {
    let header =
        |place| checkpoint::header(device, id, geometry, place).map(|header| (place, header));
    let mut found: Vec<_> = (0..2).filter_map(header).collect();
    found.sort_by_key(|(_, header)| std::cmp::Reverse(header.seq));
    for (place, header) in found {
        if let Some(loaded) = checkpoint::load(device, geometry, place, header)? {
            return Ok(Some(loaded));
        }
    }
    Ok(None)
}

/// What happened since a checkpoint.
#[derive(Debug, Default)]
struct Changes {
    marks: Vec<Mark>,
    notes: Vec<Note>,
    /// Segments that were open then.
    was_open: Vec<u32>,
    erasure: Option<Progress>,
    last_seq: u64,
}

impl Changes {
    /// Reads the journal from a block on and brings the table up to date.
    fn of(replay: &Replay, from: u64, table: &mut SegmentTable) -> Self {
        let mut changes = Self {
            was_open: table
                .iter()
                .filter(|(_, info)| matches!(info.state, SegmentState::Open))
                .map(|(segment, _)| segment)
                .collect(),
            ..Self::default()
        };
        let blocks = replay.blocks.iter().filter(|(number, _)| *number >= from);
        for event in blocks.flat_map(|(_, events)| events) {
            match event.clone() {
                Event::Noted(note) => changes.notes.push(note),
                Event::Erasing(progress) => changes.erasure = Some(progress),
                Event::Purged(mark) => {
                    changes.last_seq = changes.last_seq.max(mark.seq);
                    changes.marks.push(mark);
                }
                Event::Opened { segment, seq } => {
                    changes.last_seq = changes.last_seq.max(seq);
                    table.change(segment, |info| *info = SegmentInfo::opened(seq));
                }
                Event::Sealed { segment, seq } => table.change(segment, |info| {
                    if info.seq == seq && info.state == SegmentState::Open {
                        info.state = SegmentState::Sealed;
                    }
                }),
                Event::Retired { segment } => {
                    table.change(segment, |info| info.state = SegmentState::Retired);
                }
            }
        }
        changes
    }
}

/// The segments as their headers say, where there is no checkpoint.
fn headers(device: &dyn Device, id: Uuid, geometry: &Geometry) -> SegmentTable {
    let mut table = SegmentTable::new(geometry);
    for segment in 0..geometry.segments {
        if let Some((seq, is_kept)) = header_of(device, id, geometry, segment) {
            table.change(segment, |info| {
                (info.state, info.seq, info.is_kept) = (SegmentState::Open, seq, is_kept);
            });
        }
    }
    table
}

/// The number of the opening a segment's header speaks of, and whether it is of what was kept.
fn header_of(
    device: &dyn Device,
    id: Uuid,
    geometry: &Geometry,
    segment: u32,
) -> Option<(u64, bool)> {
    let block = device.read(geometry.segment_at(segment), BLOCK_BYTES as usize).ok()?;
    let (seq, stream) = segment::parse_header(&block, id, segment)?;
    Some((seq, stream == Stream::Kept as u8))
}

/// Counts what was written to a segment from the first record of this number on, of all that are in it.
fn count_written(
    written: &mut Written,
    found: &[Entry],
    from_seq: u64,
    is_kept: bool,
    unit_bytes: u64,
) {
    let end_of = |entry: &Entry| (u64::from(entry.units_at) + u64::from(entry.units)) * unit_bytes;
    let (known, new) = found.split_at(found.partition_point(|entry| entry.seq < from_seq));
    let start = known.last().map_or(BLOCK_BYTES, end_of);
    let end = new.last().map_or(start, |last| round_up(end_of(last), BLOCK_BYTES));
    let records = new.iter().map(|entry| u64::from(entry.units) * unit_bytes).sum::<u64>();
    match is_kept {
        true => written.reinserted_bytes += records,
        false => written.admitted_bytes += records,
    }
    written.padding_bytes += (end - start).saturating_sub(records);
    if from_seq == 0 {
        written.metadata_bytes += BLOCK_BYTES;
    }
}

/// The records of a segment without a footer, as far as they follow one another.
pub(crate) fn scan(device: &dyn Device, geometry: &Geometry, segment: u32, seq: u64) -> Vec<Entry> {
    let unit = u64::from(geometry.unit_bytes);
    let mut window = Window::new(device, geometry, segment);
    let mut entries = Vec::new();
    let mut position = BLOCK_BYTES;
    loop {
        let aligned = round_up(position, BLOCK_BYTES);
        let next = [position, aligned].into_iter().find_map(|at| {
            window.head(at).ok().filter(|head| head.segment_seq == seq).map(|head| (at, head))
        });
        let Some((at, head)) = next else { return entries };
        let (_, len) = place(at, &head, geometry.unit_bytes);
        if at + len > geometry.segment_bytes {
            return entries;
        }
        entries.push(Entry {
            hash: head.index_hash(),
            seq: head.seq,
            born: head.born,
            units_at: (at / unit) as u32,
            units: (len / unit) as u32,
            kind: head.index_kind(),
            share: head.share,
        });
        position = at + len;
    }
}

/// A part of a segment in memory.
pub(super) struct Window<'a> {
    device: &'a dyn Device,
    at: u64,
    end: u64,
    start: u64,
    bytes: Option<freshet_device::block::Block>,
}

impl<'a> Window<'a> {
    pub(super) fn new(device: &'a dyn Device, geometry: &Geometry, segment: u32) -> Self {
        let (at, end) = (geometry.segment_at(segment), geometry.segment_bytes);
        Self { device, at, end, start: 0, bytes: None }
    }

    /// The head of the record at `position` of the segment.
    pub(super) fn head(&mut self, position: u64) -> Result<RecordHead, Bad> {
        let mut wanted = super::record::FIXED_BYTES as u64;
        loop {
            let bytes = self.bytes(position, wanted).map_err(|_| Bad::NotARecord)?;
            match RecordHead::parse(bytes) {
                Err(Bad::Longer(more)) if (more as u64) > wanted => wanted = more as u64,
                other => return other,
            }
        }
    }

    /// At least `len` bytes from `position` on.
    fn bytes(&mut self, position: u64, len: u64) -> Result<&[u8], IoError> {
        let held = self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if position < self.start || position + len > self.start + held {
            let start = position & !(BLOCK_BYTES - 1);
            let end = round_up(position + len, BLOCK_BYTES).max(start + SCAN_BYTES).min(self.end);
            if position + len > end {
                return Err(IoError::Short);
            }
            self.bytes = Some(self.device.read(self.at + start, (end - start) as usize)?);
            self.start = start;
        }
        let from = (position - self.start) as usize;
        self.bytes.as_ref().and_then(|bytes| bytes.get(from..)).ok_or(IoError::Short)
    }
}

/// The lines of an index for so many records that has grown as far as it can from that of the format.
fn lines_for(geometry: &Geometry, entries: u64) -> u64 {
    let wanted = (entries as f64 / INDEX_LOAD / LINE_SLOTS as f64).ceil() as u64;
    let grown = std::iter::successors(Some(geometry.lines), |lines| lines.checked_mul(2));
    let mut grown = grown.take_while(|lines| *lines <= geometry.lines_max());
    grown.find(|lines| *lines > wanted).unwrap_or_else(|| geometry.lines_max())
}

/// Puts records into the index in the order they were written.
fn insert(
    index: &Index,
    table: &mut SegmentTable,
    geometry: &Geometry,
    common: &Common,
    entries: &[(u32, Entry)],
) {
    let unit = u64::from(geometry.unit_bytes);
    let floors = common.purges.floors();
    for (segment, entry) in entries {
        let is_purged = entry.kind != KIND_CHUNK
            && (entry.born < floors.any
                || common.purges.verdict(entry.hash, &[], entry.born) == Verdict::Purged);
        if is_purged {
            continue;
        }
        let at = geometry.segment_at(*segment) / unit + u64::from(entry.units_at);
        match index.insert(entry.hash, entry.kind, at, entry.units) {
            Inserted::Known => continue,
            Inserted::Added => {}
            Inserted::Replaced(old) | Inserted::Dropped(old) => {
                if let Some(segment) = geometry.segment_of(old.units_at() * unit) {
                    table.change(segment, |info| {
                        info.live_units = info.live_units.saturating_sub(old.units());
                    });
                }
            }
        }
        table.change(*segment, |info| info.live_units += entry.units);
    }
}
