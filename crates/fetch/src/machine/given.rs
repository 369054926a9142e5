//! An answer that one client gets.

use super::Fetched;
use super::answered::Answered;
use super::asked::{Asked, Step};
use super::entry;
use super::failure::Cause;
use super::fill::{Broken, Flow};
use super::incoming::Incoming;
use super::stored::StoredBody;
use freshet_cache::{Form, Key, Left, LeftBy, Marker, Ticket, Variation};
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use freshet_site::policy::{FetchKind, Made};
use freshet_site::synthetic::Synthetic;
use freshet_store::{Body, BodyError};
use freshet_telemetry::decisions::{NotStored, deciding_field};
use freshet_wire::h1::Framing;
use freshet_worker::keepers::Passing;
use std::sync::Arc;
use std::time::Duration;

/// A response whose client has its head, and gets its body as that comes.
pub(super) struct Given {
    asked: Box<Asked>,
    /// What is to come; `None` where nothing is.
    rest: Option<Flow>,
    /// Bytes that came before, and those of them that were kept.
    came: (u64, u64),
}

impl Answered {
    /// Gives the answer to the client that asked, and lets requests for it not wait for one
    /// another for a while.
    pub(super) async fn give(
        self: Box<Self>,
        reason: Reason,
        tee: Option<Box<dyn Passing>>,
    ) -> Step {
        let Self { mut asked, mut answer, incoming } = *self;
        let Incoming { source, framing, length, form, loan } = incoming;
        let has_body = !matches!(framing, Framing::None | Framing::Length(0));
        let arena = asked.worker.own_memory();
        let memory =
            if answer.stream { Body::transit(arena, length) } else { Body::new(arena, length) };
        if loan.is_some() {
            memory.attach(asked.upkeep(None, loan));
        }
        let flow = Flow::new(&asked.worker, source, memory.writer(0, length), length);
        let tee = tee.filter(|_| answer.stream);
        let is_kept = tee.is_some();
        let mut flow = flow.teed(tee);
        let mut is_whole = false;
        if !answer.stream && has_body {
            match flow.ahead(asked.ahead_bytes_max(&answer)).await {
                Ok(all) => is_whole = all,
                Err(broken) => return asked.body_failed(broken, Some(flow)).await,
            }
        }
        if is_whole {
            let read = asked.read_manifest(&answer, form, &memory, flow.position());
            if let Some(read) = &read {
                if asked.is_behind(read) {
                    if asked.turns_elsewhere(answer.head.status) {
                        flow.note_ended();
                        asked.note_body_ended(flow.received(), 0);
                        return Step::Again(asked);
                    }
                    asked.worker.stats.media_behind_given.increment();
                }
                asked.take_manifest(read, &mut answer, None);
            }
        }
        if let Some(ticket) = asked.plan.ticket.take() {
            let span = asked.plan.site.settings.cache.hit_for_miss;
            let span = answer.hit_for_miss.unwrap_or(span);
            let selecting = asked.plan.selecting();
            let (status, fields) = (answer.head.status, &answer.head.fields);
            // Of what varies by everything nothing is shared, whoever asks.
            let variation = entry::variation(fields, form, selecting).ok().flatten();
            if asked.ends_stored(reason, status) {
                asked.end_stored(ticket.key(), variation.is_none() && !span.is_zero());
            }
            let life = (&answer.freshness, answer.keep.unwrap_or_default());
            asked.leave_marker(ticket, (status, fields), life, (variation, span));
        }
        let reason = if asked.plan.kind == FetchKind::Pass || is_kept {
            asked.plan.reason
        } else {
            asked.note_not_stored(reason, &answer.head);
            reason
        };
        let is_uncacheable = answer.uncacheable.is_some();
        let keep = answer.keep.unwrap_or_default();
        let (id, freshness) = (asked.task.id, answer.freshness);
        let made = Made { id, freshness, keep, is_uncacheable, is_kept };
        let mut head = answer.head;
        let length = match framing {
            Framing::None => head.fields.get_str("content-length").and_then(|n| n.parse().ok()),
            _ if is_whole => Some(flow.position()),
            _ => length,
        };
        head.fields.remove("content-length");
        let came = (flow.received(), flow.position());
        if is_whole {
            flow.note_ended();
        }
        let body = has_body.then(|| StoredBody::new(&memory, 0..length.unwrap_or(u64::MAX), None));
        if has_body && !is_whole {
            memory.enter_transit();
        }
        drop(memory);
        let rest = if has_body && !is_whole {
            Some(flow)
        } else {
            // The client is to know its length.
            flow.finish();
            None
        };
        let origin = asked.origin.clone();
        asked.reply(Fetched::Private { head, body, length, form, reason, origin, made });
        Step::Given(Box::new(Given { asked, rest, came }))
    }
}

