//! An answer that its policy takes: whether it is kept.

use super::asked::{Asked, Step};
use super::entry::{self, Place};
use super::fill::{Broken, Flow};
use super::incoming::Incoming;
use freshet_cache::{Form, Variation};
use freshet_http::freshness::Reuse;
use freshet_http::reason::Reason;
use freshet_origin::response_body::OriginBody;
use freshet_site::policy::Answer;
use freshet_store::Body;
use freshet_wire::h1::Framing;
use freshet_worker::keepers::Passing;
use std::time::Duration;

/// Room asked for before it is said that a body of unknown length is kept: its first read.
const FIRST_BYTES: usize = 16 << 10;
/// How long requests for what memory had no room for do not wait for one another: about as long as it
/// takes until fills that are under way have ended.
const NO_ROOM_SPAN: Duration = Duration::from_secs(1);

/// An answer, with what is done to its body on the way.
pub(super) struct Answered {
    pub(super) asked: Box<Asked>,
    pub(super) answer: Answer,
    pub(super) incoming: Incoming,
}

/// What becomes of an answer.
enum Verdict {
    /// It is kept, under a rule of `Vary` where it has one.
    Keep(Place, Option<Variation>),
    /// One client gets it, as there is no room for it in memory, and who else keeps it.
    LetThrough(Reason, Place),
    /// One client gets it.
    Give(Reason),
}

impl Answered {
    /// The answer, with the filters its policy wants.
    ///
    /// # Errors
    /// The fetch, and what turned out to be wrong with the body before anything of it can be kept.
    pub(super) async fn new(
        asked: Box<Asked>,
        mut answer: Answer,
        framing: Framing,
        body: OriginBody,
    ) -> Result<Box<Self>, (Box<Asked>, Broken)> {
        match asked.incoming(&mut answer, framing, body).await {
            Ok(incoming) => Ok(Box::new(Self { asked, answer, incoming })),
            Err(broken) => Err((asked, broken)),
        }
    }

    /// Keeps it or gives it to one client.
    pub(super) async fn settle(mut self: Box<Self>) -> Step {
        match self.verdict() {
            Verdict::Give(reason) => self.give(reason, None).await,
            Verdict::LetThrough(reason, place) => self.let_through(reason, &place).await,
            Verdict::Keep(place, variation) => {
                let memory = Body::new(self.asked.memory(), place.total);
                let mut writer = memory.writer(place.start, place.known_end());
                if place.end > place.start && !writer.has_room(FIRST_BYTES) {
                    drop((writer, memory));
                    self.answer.hit_for_miss = Some(NO_ROOM_SPAN);
                    return self.let_through(Reason::NoRoom, &place).await;
                }
                self.keep(place, variation, writer).await
            }
        }
    }

    fn verdict(&self) -> Verdict {
        let (asked, answer) = (&self.asked, &self.answer);
        match answer.uncacheable {
            None if asked.would_spoil(answer) => return Verdict::Give(Reason::StaleOnArrival),
            None if asked.plan.ticket.is_some() => {}
            reason => return Verdict::Give(reason.unwrap_or(asked.plan.reason)),
        }
        let place = match Place::of(&answer.head, self.incoming.length) {
            Ok(place) => place,
            Err(reason) => return Verdict::Give(reason),
        };
        let bytes_max = asked.plan.site.object_bytes_max(&asked.worker.shared.cache);
        if place.total.is_some_and(|total| total > bytes_max) {
            return Verdict::LetThrough(Reason::TooLarge, place);
        }
        let selecting = asked.plan.selecting();
        match entry::variation(&answer.head.fields, self.incoming.form, selecting) {
            Ok(variation) => Verdict::Keep(place, variation),
            Err(reason) => Verdict::Give(reason),
        }
    }

    /// Gives an answer that memory has no room for to its client, and to who else keeps it.
    async fn let_through(self: Box<Self>, reason: Reason, place: &Place) -> Step {
        let tee = self.tee(place);
        self.give(reason, tee).await
    }

    /// Who gets a copy of a response while it passes, where somebody keeps it.
    fn tee(&self, place: &Place) -> Option<Box<dyn Passing>> {
        let (asked, answer, form) = (&self.asked, &self.answer, self.incoming.form);
        if place.partial || form != Form::default() {
            return None;
        }
        let head = asked.stored_head(&answer.head, answer.freshness.clone(), form, false);
        let selecting = asked.plan.selecting();
        let variation = entry::variation(&answer.head.fields, form, selecting).ok()?;
        let tags = asked.tags(&answer.head.fields);
        let candidate = asked.candidate(&head, variation.as_ref(), &tags, &answer.storage);
        asked.worker.shared.keepers.let_through(&candidate, place.total)
    }
}

impl Asked {
    /// A body broke off before anybody has seen anything of the answer.
    pub(super) async fn body_failed(
        mut self: Box<Self>,
        broken: Broken,
        flow: Option<Flow>,
    ) -> Step {
        self.worker.stats.fetches_failed.increment();
        let received = flow.as_ref().map_or(0, Flow::received);
        self.note_body_broken(&broken, received);
        let failure = broken.failure();
        if let Some(flow) = flow {
            flow.fail(broken.into_body_error());
        }
        self.no_answer(failure).await
    }

    /// A body broke off that nobody waited for, and whose answer was told to nobody: what it was to take over
    /// from stays.
    pub(super) fn body_given_up(mut self: Box<Self>, broken: Broken, flow: Flow) -> Step {
        self.worker.stats.fetches_failed.increment();
        self.note_body_broken(&broken, flow.received());
        let failure = broken.failure();
        flow.fail(broken.into_body_error());
        self.fail(failure)
    }

    /// Whether the answer is of no use to others and would take the place of an object that still
    /// is, as a policy sees it.
    fn would_spoil(&self, answer: &Answer) -> bool {
        let now = self.task.now;
        let is_stale = answer.freshness.ttl_ms(now) <= 0;
        is_stale && self.plan.site.semantics.keeps_fresh_over_stale && {
            let known = self.worker.shared.cache.peek(&self.plan.key);
            known.variants.iter().any(|object| match object.reuse(now) {
                Reuse::Fresh | Reuse::StaleWhileRevalidate => true,
                Reuse::Stale | Reuse::MustValidate => false,
            })
        }
    }
}
