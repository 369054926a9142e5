//! Where a body comes from that is kept or given: an origin, or something that is done to what it sends.

use super::fill::{Broken, borrow};
use super::stored::StoredBody;
use freshet_content::chain::{Chain, CodingError, Stage};
use freshet_http::fields::Fields;
use freshet_origin::response_body::OriginBody;
use freshet_site::pieces::Chunk;
use freshet_store::{BodyError, BodyWriter};
use freshet_telemetry::transcript::{Tag, Transcript};
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Bytes read from an origin at a time.
const READ_BYTES: usize = 16 << 10;

/// Where bytes to be kept come from.
#[allow(clippy::large_enum_variant, reason = "made once for each fetch and moved twice")]
pub(super) enum Source {
    /// Straight from the origin.
    Plain(OriginBody),
    /// From the origin through filters.
    Coded(Box<CodedBody>),
}

impl Source {
    /// No more comes of it.
    pub(super) fn note_ended(&mut self) {
        if let Self::Coded(coded) = self {
            coded.note_gzips();
        }
    }

    /// How much content is under the coding that its bytes are in, where that was counted to the end.
    pub(super) fn content_bytes(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Coded(coded) => coded.chain.content_bytes(),
        }
    }

    /// The origin's body, where it is from one.
    pub(super) fn into_origin(self) -> Option<OriginBody> {
        match self {
            Self::Plain(body) => Some(body),
            Self::Coded(coded) => match coded.from {
                From::Origin(body) => Some(body),
                From::Stored(_) => None,
            },
        }
    }

    /// How many bytes have come.
    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Plain(body) => body.received(),
            Self::Coded(coded) => match &coded.from {
                From::Origin(body) => body.received(),
                From::Stored(_) => 0,
            },
        }
    }

    /// Fields that came behind the body.
    pub(super) fn trailers(&self) -> Option<&Fields> {
        match self {
            Self::Plain(from) => from.trailers(),
            Self::Coded(coded) => match &coded.from {
                From::Origin(body) => body.trailers(),
                From::Stored(_) => None,
            },
        }
    }
}

/// A body with what is done to it.
pub(super) struct CodedBody {
    from: From,
    worker: Rc<Worker>,
    transcript: Rc<Transcript>,
    chain: Chain,
    input: Box<[u8]>,
    taken: usize,
    filled: usize,
    input_ended: bool,
    out: Vec<u8>,
    given: usize,
    ended: bool,
    /// What the log calls the stages that have to do with gzip, by their places.
    gzips: Vec<(usize, &'static str)>,
}

/// Where a body that is put into another form comes from.
#[allow(clippy::large_enum_variant, reason = "made once for each fetch and moved twice")]
pub(super) enum From {
    /// An origin.
    Origin(OriginBody),
    /// What is stored in another form.
    Stored(StoredBody),
}

impl CodedBody {
    /// What `chain` makes of a body.
    pub(super) fn new(
        worker: &Rc<Worker>,
        transcript: &Rc<Transcript>,
        from: From,
        chain: Chain,
    ) -> Self {
        Self {
            from,
            worker: Rc::clone(worker),
            transcript: Rc::clone(transcript),
            chain,
            input: vec![0; READ_BYTES].into(),
            taken: 0,
            filled: 0,
            input_ended: false,
            out: Vec::new(),
            given: 0,
            ended: false,
            gzips: Vec::new(),
        }
    }