impl Asked {
    /// Whether what is stored is over, as an answer came in its place that is not kept for this reason (RFC 9111 §4.3.3).
    fn ends_stored(&self, reason: Reason, status: u16) -> bool {
        use Reason::{NoRoom, NoStore, PassPolicy, Private, RequestNoStore, SetCookie};
        match reason {
            // It says nothing of what others may have.
            RequestNoStore | NoRoom => false,
            _ if self.plan.site.semantics.ends_stored_by_all_not_kept => true,
            NoStore | PassPolicy | Private | SetCookie => status < 500,
            _ => false,
        }
    }

    /// Has those that ask for what was not fit to be shared fetch side by side for `span`, where they ask for this
    /// variation. The life is the response's, with how long it would be kept behind that.
    fn leave_marker(
        &self,
        ticket: Ticket,
        head: (u16, &Fields),
        (freshness, keep): (&Freshness, Duration),
        (variation, span): (Option<Variation>, Duration),
    ) {
        if span.is_zero() {
            // Who has waited would find it: its time is that at which it came.
            return drop(ticket);
        }
        let left = Left::new(&ticket, head, freshness, keep);
        let left_by = LeftBy { fetch_id: self.task.id, fresh_until: freshness.fresh_until() };
        let until = self.task.now.plus(span);
        ticket.hit_for_miss(Marker { left: Some(left), variation, until, left_by });
    }

    /// Ends what is stored in whose place the answer came; where a policy says that nothing is shared for a while
    /// that `is_for_all`, every variant: what is newer and does not vary comes first.
    fn end_stored(&self, key: &Key, is_for_all: bool) {
        let shared = &self.worker.shared;
        if let Some(stored) = &self.plan.stale {
            shared.end(stored, self.born);
        }
        if is_for_all && self.plan.site.semantics.ends_stored_by_all_not_kept {
            for older in shared.cache.peek(key).variants {
                shared.end(&older, self.born);
            }
        }
    }
}

impl Given {
    /// Brings the body to its client, to the end.
    pub(super) async fn fill(self: Box<Self>) {
        let Self { mut asked, rest, came: (received, stored) } = *self;
        let Some(mut flow) = rest else { return asked.note_body_ended(received, stored) };
        let result = match asked.plan.kind {
            FetchKind::Background => flow.run().await,
            FetchKind::Miss | FetchKind::Pass => flow.run_while_read().await,
        };
        let (received, stored) = (flow.received(), flow.position());
        flow.note_ended();
        match result {
            Ok(()) => {
                flow.finish();
                asked.note_body_ended(received, stored);
            }
            Err(Broken::Local(error @ BodyError::NoReaders))
                if asked.plan.kind == FetchKind::Background =>
            {
                let broken = Broken::Local(error.clone());
                match flow.throw_away(error).await {
                    Some(received) => asked.note_body_ended(received, received),
                    None => asked.note_body_broken(&broken, received),
                }
            }
            Err(broken) => {
                // What nobody waits for any more was given up, whether that was noticed or not.
                if broken.is_failure() && flow.body().readers() > 0 {
                    asked.worker.stats.fetches_failed.increment();
                }
                asked.note_body_broken(&broken, received);
                flow.fail(broken.into_body_error());
            }
        }
    }
}

impl Asked {
    /// Gives a page of our own to the client that began the fetch; others look again, and for as long as `life`, with
    /// a keep behind it, says without waiting for one another.
    pub(super) fn private_page(
        mut self: Box<Self>,
        page: Synthetic,
        reason: Reason,
        life: Option<(Freshness, Duration)>,
    ) -> Step {
        let ticket = self.plan.ticket.take();
        let Synthetic { head, body } = page;
        let length = Some(body.len() as u64);
        if !self.plan.site.has_room_for(body.len(), &self.worker.shared.cache) {
            return self.fail(Cause::Local.failure("Could not get storage"));
        }
        self.note_page(body.len(), None);
        if let (Some(ticket), Some((freshness, keep))) = (ticket, &life) {
            let span = freshness.lifetime().saturating_add(freshness.stale_while_revalidate());
            let head = (head.status, &head.fields);
            let selecting = self.plan.selecting();
            let variation = entry::variation(head.1, Form::default(), selecting).ok().flatten();
            self.leave_marker(ticket, head, (freshness, *keep), (variation, span));
        }
        let origin = self.origin.clone();
        let no_life = || (Freshness::from_policy(self.task.now, Duration::ZERO), Duration::ZERO);
        let (freshness, keep) = life.unwrap_or_else(no_life);
        let made = Made {
            id: self.task.id,
            freshness,
            keep,
            is_uncacheable: self.task.is_uncacheable,
            is_kept: false,
        };
        self.reply(Fetched::Page { head, body, length, reason, origin, made: Some(made) });
        Step::Over
    }

    /// Leaves a note for those who ask why.
    fn note_not_stored(&self, reason: Reason, head: &ResponseHead) {
        self.worker.shared.decisions.note(NotStored {
            key: Arc::clone(&self.plan.key),
            reason,
            status: head.status,
            field: deciding_field(reason, &head.fields, &self.freshness().targeted, self.task.now),
            origin: self.origin.as_deref().unwrap_or("").into(),
            last: self.task.now,
            count: 1,
        });
    }
}
