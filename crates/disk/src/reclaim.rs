//! Freeing the oldest segment, keeping what is used.

use super::budget::Use;
use super::codec::round_up;
use super::geometry::Geometry;
use super::limits::{BLOCK_BYTES, RECORD_BYTES_MAX, WRITE_BYTES};
use super::purges::Verdict;
use super::record::{Bad, Kind, RecordHead, chunk_hash, key_hash};
use super::segment::{Entry, TRAILER_BYTES, footer_bytes, parse_footer, parse_trailer};
use super::slot::{KIND_CHUNK, Slot};
use super::table::{SegmentInfo, SegmentState};
use super::tactic::{Held, kept};
use super::volume::Volume;
use super::writer::{Stream, Writer};
use crate::error::DiskError;
use freshet_device::IoError;
use std::sync::Arc;

/// Reads the footer of a sealed segment; `None` where there is none of this opening.
pub(crate) fn read_footer(
    volume_device: &dyn freshet_device::Device,
    geometry: &Geometry,
    segment: u32,
    seq: u64,
) -> Result<Option<Vec<Entry>>, IoError> {
    let end = geometry.segment_at(segment) + geometry.segment_bytes;
    let guess = geometry.segment_bytes.min(16 * BLOCK_BYTES);
    let tail = volume_device.read(end - guess, guess as usize)?;
    let trailer = tail.len().checked_sub(TRAILER_BYTES).and_then(|at| tail.get(at..));
    let Some(count) = trailer.and_then(|trailer| parse_trailer(trailer, seq, geometry)) else {
        return Ok(None);
    };
    let bytes = footer_bytes(count);
    if bytes <= guess {
        let at = (guess - bytes) as usize;
        return Ok(tail.get(at..).and_then(|footer| parse_footer(footer, seq, geometry)));
    }
    let footer = volume_device.read(end - bytes, bytes as usize)?;
    Ok(parse_footer(&footer, seq, geometry))
}

impl Writer {
    /// Frees one segment; false where there is none that could be.
    pub(crate) fn reclaim(&mut self) -> Result<bool, DiskError> {
        let volume = Arc::clone(&self.volume);
        let geometry = *volume.geometry();
        let Some((segment, SegmentInfo { seq, state, .. })) = ({
            let books = volume.books();
            books
                .table
                .victim(&volume.common.tactic())
                .map(|segment| (segment, books.table.get(segment)))
        }) else {
            return Ok(false);
        };
        if state == SegmentState::Retired && !can_be_read(&volume, segment) {
            let tried_seq = volume.common.next_seq();
            volume.books().table.change(segment, |info| info.tried_seq = tried_seq);
            return Ok(true);
        }
        let unit = u64::from(geometry.unit_bytes);
        let base = geometry.segment_at(segment) / unit;
        let entries = read_footer(&*volume.device, &geometry, segment, seq);
        if self.keeps
            && let Ok(Some(entries)) = &entries
        {
            self.keep_used(segment, entries)?;
        }
        if let Ok(Some(entries)) = &entries {
            forget_heads_of_chunks(&volume, base, entries);
        }
        let mut books = volume.books();
        match entries {
            Ok(Some(entries)) => {
                for entry in entries {
                    volume.index().remove(entry.hash, base + u64::from(entry.units_at));
                }
            }
            // Without a footer the index itself says what leads there.
            Ok(None) | Err(_) => {
                let end = base + geometry.segment_bytes / unit;
                let goes = |slot: Slot| (base..end).contains(&slot.units_at());
                volume.index().remove_where(goes, |_| {});
            }
        }
        books.table.change(segment, |info| {
            info.state = SegmentState::Free;
            info.live_units = 0;
            info.used_units = 0;
        });
        drop(books);
        volume.common.shares.freed(volume.place_of(segment));
        if state == SegmentState::Retired {
            tracing::info!(device = %volume.superblock.device, segment, "a segment is used again");
        }
        volume.counts.segments_reclaimed.add(1);
        volume.common.begin_generation();
        Ok(true)
    }

    /// Whether the write budget has room for a record that was used so often.
    fn may_keep(&self, bytes: u64, uses: u64) -> bool {
        self.charge(0);
        let used = Use { hits: uses, was_seen: true };
        let now_ms = self.volume.common.now_ms();
        self.budget.as_ref().is_none_or(|budget| budget.admits(now_ms, 0, bytes, used))
    }

    /// Writes again what was used since it was written, as far as it is good and not too much. Of a
    /// long object all or nothing: without one of its chunks the others are of no use.
    fn keep_used(&mut self, segment: u32, entries: &[Entry]) -> Result<(), DiskError> {
        let volume = Arc::clone(&self.volume);
        let geometry = *volume.geometry();
        let unit = u64::from(geometry.unit_bytes);
        let base = geometry.segment_at(segment) / unit;
        let groups = by_object(&volume, base, entries);
        let held: Vec<Held> = groups.iter().map(|group| group.held(unit)).collect();
        let mut moved = Vec::new();
        for at in kept(&held, volume.common.tactic().kept_bytes_max(geometry.segment_bytes)) {
            let (Some(group), Some(Held { bytes, uses })) = (groups.get(at), held.get(at)) else {
                continue;
            };
            if !self.has_room_to_keep(*bytes) || !self.may_keep(*bytes, *uses) {
                continue;
            }
            // A long segment takes most of a second, which no purge waits for.
            volume.commit_journal()?;
            for entry in &group.entries {
                let (at, bytes) = (base + u64::from(entry.units_at), u64::from(entry.units) * unit);
                let record = read_record(&volume, at * unit, bytes, entry);
                let Some((head, payload)) = record.filter(|(head, _)| !self.is_erased(head)) else {
                    continue;
                };
                self.append(Stream::Kept, head, &[&payload])?;
                moved.push((entry.hash, at));
            }
        }
        self.drain()?;
        // Until it can be found elsewhere it is found here.
        moved.into_iter().for_each(|(hash, at)| volume.forget(hash, at));
        Ok(())
    }
}

