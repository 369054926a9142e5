//! Several ranges of one stored object, one behind the other.

use bytes::Bytes;
use freshet_fetch::range::Filler;
use freshet_fetch::stored::StoredBody;
use freshet_site::pieces::{BodyBroken, Chunk, Holding};
use freshet_store::Body;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The parts of a `multipart/byteranges` body (RFC 9110 §14.6).
pub struct Parts {
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Head and range of each part to come.
    parts: VecDeque<(Bytes, Range<u64>)>,
    /// The head of the current part, until it is given out.
    head: Option<Bytes>,
    /// The current part, and the last one until the next is there: while somebody reads, the bytes stay,
    /// whatever becomes of the object.
    current: Option<StoredBody>,
    end: Option<Bytes>,
    length: u64,
    is_loose: bool,
}

impl Parts {
    /// A body of these parts, each with the bytes that go before it, and `end` behind the last.
    pub(crate) fn new(
        body: &Arc<Body>,
        parts: impl IntoIterator<Item = (Bytes, Range<u64>)>,
        end: Bytes,
        filler: Option<Filler>,
    ) -> Self {
        let parts: VecDeque<(Bytes, Range<u64>)> = parts.into_iter().collect();
        let bytes_of =
            |(head, range): &(Bytes, Range<u64>)| head.len() as u64 + range.end - range.start;
        let length = parts.iter().map(bytes_of).sum::<u64>() + end.len() as u64;
        let mut all = Self {
            body: Arc::clone(body),
            filler,
            parts,
            head: None,
            current: None,
            end: Some(end),
            length,
            is_loose: false,
        };
        all.turn_to_next();
        all
    }

    /// Length of the whole, heads of parts included.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Makes the next part the current one; false where there is none.
    fn turn_to_next(&mut self) -> bool {
        let Some((head, range)) = self.parts.pop_front() else { return false };
        let mut next = StoredBody::new(&self.body, range, self.filler.clone());
        if self.is_loose {
            next.loosen();
        }
        (self.head, self.current) = (Some(head), Some(next));
        true
    }

    pub(super) fn holding(&self) -> Option<Holding> {
        self.current.as_ref()?.holding(0)
    }

    pub(super) fn widen(&self) {
        self.body.widen();
    }

    pub(super) fn loosen(&mut self) {
        self.is_loose = true;
        if let Some(current) = &mut self.current {
            current.loosen();
        }
    }

    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        loop {
            if let Some(head) = self.head.take() {
                return Poll::Ready(Ok(Some(Chunk::Bytes(head))));
            }
            if let Some(current) = &mut self.current
                && let Some(chunk) = ready!(current.poll_next(cx, bytes_max))?
            {
                return Poll::Ready(Ok(Some(chunk)));
            }
            if !self.turn_to_next() {
                return Poll::Ready(Ok(self.end.take().map(Chunk::Bytes)));
            }
        }
    }
}
