//! The one that writes to a disk: appends records, seals segments, frees old ones, keeps the journal.
//!
//! Records are collected into writes of 1 MiB, some of which are under way at once. A record is
//! findable when its last byte and all before it were written. Two streams, each with a segment of
//! its own, keep what is new apart from what was kept because it is used.

use super::budget::Budget;
use super::checkpointing::Checkpoint;
use super::codec::round_up;
use super::discard::Discards;
use super::growth::Growth;
use super::journal::Event;
use super::limits::{BLOCK_BYTES, IO_TIMEOUT, WRITE_BYTES, WRITES_IN_FLIGHT_MAX};
use super::record::{RecordHead, place};
use super::segment::{self, Entry, footer_bytes};
use super::share::Count;
use super::table::{FREE_WANTED, SegmentInfo, SegmentState};
use super::variant::Unindexed;
use super::volume::Volume;
use crate::error::DiskError;
use freshet_device::block::{Block, Buffer};
use freshet_device::{Completion, Io, IoError, Op};
use std::collections::VecDeque;
use std::sync::Arc;

/// Which of the open segments a record goes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stream {
    /// What comes for the first time.
    New,
    /// What was there and is kept because it is used.
    Kept,
}

/// What writes to one volume. There is one for each.
#[derive(Debug)]
pub struct Writer {
    pub(crate) volume: Arc<Volume>,
    open: [Option<Open>; 2],
    in_flight: VecDeque<InFlight>,
    /// Variants among what is not in the index yet.
    pub(super) unindexed: Unindexed,
    /// Blocks to use again.
    spare: Vec<Block>,
    /// The place of the newest checkpoint.
    pub(super) checkpoint_place: usize,
    /// The first block of the journal the newest checkpoint does not know.
    pub(super) checkpoint_journal: u64,
    pub(super) sealed_since: u32,
    /// The one that is being written.
    pub(super) checkpoint: Option<Checkpoint>,
    is_dirty: bool,
    pub(crate) keeps: bool,
    pub(crate) budget: Option<Arc<Budget>>,
    /// A longer index that is being made.
    pub(super) growth: Option<Growth>,
    /// How far what shares have was counted.
    pub(super) shares: Count,
    /// Whether the index cannot grow any more.
    pub(super) is_index_longest: bool,
    /// What began before this was erased where it was purged; 0 where nothing was.
    pub(super) erased_since: u64,
}

/// A segment that is being written.
#[derive(Debug)]
struct Open {
    segment: u32,
    seq: u64,
    stream: Stream,
    /// Where in the segment the buffer begins.
    buffer_at: u64,
    buffer: Block,
    filled: usize,
    /// All records of the segment.
    entries: Vec<Entry>,
    /// How many of them are in writes that were begun.
    submitted: usize,
    discards: Discards,
}

#[derive(Debug)]
struct InFlight {
    segment: u32,
    seq: u64,
    completion: Completion,
    /// Records that end in it.
    entries: Vec<Entry>,
}

impl Writer {
    /// A writer of `volume`, whose newest checkpoint is in `checkpoint_place`.
    pub(crate) fn new(
        volume: Arc<Volume>,
        checkpoint_place: usize,
        checkpoint_journal: u64,
    ) -> Self {
        let erased_since = volume.erasure().map_or(0, |progress| progress.since);
        Self {
            volume,
            open: [None, None],
            in_flight: VecDeque::new(),
            unindexed: Unindexed::default(),
            spare: Vec::new(),
            checkpoint_place,
            checkpoint_journal,
            sealed_since: 0,
            checkpoint: None,
            is_dirty: false,
            keeps: false,
            budget: None,
            growth: None,
            shares: Count::default(),
            is_index_longest: false,
            erased_since,
        }
    }

    /// The volume it writes.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Notes segments that were sealed after the checkpoint, by a process before.
    pub(crate) fn count_sealed(&mut self, segments: u32) {
        self.sealed_since += segments;
    }

