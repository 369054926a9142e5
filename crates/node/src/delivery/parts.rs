//! Several ranges of one stored object, one behind the other.

use super::{BodyBroken, Chunk, Holding, StoredBody};
use crate::fetch::range::Filler;
use bytes::Bytes;
use freshet_store::Body;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The parts of a `multipart/byteranges` body (RFC 9110 §14.6).
pub struct Parts {
    body: Arc<Body>,
    filler: Option<Filler>,
    /// Head and range of each part to come.
    parts: VecDeque<(Bytes, Range<u64>)>,
    current: Option<StoredBody>,
    end: Option<Bytes>,
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
        let parts = parts.into_iter().collect();
        let (body, end) = (Arc::clone(body), Some(end));
        Self { body, filler, parts, current: None, end, is_loose: false }
    }

    /// Length of the whole, heads of parts included.
    pub fn length(&self) -> u64 {
        let parts: u64 = self
            .parts
            .iter()
            .map(|(head, range)| head.len() as u64 + (range.end - range.start))
            .sum();
        parts + self.end.as_ref().map_or(0, |end| end.len() as u64)
    }

    pub(super) fn holding(&self) -> Option<Holding> {
        self.current.as_ref()?.holding()
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
        if let Some(current) = &mut self.current {
            match current.poll_next(cx, bytes_max) {
                Poll::Ready(Ok(None)) => self.current = None,
                other => return other,
            }
        }
        match self.parts.pop_front() {
            Some((head, range)) => {
                let mut current = StoredBody::new(&self.body, range, self.filler.clone());
                if self.is_loose {
                    current.loosen();
                }
                self.current = Some(current);
                Poll::Ready(Ok(Some(Chunk::Bytes(head))))
            }
            None => Poll::Ready(Ok(self.end.take().map(Chunk::Bytes))),
        }
    }
}
