//! One request to an origin and the head of its response.

use crate::connection::Connection;
use crate::definition::{HttpVersion, Origin, Terms, Waits};
use crate::error::OriginError;
use crate::http2::attempt as http2;
use crate::http2::attempt::Outcome;
use crate::places;
use crate::pool::Pool;
use crate::raw::RawConnection;
use crate::request_body::BodyProvider;
use crate::response_body::OriginBody;
use crate::stats::Held;
use crate::upload::{Stopped, Upload, WaitsFor, framing};
use freshet_base::clock::UnixMillis;
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_net::address::PeerAddress;
use freshet_wire::h1::response::{self, Response};
use freshet_wire::h1::{Framing, write};
use freshet_wire::proxy_protocol;
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Interim responses taken for one request. `102 Processing` may come every few seconds while an
/// origin works for minutes; an origin that sends more than this is broken.
pub const INTERIM_MAX: u32 = 100;

/// A response whose head is there.
#[derive(Debug)]
pub struct OriginResponse {
    /// The head, hop-by-hop fields still there.
    pub head: ResponseHead,
    /// How the body came to be framed; [`Framing::None`] where there is none.
    pub framing: Framing,
    /// The body, to be read.
    pub body: OriginBody,
    /// How the response came about.
    pub facts: Facts,
    /// The connection, after `101 Switching Protocols`; `body` is empty then.
    pub upgraded: Option<RawConnection>,
}

/// How a response came about, for logs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// The connection had carried other requests before.
    pub reused: bool,
    /// A reused connection turned out dead and the request was sent again.
    pub retried: bool,
    /// The origin's end.
    pub remote: Option<PeerAddress>,
    /// Our end; none for a Unix socket.
    pub local: Option<SocketAddr>,
    /// From the call to a connection to send on: queue, name, TCP, TLS; for the attempt that
    /// answered.
    pub connected_after: Duration,
    /// From the connection to the complete head of the final response.
    pub answered_after: Duration,
}

/// Sends `request` with `body` to `origin` and waits for the head of the final response.
///
/// The head is sent as HTTP/1.1 with the origin's `host_header` or, where the request has no
/// authority, its address as `Host`, and with its `base_path` before the target, which the response's
/// `Location` and `Content-Location` are freed of; hop-by-hop fields that have no meaning to the origin are the
/// caller's to remove first, except those that frame the message. `on_interim` is given each
/// interim response (1xx but 101) when it comes.
///
/// Where the origin speaks HTTP/2 the same holds for a stream of a connection that others share, and
/// a request that the origin says it did not look at is sent again, whatever its method (RFC 9113
/// §8.7). Requests that ask for an upgrade are sent in HTTP/1.1, which alone has one.
///
/// A reused connection that dies without a byte of a response was closed while idle: the request is
/// sent once more on a fresh one if it is idempotent and what the body gave so far is still
/// remembered (64 KiB), or if the origin cannot have had all of it (RFC 9110 §9.2.2, RFC 9112
/// §9.3.1). So it is where a fresh one does and the origin's name has another address.
///
/// Where a final response comes while the body is still being sent, the rest is sent while the response
/// is read; the connection is closed after the response, whose end ends the sending. Dropping the future
/// closes the connection.
///
/// # Errors
/// [`OriginError`]; the failure is counted. Health hears of connections that failed and of requests that
/// were not answered in time.
pub async fn exchange(
    pool: &Pool,
    origin: &Arc<Origin>,
    request: &RequestHead,
    body: Option<Box<dyn BodyProvider>>,
    on_interim: &mut dyn FnMut(ResponseHead),
) -> Result<OriginResponse, OriginError> {
    exchange_within(pool, origin, request, body, on_interim, Terms::default()).await
}

