//! What becomes of an origin's answer.

use super::answered::Answered;
use super::asked::{Asked, Step};
use super::failure::Cause;
use super::prepare::is_for_all;
use super::records::{self, Closing};
use super::{Fetched, entry};
use freshet_base::clock::UnixMillis;
use freshet_cache::{Failure, Key, Lookup, Purge, StoredHead, Ticket, Use};
use freshet_content::heads;
use freshet_http::coding::{Accepted, Coding};
use freshet_http::conditional::{Outcome, Validators};
use freshet_http::fields::Fields;
use freshet_http::freshness::{self, Freshness, Received, Storability, storability};
use freshet_http::message::{Method, ResponseHead};
use freshet_http::range::{ContentRange, RangeRequest, RangeSpec, VERY_LARGE};
use freshet_http::reason::Reason;
use freshet_http::{cache_groups, conditional, hop_by_hop, method, status, update};
use freshet_origin::response_body::OriginBody;
use freshet_origin::{OriginResponse, places};
use freshet_site::keys::resource;
use freshet_site::policy::{Answer, BackendError, BackendResponse, FetchKind};
use freshet_site::synthetic::Synthetic;
use freshet_telemetry::answer_bodies::AnswerBody;
use freshet_telemetry::transcript::Tag;
use freshet_wire::h1::{Framing, write};
use std::time::Duration;

impl Asked {
    /// An origin answered.
    pub(super) async fn response(mut self: Box<Self>, response: OriginResponse) -> Step {
        self.note_answer(&response);
        let OriginResponse { mut head, framing, body, upgraded, .. } = response;
        if let Some(connection) = upgraded {
            let origin = self.origin.clone().unwrap_or_default();
            self.reply(Fetched::Switched { head, connection, origin });
            return Step::Over;
        }
        let semantics = self.plan.site.semantics;
        if semantics.refuses_bogus_answers
            && let Some(why) = self.bogus(&head)
        {
            body.discard().await;
            return self.contradicted(why, Some(Closing::Bad)).await;
        }
        let is_part = self.task.request.fields.contains("range");
        if self.plan.is_ahead() && is_part && head.status == 200 {
            // All of a file is more than anybody is known to want. Who waits asks for it.
            self.note_closed(Some(Closing::Body));
            return Step::Over;
        }
        let bytes = body.declared().unwrap_or(0);
        if self.plan.allowance().is_some_and(|allowance| !allowance.covers(bytes)) {
            self.worker.stats.media_ahead_refused.increment();
            self.note_closed(Some(Closing::Body));
            return Step::Over;
        }
        // A policy sees what concerned the connection, and may add to it.
        if !semantics.speaks_of_connections || head.status == 304 {
            hop_by_hop::strip(&mut head.fields);
        }
        if self.is_from_cache() {
            // It is at a port of that cache (RFC 7838 §2), and not of the host that clients of this node know.
            head.fields.remove("alt-svc");
        }
        if self.plan.hides_port {
            places::of_any_port(&self.plan.client, &mut head.fields);
        }
        if let (304, Some(stale)) = (head.status, &self.plan.stale) {
            let validates = |stored: &StoredHead| update::validates(&stored.fields, &head.fields);
            if semantics.trusts_any_304 || stale.with_head(validates) {
                body.discard().await;
                return self.not_modified(&head).await;
            }
            // It is about another representation than the one that is stored (RFC 9111 §4.3.3).
            conditional::strip(&mut self.task.request.fields);
            self.plan.stale = None;
            return self.ask_again(body).await;
        }
        if self.confirms_another(&head) {
            conditional::strip(&mut self.task.request.fields);
            return self.ask_again(body).await;
        }
        if self.plan.ticket.is_some()
            && semantics.serves_stale_on_error
            && status::is_stale_if_error(head.status)
            && self.has_stale()
        {
            // RFC 5861 §4
            let detail = format_args!("the origin answered {}", head.status);
            return self.fail(Cause::Status(head.status).failure(detail));
        }
        self.weigh(head, framing, body).await
    }

