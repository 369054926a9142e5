//! Reading what is stored: the head of an object, then its parts, straight into the arena.
//!
//! Every byte is checked before anyone sees it. What does not fit its checksum, its object or its
//! segment is taken out of the index and is a miss.

use super::codec::round_up;
use super::limits::{BLOCK_BYTES, HEAD_READ_BYTES};
use super::purges::{Soft, Verdict};
use super::record::{Bad, Kind, RecordHead, chunk_hash, key_hash};
use super::slot::Slot;
use super::volume::Volume;
use freshet_device::block::{Block, Buffer};
use freshet_device::{Completion, Io, IoError, Op, Outcome};
use freshet_store::Arena;
use freshet_store::{Lease, PieceMut};
use std::sync::Arc;
use thiserror::Error;

/// Payloads up to here are copied out of what was read, into memory of just their length.
const COPIED_BYTES_MAX: u64 = 32 << 10;

/// Why something was not read.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not there, or not as it was written.
    #[error("it is not on the disk any more")]
    Miss,
    /// What was read is not what was written: read once more, it may be, where it was spoiled on its
    /// way. Who looks up sees [`ReadError::Miss`].
    #[error("it is damaged")]
    Damaged,
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Disk(IoError),
    /// There is no memory for it.
    #[error("no memory is left to read it into")]
    NoMemory,
}

/// An object on a disk, its head read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(super) volume: Arc<Volume>,
    pub(super) object: u128,
    pub(super) key: u128,
    slot: Slot,
    /// Hash of what it is selected by.
    pub variant: u64,
    /// When its fetch began, in the order of purges.
    pub born: u64,
    /// When its fetch, or the last validation that the disk knows of, began, in the same order.
    pub validated: u64,
    /// Place in the order of writing.
    pub seq: u64,
    /// Length of the representation.
    pub total: u64,
    /// The caller's description.
    pub meta: Box<[u8]>,
    /// Tags it can be purged by.
    pub tags: Box<[u64]>,
    /// What a soft purge left of it, where it met one.
    pub soft: Option<Soft>,
    /// The bytes from [`Stored::payload_from`] on, where they came along with the head.
    pub payload: Option<Lease>,
    /// Where the bytes begin that the head's record has: 0 for an object of one record, the last
    /// chunk for a longer one.
    pub payload_from: u64,
    pub(super) chunk_bytes: u32,
    /// Where these bytes are on the device.
    pub(super) payload_at: u64,
    pub(super) sums: Arc<[u32]>,
}

impl Volume {
    /// Reads the heads of a resource that the index knows, newest first; with `whole`, the bytes
    /// of short objects along with them. Those that are gone are left out.
    ///
    /// # Errors
    /// The disk failed for all of them.
    pub async fn read_heads(
        self: &Arc<Self>,
        key: u128,
        whole: bool,
        arena: &Arc<Arena>,
    ) -> Result<Vec<Stored>, ReadError> {
        let mut found = Vec::new();
        let mut failure = None;
        for slot in self.heads(key).iter() {
            let mut read = self.read_head(key, slot, whole, arena).await;
            if matches!(read, Err(ReadError::Damaged)) {
                read = self.read_head(key, slot, whole, arena).await;
            }
            if matches!(read, Err(ReadError::NoMemory)) {
                // The head alone needs none that has to be waited for.
                read = self.read_head(key, slot, false, arena).await;
            }
            match read {
                Ok(stored) => {
                    self.counts.hits.add(1);
                    found.push(self.renewed(stored, arena).await);
                }
                Err(ReadError::Miss) => {}
                Err(ReadError::Damaged) => self.forget(key_hash(key), slot.units_at()),
                Err(error) => {
                    // A bad place is not tried again and again: drives take seconds for each.
                    if matches!(error, ReadError::Disk(IoError::Failed(_))) {
                        self.forget(key_hash(key), slot.units_at());
                    }
                    failure = Some(error);
                }
            }
        }
        if let (true, Some(error)) = (found.is_empty(), failure) {
            return Err(error);
        }
        found.sort_by_key(|stored| std::cmp::Reverse(stored.seq));
        Ok(found)
    }