/// As [`exchange`], on terms of the request's own.
///
/// # Errors
/// As [`exchange`].
pub async fn exchange_within(
    pool: &Pool,
    origin: &Arc<Origin>,
    request: &RequestHead,
    body: Option<Box<dyn BodyProvider>>,
    on_interim: &mut dyn FnMut(ResponseHead),
    terms: Terms,
) -> Result<OriginResponse, OriginError> {
    let sent = &*addressed(request, origin)?;
    origin.stats.requests.add(1);
    let in_flight = Held::in_flight(origin, terms.party).await;
    let in_flight = in_flight.inspect_err(|error| origin.stats.failed(error))?;
    origin.health.tries(origin.settings.passive, UnixMillis::now());
    let framing = framing(&request.method, body.as_deref());
    let mut head = Vec::new();
    if origin.settings.proxy_header > 0 {
        let (client, server) = terms.ends.unzip();
        proxy_protocol::write(origin.settings.proxy_header, client, server, &mut head);
    }
    write::request_head(sent, framing, &mut head);
    let mut upload = Upload::new(head, body);
    let interim = (on_interim, in_flight);
    let mut result = attempts(pool, origin, sent, &mut upload, interim, terms).await;
    match &mut result {
        Ok(response) => {
            response.body.send_on(upload);
            let base_path = &origin.settings.base_path;
            base_path.in_response(request, &sent.authority, &mut response.head);
            if origin.hears_own_address() {
                let own = format!("{}://{}", origin.scheme().as_str(), sent.authority);
                places::below(&own, &mut response.head.fields);
            }
            origin.answered();
        }
        Err(error) => origin.failed(error),
    }
    result
}

/// The request with the `Host` and the target it is sent with.
fn addressed<'a>(
    request: &'a RequestHead,
    origin: &Origin,
) -> Result<Cow<'a, RequestHead>, OriginError> {
    let mut sent = Cow::Borrowed(request);
    if origin.settings.host_header.is_some() || request.authority.is_empty() {
        sent.to_mut().authority = origin.authority();
    }
    if !origin.settings.base_path.is_empty() {
        let target = origin.settings.base_path.of_origin(&request.target);
        sent.to_mut().target = target.ok_or(OriginError::ClientPath)?;
    }
    Ok(sent)
}

async fn attempts(
    pool: &Pool,
    origin: &Arc<Origin>,
    request: &RequestHead,
    upload: &mut Upload,
    (on_interim, mut in_flight): (&mut dyn FnMut(ResponseHead), Held),
    terms: Terms,
) -> Result<OriginResponse, OriginError> {
    // A connection that was opened for HTTP/2 and does not speak it.
    let mut first = None;
    let mut retried = false;
    let is_proxied = origin.settings.proxy_header > 0;
    if origin.settings.http != HttpVersion::Http1 && !is_proxied && !upgrades(request) {
        let interim: (&mut dyn FnMut(ResponseHead), _) = (&mut *on_interim, in_flight);
        match http2::attempts(pool, origin, request, upload, interim, terms).await? {
            Outcome::Answered(response) => return Ok(response),
            Outcome::SpeaksHttp1(connection, held) => (first, in_flight) = (connection, held),
        }
    }
    loop {
        let started = Instant::now();
        let mut connection = match first.take() {
            Some(connection) => connection,
            None => {
                let fresh = retried || is_proxied;
                within(origin, terms.waits, pool.check_out(origin, fresh, terms.claim)).await?
            }
        };
        connection.waits = terms.waits;
        connection.limits = terms.limits.unwrap_or(origin.settings.limits);
        connection.expect_acknowledgement(upload.has_body());
        origin.stats.sent.add(1);
        let reused = connection.uses > 0;
        if reused {
            origin.stats.reuses.add(1);
        }
        let connected_after = started.elapsed();
        let result = Attempt::new(&mut connection, upload, request, on_interim).run().await;
        let may_retry = reused && !retried && may_send_again(request, upload, terms);
        match result {
            Ok((response, answered_after)) => {
                // What a server says to a connection it is tired of, not to this request.
                if may_retry && response.head.status == 408 && upload.rewind() {
                    retried = true;
                    origin.stats.retries.add(1);
                    continue;
                }
                let us = u64::try_from(answered_after.as_micros()).unwrap_or(u64::MAX);
                origin.stats.first_byte_us_sum.add(us);
                let facts = Facts {
                    reused,
                    retried,
                    remote: connection.remote,
                    local: connection.local,
                    connected_after,
                    answered_after,
                };
                let sent = upload.is_complete();
                return deliver(pool, connection, request, response, sent, facts, in_flight);
            }
            Err(failed) => {
                let may_retry = failed.silent
                    && match reused {
                        true => may_retry,
                        false => {
                            origin.has_another(connection.remote.as_ref())
                                && may_send_again(request, upload, terms)
                        }
                    };
                if !(may_retry && upload.rewind()) {
                    return Err(failed.error);
                }
                retried = true;
                origin.stats.retries.add(1);
            }
        }
    }
}

