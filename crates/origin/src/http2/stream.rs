//! One exchange on a connection, from the side of whoever has it.

use super::UPLOAD_BYTES_MAX;
use super::session::{Ending, Session};
use crate::definition::Origin;
use crate::error::OriginError;
use crate::upload::{Stopped, Upload};
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_net::address::PeerAddress;
use freshet_wire::h2::{Answer, Code};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A stream, which is reset when it is dropped before its end.
pub(crate) struct Stream {
    session: Session,
    number: u32,
    /// Whether the connection had carried exchanges before.
    pub(crate) is_reused: bool,
    /// How long the origin may be silent within a body.
    pub(crate) between_bytes: Duration,
    /// Whether nothing is missing but the word that nothing follows.
    pub(crate) is_bodiless: bool,
}

/// What came of a response.
pub(super) enum Came {
    Interim(ResponseHead),
    Final(Box<Answer>),
}

impl Stream {
    pub(super) fn new(session: Session, number: u32, is_reused: bool) -> Self {
        let between_bytes = session.0.origin.settings.timeouts.between_bytes;
        Self { session, number, is_reused, between_bytes, is_bodiless: false }
    }

    /// Whose it is.
    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.session.0.origin
    }

    /// The origin's end of the connection, and ours.
    pub(crate) fn ends(&self) -> (Option<PeerAddress>, Option<SocketAddr>) {
        (self.session.0.remote, self.session.0.local)
    }

    /// Hands on what there is of a request's body, as far as the connection takes it. Ready at its end.
    pub(crate) fn poll_upload(
        &self,
        cx: &mut Context<'_>,
        upload: &mut Upload,
    ) -> Poll<Result<(), Stopped>> {
        while self.wants_upload() {
            match ready!(upload.poll_piece(cx)) {
                Ok(Some(piece)) => {
                    upload.written += piece.len() as u64;
                    self.send(piece);
                }
                Ok(None) => {
                    self.finish(upload.trailers());
                    return Poll::Ready(Ok(()));
                }
                Err(stopped) => return Poll::Ready(Err(stopped)),
            }
        }
        Poll::Pending
    }

    /// Whether a request's body may be asked for more.
    pub(crate) fn wants_upload(&self) -> bool {
        let state = self.session.0.state.borrow();
        state.inboxes.get(&self.number).is_some_and(|inbox| inbox.upload_bytes < UPLOAD_BYTES_MAX)
    }

    /// Whether something of the request's body was not sent.
    pub(super) fn has_unsent(&self) -> bool {
        let state = self.session.0.state.borrow();
        state.inboxes.get(&self.number).is_some_and(|inbox| inbox.upload_bytes > 0)
    }

    /// Sends a piece of the request's body when its turn comes.
    fn send(&self, piece: Bytes) {
        let state = &mut *self.session.0.state.borrow_mut();
        if let Some(inbox) = state.inboxes.get_mut(&self.number)
            && state.wire.queue(self.number, piece.len())
        {
            inbox.upload_bytes += piece.len();
            inbox.upload.push_back(piece);
            state.wake_driver();
        }
    }

    /// The request's body is over.
    fn finish(&self, trailers: Option<Fields>) {
        let state = &mut *self.session.0.state.borrow_mut();
        state.wire.finish(self.number, trailers);
        state.wake_driver();
    }

    /// Whether the origin took something of the body since this was asked last.
    pub(super) fn take_progress(&self) -> bool {
        let state = &mut *self.session.0.state.borrow_mut();
        let inbox = state.inboxes.get_mut(&self.number);
        inbox.is_some_and(|inbox| std::mem::take(&mut inbox.has_progressed))
    }

    /// The next head, interim or final.
    pub(super) fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Came, Ending>> {
        let state = &mut *self.session.0.state.borrow_mut();
        let Some(inbox) = state.inboxes.get_mut(&self.number) else { return Poll::Pending };
        if let Some(interim) = inbox.interim.pop_front() {
            return Poll::Ready(Ok(Came::Interim(interim)));
        }
        if let Some(answer) = inbox.answer.take() {
            return Poll::Ready(Ok(Came::Final(answer)));
        }
        if let Some(ending) = &inbox.ending {
            return Poll::Ready(Err(ending.clone()));
        }
        inbox.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Moves bytes of the response's body to `out`; 0 is its end.
    pub(super) fn poll_body(
        &self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<usize, Ending>> {
        let state = &mut *self.session.0.state.borrow_mut();
        let Some(inbox) = state.inboxes.get_mut(&self.number) else { return Poll::Pending };
        if !inbox.body.is_empty() {
            let (first, _) = inbox.body.as_slices();
            let count = first.len().min(out.len());
            if let (Some(to), Some(from)) = (out.get_mut(..count), first.get(..count)) {
                to.copy_from_slice(from);
            }
            inbox.body.drain(..count);
            state.wire.take_body(self.number, u32::try_from(count).unwrap_or(u32::MAX));
            if !state.wire.control().is_empty() {
                state.wake_driver();
            }
            return Poll::Ready(Ok(count));
        }
        if inbox.is_ended {
            return Poll::Ready(Ok(0));
        }
        if let Some(ending) = &inbox.ending {
            return Poll::Ready(Err(ending.clone()));
        }
        inbox.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether all of the response was read.
    pub(crate) fn is_read(&self) -> bool {
        let state = self.session.0.state.borrow();
        let inbox = state.inboxes.get(&self.number);
        inbox.is_some_and(|inbox| inbox.is_ended && inbox.body.is_empty())
    }

    /// The trailers, once all was read.
    pub(crate) fn take_trailers(&self) -> Option<Fields> {
        let state = &mut *self.session.0.state.borrow_mut();
        state.inboxes.get_mut(&self.number)?.trailers.take()
    }

    /// As [`poll_body`](Self::poll_body) for a body of which so much was read.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        out: &mut [u8],
        (received, declared): (u64, Option<u64>),
    ) -> Poll<Result<usize, OriginError>> {
        self.poll_body(cx, out).map_err(|ending| OriginError::OriginStreamBroken {
            received,
            declared,
            reason: ending.in_body().to_string(),
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.close(self.number, self.is_bodiless);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Ending {
    /// The failure of an exchange that has no head yet.
    pub(super) fn before_head(self) -> OriginError {
        match self {
            Self::Unseen(reason) => OriginError::OriginUnseen { reason },
            Self::Reset(code) => OriginError::OriginStreamReset { code },
            Self::Refused(reason) => OriginError::OriginProtocol { reason },
            Self::Wrong(reason) => OriginError::OriginAnswer { reason },
            Self::InterimFlood => {
                OriginError::OriginInterimFlood { interim_max: crate::exchange::INTERIM_MAX }
            }
            Self::Over(error) => error,
        }
    }

    /// What it is within a body.
    fn in_body(self) -> OriginError {
        self.before_head()
    }

    /// Whether any other server, or the same over another connection, may be asked.
    pub(super) fn is_unseen(&self) -> bool {
        matches!(self, Self::Unseen(_))
    }

    /// Whether the connection ended, as one does that was closed while nothing was asked.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(
            self,
            Self::Over(OriginError::OriginClosed { .. } | OriginError::OriginBroken { .. })
        )
    }

    /// Whether the origin wants HTTP/1.1 for this.
    pub(super) fn wants_http1(&self) -> bool {
        *self == Self::Reset(Code::Http11Required as u32)
    }
}
