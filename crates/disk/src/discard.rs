//! Telling a drive what it need not keep of a segment, ahead of what is written there.
//!
//! A solid-state drive moves what it believes to be of use whenever it erases its cells. It is told of a
//! segment once the segment's opening is durable: nobody looks for what was there from then on, however the
//! process ends, and what was kept of it is durable elsewhere. What is discarded reads as zeroes, as it did
//! before, or as anything else: no record is served that is not as it was written.
//!
//! A drive may take its time for that, so it is told a part at a time, and the next part while that is
//! written which it was told of before.

use super::limits::{DISCARD_BYTES, IO_TIMEOUT};
use super::volume::Volume;
use freshet_device::{Completion, IoError};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// What a drive is told of one segment that is being written.
#[derive(Debug, Default)]
pub(super) struct Discards {
    /// What it is not told of yet, on the device.
    left: Range<u64>,
    /// What it is about to discard.
    under_way: Option<(Range<u64>, Completion)>,
}

impl Discards {
    /// Begins with a segment whose opening is durable.
    pub(super) fn begin(volume: &Volume, segment: Range<u64>) -> Self {
        let mut new = Self { left: segment, under_way: None };
        new.go_on(volume);
        new
    }

    /// Waits until nothing is to be discarded any more of what is before `end`, so that it can be written.
    ///
    /// # Errors
    /// The device does not answer.
    pub(super) fn clear_to(&mut self, volume: &Volume, end: u64) -> Result<(), IoError> {
        while let Some((range, done)) = self.under_way.take_if(|(range, _)| range.start < end) {
            match done.wait(IO_TIMEOUT).result {
                Ok(()) => volume.counts.discarded_bytes.add(range.end - range.start),
                Err(IoError::TimedOut) => return Err(IoError::TimedOut),
                Err(error) => {
                    tracing::info!(
                        device = %volume.superblock.device, %error, "it is told of nothing to discard"
                    );
                    volume.set_discards(false);
                }
            }
            self.go_on(volume);
        }
        Ok(())
    }

    /// Ends: nothing more is discarded, and what was to be is.
    ///
    /// # Errors
    /// The device does not answer.
    pub(super) fn end(mut self, volume: &Volume) -> Result<(), IoError> {
        self.left = 0..0;
        self.clear_to(volume, u64::MAX)
    }

    fn go_on(&mut self, volume: &Volume) {
        let end = self.left.end.min(self.left.start.saturating_add(DISCARD_BYTES));
        let range = self.left.start..end;
        self.left.start = end;
        if !range.is_empty() && volume.discards.load(Relaxed) {
            self.under_way = Some((range.clone(), volume.device.discard(range)));
        }
    }
}

impl Volume {
    /// Has the device told what it need not keep, or not.
    pub fn set_discards(&self, discards: bool) {
        self.discards.store(discards, Relaxed);
    }
}
