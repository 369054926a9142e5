//! An answer that became an object.

use super::answered::Answered;
use super::asked::{Asked, Step};
use super::entry::{self, Place};
use super::fill::{self, Broken, Flow};
use super::range::Filler;
use super::road::Road;
use super::{Fetched, SentPart};
use freshet_cache::{Form, Object, ObjectSpec, Ticket, VARIANTS_MAX, Variation};
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, Reuse};
use freshet_http::reason::Reason;
use freshet_http::update;
use freshet_origin::response_body::OriginBody;
use freshet_site::policy::{Answer, FetchKind};
use freshet_site::shares::{Loan, loan_of};
use freshet_site::synthetic::Synthetic;
use freshet_site::upkeep::Upkeep;
use freshet_store::{Arena, Body, BodyWriter};
use freshet_worker::keepers::{Admitted, objective_of};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Times a broken fill is taken up again from where it broke.
const RESUMES_MAX: usize = 3;
/// Bytes up to which what is fetched behind what is stale takes its place when it is whole, and not when it begins.
const TAKEN_OVER_BYTES_MAX: u64 = 1 << 20;

/// An object whose body is to come, or came. Whoever waited for it was told.
pub(super) struct Kept {
    asked: Box<Asked>,
    object: Arc<Object>,
    rest: Rest,
    /// Who is asked for what is missing, where bytes of others may join.
    filler: Option<Filler>,
    /// Who else is to have it.
    admitted: Admitted,
    /// Bytes that came before.
    received: u64,
    /// Whether it leaves once it has come, unless it is asked for meanwhile.
    is_visitor: bool,
}

/// What is still to come of a body.
enum Rest {
    /// Nothing; whether it is whole.
    Came(bool),
    Coming(Box<Flow>),
}

impl Answered {
    /// Puts the answer into the cache, where others see it while its body comes.
    pub(super) async fn keep(
        self: Box<Self>,
        place: Place,
        variation: Option<Variation>,
        writer: BodyWriter,
    ) -> Step {
        let Self { mut asked, mut answer, incoming } = *self;
        let allowance = asked.plan.allowance();
        let Some(ticket) = asked.plan.ticket.take() else { return Step::Over };
        let memory = Arc::clone(writer.body());
        let sent = SentPart::of(&answer.head, &place);
        let for_one = {
            let received = asked.received(answer.head.status, &answer.head.fields);
            update::fields_for_one(&received, &asked.freshness())
        };
        let tags = asked.tags(&answer.head.fields);
        let freshness = answer.freshness.clone();
        let mut head = asked.stored_head(&answer.head, freshness, incoming.form, place.partial);
        if incoming.loan.is_some() || answer.keep.is_some() || answer.manifest.is_some() {
            memory.attach(asked.upkeep(answer.keep, incoming.loan));
        }
        let bytes_max = asked.plan.site.object_bytes_max(&asked.worker.shared.cache);
        let end = place.known_end();
        // What says its length was judged by it before.
        let flow = Flow::new(&asked.worker, incoming.source, writer, end);
        let flow = flow.kept_to(end.map_or(bytes_max, |_| u64::MAX));
        let mut flow = flow.within(allowance.filter(|_| end.is_none()));
        let hold = memory.reader(..);
        let takes_over = answer.stream
            && end.is_none_or(|end| end <= TAKEN_OVER_BYTES_MAX)
            && asked.takes_over_whole();
        let is_whole = match asked.come_ahead(&answer, takes_over, &mut flow).await {
            Ok(is_whole) => is_whole,
            Err(broken) => {
                asked.plan.ticket = Some(ticket);
                if takes_over {
                    return asked.body_given_up(broken, flow);
                }
                return asked.body_failed(broken, Some(flow)).await;
            }
        };
        if is_whole {
            let read = asked.read_manifest(&answer, incoming.form, &memory, flow.position());
            if let Some(read) = read {
                if let Some(object) = asked.place_manifest(&read, &memory).await {
                    flow.note_ended();
                    asked.note_body_ended(flow.received(), 0);
                    if asked.turns_elsewhere(answer.head.status) {
                        asked.plan.ticket = Some(ticket);
                        return Step::Again(asked);
                    }
                    return asked.stay_with(object, ticket, answer);
                }
                asked.take_manifest(&read, &mut answer, Some((&mut head, &memory)));
            }
        }
        // What a channel is read from is small and wanted where it is read.
        let is_visitor = answer.manifest.is_none() && !asked.may_stay(&ticket);
        let objective = objective_of(&asked.plan.site.settings, &asked.plan.key);
        let spec = ObjectSpec { head, body: memory, variation, tags, objective };
        let (object, admitted) = asked.take_in(ticket, spec, &answer, is_visitor);
        let filler = Filler::new(&asked.worker, &object, Road::taken(asked.question()));
        // Those who get what is all there are to know its length.
        let received = flow.received();
        if is_whole {
            flow.note_ended();
        }
        let rest = if is_whole { Rest::Came(flow.finish()) } else { Rest::Coming(Box::new(flow)) };
        let fetched = Fetched::Object {
            object: Arc::clone(&object),
            reason: asked.plan.reason,
            stored: object.is_indexed() && !is_visitor,
            origin: asked.origin.clone(),
            sent,
            for_one,
            hold: Some(hold),
        };
        asked.reply(fetched);
        Step::Kept(Box::new(Kept { asked, object, rest, filler, admitted, received, is_visitor }))
    }
}

