//! Where a response's body comes from while it is sent. Every protocol pulls the same pieces.

pub(crate) mod coded;
pub(crate) mod paced;
mod parts;

use crate::assembly::Assembly;
use bytes::Bytes;
use coded::Coded;
use freshet_access::ledger::readers::Held;
use freshet_config::bandwidth::Pace;
use freshet_fetch::stored::StoredBody;
use freshet_http::fields::Fields;
use freshet_site::pieces::{BodyBroken, Chunk, Holding, LOOSE_BYTES_MAX, Without};
use freshet_store::{Lease, WeakLease};
use paced::Paced;
pub use parts::Parts;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// The source of a response's body.
pub enum ResponseBody {
    /// Nothing.
    Empty,
    /// Bytes that are all here.
    Inline(Bytes),
    /// Bytes that lie together in memory.
    Held(HeldBytes),
    /// A stored object, or one that is being filled.
    Stored(StoredBody),
    /// Several ranges of a stored object.
    Parts(Box<Parts>),
    /// Another body, with its coding changed on the way.
    Coded(Box<Coded>),
    /// A page that is put together on the way.
    Esi(Box<Assembly>),
    /// Another body, no faster than a rule allows.
    Paced(Box<Paced>),
}

/// Bytes that lie together in memory, and how many of them were given out.
pub struct HeldBytes {
    grip: Grip,
    given: usize,
}

enum Grip {
    Firm(Lease),
    /// They may be dropped before they were given out.
    Loose(WeakLease),
}

impl ResponseBody {
    /// The next piece, at most `bytes_max` long; `None` at the end.
    ///
    /// # Errors
    /// [`BodyBroken`] when the rest cannot be had.
    pub async fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>, BodyBroken> {
        poll_fn(|cx| self.poll_next(cx, bytes_max)).await
    }

