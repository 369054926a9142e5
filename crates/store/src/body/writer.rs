//! Filling a body.

use super::sizing::{self, Outlook};
use super::state::{Room, State};
use super::{After, Body};
use crate::arena::{Claim, MemoryWait, Need};
use crate::error::BodyError;
use crate::limits::{PIECE_BYTES_MIN, SKIP_BYTES_MAX, SLAB_BYTES_MAX, TRANSIT_WINDOW_BYTES_LEAST};
use crate::piece::{Lease, PieceMut};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// One writer of a body: reserve room, put bytes there, commit them, and finish at the end.
/// Dropping it before that fails the readers that wait for it with [`BodyError::Aborted`].
///
/// Dropping, finishing or failing it may call the arena's reclaim hook, as reserving does.
pub struct BodyWriter {
    body: Arc<Body>,
    id: u32,
    start: u64,
    position: u64,
    piece: Option<PieceMut>,
    /// Bytes that are missing from here on, where that is known.
    gap_bytes: Option<u64>,
    /// What it took of memory that is for fills.
    claim: Claim,
    /// Where bytes go that the body has already.
    skipped: Option<Skipped>,
    wait: Option<MemoryWait>,
    reserved: Reserved,
    may_enter_transit: bool,
    has_ended: bool,
}

/// The room that was given out last.
#[derive(Clone, Copy, Debug, Default)]
struct Reserved {
    len: usize,
    is_skip: bool,
}

/// A buffer outside of the arena, counted as metadata.
struct Skipped {
    body: Arc<Body>,
    bytes: Box<[u8]>,
}

impl BodyWriter {
    pub(super) fn new(body: Arc<Body>, id: u32, start: u64) -> Self {
        Self {
            claim: body.arena.claim(),
            gap_bytes: None,
            body,
            id,
            start,
            position: start,
            piece: None,
            skipped: None,
            wait: None,
            reserved: Reserved::default(),
            may_enter_transit: true,
            has_ended: false,
        }
    }

    /// Whether the writer may put its body in transit when there is no memory, which is so at
    /// first. Otherwise [`BodyWriter::poll_reserve`] fails with [`BodyError::NoMemory`]; the
    /// caller may change its mind and ask again.
    pub fn set_allow_transit(&mut self, allow: bool) {
        self.may_enter_transit = allow;
    }

    /// Takes no part in the limit on what fills may hold ([`crate::Arena::set_fill_limit`]): for what was
    /// in memory before, as in that of another process.
    pub fn set_exempt(&mut self) {
        self.claim.exempt();
    }

    /// Room for the next bytes: at least one, whatever `hint` says, and never past the end of the
    /// writer's part. `hint` is how many bytes the caller expects to have at hand; it sizes the
    /// first piece of a body of unknown length.
    ///
    /// Waits, in transit only, for readers that are too far behind and for memory. Takes the
    /// body's lock, and the arena's lock when a new piece is needed; may call the arena's reclaim
    /// hook and the body's transit hook.
    ///
    /// # Errors
    /// [`BodyError::OriginTooLong`] at the end of the writer's part, [`BodyError::NoReaders`] when
    /// the bytes would be for nobody, [`BodyError::NoMemory`] as said above. The writer still has
    /// to be failed or dropped.
    pub fn poll_reserve(
        &mut self,
        cx: &mut Context<'_>,
        hint: usize,
    ) -> Poll<Result<&mut [u8], BodyError>> {
        self.reserved = ready!(self.poll_room(cx, hint))?;
        Poll::Ready(Ok(self.room()))
    }

    /// Whether there is memory for the first bytes of a body that is to be kept, within what fills may
    /// hold. Otherwise the next step puts the body in transit: its owner may decide before that not
    /// to keep it.
    pub fn has_room(&mut self, hint: usize) -> bool {
        if self.piece.is_none() && !self.body.is_transit() {
            let gap_bytes = self.body.state().gap_bytes(self.id);
            self.piece = self.claim.allocate_near(self.need(gap_bytes, hint, None), gap_bytes);
        }
        self.piece.is_some()
    }

    /// As [`BodyWriter::poll_reserve`]. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The same.
    pub async fn reserve(&mut self, hint: usize) -> Result<&mut [u8], BodyError> {
        self.reserved = poll_fn(|cx| self.poll_room(cx, hint)).await?;
        Ok(self.room())
    }

