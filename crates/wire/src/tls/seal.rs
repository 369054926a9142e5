//! Plaintext into records.

use super::key::{Protection, additional_data_12};
use super::{
    ContentType, GATHER_BYTES_MAX, HEADER_BYTES, KeyError, PLAINTEXT_BYTES_MAX, RECORD_VERSION,
    RESERVED_RECORDS, TAG_BYTES, TrafficKey, Version,
};
use aws_lc_rs::aead::{Aad, Nonce};
use std::fmt;
use std::io::IoSlice;
use thiserror::Error;

/// Bytes that ride in the record of the piece in front of them: the header of a frame of HTTP/2, and
/// some to spare. They are copied, and cost no record of their own.
const RIDER_BYTES_MAX: usize = 15;

/// Why nothing was sealed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum SealError {
    /// The key has sealed as many records as it may.
    #[error("the key has sealed as many records as it may")]
    Exhausted,
    /// The cipher failed.
    #[error("the cipher failed")]
    Failed,
    /// More plaintext than a record holds, or less room than the record needs.
    #[error("the record does not fit")]
    NoRoom,
}

/// What [`Sealer::seal_pieces`] did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sealed {
    /// Bytes of plaintext taken from the front of the pieces.
    pub taken_bytes: usize,
    /// Bytes of records written.
    pub wire_bytes: usize,
}

/// Seals one direction of a connection.
///
/// Every record it returns has a place in the peer's count. They have to be sent whole, in order
/// and once; a connection that cannot do so has to end.
pub struct Sealer {
    protection: Protection,
    sequence: u64,
    records_left: u64,
}

impl Sealer {
    /// Starts with the record number `sequence`. `records_max` bounds how many this key may seal,
    /// those before `sequence` included.
    ///
    /// # Errors
    /// [`KeyError::Refused`].
    pub fn new(
        version: Version,
        key: &TrafficKey,
        sequence: u64,
        records_max: u64,
    ) -> Result<Self, KeyError> {
        let protection = Protection::new(version, key)?;
        Ok(Self { protection, sequence, records_left: records_max.saturating_sub(sequence) })
    }

    /// Seals `plain` as one record at the start of `out` and returns its length on the wire:
    /// `plain` and [`overhead_bytes`](Self::overhead_bytes). Reads `plain` once.
    ///
    /// # Errors
    /// [`SealError`]; nothing was sealed.
    pub fn seal(
        &mut self,
        content: ContentType,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        self.seal_parts(content, plain, &[content as u8], out)
    }

    /// As [`seal`](Self::seal) of `plain` and what is in `behind`, but for its last byte, which is
    /// the content type.
    fn seal_parts(
        &mut self,
        content: ContentType,
        plain: &[u8],
        behind: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let rider = &behind[..behind.len() - 1];
        let bytes = plain.len() + rider.len();
        let (record, sequence) = self.frame(content, plain.len(), rider.len(), out)?;
        let nonce = record.nonce(&self.protection, sequence);
        let aead = &self.protection.aead;
        match self.protection.version {
            Version::Tls13 => aead.seal_out_of_place_scatter(
                nonce,
                Aad::from(record.header),
                plain,
                record.body,
                behind,
                record.tail,
            ),
            Version::Tls12 => aead.seal_out_of_place_scatter(
                nonce,
                Aad::from(record.additional_data(sequence, content, bytes)),
                plain,
                record.body,
                rider,
                record.tail,
            ),
        }
        .map_err(|_| SealError::Failed)?;
        Ok(bytes + self.overhead_bytes())
    }

