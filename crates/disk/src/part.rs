//! Reading a part of an object whose head was read.

use super::codec::round_up;
use super::limits::{BLOCK_BYTES, CHECK_BYTES, RECORD_BYTES_MAX};
use super::read::{ReadError, Stored};
use super::record::{Kind, RecordHead, chunk_hash, payload_offset, sums_of};
use super::slot::Slot;
use freshet_device::block::{Block, Buffer};
use freshet_device::{Completion, Io, Op};
use freshet_store::Arena;
use freshet_store::{Lease, PieceMut};
use std::ops::Range;
use std::sync::Arc;

/// A part of an object that is being read.
#[derive(Debug)]
pub struct PartRead {
    stored: Stored,
    /// Where the caller's part begins and ends in the representation.
    start: u64,
    end: u64,
    /// What of the memory to be read is the part from its first checksum block on.
    from: PartFrom,
    data: Completion,
    /// Where the memory is on the device.
    offset: u64,
    /// Bytes before the first checksum block in the memory.
    skip: usize,
    /// Bytes of the checksum blocks.
    len: usize,
    first_block: usize,
    /// Bytes between the first block's beginning and the wanted part.
    lead: usize,
}

#[derive(Debug)]
enum PartFrom {
    /// The checksums are known.
    Head,
    /// They come with the chunk's own head: before the data, or read beside it.
    Chunk { number: u32, slot: Slot, head: Option<Completion>, head_skip: usize, attempt: usize },
}

impl PartFrom {
    /// Which of the records that look the same to the index it is.
    fn attempt(&self) -> usize {
        match self {
            Self::Head => 0,
            Self::Chunk { attempt, .. } => *attempt,
        }
    }
}

impl Stored {
    /// Begins to read what follows `position`, up to `end` at most, and to the end of a record at
    /// most. Nothing is read twice: begin the next part where [`PartRead::end`] says. At a time no more is
    /// read than `part_bytes_max`, or what is under one checksum.
    ///
    /// # Errors
    /// [`ReadError::Miss`] where the index does not know it; [`ReadError::NoMemory`].
    pub fn begin(
        &self,
        position: u64,
        end: u64,
        part_bytes_max: u64,
        arena: &Arc<Arena>,
    ) -> Result<PartRead, ReadError> {
        self.begin_attempt(position..end, part_bytes_max, arena, 0, None)
    }

    /// As [`Stored::begin`], but waits where there is no memory, in the order in which others wait.
    /// Have nothing under way meanwhile, and the body in transit: what its readers have read may be
    /// all the memory there is.
    ///
    /// # Errors
    /// [`ReadError::Miss`] where the index does not know it.
    pub async fn begin_in_turn(
        &self,
        position: u64,
        end: u64,
        arena: &Arc<Arena>,
    ) -> Result<PartRead, ReadError> {
        match self.begin(position, end, 1, arena) {
            Err(ReadError::NoMemory) => {}
            begun => return begun,
        }
        // One checksum block, what of its record is before it, and what is read to whole blocks.
        let least = self.volume.geometry().check_bytes + 4 * BLOCK_BYTES as u32;
        let piece = arena.allocate_in_turn(least).await;
        self.begin_attempt(position..end, 1, arena, 0, Some(piece))
    }

    fn begin_attempt(
        &self,
        Range { start: position, end }: Range<u64>,
        part_bytes_max: u64,
        arena: &Arc<Arena>,
        attempt: usize,
        given: Option<PieceMut>,
    ) -> Result<PartRead, ReadError> {
        let end = end.min(self.total);
        if position >= end {
            return Err(ReadError::Miss);
        }
        if position >= self.payload_from {
            let len = self.total - self.payload_from;
            let extent = Extent { at: self.payload_at, from: self.payload_from, len };
            return self.begin_in(extent, position..end, None, part_bytes_max, (arena, given));
        }
        let chunk = u64::from(self.chunk_bytes.max(1));
        let number = u32::try_from(position / chunk).map_err(|_| ReadError::Miss)?;
        let from = u64::from(number) * chunk;
        let len = chunk.min(self.payload_from - from);
        let hash = chunk_hash(self.object, number);
        let slot = self.volume.index().chunks(hash).iter().nth(attempt).ok_or(ReadError::Miss)?;
        let record_at = slot.units_at() * u64::from(self.volume.geometry().unit_bytes);
        let sums = sums_of(len, self.volume.geometry().check_bytes);
        let at = record_at + payload_offset(sums, 0, 0);
        let extent = Extent { at, from, len };
        let chunk = Some((number, slot, record_at, attempt));
        self.begin_in(extent, position..end, chunk, part_bytes_max, (arena, given))
    }

