//! The one that reads and writes a connection.

use super::session::{Session, State};
use super::{LOOK_INTERVAL, PING_AFTER};
use crate::capacity::Permit;
use crate::error::OriginError;
use crate::stats::Held;
use bytes::{Buf, Bytes};
use freshet_net::stream::Stream as Socket;
use freshet_wire::h2::{FRAME_HEADER_BYTES, data_frame_header};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes read at once: four frames of the largest size, or a small response many times.
const READ_BYTES: usize =
    4 * (FRAME_HEADER_BYTES + freshet_wire::h2::limits::FRAME_BYTES_MAX as usize);

/// Bytes put together for a write: what a socket takes at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Pieces handed to the kernel at once.
const PIECES_PER_WRITE: usize = 16;

/// Reads and writes until other tasks have their turn.
const STEPS_PER_TURN: usize = 16;

/// Runs a connection for as long as it is polled; ready when that is over.
pub(crate) struct Driver {
    session: Session,
    socket: Socket,
    input: Vec<u8>,
    /// Bytes of `input` that were read and not handled.
    filled: usize,
    output: VecDeque<Bytes>,
    needs_flush: bool,
    began: Instant,
    /// When the origin was last heard.
    heard: Instant,
    /// When it was asked whether it is there, and has not been heard since.
    asked: Option<Instant>,
    /// Since when it takes nothing of what is written.
    stuck: Option<Instant>,
    timer: Pin<Box<Sleep>>,
    // Dropped in this order: no longer counted, and only then is there room for another.
    _place: Option<(Held, Permit)>,
}

impl Driver {
    /// For a connection over `socket`, with its place under the origin's limit, where it needs one.
    pub(crate) fn new(session: &Session, socket: Socket, permit: Option<Permit>) -> Self {
        let now = Instant::now();
        Self {
            session: session.clone(),
            socket,
            input: vec![0; READ_BYTES],
            filled: 0,
            output: VecDeque::new(),
            needs_flush: false,
            began: now,
            heard: now,
            asked: None,
            stuck: None,
            timer: Box::pin(sleep_until(now + LOOK_INTERVAL)),
            _place: permit
                .map(|permit| (Held::new(&session.0.origin, |stats| &stats.open), permit)),
        }
    }

