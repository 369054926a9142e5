//! An origin's body on its way through filters.

use super::asked::Asked;
use super::coded_body::{CodedBody, From, Source};
use super::fill::Broken;
use super::records;
use freshet_cache::{ForCoding, Form};
use freshet_content::chain::{Chain, Filter, Stage};
use freshet_content::esi::split::Splitter;
use freshet_content::heads;
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_origin::response_body::OriginBody;
use freshet_site::policy::Answer;
use freshet_site::shares::{Loan, TRANSIENT};
use freshet_wire::h1::Framing;
use std::sync::Arc;

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
        let page = answer.filters.iter().find(|filter| filter.makes_page());
        if let Some(page) = page.filter(|_| answer.is_part_of_page && has_body) {
            let fields = &answer.head.fields;
            records::processed(&self.task.transcript, &answer.filters, (fields, fields));
            return Err(Broken::Part(*page));
        }
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
        let coded = CodedBody::new(worker, transcript, from, Chain::new(stages));
        let mut coded = coded.naming(gzips(&filters));
        let mut length = length.filter(|_| matches!(&*filters, [Filter::Check(_)]));
        if form.parts && !coded.is_page().await? {
            let stage = if form.gzip { self.packer() } else { Stage::Copy };
            coded.replace_split(stage);
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
