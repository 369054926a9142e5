//! A longer index, where what arrives is shorter than the disk was formatted for.
//!
//! A slot of the index has no more of a record's hash than it needs in a table of its length. The
//! footers of segments have all of it: a longer table is made from them beside the one in use, by the
//! writer, some records for each one that is written and more whenever there is nothing to write. What
//! changes meanwhile changes in both, so that the longer one takes the place of the other once the last
//! footer was read.

use super::index::Index;
use super::limits::{FORMAT_VERSION_GROWN, GROWTH_STEP_RECORDS};
use super::reclaim::read_footer;
use super::recovery::scan;
use super::segment::Entry;
use super::superblock::Superblock;
use super::table::SegmentState;
use super::writer::Writer;
use crate::error::DiskError;
use std::sync::Arc;

/// A longer index that is being made.
#[derive(Debug)]
pub(super) struct Growth {
    longer: Arc<Index>,
    /// Segments with records from before it was begun that were not looked through yet, with the numbers of
    /// their openings.
    segments: Vec<(u32, u64)>,
    /// Records of the one that is looked through, which begins at `base`, in units of the device.
    entries: std::vec::IntoIter<Entry>,
    base: u64,
}

impl Writer {
    /// Has the index longer before it is too full for what is written.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn make_room_in_index(&mut self) -> Result<(), DiskError> {
        if self.growth.is_none() {
            self.begin_growth()?;
        }
        self.step_growth()
    }

    /// Begins with a longer index where the one there is would be too full with what is about to be written.
    fn begin_growth(&mut self) -> Result<(), DiskError> {
        let volume = Arc::clone(&self.volume);
        let index = Arc::clone(&*volume.index());
        if self.is_index_longest || !index.is_full_with(self.unindexed() + 1) {
            return Ok(());
        }
        let wanted = volume.geometry().lines_max().min(index.lines() * 2);
        if wanted <= index.lines() {
            self.stay_short("its checkpoints have no room for more: `freshet store format` with a smaller `object_size` makes it");
            return Ok(());
        }
        let Ok(longer) = Index::new(wanted) else {
            self.stay_short("there is no memory for more");
            return Ok(());
        };
        Superblock::raise(&*volume.device, FORMAT_VERSION_GROWN)?;
        let books = volume.books();
        let is_used = |state: SegmentState| state != SegmentState::Free;
        let used = books.table.iter().filter(|(_, info)| is_used(info.state));
        let segments = used.map(|(segment, info)| (segment, info.seq)).collect();
        let longer = index.grow_into(longer);
        drop(books);
        self.growth = Some(Growth { longer, segments, entries: Vec::new().into_iter(), base: 0 });
        Ok(())
    }

    fn stay_short(&mut self, why: &'static str) {
        self.is_index_longest = true;
        let volume = &self.volume;
        tracing::warn!(
            device = %volume.superblock.device,
            records = volume.index().entries(),
            "the index is full, so records are left out and fetched again: {why}"
        );
    }

    /// Puts the next records into the longer index, if one is being made.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn step_growth(&mut self) -> Result<(), DiskError> {
        let Some(mut growth) = self.growth.take() else { return Ok(()) };
        let mut left = GROWTH_STEP_RECORDS;
        while left > 0 {
            if growth.entries.as_slice().is_empty() {
                let Some((segment, seq)) = growth.segments.pop() else {
                    return self.end_growth(&growth.longer);
                };
                growth.base = self.first_unit_of(segment);
                growth.entries = self.entries_of(segment, seq).into_iter();
                left -= 1;
            }
            left -= self.adopt(&mut growth, left);
        }
        self.growth = Some(growth);
        Ok(())
    }

    /// Puts so many records of the segment that is looked through into the longer index, as far as the
    /// other one leads to them; returns how many there were.
    fn adopt(&self, growth: &mut Growth, records: usize) -> usize {
        let _books = self.volume.books();
        let index = self.volume.index();
        let before = growth.entries.len();
        for entry in growth.entries.by_ref().take(records) {
            let at = growth.base + u64::from(entry.units_at);
            if let Some(slot) = index.at(entry.hash, at).filter(|slot| slot.kind() == entry.kind) {
                growth.longer.adopt(entry.hash, slot, entry.units);
            }
        }
        before - growth.entries.len()
    }

    /// Puts the longer index in the place of the other.
    fn end_growth(&mut self, longer: &Arc<Index>) -> Result<(), DiskError> {
        let volume = Arc::clone(&self.volume);
        let books = volume.books();
        // Of a segment that cannot be read any more nothing is known.
        let left_out = volume.index().entries().saturating_sub(longer.entries());
        volume.counts.index_dropped.add(left_out);
        volume.set_index(Arc::clone(longer));
        drop(books);
        tracing::info!(
            device = %volume.superblock.device,
            records = longer.entries(),
            bytes = longer.bytes(),
            "the index has grown"
        );
        self.expect_checkpoints();
        // One that was begun is of the shorter index, into which a start could soon put no more.
        self.checkpoint = None;
        self.begin_checkpoint(false, false)
    }

    fn first_unit_of(&self, segment: u32) -> u64 {
        let geometry = self.volume.geometry();
        geometry.segment_at(segment) / u64::from(geometry.unit_bytes)
    }

    /// All records that were written to a segment since it was opened under this number; none where it
    /// was freed since.
    fn entries_of(&self, segment: u32, seq: u64) -> Vec<Entry> {
        if let Some(entries) = self.open_entries(segment) {
            return entries.to_vec();
        }
        let info = self.volume.books().table.get(segment);
        if info.seq != seq || info.state == SegmentState::Free {
            return Vec::new();
        }
        let (device, geometry) = (&*self.volume.device, self.volume.geometry());
        let footer = read_footer(device, geometry, segment, seq).ok().flatten();
        footer.unwrap_or_else(|| scan(device, geometry, segment, seq))
    }
}
