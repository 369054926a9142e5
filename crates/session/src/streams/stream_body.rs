//! The body of a stream's request, read as the origin takes it, so that flow control reaches back to
//! the client.

use super::{BodyHandle, Multiplexed};
use crate::patience::{Patience, Terms};
use bytes::Bytes;
use freshet_site::client_body::{Arriving, ClientBodyError, Pace};
use std::task::{Context, Poll, ready};

/// Reads a stream's DATA frames.
pub(super) struct StreamBody<C: Multiplexed> {
    stream: BodyHandle<C>,
    length: Option<u64>,
    bytes: u64,
    bytes_max: u64,
    patience: Patience,
    /// Whether its client need not send any more of it soon.
    is_answered: bool,
}

impl<C: Multiplexed> StreamBody<C> {
    /// The body of a stream, with its `content-length` if it has one, to be sent within `terms`.
    pub(super) fn new(
        stream: BodyHandle<C>,
        length: Option<u64>,
        bytes_max: u64,
        terms: Terms,
    ) -> Self {
        let patience = Patience::new(terms);
        Self { stream, length, bytes: 0, bytes_max, patience, is_answered: false }
    }
}

impl<C: Multiplexed> Arriving for StreamBody<C> {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn set_pace(&mut self, pace: Pace) {
        match pace {
            Pace::Messages => self.patience.be_paid_by_any_byte(),
            Pace::Answered => self.is_answered = true,
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        let next = match self.stream.poll_next(cx) {
            Poll::Ready(next) => next,
            Poll::Pending if self.is_answered => return Poll::Pending,
            Poll::Pending => {
                ready!(self.patience.poll_over(cx));
                return Poll::Ready(Some(Err(ClientBodyError::Silent)));
            }
        };
        match next {
            None => Poll::Ready(None),
            Some(Err(_)) => Poll::Ready(Some(Err(ClientBodyError::Gone))),
            Some(Ok(bytes)) => {
                self.bytes += bytes.len() as u64;
                self.patience.came(bytes.len());
                if self.bytes > self.bytes_max {
                    return Poll::Ready(Some(Err(ClientBodyError::TooLarge)));
                }
                Poll::Ready(Some(Ok(bytes)))
            }
        }
    }
}
