//! Where the body of a request comes from.

use bytes::Bytes;
use freshet_http::fields::Fields;
use std::task::{Context, Poll};

/// The source of a request body ended before the body did: the client left or broke framing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BodyFailure {
    /// What happened, for the log.
    pub reason: String,
}

/// Gives a request body piece by piece. It is asked for more when the origin has taken what came
/// before, but for 64 KiB or one piece, and no more once the origin's response has ended.
///
/// A node that answers `Expect: 100-continue` itself has nothing to do here. One that leaves it to
/// the origin returns `Pending` until the interim response comes (the head is sent meanwhile) and
/// then wakes the task.
pub trait BodyProvider {
    /// Bytes of the whole body, sent as `Content-Length`; `None` for a chunked body. Asked once,
    /// before the first piece.
    fn length(&self) -> Option<u64>;

    /// The next piece, or `None` at the end. Empty pieces are skipped.
    ///
    /// # Errors
    /// [`BodyFailure`] ends the exchange and its connection: the origin sees a body cut short.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyFailure>>;

    /// Whether it goes on where the origin answers before its end. Not where whoever has it waits to be
    /// told to send it, which is over with an answer (RFC 9110 §10.1.1).
    fn goes_on(&self) -> bool {
        true
    }

    /// Trailer fields; asked once after the end of a chunked body (RFC 9112 §7.1.2).
    fn trailers(&mut self) -> Option<Fields> {
        None
    }
}

/// A body that is all there.
#[derive(Clone, Debug)]
pub struct WholeBody {
    length: u64,
    rest: Option<Bytes>,
}

impl WholeBody {
    /// A body of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { length: bytes.len() as u64, rest: Some(bytes) }
    }
}

impl BodyProvider for WholeBody {
    fn length(&self) -> Option<u64> {
        Some(self.length)
    }

    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyFailure>> {
        Poll::Ready(Ok(self.rest.take()))
    }
}
