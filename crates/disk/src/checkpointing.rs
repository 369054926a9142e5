//! When checkpoints are written, and how that goes on beside the log.
//!
//! A checkpoint is of the moment it begins: index, segments, marks and notes as they are then. What comes
//! after is in the journal and in segments with a higher number, as it is after a checkpoint that is
//! done. The index is taken from a snapshot ([`super::snapshot`]), a part at a time: one for each write of
//! the log, and one whenever there is nothing else to write.

use super::checkpoint::{self, Content, Header, Writing};
use super::index::Index;
use super::journal::Journal;
use super::limits::{CHECKPOINT_SEGMENTS, SNAPSHOT_LINES_MAX};
use super::notes;
use super::volume::Volume;
use super::writer::Writer;
use crate::error::DiskError;
use std::ops::Range;
use std::sync::Arc;

/// A checkpoint that is being written.
#[derive(Debug)]
pub(super) struct Checkpoint {
    writing: Writing,
    /// The index it is of.
    index: Arc<Index>,
    /// Segments that were sealed before it, since the one before.
    sealed: u32,
    /// Whether it is written because of the time.
    is_scheduled: bool,
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.index.end_snapshot();
    }
}

impl Checkpoint {
    /// Lines of the index, a few at a time: whoever changes it does not wait for all of them.
    fn take(volume: &Volume, index: &Index, lines: Range<u64>, bytes: &mut Vec<u8>) {
        const LINES_AT_ONCE: u64 = 512;
        let mut from = lines.start;
        while from < lines.end {
            let to = lines.end.min(from + LINES_AT_ONCE);
            let _books = volume.books();
            index.take_lines(from..to, |line| {
                line.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            });
            from = to;
        }
    }
}

impl Writer {
    /// Begins with a checkpoint where the number of segments since the last one or the journal ask for it,
    /// and writes all of it where they cannot wait: the journal is a ring, and what is overwritten in it
    /// before it is in a checkpoint is lost, purges too.
    pub(super) fn see_to_checkpoints(&mut self) -> Result<(), DiskError> {
        let sealed_max = CHECKPOINT_SEGMENTS.min(self.volume.geometry().segments / 4);
        if self.journal_since() > self.ring() * 3 / 4
            || self.sealed_since >= sealed_max.saturating_mul(2)
        {
            return self.checkpoint(false);
        }
        let is_due = self.sealed_since >= sealed_max || self.journal_since() > self.ring() / 2;
        if is_due && self.checkpoint.is_none() {
            self.begin_checkpoint(false, false)
        } else {
            Ok(())
        }
    }

    fn ring(&self) -> u64 {
        Journal::ring_blocks(self.volume.geometry())
    }

    /// Blocks of the journal the last checkpoint does not know.
    fn journal_since(&self) -> u64 {
        self.volume.books().journal.next().saturating_sub(self.checkpoint_journal)
    }

    /// Begins with a checkpoint because its time has come.
    ///
    /// # Errors
    /// The device failed.
    pub(crate) fn checkpoint_in_time(&mut self) -> Result<(), DiskError> {
        if self.checkpoint.is_some() { Ok(()) } else { self.begin_checkpoint(false, true) }
    }

    /// Writes a checkpoint of now: after it, what came before is not read when the store starts.
    ///
    /// # Errors
    /// The device failed; the checkpoint before is still good.
    pub fn checkpoint(&mut self, is_clean: bool) -> Result<(), DiskError> {
        // One that was begun is of a moment that is gone. Its place is the one this goes to.
        self.checkpoint = None;
        self.begin_checkpoint(is_clean, false)?;
        self.end_checkpoint()
    }

    /// Whether one is being written.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Whether a longer index is being made.
    #[cfg(test)]
    pub(super) fn is_growing(&self) -> bool {
        self.growth.is_some()
    }

    /// Whether there is something to be done beside the log, for which [`Writer::go_on`] is called.
    pub(crate) fn goes_on(&self) -> bool {
        self.checkpoint.is_some() || self.growth.is_some() || self.counts_shares()
    }

