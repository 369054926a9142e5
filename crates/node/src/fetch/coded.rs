//! An origin's body on its way through filters.

use super::asked::Asked;
use super::fill::{Broken, borrow};
use super::records;
use crate::coding::gzip::Gzip;
use crate::coding::{Chain, CodingError, Filter, Stage, heads};
use crate::esi::split::Splitter;
use crate::policy::Answer;
use crate::shares::{Loan, TRANSIENT};
use crate::transcript::{Tag, Transcript};
use crate::worker::Worker;
use freshet_cache::Form;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_origin::response_body::OriginBody;
use freshet_store::BodyWriter;
use freshet_wire::h1::Framing;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Bytes read from an origin at a time.
const READ_BYTES: usize = 16 << 10;

/// What is kept of an answer's body.
pub(super) struct Incoming {
    pub(super) source: Source,
    pub(super) framing: Framing,
    /// Length of what is kept, where it is known.
    pub(super) length: Option<u64>,
    pub(super) form: Form,
    /// What a share of the memory lends for it.
    pub(super) loan: Option<Arc<Loan>>,
}

/// Where bytes to be kept come from.
#[allow(clippy::large_enum_variant, reason = "made once for each fetch and moved twice")]
pub(super) enum Source {
    /// Straight from the origin.
    Plain(OriginBody),
    /// From the origin through filters.
    Coded(Box<CodedBody>),
}

impl Source {
    /// Fields that came behind the body.
    pub(super) fn trailers(&self) -> Option<&Fields> {
        match self {
            Self::Plain(from) => from.trailers(),
            Self::Coded(coded) => coded.from.trailers(),
        }
    }
}

/// An origin's body with what is done to it.
pub(super) struct CodedBody {
    from: OriginBody,
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
}

impl Asked {
    /// Sets up what the policy wants done to the answer's body, and brings the head in line.
    ///
    /// # Errors
    /// [`Broken`] where the body turns out to be broken before anything of it can be kept.
    pub(super) async fn incoming(
        &self,
        answer: &mut Answer,
        framing: Framing,
        body: OriginBody,
    ) -> Result<Incoming, Broken> {
        let length = match framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let mut form = Form { any_coding: answer.any_coding, ..Form::default() };
        let has_body = !matches!(framing, Framing::None | Framing::Length(0));
        let is_kept = answer.uncacheable.is_none() && self.plan.ticket.is_some();
        let is_on = self.task.transcript.is_on();
        let before = if is_on { answer.head.fields.clone() } else { Fields::new() };
        let filters = if answer.filters.is_empty() || !has_body || answer.head.status == 206 {
            Vec::new()
        } else {
            heads::apply(&answer.filters, &mut answer.head.fields, &mut form)
        };
        if filters.iter().any(|filter| *filter != Filter::CheckGzip) {
            answer.head.fields.remove("content-length");
        }
        let changes = (&before, &answer.head.fields);
        records::processed(&self.task.transcript, &filters, changes);
        let loan = self.lend(answer)?;
        let storage = match &loan {
            Some(loan) => (loan.share().kind(), &**loan.share().name()),
            None => ("malloc", if is_kept { "s0" } else { TRANSIENT }),
        };
        records::body_begins(&self.task.transcript, framing, storage);
        if filters.is_empty() {
            return Ok(Incoming { source: Source::Plain(body), framing, length, form, loan });
        }
        let stages = filters.iter().map(|filter| self.stage(*filter));
        let mut coded = CodedBody {
            from: body,
            worker: Rc::clone(&self.worker),
            transcript: Rc::clone(&self.task.transcript),
            chain: Chain::new(stages),
            input: vec![0; READ_BYTES].into(),
            taken: 0,
            filled: 0,
            input_ended: false,
            out: Vec::new(),
            given: 0,
            ended: false,
        };
        let mut length = length.filter(|_| filters == [Filter::CheckGzip]);
        if form.parts && !coded.is_page().await? {
            let stage = if form.gzip { self.packer() } else { Stage::Copy };
            coded.chain.replace_split(stage);
            form.parts = false;
            if let (Framing::Length(whole), [Filter::Esi]) = (framing, &*filters) {
                length = Some(whole);
            }
        }
        Ok(Incoming { source: Source::Coded(Box::new(coded)), framing, length, form, loan })
    }

    /// What a share of the memory lends for the answer's head. What its own share has no room for
    /// may live for a moment in the transient one.
    fn lend(&self, answer: &mut Answer) -> Result<Option<Arc<Loan>>, Broken> {
        let Some((shares, share)) = self.plan.site.shares.as_ref().zip(answer.share.as_ref())
        else {
            return Ok(None);
        };
        let cache = &self.worker.shared.cache;
        let bytes = records::stored_head_bytes(&answer.head);
        if let Some(loan) = shares.lend(share, bytes, cache) {
            return Ok(Some(loan));
        }
        let transient = shares.transient();
        if Arc::ptr_eq(share, transient) {
            return Err(Broken::Full);
        }
        let loan = shares.lend(transient, bytes, cache).ok_or(Broken::Full)?;
        let (now, short) = (self.task.now, shares.shortlived());
        answer.freshness = Freshness::from_policy(now, answer.freshness.lifetime.min(short));
        Ok(Some(loan))
    }

    fn packer(&self) -> Stage {
        Stage::Gzip(Box::new(Gzip::new(self.plan.site.gzip_level)))
    }

    fn stage(&self, filter: Filter) -> Stage {
        let stats = &self.worker.stats;
        let splitter = |is_packed: bool| {
            let settings = &self.plan.site.settings.esi;
            let level = is_packed.then_some(self.plan.site.gzip_level);
            Stage::Split(Box::new(Splitter::new(settings, &self.task.request.target, level)))
        };
        match filter {
            Filter::Gunzip => {
                stats.gunzips.increment();
                Stage::Gunzip(Box::default())
            }
            Filter::CheckGzip => {
                stats.gzip_checks.increment();
                Stage::Check(Box::default())
            }
            Filter::Gzip => {
                stats.gzips.increment();
                self.packer()
            }
            Filter::Esi => splitter(false),
            Filter::EsiGzip => {
                stats.gzips.increment();
                splitter(true)
            }
        }
    }
}

impl CodedBody {
    /// Whether the body is a page that may have includes. Reads its beginning.
    async fn is_page(&mut self) -> Result<bool, Broken> {
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
                self.from.read(&mut self.input).await
            }
        };
        self.filled = read.map_err(Broken::Origin)?;
        self.input_ended = self.filled == 0;
        self.worker.stats.origin_body_bytes.add(self.filled as u64);
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
