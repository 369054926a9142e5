//! HTTP/2, as who serves streams knows it.

use crate::streams::{Multiplexed, State, Why};
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_wire::h2::{Code, Connection, FRAME_HEADER_BYTES};

/// Whether more may be read: not while nobody takes what came of bodies.
pub(super) fn wants_input(state: &State<Connection>) -> bool {
    state.connection.wants_input() && state.wants_bodies()
}

/// The number as HTTP/2 has it, which it came from.
fn narrow(stream: u64) -> u32 {
    u32::try_from(stream).unwrap_or(u32::MAX)
}

impl Multiplexed for Connection {
    const HEAD_FRAME_BYTES: usize = FRAME_HEADER_BYTES;

    fn respond(
        &mut self,
        stream: u64,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize> {
        Self::respond(self, narrow(stream), head, length, ends)
    }

    fn hasten(&mut self, stream: u64) {
        Self::hasten(self, narrow(stream));
    }

    fn has_control_room(&self) -> bool {
        Self::has_control_room(self)
    }

    fn queue(&mut self, stream: u64, bytes: usize) -> bool {
        Self::queue(self, narrow(stream), bytes)
    }

    fn unqueue(&mut self, stream: u64) -> usize {
        Self::unqueue(self, narrow(stream))
    }

    fn finish(&mut self, stream: u64, trailers: Option<Fields>) {
        Self::finish(self, narrow(stream), trailers);
    }

    fn reset(&mut self, stream: u64, why: Why) {
        let code = match why {
            Why::Failed => Code::InternalError,
            Why::TooSlow => Code::Cancel,
        };
        Self::reset(self, narrow(stream), code);
    }

    fn abandon(&mut self, stream: u64) {
        Self::abandon(self, narrow(stream), Code::InternalError);
    }

    fn queued(&self, stream: u64) -> usize {
        Self::queued(self, narrow(stream))
    }

    fn queued_of_all(&self) -> usize {
        Self::queued_of_all(self)
    }

    fn is_shut(&self, stream: u64) -> bool {
        Self::is_shut(self, narrow(stream))
    }

    fn has_window(&self, stream: u64) -> bool {
        Self::has_window(self, narrow(stream))
    }

    fn take_body(&mut self, stream: u64, bytes: usize) {
        Self::take_body(self, narrow(stream), bytes as u32);
    }

    fn refuse_body(&mut self, stream: u64) {
        Self::refuse_body(self, narrow(stream));
    }
}
