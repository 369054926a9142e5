//! What is counted and logged of a request when its response is over.

use super::tunnel::Moved;
use freshet_access::certificates::Shown;
use freshet_access::client::Client;
use freshet_access::identity::Identity;
use freshet_base::clock::UnixMillis;
use freshet_channels::Said;
use freshet_http::message::{RequestHead, ResponseHead, Scheme, Version};
use freshet_http::reason::Reason;
use freshet_media::cmcd;
use freshet_net::tls::client_auth::ClientCertificate;
use freshet_request::client_exchange::Facts;
use freshet_site::site::Site;
use freshet_telemetry::exemplars::Exemplar;
use freshet_telemetry::log::{Record, fields};
use freshet_telemetry::transcript::{Message, Outcome, Tag, Transcript};
use freshet_worker::worker::Worker;
use std::rc::Rc;
use tokio::time::Instant;

/// Facts of one request, gathered while it is served.
pub(super) struct Sent {
    /// Method, authority, target, user agent, referer, what a player says of itself and fields that are
    /// logged, one after another: the head itself goes to the machine, which may change it.
    text: String,
    ends: [usize; 7],
    /// Fields of the response that are logged.
    response_fields: String,
    client: Option<std::net::IpAddr>,
    /// The certificate the client showed.
    shown: Option<Rc<Shown>>,
    tls: bool,
    version: Version,
    /// The request's number.
    pub(super) id: u64,
    /// What happens to the request.
    pub(super) transcript: Rc<Transcript>,
    time: UnixMillis,
    started: Instant,
    first_byte_us: u64,
    head_bytes: u64,
    request_head_bytes: u64,
    /// Body bytes received.
    pub(super) request_body_bytes: u64,
    /// Body bytes sent so far.
    pub(super) body_bytes: u64,
    /// What a player said of itself, where one did.
    said: Option<Said>,
    /// Where the request was tunnelled: bytes of the head an origin got, and of what followed.
    piped: Option<(u64, Moved)>,
}

impl Sent {
    /// Begins with a request's head.
    pub(super) fn begin(
        worker: &Worker,
        head: &RequestHead,
        client: &Client,
        request_head_bytes: usize,
    ) -> Self {
        worker.stats.requests.increment();
        let id = worker.next_id();
        client.transcript.note(Tag::Link, format_args!("req {id} rxreq"));
        let scribe = worker.shared.scribe.as_ref();
        let address = client.address.map(|address| address.ip());
        let transcript = Transcript::begin_request(scribe, id, client.id, address, head);
        let is_said = cmcd::is_said(&head.target, &head.fields);
        let snapshot = worker.snapshot();
        let asks_site = is_said || transcript.is_on() || snapshot.sites.logs_fields();
        let site = if asks_site { snapshot.sites.of(&head.authority) } else { None };
        if transcript.is_on() {
            transcript.note_start();
            transcript.timestamp("Req");
            // Which policy looks at it.
            if let Some(name) = site.and_then(|site| site.policy.name(None)) {
                transcript.note(Tag::VCL_use, format_args!("{name}"));
            }
            transcript.note(Tag::ReqStart, format_args!("{}", client.endpoint()));
            transcript.request(Message::Request, head);
        }
        if head.version == Version::Http2 {
            worker.stats.requests_h2.increment();
        }
        if head.version == Version::Http3 {
            worker.stats.requests_h3.increment();
        }
        // Bytes that are no text are not to hide what stands around them.
        let said = |name: &str| String::from_utf8_lossy(head.fields.get(name).unwrap_or_default());
        let (user_agent, referer) = (said("user-agent"), said("referer"));
        let mut room = None;
        let player = match site {
            Some(site) if is_said && site.settings.media.read => {
                player(worker, site, head, &mut room)
            }
            _ => None,
        };
        let (method, says) = (head.method.as_str(), player.map_or("", |(_, text)| text));
        let names = site.map(|site| &site.settings.log_fields.request);
        let logged = names.map_or_else(String::new, |names| fields::logged_of(names, head));
        let parts = [method, &head.authority, &head.target, &user_agent, &referer, says, &logged];
        let mut text = String::with_capacity(parts.iter().map(|part| part.len()).sum());
        let mut ends = [0; 7];
        for (end, part) in ends.iter_mut().zip(parts) {
            text.push_str(part);
            *end = text.len();
        }
        Self {
            text,
            ends,
            response_fields: String::new(),
            client: address,
            shown: client.shown.clone(),
            tls: client.tls.is_some(),
            version: head.version,
            id,
            request_head_bytes: request_head_bytes as u64,
            request_body_bytes: 0,
            transcript: Rc::new(transcript),
            time: UnixMillis::now(),
            started: Instant::now(),
            first_byte_us: 0,
            head_bytes: 0,
            body_bytes: 0,
            said: player.map(|(said, _)| said),
            piped: None,
        }
    }

    /// Whether its player says something of itself.
    pub(super) fn has_player(&self) -> bool {
        self.said.is_some()
    }

    /// Whether it is better sent before others of its connection, by what its player says.
    pub(super) fn is_urgent(&self) -> bool {
        self.said.is_some_and(|said| said.is_urgent)
    }

    /// The head is about to be sent, which takes so many bytes.
    pub(super) fn first_byte(&mut self, head: &ResponseHead, facts: &Facts, head_bytes: usize) {
        self.first_byte_us = micros(self.started);
        self.head_bytes = head_bytes as u64;
        if let Some(site) =
            facts.site.as_deref().filter(|site| !site.settings.log_fields.is_empty())
        {
            self.response_fields = fields::logged(&site.settings.log_fields.response, &head.fields);
        }
    }

