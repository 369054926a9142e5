//! One request on a stream, sending and receiving at the same time up to the final head, and on
//! another where that is allowed.

use super::reach::{Reached, reach};
use super::stream::{Came, Stream};
use crate::connection::Connection;
use crate::definition::{Origin, Terms};
use crate::error::OriginError;
use crate::exchange::{Facts, OriginResponse, may_send_again, within};
use crate::pool::Pool;
use crate::response_body::OriginBody;
use crate::stats::Held;
use crate::upload::{Stopped, Upload};
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_wire::h1::Framing;
use freshet_wire::h2::{Answer, Ask};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Attempts at one request that no server looks at, until it fails. With the last but one it has a
/// new connection, on which it is the first.
const UNSEEN_MAX: u32 = 3;

/// The same of those whose connection ended without a word: the others are sent again over one that
/// is open, or over one that all of them share.
const SILENT_MAX: u32 = 3;

/// What became of a request.
#[allow(clippy::large_enum_variant, reason = "made and taken apart at once")]
pub(crate) enum Outcome {
    Answered(OriginResponse),
    /// The origin speaks HTTP/1.1, over this connection if there is one.
    SpeaksHttp1(Option<Connection>, Held),
}

/// Sends a request and waits for the head of its final response, on one stream after another where
/// that is allowed.
pub(crate) async fn attempts(
    pool: &Pool,
    origin: &Arc<Origin>,
    request: &RequestHead,
    upload: &mut Upload,
    (on_interim, in_flight): (&mut dyn FnMut(ResponseHead), Held),
    terms: Terms,
) -> Result<Outcome, OriginError> {
    let ask = Ask {
        head: request,
        length: upload.length(),
        ends: upload.is_bodiless(),
        limits: terms.limits.unwrap_or(origin.settings.limits),
    };
    let (mut unseen, mut silent) = (0, 0);
    loop {
        let started = Instant::now();
        let fresh = silent + 1 >= SILENT_MAX || unseen + 1 >= UNSEEN_MAX;
        let reached =
            within(origin, terms.waits, reach(pool, origin, ask, fresh, terms.claim)).await?;
        let mut stream = match reached {
            Reached::Stream(stream) => stream,
            Reached::Connection(connection) => {
                upload.begin(true);
                return Ok(Outcome::SpeaksHttp1(Some(pool.equip(connection)), in_flight));
            }
            Reached::Old => {
                upload.begin(true);
                return Ok(Outcome::SpeaksHttp1(None, in_flight));
            }
        };
        origin.stats.sent.add(1);
        if stream.is_reused {
            origin.stats.reuses.add(1);
        }
        if let Some(limit) = terms.waits.between_bytes {
            stream.between_bytes = limit;
        }
        let connected_after = started.elapsed();
        let first_byte = terms.waits.first_byte.unwrap_or(origin.settings.timeouts.first_byte);
        upload.begin(false);
        let attempt = Attempt::new(&stream, upload, on_interim, first_byte);
        match attempt.run().await {
            Ok((answer, answered_after)) => {
                let us = u64::try_from(answered_after.as_micros()).unwrap_or(u64::MAX);
                origin.stats.first_byte_us_sum.add(us);
                let (remote, local) = stream.ends();
                let facts = Facts {
                    reused: stream.is_reused,
                    retried: silent + unseen > 0,
                    remote,
                    local,
                    connected_after,
                    answered_after,
                };
                let response = deliver(stream, request, *answer, facts, in_flight);
                return Ok(Outcome::Answered(response));
            }
            Err(failed) if failed.is_unseen && unseen + 1 < UNSEEN_MAX => {
                unseen += 1;
                if !upload.begin(false) {
                    return Err(failed.error);
                }
            }
            Err(failed) if failed.wants_http1 => {
                if !upload.begin(true) {
                    return Err(failed.error);
                }
                return Ok(Outcome::SpeaksHttp1(None, in_flight));
            }
            Err(failed) => {
                let may_retry = failed.is_silent
                    && (stream.is_reused || origin.has_another(stream.ends().0.as_ref()))
                    && silent + 1 < SILENT_MAX
                    && may_send_again(request, upload, terms);
                if !(may_retry && upload.begin(false)) {
                    return Err(failed.error);
                }
                silent += 1;
            }
        }
        origin.stats.retries.add(1);
    }
}

/// The response of a head, with its stream behind it.
fn deliver(
    mut stream: Stream,
    request: &RequestHead,
    answer: Answer,
    facts: Facts,
    in_flight: Held,
) -> OriginResponse {
    let Answer { head, length, ends } = answer;
    let is_bodiless = request.method == Method::Head || matches!(head.status, 204 | 304);
    let framing = match length {
        _ if is_bodiless => Framing::None,
        Some(length) => Framing::Length(length),
        None if ends => Framing::Length(0),
        None => Framing::Chunked,
    };
    stream.is_bodiless = is_bodiless;
    let body = OriginBody::of_stream(stream, framing, in_flight);
    OriginResponse { head, framing, body, facts, upgraded: None }
}

