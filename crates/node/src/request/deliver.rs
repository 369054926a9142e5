//! Delivery: a response from an object, or the response of a pass.

use super::shape::Shape;
use super::{Found, Machine, State};
use crate::delivery::coded::Coded;
use crate::delivery::{HeldBytes, Parts, ResponseBody, StoredBody};
use crate::exchange::{Facts, Reply, Response};
use crate::fetch::range::Filler;
use crate::fetch::{Fetched, Made, SentPart};
use crate::media;
use crate::policy::{Deliver, Served};
use crate::shares::TRANSIENT;
use crate::transcript::Message;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Form, Object, StoredHead};
use freshet_content::chain::Chain;
use freshet_http::cache_control::RequestCacheControl;
use freshet_http::cache_status::{CacheStatus, Forward};
use freshet_http::conditional::{self, Outcome, Validators};
use freshet_http::fields::Fields;
use freshet_http::hop_by_hop;
use freshet_http::message::{Method, ResponseHead};
use freshet_http::multipart::Boundary;
use freshet_http::range::{ContentRange, RangeRequest, RangeSpec, Resolved, VERY_LARGE};
use freshet_http::reason::Reason;
use freshet_store::Body;
use freshet_vcl::status_phrase;
use std::future::poll_fn;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// Room for the fields a delivery adds: Age, Cache-Status, Via and Alt-Svc, and one of the policy's.
const ADDED_LINES: usize = 5;
/// Names and values of them.
const ADDED_BYTES: usize = 192;

/// How often a request looks up again because what it found was replaced, evicted or of another
/// representation than the origin has by now, before it passes by.
const LOST_MAX: u32 = 3;

/// The least length of a response for which it is known how to ask for its bytes again. To know it
/// costs a few percent of sending them.
const FETCHED_AGAIN_BYTES_MIN: usize = 256 << 10;

/// The longest range that is waited for of a body whose length is not known: half of what a body in
/// transit holds.
const GROWING_BYTES_MAX: u64 = 256 << 10;