impl Asked {
    /// Brings a body that nobody is to see before it is whole: where its policy wants it so, or where it takes
    /// the place of what is served meanwhile. Whether it is whole.
    async fn come_ahead(
        &self,
        answer: &Answer,
        takes_over: bool,
        flow: &mut Flow,
    ) -> Result<bool, Broken> {
        if answer.stream && !takes_over {
            return Ok(false);
        }
        let bytes_max = if takes_over { TAKEN_OVER_BYTES_MAX } else { u64::MAX };
        flow.ahead(self.ahead_bytes_max(answer).min(bytes_max)).await
    }

    /// Puts an object into the index, and has those take it who keep responses besides; no one of those where it is
    /// a visitor.
    fn take_in(
        &self,
        ticket: Ticket,
        spec: ObjectSpec,
        answer: &Answer,
        is_visitor: bool,
    ) -> (Arc<Object>, Admitted) {
        let ObjectSpec { head, body, variation, tags, .. } = &spec;
        let candidate = self.candidate(head, variation.as_ref(), tags, &answer.storage);
        let admitted = match is_visitor {
            true => Admitted::by_nobody(),
            false => self.worker.shared.keepers.admit(&candidate, body),
        };
        let object = self.insert(ticket, spec, &admitted);
        if let Some(keep) = answer.keep {
            self.worker.shared.expiry.watch(&object, keep);
        }
        (object, admitted)
    }

    /// Keeps a page of our own in the origin's place.
    pub(super) async fn keep_page(
        mut self: Box<Self>,
        page: Synthetic,
        freshness: Freshness,
        keep: Duration,
    ) -> Step {
        let fields = &page.head.fields;
        let variation = match entry::variation(fields, Form::default(), self.plan.selecting()) {
            Ok(variation) => variation,
            Err(reason) => return self.private_page(page, reason, Some((freshness, keep))),
        };
        let Some(ticket) = self.plan.ticket.take() else {
            return self.private_page(page, Reason::Synthetic, None);
        };
        let Some(memory) = copied(&self, &page.body).await else {
            // There is no memory to keep it in.
            return self.private_page(page, Reason::Synthetic, None);
        };
        self.note_page(page.body.len(), Some(&freshness));
        let fields = page.head.fields.clone();
        let head = self.head_with(&page.head, fields, freshness);
        memory.attach(self.upkeep(Some(keep), None));
        let hold = memory.reader(..);
        let tags = self.plan.site.name.tag_of_all().into_iter().collect();
        let objective = objective_of(&self.plan.site.settings, &self.plan.key);
        let spec = ObjectSpec { head, body: memory, variation, tags, objective };
        let object = self.insert(ticket, spec, &Admitted::by_nobody());
        self.worker.shared.expiry.watch(&object, keep);
        let fetched = Fetched::Object {
            stored: object.is_indexed(),
            object,
            reason: self.plan.reason,
            origin: self.origin.clone(),
            sent: None,
            for_one: Fields::new(),
            hold: Some(hold),
        };
        self.reply(fetched);
        Step::Over
    }

    /// Whether nobody waits for what comes, and something is served in its place until it is whole: what breaks off
    /// is to take no page away that can still be served.
    fn takes_over_whole(&self) -> bool {
        let serves = |stale: &Arc<Object>| {
            stale.is_indexed() && stale.reuse(self.task.now) == Reuse::StaleWhileRevalidate
        };
        self.plan.kind == FetchKind::Background && self.plan.stale.as_ref().is_some_and(serves)
    }

