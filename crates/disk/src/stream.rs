//! Writing an object while its bytes arrive.

use super::budget::Use;
use super::drive::{Disk, Job};
use super::intake::{Description, chunk_bytes_max, object_id};
use super::volume::Volume;
use freshet_device::block::Block;
use std::sync::Arc;

/// An object that is written while its bytes arrive. Dropping it leaves what was written to be
/// overwritten some time.
#[derive(Debug)]
pub struct ObjectStream {
    disk: Arc<Disk>,
    volume: Arc<Volume>,
    key: u128,
    share: u64,
    /// What it is worth to the write budget, chunk by chunk.
    shown: Use,
    object: u128,
    chunk_bytes: u32,
    number: u32,
    total: u64,
    block: Option<Block>,
    filled: usize,
}

impl ObjectStream {
    /// For an object of this resource and share, on a disk that is in use. It goes on as long as the write budget takes what was
    /// used like this.
    pub(super) fn begin(disk: &Arc<Disk>, (key, share): (u128, u64), shown: Use) -> Option<Self> {
        let volume = disk.volume()?;
        let chunk_bytes = chunk_bytes_max(volume.geometry());
        Some(Self {
            disk: Arc::clone(disk),
            volume,
            key,
            share,
            shown,
            object: object_id(disk.common(), key),
            chunk_bytes,
            number: 0,
            total: 0,
            block: None,
            filled: 0,
        })
    }

    /// Takes the next bytes. False where the disk cannot keep up or has failed: the object is not
    /// stored then, and the stream is of no use any more.
    #[must_use]
    pub fn push(&mut self, mut bytes: &[u8]) -> bool {
        let chunk = self.chunk_bytes as usize;
        while !bytes.is_empty() {
            // The last one goes with the head.
            if self.filled == chunk {
                self.send();
            }
            if self.block.is_none() && !self.may_go_on() {
                return false;
            }
            let block = self.block.get_or_insert_with(|| Block::new(chunk));
            let now = bytes.len().min(chunk - self.filled);
            let (taken, rest) = bytes.split_at(now);
            block[self.filled..self.filled + now].copy_from_slice(taken);
            self.filled += now;
            self.total += now as u64;
            bytes = rest;
        }
        self.is_same_volume()
    }

    /// Whether another chunk would have to wait for those before it, and the disk writes these.
    pub fn is_held_up(&self) -> bool {
        self.disk.is_writable() && !self.disk.has_room(u64::from(self.chunk_bytes))
    }

    /// Bytes taken so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Makes the object findable, once it is written.
    pub fn finish(mut self, description: Description) -> bool {
        let Some(block) = self.block.take() else { return false };
        if !self.is_same_volume() || !description.fits() {
            return false;
        }
        let (object, total, last) = (self.object, self.total, (block, self.filled));
        let chunk_bytes = if self.number == 0 { 0 } else { self.chunk_bytes };
        self.disk.push(Job::Head { description, object, total, chunk_bytes, last });
        true
    }

    /// Whether there is room for another chunk, in the queue, in its share and in the write budget.
    fn may_go_on(&self) -> bool {
        let bytes = u64::from(self.chunk_bytes);
        if !self.disk.has_room(bytes) {
            self.disk.turn_away();
            return false;
        }
        self.disk.has_share(self.share, bytes) && self.disk.admits(bytes, self.shown)
    }

    fn is_same_volume(&self) -> bool {
        self.disk.volume().is_some_and(|volume| Arc::ptr_eq(&volume, &self.volume))
    }

    fn send(&mut self) {
        let Some(block) = self.block.take() else { return };
        let (len, number) = (std::mem::take(&mut self.filled), self.number);
        self.number += 1;
        let (of, object, chunk_bytes) = ((self.key, self.share), self.object, self.chunk_bytes);
        self.disk.push(Job::Chunk { of, object, number, chunk_bytes, len, block });
    }
}
