//! The journal: purges, notes, which segments were opened and sealed, and how far an erasure is, in the
//! order it happened.
//!
//! A ring of blocks, kept twice so that one bad sector loses no purge. Entries that come together
//! share a block, and a block is written only after the one before is durable: so a gap before the
//! newest block means that the medium lost something, not that the power went.

use super::codec::{Put, Reader};
use super::erasure::{PROGRESS_BYTES_MAX, Progress};
use super::geometry::Geometry;
use super::limits::{BLOCK_BYTES, JOURNAL_NUMBER_MAX, NOTE_BYTES_MAX};
use super::notes::Note;
use super::purges::{Mark, Soft, Target};
use super::superblock::Uuid;
use freshet_device::block::Block;
use freshet_device::{Device, IoError};
use std::collections::VecDeque;

const MAGIC: u64 = 0x4c4e_524a_5352_4601;
const HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;
/// Entries of a block.
const ENTRIES_MAX: usize = (BLOCK_BYTES as usize - HEADER_BYTES) / ENTRY_BYTES;
const _: () = assert!(NOTE_BYTES_MAX.div_ceil(ENTRY_BYTES) < ENTRIES_MAX);
const _: () = assert!(PROGRESS_BYTES_MAX.div_ceil(ENTRY_BYTES) < ENTRIES_MAX);

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Event {
    /// A purge.
    Purged(Mark),
    /// A note: an entry, and as many more as its bytes fill.
    Noted(Note),
    /// A segment was taken to be written from its beginning.
    Opened { segment: u32, seq: u64 },
    /// It was finished, with a footer.
    Sealed { segment: u32, seq: u64 },
    /// It is not to be used any more.
    Retired { segment: u32 },
    /// How far an erasure is: an entry, and as many more as that fills.
    Erasing(Progress),
}

impl Event {
    /// Entries of a block that it takes.
    fn entries(&self) -> usize {
        match self {
            Self::Noted(note) => 1 + note.bytes.len().div_ceil(ENTRY_BYTES),
            Self::Erasing(progress) => 1 + progress.encode().len().div_ceil(ENTRY_BYTES),
            _ => 1,
        }
    }
}

/// The journal while a volume is in use.
#[derive(Debug)]
pub(crate) struct Journal {
    device: Uuid,
    geometry: Geometry,
    next: u64,
    /// The blocks to be written next, and how many entries each has.
    pending: VecDeque<(usize, Vec<Event>)>,
}

/// What was read of a journal.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Blocks with their numbers, oldest first, without a gap.
    pub(crate) blocks: Vec<(u64, Vec<Event>)>,
    /// The number the next block gets.
    pub(crate) next: u64,
}

impl Journal {
    /// Bytes that are written for each block.
    pub(crate) const BLOCK_WRITTEN_BYTES: u64 = 2 * BLOCK_BYTES;

    pub(crate) fn new(device: Uuid, geometry: Geometry, next: u64) -> Self {
        Self { device, geometry, next, pending: VecDeque::new() }
    }

    /// Adds an event; the number of the block it will be in.
    pub(crate) fn add(&mut self, event: Event) -> u64 {
        let more = event.entries();
        match self.pending.back_mut() {
            Some((entries, events)) if *entries + more <= ENTRIES_MAX => {
                *entries += more;
                events.push(event);
            }
            _ => self.pending.push_back((more, vec![event])),
        }
        self.next + self.pending.len() as u64 - 1
    }

    /// The number of the block that is written next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Blocks of one copy of the ring.
    pub(crate) fn ring_blocks(geometry: &Geometry) -> u64 {
        geometry.journal_blocks() / 2
    }

    /// The next block to be written, if there is anything to write, with its places.
    pub(crate) fn take(&mut self) -> Option<([u64; 2], Block)> {
        let (entries, events) = self.pending.pop_front()?;
        let block = encode(self.device, self.next, entries, &events);
        let places = places(&self.geometry, self.next);
        self.next += 1;
        Some((places, block))
    }
}

fn places(geometry: &Geometry, number: u64) -> [u64; 2] {
    let ring = Journal::ring_blocks(geometry);
    let at = geometry.journal_at + number % ring * BLOCK_BYTES;
    [at, at + ring * BLOCK_BYTES]
}