    /// The memory what is fetched is kept in.
    pub(super) fn memory(&self) -> &Arc<Arena> {
        self.worker.shared.cache.arena_of(&self.plan.key)
    }

    /// Puts an object into the index. What was asked about is over, also where the new one varies otherwise and does
    /// not take its place, or not in all that keep the old one (RFC 9111 §4.3.3).
    fn insert(&self, ticket: Ticket, spec: ObjectSpec, admitted: &Admitted) -> Arc<Object> {
        let object = ticket.insert(spec);
        if let Some(stale) = self.plan.stale.as_ref().filter(|_| object.is_indexed()) {
            if admitted.is_by_nobody() || stale.variation() != object.variation() {
                self.worker.shared.end(stale, self.born);
            } else {
                self.worker.shared.cache.forget(stale);
            }
        }
        if self.worker.shared.cache.tell_crowded() {
            let url = String::from_utf8_lossy(self.plan.key.text()).into_owned();
            tracing::warn!(
                url,
                "a URL has {VARIANTS_MAX} variants by Vary; further ones evict others"
            );
        }
        object
    }

    /// What goes with the body of an object.
    pub(super) fn upkeep(&self, keep: Option<Duration>, loan: Option<Arc<Loan>>) -> Arc<Upkeep> {
        // What is not kept has no end to be told of.
        let scribe = self.worker.shared.scribe.as_ref().filter(|_| keep.is_some());
        Arc::new(Upkeep::new(keep.unwrap_or_default(), loan, scribe, self.task.id))
    }
}

/// A body of these bytes; `None` where there is no memory for it.
async fn copied(asked: &Asked, bytes: &[u8]) -> Option<Arc<Body>> {
    let total = Some(bytes.len() as u64);
    let memory = Body::new(asked.memory(), total);
    let mut writer = memory.writer(0, total);
    writer.write(bytes).await.ok()?;
    let _ = writer.finish();
    Some(memory)
}

impl Kept {
    /// Fills the body to its end, and puts what is whole where else it is to be.
    pub(super) async fn fill(mut self: Box<Self>) {
        let is_whole = match std::mem::replace(&mut self.rest, Rest::Came(false)) {
            Rest::Came(is_whole) => is_whole,
            Rest::Coming(flow) => self.complete(*flow).await,
        };
        let Self { mut asked, object, admitted, received, is_visitor, .. } = *self;
        if is_visitor {
            asked.see_off(&object);
        }
        fill::give_back(object.body());
        if is_whole {
            if let Some(loan) = loan_of(object.body()).filter(|_| object.is_indexed()) {
                loan.offer(&object);
            }
            admitted.whole(&object);
        }
        if asked.is_connected {
            asked.note_body_ended(received, object.body().total().unwrap_or(0));
        }
    }

    /// Brings the rest. What breaks is taken up again by range where the object has a strong
    /// validator; otherwise readers are told and the object is forgotten. Whether all of it came.
    async fn complete(&mut self, mut flow: Flow) -> bool {
        let (worker, object) = (Rc::clone(&self.asked.worker), Arc::clone(&self.object));
        let mut resumes = 0;
        loop {
            let result = flow.run_kept(&mut self.admitted).await;
            self.received = flow.received();
            flow.note_ended();
            let broken = match result {
                Ok(()) => {
                    let is_whole = flow.finish();
                    if !is_whole {
                        worker.shared.cache.forget(&object);
                    }
                    return is_whole;
                }
                Err(broken) => broken,
            };
            if broken.is_failure() {
                worker.stats.fetches_failed.increment();
            }
            if let Broken::Origin(error) = &broken {
                tracing::debug!(%error, key = %object.key(), "a fill broke off");
                if resumes < RESUMES_MAX
                    && let Some(source) = self.resumed(&flow).await
                {
                    resumes += 1;
                    self.asked.note_continued(flow.position());
                    flow.go_on_from(source);
                    continue;
                }
            }
            worker.shared.cache.forget(&object);
            self.asked.note_body_broken(&broken, self.received);
            flow.fail(broken.into_body_error());
            return false;
        }
    }

    /// What a fill lacks, from whoever has it.
    async fn resumed(&self, flow: &Flow) -> Option<OriginBody> {
        let rest = flow.rest().filter(|rest| !rest.is_empty())?;
        self.filler.as_ref()?.ask(&rest).await
    }
}
