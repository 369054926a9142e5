//! What leaves next: frames whose order is decided, with the bytes of bodies where they lie.

use crate::streams::{State, Turn};
use freshet_net::limits::PIECES_MAX;
use freshet_net::stream::Stream;
use freshet_site::pieces::Chunk;
use freshet_wire::h2::{Connection, FRAME_HEADER_BYTES, data_frame_header};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

/// Bytes whose order is decided ahead of the socket: two batches of TLS, so that a batch is never
/// short for want of the header of the frame behind it. What becomes urgent later waits for them.
const PLANNED_BYTES_MAX: usize = 128 << 10;

/// Frames in their order.
pub(super) struct Out {
    parts: VecDeque<Part>,
    /// Bytes of the first part that are sent.
    offset: usize,
    bytes: usize,
    /// Payload of a DATA frame.
    data_bytes_max: usize,
}

enum Part {
    /// Frames of the connection.
    Control(Vec<u8>),
    /// What is in front of a piece of a body.
    Header([u8; FRAME_HEADER_BYTES]),
    /// A piece of a body. It stays in memory until it is sent.
    Body(Chunk),
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Control(bytes) => bytes,
            Self::Header(bytes) => bytes,
            Self::Body(chunk) => chunk.as_ref(),
        }
    }
}

impl Out {
    /// Nothing yet. `is_tls` leaves room in each record for the header of the next frame.
    pub(super) fn new(is_tls: bool) -> Self {
        let record = freshet_wire::tls::PLAINTEXT_BYTES_MAX;
        let data_bytes_max = if is_tls { record - FRAME_HEADER_BYTES } else { record };
        Self { parts: VecDeque::new(), offset: 0, bytes: 0, data_bytes_max }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it keeps cached bytes in memory.
    pub(super) fn keeps_memory(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Body(chunk) if chunk.is_lease()))
    }

    /// Keeps copies of what is planned, for a client that does not take it.
    pub(super) fn let_go(&mut self) {
        for part in &mut self.parts {
            if let Part::Body(chunk) = part {
                *chunk = chunk.copied(0);
            }
        }
    }

    /// Takes over what may be sent, as far as there is room. What the connection has to say stays
    /// with it where there is none: it knows when to listen no more.
    pub(super) fn plan(&mut self, state: &mut State<Connection>) {
        if self.bytes < PLANNED_BYTES_MAX {
            self.take_control(state);
        }
        if self.parts.is_empty() {
            let releases = std::mem::take(state.connection.releases());
            if !releases.is_empty() {
                return self.push(Part::Control(releases));
            }
        }
        while self.bytes < PLANNED_BYTES_MAX {
            let Some(frame) = state.connection.next_data(self.data_bytes_max) else {
                return state.note_shut();
            };
            self.push(Part::Header(data_frame_header(frame.stream, frame.bytes, frame.ends)));
            let turn = Turn { stream: frame.stream.into(), bytes: frame.bytes, left: frame.left };
            state.take_pieces(turn, |chunk| self.push(Part::Body(chunk)));
            // The end of a stream may have more to say than a flag.
            self.take_control(state);
        }
    }

    /// Sends some of it; 0 when there is nothing.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<io::Result<usize>> {
        if self.parts.is_empty() {
            return stream.poll_flush(cx).map_ok(|()| 0);
        }
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut offset = self.offset;
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(part.as_ref().get(offset..).unwrap_or_default());
            offset = 0;
            count += 1;
        }
        let taken = ready!(stream.poll_write_pieces(cx, &slices[..count]))?;
        if taken == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(taken);
        Poll::Ready(Ok(taken))
    }

    fn take_control(&mut self, state: &mut State<Connection>) {
        state.wake_heads();
        let control = std::mem::take(state.connection.control());
        if !control.is_empty() {
            self.push(Part::Control(control));
        }
    }

    fn push(&mut self, part: Part) {
        self.bytes += part.as_ref().len();
        self.parts.push_back(part);
    }

    fn advance(&mut self, taken: usize) {
        self.bytes -= taken;
        self.offset += taken;
        while let Some(first) = self.parts.front()
            && self.offset >= first.as_ref().len()
        {
            self.offset -= first.as_ref().len();
            self.parts.pop_front();
        }
        if self.parts.is_empty() {
            // An idle connection holds no buffer.
            self.parts = VecDeque::new();
        }
    }
}