/// What of an object is sent.
enum Part<'a> {
    Whole,
    AsSent(&'a SentPart),
    One(Range<u64>),
    /// From here on, for as long as it comes.
    Open(u64),
    Many(Vec<Range<u64>>),
    Nothing(u16),
}

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
            Fetched::Object { object, reason, stored, origin, sent, hold } => {
                let found = Found {
                    object,
                    reason,
                    hit: false,
                    origin,
                    stored,
                    collapsed: false,
                    sent,
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
            fields: stored.fields.clone_with_room(ADDED_LINES, ADDED_BYTES),
        };
        self.add_age(&stored, &found, &mut head);
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
        let total = shape.total(&object, total);
        let is_policys = self.task.site.semantics.is_strict_with_ranges;
        let growing =
            (total.is_none() && shape == Shape::AsKept && !is_policys).then(|| object.body());
        // As Varnish: of what is put together on the way there are no parts.
        let known =
            total.filter(|_| !is_policys || matches!(shape, Shape::AsKept | Shape::Unpacked));
        let part = match (self.part(&head, known, growing), &found.sent) {
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
            && first.first_byte().await.is_err()
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

    /// Waits for the bytes a range asks for of a body whose length is not known yet, where they
    /// come soon: whether there are any has to be known before the head is sent.
    async fn await_part(&mut self, found: &mut Found) {
        let request = &self.task.request;
        let body = found.object.body();
        let is_growing = body.total().is_none()
            && found.sent.is_none()
            && !self.task.site.semantics.is_strict_with_ranges;
        let Some(value) = request.fields.get("range").filter(|_| is_growing) else { return };
        let (first, awaited) = match RangeRequest::parse(value) {
            Some(RangeRequest::One(RangeSpec::From(first))) => (first, first),
            Some(RangeRequest::One(RangeSpec::FromTo(first, VERY_LARGE))) => (first, first),
            Some(RangeRequest::One(RangeSpec::FromTo(first, last)))
                if last - first < GROWING_BYTES_MAX
                    && !body.will_hold(first..last.saturating_add(1)) =>
            {
                (first, last)
            }
            _ => return,
        };
        let hold = body.reader(first..);
        let mut probe = body.reader(awaited..awaited.saturating_add(1));
        let is_to_come = poll_fn(|cx| Poll::Ready(probe.poll_next(cx, 1).is_pending())).await;
        if is_to_come {
            // Nothing before is of use to this request, and a body in transit is to let it go.
            found._hold = Some(hold);
            let _ = probe.next(1).await;
        }
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
            _ => {}
        }
    }

    /// Which part of the representation the request is answered with: conditions first, then
    /// ranges (RFC 9110 §13.2.2).
    fn part(
        &self,
        head: &ResponseHead,
        total: Option<u64>,
        growing: Option<&Arc<Body>>,
    ) -> Part<'static> {
        if head.status != 200 {
            return Part::Whole;
        }
        let request = &self.task.request;
        // What a policy makes of the method comes too late to change what was asked for.
        let is_policys = self.task.site.semantics.is_strict_with_ranges;
        let takes_parts =
            if is_policys { self.task.wants_content } else { request.method == Method::Get };
        let has_range = takes_parts && request.fields.contains("range");
        if !has_range && !conditional::is_conditional(&request.fields) {
            return Part::Whole;
        }
        let validators = self.validators(&head.fields);
        match conditional::evaluate(&request.fields, &request.method, &validators, head.status) {
            // Varnish compares strongly where a part is asked for.
            Outcome::NotModified if self.asks_for_other_part(&head.fields) => {}
            Outcome::NotModified => return Part::Nothing(304),
            Outcome::PreconditionFailed => return Part::Nothing(412),
            Outcome::Proceed => {}
        }
        if !has_range || !self.task.shaping.range || !self.task.site.serves_ranges {
            return Part::Whole;
        }
        let value = request.fields.get("range").unwrap_or_default();
        let wanted = RangeRequest::parse(value);
        if total.is_none() && growing.is_none() && !is_policys {
            return Part::Whole;
        }
        let if_range = request.fields.get("if-range");
        if if_range.is_some_and(|value| !conditional::if_range_matches(value, &validators)) {
            return Part::Whole;
        }
        let Some(wanted) = wanted else {
            // Varnish refuses a range that makes no sense, which RFC 9110 §14.2 lets pass.
            return if is_policys { Part::Nothing(416) } else { Part::Whole };
        };
        let Some(total) = total else {
            return growing.map_or(Part::Whole, |body| part_of_growing(body, &wanted));
        };
        // The end of nothing is nothing (RFC 9110 §14.1.2), which no `Content-Range` can say; and who asks for
        // all from the first byte on, as players do, gets all there is.
        if total == 0 && !is_policys {
            return Part::Whole;
        }
        match wanted.resolve(total) {
            Resolved::One(range) => Part::One(range),
            Resolved::Many(ranges) => Part::Many(ranges),
            Resolved::Unsatisfiable => Part::Nothing(416),
        }
    }

    /// What a condition is compared with.
    fn validators<'a>(&self, fields: &'a Fields) -> Validators<'a> {
        let mut validators = Validators::from_fields(fields);
        if self.task.site.semantics.is_strict_with_ranges {
            // Varnish goes by when a response was made as far as is known here.
            let age = fields.get_str("age").and_then(|age| age.parse::<u32>().ok());
            let age = i64::from(age.unwrap_or(0));
            validators.date = Some(UnixMillis::from_seconds(self.task.now.seconds() - age));
        }
        validators
    }

    /// Whether a part is asked for by somebody whose copy is only weakly the same.
    fn asks_for_other_part(&self, fields: &Fields) -> bool {
        let request = &self.task.request.fields;
        if !self.task.site.semantics.is_strict_with_ranges || !request.contains("range") {
            return false;
        }
        let Some(tag) = fields.get("etag") else { return false };
        let is_weak = tag.starts_with(b"W/");
        request.contains("if-none-match")
            && (is_weak || !request.tokens("if-none-match").any(|known| known == tag))
    }

    /// The body for `part` and its length, with the head brought in line; or the status of a
    /// response without one.
    fn body_of(
        &mut self,
        object: &Arc<Object>,
        part: Part<'_>,
        head: &mut ResponseHead,
        total: Option<u64>,
        shape: Shape,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        if shape != Shape::AsKept {
            // Parts of what comes out are not told apart while it does.
            let part = if matches!(part, Part::Many(_)) { Part::Whole } else { part };
            return self.shaped(object, part, head, total, shape);
        }
        match part {
            Part::Whole => {
                let end = total.unwrap_or(u64::MAX);
                Ok((self.stored_body(object, 0..end), total))
            }
            Part::AsSent(sent) => {
                head.status = 206;
                head.reason = None;
                head.fields.set("Content-Range", &sent.content_range);
                let Range { start, end } = sent.range;
                let filler = self.filler(object, end - start);
                let stored = StoredBody::new(object.body(), start..end, filler);
                Ok((ResponseBody::Stored(stored), Some(end - start)))
            }
            Part::Open(first) => {
                let mut value = Vec::with_capacity(48);
                ContentRange::part(&(first..VERY_LARGE + 1), None).write(&mut value);
                head.status = 206;
                head.reason = None;
                head.fields.set("Content-Range", value);
                Ok((self.stored_body(object, first..u64::MAX), None))
            }
            Part::One(range) => {
                let mut value = Vec::with_capacity(48);
                ContentRange::part(&range, total).write(&mut value);
                head.status = 206;
                head.reason = None;
                head.fields.set("Content-Range", value);
                let length = Some(range.end - range.start);
                Ok((self.stored_body(object, range), length))
            }
            Part::Many(ranges) => {
                let total = total.unwrap_or(0);
                let content_type = head.fields.get("content-type").map(<[u8]>::to_vec);
                let boundary = Boundary::from_random(self.key.as_ref().map_or(0, |key| key.hash()));
                let parts = ranges.into_iter().map(|range| {
                    let mut text = Vec::new();
                    boundary.write_part_head(content_type.as_deref(), &range, total, &mut text);
                    (Bytes::from(text), range)
                });
                let mut end = Vec::new();
                boundary.write_end(&mut end);
                let filler = self.filler(object, total);
                let parts = Parts::new(object.body(), parts, end.into(), filler);
                let length = Some(parts.length());
                head.status = 206;
                head.reason = None;
                let mut value = Vec::new();
                boundary.write_content_type(&mut value);
                head.fields.set("Content-Type", value);
                Ok((ResponseBody::Parts(Box::new(parts)), length))
            }
            Part::Nothing(status) => self.nothing(status, head, total),
        }
    }

    /// The same for a body that is not sent as it is kept.
    fn shaped(
        &mut self,
        object: &Arc<Object>,
        part: Part<'_>,
        head: &mut ResponseHead,
        total: Option<u64>,
        shape: Shape,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        let range = match part {
            Part::Nothing(status) => {
                if shape.is_unpacked() && self.task.site.semantics.keeps_fields_without_content {
                    head.fields.remove("content-encoding");
                }
                return self.nothing(status, head, total);
            }
            Part::One(range) => {
                let mut value = Vec::with_capacity(48);
                ContentRange::of(&range, total.unwrap_or(range.end)).write(&mut value);
                head.status = 206;
                head.reason = None;
                head.fields.set("Content-Range", value);
                range
            }
            Part::Whole | Part::AsSent(_) | Part::Open(_) | Part::Many(_) => 0..u64::MAX,
        };
        let length = total.map(|total| range.end.min(total) - range.start);
        let end = object.body().total().unwrap_or(u64::MAX);
        let stored = self.stored_body(object, 0..end);
        Ok((self.shape_body(stored, shape, range, head), length))
    }

    /// Bytes of an object: as they lie in memory, or by a reader, of a body of its own where they are
    /// too many for memory.
    fn stored_body(&mut self, object: &Arc<Object>, range: Range<u64>) -> ResponseBody {
        let body = object.body();
        let lease = if body.trailers().is_none() { body.lease(range.clone()) } else { None };
        let is_short = lease.as_ref().is_some_and(|lease| lease.len() < FETCHED_AGAIN_BYTES_MIN);
        let filler = if is_short { None } else { self.filler(object, range.end - range.start) };
        if let Some(lease) = lease.filter(|_| filler.is_none()) {
            return ResponseBody::Held(HeldBytes::new(lease));
        }
        let kept_bytes_max = self.worker.shared.cache.object_bytes_max();
        let stored = crate::keepers::response_body(body, range, filler, kept_bytes_max);
        ResponseBody::Stored(stored)
    }

    /// What fetches bytes of an object that are missing, or may be once they are evicted under a
    /// response of so many bytes.
    fn filler(&mut self, object: &Arc<Object>, bytes: u64) -> Option<Filler> {
        if bytes < FETCHED_AGAIN_BYTES_MIN as u64 && object.body().is_complete() {
            return None;
        }
        let key = self.key();
        Filler::of_client(self.worker, object, &mut self.task, &key)
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
        super::synth::ensure_date(&mut head, self.task.now);
        self.add_cache_status(None, reason, false, &mut head);
        let name = &self.task.site.settings.cache.name;
        head.fields.append_to_list("Via", format!("1.1 {name}").as_bytes());
        self.tell_players(&mut head, false, length);
        let for_caches = hop_by_hop::has_for_caches(&head.fields);
        let served = Served { object: None, hit: false, reason, form, for_caches, made, length };
        if let Some(next) = self.ask_deliver(&mut head, served) {
            return next;
        }
        let shape = self.shape(form, &head);
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
        if !looked_at && matches!(head.status, 200 | 206) {
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
            body = self.shape_body(body, shape, 0..u64::MAX, &mut head);
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

    /// The part that is asked for of what came whole from an origin or was made here, where a policy
    /// expects that. A range in other units, or of several parts, is what the origin did not answer
    /// either; one that makes no sense is refused where it `was_made_here`.
    pub(super) fn part_of_passed(
        &self,
        body: ResponseBody,
        total: u64,
        was_made_here: bool,
        head: &mut ResponseHead,
    ) -> (ResponseBody, Option<u64>) {
        let request = &self.task.request.fields;
        let judges = self.task.site.semantics.is_strict_with_ranges
            && self.task.shaping.range
            && self.task.site.serves_ranges;
        let is_asked = judges && self.task.wants_content && head.status == 200;
        let wanted = request.get("range").filter(|_| is_asked);
        let wanted = match wanted.map(RangeRequest::parse) {
            Some(Some(wanted @ RangeRequest::One(_))) => Some(wanted),
            Some(None) if was_made_here => None,
            _ => return (body, Some(total)),
        };
        let validators = Validators::from_fields(&head.fields);
        let if_range = request.get("if-range");
        if if_range.is_some_and(|value| !conditional::if_range_matches(value, &validators)) {
            return (body, Some(total));
        }
        let mut value = Vec::with_capacity(48);
        if let Some(Resolved::One(range)) = wanted.map(|wanted| wanted.resolve(total)) {
            ContentRange::part(&range, Some(total)).write(&mut value);
            self.name_status(head, 206);
            head.fields.set("Content-Range", value);
            let length = range.end - range.start;
            let is_empty = matches!(body, ResponseBody::Empty);
            let cut = || Coded::new(body, Chain::new([]), range);
            let body =
                if is_empty { ResponseBody::Empty } else { ResponseBody::Coded(Box::new(cut())) };
            return (body, Some(length));
        }
        ContentRange::Unsatisfied { total }.write(&mut value);
        self.name_status(head, 416);
        head.fields.set("Content-Range", value);
        (ResponseBody::Empty, Some(0))
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
        }
    }

    /// Says that there is HTTP/3, unless the response says something itself (RFC 7838).
    pub(super) fn advertise(&self, head: &mut ResponseHead) {
        let Some(alt_svc) = &self.task.client.alt_svc else { return };
        let is_ours = self.task.nesting.is_none() && !self.worker.is_draining();
        if is_ours && !head.fields.contains("alt-svc") {
            head.fields.append("alt-svc", alt_svc.as_bytes());
        }
    }

    /// A response without a body, or the status of one that has none of the object's.
    fn nothing(
        &self,
        status: u16,
        head: &mut ResponseHead,
        total: Option<u64>,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        if status == 304 {
            self.make_not_modified(head);
            return Ok((ResponseBody::Empty, None));
        }
        if let (416, Some(total)) = (status, total) {
            let mut value = Vec::with_capacity(32);
            ContentRange::Unsatisfied { total }.write(&mut value);
            head.fields.set("Content-Range", value);
        }
        if !self.task.site.semantics.keeps_fields_without_content {
            head.fields.remove("content-type");
        }
        Err(status)
    }

    /// Makes a head that of a 304. A policy that decides all has said which fields there are.
    fn make_not_modified(&self, head: &mut ResponseHead) {
        if self.task.site.semantics.keeps_fields_without_content {
            head.fields.remove("content-length");
        } else {
            head.fields = conditional::not_modified_fields(&head.fields);
        }
        head.status = 304;
        head.reason = None;
    }

    /// `Age` (RFC 9111 §5.1), for what was stored before or had an age when it came.
    fn add_age(&self, stored: &StoredHead, found: &Found, head: &mut ResponseHead) {
        let mut age = stored.freshness.age(self.task.now).as_secs();
        if found.reason == Reason::HitStaleOnError {
            // What was purged softly, or may have been elsewhere, is stale however young it is.
            age = age.max(stored.freshness.lifetime.as_secs());
        }
        if found.hit || found.collapsed || age > 0 {
            let mut value = [0; 20];
            head.fields.append("Age", decimal(age, &mut value));
        }
    }

    /// `Cache-Status` (RFC 9211), behind those of caches nearer to the origin.
    /// Adds what players are told of the way to them, where the site does that.
    fn tell_players(&self, head: &mut ResponseHead, is_stored: bool, bytes: Option<u64>) {
        let settings = &self.task.site.settings;
        if settings.media.cmsd {
            let (name, delay) = (&settings.cache.name, self.started.elapsed());
            media::tell(&mut head.fields, name, &self.task.client, delay, is_stored, bytes);
        }
    }

    fn add_cache_status(
        &self,
        object: Option<(&StoredHead, &Found)>,
        reason: Reason,
        stored: bool,
        head: &mut ResponseHead,
    ) {
        let cache = &self.task.site.settings.cache;
        if !cache.cache_status {
            return;
        }
        let mut status = CacheStatus { cache: &cache.name, ..CacheStatus::default() };
        match object {
            Some((stored_head, found)) if found.hit || reason.is_hit() => {
                status.hit = true;
                let ttl_ms = stored_head.freshness.ttl_ms(self.task.now);
                status.ttl_seconds = Some(ttl_ms.div_euclid(1000));
                status.collapsed = found.collapsed;
                status.detail = Some(reason).filter(|reason| *reason != Reason::Hit);
            }
            _ => {
                let forward = reason.forward().or_else(|| self.task.reason.forward());
                status.forward = Some(forward.unwrap_or(Forward::Miss));
                status.stored = stored;
                status.forward_status = (reason == Reason::HitRevalidated).then_some(304);
                // What stays because what came is behind it says so.
                let is_told = !stored || reason == Reason::MediaBehind;
                status.detail = Some(reason).filter(|_| is_told);
            }
        }
        status.append(&mut head.fields);
    }
}

/// The part of a body whose length is not known, where it is there or coming.
fn part_of_growing(body: &Body, wanted: &RangeRequest) -> Part<'static> {
    let RangeRequest::One(RangeSpec::From(first) | RangeSpec::FromTo(first, _)) = *wanted else {
        return Part::Whole;
    };
    let is_there = body.holds(first..first.saturating_add(1));
    match *wanted {
        RangeRequest::One(RangeSpec::From(_) | RangeSpec::FromTo(_, VERY_LARGE)) if is_there => {
            Part::Open(first)
        }
        RangeRequest::One(RangeSpec::FromTo(first, last))
            if body.will_hold(first..last.saturating_add(1)) =>
        {
            Part::One(first..last.saturating_add(1))
        }
        _ => Part::Whole,
    }
}

/// `number` in decimal, without an allocation.
fn decimal(number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut cursor = std::io::Cursor::new(&mut buffer[..]);
    write!(cursor, "{number}").expect("20 digits hold any u64");
    let len = usize::try_from(cursor.position()).unwrap_or(0);
    &buffer[..len]
}
