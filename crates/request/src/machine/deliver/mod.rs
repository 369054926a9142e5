//! Delivery: a response from an object, or the response of a pass.

mod bytes;
mod part;
mod told;

use super::shape::Shape;
use super::{Found, Machine, State};
use crate::client_exchange::{Facts, Reply, Response};
use crate::delivery::ResponseBody;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Form, Object};
use freshet_fetch::Fetched;
use freshet_http::cache_control::RequestCacheControl;
use freshet_http::conditional::{self, Outcome};
use freshet_http::freshness::SetCookie;
use freshet_http::hop_by_hop;
use freshet_http::message::{Method, ResponseHead, Version};
use freshet_http::reason::Reason;
use freshet_site::policy::{Deliver, Made, Served};
use freshet_site::shares::TRANSIENT;
use freshet_telemetry::transcript::Message;
use freshet_vcl::status_phrase;
use part::Part;
use std::sync::Arc;

/// Room for the fields a delivery adds: Age, Cache-Status, Via and Alt-Svc, and one of the policy's.
const ADDED_BYTES: usize = 212;

/// How often a request looks up again because what it found was replaced, evicted or of another
/// representation than the origin has by now, before it passes by.
const LOST_MAX: u32 = 3;

impl Machine<'_> {
    /// A fetch for this request came to something.
    pub(super) async fn fetched(&mut self, fetched: Fetched) -> State {
        if self.body.is_none() {
            // It went to an origin.
            self.task.note_body_read("malloc", TRANSIENT);
        }
        self.task.transcript.timestamp("Fetch");
        self.task.note_body_read("malloc", TRANSIENT);
        self.task.now = UnixMillis::now();
        match fetched {
            Fetched::Object { object, reason, stored, origin, sent, for_one, hold } => {
                let found = Found {
                    object,
                    reason,
                    hit: false,
                    origin,
                    stored,
                    collapsed: false,
                    sent,
                    for_one,
                    refresh: None,
                    _hold: hold,
                };
                State::Deliver(Box::new(found))
            }
            Fetched::Private { head, body, length, form, reason, origin, made } => {
                let body = body.map_or(ResponseBody::Empty, ResponseBody::Stored);
                self.deliver_private(head, (body, form, length), reason, origin, Some(&made))
            }
            Fetched::Page { head, body, length, reason, origin, made } => {
                self.worker.stats.synthetic.increment();
                let body = (ResponseBody::Inline(body), Form::default(), length);
                self.deliver_private(head, body, reason, origin, made.as_ref())
            }
            Fetched::Switched { .. } => {
                self.task.reason = Reason::OriginMalformed;
                State::Synth(502, None)
            }
            Fetched::Failed { failure, stale } => self.failed(&failure, stale),
        }
    }

    /// Answers from an object.
    pub(super) async fn deliver(&mut self, mut found: Found) -> State {
        self.await_part(&mut found).await;
        let object = Arc::clone(&found.object);
        let stored = object.head();
        let total = object.body().total();
        let form = stored.form;
        let mut head = ResponseHead {
            status: stored.status,
            reason: stored.reason.clone(),
            version: stored.version,
            fields: stored.fields.clone_with_room(ADDED_BYTES),
        };
        // It was stored while the site gave cookies to all.
        if self.task.site.set_cookie() == SetCookie::Strip {
            head.fields.remove("set-cookie");
        }
        for (name, value) in found.for_one.iter() {
            head.fields.append(name, value);
        }
        self.add_age(&stored, &found, &mut head);
        if found.hit && stored.partial && self.lacks_part(&object, &stored.fields) {
            (found.hit, found.stored) = (false, object.is_indexed());
            found.reason = Reason::MissPartial;
        }
        self.add_cache_status(Some((&stored, &found)), found.reason, found.stored, &mut head);
        self.tell_players(&mut head, found.hit || found.collapsed, total);
        let length = total;
        // Who waited for another's fetch has hit what it brought, as policies see it.
        let hit = found.hit || found.collapsed;
        let for_caches = stored.for_caches;
        let reason = found.reason;
        let served =
            Served { object: Some(&object), hit, reason, form, for_caches, made: None, length };
        if let Some(next) = self.ask_deliver(&mut head, served) {
            return next;
        }
        let shape = self.shape(form, &head);
        self.shape_head(shape, &mut head);
        let total = shape.total(&object, total);
        let is_policys = self.task.site.semantics.is_strict_with_ranges;
        let growing =
            (total.is_none() && shape == Shape::AsKept && !is_policys).then(|| object.body());
        // As Varnish: of what is put together on the way there are no parts.
        let known =
            total.filter(|_| !is_policys || matches!(shape, Shape::AsKept | Shape::Unpacked));
        let is_packed_here = form.recoded && head.fields.contains("content-encoding");
        let part = match (self.part(&head, known, growing, is_packed_here), &found.sent) {
            (Part::Nothing(status @ (304 | 412)), _) => Part::Nothing(status),
            (_, Some(sent)) => Part::AsSent(sent),
            (part, None) => part,
        };
        let body = match self.body_of(&object, part, &mut head, total, shape) {
            Ok(body) => body,
            Err(status) => {
                self.name_status(&mut head, status);
                (ResponseBody::Empty, Some(0))
            }
        };
        let (mut body, length) = body;
        // Between look-up and here the object may have been replaced or evicted and its bytes
        // dropped. Once the body above is there, they stay.
        if found._hold.is_none() && self.hold.is_none() && !object.is_indexed() {
            return self.again();
        }
        let is_restored = object.body().source().is_some() && !object.body().is_complete();
        // A sparse object may turn out to be of another representation than the origin has by now;
        // that has to be known before the head is sent.
        let may_fail = stored.partial || (is_restored && self.task.wants_content);
        if let (true, ResponseBody::Stored(first)) = (may_fail, &mut body)
            && (first.first_byte().await.is_err()
                || (self.task.wants_content && first.first_missing_byte().await.is_err()))
        {
            return self.changed(&object);
        }
        self.count(&found);
        if !self.task.wants_content {
            body = ResponseBody::Empty;
        }
        let news_at = self.news_at(&found);
        let (hit, origin) = (found.hit, found.origin);
        let facts = Facts { hit, origin, news_at, ..Facts::local(found.reason) };
        let is_packed = form.gzip && !shape.is_unpacked();
        let response = Response { is_packed, ..Response::new(head, body, length, facts) };
        State::Done(Reply::Response(Box::new(response)))
    }

    fn changed(&mut self, object: &Arc<Object>) -> State {
        self.worker.shared.cache.forget(object);
        self.again()
    }

    /// Looks up again, as what was found is there no more. Where that goes on and on, the request
    /// goes past what is kept: its origin has an answer, whatever is the matter here.
    fn again(&mut self) -> State {
        self.lost += 1;
        if self.lost <= LOST_MAX {
            return State::Lookup;
        }
        if RequestCacheControl::from_fields(&self.task.request.fields).only_if_cached {
            return self.only_if_cached();
        }
        self.worker.stats.bypasses.increment();
        self.task.reason = Reason::Bypass;
        State::Pass
    }

    fn count(&self, found: &Found) {
        let stats = &self.worker.stats;
        match found.reason {
            Reason::Hit | Reason::HitPartial => stats.hits.increment(),
            Reason::HitFilling => {
                stats.hits.increment();
                stats.hits_filling.increment();
            }
            Reason::HitStale | Reason::HitStaleOnError => stats.hits_stale.increment(),
            Reason::MissPartial => stats.misses.increment(),
            _ => {}
        }
    }

    /// The response of a pass, or one that could not be kept.
    fn deliver_private(
        &mut self,
        mut head: ResponseHead,
        (mut body, form, length): (ResponseBody, Form, Option<u64>),
        reason: Reason,
        origin: Option<Arc<str>>,
        made: Option<&Made>,
    ) -> State {
        if self.task.site.semantics.dates_responses {
            super::synth::ensure_date(&mut head, self.task.now);
        }
        let is_kept = made.is_some_and(|made| made.is_kept);
        self.add_cache_status(None, reason, is_kept, &mut head);
        let name = &self.task.site.settings.cache.name;
        let version = head.version.max(Version::Http11).number();
        head.fields.append_to_list("Via", format!("{version} {name}").as_bytes());
        self.tell_players(&mut head, false, length);
        let for_caches = hop_by_hop::has_for_caches(&head.fields);
        let served = Served { object: None, hit: false, reason, form, for_caches, made, length };
        if let Some(next) = self.ask_deliver(&mut head, served) {
            return next;
        }
        let shape = self.shape(form, &head);
        self.shape_head(shape, &mut head);
        let mut length = length.filter(|_| shape == Shape::AsKept);
        // The conditions of a request that might have filled the cache were not passed on.
        let request = &self.task.request;
        let was_pass = matches!(
            self.task.reason,
            Reason::PassMethod
                | Reason::PassRequest
                | Reason::PassPolicy
                | Reason::PassBehind
                | Reason::Bypass
                | Reason::Pipe
        );
        // An origin that does not look at conditions may be behind a policy.
        let looked_at = was_pass
            && !(self.task.site.semantics.judges_passed_conditions
                && matches!(request.method, Method::Get | Method::Head));
        if !looked_at && matches!(head.status, 200 | 203 | 206) {
            let validators = self.validators(&head.fields);
            match conditional::evaluate(&request.fields, &request.method, &validators, head.status)
            {
                Outcome::Proceed => {}
                Outcome::NotModified if self.asks_for_other_part(&head.fields) => {}
                Outcome::NotModified => {
                    self.make_not_modified(&mut head);
                    (body, length) = (ResponseBody::Empty, None);
                }
                Outcome::PreconditionFailed => {
                    head.fields.remove("content-range");
                    head.fields.remove("content-type");
                    head.status = 412;
                    head.reason = None;
                    (body, length) = (ResponseBody::Empty, Some(0));
                }
            }
        }
        if !self.task.wants_content {
            body = ResponseBody::Empty;
        } else if matches!(body, ResponseBody::Empty) && !matches!(head.status, 204 | 304) {
            // Of a request that a policy made a HEAD: there is no more than this.
            length = Some(0);
        }
        if !matches!(head.status, 304 | 412) {
            body = self.shape_body(body, shape, 0..u64::MAX);
        }
        if shape == Shape::AsKept
            && let Some(total) = length
        {
            (body, length) = self.part_of_passed(body, total, false, &mut head);
        }
        let facts = Facts { origin, ..Facts::local(reason) };
        let is_packed = form.gzip && !shape.is_unpacked();
        let response = Response { is_packed, ..Response::new(head, body, length, facts) };
        State::Done(Reply::Response(Box::new(response)))
    }

    /// Gives a response a status, with the reason that goes with it.
    fn name_status(&self, head: &mut ResponseHead, status: u16) {
        let is_policys = self.task.site.semantics.is_strict_with_ranges;
        head.status = status;
        head.reason = status_phrase(status).filter(|_| is_policys).map(Into::into);
    }

    fn ask_deliver(&mut self, head: &mut ResponseHead, served: Served<'_>) -> Option<State> {
        let site = self.task.site.clone();
        let policy = &*site.policy;
        self.advertise(head);
        self.task.transcript.response(Message::Response, head);
        match policy.deliver(&mut self.task, head, served) {
            Deliver::Deliver => None,
            Deliver::Restart => Some(State::Restart(None)),
            Deliver::Synth(status, reason) => Some(State::Synth(status, reason)),
            Deliver::Dress => {
                let response = super::synth::dressed(self, std::mem::take(head));
                Some(State::Done(Reply::Response(Box::new(response))))
            }
        }
    }
}