    fn begin_in(
        &self,
        extent: Extent,
        Range { start: position, end }: Range<u64>,
        chunk: Option<(u32, Slot, u64, usize)>,
        part_bytes_max: u64,
        (arena, mut given): (&Arc<Arena>, Option<PieceMut>),
    ) -> Result<PartRead, ReadError> {
        let check = u64::from(self.volume.geometry().check_bytes);
        let first = (position - extent.from) / check;
        let block_at = first * check;
        let last = (end.min(extent.from + extent.len) - extent.from).div_ceil(check);
        let mut last = last.min(first + (part_bytes_max / check).max(1));
        loop {
            let stop = (last * check).min(extent.len);
            // The head of a chunk is just before its bytes: when they are read from the front, it
            // comes along.
            let with_head = first == 0;
            let start = match chunk {
                Some((_, _, record_at, _)) if with_head => record_at,
                _ => extent.at + block_at,
            };
            let window = start & !(BLOCK_BYTES - 1);
            let window_end = round_up(extent.at + stop, BLOCK_BYTES);
            let bytes = (window_end - window) as usize;
            let is_piece = bytes <= RECORD_BYTES_MAX as usize;
            let piece = match &given {
                None if is_piece => arena.allocate(bytes),
                Some(piece) if bytes <= piece.capacity() as usize => given.take(),
                _ => None,
            };
            let Some(piece) = piece else {
                // Less at a time, as long as it is more than one block.
                if last - first <= 1 {
                    return Err(ReadError::NoMemory);
                }
                last = first + (last - first) / 2;
                continue;
            };
            let volume = &self.volume;
            let submit = |offset, len, buffer| {
                volume.device.submit(Io { op: Op::Read, offset, len, buffer })
            };
            let from = match chunk {
                None => PartFrom::Head,
                Some((number, slot, record_at, attempt)) => {
                    let head_at = record_at & !(BLOCK_BYTES - 1);
                    let head = (!with_head).then(|| {
                        let len = round_up(extent.at - head_at, BLOCK_BYTES) as usize;
                        submit(head_at, len, Buffer::Block(Block::new(len)))
                    });
                    let head_skip = (record_at - head_at) as usize;
                    PartFrom::Chunk { number, slot, head, head_skip, attempt }
                }
            };
            let data = submit(window, bytes, Buffer::Piece(piece));
            volume.counts.reads.add(1);
            volume.counts.read_bytes.add(bytes as u64);
            return Ok(PartRead {
                stored: self.clone(),
                start: position,
                end: end.min(extent.from + stop),
                from,
                data,
                offset: window,
                skip: (extent.at + block_at - window) as usize,
                len: (stop - block_at) as usize,
                first_block: first as usize,
                lead: (position - extent.from - block_at) as usize,
            });
        }
    }
}

/// Where bytes of an object lie one after the other.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Offset on the device.
    at: u64,
    /// Offset in the representation.
    from: u64,
    len: u64,
}

impl PartRead {
    /// Where the part ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The part, once it was read and checked.
    ///
    /// # Errors
    /// It is not as it was written, or the disk failed.
    pub async fn finish(mut self, arena: &Arc<Arena>) -> Result<Lease, ReadError> {
        let mut was_damaged = false;
        loop {
            let attempt = match (self.try_finish().await, &self.from) {
                (Ok(lease), _) => return Ok(lease),
                // Where it was spoiled on its way it is whole the second time.
                (Err(ReadError::Damaged), from) if !was_damaged => {
                    was_damaged = true;
                    from.attempt()
                }
                (Err(ReadError::Damaged), PartFrom::Head) => {
                    self.stored.forget();
                    return Err(ReadError::Miss);
                }
                // Another one that looks the same takes its place.
                (Err(ReadError::Damaged), PartFrom::Chunk { number, slot, attempt, .. }) => {
                    let hash = chunk_hash(self.stored.object, *number);
                    self.stored.volume.forget(hash, slot.units_at());
                    was_damaged = false;
                    *attempt
                }
                // The index led to another record that looks the same to it.
                (Err(ReadError::Miss), PartFrom::Chunk { attempt, .. }) => attempt + 1,
                (Err(error), _) => return Err(error),
            };
            self =
                self.stored.begin_attempt(self.start..self.end, u64::MAX, arena, attempt, None)?;
        }
    }

    async fn try_finish(&mut self) -> Result<Lease, ReadError> {
        let stored = &self.stored;
        let volume = &stored.volume;
        let check_bytes = volume.geometry().check_bytes;
        let outcome = (&mut self.data).await;
        volume.check(self.offset, outcome.result)?;
        let Buffer::Piece(mut piece) = outcome.buffer else { return Err(ReadError::NoMemory) };
        let memory = piece.publish(piece.capacity() as usize);
        let bytes = memory.get(self.skip..self.skip + self.len).unwrap_or(&[]);
        let is_good = match &mut self.from {
            PartFrom::Head => {
                let mut blocks = bytes.chunks(check_bytes as usize).enumerate();
                blocks.all(|(at, block)| {
                    stored.sums.get(self.first_block + at) == Some(&crc32c::crc32c(block))
                })
            }
            PartFrom::Chunk { number, slot, head, head_skip, .. } => {
                let beside = match head {
                    None => None,
                    Some(head) => {
                        let outcome = head.await;
                        volume.check(self.offset, outcome.result)?;
                        Some(outcome.buffer.into_block())
                    }
                };
                let head_bytes =
                    beside.as_deref().unwrap_or(&memory).get(*head_skip..).unwrap_or(&[]);
                let hash = chunk_hash(stored.object, *number);
                match RecordHead::parse(head_bytes) {
                    Ok(head)
                        if head.object == stored.object
                            && head.chunk == *number
                            && head.kind == Kind::Chunk =>
                    {
                        let good = head.verify(check_bytes, self.first_block, bytes)
                            && u64::from(head.chunk_bytes) == u64::from(stored.chunk_bytes);
                        if good {
                            volume.index().touch(hash, *slot);
                        }
                        good
                    }
                    Ok(_) => {
                        volume.counts.mismatches.add(1);
                        return Err(ReadError::Miss);
                    }
                    Err(_) => false,
                }
            }
        };
        let wanted = self.skip + self.lead;
        let len = (self.end - self.start) as usize;
        if !is_good || bytes.len() < self.lead + len {
            volume.counts.damaged.add(1);
            return Err(ReadError::Damaged);
        }
        Ok(memory.slice(wanted..wanted + len))
    }
}

const _: () = assert!(CHECK_BYTES < RECORD_BYTES_MAX);