    /// Takes note of what an origin says, whatever becomes of it.
    fn note_answer(&mut self, response: &OriginResponse) {
        self.task.now = UnixMillis::now();
        let origin = self.origin.as_deref().unwrap_or_default();
        records::answered(&self.task.transcript, origin, response);
        let (method, status) = (&self.task.request.method, response.head.status);
        let kind = AnswerBody::of(method, status, response.framing);
        self.worker.stats.answer_bodies.note(kind);
        let remote = response.facts.remote;
        self.task.origin_address = remote.and_then(|remote| remote.socket_address());
        self.is_connected = true;
        self.framing = response.framing;
        self.closing = Closing::of(&response.head, &response.framing, &self.task.request);
        self.account.add(&self.task.request, self.body_bytes_sent, Some(&response.head));
    }

    /// Asks once more, with what was changed in the request. Nobody wants this answer.
    async fn ask_again(mut self: Box<Self>, body: OriginBody) -> Step {
        body.discard().await;
        self.note_closed(self.closing);
        Step::Again(self)
    }

    /// An answer that is about what was asked for: what it changes elsewhere, whether it may be kept, and whether
    /// another would be better.
    async fn weigh(
        mut self: Box<Self>,
        head: ResponseHead,
        framing: Framing,
        body: OriginBody,
    ) -> Step {
        let semantics = self.plan.site.semantics;
        let changes = semantics.follows_methods.then(|| self.changes(&head)).flatten();
        if let Some(changes) = &changes {
            Box::pin(changes.tell_homes(&self.worker)).await;
        }
        if semantics.follows_methods {
            self.forget_groups(&head).await;
            self.invalidate(&head);
        }
        let mut answer = self.judge(head);
        if let Some(changes) = &changes {
            Box::pin(changes.tell_others(&self.worker)).await;
        }
        self.advise(&mut answer);
        if self.lacks_known(answer.head.status) && self.turns_elsewhere(answer.head.status) {
            return self.ask_again(body).await;
        }
        if self.depends_on_range(&answer) {
            // Others would get what only a part was refused with.
            self.task.request.fields.remove("range");
            self.task.request.fields.remove("if-range");
            return self.ask_again(body).await;
        }
        if self.is_unchanged(&answer.head) && !self.is_asked_for_all() {
            heads::vary_by_encoding(&mut answer.head.fields);
        }
        if self.is_under_others_coding(&answer.head) {
            // It is not to be changed, so it is asked for as this client takes it.
            let own = self.plan.client.fields.get("accept-encoding").map(<[u8]>::to_vec);
            self.task.request.fields.remove("accept-encoding");
            if let Some(own) = own {
                self.task.request.fields.append("Accept-Encoding", own);
            }
            return self.ask_again(body).await;
        }
        self.put_to_policy(answer, framing, body).await
    }

    /// The policy has its say on an answer, and that is done.
    async fn put_to_policy(
        mut self: Box<Self>,
        mut answer: Answer,
        framing: Framing,
        mut body: OriginBody,
    ) -> Step {
        let site = self.plan.site.clone();
        let policy = &*site.policy;
        let length = body.declared();
        let outcome = policy.backend_response(&mut self.task, &mut answer);
        if site.semantics.refuses_bogus_answers
            && let Some(why) = self.misplaced_part(&answer.head, length)
        {
            let closing = self.closing_unread(&body);
            drop(body);
            return match outcome {
                // A page of the policy's own is about nothing that the origin says.
                BackendResponse::Error(status, reason) => {
                    self.note_contradiction(&why, closing);
                    self.made_up(status, reason).await
                }
                _ => self.contradicted(&why, closing).await,
            };
        }
        match outcome {
            BackendResponse::Deliver
                if answer.head.status >= 400 && self.plan.allowance().is_some() =>
            {
                // It may have been asked for too early. Who asks for it asks again.
                self.worker.stats.media_ahead_failed.increment();
                body.discard().await;
                self.note_closed(self.closing);
                Step::Over
            }
            BackendResponse::Deliver => {
                if write::closes(&answer.head.fields) {
                    body.close_after();
                    self.closing = self.closing.or(Some(Closing::AsAnswered));
                }
                body.release();
                hop_by_hop::strip(&mut answer.head.fields);
                self.hold_manifest(&mut answer, &framing);
                match Answered::new(self, answer, framing, body).await {
                    Ok(answered) => Step::Answered(answered),
                    Err((asked, broken)) => asked.body_failed(broken, None).await,
                }
            }
            BackendResponse::Retry => {
                self.note_closed(self.closing_unread(&body));
                drop(body);
                Step::Again(self)
            }
            BackendResponse::Abandon => {
                self.note_closed(self.closing_unread(&body));
                drop(body);
                self.abandon()
            }
            BackendResponse::Error(status, reason) => {
                self.note_closed(self.closing_unread(&body));
                drop(body);
                self.made_up(status, reason).await
            }
        }
    }