/// A request whose head was sent.
pub(super) struct Attempt<'a> {
    stream: &'a Stream,
    upload: &'a mut Upload,
    on_interim: &'a mut dyn FnMut(ResponseHead),
    first_byte: Duration,
    started: Instant,
    /// Whether all of the body was handed to the connection.
    is_finished: bool,
    /// When all of it was sent.
    sent: Option<Instant>,
    armed: Armed,
}

/// What the timer stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Armed {
    /// Nothing: the client is slow, which is the client's side's to judge.
    No,
    Write,
    FirstByte,
}

/// An attempt that failed.
pub(super) struct Failed {
    pub(super) error: OriginError,
    /// No server looked at it.
    is_unseen: bool,
    /// The connection ended without a byte of a response.
    is_silent: bool,
    /// The origin wants HTTP/1.1.
    wants_http1: bool,
}

impl From<OriginError> for Failed {
    fn from(error: OriginError) -> Self {
        Self { error, is_unseen: false, is_silent: false, wants_http1: false }
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        stream: &'a Stream,
        upload: &'a mut Upload,
        on_interim: &'a mut dyn FnMut(ResponseHead),
        first_byte: Duration,
    ) -> Self {
        // A request without a body ended with its head.
        let is_finished = upload.is_bodiless();
        let started = Instant::now();
        let armed = Armed::No;
        let sent = None;
        Self { stream, upload, on_interim, first_byte, started, is_finished, sent, armed }
    }

    /// Runs to the final head; returns it with the time since the request was sent.
    pub(super) async fn run(mut self) -> Result<(Box<Answer>, Duration), Failed> {
        let mut timer = pin!(sleep_until(self.started));
        let answer = poll_fn(|cx| self.poll(cx, timer.as_mut())).await?;
        Ok((answer, self.sent.unwrap_or(self.started).elapsed()))
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut timer: Pin<&mut Sleep>,
    ) -> Poll<Result<Box<Answer>, Failed>> {
        loop {
            match self.stream.poll_head(cx) {
                Poll::Ready(Ok(Came::Final(answer))) => return Poll::Ready(Ok(answer)),
                Poll::Ready(Ok(Came::Interim(head))) => {
                    if self.armed == Armed::FirstByte {
                        self.arm(Armed::FirstByte, timer.as_mut());
                    }
                    (self.on_interim)(head);
                }
                Poll::Ready(Err(ending)) => {
                    return Poll::Ready(Err(Failed {
                        is_unseen: ending.is_unseen(),
                        is_silent: ending.is_of_connection(),
                        wants_http1: ending.wants_http1(),
                        error: ending.before_head(),
                    }));
                }
                Poll::Pending => break,
            }
        }
        if let Err(error) = self.send(cx, timer.as_mut()) {
            return Poll::Ready(Err(error.into()));
        }
        if self.armed != Armed::No && timer.poll(cx).is_ready() {
            return Poll::Ready(Err(self.timed_out().into()));
        }
        Poll::Pending
    }

    /// Hands on what there is of the body and keeps the timer true to what is waited for.
    fn send(&mut self, cx: &mut Context<'_>, timer: Pin<&mut Sleep>) -> Result<(), OriginError> {
        if !self.is_finished {
            match self.stream.poll_upload(cx, self.upload) {
                Poll::Ready(Ok(())) => self.is_finished = true,
                Poll::Ready(Err(Stopped::Client(reason))) => {
                    return Err(OriginError::ClientBody { reason });
                }
                Poll::Ready(Err(Stopped::Origin(error))) => {
                    return Err(OriginError::from_io(&error, 0));
                }
                Poll::Pending => {}
            }
        }
        if self.sent.is_some() {
            return Ok(());
        }
        let has_progressed = self.stream.take_progress();
        if self.stream.has_unsent() {
            if has_progressed || self.armed != Armed::Write {
                self.arm(Armed::Write, timer);
            }
        } else if self.is_finished {
            self.sent = Some(Instant::now());
            self.arm(Armed::FirstByte, timer);
        } else {
            self.armed = Armed::No;
        }
        Ok(())
    }

    fn arm(&mut self, armed: Armed, timer: Pin<&mut Sleep>) {
        let limit = match armed {
            Armed::FirstByte => self.first_byte,
            Armed::Write | Armed::No => self.stream.between_bytes,
        };
        timer.reset(Instant::now() + limit);
        self.armed = armed;
    }

    fn timed_out(&self) -> OriginError {
        match self.armed {
            Armed::FirstByte => OriginError::OriginFirstByteTimeout { limit: self.first_byte },
            _ => OriginError::OriginWriteTimeout { limit: self.stream.between_bytes },
        }
    }
}
