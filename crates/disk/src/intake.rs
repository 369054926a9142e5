//! Writing objects: whole ones out of memory, long ones piece by piece while they arrive.

use super::geometry::Geometry;
use super::limits::{BLOCK_BYTES, META_BYTES_MAX, TAGS_MAX};
use super::record::{Kind, RecordHead, chunk_payload_max};
use super::volume::Common;
use super::writer::{Stream, Writer};
use crate::error::DiskError;
use freshet_store::Lease;
use freshet_store::{Body, Next};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What is kept of an object besides its bytes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Description {
    /// Hash of the resource's key.
    pub key: u128,
    /// Hash of what the response is selected by; 0 where it does not vary.
    pub variant: u64,
    /// When its fetch began, from [`Common::next_seq`].
    pub born: u64,
    /// Until when it is of any use, Unix milliseconds.
    pub expires_ms: u64,
    /// Tags it can be purged by.
    pub tags: Box<[u64]>,
    /// Of which share it is, by [`share_of`](super::share_of); 0 of none.
    pub share: u64,
    /// Everything else: the store does not look at it.
    pub meta: Box<[u8]>,
}

/// A new number for an insertion; no other has or had it.
pub(crate) fn object_id(common: &Common, key: u128) -> u128 {
    object_of(common.next_seq(), key)
}

/// The insertion of a resource that got this number.
pub(super) fn object_of(number: u64, key: u128) -> u128 {
    u128::from(number) << 64 | u128::from(freshet_base::splitmix::mixed(key as u64))
}

/// The longest chunk of a long object on such a device: whole pages, so that chunks are joined in
/// memory without gaps.
pub(crate) fn chunk_bytes_max(geometry: &Geometry) -> u32 {
    let most = chunk_payload_max(geometry) & !(BLOCK_BYTES - 1);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Chunks of equal length for a long object of known length.
fn chunk_bytes(geometry: &Geometry, total: u64) -> u32 {
    let most = u64::from(chunk_bytes_max(geometry));
    let even = total.div_ceil(total.div_ceil(most)).next_multiple_of(BLOCK_BYTES);
    even.min(most) as u32
}

/// Checksums of each block of bytes that lie in several parts.
pub(crate) fn sums(parts: &[&[u8]], check_bytes: u32) -> Box<[u32]> {
    let check = check_bytes as usize;
    let (mut sums, mut sum, mut filled) = (Vec::new(), 0, 0);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(check - filled));
            sum = crc32c::crc32c_append(sum, now);
            filled += now.len();
            rest = later;
            if filled == check {
                sums.push(sum);
                (sum, filled) = (0, 0);
            }
        }
    }
    if filled > 0 {
        sums.push(sum);
    }
    sums.into()
}

impl Description {
    /// Whether it can be kept with an object.
    pub fn fits(&self) -> bool {
        self.meta.len() <= META_BYTES_MAX && self.tags.len() <= TAGS_MAX
    }

    pub(super) fn head(self, object: u128, total: u64) -> RecordHead {
        RecordHead {
            kind: Kind::Head,
            segment_seq: 0,
            seq: 0,
            object,
            key: self.key,
            variant: self.variant,
            variant_kind: 0,
            born: self.born,
            expires_ms: self.expires_ms,
            total,
            chunk: 0,
            chunk_bytes: 0,
            payload_bytes: 0,
            share: self.share,
            is_paged: false,
            tags: self.tags,
            meta: self.meta,
            sums: Box::default(),
        }
    }
}

/// All bytes of a body from `start` to `end`, which are held.
fn leases(body: &Arc<Body>, start: u64, end: u64) -> Option<Vec<Lease>> {
    let mut reader = body.reader(start..end);
    let mut cx = Context::from_waker(Waker::noop());
    let mut out = Vec::new();
    loop {
        match reader.poll_next(&mut cx, usize::MAX) {
            Poll::Ready(Next::Data(lease)) => out.push(lease),
            Poll::Ready(Next::End) => return Some(out),
            Poll::Ready(Next::Hole(_) | Next::Failed(_)) | Poll::Pending => return None,
        }
    }
}

impl Writer {
    /// Writes an object whose bytes are all in memory, and returns its number and the kind under which the index
    /// will have it. It can be found when it was written; see [`Writer::submit`].
    ///
    /// # Errors
    /// [`DiskError::NotWhole`] where bytes are missing, [`DiskError::RecordTooLong`] where its
    /// description does not fit, or the device failed.
    pub fn store(
        &mut self,
        description: Description,
        body: &Arc<Body>,
    ) -> Result<(u64, u8), DiskError> {
        let total = body.total().filter(|_| body.is_complete()).ok_or(DiskError::NotWhole)?;
        let geometry = *self.volume.geometry();
        let object = object_id(&self.volume.common, description.key);
        let is_short = total <= u64::from(geometry.record_bytes_max);
        let chunk = if is_short { 0 } else { chunk_bytes(&geometry, total) };
        let mut start = 0;
        for number in 0.. {
            let is_last = is_short || total - start <= u64::from(chunk);
            let end = if is_last { total } else { start + u64::from(chunk) };
            let parts = leases(body, start, end).ok_or(DiskError::NotWhole)?;
            let parts: Vec<&[u8]> = parts.iter().map(|lease| &**lease).collect();
            if is_last {
                let kind = self.store_head(description, object, (total, chunk), &parts)?;
                return Ok(((object >> 64) as u64, kind));
            }
            let of = (description.key, description.share);
            self.store_chunk(of, object, number, chunk, &parts)?;
            start = end;
        }
        Err(DiskError::NotWhole)
    }

    /// Writes a chunk of a long object of this key and share, unless that began before an erasure.
    pub(crate) fn store_chunk(
        &mut self,
        (key, share): (u128, u64),
        object: u128,
        number: u32,
        chunk_bytes: u32,
        parts: &[&[u8]],
    ) -> Result<(), DiskError> {
        if self.is_cut_off(object) {
            return Ok(());
        }
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = Description { key, share, expires_ms: u64::MAX, ..Description::default() }
            .head(object, 0);
        head.kind = Kind::Chunk;
        head.chunk = number;
        head.chunk_bytes = chunk_bytes;
        head.payload_bytes = payload as u32;
        head.sums = sums(parts, self.volume.geometry().check_bytes);
        self.append(Stream::New, head, parts)
    }

    /// Writes the head of an object of `total` bytes with what follows its chunks, if it has any,
    /// after them: from now on it can be found, under the kind that is returned. Not where it is purged already, or
    /// was cut off: that is kind 0.
    pub(crate) fn store_head(
        &mut self,
        description: Description,
        object: u128,
        (total, chunk_bytes): (u64, u32),
        parts: &[&[u8]],
    ) -> Result<u8, DiskError> {
        if self.is_cut_off(object) || self.is_purged(&description) {
            return Ok(0);
        }
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let mut head = description.head(object, total);
        head.chunk_bytes = chunk_bytes;
        head.payload_bytes = payload as u32;
        head.sums = sums(parts, self.volume.geometry().check_bytes);
        let kind = self.kind_for(&head);
        head.variant_kind = if head.variant == 0 { 0 } else { kind };
        self.append(Stream::New, head, parts)?;
        self.volume.counts.objects_written.add(1);
        Ok(kind)
    }
}