/// Whether a request asks for another protocol.
fn upgrades(request: &RequestHead) -> bool {
    request.fields.contains("upgrade")
}

/// What `connecting` gives, within the time the request has for it.
pub(crate) async fn within<T>(
    origin: &Origin,
    waits: Waits,
    connecting: impl Future<Output = Result<T, OriginError>>,
) -> Result<T, OriginError> {
    match waits.connect {
        Some(limit) if limit < origin.settings.timeouts.connect => {
            timeout(limit, connecting).await.unwrap_or_else(|_| {
                let address = origin.authority();
                Err(OriginError::OriginConnectTimeout { address, limit })
            })
        }
        _ => connecting.await,
    }
}

/// Whether a request whose connection died may be sent again, as far as its meaning goes.
pub(crate) fn may_send_again(request: &RequestHead, upload: &Upload, terms: Terms) -> bool {
    !terms.is_sent_once && (request.method.is_idempotent() || upload.cannot_be_whole())
}

/// The response of a head, with the connection behind it.
fn deliver(
    pool: &Pool,
    connection: Connection,
    request: &RequestHead,
    response: Response,
    sent: bool,
    facts: Facts,
    in_flight: Held,
) -> Result<OriginResponse, OriginError> {
    let Response { head, framing, keep_alive, .. } = response;
    if head.status == 101 {
        if !is_asked_upgrade(request, &head.fields) {
            return Err(OriginError::OriginUnaskedUpgrade);
        }
        let body = OriginBody::empty(&connection.origin);
        let upgraded = Some(RawConnection::new(connection, in_flight));
        return Ok(OriginResponse { head, framing: Framing::None, body, facts, upgraded });
    }
    let keep_alive = keep_alive
        && sent
        && !write::closes(&request.fields)
        && connection.origin.settings.proxy_header == 0;
    let body = OriginBody::new(pool, connection, framing, keep_alive, in_flight);
    Ok(OriginResponse { head, framing, body, facts, upgraded: None })
}

/// Whether a request has asked for the protocol that an origin changes to, as far as that names one: to what nobody has
/// asked for it may not (RFC 9110 §7.8).
fn is_asked_upgrade(request: &RequestHead, answer: &Fields) -> bool {
    let mut named = answer.tokens("upgrade").peekable();
    request.fields.contains("upgrade")
        && (named.peek().is_none() || named.any(|name| request.fields.has_token("upgrade", name)))
}

/// An attempt that failed.
struct Failed {
    error: OriginError,
    /// The connection ended without a byte of a response.
    silent: bool,
}

/// A request on one connection, sending and receiving at the same time.
struct Attempt<'a> {
    connection: &'a mut Connection,
    upload: &'a mut Upload,
    request: &'a RequestHead,
    on_interim: &'a mut dyn FnMut(ResponseHead),
    started: Instant,
    sent: Option<Instant>,
    /// Why nothing more can be sent; a response may still be there to be read.
    send_error: Option<io::Error>,
    armed: Armed,
    interim_count: u32,
    response_bytes: usize,
}

/// What the timer stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Armed {
    /// Nothing: the client is slow, which is the client's side's to judge.
    No,
    Write,
    FirstByte,
}

impl<'a> Attempt<'a> {
    fn new(
        connection: &'a mut Connection,
        upload: &'a mut Upload,
        request: &'a RequestHead,
        on_interim: &'a mut dyn FnMut(ResponseHead),
    ) -> Self {
        Self {
            connection,
            upload,
            request,
            on_interim,
            started: Instant::now(),
            sent: None,
            send_error: None,
            armed: Armed::No,
            interim_count: 0,
            response_bytes: 0,
        }
    }