fn encode(device: Uuid, number: u64, entries: usize, events: &[Event]) -> Block {
    let mut out = Vec::with_capacity(BLOCK_BYTES as usize);
    out.put_u64(MAGIC);
    out.put(&device.0);
    out.put_u64(number);
    out.put_u32(entries as u32);
    out.put_u32(0);
    out.resize(HEADER_BYTES, 0);
    for event in events {
        let start = out.len();
        match event {
            Event::Purged(mark) => {
                let (kind, id) = match mark.target {
                    Target::Key(key) => (1, key),
                    Target::Tag(tag) => (2, tag),
                    Target::All => (3, 0),
                };
                out.put_u32(kind);
                out.put_u32(Soft::word(mark.soft));
                out.put_u64(id);
                out.put_u64(mark.seq);
                out.put_u64(mark.soft.map_or(0, |soft| soft.from_ms));
            }
            Event::Opened { segment, seq } => {
                out.put_u32(4);
                out.put_u32(*segment);
                out.put_u64(*seq);
            }
            Event::Sealed { segment, seq } => {
                out.put_u32(5);
                out.put_u32(*segment);
                out.put_u64(*seq);
            }
            Event::Retired { segment } => {
                out.put_u32(6);
                out.put_u32(*segment);
            }
            Event::Noted(note) => {
                out.put_u32(7);
                out.put_u32(note.bytes.len() as u32);
                out.put_u64(note.seq);
                out.resize(start + ENTRY_BYTES, 0);
                out.put(&note.bytes);
            }
            Event::Erasing(progress) => {
                let bytes = progress.encode();
                out.put_u32(8);
                out.put_u32(bytes.len() as u32);
                out.put_u64(progress.since);
                out.resize(start + ENTRY_BYTES, 0);
                out.put(&bytes);
            }
        }
        out.resize(start + event.entries() * ENTRY_BYTES, 0);
    }
    out.resize(BLOCK_BYTES as usize, 0);
    let sum = crc32c::crc32c(&out);
    out[36..40].copy_from_slice(&sum.to_le_bytes());
    Block::from_bytes(&out)
}

pub(super) fn parse(bytes: &[u8], device: Uuid) -> Option<(u64, Vec<Event>)> {
    let mut from = Reader::new(bytes);
    if from.u64()? != MAGIC || from.id()? != device.0 {
        return None;
    }
    let number = from.u64()?;
    let count = from.u32()? as usize;
    let sum = from.u32()?;
    let mut summed = bytes.to_vec();
    summed.get_mut(36..40)?.fill(0);
    if sum != crc32c::crc32c(&summed) || count > ENTRIES_MAX || number > JOURNAL_NUMBER_MAX {
        return None;
    }
    let mut from = Reader::new(bytes.get(HEADER_BYTES..HEADER_BYTES + count * ENTRY_BYTES)?);
    let mut events = Vec::new();
    while let Some(entry) = from.bytes(ENTRY_BYTES) {
        events.push(parse_event(entry, &mut from)?);
    }
    Some((number, events))
}

/// The event of an entry, `rest` being what follows it.
fn parse_event(entry: &[u8], rest: &mut Reader<'_>) -> Option<Event> {
    let mut from = Reader::new(entry);
    let (kind, small, id) = (from.u32()?, from.u32()?, from.u64()?);
    Some(match kind {
        1..=3 => {
            let target = match kind {
                1 => Target::Key(id),
                2 => Target::Tag(id),
                _ => Target::All,
            };
            let seq = from.u64()?;
            let at = from.u64()?;
            Event::Purged(Mark { target, seq, soft: Soft::from_word(small, at) })
        }
        4 => Event::Opened { segment: small, seq: id },
        5 => Event::Sealed { segment: small, seq: id },
        6 => Event::Retired { segment: small },
        7 | 8 => {
            let len = small as usize;
            let bytes = rest.bytes(len.checked_next_multiple_of(ENTRY_BYTES)?)?.get(..len)?;
            match kind {
                7 => Event::Noted(Note { seq: id, bytes: bytes.into() }),
                _ => Event::Erasing(Progress::parse(id, bytes)?),
            }
        }
        _ => return None,
    })
}

