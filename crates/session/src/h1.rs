//! HTTP/1 connections: requests one after another, each answered before the next is read.

use super::bogus;
use super::deadline::Deadline;
use super::finish::Sent;
use super::h1_body::{BodyState, H1Body, Progress};
use super::h1_io::{Broken, SharedIo};
use super::h1_send::Sending;
use super::keeping::Keeping;
use super::leaving::Leaving;
use super::patience::Terms;
use super::refusal::{Asked, Refusal, Told};
use super::tunnel;
use super::{First, h2};
use freshet_access::client::{Client, End};
use freshet_access::forwarded;
use freshet_access::ledger::requests::{ConnectionMemory, HEAD_FACTOR};
use freshet_base::clock::UnixMillis;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead, Scheme, Version};
use freshet_http::reason::Reason;
use freshet_net::stream::Stream;
use freshet_request::client_exchange::{Facts, Reply, Request, Response, Switch, Tunnel, Unsaid};
use freshet_site::client_body::RequestBody;
use freshet_site::interim::{Either, Interim, Working};
use freshet_site::semantics::Manners;
use freshet_telemetry::transcript::{Side, Tag, Transcript};
use freshet_wire::h1::Framing;
use freshet_wire::h1::request::{Request as Parsed, RequestError};
use freshet_wire::h1::write::{self, response_head};
use freshet_wire::h2::Upgrade;
use freshet_worker::worker::Worker;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// How long a closing connection is read on, so that the last response is not lost to a reset.
const LINGER: Duration = Duration::from_secs(2);

/// Serves the connection until it ends. `first` was read from it already.
pub(super) async fn serve(worker: Rc<Worker>, stream: Stream, client: Rc<Client>, first: First) {
    let begun = (!first.bytes.is_empty()).then_some(first.begun);
    let io = SharedIo::new(stream, first.bytes);
    let memory = worker.connection_memory();
    let (deadline, out) = (Deadline::new(), Vec::new());
    let mut session = Session { worker, io, client, deadline, begun, memory, out };
    loop {
        match session.one().await {
            Ok(Next::Again) => {
                if !session.io.input_is_empty() {
                    session.worker.stats.requests_pipelined.increment();
                }
            }
            Ok(Next::Close) => return session.io.close(LINGER).await,
            Ok(Next::Tunnel(begun)) => {
                let (tunnel, raw) = *begun;
                let Session { io, worker, .. } = session;
                let head_bytes = tunnel.first.len();
                let Some((stream, read)) = io.into_stream() else { return };
                let moved = tunnel::run(&worker, stream, read, tunnel).await;
                if let Some((mut sent, facts)) = raw {
                    sent.piped(head_bytes, moved);
                    sent.end(&worker, &ResponseHead::new(200), &facts, false);
                }
                return;
            }
            Ok(Next::Http2(upgrade)) => {
                let Session { io, worker, client, .. } = session;
                let Some((mut stream, bytes)) = io.into_stream() else { return };
                let first = First { bytes, begun: Instant::now() };
                return match super::begins_http2(&worker, &mut stream, first).await {
                    Some((first, true)) => {
                        h2::serve_upgraded(worker, stream, client, first, *upgrade).await;
                    }
                    Some((_, false)) | None => stream.close(Duration::ZERO).await,
                };
            }
            Ok(Next::Hangup) => return,
            Err(broken) => {
                if matches!(broken, Broken::Timeout) {
                    session.worker.stats.timeouts.increment();
                }
                return;
            }
        }
    }
}

/// Whether `Connection` names a field that is for origins as well, by Varnish's list of those that are
/// well known: who takes one away may have a cache see something else than an origin.
fn names_known_field(fields: &Fields) -> bool {
    const KNOWN: [&[u8]; 44] = [
        b"accept",
        b"accept-charset",
        b"accept-encoding",
        b"accept-language",
        b"age",
        b"allow",
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-language",
        b"content-length",
        b"content-location",
        b"content-md5",
        b"content-range",
        b"content-type",
        b"cookie",
        b"date",
        b"etag",
        b"expect",
        b"expires",
        b"from",
        b"host",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"last-modified",
        b"location",
        b"max-forwards",
        b"pragma",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"range",
        b"referer",
        b"retry-after",
        b"server",
        b"set-cookie",
        b"user-agent",
        b"vary",
        b"via",
        b"warning",
        b"www-authenticate",
        b"x-forwarded-for",
    ];
    fields.tokens("connection").any(|name| KNOWN.iter().any(|one| one.eq_ignore_ascii_case(name)))
}