    /// Runs to the final head; returns it with the time since the request was sent.
    async fn run(mut self) -> Result<(Response, Duration), Failed> {
        let mut timer = pin!(sleep_until(self.started));
        let response = poll_fn(|cx| self.poll(cx, timer.as_mut())).await?;
        Ok((response, self.sent.unwrap_or(self.started).elapsed()))
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
    ) -> Poll<Result<Response, Failed>> {
        if let Err(error) = self.send(cx, timer.as_mut()) {
            return Poll::Ready(Err(Failed { error, silent: false }));
        }
        loop {
            match self.connection.stream.poll_read(cx, self.connection.buffer.room()) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.connection.buffer.fill(count);
                    self.connection.origin.stats.bytes_received.add(count as u64);
                    self.response_bytes += count;
                    match self.next_final(timer.as_mut()) {
                        Ok(Some(response)) => return Poll::Ready(Ok(response)),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(Err(Failed { error, silent: false })),
                    }
                }
                Poll::Ready(end) => return Poll::Ready(Err(self.cut_off(end.err()))),
                Poll::Pending => break,
            }
        }
        if self.armed != Armed::No && timer.poll(cx).is_ready() {
            return Poll::Ready(Err(Failed { error: self.timed_out(), silent: false }));
        }
        Poll::Pending
    }

    /// Sends on and keeps the timer true to what is waited for.
    fn send(&mut self, cx: &mut Context<'_>, timer: Pin<&mut Sleep>) -> Result<(), OriginError> {
        if self.sent.is_some() || self.send_error.is_some() {
            return Ok(());
        }
        let before = self.upload.written;
        let result = self.upload.poll_send(cx, &mut self.connection.stream);
        self.connection.origin.stats.bytes_sent.add(self.upload.written - before);
        match result {
            Poll::Ready(Ok(())) => {
                self.sent = Some(Instant::now());
                self.arm(Armed::FirstByte, timer);
            }
            Poll::Ready(Err(Stopped::Client(reason))) => {
                return Err(OriginError::ClientBody { reason });
            }
            Poll::Ready(Err(Stopped::Origin(error))) => {
                // An origin that refuses a body may have said so before it closed.
                self.send_error = Some(error);
                self.arm(Armed::Write, timer);
            }
            Poll::Pending => {
                let progressed = self.upload.take_progress();
                match self.upload.waits_for() {
                    WaitsFor::Client => self.armed = Armed::No,
                    WaitsFor::Origin if progressed || self.armed != Armed::Write => {
                        self.arm(Armed::Write, timer);
                    }
                    WaitsFor::Origin => {}
                }
            }
        }
        Ok(())
    }

    fn arm(&mut self, armed: Armed, timer: Pin<&mut Sleep>) {
        let limit = match armed {
            Armed::FirstByte => self.connection.first_byte(),
            Armed::Write | Armed::No => self.connection.between_bytes(),
        };
        timer.reset(Instant::now() + limit);
        self.armed = armed;
    }

    /// Reads heads off the buffer up to the final one.
    fn next_final(&mut self, mut timer: Pin<&mut Sleep>) -> Result<Option<Response>, OriginError> {
        let limits = self.connection.limits;
        loop {
            let buffer = &mut self.connection.buffer;
            let parsed = response::parse(buffer.bytes(), &self.request.method, &limits);
            let Some(response) = parsed.map_err(OriginError::from_head)? else { return Ok(None) };
            buffer.consume(response.head_bytes);
            if response.head.status >= 200 || response.head.status == 101 {
                return Ok(Some(response));
            }
            self.interim_count += 1;
            if self.interim_count > INTERIM_MAX {
                return Err(OriginError::OriginInterimFlood { interim_max: INTERIM_MAX });
            }
            if self.armed == Armed::FirstByte {
                self.arm(Armed::FirstByte, timer.as_mut());
            }
            (self.on_interim)(response.head);
        }
    }

    /// The connection ended, cleanly or with an error.
    fn cut_off(&mut self, read_error: Option<io::Error>) -> Failed {
        let error = match self.send_error.take().or(read_error) {
            Some(error) => OriginError::from_io(&error, self.connection.buffer.len()),
            None => OriginError::OriginClosed { response_bytes: self.connection.buffer.len() },
        };
        Failed { error, silent: self.response_bytes == 0 }
    }

    fn timed_out(&self) -> OriginError {
        let connection = &self.connection;
        match (&self.send_error, self.armed) {
            (Some(error), _) => OriginError::from_io(error, self.connection.buffer.len()),
            (None, Armed::FirstByte) => {
                OriginError::OriginFirstByteTimeout { limit: connection.first_byte() }
            }
            (None, _) => OriginError::OriginWriteTimeout { limit: connection.between_bytes() },
        }
    }
}
