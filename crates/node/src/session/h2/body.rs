//! The body of an HTTP/2 request, read as the origin takes it, so that flow control reaches back to
//! the client.

use super::shared::BodyHandle;
use crate::body::ClientBodyError;
use bytes::Bytes;
use std::task::{Context, Poll, ready};

/// Reads a stream's DATA frames.
pub struct H2Body {
    stream: BodyHandle,
    length: Option<u64>,
    bytes: u64,
    bytes_max: u64,
}

impl H2Body {
    /// The body of a stream, with its `content-length` if it has one.
    pub(super) fn new(stream: BodyHandle, length: Option<u64>, bytes_max: u64) -> Self {
        Self { stream, length, bytes: 0, bytes_max }
    }

    /// Length, where the client told it.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next bytes; `None` at the end.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        match ready!(self.stream.poll_next(cx)) {
            None => Poll::Ready(None),
            Some(Err(_)) => Poll::Ready(Some(Err(ClientBodyError::Gone))),
            Some(Ok(bytes)) => {
                self.bytes += bytes.len() as u64;
                if self.bytes > self.bytes_max {
                    return Poll::Ready(Some(Err(ClientBodyError::TooLarge)));
                }
                Poll::Ready(Some(Ok(bytes)))
            }
        }
    }
}