    pub(super) async fn read_head(
        self: &Arc<Self>,
        key: u128,
        slot: Slot,
        whole: bool,
        arena: &Arc<Arena>,
    ) -> Result<Stored, ReadError> {
        let geometry = *self.geometry();
        let offset = slot.units_at() * u64::from(geometry.unit_bytes);
        let segment = geometry.segment_of(offset).ok_or(ReadError::Miss)?;
        let segment_end = geometry.segment_at(segment) + geometry.segment_bytes;
        let about = u64::from(slot.units()) * u64::from(geometry.unit_bytes);
        let most = u64::from(geometry.record_bytes_max);
        // So long that its bytes begin at a page, the next one as a rule: they are read beside it.
        let beside = if whole && about >= most {
            self.begin_payload(arena, offset + BLOCK_BYTES, segment_end)
        } else {
            None
        };
        let mut wanted = match (whole, &beside) {
            (_, Some(_)) => BLOCK_BYTES,
            (true, None) => about.min(most),
            (false, None) => about.min(HEAD_READ_BYTES.into()),
        };
        let start = offset & !(BLOCK_BYTES - 1);
        let skip = (offset - start) as usize;
        let (head, memory) = loop {
            let end = round_up(offset + wanted, BLOCK_BYTES).min(segment_end);
            let mut memory = self.read_into(arena, start, end - start).await?;
            let bytes = memory.bytes().get(skip..).unwrap_or(&[]);
            match RecordHead::parse(bytes) {
                Ok(head) => break (head, memory),
                Err(Bad::Longer(more))
                    if more as u64 > wanted && offset + more as u64 <= segment_end =>
                {
                    wanted = more as u64;
                }
                Err(Bad::Damaged) => {
                    self.counts.damaged.add(1);
                    return Err(ReadError::Damaged);
                }
                Err(_) => {
                    self.counts.mismatches.add(1);
                    self.forget(key_hash(key), slot.units_at());
                    return Err(ReadError::Miss);
                }
            }
        };
        if head.kind != Kind::Head
            || head.key != key
            || !self.is_of_segment(offset, head.segment_seq)
        {
            // Another key that looks the same to the index keeps its place.
            self.counts.mismatches.add(1);
            if !self.is_of_segment(offset, head.segment_seq) {
                self.forget(key_hash(key), slot.units_at());
            }
            return Err(ReadError::Miss);
        }
        let soft = match self.common.purges.verdict(key_hash(key), &head.tags, head.born) {
            Verdict::Good => None,
            Verdict::Stale(soft) => Some(soft),
            Verdict::Purged => {
                self.forget(key_hash(key), slot.units_at());
                return Err(ReadError::Miss);
            }
        };
        let payload_from = head.total.checked_sub(head.payload_bytes.into());
        let payload_from = payload_from.filter(|from| *from == 0 || head.chunk_bytes > 0);
        let payload_from = payload_from.ok_or(ReadError::Miss)?;
        let payload = match beside {
            Some(beside) if head.is_paged && head.payload_at() == BLOCK_BYTES => {
                let memory = self.finish_read(offset + BLOCK_BYTES, beside.await)?;
                let memory = memory.ended(head.payload_bytes as usize);
                self.payload_of(&head, memory, 0, arena)?
            }
            _ => {
                let memory = memory.ended(skip + head.bytes() as usize);
                let at = skip + head.payload_at() as usize;
                self.payload_of(&head, memory, at, arena)?
            }
        };
        self.index().touch(key_hash(key), slot);
        Ok(Stored {
            volume: Arc::clone(self),
            object: head.object,
            key,
            slot,
            variant: head.variant,
            born: head.born,
            validated: head.born,
            seq: head.seq,
            total: head.total,
            soft,
            payload,
            payload_from,
            chunk_bytes: head.chunk_bytes,
            payload_at: offset + head.payload_at(),
            sums: head.sums.into(),
            meta: head.meta,
            tags: head.tags,
        })
    }

    /// Begins to read a payload of a length that is not known yet, where there is memory for it.
    fn begin_payload(
        &self,
        arena: &Arc<Arena>,
        offset: u64,
        segment_end: u64,
    ) -> Option<Completion> {
        let len = u64::from(self.geometry().record_bytes_max).min(segment_end.checked_sub(offset)?);
        let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
        let buffer = Buffer::Piece(arena.allocate(len)?);
        Some(self.device.submit(Io { op: Op::Read, offset, len, buffer }))
    }