/// What a segment has of one object: a record, or chunks that lie one after another.
#[derive(Debug, Default)]
struct Group {
    entries: Vec<Entry>,
    /// Of its chunk that was used most.
    uses: u64,
}

impl Group {
    fn held(&self, unit_bytes: u64) -> Held {
        let units = self.entries.iter().map(|entry| u64::from(entry.units));
        Held { bytes: units.sum::<u64>() * unit_bytes, uses: self.uses }
    }
}

/// What the index leads to of a segment, by object.
fn by_object(volume: &Volume, base: u64, entries: &[Entry]) -> Vec<Group> {
    let unit = u64::from(volume.geometry().unit_bytes);
    let mut groups: Vec<Group> = Vec::new();
    // The last chunk that was looked at, and how many came after it.
    let mut chunk: Option<RecordHead> = None;
    for entry in entries {
        let at = base + u64::from(entry.units_at);
        let Some(slot) = volume.index().at(entry.hash, at) else { continue };
        let is_chunk = entry.kind == KIND_CHUNK;
        let goes_on = chunk.as_ref().is_some_and(|last| match is_chunk {
            true => chunk_hash(last.object, last.chunk + 1) == entry.hash,
            false => key_hash(last.key) == entry.hash,
        });
        if goes_on && let (Some(last), Some(group)) = (&mut chunk, groups.last_mut()) {
            last.chunk += 1;
            group.entries.push(*entry);
            group.uses = group.uses.max(slot.uses());
            continue;
        }
        chunk = if is_chunk { read_head(volume, at * unit) } else { None };
        groups.push(Group { entries: vec![*entry], uses: slot.uses() });
    }
    groups
}

/// Whether all of a segment can be read. What cannot be written after that is given up again.
fn can_be_read(volume: &Volume, segment: u32) -> bool {
    let (start, bytes) = (volume.geometry().segment_at(segment), volume.geometry().segment_bytes);
    (0..bytes).step_by(WRITE_BYTES).all(|at| {
        let count = (bytes - at).min(WRITE_BYTES as u64);
        volume.device.read(start + at, count as usize).is_ok()
    })
}

/// Forgets the heads of long objects of which a chunk is about to go: what is not whole is not found,
/// and who has it in memory sees that it has to be written again.
fn forget_heads_of_chunks(volume: &Volume, base: u64, entries: &[Entry]) {
    let unit = u64::from(volume.geometry().unit_bytes);
    // Chunks of an object come one after another: one of them is looked at.
    let mut last: Option<RecordHead> = None;
    for entry in entries.iter().filter(|entry| entry.kind == KIND_CHUNK) {
        let at = base + u64::from(entry.units_at);
        if volume.index().at(entry.hash, at).is_none() {
            continue;
        }
        if let Some(last) = &mut last
            && chunk_hash(last.object, last.chunk + 1) == entry.hash
        {
            last.chunk += 1;
            continue;
        }
        let Some(chunk) = read_head(volume, at * unit) else { continue };
        let hash = key_hash(chunk.key);
        for slot in volume.index().heads(hash).iter() {
            let head = read_head(volume, slot.units_at() * unit);
            if head.is_some_and(|head| head.object == chunk.object) {
                volume.forget(hash, slot.units_at());
            }
        }
        last = Some(chunk);
    }
}

/// What describes the record at `offset`.
pub(super) fn read_head(volume: &Volume, offset: u64) -> Option<RecordHead> {
    let start = offset & !(BLOCK_BYTES - 1);
    let mut wanted = BLOCK_BYTES as usize;
    loop {
        let end = round_up(offset + wanted as u64, BLOCK_BYTES);
        let block = volume.device.read(start, (end - start) as usize).ok()?;
        match RecordHead::parse(block.get((offset - start) as usize..)?) {
            Ok(head) => return Some(head),
            Err(Bad::Longer(bytes)) if bytes > wanted && bytes <= RECORD_BYTES_MAX as usize => {
                wanted = bytes;
            }
            Err(_) => return None,
        }
    }
}

/// A whole record that is as it was written and still wanted.
fn read_record(
    volume: &Volume,
    offset: u64,
    bytes: u64,
    entry: &Entry,
) -> Option<(RecordHead, Vec<u8>)> {
    let start = offset & !(BLOCK_BYTES - 1);
    let end = round_up(offset + bytes, BLOCK_BYTES);
    let block = volume.device.read(start, (end - start) as usize).ok()?;
    let record = block.get((offset - start) as usize..)?;
    let head = RecordHead::parse(record).ok()?;
    let payload = record.get(head.payload_at() as usize..head.bytes() as usize)?;
    let is_it = head.index_hash() == entry.hash
        && head.seq == entry.seq
        && (head.kind == Kind::Chunk) == (entry.kind == KIND_CHUNK)
        && volume.common.purges.verdict(entry.hash, &head.tags, head.born) != Verdict::Purged
        && head.verify(volume.geometry().check_bytes, 0, payload);
    let now_ms = volume.common.now_ms();
    let is_wanted =
        is_it && (head.expires_ms > now_ms || volume.renewed_until_ms(head.object) > now_ms);
    is_wanted.then(|| (head, payload.to_vec()))
}