    /// Whether who answered is a parent or a sibling.
    fn is_from_cache(&self) -> bool {
        let upstreams = &self.task.site.upstreams;
        self.answered.as_ref().is_some_and(|origin| upstreams.is_parent(origin.id))
    }

    /// Whether a 304 to a client's own condition is about none of what that client has, by its tag.
    fn confirms_another(&self, head: &ResponseHead) -> bool {
        let request = &self.task.request;
        let is_judged = head.status == 304
            && !self.plan.site.semantics.trusts_any_304
            && request.fields.contains("if-none-match");
        let etag = head.fields.get("etag").filter(|_| is_judged);
        etag.is_some_and(|etag| {
            let validators = Validators { etag: Some(etag), ..Validators::default() };
            let outcome = conditional::evaluate(&request.fields, &request.method, &validators, 200);
            outcome != Outcome::NotModified
        })
    }

    /// Whether an answer that would be kept may be one to the `Range` that was sent along, and to
    /// no other request, or is a part of what is read whole.
    fn depends_on_range(&self, answer: &Answer) -> bool {
        (!matches!(answer.head.status, 200 | 206) || self.is_part_of_manifest(answer))
            && answer.uncacheable.is_none()
            && self.plan.kind != FetchKind::Pass
            && self.plan.site.semantics.asks_for_parts
            && self.task.request.fields.contains("range")
    }

    /// Whether an answer that nobody may change (RFC 9110 §7.7) is under a coding that it was asked for on behalf
    /// of all, and that this client does not take.
    fn is_under_others_coding(&self, head: &ResponseHead) -> bool {
        let client = &self.plan.client.fields;
        let own = client.get("accept-encoding");
        self.is_unchanged(head)
            && self.is_asked_for_all()
            && self.task.request.fields.get("accept-encoding") != own
            && Coding::of(&head.fields)
                .is_some_and(|coding| Accepted::of(client).best(&[coding]).is_none())
    }

    /// Whether an answer to be kept comes to its clients as it is, whatever codings there are here.
    fn is_unchanged(&self, head: &ResponseHead) -> bool {
        self.plan.kind != FetchKind::Pass
            && !self.plan.site.semantics.forwards_as_it_is
            && heads::forbids_change(&head.fields)
    }

    /// Whether an origin was asked for a coding that all are given something of.
    fn is_asked_for_all(&self) -> bool {
        let asked = self.task.request.fields.get("accept-encoding");
        self.plan
            .site
            .coding_for_all(&self.plan.client.fields)
            .is_none_or(|coding| asked == Some(coding.as_bytes()))
    }