/// Whether a request asks for HTTP/2 from here on, and has no body that would stand between the two.
fn upgrades_to_http2(manners: &Manners, parsed: &Parsed) -> bool {
    let wanted =
        || parsed.head.fields.get("upgrade").is_some_and(|to| to.eq_ignore_ascii_case(b"h2c"));
    manners.takes_http2
        && manners.upgrades_to_http2
        && matches!(parsed.framing, Framing::None)
        && wanted()
}

/// Notes what the writer of a head adds to it.
fn note_framing(transcript: &Transcript, framing: Framing, says_nothing_of_its_end: bool) {
    if let Framing::Length(length) = framing {
        transcript.note(Tag::RespHeader, format_args!("Content-Length: {length}"));
    }
    if !says_nothing_of_its_end {
        transcript.field(Tag::RespHeader, b"Connection", b"close");
    }
}

enum Next {
    Again,
    Close,
    /// With what is counted and logged at its end, where it began with the request itself.
    Tunnel(Box<(Tunnel, Option<(Sent, Facts)>)>),
    /// The client goes on in HTTP/2, and was told that it may.
    Http2(Box<Upgrade>),
    /// Nothing more is said.
    Hangup,
}

struct Session {
    worker: Rc<Worker>,
    io: SharedIo,
    client: Rc<Client>,
    deadline: Deadline,
    /// When the first bytes of a head came, where they were read before this session began.
    begun: Option<Instant>,
    /// What the connection uses of the memory.
    memory: Rc<ConnectionMemory>,
    /// Reused for heads; given back to the allocator while idle.
    out: Vec<u8>,
}

impl Session {
    /// How long a client may take nothing.
    fn send_timeout(&self) -> Duration {
        self.client.timeouts.to_send(&self.worker.snapshot().settings.limits)
    }

    /// How long a response may take in all.
    fn response_timeout(&self) -> Option<Duration> {
        self.client.timeouts.to_respond(&self.worker.snapshot().settings.limits)
    }

