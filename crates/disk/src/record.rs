//! Records: what segments are made of.
//!
//! ```text
//! 0    fixed part, 128 bytes: magic, checksum of the head, whose record, which part, lengths
//! 128  one checksum for each block of payload
//!      tags, 8 bytes each
//!      description (the caller's bytes)
//!      zeroes to a multiple of 64
//!      payload
//!      zeroes to the unit of the device
//! ```
//! An object of one record has description and payload in it. A longer one is cut into chunks, each
//! a record, but for the last one, which is in the head. The head is written last: without it the
//! chunks cannot be found.
//!
//! A head whose payload does not fit one read with it is paged: its payload begins at a page, so that
//! the payload alone is one read into memory of just its length.

use super::codec::{Put, Reader, round_up};
use super::geometry::Geometry;
use super::limits::{ALIGNED_RECORD_BYTES, BLOCK_BYTES, META_BYTES_MAX, TAGS_MAX};
use super::slot::{KIND_CHUNK, head_kind};
use super::variant::is_of_variants;
use freshet_base::splitmix::mixed;

const MAGIC: u32 = 0x4352_7246;
/// How a record is laid out: payload behind what describes it.
const PACKED: u8 = 1;
/// Payload at the next page.
const PAGED: u8 = 2;
/// Length of the fixed part.
pub(crate) const FIXED_BYTES: usize = 128;
/// Payload begins at a multiple of this.
const PAYLOAD_ALIGN: u64 = 64;

/// What a record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The head of an object, with its bytes where they fit.
    Head,
    /// A part of an object's bytes.
    Chunk,
}

/// All a record says before its payload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RecordHead {
    pub(crate) kind: Kind,
    /// The segment's number of its opening.
    pub(crate) segment_seq: u64,
    /// The order in which records were written.
    pub(crate) seq: u64,
    /// Which insertion it belongs to.
    pub(crate) object: u128,
    /// Hash of the resource's key.
    pub(crate) key: u128,
    /// Hash of what the response is selected by; 0 where it does not vary.
    pub(crate) variant: u64,
    /// The kind under which the index has a head of a variant; 0 where it is the one that its hash says, as in
    /// what was written before there was a choice.
    pub(crate) variant_kind: u8,
    /// When its fetch began, in the order of purges.
    pub(crate) born: u64,
    /// Until when it is of use, Unix milliseconds.
    pub(crate) expires_ms: u64,
    /// Length of the whole representation.
    pub(crate) total: u64,
    /// Which chunk.
    pub(crate) chunk: u32,
    /// Length of a chunk's payload, but for the last; 0 where the head has all.
    pub(crate) chunk_bytes: u32,
    pub(crate) payload_bytes: u32,
    /// Of which share it is; 0 of none, as all that was written before there were any.
    pub(crate) share: u64,
    /// Whether the payload begins at a page.
    pub(crate) is_paged: bool,
    pub(crate) tags: Box<[u64]>,
    pub(crate) meta: Box<[u8]>,
    /// Of each block of payload.
    pub(crate) sums: Box<[u32]>,
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bad {
    /// They are something else, or nothing.
    NotARecord,
    /// There are not enough of them; this many are needed.
    Longer(usize),
    /// A checksum does not fit.
    Damaged,
}

/// Bytes before the payload.
pub(crate) fn payload_offset(sums: usize, tags: usize, meta: usize) -> u64 {
    round_up((FIXED_BYTES + 4 * sums + 8 * tags + meta) as u64, PAYLOAD_ALIGN)
}

/// Checksums for a payload.
pub(crate) fn sums_of(payload_bytes: u64, check_bytes: u32) -> usize {
    payload_bytes.div_ceil(check_bytes.into()) as usize
}

/// The most payload a chunk has room for, to be read at once with what describes it.
pub(crate) fn chunk_payload_max(geometry: &Geometry) -> u64 {
    let max = u64::from(geometry.record_bytes_max);
    let sums = sums_of(max, geometry.check_bytes);
    max.saturating_sub(payload_offset(sums, 0, 0))
}

/// The longest record of an object that is packed: below the last class of lengths the index knows,
/// so that a slot of that class leads to a paged one.
pub(crate) fn packed_bytes_max(record_bytes_max: u32) -> u64 {
    u64::from(record_bytes_max - record_bytes_max / 32)
}

