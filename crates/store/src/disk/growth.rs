//! A longer index, where what arrives is shorter than the disk was formatted for.
//!
//! A slot of the index has no more of a record's hash than it needs in a table of its length. The
//! footers of segments have all of it: a longer table is made from them beside the one in use, by the
//! writer, which is the only one that adds to it; what others take out meanwhile is taken out of the
//! new one before it is shown.

use super::geometry::Geometry;
use super::index::{Index, Inserted};
use super::limits::FORMAT_VERSION_GROWN;
use super::reclaim::read_footer;
use super::recovery::scan;
use super::segment::Entry;
use super::superblock::Superblock;
use super::table::SegmentState;
use super::writer::Writer;
use crate::error::DiskError;
use std::sync::Arc;

impl Writer {
    /// Makes the index longer where it would be too full with what is about to be written.
    ///
    /// # Errors
    /// The device failed.
    pub(super) fn make_room_in_index(&mut self) -> Result<(), DiskError> {
        if self.is_index_longest || !self.volume.index().is_full_with(self.unindexed() + 1) {
            return Ok(());
        }
        let geometry = *self.volume.geometry();
        let lines = self.volume.index().lines();
        let wanted = geometry.lines_max().min(lines * 2);
        if wanted <= lines {
            self.stay_short("its checkpoints have no room for more: `freshet store format` with a smaller `object_size` makes it");
            return Ok(());
        }
        let Ok(longer) = Index::new(wanted) else {
            self.stay_short("there is no memory for more");
            return Ok(());
        };
        self.grow_into(longer, &geometry)
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

    fn grow_into(&mut self, longer: Index, geometry: &Geometry) -> Result<(), DiskError> {
        let volume = Arc::clone(&self.volume);
        Superblock::raise(&*volume.device, FORMAT_VERSION_GROWN)?;
        let old = Arc::clone(&*volume.index());
        let unit = u64::from(geometry.unit_bytes);
        let segments: Vec<_> = {
            let mut books = volume.books();
            books.removed = Some(Vec::new());
            let has_records = |info: SegmentState| info != SegmentState::Free;
            books.table.iter().filter(|(_, info)| has_records(info.state)).collect()
        };
        for (segment, info) in segments {
            let base = geometry.segment_at(segment) / unit;
            for entry in self.entries_of(segment, info.seq) {
                let at = base + u64::from(entry.units_at);
                if let Some(slot) = old.at(entry.hash, at)
                    && slot.kind() == entry.kind
                    && let Inserted::Dropped(_) = longer.adopt(entry.hash, slot, entry.units)
                {
                    volume.counts.index_dropped.add(1);
                }
            }
        }
        let mut books = volume.books();
        for (hash, units_at) in books.removed.take().unwrap_or_default() {
            longer.remove(hash, units_at);
        }
        // Of a segment that cannot be read any more nothing is known.
        volume.counts.index_dropped.add(old.entries().saturating_sub(longer.entries()));
        tracing::info!(
            device = %volume.superblock.device,
            records = longer.entries(),
            bytes = longer.bytes(),
            "the index has grown"
        );
        volume.set_index(longer);
        drop(books);
        // One that was begun is of the shorter index.
        self.checkpoint = None;
        self.expect_checkpoints();
        // What comes next is more than a start could put into the one before.
        self.wants_checkpoint = true;
        Ok(())
    }

    /// All records that were written to a segment.
    fn entries_of(&self, segment: u32, seq: u64) -> Vec<Entry> {
        if let Some(entries) = self.open_entries(segment) {
            return entries.to_vec();
        }
        let (device, geometry) = (&*self.volume.device, self.volume.geometry());
        let footer = read_footer(device, geometry, segment, seq).ok().flatten();
        footer.unwrap_or_else(|| scan(device, geometry, segment, seq))
    }
}
