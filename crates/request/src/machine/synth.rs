//! Responses the node makes itself. Every error a client sees is made here.

use super::{Machine, State};
use crate::client_exchange::{Facts, Reply, Request, Response, Unsaid};
use crate::delivery::ResponseBody;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_cache::Failure;
use freshet_content::heads::remove_content_fields;
use freshet_fetch::failure::{self, RETRY_AFTER_S};
use freshet_http::cache_status::CacheStatus;
use freshet_http::date;
use freshet_http::message::{Method, ResponseHead, reason_phrase};
use freshet_http::reason::Reason;
use freshet_site::policy::Deliver;
use freshet_site::synthetic::Synthetic;
use freshet_site::wishes::hops_left;
use freshet_worker::worker::Worker;

impl Machine<'_> {
    /// A response of this status, as the policy wants it.
    pub(super) fn synth(&mut self, status: u16, reason: Option<Box<str>>) -> State {
        let said = reason.clone().or_else(|| Some(reason_phrase(status % 1000).into()));
        let others = self.refusal.take();
        let is_ours = others.is_none();
        let mut page = others.map_or_else(|| Synthetic::page(status, reason), |page| *page);
        if status == 503
            && !is_refused_at_door(self.task.reason)
            && !page.head.fields.contains("retry-after")
        {
            page.head.fields.append("Retry-After", RETRY_AFTER_S);
        }
        let is_asked = status == 204 && hops_left(&self.task.request) == Some(0);
        if is_asked {
            page.head.fields.remove("content-type");
        }
        if (status == 405 || is_asked) && is_ours {
            page.head.fields.append("Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
        }
        if is_ours {
            self.task.site.error_pages.dress(self.task.reason, &mut page);
        }
        self.advertise(&mut page.head);
        self.tell_cache_kept_out(&mut page.head);
        let site = self.task.site.clone();
        let reason = if self.task.reason.group() == freshet_http::reason::Group::Error
            || matches!(self.task.reason, Reason::OnlyIfCached | Reason::Purge)
        {
            self.task.reason
        } else {
            Reason::Synthetic
        };
        // The last word on all of its fields has a site with rules about them; a policy makes pages of its own.
        let is_ruled = !site.settings.rules.response_fields.is_empty();
        if is_ruled {
            note_reason(self, reason, &mut page.head);
            self.admission.tell(&mut page.head.fields);
        }
        let policy = &*site.policy;
        let most = self.task.site.settings.limits.restarts_max;
        match policy.synth(&mut self.task, &mut page) {
            Deliver::Deliver => {}
            // What was refused stays so, whatever is made of its page.
            Deliver::Restart if self.task.restarts <= most && !self.is_refused => {
                return State::Restart(said);
            }
            // It was asked for this page because it has begun too often already; and it is a page.
            Deliver::Restart | Deliver::Dress => {}
            Deliver::Synth(status, reason) => page = Synthetic::page(status, reason),
        }
        if is_ruled {
            self.admission.has_told();
        } else {
            note_reason(self, reason, &mut page.head);
        }
        if !site.has_room_for(page.body.len(), &self.worker.shared.cache) {
            let unsaid = Unsaid { status: page.head.status, facts: Facts::local(reason) };
            return State::Done(Reply::Hangup(unsaid));
        }
        let mut response = response(self, page, reason);
        if let Some(total) = response.length {
            let body = std::mem::replace(&mut response.body, ResponseBody::Empty);
            (response.body, response.length) =
                self.part_of_passed(body, total, true, &mut response.head);
        }
        State::Done(Reply::Response(Box::new(response)))
    }
}

/// A response with the page of its site in the place of its body. What else its head says, as how to sign in
/// or when to come again, is for the client.
pub(super) fn dressed(machine: &Machine<'_>, mut head: ResponseHead) -> Response {
    machine.worker.stats.synthetic.increment();
    remove_content_fields(&mut head.fields);
    let mut page = Synthetic { head, body: Bytes::new() };
    machine.task.site.error_pages.dress(Reason::Synthetic, &mut page);
    said(machine, page, Reason::Synthetic)
}

/// Whether it was said already when its client may come again.
fn is_refused_at_door(reason: Reason) -> bool {
    matches!(reason, Reason::Maintenance | Reason::LocalLimit)
}

/// What a client gets when a fetch failed.
pub(super) fn failure(machine: &Machine<'_>, failure: &Failure) -> Response {
    let mut page = failure::page(failure, &machine.task.site);
    machine.task.site.error_pages.dress(failure.reason, &mut page);
    note_reason(machine, failure.reason, &mut page.head);
    response(machine, page, failure.reason)
}

/// `Cache-Status` of what the node makes itself, where it says so.
fn note_reason(machine: &Machine<'_>, reason: Reason, head: &mut ResponseHead) {
    let cache = &machine.task.site.settings.cache;
    if cache.cache_status {
        CacheStatus { cache: &cache.name, detail: Some(reason), ..CacheStatus::default() }
            .append(&mut head.fields);
    }
}

/// Adds `Date` where there is none: what the node makes has one, and so has what it forwards (RFC
/// 9110 §6.6.1).
pub(crate) fn ensure_date(head: &mut ResponseHead, now: UnixMillis) {
    if !head.fields.contains("date") {
        let mut value = Vec::with_capacity(date::IMF_FIXDATE_BYTES);
        date::write(now, &mut value);
        head.fields.append("Date", value);
    }
}

/// The answer to a request for a host that no site is for (RFC 9110 §15.5.20).
pub(super) fn misdirected(worker: &Worker, request: &Request) -> Response {
    worker.stats.synthetic.increment();
    let (head, text) = refusal(421, "no site is for this host");
    let length = Some(text.len() as u64);
    let is_head = request.head.method == Method::Head;
    let body = if is_head { ResponseBody::Empty } else { ResponseBody::Inline(text.into()) };
    let facts = Facts::local(Reason::UnknownHost);
    Response::new(head, body, length, facts)
}

/// The head and the page of a refusal of what was not worth a request, for sessions.
pub fn refusal(status: u16, reason: &str) -> (ResponseHead, String) {
    let mut head = ResponseHead::new(status);
    head.fields.append("Content-Type", "text/plain; charset=utf-8");
    ensure_date(&mut head, UnixMillis::now());
    let text = format!("{status} {}: {reason}\n", head.reason_phrase());
    (head, text)
}

fn response(machine: &Machine<'_>, page: Synthetic, reason: Reason) -> Response {
    machine.worker.stats.synthetic.increment();
    let Synthetic { mut head, body } = page;
    ensure_date(&mut head, machine.task.now);
    said(machine, Synthetic { head, body }, reason)
}

fn said(machine: &Machine<'_>, page: Synthetic, reason: Reason) -> Response {
    let Synthetic { head, body } = page;
    let length = Some(body.len() as u64);
    let body =
        if machine.task.wants_content { ResponseBody::Inline(body) } else { ResponseBody::Empty };
    Response::new(head, body, length, Facts::local(reason))
}