    /// Seals application data from the front of `pieces` into `out` until `plain_bytes` are taken,
    /// or a few more to fill the last record, or until a full record has no room any more. Large
    /// pieces are read once, where they are, and a few bytes behind one, such as the header of the
    /// next frame, ride in its record; neighbours of up to
    /// [`GATHER_BYTES_MAX`](super::GATHER_BYTES_MAX) are copied into one record. Stops at the last
    /// [`RESERVED_RECORDS`](super::RESERVED_RECORDS) of the key.
    ///
    /// # Errors
    /// [`SealError::Failed`]; the connection has to end.
    pub fn seal_pieces(
        &mut self,
        pieces: &[IoSlice<'_>],
        plain_bytes: usize,
        out: &mut [u8],
    ) -> Result<Sealed, SealError> {
        let mut sealed = Sealed::default();
        let mut rest = Rest { pieces, offset: 0 };
        while sealed.taken_bytes < plain_bytes && !self.is_exhausted() {
            let out = &mut out[sealed.wire_bytes..];
            if out.len() < PLAINTEXT_BYTES_MAX + self.overhead_bytes() {
                break;
            }
            let (together, bytes) = rest.small_neighbours();
            let taken = if together > 1 {
                self.seal_gathered(&mut rest, bytes, out)?;
                bytes
            } else {
                let piece = rest.front();
                let plain = &piece[..piece.len().min(PLAINTEXT_BYTES_MAX)];
                if plain.is_empty() {
                    break;
                }
                let content = ContentType::ApplicationData;
                let rider = rest.rider(plain.len());
                if rider.is_empty() {
                    self.seal(content, plain, out)?;
                    rest.advance(plain.len());
                } else {
                    let mut behind = [content as u8; RIDER_BYTES_MAX + 1];
                    behind[..rider.len()].copy_from_slice(rider);
                    self.seal_parts(content, plain, &behind[..=rider.len()], out)?;
                    rest.advance(plain.len());
                    rest.front();
                    rest.advance(rider.len());
                }
                plain.len() + rider.len()
            };
            sealed.taken_bytes += taken;
            sealed.wire_bytes += taken + self.overhead_bytes();
        }
        Ok(sealed)
    }

    /// Uses `key` from the next record on, which is the first under it.
    ///
    /// # Errors
    /// [`KeyError::Refused`].
    pub fn change_key(&mut self, key: &TrafficKey, records_max: u64) -> Result<(), KeyError> {
        *self = Self::new(self.protection.version, key, 0, records_max)?;
        Ok(())
    }

    /// Lowers how many more records the key may seal.
    pub fn limit_records(&mut self, records_left_max: u64) {
        self.records_left = self.records_left.min(records_left_max);
    }

    /// Whether the key seals no more application data, only what is needed to replace it or to end.
    pub fn is_exhausted(&self) -> bool {
        self.records_left <= RESERVED_RECORDS
    }

    /// How many more records the key may seal.
    pub fn records_left(&self) -> u64 {
        self.records_left
    }

    /// The number of the next record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The version of TLS.
    pub fn version(&self) -> Version {
        self.protection.version
    }

    /// Bytes that a record adds to its plaintext.
    pub fn overhead_bytes(&self) -> usize {
        let content_type_bytes = usize::from(self.protection.version == Version::Tls13);
        HEADER_BYTES + self.protection.explicit_nonce_bytes() + content_type_bytes + TAG_BYTES
    }

    /// Copies the next `bytes` of `rest` together and seals them as one record.
    fn seal_gathered(
        &mut self,
        rest: &mut Rest<'_, '_>,
        bytes: usize,
        out: &mut [u8],
    ) -> Result<(), SealError> {
        let content = ContentType::ApplicationData;
        let (record, sequence) = self.frame(content, bytes, 0, out)?;
        let mut filled = 0;
        while filled < bytes {
            let piece = rest.front();
            let count = piece.len().min(bytes - filled);
            record.body[filled..filled + count].copy_from_slice(&piece[..count]);
            filled += count;
            rest.advance(count);
        }
        let nonce = record.nonce(&self.protection, sequence);
        let aead = &self.protection.aead;
        match self.protection.version {
            Version::Tls13 => aead.seal_in_place_scatter(
                nonce,
                Aad::from(record.header),
                record.body,
                &[content as u8],
                record.tail,
            ),
            Version::Tls12 => aead.seal_in_place_scatter(
                nonce,
                Aad::from(record.additional_data(sequence, content, bytes)),
                record.body,
                &[],
                record.tail,
            ),
        }
        .map_err(|_| SealError::Failed)
    }

    /// Writes what is in front of the body and takes the next number. From here on the number is
    /// used up, whatever happens.
    fn frame<'a>(
        &mut self,
        content: ContentType,
        plain_bytes: usize,
        rider_bytes: usize,
        out: &'a mut [u8],
    ) -> Result<(Record<'a>, u64), SealError> {
        let wire_bytes = plain_bytes + rider_bytes + self.overhead_bytes();
        if plain_bytes + rider_bytes > PLAINTEXT_BYTES_MAX || out.len() < wire_bytes {
            return Err(SealError::NoRoom);
        }
        let (outer, tail_bytes) = match self.protection.version {
            Version::Tls13 => (ContentType::ApplicationData, 1 + TAG_BYTES),
            Version::Tls12 => (content, TAG_BYTES),
        };
        let sequence = self.sequence;
        self.records_left = self.records_left.checked_sub(1).ok_or(SealError::Exhausted)?;
        self.sequence += 1;

        let [length_high, length_low] = ((wire_bytes - HEADER_BYTES) as u16).to_be_bytes();
        let [major, minor] = RECORD_VERSION;
        let header = [outer as u8, major, minor, length_high, length_low];
        let (prefix, rest) = out.split_at_mut(HEADER_BYTES);
        prefix.copy_from_slice(&header);
        let (explicit, rest) = rest.split_at_mut(self.protection.explicit_nonce_bytes());
        let nonce = self.protection.nonce(sequence);
        explicit.copy_from_slice(&nonce[nonce.len() - explicit.len()..]);
        let (body, rest) = rest.split_at_mut(plain_bytes);
        Ok((Record { header, body, tail: &mut rest[..rider_bytes + tail_bytes] }, sequence))
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("version", &self.protection.version)
            .field("cipher", &self.protection.cipher)
            .field("sequence", &self.sequence)
            .field("records_left", &self.records_left)
            .finish_non_exhaustive()
    }
}

