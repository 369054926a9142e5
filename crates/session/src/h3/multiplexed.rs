//! HTTP/3, as who serves streams knows it.

use crate::streams::{Multiplexed, Why};
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_site::pieces::Chunk;
use freshet_wire::h3::frame::FRAME_HEAD_BYTES_MAX;
use freshet_wire::h3::{Code, Connection};

/// What streams are made of: pieces of bodies where they lie, and frames' heads between them.
pub(super) struct Piece(pub(super) Chunk);

impl Piece {
    /// A copy of cached bytes, so that they need not stay where they are.
    pub(super) fn copied(&self) -> Option<Self> {
        self.0.is_lease().then(|| Self(self.0.copied(0)))
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Chunk::Bytes(Bytes::from(bytes)))
    }
}

impl Multiplexed for Connection<Piece> {
    const HEAD_FRAME_BYTES: usize = FRAME_HEAD_BYTES_MAX;

    fn respond(
        &mut self,
        stream: u64,
        head: &ResponseHead,
        length: Option<u64>,
        ends: bool,
    ) -> Option<usize> {
        Self::respond(self, stream, head, length, ends)
    }

    fn hasten(&mut self, stream: u64) {
        Self::hasten(self, stream);
    }

    fn has_control_room(&self) -> bool {
        Self::has_control_room(self)
    }

    fn queue(&mut self, stream: u64, bytes: usize) -> bool {
        Self::queue(self, stream, bytes)
    }

    fn unqueue(&mut self, stream: u64) -> usize {
        Self::unqueue(self, stream)
    }

    fn finish(&mut self, stream: u64, trailers: Option<Fields>) {
        Self::finish(self, stream, trailers);
    }

    fn reset(&mut self, stream: u64, why: Why) {
        let code = match why {
            Why::Failed => Code::InternalError,
            Why::TooSlow => Code::RequestCancelled,
        };
        Self::reset(self, stream, code);
    }

    fn abandon(&mut self, stream: u64) {
        Self::abandon(self, stream, Code::InternalError);
    }

    fn queued(&self, stream: u64) -> usize {
        Self::queued(self, stream)
    }

    fn queued_of_all(&self) -> usize {
        Self::queued_of_all(self)
    }

    fn is_shut(&self, stream: u64) -> bool {
        Self::is_shut(self, stream)
    }

    fn has_window(&self, stream: u64) -> bool {
        Self::has_window(self, stream)
    }

    fn take_body(&mut self, stream: u64, bytes: usize) {
        Self::take_body(self, stream, bytes as u64);
    }

    fn refuse_body(&mut self, stream: u64) {
        Self::refuse_body(self, stream);
    }
}