/// Reads the journal of a device.
///
/// # Errors
/// Neither copy can be read.
pub(crate) fn read(device: &dyn Device, id: Uuid, geometry: &Geometry) -> Result<Replay, IoError> {
    const STEP_BLOCKS: u64 = 256;
    let ring = Journal::ring_blocks(geometry);
    let mut found: Vec<(u64, Vec<Event>)> = Vec::new();
    let (mut failures, mut last_error) = (0, IoError::Short);
    for copy in 0..2 {
        for first in (0..ring).step_by(STEP_BLOCKS as usize) {
            let blocks = STEP_BLOCKS.min(ring - first);
            let at = geometry.journal_at + (copy * ring + first) * BLOCK_BYTES;
            match device.read(at, (blocks * BLOCK_BYTES) as usize) {
                Ok(bytes) => found.extend(
                    bytes.chunks(BLOCK_BYTES as usize).filter_map(|block| parse(block, id)),
                ),
                Err(error) => (failures, last_error) = (failures + 1, error),
            }
        }
    }
    if failures > 0 && found.is_empty() {
        return Err(last_error);
    }
    found.sort_by_key(|(number, _)| *number);
    found.dedup_by_key(|(number, _)| *number);
    let next = found.last().map_or(1, |(number, _)| number + 1);
    let joins = |pair: &[(u64, Vec<Event>)]| matches!(pair, [a, b] if a.0 + 1 == b.0);
    let start = found.windows(2).rposition(|pair| !joins(pair)).map_or(0, |at| at + 1);
    Ok(Replay { blocks: found.split_off(start), next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FormatOptions;
    use freshet_device::simulation::{Faults, SimulatedDevice};

    #[test]
    fn events_come_back_in_order_over_many_turns_of_the_ring() {
        let geometry = Geometry::plan(8 << 20, FormatOptions::default()).expect("8 MiB will do");
        let sim = SimulatedDevice::new(8 << 20, 1, Faults::default());
        let device: &dyn Device = &sim;
        let id = Uuid::random();
        let mut journal = Journal::new(id, geometry, 1);
        let ring = Journal::ring_blocks(&geometry);
        for number in 1..=3 * ring {
            let soft = Soft { from_ms: 3, grace_ms: Some(number) };
            let mark = Mark { target: Target::Tag(number), seq: number, soft: Some(soft) };
            assert_eq!(journal.add(Event::Purged(mark)), number);
            journal.add(Event::Opened { segment: 1, seq: number });
            journal.add(Event::Noted(Note { seq: number, bytes: vec![7; number as usize].into() }));
            let erasing = Progress { since: number, what: "one".into(), ..Progress::default() };
            assert_eq!(journal.add(Event::Erasing(erasing)), number);
            assert_eq!(journal.add(Event::Sealed { segment: 1, seq: 5 }), number);
            let (places, block) = journal.take().expect("there are events");
            for place in places {
                device.write(place, Block::from_bytes(&block)).expect("the device works");
            }
        }
        let replay = read(device, id, &geometry).expect("the device works");
        assert_eq!((replay.next, replay.blocks.len() as u64), (3 * ring + 1, ring));
        let (number, events) = &replay.blocks[0];
        let noted = Event::Noted(Note { seq: *number, bytes: vec![7; *number as usize].into() });
        let soft = Soft { from_ms: 3, grace_ms: Some(*number) };
        let mark = Mark { target: Target::Tag(*number), seq: *number, soft: Some(soft) };
        assert_eq!(events[..2], [Event::Purged(mark), Event::Opened { segment: 1, seq: *number }]);
        let erasing = Progress { since: *number, what: "one".into(), ..Progress::default() };
        let erasing = Event::Erasing(erasing);
        assert_eq!(events[2..], [noted, erasing, Event::Sealed { segment: 1, seq: 5 }]);
        // One copy of a block may be lost, not both.
        let [first, second] = places(&geometry, 3 * ring - 2);
        sim.flip_bit(first..first + BLOCK_BYTES);
        assert_eq!(
            read(device, id, &geometry).expect("the device works").blocks.len() as u64,
            ring
        );
        sim.flip_bit(second..second + BLOCK_BYTES);
        let replay = read(device, id, &geometry).expect("the device works");
        assert_eq!(replay.blocks.len(), 2);
    }

    #[test]
    fn what_does_not_fit_into_a_block_goes_to_the_next() {
        let geometry = Geometry::plan(8 << 20, FormatOptions::default()).expect("8 MiB will do");
        let id = Uuid::random();
        let mut journal = Journal::new(id, geometry, 1);
        let note = |seq, len: usize| Note { seq, bytes: vec![seq as u8; len].into() };
        let lens = [NOTE_BYTES_MAX, 0, NOTE_BYTES_MAX, 2000, 1900, 32, 31, 33];
        let numbers: Vec<u64> = (1u64..)
            .zip(lens)
            .map(|(seq, len)| journal.add(Event::Noted(note(seq, len))))
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4, 4, 5, 5, 5]);
        let blocks = std::iter::from_fn(|| journal.take());
        let read: Vec<Event> =
            blocks.flat_map(|(_, block)| parse(&block, id).expect("it is whole").1).collect();
        let wanted: Vec<Event> =
            (1u64..).zip(lens).map(|(seq, len)| Event::Noted(note(seq, len))).collect();
        assert_eq!(read, wanted);
    }
}