    /// Does the next part of what is done beside the log.
    ///
    /// # Errors
    /// The device failed.
    pub(crate) fn go_on(&mut self) -> Result<(), DiskError> {
        self.count_shares();
        self.step_growth()?;
        self.step_checkpoint()
    }

    pub(super) fn begin_checkpoint(
        &mut self,
        is_clean: bool,
        is_scheduled: bool,
    ) -> Result<(), DiskError> {
        self.drain()?;
        self.flush()?;
        let volume = Arc::clone(&self.volume);
        let geometry = *volume.geometry();
        // One moment for the number, the journal's place, the index, the marks and the notes. What comes
        // after it is in the journal from that place on.
        let mut books = volume.books();
        let mut header = Header {
            seq: volume.common.next_seq(),
            journal: books.journal.next(),
            written: books.written,
            formatted_ms: books.formatted_ms,
            is_clean,
            erasure: books.erasure.clone(),
            account: self
                .budget
                .as_ref()
                .map_or(books.account, |budget| budget.account(volume.common.now_ms())),
            ..Header::default()
        };
        let table = books.table.clone();
        let index = Arc::clone(&*volume.index());
        index.begin_snapshot();
        let (all, forgotten) = volume.common.notes.with_floor();
        books.has_notes(&all);
        let (notes, left_out_note) = notes::newest(all, geometry.notes_bytes_max());
        let marks = volume.common.purges.since(0);
        header.floors = volume.common.purges.floors();
        let refused = forgotten.max(left_out_note.unwrap_or(0));
        header.floors.looked_up = header.floors.looked_up.max(refused);
        let marks_max = checkpoint::marks_max(&geometry, notes::stored_bytes(&notes));
        if let Some(left_out) = marks.len().checked_sub(marks_max)
            && let Some(last) = left_out.checked_sub(1).and_then(|at| marks.get(at))
        {
            header.floors.any = header.floors.any.max(last.seq);
            header.floors.looked_up = header.floors.looked_up.max(last.seq);
        }
        drop(books);
        let content = Content { lines: index.lines(), table: &table, marks: &marks, notes: &notes };
        let writing = Writing::new(&geometry, 1 - self.checkpoint_place, header, content);
        let sealed = self.sealed_since;
        self.checkpoint = Some(Checkpoint { writing, index, sealed, is_scheduled });
        Ok(())
    }

    /// Writes the next part of the checkpoint that was begun, if one was; all of it where too much has
    /// changed meanwhile to be kept beside.
    ///
    /// # Errors
    /// The device failed; the checkpoint before is still good.
    pub(crate) fn step_checkpoint(&mut self) -> Result<(), DiskError> {
        let kept = |checkpoint: &Checkpoint| checkpoint.index.snapshot_lines();
        if self.checkpoint.as_ref().is_some_and(|checkpoint| kept(checkpoint) > SNAPSHOT_LINES_MAX)
        {
            return self.end_checkpoint();
        }
        self.write_some_of_checkpoint()
    }

    fn end_checkpoint(&mut self) -> Result<(), DiskError> {
        while self.checkpoint.is_some() {
            self.write_some_of_checkpoint()?;
        }
        Ok(())
    }

    fn write_some_of_checkpoint(&mut self) -> Result<(), DiskError> {
        // Where this fails it is given up.
        let Some(mut checkpoint) = self.checkpoint.take() else { return Ok(()) };
        let volume = Arc::clone(&self.volume);
        let (device, id) = (&*volume.device, volume.superblock.device);
        let Checkpoint { writing, index, .. } = &mut checkpoint;
        let done = writing.step(device, id, volume.geometry(), |lines, bytes| {
            Checkpoint::take(&volume, index, lines, bytes);
        })?;
        let Some(bytes) = done else {
            self.checkpoint = Some(checkpoint);
            return Ok(());
        };
        self.charge(0);
        volume.books().written.metadata_bytes += bytes;
        if checkpoint.is_scheduled {
            self.charge(bytes);
        }
        volume.counts.checkpoints.add(1);
        self.checkpoint_place = checkpoint.writing.place();
        self.checkpoint_journal = checkpoint.writing.journal();
        self.sealed_since = self.sealed_since.saturating_sub(checkpoint.sealed);
        Ok(())
    }
}