    /// The same with what the log calls the stages that have to do with gzip, by their places.
    #[must_use]
    pub(super) fn naming(self, gzips: Vec<(usize, &'static str)>) -> Self {
        Self { gzips, ..self }
    }

    /// Has `stage` do its work in place of what looked for includes, where there are none.
    pub(super) fn replace_split(&mut self, stage: Stage) {
        self.chain.replace_split(stage);
    }

    /// Notes what the stages that have to do with gzip took and made, the last one first. Where blocks of
    /// deflate begin is not known here.
    pub(super) fn note_gzips(&mut self) {
        let counts: Vec<_> = self.chain.counts().collect();
        for (at, name) in std::mem::take(&mut self.gzips).into_iter().rev() {
            let (taken, made) = counts.get(at).copied().unwrap_or_default();
            self.transcript.note(Tag::Gzip, format_args!("{name} {taken} {made} 0 0 0"));
        }
    }

    /// Whether the body is a page that may have includes. Reads its beginning.
    pub(super) async fn is_page(&mut self) -> Result<bool, Broken> {
        loop {
            match self.chain.split_decision() {
                None => return Ok(false),
                Some(Some(decision)) => {
                    self.complain();
                    return Ok(decision);
                }
                Some(None) => self.advance(false).await?,
            }
        }
    }

    /// Moves some of it to `writer`; whether that was all. `flushes`: somebody reads along, so
    /// what the origin has sent is not held back when the origin pauses.
    pub(super) async fn some(
        &mut self,
        writer: &mut BodyWriter,
        flushes: bool,
    ) -> Result<bool, Broken> {
        let mut turn_bytes = 0;
        loop {
            while let Some(bytes) = self.out.get(self.given..).filter(|bytes| !bytes.is_empty()) {
                let room = writer.reserve(bytes.len()).await.map_err(Broken::Local)?;
                let count = room.len().min(bytes.len());
                if let (Some(room), Some(bytes)) = (room.get_mut(..count), bytes.get(..count)) {
                    room.copy_from_slice(bytes);
                }
                borrow(writer, count)?;
                writer.commit(count);
                self.given += count;
                turn_bytes += count;
            }
            if self.ended {
                return Ok(true);
            }
            self.advance(flushes).await?;
            self.complain();
            // Unpacking works long without waiting for anything.
            if turn_bytes >= READ_BYTES * 8 {
                tokio::task::yield_now().await;
                return Ok(false);
            }
        }
    }

    /// One step: something more comes out, or something more goes in.
    async fn advance(&mut self, flushes: bool) -> Result<(), Broken> {
        if self.given == self.out.len() {
            self.out.clear();
            self.given = 0;
        }
        let input = self.input.get(self.taken..self.filled).unwrap_or(&[]);
        let step =
            self.chain.step(input, self.input_ended, &mut self.out).map_err(Broken::Coding)?;
        self.taken += step.consumed;
        self.ended = step.ended;
        if step.is_busy {
            // As much as a piece, of which nothing is to be seen.
            tokio::task::yield_now().await;
            return Ok(());
        }
        if step.ended || step.consumed > 0 || self.out.len() > self.given {
            return Ok(());
        }
        if self.input_ended {
            // A chain that has it all and waits for a decision is told by it.
            return match self.chain.split_decision() {
                Some(Some(false)) => Ok(()),
                _ => Err(Broken::Coding(CodingError::Truncated)),
            };
        }
        (self.taken, self.filled) = (0, 0);
        let (from, buffer) = (&mut self.from, &mut self.input);
        let mut may_flush = flushes;
        let read = poll_fn(|cx| match from.poll_read(cx, buffer) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending if std::mem::take(&mut may_flush) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        let read = match read {
            Some(read) => read,
            None => {
                self.chain.flush(&mut self.out).map_err(Broken::Coding)?;
                if self.out.len() > self.given {
                    return Ok(());
                }
                poll_fn(|cx| self.from.poll_read(cx, &mut self.input)).await
            }
        };
        self.filled = read?;
        self.input_ended = self.filled == 0;
        if let From::Origin(_) = self.from {
            self.worker.stats.origin_body_bytes.add(self.filled as u64);
        }
        Ok(())
    }

    /// Notes what is wrong with a page.
    fn complain(&mut self) {
        let Some(splitter) = self.chain.splitter() else { return };
        if let Some(refusal) = splitter.take_refusal() {
            self.transcript.note(Tag::ESI_xmlerror, format_args!("{refusal}"));
        }
        for complaint in splitter.take_complaints() {
            let stats = &self.worker.stats;
            let word = if complaint.is_warning { "WARN" } else { "ERR" };
            if complaint.is_warning {
                stats.esi_warnings.increment();
            } else {
                stats.esi_errors.increment();
            }
            let text = format_args!("{word} after {} {}", complaint.offset, complaint.text);
            self.transcript.note(Tag::ESI_xmlerror, text);
        }
    }
}

impl From {
    /// Reads some of it; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<Result<usize, Broken>> {
        match self {
            Self::Origin(body) => body.poll_read(cx, out).map_err(Broken::Origin),
            Self::Stored(body) => {
                let chunk = ready!(body.poll_next(cx, out.len()));
                let gone = |_| Broken::Local(BodyError::Aborted);
                let Some(chunk) = chunk.map_err(gone)? else { return Poll::Ready(Ok(0)) };
                let bytes = Chunk::as_ref(&chunk);
                let count = bytes.len().min(out.len());
                if let (Some(to), Some(bytes)) = (out.get_mut(..count), bytes.get(..count)) {
                    to.copy_from_slice(bytes);
                }
                Poll::Ready(Ok(count))
            }
        }
    }
}