    /// Reads one request and answers it.
    async fn one(&mut self) -> Result<Next, Broken> {
        let Some(parsed) = self.read_head().await? else { return Ok(Next::Close) };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(refusal) => {
                let explains = self.worker.snapshot().manners.explains_refusals;
                let too_large = refusal.error == Some(RequestError::ClientHeadTooLarge);
                self.client.end.set(if too_large { End::HeadTooLarge } else { End::Malformed });
                if explains || (refusal.status == 417 && !too_large) {
                    self.refuse(refusal, None).await?;
                } else if too_large {
                    self.note_refused(refusal, None, Told::default());
                } else {
                    self.refuse_plainly(refusal, None).await?;
                }
                return Ok(Next::Close);
            }
        };
        let snapshot = self.worker.snapshot();
        if !snapshot.manners.explains_refusals && names_known_field(&parsed.head.fields) {
            self.client.end.set(End::Malformed);
            self.refuse_plainly(Refusal::CONNECTION, Some(&parsed.head)).await?;
            return Ok(Next::Close);
        }
        if upgrades_to_http2(&snapshot.manners, &parsed) && self.client.tls.is_none() {
            return self.upgrade(parsed).await;
        }
        let limits = &snapshot.settings.limits;
        let length = match parsed.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let Some(charge) = self.memory.request(HEAD_FACTOR * parsed.head_bytes) else {
            self.refuse(Refusal::NO_ROOM, Some(&parsed.head)).await?;
            return Ok(Next::Close);
        };
        let mut progress = None;
        let body = match parsed.framing {
            Framing::Length(0) | Framing::None | Framing::UntilClose => None,
            Framing::Length(_) | Framing::Chunked => {
                let expects = parsed.expect_continue;
                let body_bytes_max = snapshot.limits_of(&parsed.head.authority).body_bytes_max;
                let (body, state) = H1Body::new(
                    self.io.clone(),
                    length,
                    body_bytes_max,
                    expects,
                    Terms::of(limits),
                );
                progress = Some(state);
                Some(RequestBody::Arriving(Box::new(body)))
            }
        };
        let version = parsed.head.version;
        let is_head = parsed.head.method == Method::Head;
        let keep_alive = parsed.keep_alive;
        let interim = Interim::default();
        let mut head = parsed.head;
        let client = forwarded::client_of(
            &snapshot.settings.forwarded,
            snapshot.settings.limits.network,
            &self.client,
            &mut head,
        );
        let sent = Sent::begin(&self.worker, &head, &client, parsed.head_bytes);
        let request = Request {
            id: sent.id,
            transcript: Rc::clone(&sent.transcript),
            head,
            body,
            upgrade: parsed.upgrade,
            client,
            received: UnixMillis::now(),
            started: Instant::now(),
            interim: interim.clone(),
            nesting: None,
            has_player: sent.has_player(),
            charge: Some(charge),
        };
        if !keep_alive {
            let is_said = request.head.fields.has_token("connection", "close");
            let is_old = version == Version::Http10 && !is_said;
            self.client.end.set(if is_old { End::AsOldOnesDo } else { End::AsAsked });
        }
        match self.answer(request, &interim, version, progress.clone()).await? {
            Reply::Response(response) => {
                self.send(response, is_head, version, keep_alive, progress, sent).await
            }
            Reply::Tunnel(switch) => self.switch(*switch, version, sent).await,
            Reply::Hangup(Unsaid { status, facts }) => {
                sent.end(&self.worker, &ResponseHead::new(status), &facts, true);
                Ok(Next::Hangup)
            }
        }
    }

    /// Lets the machine work and sends interim responses as they come. To a client that left before
    /// there was an answer nothing is said.
    async fn answer(
        &mut self,
        request: Request,
        interim: &Interim,
        version: Version,
        received: Option<Rc<Progress>>,
    ) -> Result<Reply, Broken> {
        let worker = Rc::clone(&self.worker);
        let work = pin!(freshet_request::handle(&worker, request));
        let mut working = Working::new(work, interim);
        // Made when there is something to wait for.
        let mut leaving: Option<Leaving> = None;
        loop {
            let next = poll_fn(|cx| {
                if let Poll::Ready(next) = working.poll_next(cx) {
                    return Poll::Ready(Some(next));
                }
                let look = || Leaving::new(&worker, &self.io, received.as_ref());
                leaving.get_or_insert_with(look).poll(cx).map(|()| None)
            });
            let Some(next) = next.await else {
                let facts = Facts::local(Reason::ClientGone);
                return Ok(Reply::Hangup(Unsaid { status: 0, facts }));
            };
            match next {
                Either::Done(reply) => return Ok(reply),
                Either::Interim(head) if version == Version::Http11 => {
                    self.out.clear();
                    response_head(&head, Framing::None, true, version, &mut self.out);
                    let limit = self.send_timeout();
                    self.io.send(&[&self.out], &mut self.deadline, limit).await?;
                }
                // HTTP/1.0 has no interim responses (RFC 9110 §15.2).
                Either::Interim(_) => {}
            }
        }
    }

    /// The next head; `None` when the client has closed or is asked to.
    async fn read_head(&mut self) -> Result<Option<Result<Parsed, Refusal>>, Broken> {
        // Who waits keeps no configuration that others have left, with all that is opened for it.
        let (h1_limits, idle_timeout, request_timeout) = {
            let snapshot = self.worker.snapshot();
            let limits = &snapshot.settings.limits;
            (snapshot.h1_limits, limits.idle_timeout, limits.request_timeout)
        };
        let scheme = if self.client.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let mut seen = usize::MAX;
        let mut begun = self.begun.take();
        let since = begun.unwrap_or_else(Instant::now);
        loop {
            // Empty lines begin no request (RFC 9112 §2.2), and do not make up for silence.
            let empty = self.io.with_input(|input| {
                let is_empty = input.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
                // The rest of the last one may be on its way.
                let half = usize::from(input.ends_with(b"\r"));
                if is_empty { input.len() - half } else { 0 }
            });
            if empty > 0 {
                self.io.consume(empty);
                (seen, begun) = (usize::MAX, None);
            }
            // Parsing again from the start is bounded by head_bytes_max; it only happens for heads
            // that arrive in parts.
            let parsed = self.io.with_input(|input| {
                if matches!(input, b"" | b"\r") || input.len() == seen {
                    return Ok(None);
                }
                seen = input.len();
                freshet_wire::h1::request::parse(input, scheme, &h1_limits)
            });
            match parsed {
                Ok(Some(parsed)) => {
                    self.io.consume(parsed.head_bytes);
                    return Ok(Some(Ok(parsed)));
                }
                Ok(None) => {}
                Err(error) => return Ok(Some(Err(Refusal::of_head(error)))),
            }
            let idle = self.io.input_is_empty();
            if idle {
                self.out = Vec::new();
            }
            let limit = if idle {
                let limit = self.client.timeouts.idle.get().unwrap_or(idle_timeout);
                limit.saturating_sub(since.elapsed())
            } else {
                // From its first byte on, however slowly the others follow.
                let begun = *begun.get_or_insert_with(Instant::now);
                request_timeout.saturating_sub(begun.elapsed())
            };
            let io = &self.io;
            let filled = if idle {
                let drain = self.worker.drain_grace();
                let fill = poll_fn(|cx| io.poll_fill(cx));
                tokio::select! {
                    biased;
                    filled = self.deadline.within(limit, fill) => filled,
                    () = drain => return Ok(None),
                }
            } else {
                self.deadline.within(limit, poll_fn(|cx| io.poll_fill(cx))).await
            };
            match filled {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(None),
                Ok(Err(_)) => return Err(Broken::Io),
                Err(_) if idle => {
                    self.client.end.set(End::Idle);
                    return Ok(None);
                }
                Err(_) => {
                    self.worker.stats.timeouts.increment();
                    return Ok(Some(Err(Refusal::HEAD_LATE)));
                }
            }
        }
    }

    /// Counts and logs what is not a request, by its head, or by what came where that cannot be read.
    fn note_refused(&self, refusal: Refusal, request: Option<&RequestHead>, told: Told) -> u64 {
        let note = |asked: Asked<'_>| refusal.note_told(&self.worker, &self.client, asked, told);
        match request {
            Some(head) => note(Asked::Head(head)),
            None => self.io.with_input(|input| note(Asked::Bytes(input))),
        }
    }

    /// Answers what is not a request.
    async fn refuse(
        &mut self,
        refusal: Refusal,
        request: Option<&RequestHead>,
    ) -> Result<(), Broken> {
        let since = Some(Instant::now());
        let (head, text) = freshet_request::refusal(refusal.status, refusal.words);
        self.out.clear();
        let framing = Framing::Length(text.len() as u64);
        response_head(&head, framing, false, Version::Http11, &mut self.out);
        let told = Told { head_bytes: self.out.len(), body_bytes: text.len(), since };
        self.out.extend_from_slice(text.as_bytes());
        self.note_refused(refusal, request, told);
        let limit = self.send_timeout();
        self.io.send(&[&self.out], &mut self.deadline, limit).await
    }

    /// The same as Varnish has it: without a page, and with a record of its own.
    async fn refuse_plainly(
        &mut self,
        refusal: Refusal,
        request: Option<&RequestHead>,
    ) -> Result<(), Broken> {
        const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        let told = Told { head_bytes: ANSWER.len(), body_bytes: 0, since: Some(Instant::now()) };
        let id = self.note_refused(refusal, request, told);
        let client = Rc::clone(&self.client);
        client.transcript.note(Tag::Link, format_args!("req {id} rxreq"));
        let scribe = self.worker.shared.scribe.as_ref();
        let transcript = Transcript::begin(scribe, Side::Client, id, "req", client.id, "rxreq");
        transcript.note_start();
        transcript.timestamp("Req");
        match self.io.with_input(bogus::wrong_with_fields) {
            _ if refusal.error.is_none() => {}
            Some(wrong) => transcript.note(Tag::BogoHeader, format_args!("{wrong}")),
            None => transcript.note(Tag::BogoHeader, format_args!("{}", refusal.words)),
        }
        let received = self.io.with_input(<[u8]>::len);
        let sent = ANSWER.len();
        let text = format_args!("{received} 0 {received} {sent} 0 {sent}");
        transcript.note(Tag::ReqAcct, text);
        let limit = self.send_timeout();
        self.io.send(&[ANSWER], &mut self.deadline, limit).await
    }

    /// Tells a client that it may go on in HTTP/2; one whose settings make no sense is told nothing.
    async fn upgrade(&mut self, parsed: Parsed) -> Result<Next, Broken> {
        const ANSWER: &[u8] =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let Some(upgrade) = Upgrade::new(parsed.head, parsed.head_bytes) else {
            self.client.end.set(End::Malformed);
            return Ok(Next::Hangup);
        };
        self.worker.stats.head_bytes.add(ANSWER.len() as u64);
        let limit = self.send_timeout();
        self.io.send(&[ANSWER], &mut self.deadline, limit).await?;
        Ok(Next::Http2(Box::new(upgrade)))
    }

    /// Says what goes before a tunnel, if something does.
    async fn switch(
        &mut self,
        switch: Switch,
        version: Version,
        mut sent: Sent,
    ) -> Result<Next, Broken> {
        let Switch { head, tunnel, facts } = switch;
        let Some(head) = head else {
            return Ok(Next::Tunnel(Box::new((tunnel, Some((sent, facts))))));
        };
        self.out.clear();
        response_head(&head, Framing::None, true, version, &mut self.out);
        let limit = self.send_timeout();
        self.io.send(&[&self.out], &mut self.deadline, limit).await?;
        sent.first_byte(&head, &facts, self.out.len());
        sent.end(&self.worker, &head, &facts, false);
        Ok(Next::Tunnel(Box::new((tunnel, None))))
    }

    async fn send(
        &mut self,
        response: Box<Response>,
        is_head: bool,
        version: Version,
        keep_alive: bool,
        received: Option<Rc<Progress>>,
        mut sent: Sent,
    ) -> Result<Next, Broken> {
        let Response { mut head, mut body, length, facts, .. } = *response;
        let bodiless = is_head || matches!(head.status, 204 | 304) || head.status < 200;
        let framing = match length {
            _ if head.status == 204 || head.status < 200 => Framing::None,
            Some(length) => Framing::Length(length),
            None if bodiless => Framing::None,
            None if version == Version::Http11 => Framing::Chunked,
            None => Framing::UntilClose,
        };
        let speaks_of_connection =
            facts.site.as_ref().is_some_and(|site| site.semantics.speaks_of_connections);
        let told_to_close = speaks_of_connection && write::closes(&head.fields);
        if told_to_close && self.client.end.get() == End::ByClient {
            self.client.end.set(End::AsAnswered);
        }
        // Varnish reads what is left of a request before it answers, and then knows whether to close.
        let keep_alive = keep_alive
            && (!speaks_of_connection || self.request_body_ends(received.as_deref(), true).await)
            && !told_to_close
            && !self.worker.is_draining()
            && !self.io.is_worn()
            && framing != Framing::UntilClose
            && received.as_ref().is_none_or(|body| {
                matches!(body.skip(&self.io), BodyState::Done | BodyState::Unread)
            });
        self.out.clear();
        response_head(&head, framing, keep_alive, version, &mut self.out);
        if speaks_of_connection {
            note_framing(&sent.transcript, framing, keep_alive || told_to_close);
        }
        // Varnish says aloud what HTTP/1.1 takes for granted, and people compare heads.
        if keep_alive && version == Version::Http11 && speaks_of_connection {
            self.out.truncate(self.out.len().saturating_sub(2));
            self.out.extend_from_slice(b"Connection: keep-alive\r\n\r\n");
            sent.transcript.field(Tag::RespHeader, b"Connection", b"keep-alive");
        }
        if speaks_of_connection && framing == Framing::Chunked {
            sent.transcript.field(Tag::RespHeader, b"Transfer-Encoding", b"chunked");
        }
        sent.first_byte(&head, &facts, self.out.len());
        head.fields.clear();
        sent.request_body_bytes = received.as_ref().map_or(0, |body| body.bytes.get());
        let result = if bodiless {
            let limit = self.send_timeout();
            self.io.send(&[&self.out], &mut self.deadline, limit).await
        } else {
            let limit = self.send_timeout();
            let until = self.response_timeout().map(|limit| Instant::now() + limit);
            let (worker, client, io) = (&*self.worker, &*self.client, &self.io);
            let (deadline, out) = (&mut self.deadline, &mut self.out);
            let keeping = Keeping::default();
            let received = received.as_ref();
            let mut sending =
                Sending { worker, client, io, received, deadline, out, limit, until, keeping };
            sending.body(&mut body, framing, &mut sent).await
        };
        sent.end(&self.worker, &head, &facts, result.is_err());
        if result.is_err() {
            let is_part = head.status == 206;
            self.client.end.set(if is_part { End::PartUnsent } else { End::Unsent });
        }
        result?;
        let ends = keep_alive && self.request_body_ends(received.as_deref(), false).await;
        Ok(if ends { Next::Again } else { Next::Close })
    }

    /// Reads away what comes of the request's body that nobody wants, if that is little; false where the
    /// connection has to close instead. A client that has no answer yet is waited for as long as one that
    /// says nothing.
    async fn request_body_ends(
        &mut self,
        received: Option<&Progress>,
        is_before_answer: bool,
    ) -> bool {
        let Some(received) = received else { return true };
        let snapshot = self.worker.snapshot();
        let limits = &snapshot.settings.limits;
        let limit = match is_before_answer {
            true => self.client.timeouts.idle.get().unwrap_or(limits.idle_timeout),
            false => limits.body_timeout,
        };
        // For all of it, however slowly it comes.
        let end = Instant::now() + limit;
        loop {
            match received.skip(&self.io) {
                BodyState::Done => return true,
                BodyState::Unread => {}
                BodyState::Expected | BodyState::Open | BodyState::Broken => return false,
            }
            let io = &self.io;
            let limit = end.saturating_duration_since(Instant::now());
            let filled = self.deadline.within(limit, poll_fn(|cx| io.poll_fill(cx))).await;
            if !matches!(filled, Ok(Ok(true))) {
                return false;
            }
        }
    }
}
