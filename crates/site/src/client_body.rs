//! A client's request body on its way to an origin.

use bytes::Bytes;
use freshet_access::ledger::requests::Charge;
use std::future::poll_fn;
use std::task::{Context, Poll};
use thiserror::Error;

/// A body as its client sends it, whatever protocol that speaks. Dropped before its end it leaves
/// its connection as it can be used further.
pub trait Arriving {
    /// Length, where the client told it.
    fn length(&self) -> Option<u64>;

    /// Whether its client sends it without being told to, or was told.
    fn is_coming(&self) -> bool {
        true
    }

    /// From now on it is at its own pace, where its protocol can tell. Without that its client is hurried.
    fn set_pace(&mut self, _pace: Pace) {}

    /// The next bytes; `None` at the end. What is not asked for is held back at the client, as far as
    /// its protocol can. After an error it is not asked again.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientBodyError>>>;
}

/// How long the client of a call that goes both ways is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// It sends messages, however small: only silence ends it.
    Messages,
    /// It has an answer, and may have nothing more to say: that ends as the answer does.
    Answered,
}

/// The body of a request, read as the origin takes it.
pub enum RequestBody {
    /// On its way from the client.
    Arriving(Box<dyn Arriving>),
    /// Read already, as far as it was to be kept.
    Kept(Kept),
    /// It broke off when it was to be read before it was needed: who needs it is told.
    Broken(Broken),
}

/// A body that broke off before anybody asked for it.
pub struct Broken {
    error: ClientBodyError,
    length: Option<u64>,
    was_asked: bool,
}

impl Broken {
    /// What broke off, and how long it would have been where the client told it.
    pub fn new(error: ClientBodyError, length: Option<u64>) -> Self {
        Self { error, length, was_asked: false }
    }

    /// The error, but not at once: a head that was waiting for the body is sent before, as it is in front
    /// of one that breaks off later.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        if !std::mem::replace(&mut self.was_asked, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(self.error)))
    }
}

/// A body that was read before anybody took it.
pub struct Kept {
    bytes: Bytes,
    /// Whether the bytes were taken.
    taken: bool,
    /// What was too much to be kept.
    rest: Option<Box<RequestBody>>,
}

impl Kept {
    /// What of it is kept.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// All of the body; `None` where it was too large.
    pub fn whole(&self) -> Option<&Bytes> {
        Some(&self.bytes).filter(|_| self.rest.is_none())
    }
}

/// Why a request body ended early. All are the client's doing.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum ClientBodyError {
    /// The client went away.
    #[error("the client closed the connection within its request body")]
    Gone,
    /// The client kept us waiting longer than `limits.body_timeout` and `limits.body_rate_min` allow.
    #[error("the client did not send its request body in time")]
    Silent,
    /// The framing was broken.
    #[error("the request body is malformed")]
    Malformed,
    /// It was to be kept, and requests under way hold `limits.requests_bytes_max`.
    #[error("there is no room for the request body")]
    NoRoom,
    /// More than `limits.body_bytes_max`.
    #[error("the request body is larger than limits.body_bytes_max")]
    TooLarge,
}

impl RequestBody {
    /// Length, where the client told it.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Arriving(body) => body.length(),
            Self::Broken(broken) => broken.length,
            Self::Kept(Kept { bytes, rest: None, .. }) => Some(bytes.len() as u64),
            Self::Kept(Kept { bytes, rest: Some(rest), .. }) => match &**rest {
                // Lengths are of the whole, whatever was read of it.
                Self::Arriving(body) => body.length(),
                Self::Kept(_) | Self::Broken(_) => {
                    rest.length().map(|length| length + bytes.len() as u64)
                }
            },
        }
    }

    /// Whether it comes without that its client is told to send it.
    pub fn is_coming(&self) -> bool {
        match self {
            Self::Arriving(body) => body.is_coming(),
            Self::Kept(Kept { rest: Some(rest), .. }) => rest.is_coming(),
            Self::Kept(_) | Self::Broken(_) => true,
        }
    }

    /// From now on it is at this pace.
    pub fn set_pace(&mut self, pace: Pace) {
        match self {
            Self::Arriving(body) => body.set_pace(pace),
            Self::Kept(Kept { rest: Some(rest), .. }) => rest.set_pace(pace),
            Self::Kept(_) | Self::Broken(_) => {}
        }
    }

    /// Reads up to `bytes_max` bytes, so that they can be looked at and sent more than once. They are
    /// added to what the request holds.
    ///
    /// # Errors
    /// [`ClientBodyError`]: the body broke off, or there is no room for it.
    pub async fn keep(
        mut self,
        bytes_max: usize,
        charge: Option<&Charge>,
    ) -> Result<Self, ClientBodyError> {
        let mut bytes = Vec::new();
        while let Some(piece) = poll_fn(|cx| self.poll_next(cx)).await {
            let piece = piece?;
            if charge.is_some_and(|charge| !charge.grow(piece.len())) {
                return Err(ClientBodyError::NoRoom);
            }
            bytes.extend_from_slice(&piece);
            if bytes.len() > bytes_max {
                let rest = Some(Box::new(self));
                return Ok(Self::Kept(Kept { bytes: bytes.into(), taken: false, rest }));
            }
        }
        Ok(Self::Kept(Kept { bytes: bytes.into(), taken: false, rest: None }))
    }

    /// Reads a body to its end where it is known to be no longer than `bytes_max`; others stay as
    /// they are: they may be meant to go on as they come.
    ///
    /// # Errors
    /// As [`RequestBody::keep`].
    pub async fn ahead(
        self,
        bytes_max: u64,
        charge: Option<&Charge>,
    ) -> Result<Self, ClientBodyError> {
        match (&self, self.length()) {
            (Self::Arriving(_), Some(length)) if length <= bytes_max => {
                self.keep(usize::try_from(length).unwrap_or(usize::MAX), charge).await
            }
            _ => Ok(self),
        }
    }

    /// The same body once more, where all of it is kept.
    pub fn again(&self) -> Option<Self> {
        let Self::Kept(kept) = self else { return None };
        let bytes = kept.whole()?.clone();
        Some(Self::Kept(Kept { bytes, taken: false, rest: None }))
    }

    /// The next bytes; `None` at the end.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ClientBodyError>>> {
        match self {
            Self::Arriving(body) => body.poll_next(cx),
            Self::Broken(broken) => broken.poll_next(cx),
            Self::Kept(kept) if !kept.taken => {
                kept.taken = true;
                let bytes = kept.bytes.clone();
                if bytes.is_empty() { self.poll_next(cx) } else { Poll::Ready(Some(Ok(bytes))) }
            }
            Self::Kept(Kept { rest: Some(rest), .. }) => rest.poll_next(cx),
            Self::Kept(_) => Poll::Ready(None),
        }
    }
}
