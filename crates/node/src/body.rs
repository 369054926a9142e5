//! A client's request body on its way to an origin.

use crate::session::h1_body::H1Body;
use crate::session::h2_body::H2Body;
use bytes::Bytes;
use std::task::{Context, Poll};
use thiserror::Error;

/// The body of a request, read as the origin takes it.
pub enum RequestBody {
    /// From an HTTP/1 connection.
    H1(H1Body),
    /// From an HTTP/2 stream.
    H2(H2Body),
}

/// Why a request body ended early. All are the client's doing.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ClientBodyError {
    /// The client went away.
    #[error("the client closed the connection within its request body")]
    Gone,
    /// The framing was broken.
    #[error("the request body is malformed")]
    Malformed,
    /// More than `limits.body_bytes_max`.
    #[error("the request body is larger than limits.body_bytes_max")]
    TooLarge,
}

impl RequestBody {
    /// Length, where the client told it.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::H1(body) => body.length(),
            Self::H2(body) => body.length(),
        }
    }

    /// The next bytes; `None` at the end.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        match self {
            Self::H1(body) => body.poll_next(cx),
            Self::H2(body) => body.poll_next(cx),
        }
    }
}
