//! A response's body that goes through a chain on its way to the client.

use super::ResponseBody;
use bytes::Bytes;
use freshet_content::chain::{Chain, CodingError};
use freshet_site::pieces::{BodyBroken, Chunk, Holding};
use freshet_telemetry::transcript::{Tag, Transcript};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A body with what is done to it.
pub struct Coded {
    inner: ResponseBody,
    chain: Chain,
    piece: Option<Chunk>,
    at: usize,
    inner_ended: bool,
    /// What came out and was not given on yet.
    out: Bytes,
    /// Bytes of the outcome that are left out first.
    skip: u64,
    /// Bytes of the outcome that are wanted after that.
    left: u64,
    ended: bool,
    /// Who is told why it breaks off.
    told: Option<Rc<Transcript>>,
}

impl Coded {
    /// Bytes `range` of what `chain` makes of `inner`; everything with a range of `0..u64::MAX`.
    pub(crate) fn new(inner: ResponseBody, chain: Chain, range: Range<u64>) -> Self {
        Self {
            inner,
            chain,
            piece: None,
            at: 0,
            inner_ended: false,
            out: Bytes::new(),
            skip: range.start,
            left: range.end.saturating_sub(range.start),
            ended: false,
            told: None,
        }
    }

    /// The same, which tells why it breaks off, where the chain is the cause.
    pub(crate) fn telling(mut self, transcript: &Rc<Transcript>) -> Self {
        self.told = Some(Rc::clone(transcript));
        self
    }

    /// Tells what is wrong with what the chain was given, as Varnish does.
    fn tell(&self, error: CodingError) {
        let Some(transcript) = &self.told else { return };
        match error {
            CodingError::Junk => {
                let text = format_args!("G(un)zip error: 1 (junk after VGZ_END)");
                transcript.note(Tag::Gzip, text);
            }
            // The number is zlib's for data that make no sense.
            other => transcript.note(Tag::Gzip, format_args!("G(un)zip error: -3 ({other})")),
        }
    }

    pub(crate) fn holding(&self) -> Option<Holding> {
        self.inner.holding(0)
    }

    /// Keeps no more of the inner body in memory than a copy.
    pub(crate) fn loosen(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.piece = Some(piece.copied(self.at));
            self.at = 0;
        }
        self.inner.loosen();
    }

    pub(crate) fn widen(&self) {
        self.inner.widen();
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        loop {
            if !self.out.is_empty() {
                let most = bytes_max.min(usize::try_from(self.left).unwrap_or(usize::MAX));
                let piece = self.out.split_to(self.out.len().min(most));
                self.left -= piece.len() as u64;
                if self.left == 0 {
                    self.out.clear();
                }
                return Poll::Ready(Ok(Some(Chunk::Bytes(piece))));
            }
            if self.ended || self.left == 0 {
                return Poll::Ready(Ok(None));
            }
            let mut out = Vec::new();
            let input = self.piece.as_ref().map_or(&[][..], AsRef::as_ref);
            let input = input.get(self.at..).unwrap_or(&[]);
            let step = match self.chain.step(input, self.inner_ended, &mut out) {
                Ok(step) => step,
                Err(error) => {
                    self.tell(error);
                    return Poll::Ready(Err(BodyBroken));
                }
            };
            self.at += step.consumed;
            self.ended = step.ended;
            if step.consumed == input.len() {
                (self.piece, self.at) = (None, 0);
            }
            let is_idle = step.consumed == 0 && out.is_empty() && !step.is_busy;
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(out.len());
            self.skip -= skipped as u64;
            self.out = Bytes::from(out).split_off(skipped);
            if self.out.is_empty() && !self.ended && self.piece.is_none() && !self.inner_ended {
                match ready!(self.inner.poll_next(cx, bytes_max))? {
                    Some(piece) => self.piece = Some(piece),
                    None => self.inner_ended = true,
                }
            } else if is_idle && !self.ended && self.inner_ended {
                // A chain that has all and says nothing would never say anything.
                return Poll::Ready(Err(BodyBroken));
            }
        }
    }
}