impl RecordHead {
    /// Where the payload begins.
    pub(crate) fn payload_at(&self) -> u64 {
        let packed = payload_offset(self.sums.len(), self.tags.len(), self.meta.len());
        if self.is_paged { round_up(packed, BLOCK_BYTES) } else { packed }
    }

    /// Has the payload begin at a page where it is too long to be read with what is before it.
    pub(crate) fn lay_out(&mut self, record_bytes_max: u32) {
        self.is_paged = false;
        self.is_paged =
            self.kind == Kind::Head && self.bytes() > packed_bytes_max(record_bytes_max);
    }

    /// Length of the record without what fills it up.
    pub(crate) fn bytes(&self) -> u64 {
        self.payload_at() + u64::from(self.payload_bytes)
    }

    /// Adds the head to `out`, up to where the payload begins.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_u32(MAGIC);
        out.put_u32(0);
        out.put_u8(if self.is_paged { PAGED } else { PACKED });
        out.put_u8(match self.kind {
            Kind::Head => 0,
            Kind::Chunk => 1,
        });
        out.put_u16(self.tags.len() as u16);
        out.put_u32(self.meta.len() as u32);
        out.put_u64(self.segment_seq);
        out.put_u64(self.seq);
        out.put_u128(self.object);
        out.put_u128(self.key);
        out.put_u64(self.variant);
        out.put_u64(self.born);
        out.put_u64(self.expires_ms);
        out.put_u64(self.total);
        out.put_u32(self.chunk);
        out.put_u32(self.chunk_bytes);
        out.put_u32(self.payload_bytes);
        out.put_u32(self.sums.len() as u32);
        out.put_u8(self.variant_kind);
        out.put_u64(self.share);
        out.resize(start + FIXED_BYTES, 0);
        self.sums.iter().for_each(|sum| out.put_u32(*sum));
        self.tags.iter().for_each(|tag| out.put_u64(*tag));
        out.put(&self.meta);
        out.resize(start + self.payload_at() as usize, 0);
        let sum = crc32c::crc32c(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a head. Whatever the bytes are, what comes out was once written as a head.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let fixed = bytes.get(..FIXED_BYTES).ok_or(Bad::Longer(FIXED_BYTES))?;
        let mut from = Reader::new(fixed);
        let head = Self::parse_fixed(&mut from).ok_or(Bad::NotARecord)?;
        let (mut read, sum, sums, tags, meta) = head;
        let packed = payload_offset(sums, tags, meta);
        let head_bytes =
            if read.is_paged { round_up(packed, BLOCK_BYTES) } else { packed } as usize;
        let whole = bytes.get(..head_bytes).ok_or(Bad::Longer(head_bytes))?;
        if crc32c::crc32c(&whole[8..]) != sum {
            return Err(Bad::Damaged);
        }
        let mut from = Reader::new(&whole[FIXED_BYTES..]);
        let mut rest = || {
            read.sums = (0..sums).map(|_| from.u32()).collect::<Option<_>>()?;
            read.tags = (0..tags).map(|_| from.u64()).collect::<Option<_>>()?;
            read.meta = from.bytes(meta)?.into();
            Some(())
        };
        rest().ok_or(Bad::NotARecord)?;
        Ok(read)
    }

    fn parse_fixed(from: &mut Reader<'_>) -> Option<(Self, u32, usize, usize, usize)> {
        if from.u32()? != MAGIC {
            return None;
        }
        let sum = from.u32()?;
        let is_paged = match from.u8()? {
            PACKED => false,
            PAGED => true,
            _ => return None,
        };
        let kind = match from.u8()? {
            0 => Kind::Head,
            1 => Kind::Chunk,
            _ => return None,
        };
        let tags = usize::from(from.u16()?);
        let meta = from.u32()? as usize;
        let mut read = Self {
            kind,
            segment_seq: from.u64()?,
            seq: from.u64()?,
            object: from.u128()?,
            key: from.u128()?,
            variant: from.u64()?,
            variant_kind: 0,
            born: from.u64()?,
            expires_ms: from.u64()?,
            total: from.u64()?,
            chunk: from.u32()?,
            chunk_bytes: from.u32()?,
            payload_bytes: from.u32()?,
            share: 0,
            is_paged,
            tags: Box::default(),
            meta: Box::default(),
            sums: Box::default(),
        };
        let sums = from.u32()? as usize;
        read.variant_kind = Some(from.u8()?).filter(|kind| is_of_variants(*kind)).unwrap_or(0);
        read.share = from.u64()?;
        let sane = tags <= TAGS_MAX && meta <= META_BYTES_MAX && sums <= 4096;
        sane.then_some((read, sum, sums, tags, meta))
    }