    /// The request was tunnelled, and that is over.
    pub(super) fn piped(&mut self, head_bytes: usize, moved: Moved) {
        self.piped = Some((head_bytes as u64, moved));
        self.body_bytes = moved.down;
    }

    /// Notes the bytes of the request and of its response.
    fn note_account(&self) {
        self.transcript.timestamp("Resp");
        let request = (self.request_head_bytes, self.request_body_bytes);
        let response = (self.head_bytes, self.body_bytes);
        self.transcript.note(
            Tag::ReqAcct,
            format_args!(
                "{} {} {} {} {} {}",
                request.0,
                request.1,
                request.0 + request.1,
                response.0,
                response.1,
                response.0 + response.1
            ),
        );
    }

    /// The response is over: counts and logs it.
    pub(super) fn end(self, worker: &Worker, head: &ResponseHead, facts: &Facts, aborted: bool) {
        // What is said to a client that left with its own body half-way is said to nobody.
        let aborted = aborted || facts.reason == Reason::ClientGone;
        let body_bytes = self.body_bytes;
        if let Some((head_bytes, Moved { up, down })) = self.piped {
            self.transcript.timestamp("PipeSess");
            let own = self.request_head_bytes;
            self.transcript.note(Tag::PipeAcct, format_args!("{own} {head_bytes} {up} {down}"));
        } else {
            self.note_account();
        }
        if self.transcript.is_on() {
            let cache_status = head.fields.get("cache-status");
            let scheme = if self.tls { Scheme::Https } else { Scheme::Http };
            self.transcript.answered(&Outcome { scheme, status: head.status, cache_status });
        }
        let stats = &worker.stats;
        stats.body_bytes.add(if self.piped.is_some() { 0 } else { body_bytes });
        stats.head_bytes.add(self.head_bytes);
        if let Some(count) = stats.statuses.get(usize::from(head.status / 100)) {
            count.increment();
        }
        let is_hit = facts.reason.is_hit();
        if is_hit {
            stats.hit_body_bytes.add(body_bytes);
        }
        if facts.hit {
            stats.hit_first_byte_us.record(self.first_byte_us);
        } else {
            stats.miss_first_byte_us.record(self.first_byte_us);
        }
        if let Some(came) = facts.news_at {
            let sent_us = self.time.0.saturating_mul(1000).saturating_add(self.first_byte_us);
            stats.news_us.record(sent_us.saturating_sub(came.0.saturating_mul(1000)));
        }
        if aborted {
            stats.responses_aborted.increment();
        }
        if let Some(said) = &self.said {
            let sessions = &worker.shared.sessions;
            stats.cmcd_requests.increment();
            let network = || worker.snapshot().geo.asn(self.client?);
            let heard = sessions.note(said, body_bytes, UnixMillis::now(), network);
            stats.cmcd_starvations.add(u64::from(heard.is_starved));
            stats.cmcd_sessions.add(u64::from(heard.is_new));
        }
        if let Some(site) = &facts.site {
            worker.count_site(site, |count| {
                count.requests.increment();
                count.body_bytes.add(body_bytes);
                if is_hit {
                    count.hits.increment();
                    count.hit_body_bytes.add(body_bytes);
                }
                if head.status >= 500 {
                    count.errors.increment();
                }
            });
        }
        let site = facts.site.as_deref();
        let shown = self
            .shown
            .as_ref()
            .and_then(|shown| shown.proved_to(site.and_then(|site| site.client_auth.as_ref())));
        let trace_id = self.transcript.trace_id();
        if let Some(trace_id) = &trace_id {
            let (trace_id, first_byte_us) = (trace_id.as_str().into(), self.first_byte_us);
            let exemplar = Exemplar { trace_id, first_byte_us, at: UnixMillis::now() };
            worker.shared.exemplars.note(facts.hit, exemplar);
        }
        let identity = facts.identity.as_deref();
        if let Some(call) = identity.and_then(|identity| identity.call.as_ref()) {
            call.note(head.status, self.first_byte_us, body_bytes);
        }
        let proved = |part: fn(&ClientCertificate) -> &str| shown.map_or("", part);
        let part = |index: usize| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.text[start..self.ends[index]]
        };
        worker.log(&Record {
            time: self.time,
            first_byte_us: self.first_byte_us,
            total_us: micros(self.started),
            status: head.status,
            body_bytes,
            head_bytes: self.head_bytes,
            client: self.client,
            reason: facts.reason as u16,
            hit: is_hit,
            aborted,
            tls: self.tls,
            id: self.id,
            method: part(0),
            authority: part(1),
            target: part(2),
            version: self.version.as_str(),
            user_agent: part(3),
            referer: part(4),
            cmcd: part(5),
            origin: facts.origin.as_deref().unwrap_or(""),
            site: facts.site.as_ref().map_or("", |site| site.name.as_str()),
            client_name: proved(ClientCertificate::name),
            client_subject: proved(|one| &one.subject),
            client_issuer: proved(|one| &one.issuer),
            client_serial: proved(|one| &one.serial),
            client_fingerprint: proved(|one| &one.fingerprint),
            user: identity.map_or("", Identity::user),
            token_id: identity.map_or("", Identity::token_id),
            trace_id: trace_id.as_deref().unwrap_or(""),
            request_fields: part(6),
            response_fields: &self.response_fields,
        });
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// What a player says of itself with a request of a site, and how.
fn player<'a>(
    worker: &Worker,
    site: &Site,
    head: &RequestHead,
    room: &'a mut Option<[u8; cmcd::BYTES_MAX]>,
) -> Option<(Said, &'a str)> {
    let text = cmcd::said(&head.target, &head.fields, room.insert([0; cmcd::BYTES_MAX]))?;
    Some((worker.shared.sessions.said(site.name.as_str(), text), text))
}