    /// The next piece if it is there now.
    #[inline]
    pub fn try_next(&mut self, bytes_max: usize) -> Option<Result<Option<Chunk>, BodyBroken>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop()), bytes_max) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        }
    }

    /// As [`ResponseBody::next`], as a poll.
    ///
    /// # Errors
    /// As [`ResponseBody::next`].
    #[inline]
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        match self {
            Self::Empty => Poll::Ready(Ok(None)),
            Self::Inline(bytes) => {
                let piece = bytes.split_to(bytes.len().min(bytes_max));
                Poll::Ready(Ok(Some(piece).filter(|piece| !piece.is_empty()).map(Chunk::Bytes)))
            }
            Self::Held(held) => Poll::Ready(held.next(bytes_max)),
            Self::Stored(stored) => stored.poll_next(cx, bytes_max),
            Self::Parts(parts) => parts.poll_next(cx, bytes_max),
            Self::Coded(coded) => coded.poll_next(cx, bytes_max),
            Self::Esi(assembly) => assembly.poll_next(cx, bytes_max),
            Self::Paced(paced) => paced.poll_next(cx, bytes_max),
        }
    }

    /// What it keeps in memory beside the pieces it gave out, if anything. The last `unsent_bytes` of these
    /// are taken back where it may keep nothing; 0 where it [cannot](ResponseBody::can_rewind).
    #[inline]
    pub fn holding(&self, unsent_bytes: u64) -> Option<Holding> {
        match self {
            Self::Empty | Self::Inline(_) => None,
            Self::Held(held) => held.holding(),
            Self::Stored(stored) => stored.holding(unsent_bytes),
            Self::Parts(parts) => parts.holding(),
            Self::Coded(coded) => coded.holding(),
            Self::Esi(assembly) => assembly.holding(),
            Self::Paced(paced) => paced.inner().holding(unsent_bytes),
        }
    }

    /// Keeps nothing in memory from now on, but for a body in transit: gives out small copies, and
    /// what is dropped meanwhile is fetched again or breaks the body off.
    pub fn loosen(&mut self) {
        match self {
            Self::Empty | Self::Inline(_) => {}
            Self::Held(held) => held.loosen(),
            Self::Stored(stored) => stored.loosen(),
            Self::Parts(parts) => parts.loosen(),
            Self::Coded(coded) => coded.loosen(),
            Self::Esi(assembly) => assembly.loosen(),
            Self::Paced(paced) => paced.inner_mut().loosen(),
        }
    }

    /// What it is to hold before it begins, where all of it but no part can be had again: it could not go on
    /// from its middle. Nothing once it has begun.
    pub fn wants_hold(&self) -> Option<Held> {
        match self {
            Self::Stored(stored) => stored.wants_hold(),
            Self::Paced(paced) => paced.inner().wants_hold(),
            _ => None,
        }
    }

    /// Keeps again what it gives out, once it holds what it [wanted](ResponseBody::wants_hold).
    pub fn tighten(&mut self) {
        match self {
            Self::Stored(stored) => stored.tighten(),
            Self::Paced(paced) => paced.inner_mut().tighten(),
            _ => {}
        }
    }

    /// Allows a body in transit more room ahead of its reader.
    pub fn widen(&self) {
        match self {
            Self::Stored(stored) => stored.body().widen(),
            Self::Parts(parts) => parts.widen(),
            Self::Coded(coded) => coded.widen(),
            Self::Paced(paced) => paced.inner().widen(),
            _ => {}
        }
    }

    /// Whether [`ResponseBody::rewind`] may be called.
    #[inline]
    pub fn can_rewind(&self) -> bool {
        match self {
            Self::Held(_) => true,
            Self::Stored(stored) => !stored.body().is_transit(),
            Self::Paced(paced) => paced.inner().can_rewind(),
            _ => false,
        }
    }

    /// Takes back the last `bytes` that were given out, which are given out again.
    pub fn rewind(&mut self, bytes: usize) {
        match self {
            Self::Held(held) => held.given -= bytes,
            Self::Stored(stored) => stored.rewind(bytes),
            Self::Paced(paced) => paced.rewind(bytes),
            _ => debug_assert_eq!(bytes, 0, "a body that is not read twice"),
        }
    }

    /// The same body, no faster than a rule allows.
    pub(crate) fn paced(self, pace: Pace) -> Self {
        match self {
            Self::Empty => Self::Empty,
            body => Self::Paced(Box::new(Paced::new(body, pace))),
        }
    }

    /// Trailer fields, once the body has ended.
    pub fn trailers(&self) -> Option<Fields> {
        match self {
            Self::Stored(stored) => stored.body().trailers().cloned(),
            Self::Paced(paced) => paced.inner().trailers(),
            _ => None,
        }
    }
}

impl HeldBytes {
    /// All of `lease`.
    pub fn new(lease: Lease) -> Self {
        Self { grip: Grip::Firm(lease), given: 0 }
    }

    fn next(&mut self, bytes_max: usize) -> Result<Option<Chunk>, BodyBroken> {
        let from = self.given;
        let (chunk, until) = match &self.grip {
            Grip::Firm(lease) if from == 0 && lease.len() <= bytes_max => {
                (Chunk::Lease(lease.clone()), lease.len())
            }
            Grip::Firm(lease) => {
                let until = lease.len().min(from.saturating_add(bytes_max));
                (Chunk::Lease(lease.slice(from..until)), until)
            }
            Grip::Loose(lease) => {
                let until = lease.len().min(from.saturating_add(bytes_max.min(LOOSE_BYTES_MAX)));
                if until == from {
                    return Ok(None);
                }
                let lease = lease.upgrade().ok_or(BodyBroken)?;
                (Chunk::Bytes(Bytes::copy_from_slice(&lease[from..until])), until)
            }
        };
        self.given = until;
        Ok(Some(chunk).filter(|_| until > from))
    }

    #[inline]
    fn holding(&self) -> Option<Holding> {
        let Grip::Firm(lease) = &self.grip else { return None };
        let held = Held { id: lease.piece_id(), bytes: lease.taken_bytes() };
        Some(Holding { held, without: Without::MayBreak })
    }

    fn loosen(&mut self) {
        if let Grip::Firm(lease) = &self.grip {
            self.grip = Grip::Loose(lease.downgrade());
        }
    }
}
