//! Counting what a disk had of a share before that had a bound.

use super::reclaim::read_footer;
use super::share::Count;
use super::table::SegmentState;
use super::writer::Writer;
use std::sync::Arc;

impl Writer {
    /// Whether there are segments that are not counted yet.
    pub(crate) fn counts_shares(&self) -> bool {
        self.shares.under_way.is_some() || self.volume.common.shares.round() > self.shares.done
    }

    /// Counts the next segment of those that are whole, or that are being written by this.
    pub(crate) fn count_shares(&mut self) {
        if !self.counts_shares() {
            return;
        }
        let volume = Arc::clone(&self.volume);
        let common = &volume.common;
        let (round, segment) = self.shares.under_way.unwrap_or_else(|| (common.shares.round(), 0));
        if segment >= volume.geometry().segments {
            self.shares = Count { done: round, under_way: None };
            return;
        }
        self.shares.under_way = Some((round, segment + 1));
        let info = volume.books().table.get(segment);
        let read = || read_footer(&*volume.device, volume.geometry(), segment, info.seq).ok()?;
        let footer = match info.state {
            SegmentState::Free => None,
            _ if self.open_entries(segment).is_some() => None,
            _ => read(),
        };
        if let Some(entries) = footer.as_deref().or_else(|| self.open_entries(segment)) {
            let unit = u64::from(volume.geometry().unit_bytes);
            let place = volume.place_of(segment);
            common.shares.found(place, entries, unit, self.shares.done, &common.purges);
        }
    }
}