    /// Why an answer cannot be what it says it is.
    fn bogus(&self, head: &ResponseHead) -> Option<&'static str> {
        let stale = self.plan.stale.as_ref();
        let has_validator = |stored: &StoredHead| {
            stored.fields.contains("etag") || stored.fields.contains("last-modified")
        };
        let is_conditional = stale.is_some_and(|stale| stale.with_head(has_validator));
        if head.status == 304 && self.plan.kind != FetchKind::Pass && !is_conditional {
            return Some("304 response but not conditional fetch");
        }
        let fields = &head.fields;
        let says_length = fields.get("content-length").is_some_and(|length| length != b"0");
        if head.status == 204 && (says_length || fields.contains("transfer-encoding")) {
            return Some("Body cannot be fetched");
        }
        None
    }

    /// Why the connection of a response is closed whose body nobody wants. Where there is none, it goes
    /// back as ever.
    fn closing_unread(&self, body: &OriginBody) -> Option<Closing> {
        if body.is_ended() { self.closing } else { Some(Closing::AsAnswered) }
    }

    /// Why an answer cannot be the part it says it is, of what was asked for before the policy of the
    /// fetch had its say. `length` is what the answer said of its body.
    fn misplaced_part(&self, head: &ResponseHead, length: Option<u64>) -> Option<String> {
        let value = head.fields.get("content-range")?;
        if !self.plan.site.serves_ranges || !value.get(..5)?.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let Some(part) = ContentRange::parse(value) else {
            return Some("Invalid content-range header".to_owned());
        };
        let wanted = self.plan.client.fields.get("range");
        let Some(wanted) = wanted.filter(|_| self.plan.kind == FetchKind::Pass) else {
            return Some("Unexpected content-range header".to_owned());
        };
        let wanted = RangeRequest::parse(wanted);
        let range = match (part.range(), part.total()) {
            (Some(range), _) => range,
            (None, _) if head.status == 416 => return None,
            (None, total) => 0..total.unwrap_or(0),
        };
        let bytes = range.end.saturating_sub(range.start);
        if let Some(length) = length.filter(|length| *length != bytes) {
            return Some(format!("Expected content length {bytes}, got {length}"));
        }
        let (first, last) = match wanted {
            Some(RangeRequest::One(RangeSpec::FromTo(first, last))) => (first, last),
            Some(RangeRequest::One(RangeSpec::From(first))) => (first, VERY_LARGE),
            _ => return None,
        };
        if first != range.start {
            return Some(format!("Expected low range {}, got {first}", range.start));
        }
        let most = range.end.saturating_sub(1);
        (last < most).then(|| format!("Expected minimum high range {most}, got {last}"))
    }

    /// Whether the answer may be kept, as RFC 9111 has it.
    fn judge(&mut self, head: ResponseHead) -> Answer {
        let now = self.task.now;
        let received = self.received(head.status, &head.fields);
        let storable = storability(&received, &self.freshness());
        let is_pass = self.plan.kind == FetchKind::Pass;
        let (freshness, uncacheable) = match storable {
            Storability::Store(freshness) if !is_pass => (freshness, None),
            Storability::Store(freshness)
                if self.task.request.method == Method::Post
                    && self.plan.site.semantics.follows_methods
                    && !self.plan.names_client
                    && is_for_all(&self.task, &self.plan.client) =>
            {
                self.ticket_for_later();
                (freshness, None)
            }
            Storability::Store(freshness) => (freshness, Some(self.plan.reason)),
            Storability::Refuse(reason) => {
                let reason = if is_pass { self.plan.reason } else { reason };
                (Freshness::from_policy(now, Duration::ZERO), Some(reason))
            }
        };
        // What one client does not want kept, or has provoked, says nothing of what others ask for next. Those that
        // say who they are come in crowds, which would wait for one another.
        let is_own = |reason: &Reason| reason.is_of_request() && *reason != Reason::Authorization;
        let hit_for_miss = uncacheable.as_ref().is_some_and(is_own).then_some(Duration::ZERO);
        Answer { uncacheable, hit_for_miss, ..Answer::new(head, freshness) }
    }

    /// Rules of freshness for what is fetched.
    pub(super) fn freshness(&self) -> freshness::Settings {
        self.plan.site.freshness(&self.plan.client.target)
    }

    /// The answer with all that decides what it may be used for.
    pub(super) fn received<'a>(&'a self, status: u16, response: &'a Fields) -> Received<'a> {
        // A policy may have changed what the origin got, and judges by itself.
        // Nor are fields that rules set the client's.
        let site = &self.plan.site;
        let is_by_client =
            site.semantics.judges_by_client || !site.settings.rules.request_fields.is_empty();
        let asked = if is_by_client { &self.plan.client } else { &self.task.request };
        Received {
            method: &self.task.request.method,
            request: &asked.fields,
            status,
            response,
            request_time: self.asked_at(),
            response_time: self.task.now,
            authority: &self.plan.client.authority,
            target: &self.plan.client.target,
        }
    }

    /// The answer to a POST may serve later GETs (RFC 9110 §9.3.3), so it gets a ticket after all: unless it was
    /// purged by others while it was on its way.
    fn ticket_for_later(&mut self) {
        let mut request = self.plan.client.clone();
        request.method = Method::Get;
        let cache = &self.worker.shared.cache;
        let lookup = cache.lookup(&self.plan.key, &request, self.task.now, &mut |_| Use::Ignore);
        if let Lookup::Miss { ticket, .. } | Lookup::HitForMiss { ticket, .. } = lookup {
            self.plan.ticket = Some(ticket).filter(|it| Some(it.born_seq()) == self.kept_from);
        }
    }

    /// Whether there is a stale object that may be served in place of an error.
    fn has_stale(&self) -> bool {
        let now = self.task.now;
        self.plan
            .stale
            .as_ref()
            .is_some_and(|object| object.with_head(|head| head.may_serve_on_error(now)))
    }

    /// Tags that an answer can be purged by.
    pub(super) fn tags(&self, fields: &Fields) -> Box<[u64]> {
        entry::tags(&self.plan.site.name, &self.plan.client.authority, fields)
    }

    /// The groups that an unsafe request that succeeded makes invalid (RFC 9875 §3).
    async fn forget_groups(&self, head: &ResponseHead) {
        let client = &self.plan.client;
        if method::invalidates(&client.method, head.status) {
            let groups = cache_groups::invalidated(&head.fields);
            let site = &self.plan.site.name;
            self.worker.shared.forget_groups(site, &client.authority, &groups).await;
        }
    }

    /// What an unsafe request that succeeded makes invalid (RFC 9111 §4.4).
    fn invalidate(&mut self, head: &ResponseHead) {
        let shared = &self.worker.shared;
        let client = &self.plan.client;
        let mut place = shared.cache.purge_seq();
        let is_current = client.method == Method::Post && {
            let tags = self.tags(&head.fields);
            !shared.cache.was_purged_since(self.begun, &self.plan.key, &tags)
        };
        // Whoever sent it need not wait until a disk has noted it.
        let mut forget = |key: &Key| {
            place += 1;
            drop(shared.purge(key, Purge::Hard));
        };
        if method::invalidates(&client.method, head.status) {
            forget(&self.plan.key);
        }
        for (authority, target) in method::invalidated(client, head.status, &head.fields) {
            let key = self.plan.site.name.key(shared.cache.secret());
            forget(&resource(key, &self.plan.site, &authority, &target).build());
        }
        self.kept_from = is_current.then_some(place);
    }

    /// Ends a fetch whose answer is none to what was asked, for which its connection is closed like this.
    async fn contradicted(mut self: Box<Self>, why: &str, closing: Option<Closing>) -> Step {
        self.note_contradiction(why, closing);
        self.no_answer(Cause::Contradiction.failure(why)).await
    }

    fn note_contradiction(&mut self, why: &str, closing: Option<Closing>) {
        self.task.transcript.note(Tag::Error, format_args!("{why}"));
        self.note_closed(closing);
        self.worker.stats.fetches_failed.increment();
    }

    /// No origin answered.
    pub(super) async fn no_answer(mut self: Box<Self>, failure: Failure) -> Step {
        self.task.now = UnixMillis::now();
        let stale_helps = self.has_stale();
        let mut page = super::failure::page(&failure, &self.plan.site);
        match self.judge_page(&mut page) {
            BackendError::Retry => Step::Again(self),
            BackendError::Abandon => self.abandon(),
            BackendError::Keep(freshness, keep) => self.keep_page(page, freshness, keep).await,
            BackendError::Page(life) => self.private_page(page, Reason::OriginError, life),
            BackendError::Deliver if stale_helps || page.head.status == failure.status => {
                self.fail(failure)
            }
            BackendError::Deliver => self.private_page(page, failure.reason, None),
        }
    }

    /// What the policy makes of a page in the place of an answer.
    fn judge_page(&mut self, page: &mut Synthetic) -> BackendError {
        self.was_paged = true;
        // What only this client met with is nothing to others.
        let is_own = self.is_crowded || self.body_error.is_some();
        let waiters = self.plan.ticket.as_ref().map_or(0, Ticket::waiters);
        self.task.is_awaited = waiters > 0 && !is_own;
        let site = self.plan.site.clone();
        site.policy.backend_error(&mut self.task, page)
    }

    /// A policy answers in the origin's place.
    pub(super) async fn made_up(
        mut self: Box<Self>,
        status: u16,
        reason: Option<Box<str>>,
    ) -> Step {
        let mut page = Synthetic::page(status, reason);
        match self.judge_page(&mut page) {
            BackendError::Retry => Step::Again(self),
            BackendError::Abandon => self.abandon(),
            BackendError::Keep(freshness, keep) => self.keep_page(page, freshness, keep).await,
            BackendError::Deliver => self.private_page(page, Reason::Synthetic, None),
            BackendError::Page(life) => self.private_page(page, Reason::Synthetic, life),
        }
    }
}