    /// Does what can be done now. Ready when all was said.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, OriginError> {
        for _ in 0..STEPS_PER_TURN {
            let has_read = self.read(cx)?;
            let has_written = self.write(cx)?;
            if !has_read && !has_written {
                if self.timer.as_mut().poll(cx).is_pending() {
                    let state = self.session.0.state.borrow();
                    let is_done = !state.is_usable() && state.inboxes.is_empty();
                    return Ok(if is_done { Poll::Ready(()) } else { Poll::Pending });
                }
                let next = Instant::now() + self.look_interval();
                self.timer.as_mut().reset(next);
                self.look_around()?;
            }
        }
        cx.waker().wake_by_ref();
        Ok(Poll::Pending)
    }

    /// Reads once and handles what came; false when nothing did.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, OriginError> {
        // What was left over while our own frames were not taken is handled first.
        let has_handled = self.handle()?;
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        if room.is_empty() {
            return Ok(has_handled);
        }
        match self.socket.poll_read(cx, room) {
            Poll::Pending => Ok(has_handled),
            Poll::Ready(Ok(0)) => Err(OriginError::OriginClosed { response_bytes: 0 }),
            Poll::Ready(Err(error)) => Err(OriginError::from_io(&error, 0)),
            Poll::Ready(Ok(count)) => {
                self.filled += count;
                self.session.0.origin.stats.bytes_received.add(count as u64);
                self.heard = Instant::now();
                self.asked = None;
                self.handle()?;
                Ok(true)
            }
        }
    }

    /// Handles the frames that are there; false when there is no whole one.
    fn handle(&mut self) -> Result<bool, OriginError> {
        let input = self.input.get(..self.filled).unwrap_or_default();
        if input.is_empty() {
            return Ok(false);
        }
        let used = self.session.receive(input, self.began).map_err(|_| {
            OriginError::OriginProtocol { reason: "it breaks the rules, or only makes work" }
        })?;
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(used > 0)
    }

    /// Writes once; false when there is nothing to write, or nothing is taken.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, OriginError> {
        if self.output.is_empty() {
            let state = &mut *self.session.0.state.borrow_mut();
            collect(state, &mut self.output);
        }
        if self.output.is_empty() {
            if self.needs_flush {
                match self.socket.poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.needs_flush = false,
                    Poll::Ready(Err(error)) => return Err(OriginError::from_io(&error, 0)),
                    Poll::Pending => {}
                }
            }
            return Ok(false);
        }
        let mut pieces = [IoSlice::new(&[]); PIECES_PER_WRITE];
        for (slot, piece) in pieces.iter_mut().zip(&self.output) {
            *slot = IoSlice::new(piece);
        }
        let len = self.output.len().min(PIECES_PER_WRITE);
        match self.socket.poll_write_pieces(cx, pieces.get(..len).unwrap_or_default()) {
            Poll::Pending => {
                self.stuck.get_or_insert_with(Instant::now);
                Ok(false)
            }
            Poll::Ready(Ok(0)) => Err(OriginError::from_io(&io::ErrorKind::WriteZero.into(), 0)),
            Poll::Ready(Err(error)) => Err(OriginError::from_io(&error, 0)),
            Poll::Ready(Ok(count)) => {
                self.session.0.origin.stats.bytes_sent.add(count as u64);
                self.stuck = None;
                self.needs_flush = true;
                advance(&mut self.output, count);
                Ok(true)
            }
        }
    }

    /// How often the clock is looked at.
    fn look_interval(&self) -> std::time::Duration {
        LOOK_INTERVAL.min(self.session.0.origin.settings.timeouts.idle)
    }

    /// Ends what idled too long, asks an origin that is silent, and gives one up that stays so.
    fn look_around(&mut self) -> Result<(), OriginError> {
        let timeouts = self.session.0.origin.settings.timeouts;
        if self.stuck.is_some_and(|since| since.elapsed() >= timeouts.between_bytes) {
            return Err(OriginError::OriginWriteTimeout { limit: timeouts.between_bytes });
        }
        let state = &mut *self.session.0.state.borrow_mut();
        if state.inboxes.is_empty() {
            state.is_retired |= state.idle_since.elapsed() >= timeouts.idle;
            return Ok(());
        }
        match self.asked {
            Some(asked) if asked.elapsed() >= timeouts.between_bytes => {
                let reason = format!("it answered no PING within {:?}", timeouts.between_bytes);
                Err(OriginError::OriginBroken { reason })
            }
            None if self.heard.elapsed() >= PING_AFTER => {
                state.wire.ask_alive();
                self.asked = Some(Instant::now());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Says what there is to say at the end, as far as it is taken at once.
    fn say_last(&mut self, cx: &mut Context<'_>) {
        self.session.0.state.borrow_mut().wire.leave();
        while matches!(self.write(cx), Ok(true)) {}
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.session.0.state.borrow_mut().driver = Some(cx.waker().clone());
        let error = match this.turn(cx) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => OriginError::OriginClosed { response_bytes: 0 },
            Err(error) => error,
        };
        this.session.end(error);
        this.say_last(cx);
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A worker that ends drops it unfinished.
        self.session.end(OriginError::OriginClosed { response_bytes: 0 });
    }
}

/// Takes what is to be sent next, in order.
fn collect(state: &mut State, output: &mut VecDeque<Bytes>) {
    let take_control = |state: &mut State, output: &mut VecDeque<Bytes>| {
        let control = std::mem::take(state.wire.control());
        if !control.is_empty() {
            output.push_back(control.into());
        }
    };
    take_control(state, output);
    let mut bytes = 0;
    while bytes < WRITE_BYTES
        && let Some(frame) = state.wire.next_data(WRITE_BYTES)
    {
        let header = data_frame_header(frame.stream, frame.bytes, frame.ends);
        output.push_back(Bytes::copy_from_slice(&header));
        bytes += frame.bytes;
        let Some(inbox) = state.inboxes.get_mut(&frame.stream) else { continue };
        inbox.upload_bytes = inbox.upload_bytes.saturating_sub(frame.bytes);
        inbox.has_progressed = true;
        let mut left = frame.bytes;
        while left > 0
            && let Some(piece) = inbox.upload.front_mut()
        {
            let part = piece.split_to(left.min(piece.len()));
            left -= part.len();
            if piece.is_empty() {
                inbox.upload.pop_front();
            }
            output.push_back(part);
        }
        inbox.wake();
        take_control(state, output);
    }
}

/// Forgets what was written.
fn advance(output: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(first) = output.front_mut() {
        if count < first.len() {
            first.advance(count);
            return;
        }
        count -= first.len();
        output.pop_front();
    }
}