    /// The payload, where all of it was read, from this place of the memory on.
    fn payload_of(
        &self,
        head: &RecordHead,
        mut memory: Memory,
        from: usize,
        arena: &Arc<Arena>,
    ) -> Result<Option<Lease>, ReadError> {
        let len = head.payload_bytes as usize;
        if len == 0 {
            return Ok(None);
        }
        let Some(payload) = memory.bytes().get(from..from + len) else { return Ok(None) };
        if !head.verify(self.geometry().check_bytes, 0, payload) {
            self.counts.damaged.add(1);
            return Err(ReadError::Damaged);
        }
        Ok(match memory {
            Memory::Lease(lease) if len as u64 > COPIED_BYTES_MAX => {
                Some(lease.slice(from..from + len))
            }
            _ => arena.allocate(len).map(|mut piece| {
                piece.spare()[..len].copy_from_slice(payload_bytes(&mut memory, from, len));
                piece.publish(len)
            }),
        })
    }

    async fn read_into(
        &self,
        arena: &Arc<Arena>,
        start: u64,
        len: u64,
    ) -> Result<Memory, ReadError> {
        let bytes = len as usize;
        let buffer = if len <= COPIED_BYTES_MAX + 2 * BLOCK_BYTES {
            Buffer::Block(Block::new(bytes))
        } else {
            Buffer::Piece(arena.allocate(bytes).ok_or(ReadError::NoMemory)?)
        };
        let read = self.device.submit(Io { op: Op::Read, offset: start, len: bytes, buffer });
        self.finish_read(start, read.await)
    }

    /// Takes note of a read that has ended.
    fn finish_read(&self, offset: u64, outcome: Outcome) -> Result<Memory, ReadError> {
        self.check(offset, outcome.result)?;
        let mut memory = Memory::of(outcome.buffer);
        self.counts.reads.add(1);
        self.counts.read_bytes.add(memory.bytes().len() as u64);
        Ok(memory)
    }

    /// Takes note of a read that failed.
    pub(super) fn check(&self, offset: u64, result: Result<(), IoError>) -> Result<(), ReadError> {
        let Err(error) = result else { return Ok(()) };
        self.counts.read_errors.add(1);
        if error.is_gone() {
            self.set_gone();
        }
        let is_bad_place = matches!(error, IoError::Failed(_)) && !error.is_gone();
        if is_bad_place && !self.retire(offset) {
            self.counts.read_errors_known.add(1);
        }
        Err(ReadError::Disk(error))
    }
}

/// Memory that was read into.
#[derive(Debug)]
enum Memory {
    Block(Block),
    /// Not published yet: how much of it is wanted shows when the head is read.
    Piece(PieceMut),
    Lease(Lease),
}

impl Memory {
    fn of(buffer: Buffer) -> Self {
        match buffer {
            Buffer::Piece(piece) => Self::Piece(piece),
            other => Self::Block(other.into_block()),
        }
    }

    fn bytes(&mut self) -> &[u8] {
        match self {
            Self::Block(block) => block,
            Self::Piece(piece) => piece.spare(),
            Self::Lease(lease) => lease,
        }
    }

    /// The first `len` bytes; pages behind them go back.
    fn ended(self, len: usize) -> Self {
        match self {
            Self::Piece(mut piece) => {
                let lease = piece.publish(len.min(piece.capacity() as usize));
                piece.trim();
                Self::Lease(lease)
            }
            other => other,
        }
    }
}

fn payload_bytes(memory: &mut Memory, from: usize, len: usize) -> &[u8] {
    memory.bytes().get(from..from + len).unwrap_or(&[])
}

impl Stored {
    /// The disk it is on.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Whether the bytes of `range` are known to the index. Looks at memory only, at 64 chunks at
    /// most.
    pub fn may_have(&self, range: std::ops::Range<u64>) -> bool {
        let end = range.end.min(self.payload_from);
        if range.start >= end {
            return true;
        }
        let chunk = u64::from(self.chunk_bytes.max(1));
        let last = (end - 1) / chunk;
        let first = range.start / chunk;
        let step = ((last - first.min(last)) / 64 + 1) as usize;
        (first..=last).step_by(step).chain([last]).all(|number| {
            let hash = chunk_hash(self.object, u32::try_from(number).unwrap_or(u32::MAX));
            self.volume.index().chunks(hash).iter().next().is_some()
        })
    }

    /// The number of its insertion: no other on the disks of the node has it.
    pub fn number(&self) -> u64 {
        (self.object >> 64) as u64
    }

    /// The kind under which the index of its disk has it.
    pub fn kind(&self) -> u8 {
        self.slot.kind()
    }

    /// Takes the object out: it turned out to be of no use.
    pub fn forget(&self) {
        self.volume.forget(key_hash(self.key), self.slot.units_at());
    }
}
