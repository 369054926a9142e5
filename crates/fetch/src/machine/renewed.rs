//! What is stored and stays so: an origin confirmed it, or answered with what is behind it.

use super::asked::{Asked, Step};
use super::failure::Cause;
use super::{Fetched, entry};
use freshet_cache::{Left, LeftBy, Marker, Object, StoredHead, Ticket};
use freshet_content::heads;
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, Storability};
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use freshet_http::update;
use freshet_site::policy::{Answer, BackendResponse};
use freshet_site::upkeep::{keep_of, upkeep_of};
use freshet_store::Body;
use freshet_store::body::Next;
use freshet_telemetry::transcript::Tag;
use freshet_worker::keepers::Renewed;
use std::sync::Arc;
use std::time::Duration;

/// Whom what a 304 confirms is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GoodFor {
    /// Whoever asks: it is kept on.
    All,
    /// The one that asked, as the origin will have no more of it shared. Requests for it do not wait for one another
    /// for so long.
    Waiting(Duration),
    /// The one that asked, for what it has said of itself: nobody else hears of it.
    Asker,
}

impl Asked {
    /// The stored response is still good: its head takes over what the 304 says.
    pub(super) async fn not_modified(mut self: Box<Self>, head: &ResponseHead) -> Step {
        let (Some(object), Some(ticket)) = (self.plan.stale.take(), self.plan.ticket.take()) else {
            return self.fail(Cause::Unasked.failure("a 304 for nothing that was stored"));
        };
        self.worker.stats.revalidated.increment();
        let mut stored = (*object.head()).clone();
        let mut head = head.clone();
        let semantics = self.plan.site.semantics;
        if stored.form.recoded {
            // It is about the body as it came; ours is under another coding.
            head.fields.remove("content-encoding");
            heads::remove_digests(&mut head.fields);
            if head.fields.contains("vary") {
                heads::vary_by_encoding(&mut head.fields);
            }
        }
        let is_weak = |stored: &StoredHead| {
            let tag = stored.fields.get("etag");
            tag.is_some_and(|tag| tag.starts_with(b"W/"))
        };
        if stored.form.recoded || (is_weak(&stored) && !semantics.trusts_any_304) {
            // What was confirmed is what is stored, whose bytes need not be those of the strong tag.
            heads::weaken_etag(&mut head.fields);
        }
        if head.fields.contains("via") {
            self.pass_on(head.version, &mut head.fields);
        }
        let received = self.received(304, &head.fields);
        let updated = update::update(stored.status, &stored.fields, &received, &self.freshness());
        let (freshness, reason) = match updated.storability {
            Storability::Store(freshness) => (freshness, Reason::HitRevalidated),
            // The answer forbids to keep what it confirms: good for those that wait, then gone.
            Storability::Refuse(reason) => {
                (Freshness::from_policy(self.task.now, Duration::ZERO), reason)
            }
        };
        let fields = updated.fields;
        let head = ResponseHead { status: stored.status, fields, ..ResponseHead::default() };
        let mut answer = Answer { was_not_modified: true, ..Answer::new(head, freshness) };
        self.advise(&mut answer);
        let site = self.plan.site.clone();
        let policy = &*site.policy;
        match policy.backend_response(&mut self.task, &mut answer) {
            BackendResponse::Deliver => {}
            other => {
                (self.plan.stale, self.plan.ticket) = (Some(object), Some(ticket));
                self.note_closed(self.closing);
                return match other {
                    BackendResponse::Error(status, reason) => self.made_up(status, reason).await,
                    BackendResponse::Retry => Step::Again(self),
                    BackendResponse::Abandon | BackendResponse::Deliver => self.abandon(),
                };
            }
        }
        let reason = match answer.uncacheable {
            // The policy forbids what the answer allows.
            Some(why) if reason == Reason::HitRevalidated => why,
            None if semantics.trusts_any_304 => Reason::HitRevalidated,
            _ => reason,
        };
        if semantics.trusts_any_304 && !self.comes_to_its_end(object.body()).await {
            // Nobody is to be given what was confirmed and breaks off all the same.
            self.worker.stats.fetches_failed.increment();
            self.note_closed(self.closing);
            self.plan.ticket = Some(ticket);
            return self.fail(Cause::Contradiction.failure("what a 304 confirmed broke off"));
        }
        let good_for = match reason {
            Reason::HitRevalidated => GoodFor::All,
            reason if reason.is_of_request() => GoodFor::Asker,
            _ => GoodFor::Waiting(answer.hit_for_miss.unwrap_or(site.settings.cache.hit_for_miss)),
        };
        if let Some((upkeep, keep)) = upkeep_of(object.body()).zip(answer.keep)
            && good_for != GoodFor::Asker
        {
            upkeep.renew(keep);
        }
        entry::renew_head(&mut stored, answer, self.task.id);
        stored.hits_before = u32::try_from(object.hits()).unwrap_or(u32::MAX);
        self.note_renewed(&object);
        self.reply_renewed(object, ticket, stored, reason, good_for)
    }

