//! What a body's lock guards, and the rules of who waits for whom.

use super::extents::{Extent, Extents};
use super::readers::{PLACE_BYTES, ReaderState, Readers};
use crate::error::BodyError;
use crate::limits::{
    FAILURES_MAX, FILL_AHEAD_BYTES_MAX, SLAB_BYTES_MAX, TRANSIT_WINDOW_BYTES,
    TRANSIT_WINDOW_BYTES_LEAST, TRANSIT_WINDOW_BYTES_MIN,
};
use crate::piece::{Lease, Piece};
use crate::wake::WakeList;
use std::ops::Range;
use std::task::{Context, Poll, Waker};

/// What a reader finds at its position.
#[derive(Debug)]
pub enum Next {
    /// Bytes; the reader has moved behind them.
    Data(Lease),
    /// The end of the range or of the body.
    End,
    /// Bytes that are not held and that no running writer will bring soon. The range ends where
    /// held bytes, another writer's part, the reader's range or the body begin or end, or at
    /// `u64::MAX` where nothing of this is known. Start a writer there, or read elsewhere.
    Hole(Range<u64>),
    /// The writer that should have brought these bytes failed.
    Failed(BodyError),
}

/// What a writer may do at its position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room {
    /// Store up to this many bytes, where it is known how many.
    Gap(Option<u64>),
    /// Drop this many bytes, the body has them.
    Skip(u64),
}

/// What is to be done once the lock is let go: pieces go back first, then wakers are woken.
#[derive(Default)]
pub(super) struct After {
    pub(super) freed: Vec<Extent>,
    pub(super) wakes: WakeList,
    /// Whether the body came to rest, for the first time.
    pub(super) rests: bool,
}

/// There is one in each body, so it has what each needs; what only those need that are filled or read is in
/// [`Busy`].
pub(super) struct State {
    /// [`UNKNOWN`] where that is so.
    total: u64,
    pub(super) extents: Extents,
    busy: Option<Box<Busy>>,
    /// Whether what `busy` takes was given back once.
    pub(super) has_rested: bool,
    pub(super) is_transit: bool,
    /// How much of it may be unread in transit.
    window: Window,
    pub(super) is_cleared: bool,
    /// Whether bytes may be dropped because nobody wants them: there was a reader, or none will
    /// come.
    pub(super) had_reader: bool,
}

/// Instead of a length.
const UNKNOWN: u64 = u64::MAX;

/// Who fills a body and who reads it.
#[derive(Default)]
pub(super) struct Busy {
    readers: Readers,
    writers: Vec<WriterState>,
    failures: Vec<Failure>,
    writer_last: u32,
    on_transit: Option<Box<dyn FnOnce() + Send>>,
    /// Who is told when the last reader leaves.
    deserted: Option<Waker>,
}

/// What a body that is filled or read takes beside itself, with the place of one reader.
pub(super) const BUSY_BYTES: u64 = size_of::<Busy>() as u64 + PLACE_BYTES;

/// A window in a byte: there is one in each body.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Window {
    /// [`TRANSIT_WINDOW_BYTES_LEAST`]
    #[default]
    Short,
    /// [`TRANSIT_WINDOW_BYTES_MIN`]
    Usual,
    /// [`TRANSIT_WINDOW_BYTES`]
    Wide,
}

struct WriterState {
    id: u32,
    position: u64,
    end: Option<u64>,
    waker: Option<Waker>,
}

/// A part of the body that a writer should have brought.
struct Failure {
    from: u64,
    until: u64,
    error: BodyError,
}

impl State {
    pub(super) fn new(total: Option<u64>, is_transit: bool) -> Self {
        Self {
            total: total.unwrap_or(UNKNOWN),
            extents: Extents::default(),
            busy: None,
            has_rested: false,
            is_transit,
            window: Window::default(),
            is_cleared: false,
            had_reader: false,
        }
    }

    /// The length, where it is known.
    pub(super) fn total(&self) -> Option<u64> {
        (self.total != UNKNOWN).then_some(self.total)
    }

    pub(super) fn add_writer(&mut self, start: u64, end: Option<u64>) -> u32 {
        let until = end.unwrap_or(u64::MAX);
        let busy = self.busy();
        busy.failures.retain(|failure| failure.until <= start || until <= failure.from);
        busy.writer_last = busy.writer_last.wrapping_add(1);
        let id = busy.writer_last;
        busy.writers.reserve_exact(1);
        busy.writers.push(WriterState { id, position: start, end, waker: None });
        id
    }