    /// Whether records that were used are written again when their segment is freed.
    pub fn set_keeps(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// Charges a budget with what is written, and keeps its account.
    pub(crate) fn set_budget(&mut self, budget: Arc<Budget>) {
        self.budget = Some(budget);
        self.expect_checkpoints();
        self.charge(0);
    }

    /// Tells the budget how long a checkpoint is.
    pub(super) fn expect_checkpoints(&self) {
        if let Some(budget) = &self.budget {
            budget.expect_checkpoints(self.volume.checkpoint_bytes());
        }
    }

    /// The segment a stream is written to.
    pub(super) fn segment_of(&self, stream: Stream) -> Option<u32> {
        self.open[stream as usize].as_ref().map(|open| open.segment)
    }

    /// The records of a segment that is being written.
    pub(super) fn open_entries(&self, segment: u32) -> Option<&[Entry]> {
        let open = self.open.iter().flatten().find(|open| open.segment == segment);
        open.map(|open| &*open.entries)
    }

    /// Records that are written or about to be, and not in the index yet.
    pub(super) fn unindexed(&self) -> u64 {
        let open = self.open.iter().flatten().map(|open| open.entries.len() - open.submitted);
        let in_flight = self.in_flight.iter().map(|write| write.entries.len());
        open.chain(in_flight).sum::<usize>() as u64
    }

    /// Charges what was written since the last time, of which so many bytes are a checkpoint's whose
    /// time had come.
    pub(crate) fn charge(&self, scheduled_bytes: u64) {
        if let Some(budget) = &self.budget {
            let written_bytes = self.volume.books().written.total();
            budget.note(self.volume.common.now_ms(), written_bytes, scheduled_bytes);
        }
    }

    /// Appends a record. `head` gets its segment and its number here; its lengths and checksums
    /// are those of `payload`.
    pub(crate) fn append(
        &mut self,
        stream: Stream,
        mut head: RecordHead,
        payload: &[&[u8]],
    ) -> Result<(), DiskError> {
        self.make_room_in_index()?;
        let geometry = *self.volume.geometry();
        head.lay_out(geometry.record_bytes_max);
        let bytes = head.bytes();
        if head.payload_at().max(head.payload_bytes.into()) > u64::from(geometry.record_bytes_max) {
            return Err(DiskError::RecordTooLong { bytes });
        }
        let (start, len) = self.find_room(stream, &head)?;
        head.seq = self.volume.common.next_seq();
        let Some(open) = &mut self.open[stream as usize] else {
            return Err(DiskError::Full);
        };
        head.segment_seq = open.seq;
        let unit = u64::from(geometry.unit_bytes);
        let entry = Entry {
            hash: head.index_hash(),
            seq: head.seq,
            born: head.born,
            units_at: (start / unit) as u32,
            units: (len / unit) as u32,
            kind: head.index_kind(),
            share: head.share,
        };
        open.entries.push(entry);
        let place = self.volume.place_of(open.segment);
        self.volume.common.shares.appended(head.share, place, len);
        self.unindexed.add(open.segment, &head, &entry);
        let gap = start - (open.buffer_at + open.filled as u64);
        let mut text = Vec::with_capacity(head.payload_at() as usize);
        head.write(&mut text);
        self.put_zeroes(stream, gap)?;
        self.put(stream, &text)?;
        for part in payload {
            self.put(stream, part)?;
        }
        self.put_zeroes(stream, len - bytes)?;
        let mut books = self.volume.books();
        match stream {
            Stream::New => books.written.admitted_bytes += bytes,
            Stream::Kept => books.written.reinserted_bytes += bytes,
        }
        books.written.padding_bytes += gap + len - bytes;
        drop(books);
        self.reap(false)
    }

    /// Begins to write what is waiting in the buffers.
    ///
    /// # Errors
    /// The device failed.
    pub fn submit(&mut self) -> Result<(), DiskError> {
        for stream in [Stream::New, Stream::Kept] {
            self.submit_stream(stream)?;
        }
        Ok(())
    }

    /// Writes everything that is waiting and makes it findable.
    ///
    /// # Errors
    /// The device failed.
    pub fn drain(&mut self) -> Result<(), DiskError> {
        self.submit()?;
        self.reap(true)
    }

    /// Makes everything written durable, purges first.
    ///
    /// # Errors
    /// The device failed.
    pub fn flush(&mut self) -> Result<(), DiskError> {
        self.volume.commit_journal()?;
        if std::mem::take(&mut self.is_dirty) {
            self.volume.device.flush()?;
        }
        Ok(())
    }

    /// Makes purges durable; sees to checkpoints.
    ///
    /// # Errors
    /// The device failed.
    pub fn tend(&mut self) -> Result<(), DiskError> {
        self.reap(false)?;
        self.volume.commit_journal()?;
        self.see_to_checkpoints()
    }

    /// Whether bytes wait for more to be written with them.
    pub fn has_waiting(&self) -> bool {
        let waits = |open: &Option<Open>| open.as_ref().is_some_and(|open| open.filled > 0);
        self.open.iter().any(waits) || !self.in_flight.is_empty()
    }

    /// Ends in order: seals what is open and writes a checkpoint.
    ///
    /// # Errors
    /// The device failed; what was sealed before is still good.
    pub fn stop(&mut self) -> Result<(), DiskError> {
        for stream in [Stream::New, Stream::Kept] {
            self.seal(stream)?;
        }
        self.checkpoint(true)
    }

    /// Seals segments that were open when the store ended without order.
    pub(crate) fn seal_recovered(
        &mut self,
        segments: &[(u32, u64, Vec<Entry>)],
    ) -> Result<(), DiskError> {
        for (segment, seq, entries) in segments {
            match self.write_footer(*segment, *seq, entries) {
                // It is readable without, and read through again the next time.
                Err(DiskError::DeviceIo(error)) if error.is_full() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Where the next record goes, opening a segment if need be.
    fn find_room(&mut self, stream: Stream, head: &RecordHead) -> Result<(u64, u64), DiskError> {
        let geometry = *self.volume.geometry();
        for _ in 0..2 {
            if let Some(open) = &self.open[stream as usize] {
                let (start, len) =
                    place(open.buffer_at + open.filled as u64, head, geometry.unit_bytes);
                let end = round_up(start + len, BLOCK_BYTES);
                if end + footer_bytes(open.entries.len() + 1) <= geometry.segment_bytes {
                    return Ok((start, len));
                }
                self.seal(stream)?;
            }
            self.open_segment(stream)?;
        }
        Err(DiskError::Full)
    }

    /// Whether the next segment is one that was free all along: it costs nothing that is stored.
    pub(super) fn has_unused(&self) -> bool {
        self.volume.books().table.count(SegmentState::Free) > FREE_WANTED
    }

    /// Whether a record can be kept without freeing another segment for it.
    pub(crate) fn has_room_to_keep(&self, bytes: u64) -> bool {
        let geometry = self.volume.geometry();
        let fits = self.open[Stream::Kept as usize].as_ref().is_some_and(|open| {
            let start = round_up(open.buffer_at + open.filled as u64, BLOCK_BYTES);
            let end = round_up(start + bytes, BLOCK_BYTES);
            end + footer_bytes(open.entries.len() + 1) <= geometry.segment_bytes
        });
        fits || self.volume.books().table.count(SegmentState::Free) > 0
    }

    fn open_segment(&mut self, stream: Stream) -> Result<(), DiskError> {
        self.see_to_checkpoints()?;
        let geometry = *self.volume.geometry();
        // One is kept free for the other stream.
        let wanted = if stream == Stream::New { FREE_WANTED } else { 1 };
        let free = |writer: &Self| writer.volume.books().table.count(SegmentState::Free);
        while free(self) < wanted {
            if !self.reclaim()? {
                break;
            }
        }
        let volume = Arc::clone(&self.volume);
        let mut books = volume.books();
        let segment = books.table.free().ok_or(DiskError::Full)?;
        let seq = volume.common.next_seq();
        let is_kept = stream == Stream::Kept;
        let info = SegmentInfo { is_kept, ..SegmentInfo::opened(seq) };
        books.table.change(segment, |slot| *slot = info);
        volume.set_filling(books.table.is_filling());
        books.add_event(Event::Opened { segment, seq });
        books.written.metadata_bytes += BLOCK_BYTES;
        drop(books);
        volume.set_segment_seq(segment, seq);
        // Nobody may write over what was there before it is known that it is gone.
        volume.commit_journal()?;
        let start = geometry.segment_at(segment);
        let discards = Discards::begin(&volume, start..start + geometry.segment_bytes);
        let mut buffer = self.spare.pop().unwrap_or_else(|| Block::new(buffer_bytes(&geometry)));
        let header = segment::header(volume.superblock.device, segment, seq, stream as u8);
        buffer[..header.len()].copy_from_slice(&header);
        let filled = header.len();
        self.open[stream as usize] = Some(Open {
            segment,
            seq,
            stream,
            buffer_at: 0,
            buffer,
            filled,
            entries: Vec::new(),
            submitted: 0,
            discards,
        });
        Ok(())
    }

    pub(super) fn seal(&mut self, stream: Stream) -> Result<(), DiskError> {
        self.submit_stream(stream)?;
        self.reap(true)?;
        let Some(open) = self.open[stream as usize].take() else { return Ok(()) };
        if let Err(error) = open.discards.end(&self.volume) {
            self.give_up(open.segment, error);
            return Err(error.into());
        }
        self.spare.push(open.buffer);
        if open.entries.is_empty() {
            self.volume.books().table.change(open.segment, |info| info.state = SegmentState::Free);
            return Ok(());
        }
        self.write_footer(open.segment, open.seq, &open.entries)?;
        self.sealed_since += 1;
        Ok(())
    }

    fn write_footer(&mut self, segment: u32, seq: u64, entries: &[Entry]) -> Result<(), DiskError> {
        let volume = &self.volume;
        let footer = segment::footer(entries, seq);
        let at = volume.geometry().segment_at(segment) + volume.geometry().segment_bytes
            - footer.len() as u64;
        let bytes = footer.len() as u64;
        if let Err(error) = volume.device.write(at, footer) {
            self.give_up(segment, error);
            return Err(error.into());
        }
        volume.device.flush()?;
        let used = entries.iter().map(|entry| entry.units).sum();
        let mut books = volume.books();
        books.written.metadata_bytes += bytes;
        books.table.change(segment, |info| {
            if info.state == SegmentState::Open {
                info.state = SegmentState::Sealed;
            }
            info.used_units = used;
        });
        books.add_event(Event::Sealed { segment, seq });
        Ok(())
    }

    fn put(&mut self, stream: Stream, mut bytes: &[u8]) -> Result<(), DiskError> {
        while !bytes.is_empty() {
            let open = self.open[stream as usize].as_mut().ok_or(DiskError::Full)?;
            let room = &mut open.buffer[open.filled..];
            let now = room.len().min(bytes.len());
            let (taken, rest) = bytes.split_at(now);
            room[..now].copy_from_slice(taken);
            open.filled += now;
            bytes = rest;
            self.submit_full(stream)?;
        }
        Ok(())
    }

    fn put_zeroes(&mut self, stream: Stream, mut count: u64) -> Result<(), DiskError> {
        const ZEROES: [u8; 4096] = [0; 4096];
        while count > 0 {
            let now = count.min(ZEROES.len() as u64);
            self.put(stream, &ZEROES[..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    fn submit_full(&mut self, stream: Stream) -> Result<(), DiskError> {
        let is_full = self.open[stream as usize]
            .as_ref()
            .is_some_and(|open| open.filled == open.buffer.len());
        if is_full { self.submit_stream(stream) } else { Ok(()) }
    }

    /// Begins to write the buffer of a stream, filled up to a block.
    fn submit_stream(&mut self, stream: Stream) -> Result<(), DiskError> {
        while self.in_flight.len() >= WRITES_IN_FLIGHT_MAX {
            self.reap_first()?;
        }
        let geometry = *self.volume.geometry();
        self.clear_for(stream)?;
        let next = self.spare.pop();
        let Some(open) = self.open[stream as usize].as_mut().filter(|open| open.filled > 0) else {
            self.spare.extend(next);
            return Ok(());
        };
        let len = round_up(open.filled as u64, BLOCK_BYTES) as usize;
        let padding = len - open.filled;
        open.buffer[open.filled..len].fill(0);
        let next = next.unwrap_or_else(|| Block::new(buffer_bytes(&geometry)));
        let buffer = Buffer::Block(std::mem::replace(&mut open.buffer, next));
        let offset = geometry.segment_at(open.segment) + open.buffer_at;
        open.buffer_at += len as u64;
        open.filled = 0;
        // The last record may go on in the next buffer.
        let written_to = open.buffer_at / u64::from(geometry.unit_bytes);
        let ended = open.entries[open.submitted..]
            .iter()
            .take_while(|entry| u64::from(entry.units_at) + u64::from(entry.units) <= written_to)
            .count();
        let entries = open.entries[open.submitted..open.submitted + ended].to_vec();
        open.submitted += ended;
        let (segment, seq) = (open.segment, open.seq);
        assert_eq!(open.stream, stream, "each stream has its own segment");
        self.is_dirty = true;
        let completion = self.volume.device.submit(Io { op: Op::Write, offset, len, buffer });
        self.volume.books().written.padding_bytes += padding as u64;
        self.in_flight.push_back(InFlight { segment, seq, completion, entries });
        // A part of a checkpoint for each write of the log.
        self.step_checkpoint()
    }

    /// Waits until nothing is to be discarded where the buffer of a stream is about to be written.
    fn clear_for(&mut self, stream: Stream) -> Result<(), DiskError> {
        let Some(open) = &mut self.open[stream as usize] else { return Ok(()) };
        let (segment, seq) = (open.segment, open.seq);
        let buffer_at = self.volume.geometry().segment_at(segment) + open.buffer_at;
        let end = round_up(buffer_at + open.filled as u64, BLOCK_BYTES);
        if let Err(error) = open.discards.clear_to(&self.volume, end) {
            self.fail_segment(segment, seq, error);
            return Err(error.into());
        }
        Ok(())
    }

    /// Takes note of writes that have ended, in order; with `all` waits for every one.
    fn reap(&mut self, all: bool) -> Result<(), DiskError> {
        while self.in_flight.front().is_some_and(|first| all || first.completion.is_ready()) {
            self.reap_first()?;
        }
        Ok(())
    }

    fn reap_first(&mut self) -> Result<(), DiskError> {
        let Some(first) = self.in_flight.pop_front() else { return Ok(()) };
        let outcome = self.volume.device.wait(first.completion, IO_TIMEOUT);
        match outcome.result {
            Ok(()) => {
                self.spare.push(outcome.buffer.into_block());
                self.spare.retain(|block| block.len() == buffer_bytes(self.volume.geometry()));
                self.volume.commit_entries(first.segment, &first.entries);
                self.unindexed.indexed(&first.entries);
                Ok(())
            }
            Err(error) => {
                self.fail_segment(first.segment, first.seq, error);
                Err(error.into())
            }
        }
    }

    /// Gives up a segment that could not be written. What was written to it before stays.
    fn fail_segment(&mut self, segment: u32, seq: u64, error: IoError) {
        tracing::warn!(device = %self.volume.superblock.device, %error, segment, "a write failed");
        self.give_up(segment, error);
        // Later writes to it end for nothing.
        self.in_flight.retain(|write| (write.segment, write.seq) != (segment, seq));
        self.unindexed.lost(segment);
        for open in &mut self.open {
            if open.as_ref().is_some_and(|open| open.segment == segment) {
                *open = None;
            }
        }
    }

    /// Takes note of a write that failed.
    fn give_up(&self, segment: u32, error: IoError) {
        let counts = &self.volume.counts;
        match error {
            error if error.is_full() => {
                counts.no_space.add(1);
                return self.volume.leave_short(segment);
            }
            IoError::TimedOut => counts.timeouts.add(1),
            _ => counts.write_errors.add(1),
        }
        self.volume.retire(self.volume.geometry().segment_at(segment));
    }
}

fn buffer_bytes(geometry: &super::geometry::Geometry) -> usize {
    WRITE_BYTES.min(geometry.record_bytes_max as usize)
}
