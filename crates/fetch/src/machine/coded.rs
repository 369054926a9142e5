//! An origin's body on its way through filters.

use super::asked::Asked;
use super::fill::{Broken, borrow};
use super::records;
use super::stored::StoredBody;
use freshet_cache::{ForCoding, Form};
use freshet_content::chain::{Chain, CodingError, Filter, Stage};
use freshet_content::esi::split::Splitter;
use freshet_content::heads;
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_origin::response_body::OriginBody;
use freshet_site::pieces::Chunk;
use freshet_site::policy::Answer;
use freshet_site::shares::{Loan, TRANSIENT};
use freshet_store::{BodyError, BodyWriter};
use freshet_telemetry::transcript::{Tag, Transcript};
use freshet_wire::h1::Framing;
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

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
        let for_coding = if answer.any_coding { ForCoding::Any } else { ForCoding::AsVaries };
        let mut form = Form { for_coding, ..Form::default() };
        let has_body = !matches!(framing, Framing::None | Framing::Length(0));
        let is_kept = answer.uncacheable.is_none() && self.plan.ticket.is_some();
        let is_on = self.task.transcript.is_on();
        let before = if is_on { answer.head.fields.clone() } else { Fields::new() };
        // A policy has looked at what it calls a part.
        let is_part = answer.head.status == 206 && !self.plan.site.semantics.refuses_bogus_answers;
        let filters = if answer.filters.is_empty() || !has_body || is_part {
            Vec::new()
        } else {
            heads::apply(&answer.filters, &mut answer.head.fields, &mut form)
        };
        self.select_by_coding(&mut answer.head.fields, &mut form);
        if filters.iter().any(|filter| !matches!(filter, Filter::Check(_) | Filter::Esi)) {
            answer.head.fields.remove("content-length");
        }
        let changes = (&before, &answer.head.fields);
        records::processed(&self.task.transcript, &filters, changes);
        if filters.contains(&Filter::Esi) {
            // What becomes of a page is known when it is sent, and told there.
            answer.head.fields.remove("content-length");
        }
        let loan = self.lend(answer)?;
        let storage = match &loan {
            Some(loan) => (loan.share().kind(), &**loan.share().name()),
            None => ("malloc", if is_kept { "s0" } else { TRANSIENT }),
        };
        records::body_begins(&self.task.transcript, framing, storage, answer.stream);
        if filters.is_empty() {
            return Ok(Incoming { source: Source::Plain(body), framing, length, form, loan });
        }
        let stages = filters.iter().map(|filter| self.stage(*filter, answer.stream));
        let (worker, transcript) = (&self.worker, &self.task.transcript);
        let from = From::Origin(body);
        let mut coded = CodedBody::new(worker, transcript, from, Chain::new(stages));
        coded.gzips = gzips(&filters);
        let mut length = length.filter(|_| matches!(&*filters, [Filter::Check(_)]));
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
        answer.freshness = Freshness::from_policy(now, answer.freshness.lifetime().min(short));
        Ok(Some(loan))
    }

    /// Which clients a body in this form is for, by the codings they take.
    fn select_by_coding(&self, fields: &mut Fields, form: &mut Form) {
        let is_for_any = form.for_coding == ForCoding::Any;
        if form.parts || !is_for_any || !fields.contains("content-encoding") {
            return;
        }
        form.for_coding = if self.plan.site.codings.is_empty() {
            // Only gzip can be taken off for those who do not take it.
            if form.gzip { ForCoding::Any } else { ForCoding::AsVaries }
        } else if Coding::of(fields).is_some() {
            heads::vary_by_encoding(fields);
            ForCoding::First
        } else {
            ForCoding::AsVaries
        };
    }

    fn packer(&self) -> Stage {
        Stage::gzip(self.plan.site.gzip_level)
    }

    fn stage(&self, filter: Filter, is_waited_for: bool) -> Stage {
        let stats = &self.worker.stats;
        let splitter = |is_packed: bool| {
            let (settings, page) = (&self.plan.site.settings.esi, &self.task.request.target);
            let level = is_packed.then_some(self.plan.site.gzip_level);
            let splitter = Splitter::new(settings, page, level);
            // What is seen when all of it is there may as well be kept as it came.
            Stage::Split(Box::new(match is_waited_for {
                true => splitter,
                false => splitter.looking_through(page),
            }))
        };
        match filter {
            Filter::Unpack(coding) => {
                stats.unpacks(coding).increment();
                Stage::unpack(coding)
            }
            Filter::Check(coding) => {
                if coding == Coding::Gzip {
                    stats.gzip_checks.increment();
                }
                Stage::check(coding)
            }
            Filter::Pack(coding) => {
                stats.packs(coding).increment();
                if coding == Coding::Gzip { self.packer() } else { Stage::pack(coding) }
            }
            Filter::Esi => splitter(false),
            Filter::EsiGzip => {
                stats.gzips.increment();
                splitter(true)
            }
        }
    }
}

/// What the log calls filters that have to do with gzip.
fn gzips(filters: &[Filter]) -> Vec<(usize, &'static str)> {
    let named = |(at, filter): (usize, &Filter)| match filter {
        Filter::Unpack(Coding::Gzip) => Some((at, "U F -")),
        Filter::Check(Coding::Gzip) => Some((at, "u F -")),
        Filter::Pack(Coding::Gzip) => Some((at, "G F -")),
        Filter::EsiGzip => Some((at, "G F E")),
        _ => None,
    };
    filters.iter().enumerate().filter_map(named).collect()
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
