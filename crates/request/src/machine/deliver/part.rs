//! Which part of a response is asked for: conditions first, then ranges (RFC 9110 §13.2.2).

use crate::delivery::ResponseBody;
use crate::delivery::coded::Coded;
use crate::machine::{Found, Machine};
use freshet_base::clock::UnixMillis;
use freshet_cache::Object;
use freshet_content::chain::Chain;
use freshet_fetch::SentPart;
use freshet_http::conditional::{self, Outcome, Validators};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, ResponseHead};
use freshet_http::range::{ContentRange, RangeRequest, RangeSpec, Resolved, VERY_LARGE};
use freshet_site::policy::Shaping;
use freshet_store::Body;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// The longest range that is waited for of a body whose length is not known: half of what a body in
/// transit holds.
const GROWING_BYTES_MAX: u64 = 256 << 10;

/// What of an object is sent.
pub(super) enum Part<'a> {
    Whole,
    AsSent(&'a SentPart),
    One(Range<u64>),
    /// From here on, for as long as it comes.
    Open(u64),
    Many(Vec<Range<u64>>),
    Nothing(u16),
}

impl Machine<'_> {
    /// Waits for the bytes a range asks for of a body whose length is not known yet, where they
    /// come soon: whether there are any has to be known before the head is sent.
    pub(super) async fn await_part(&mut self, found: &mut Found) {
        let request = &self.task.request;
        let body = found.object.body();
        let is_growing = body.total().is_none()
            && found.sent.is_none()
            && !self.task.site.semantics.is_strict_with_ranges;
        let Some(value) = request.fields.get("range").filter(|_| is_growing) else { return };
        let (first, awaited) = match RangeRequest::parse(value) {
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

    /// Which part of the representation the request is answered with: conditions first, then
    /// ranges (RFC 9110 §13.2.2). What `is_packed_here` may be other bytes each time it is made,
    /// whatever its text was made of, so nobody's part is added to by a date (§8.8.1, §13.1.5).
    pub(super) fn part(
        &self,
        head: &ResponseHead,
        total: Option<u64>,
        growing: Option<&Arc<Body>>,
        is_packed_here: bool,
    ) -> Part<'static> {
        // A condition is about what would succeed (RFC 9110 §13.2.1), a range about a 200.
        let is_success = matches!(head.status, 200 | 203);
        if !is_success && !self.has_parts(head.status) {
            return Part::Whole;
        }
        let request = &self.task.request;
        // What a policy makes of the method comes too late to change what was asked for.
        let is_policys = self.task.site.semantics.is_strict_with_ranges;
        let takes_parts =
            if is_policys { self.task.wants_content } else { request.method == Method::Get };
        let has_range =
            takes_parts && self.has_parts(head.status) && request.fields.contains("range");
        if !has_range && !conditional::is_conditional(&request.fields) {
            return Part::Whole;
        }
        let validators = self.validators(&head.fields);
        let judged =
            || conditional::evaluate(&request.fields, &request.method, &validators, head.status);
        match if is_success { judged() } else { Outcome::Proceed } {
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
        // A policy has one coding, which is put on in one way, and answers as Varnish does.
        let modified = validators.last_modified.filter(|_| is_policys || !is_packed_here);
        let of_bytes = Validators { last_modified: modified, ..validators };
        if if_range.is_some_and(|value| !conditional::if_range_matches(value, &of_bytes)) {
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

    /// Whether there are parts of what has this status: of what a policy has cut by name there are, whatever it is.
    fn has_parts(&self, status: u16) -> bool {
        let Shaping { range, is_chosen, .. } = self.task.shaping;
        let is_named = is_chosen && range && self.task.site.semantics.is_strict_with_ranges;
        status == 200 || (is_named && !matches!(status, 204 | 304))
    }

    /// Whether an origin has to be asked for something of what is wanted of a stored object, of which only other
    /// parts are here (RFC 9111 §3.4). What is being fetched for others is as good as here.
    pub(super) fn lacks_part(&self, object: &Object, stored: &Fields) -> bool {
        let (body, request) = (object.body(), &self.task.request);
        let Some(total) = body.total().filter(|_| !body.is_complete()) else { return false };
        let is_elsewhere = body.source().is_some();
        if is_elsewhere
            || !self.task.wants_content
            || self.task.site.semantics.is_strict_with_ranges
        {
            return false;
        }
        let validators = self.validators(stored);
        let outcome = conditional::evaluate(&request.fields, &request.method, &validators, 200);
        let range = request.fields.get("range").and_then(RangeRequest::parse);
        let lacks = |range: Range<u64>| !body.will_hold(range);
        match range.map(|range| range.resolve(total)) {
            _ if outcome != Outcome::Proceed => false,
            Some(Resolved::One(range)) => lacks(range),
            Some(Resolved::Many(ranges)) => ranges.into_iter().any(lacks),
            Some(Resolved::Unsatisfiable) => false,
            None => lacks(0..total),
        }
    }

    /// What a condition is compared with.
    pub(super) fn validators<'a>(&self, fields: &'a Fields) -> Validators<'a> {
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
    pub(super) fn asks_for_other_part(&self, fields: &Fields) -> bool {
        let request = &self.task.request.fields;
        if !self.task.site.semantics.is_strict_with_ranges || !request.contains("range") {
            return false;
        }
        let Some(tag) = fields.get("etag") else { return false };
        let is_weak = tag.starts_with(b"W/");
        request.contains("if-none-match")
            && (is_weak || !request.tokens("if-none-match").any(|known| known == tag))
    }

    /// The part that is asked for of what came whole from an origin or was made here, where a policy
    /// expects that. A range in other units, or of several parts, is what the origin did not answer
    /// either; one that makes no sense is refused where it `was_made_here`.
    pub(in crate::machine) fn part_of_passed(
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
        let is_asked = judges && self.task.wants_content && self.has_parts(head.status);
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
        if let Some(Resolved::One(range)) = wanted.map(|wanted| wanted.resolve(total)) {
            self.name_status(head, 206);
            head.fields.set("Content-Range", ContentRange::part(&range, Some(total)).value());
            let length = range.end - range.start;
            let is_empty = matches!(body, ResponseBody::Empty);
            let cut = || Coded::new(body, Chain::new([]), range);
            let body =
                if is_empty { ResponseBody::Empty } else { ResponseBody::Coded(Box::new(cut())) };
            return (body, Some(length));
        }
        self.name_status(head, 416);
        head.fields.set("Content-Range", ContentRange::Unsatisfied { total }.value());
        (ResponseBody::Empty, Some(0))
    }
}

/// The part of a body whose length is not known, where it is there or coming.
fn part_of_growing(body: &Body, wanted: &RangeRequest) -> Part<'static> {
    let RangeRequest::One(RangeSpec::FromTo(first, last)) = *wanted else {
        // A last byte has to be named, and who asks to the end takes one that is not known for the length.
        return Part::Whole;
    };
    // Who names this one knows what it stands for (RFC 8673 §2.2).
    if last == VERY_LARGE && body.holds(first..first.saturating_add(1)) {
        return Part::Open(first);
    }
    let range = first..last.saturating_add(1);
    if body.will_hold(range.clone()) { Part::One(range) } else { Part::Whole }
}