    /// Waits until all of a body has come that is still on its way; whether it did.
    async fn comes_to_its_end(&self, body: &Arc<Body>) -> bool {
        // What nobody fetches now is there in part, or on a disk: its rest is had when it is wanted.
        if body.is_complete() || body.writers() == 0 {
            return true;
        }
        let transcript = &self.task.transcript;
        let text = format_args!("vsl: Conditional fetch wait for streaming object");
        transcript.note(Tag::Notice, text);
        // What is waited for is not read, and holds nothing.
        let last = body.total().map_or(u64::MAX - 1, |total| total.saturating_sub(1));
        let mut reader = body.reader(last..);
        reader.set_patient(true);
        // What is fetched now may be another part, as for somebody's range.
        let has_come = !matches!(reader.next(1).await, Next::Failed(_));
        if !has_come {
            transcript.note(Tag::FetchError, format_args!("Template object failed"));
        }
        has_come
    }

    /// What is stored stays in the place of an answer that is behind it, and lives as long as that would
    /// have: all that the answer says of its own life and age counts, and nothing else of it.
    pub(super) fn stay_with(
        mut self: Box<Self>,
        object: Arc<Object>,
        ticket: Ticket,
        answer: Answer,
    ) -> Step {
        self.worker.stats.media_behind.increment();
        let mut stored = (*object.head()).clone();
        let rules = self.freshness();
        let targeted = rules.targeted.iter().copied();
        for name in ["Date", "Cache-Control", "Expires"].into_iter().chain(targeted) {
            stored.fields.remove(name);
            for value in answer.head.fields.get_all(name) {
                stored.fields.append(name, value);
            }
        }
        stored.fields =
            update::stored_fields(&self.received(stored.status, &stored.fields), &rules);
        (stored.freshness, stored.fetch_id) = (answer.freshness, self.task.id);
        self.reply_renewed(object, ticket, stored, Reason::MediaBehind, GoodFor::All)
    }

    /// Gives those it is good for what was stored before, with a new head.
    fn reply_renewed(
        &mut self,
        mut object: Arc<Object>,
        ticket: Ticket,
        stored: StoredHead,
        reason: Reason,
        good_for: GoodFor,
    ) -> Step {
        let was_fresh = object.with_head(|head| head.freshness.is_fresh(self.task.now));
        let hold = Some(object.body().reader(..));
        if good_for != GoodFor::Asker && !entry::is_for_same(&stored, object.variation()) {
            // Where it is found is for other requests than it says now (RFC 9111 §4.1). It is good for the
            // one that asked, and those that wait look for one of theirs.
            self.worker.shared.end(&object, self.born);
        }
        let mut kept = false;
        match good_for {
            GoodFor::All => kept = ticket.refresh(&object, stored),
            GoodFor::Asker => object = ticket.lend(&object, stored),
            GoodFor::Waiting(span) => {
                let fresh_until = stored.freshness.fresh_until();
                let keep = keep_of(&object);
                let head = (stored.status, &stored.fields);
                let marker = Marker {
                    left: Some(Left::new(&ticket, head, &stored.freshness, keep)),
                    variation: object.variation().cloned(),
                    until: self.task.now.plus(span),
                    left_by: LeftBy { fetch_id: self.task.id, fresh_until },
                };
                let own = ticket.refresh_for_one(&object, stored, marker);
                self.worker.shared.end(&object, self.born);
                object = own;
            }
        }
        if kept {
            let (site, request, born) = (&self.plan.site, self.plan.selecting(), self.born);
            let renewed = Renewed { site, object: &object, request, born, was_fresh };
            self.worker.shared.keepers.renewed(renewed);
        }
        let origin = self.origin.clone();
        self.reply(Fetched::Object {
            object,
            reason,
            stored: kept,
            origin,
            sent: None,
            for_one: Fields::new(),
            hold,
        });
        Step::Over
    }
}