/// A record with its plaintext or ciphertext still to be written.
struct Record<'a> {
    header: [u8; HEADER_BYTES],
    body: &'a mut [u8],
    /// What rides behind the plaintext and the content type of TLS 1.3, sealed, and the tag.
    tail: &'a mut [u8],
}

impl Record<'_> {
    fn nonce(&self, protection: &Protection, sequence: u64) -> Nonce {
        Nonce::assume_unique_for_key(protection.nonce(sequence))
    }

    fn additional_data(&self, sequence: u64, content: ContentType, plain_bytes: usize) -> [u8; 13] {
        additional_data_12(sequence, content as u8, RECORD_VERSION, plain_bytes as u16)
    }
}

/// What is left of a list of pieces.
struct Rest<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    /// Bytes of the first piece that are done.
    offset: usize,
}

impl<'a> Rest<'a, '_> {
    /// The first piece that is not empty, or an empty one at the end.
    fn front(&mut self) -> &'a [u8] {
        while let [first, rest @ ..] = self.pieces {
            if self.offset < first.len() {
                return &first[self.offset..];
            }
            self.pieces = rest;
            self.offset = 0;
        }
        &[]
    }

    /// How many pieces at the front are small enough to share a record, and their bytes together.
    fn small_neighbours(&mut self) -> (usize, usize) {
        let front = self.front().len();
        let later = self.pieces.iter().skip(1).map(|piece| piece.len());
        let (mut count, mut bytes) = (0, 0);
        for len in std::iter::once(front).chain(later) {
            if len > GATHER_BYTES_MAX || bytes + len > PLAINTEXT_BYTES_MAX {
                break;
            }
            bytes += len;
            count += usize::from(len > 0);
        }
        (count, bytes)
    }

    /// The piece behind the next `bytes`, where they end their piece and it is small enough to go
    /// in their record; otherwise nothing.
    fn rider(&self, bytes: usize) -> &'a [u8] {
        let [first, next, ..] = self.pieces else { return &[] };
        let fits = self.offset + bytes == first.len()
            && next.len() <= RIDER_BYTES_MAX
            && bytes + next.len() <= PLAINTEXT_BYTES_MAX;
        if fits { next } else { &[] }
    }

    fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
    }
}