    /// Makes these bytes part of the body, waiting for memory where there is none.
    ///
    /// # Errors
    /// As [`BodyWriter::poll_reserve`].
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), BodyError> {
        while !bytes.is_empty() {
            let room = self.reserve(bytes.len()).await?;
            let count = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(count);
            room[..count].copy_from_slice(now);
            self.commit(count);
            bytes = later;
        }
        Ok(())
    }

    /// Makes the first `n` bytes of the room that was reserved part of the body, and wakes readers.
    ///
    /// # Panics
    /// If `n` is more than was reserved since the last commit.
    pub fn commit(&mut self, n: usize) {
        let reserved = std::mem::take(&mut self.reserved);
        assert!(n <= reserved.len, "more bytes committed than were reserved");
        if n == 0 {
            return;
        }
        let len = u32::try_from(n).expect("a piece is at most 1 MiB");
        let published = if reserved.is_skip {
            None
        } else {
            let piece = self.piece.as_mut().expect("room that is not skipped is in a piece");
            let start = piece.published();
            piece.publish(n);
            Some((piece.share(), start))
        };
        if self.gap_bytes == Some(u64::from(len)) {
            // Whoever sees the last byte may ask for the next body, which is to find room.
            self.claim.shrink(0);
        }
        let (id, body) = (self.id, &self.body);
        body.change(|state, after| {
            let piece = published.as_ref().map(|(piece, start)| (piece, *start));
            state.commit(id, piece, len, after);
        });
        self.position += u64::from(len);
        if self.piece.as_ref().is_some_and(|piece| piece.published() == piece.capacity()) {
            self.piece = None;
        }
    }

    /// Waits, in transit, until its readers are near enough for more to be brought. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// As [`BodyWriter::poll_reserve`], but for memory.
    pub async fn turn(&mut self) -> Result<(), BodyError> {
        let id = self.id;
        poll_fn(|cx| self.body.state().admit(id, false, cx).map_ok(drop)).await
    }

    /// How many bytes more may be brought ahead of its readers, of which no part is to be long beside all of
    /// them; `None` where the body is not in transit, and may have all.
    pub fn ahead_bytes(&mut self) -> Option<u64> {
        self.passing_window_bytes()?;
        let state = self.body.state();
        Some(state.window_bytes().saturating_sub(state.unread_bytes_of(self.id)))
    }

    /// Makes bytes that are in the arena already the next part of the body. Waits, in transit, as
    /// [`BodyWriter::poll_reserve`] does; dropping the future loses nothing.
    ///
    /// # Errors
    /// As [`BodyWriter::poll_reserve`], but for memory.
    pub async fn adopt(&mut self, lease: &Lease) -> Result<(), BodyError> {
        self.turn().await?;
        let id = self.id;
        let (piece, start, len) = lease.parts();
        self.body.change(|state, after| state.commit(id, Some((piece, start)), len, after));
        self.position += u64::from(len);
        Ok(())
    }

    /// Ends the writer's part here. An open end becomes the end of the body. Memory above the last
    /// byte goes back.
    ///
    /// # Errors
    /// [`BodyError::OriginTruncated`] when the writer's part, or a body of known length, does not
    /// end here; readers that wait for the rest fail with the same.
    pub fn finish(mut self) -> Result<(), BodyError> {
        self.trim();
        self.has_ended = true;
        let id = self.id;
        let result = self.body.change(|state, after| state.finish_writer(id, after));
        if result.is_ok() {
            self.move_to_part_of_page();
        }
        self.body.arena.reclaim_for_waiting();
        result
    }

    /// Ends the writer with an error, which readers that wait for it get. What it brought stays.
    pub fn fail(mut self, error: BodyError) {
        self.end(error);
    }

    /// Ends the writer where others may bring the rest: readers that wait for it find that missing. What it brought
    /// stays.
    pub fn leave(mut self) {
        self.end_by(|state, id, after| state.remove_writer(id, after));
    }

    /// The offset of the next byte it writes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The body it fills.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        hint: usize,
    ) -> Poll<Result<Reserved, BodyError>> {
        loop {
            // While memory is waited for, the readers' leaving has to be heard as well.
            let (id, waits) = (self.id, self.wait.is_some());
            let admitted = self.body.state().admit(id, waits, cx);
            let gap_bytes = match ready!(admitted)? {
                Room::Skip(held_bytes) => return Poll::Ready(Ok(self.skip(held_bytes))),
                Room::Gap(gap_bytes) => gap_bytes,
            };
            self.gap_bytes = gap_bytes;
            if let Some(piece) = &self.piece {
                let spare = (piece.capacity() - piece.published()) as usize;
                let gap = gap_bytes.and_then(|bytes| usize::try_from(bytes).ok());
                let len = spare.min(gap.unwrap_or(usize::MAX));
                return Poll::Ready(Ok(Reserved { len, is_skip: false }));
            }
            if let Some(wait) = &mut self.wait {
                self.piece = Some(ready!(wait.poll(cx)));
                self.wait = None;
                continue;
            }
            self.find_memory(gap_bytes, hint)?;
        }
    }

    /// Takes a piece, or enters transit, or joins the queue for memory.
    fn find_memory(&mut self, gap_bytes: Option<u64>, hint_bytes: usize) -> Result<(), BodyError> {
        let window_bytes = self.passing_window_bytes();
        let need = self.need(gap_bytes, hint_bytes, window_bytes);
        self.piece = match window_bytes {
            Some(_) => self.body.arena.allocate_near(need),
            None => self.claim.allocate_near(need, gap_bytes),
        };
        match (&self.piece, window_bytes.is_some()) {
            (Some(_), _) => {}
            (None, true) => self.wait = Some(self.body.arena.wait(need)),
            (None, false) if self.may_enter_transit => self.body.enter_transit(),
            (None, false) => return Err(BodyError::NoMemory),
        }
        Ok(())
    }

    /// How much of a body in transit may be unread, where its owner does not let it go further.
    fn passing_window_bytes(&mut self) -> Option<u64> {
        if !self.body.is_transit() {
            return None;
        }
        let (held_bytes, keeps_up) = (self.body.held_bytes(), self.is_kept_up_with());
        let window_bytes = self.claim.window_bytes(held_bytes, keeps_up);
        self.body.state().set_window(window_bytes);
        Some(window_bytes)
    }

    /// Whether a reader has taken nearly all there is, and more than it would be given ahead.
    fn is_kept_up_with(&self) -> bool {
        self.position - self.start >= TRANSIT_WINDOW_BYTES_LEAST
            && self.body.state().unread_bytes_of(self.id) < u64::from(PIECE_BYTES_MIN)
    }

    fn need(&self, gap_bytes: Option<u64>, hint_bytes: usize, window_bytes: Option<u64>) -> Need {
        let written_bytes = self.position - self.start;
        sizing::need(Outlook { gap_bytes, written_bytes, hint_bytes, window_bytes })
    }

    fn skip(&mut self, held_bytes: u64) -> Reserved {
        self.wait = None;
        self.skipped.get_or_insert_with(|| Skipped::new(self.body.clone()));
        let len = held_bytes.min(u64::from(SKIP_BYTES_MAX)) as usize;
        Reserved { len, is_skip: true }
    }

    fn room(&mut self) -> &mut [u8] {
        let Reserved { len, is_skip } = self.reserved;
        let room = match (&mut self.skipped, &mut self.piece) {
            (Some(skipped), _) if is_skip => &mut skipped.bytes[..],
            (_, Some(piece)) => piece.spare(),
            _ => unreachable!("room is reserved in a piece or to be skipped"),
        };
        &mut room[..len]
    }

    fn end(&mut self, error: BodyError) {
        self.end_by(|state, id, after| state.fail_writer(id, error, after));
    }

    fn end_by(&mut self, how: impl FnOnce(&mut State, u32, &mut After)) {
        self.trim();
        self.wait = None;
        self.has_ended = true;
        let id = self.id;
        self.body.change(|state, after| how(state, id, after));
        self.body.arena.reclaim_for_waiting();
    }

    fn trim(&mut self) {
        self.claim.shrink(0);
        if let Some(mut piece) = self.piece.take() {
            piece.trim();
        }
    }

    /// A small body that came with an unknown length lies in a page of its own: moves it to a part
    /// of one, if there is a free one. Leases on the old bytes stay good.
    fn move_to_part_of_page(&self) {
        let old = {
            let state = self.body.state();
            let may_move = state.is_complete() && !state.is_cleared && !state.is_transit;
            let small = state.extents.only().filter(|extent| {
                extent.end() <= u64::from(SLAB_BYTES_MAX) && !extent.piece.is_part_of_page()
            });
            small.filter(|_| may_move).cloned()
        };
        let Some(old) = old else { return };
        let lease = old.lease();
        let Some(mut part) = self.body.arena.allocate_free(lease.len() as u32) else { return };
        part.spare()[..lease.len()].copy_from_slice(&lease);
        part.publish(lease.len());
        let unused = self.body.state().extents.replace(&old, part.share());
        drop(unused);
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(BodyError::Aborted);
        }
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter")
            .field("start", &self.start)
            .field("position", &self.position)
            .field("waits_for_memory", &self.wait.is_some())
            .finish_non_exhaustive()
    }
}

impl Skipped {
    fn new(body: Arc<Body>) -> Self {
        body.arena.charge_unrefused(u64::from(SKIP_BYTES_MAX));
        Self { body, bytes: vec![0; SKIP_BYTES_MAX as usize].into() }
    }
}

impl Drop for Skipped {
    fn drop(&mut self) {
        self.body.arena.release_metadata(u64::from(SKIP_BYTES_MAX));
    }
}