    pub(super) fn add_reader(&mut self, position: u64, end: u64, after: &mut After) -> u32 {
        self.had_reader = true;
        let id = self.busy().readers.add(position, end);
        if self.is_transit {
            // Writers that waited for a first reader learn where it is.
            self.release_read(after);
            self.wake_writers(after);
        }
        id
    }

    /// Removes a reader, and what only it needed.
    pub(super) fn remove_reader(&mut self, id: u32, after: &mut After) {
        self.busy().readers.remove(id);
        if self.is_cleared && self.reader_count() == 0 {
            self.extents.release(|_| true, &mut after.freed);
        }
        self.release_read(after);
        if self.is_transit || self.is_cleared {
            self.wake_writers(after);
        }
        if self.reader_count() == 0 {
            after.wakes.extend(self.busy().deserted.take());
        }
        self.rest(after);
    }

    /// Ready once all readers have left; who asked last is told.
    pub(super) fn poll_deserted(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.had_reader && self.reader_count() == 0 {
            return Poll::Ready(());
        }
        self.busy().deserted = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the writer may go on. Stores its waker when it may not, or `always`.
    pub(super) fn admit(
        &mut self,
        id: u32,
        always: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Room, BodyError>> {
        let writer = self.writer(id);
        let (position, end) = (writer.position, writer.end.or_else(|| self.total()));
        if let Some(expected) = end.filter(|end| *end <= position) {
            return Poll::Ready(Err(BodyError::OriginTooLong { expected }));
        }
        if self.is_unwanted(writer) {
            return Poll::Ready(Err(BodyError::NoReaders));
        }
        let is_far_ahead = self.is_transit && self.unread_bytes(writer) >= self.window_bytes();
        if is_far_ahead || always {
            self.writer_mut(id).waker = Some(cx.waker().clone());
        }
        if is_far_ahead {
            return Poll::Pending;
        }
        if let Some(held) = self.extents.at(position) {
            return Poll::Ready(Ok(Room::Skip(held.end() - position)));
        }
        let next = self.extents.next_after(position).map(|next| next.offset);
        let gap_end = next.into_iter().chain(end).min();
        Poll::Ready(Ok(Room::Gap(gap_end.map(|end| end - position))))
    }

    /// Bytes a writer may still bring, where that is known.
    pub(super) fn gap_bytes(&self, id: u32) -> Option<u64> {
        let writer = self.writer(id);
        let end = writer.end.or_else(|| self.total())?;
        Some(end.saturating_sub(writer.position))
    }

    /// How far a writer is ahead of its slowest reader.
    pub(super) fn unread_bytes_of(&self, id: u32) -> u64 {
        self.unread_bytes(self.writer(id))
    }

    /// Moves the writer over `len` bytes, which are in `piece` from `start` on unless they are
    /// dropped.
    pub(super) fn commit(
        &mut self,
        id: u32,
        piece: Option<(&Piece, u32)>,
        len: u32,
        after: &mut After,
    ) {
        let writer = self.writer_mut(id);
        let position = writer.position;
        let reached = position + u64::from(len);
        writer.position = reached;
        if let Some((piece, start)) = piece {
            let room = self.total.saturating_sub(position);
            self.extents.add(position, piece, start, u64::from(len).min(room) as u32);
            if self.is_cleared {
                piece.pin();
            }
        }
        self.busy().readers.take_wakers(|position| position < reached, &mut after.wakes);
        self.release_read(after);
    }

    /// Removes a writer that came to its end, or says how far it came.
    pub(super) fn finish_writer(&mut self, id: u32, after: &mut After) -> Result<(), BodyError> {
        let writer = self.writer(id);
        let (got, has_end) = (writer.position, writer.end.is_some());
        let end = writer.end.or_else(|| self.total()).unwrap_or_else(|| self.extents.end());
        if end > got {
            let error = BodyError::OriginTruncated { expected: end, got };
            self.fail_writer(id, error.clone(), after);
            return Err(error);
        }
        if !has_end && self.total == UNKNOWN {
            self.total = got;
        }
        self.remove_writer(id, after);
        Ok(())
    }

    /// Removes a writer that did not come to its end; who waits for it learns why.
    pub(super) fn fail_writer(&mut self, id: u32, error: BodyError, after: &mut After) {
        let writer = self.writer(id);
        // What nobody wanted did not fail: who comes later finds a hole and fills it.
        if !self.is_unwanted(writer) {
            let (from, until) = (writer.position, writer.end.unwrap_or(u64::MAX));
            let failures = &mut self.busy().failures;
            if failures.len() >= FAILURES_MAX {
                failures.remove(0);
            }
            failures.push(Failure { from, until, error });
        }
        self.remove_writer(id, after);
    }

    /// One step of a reader. Stores its waker when it has to wait.
    pub(super) fn read(
        &mut self,
        id: u32,
        max: u64,
        is_patient: bool,
        cx: &mut Context<'_>,
        after: &mut After,
    ) -> Poll<Next> {
        let total = self.total();
        let Busy { readers, writers, failures, .. } = &mut **self.busy.get_or_insert_default();
        let reader = readers.reader(id);
        let (position, end) = (reader.position, reader.end.min(total.unwrap_or(u64::MAX)));
        if position >= end {
            return Poll::Ready(Next::End);
        }
        if let Some(lease) = self.extents.lease(position, max.min(end - position)) {
            reader.position += lease.len() as u64;
            let position = reader.position;
            if self.is_transit {
                self.read_in_transit(position, after);
            }
            return Poll::Ready(Next::Data(lease));
        }
        let comes = |writer: &WriterState| {
            writer.will_reach(position, total) || (is_patient && writer.will_come(position, total))
        };
        if writers.iter().any(comes) {
            reader.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let failed = |failure: &&Failure| failure.from <= position && position < failure.until;
        if let Some(failure) = failures.iter().rev().find(failed) {
            return Poll::Ready(Next::Failed(failure.error.clone()));
        }
        let held = self.extents.next_after(position).map(|extent| extent.offset);
        let others = writers.iter().map(|writer| writer.position);
        let next = others.filter(|at| *at > position).chain(held).min();
        Poll::Ready(Next::Hole(position..next.map_or(end, |next| next.min(end))))
    }

    /// Drops what readers have left behind, from now on. True the first time.
    pub(super) fn enter_transit(&mut self, after: &mut After) -> bool {
        if self.is_transit {
            return false;
        }
        self.is_transit = true;
        self.had_reader = true;
        self.release_read(after);
        self.wake_writers(after);
        true
    }

    /// Lets writers go further ahead in transit.
    pub(super) fn widen(&mut self, after: &mut After) {
        if std::mem::replace(&mut self.window, Window::Wide) != Window::Wide {
            self.wake_writers(after);
        }
    }

    /// Says how far writers may be ahead in transit where they are not let go further.
    pub(super) fn set_window(&mut self, bytes: u64) {
        if self.window != Window::Wide {
            let is_short = bytes < TRANSIT_WINDOW_BYTES_MIN;
            self.window = if is_short { Window::Short } else { Window::Usual };
        }
    }

    /// How far writers may be ahead in transit.
    pub(super) fn window_bytes(&self) -> u64 {
        match self.window {
            Window::Short => TRANSIT_WINDOW_BYTES_LEAST,
            Window::Usual => TRANSIT_WINDOW_BYTES_MIN,
            Window::Wide => TRANSIT_WINDOW_BYTES,
        }
    }

    /// Drops everything, now or when the last reader leaves.
    pub(super) fn clear(&mut self, after: &mut After) {
        self.is_cleared = true;
        if self.reader_count() == 0 {
            self.extents.release(|_| true, &mut after.freed);
            self.wake_writers(after);
        } else {
            self.extents.iter().for_each(|extent| extent.piece.pin());
        }
    }

    /// Sets the length; false when it contradicts what is known.
    pub(super) fn set_total(&mut self, total: u64, after: &mut After) -> bool {
        if self.total().is_some_and(|known| known != total) || self.extents.end() > total {
            return false;
        }
        self.total = total;
        self.wake_readers(after);
        true
    }

    pub(super) fn is_complete(&self) -> bool {
        self.total().is_some_and(|total| self.extents.held_bytes() >= total)
    }

    /// The end of what a running writer brings of the bytes from `position` on, where that is known.
    pub(super) fn brought_to(&self, position: u64) -> Option<u64> {
        let total = self.total();
        let coming = self.writers().iter().filter(|writer| writer.will_come(position, total));
        coming.filter_map(|writer| writer.end.or(total)).max()
    }

    pub(super) fn writer_count(&self) -> usize {
        self.writers().len()
    }

    pub(super) fn reader_count(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.readers.count())
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = &ReaderState> {
        readers_of(self.busy.as_deref())
    }

    /// Has this called when it enters transit, which it has not.
    pub(super) fn set_hook(&mut self, hook: Box<dyn FnOnce() + Send>) {
        self.busy().on_transit = Some(hook);
    }

    pub(super) fn take_hook(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        self.busy.as_mut()?.on_transit.take()
    }

    /// Removes a writer; what it did not bring is missing.
    pub(super) fn remove_writer(&mut self, id: u32, after: &mut After) {
        let busy = self.busy();
        busy.writers.retain(|writer| writer.id != id);
        if busy.writers.is_empty() {
            busy.writers = Vec::new();
            self.extents.compact();
        }
        self.wake_readers(after);
        self.rest(after);
    }

    /// Gives up what only those need that are filled or read, where it is whole and short: such a body is leased
    /// at once by who wants it, so seldom has a reader again, and no transit awaits it.
    fn rest(&mut self, after: &mut After) {
        let is_idle = self.writers().is_empty() && self.reader_count() == 0;
        if is_idle && self.total <= SLAB_BYTES_MAX.into() && self.is_complete() {
            self.busy = None;
            after.rests = !std::mem::replace(&mut self.has_rested, true);
        }
    }

    /// A reader has moved to `position`: drops what it was the last to need, and lets writers go on
    /// that are not too far ahead any more.
    fn read_in_transit(&mut self, position: u64, after: &mut After) {
        let is_inside = self.extents.at(position).is_some_and(|extent| extent.offset < position);
        if !is_inside {
            self.release_read(after);
        }
        for at in 0..self.writer_count() {
            if self.unread_bytes(&self.writers()[at]) < self.window_bytes() {
                after.wakes.extend(self.busy().writers[at].waker.take());
            }
        }
    }

    /// In transit, drops all extents but those that some reader will come to without a gap.
    fn release_read(&mut self, after: &mut After) {
        if !self.is_transit || !self.had_reader {
            return;
        }
        let busy = self.busy.as_deref();
        let (mut is_needed, mut last_end) = (false, 0);
        let unneeded = |extent: &Extent| {
            let inside = extent.offset..extent.end();
            is_needed &= extent.offset == last_end;
            is_needed |= readers_of(busy)
                .any(|reader| inside.contains(&reader.position) && reader.position < reader.end);
            last_end = extent.end();
            !is_needed
        };
        self.extents.release(unneeded, &mut after.freed);
    }

    fn wake_writers(&mut self, after: &mut After) {
        let writers = self.busy.iter_mut().flat_map(|busy| &mut busy.writers);
        writers.for_each(|writer| after.wakes.extend(writer.waker.take()));
    }

    fn wake_readers(&mut self, after: &mut After) {
        if let Some(busy) = &mut self.busy {
            busy.readers.take_wakers(|_| true, &mut after.wakes);
        }
    }

    /// Whether no reader will want what this writer brings next.
    fn is_unwanted(&self, writer: &WriterState) -> bool {
        if !self.had_reader {
            return false;
        }
        if !self.is_transit {
            return self.is_cleared && self.reader_count() == 0;
        }
        let run_start = self.extents.run_start(writer.position);
        let reach = run_start..=writer.position.saturating_add(FILL_AHEAD_BYTES_MAX);
        let wants = |position, end| reach.contains(&position) && end > writer.position;
        !self.readers().any(|reader| wants(reader.position, reader.end))
    }

    /// In transit: how much is held up to this writer's position for the slowest reader that comes
    /// to it without a gap. A reader behind a gap does not count: it may be waiting for another
    /// writer, which may be waiting for the memory this one holds.
    fn unread_bytes(&self, writer: &WriterState) -> u64 {
        let run_start = self.extents.run_start(writer.position);
        let held = run_start..=writer.position;
        let positions = self.readers().map(|reader| reader.position);
        let slowest = positions.filter(|position| held.contains(position)).min();
        let from = if self.had_reader { writer.position } else { run_start };
        writer.position - slowest.unwrap_or(from)
    }

    fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    fn writers(&self) -> &[WriterState] {
        self.busy.as_ref().map_or(&[], |busy| &busy.writers)
    }

    fn writer(&self, id: u32) -> &WriterState {
        let writer = self.writers().iter().find(|writer| writer.id == id);
        writer.expect("a writer is known to its body until it ends")
    }

    fn writer_mut(&mut self, id: u32) -> &mut WriterState {
        let writer = self.busy().writers.iter_mut().find(|writer| writer.id == id);
        writer.expect("a writer is known to its body until it ends")
    }
}

fn readers_of(busy: Option<&Busy>) -> impl Iterator<Item = &ReaderState> {
    busy.into_iter().flat_map(|busy| busy.readers.iter())
}

impl WriterState {
    /// Whether a reader at `position` should wait for this writer.
    fn will_reach(&self, position: u64, total: Option<u64>) -> bool {
        let ahead = position.checked_sub(self.position);
        ahead.is_some_and(|ahead| ahead <= FILL_AHEAD_BYTES_MAX) && self.will_come(position, total)
    }

    /// Whether this writer comes to `position` some time.
    fn will_come(&self, position: u64, total: Option<u64>) -> bool {
        self.position <= position && self.end.or(total).is_none_or(|end| position < end)
    }
}