    /// Whether the payload bytes from a checksum's block on are as they were written. `bytes` begin
    /// with block `first` and are whole blocks, but for the last of the payload.
    pub(crate) fn verify(&self, check_bytes: u32, first: usize, bytes: &[u8]) -> bool {
        let mut blocks = bytes.chunks(check_bytes as usize).enumerate();
        blocks.all(|(at, block)| self.sums.get(first + at) == Some(&crc32c::crc32c(block)))
    }

    /// The number under which the index knows it.
    pub(crate) fn index_hash(&self) -> u64 {
        match self.kind {
            Kind::Head => key_hash(self.key),
            Kind::Chunk => chunk_hash(self.object, self.chunk),
        }
    }

    /// The kind under which the index has it.
    pub(crate) fn index_kind(&self) -> u8 {
        match self.kind {
            Kind::Head if self.variant_kind != 0 => self.variant_kind,
            Kind::Head => head_kind(self.variant),
            Kind::Chunk => KIND_CHUNK,
        }
    }
}

/// The number under which the index knows the heads of a resource.
pub(crate) fn key_hash(key: u128) -> u64 {
    (key >> 64) as u64 ^ key as u64
}

/// The number under which the index knows a chunk. Ids of objects are unique and not chosen by
/// anyone outside.
pub(crate) fn chunk_hash(object: u128, chunk: u32) -> u64 {
    mixed((object >> 64) as u64 ^ mixed(object as u64 ^ mixed(u64::from(chunk) + 1)))
}

/// Where a record goes that comes at `offset` of a segment, and its length to the unit.
pub(crate) fn place(offset: u64, head: &RecordHead, unit_bytes: u32) -> (u64, u64) {
    let bytes = head.bytes();
    let is_aligned = head.is_paged || bytes >= u64::from(ALIGNED_RECORD_BYTES);
    let align = if is_aligned { BLOCK_BYTES } else { unit_bytes.into() };
    (round_up(offset, align), round_up(bytes, unit_bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(meta: &[u8], tags: &[u64], payload: &[u8]) -> RecordHead {
        RecordHead {
            kind: Kind::Head,
            segment_seq: 7,
            seq: 8,
            object: 9 << 70,
            key: 10 << 70,
            variant: 11,
            variant_kind: 0,
            born: 12,
            expires_ms: 13,
            total: payload.len() as u64,
            chunk: 0,
            chunk_bytes: 0,
            payload_bytes: payload.len() as u32,
            share: 14,
            is_paged: false,
            tags: tags.into(),
            meta: meta.into(),
            sums: payload.chunks(4096).map(crc32c::crc32c).collect(),
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_any_flipped_bit_is_found(
            meta in prop::collection::vec(any::<u8>(), 0..300),
            tags in prop::collection::vec(any::<u64>(), 0..5),
            payload in prop::collection::vec(any::<u8>(), 0..20_000),
            is_paged in any::<bool>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let mut written = head(&meta, &tags, &payload);
            written.is_paged = is_paged;
            let mut bytes = Vec::new();
            written.write(&mut bytes);
            prop_assert_eq!(bytes.len() as u64, written.payload_at());
            bytes.extend_from_slice(&payload);
            prop_assert_eq!(bytes.len() as u64, written.bytes());
            let read = RecordHead::parse(&bytes).map_err(|bad| TestCaseError::fail(format!("{bad:?}")))?;
            prop_assert_eq!(&read, &written);
            prop_assert!(read.verify(4096, 0, &payload));

            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let intact = RecordHead::parse(&bytes).is_ok_and(|read| {
                let payload = bytes.get(read.payload_at() as usize..read.bytes() as usize);
                payload.is_some_and(|payload| read.verify(4096, 0, payload))
            });
            prop_assert!(!intact, "bit {} of {} was flipped", bit, bytes.len() * 8);
        }

        #[test]
        fn arbitrary_bytes_are_refused_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(RecordHead::parse(&bytes).is_err());
        }
    }
}
