//! Asking an origin whether it is well.

pub use crate::error::ProbeFailure;

use crate::buffer::ReadBuffer;
use crate::connect::{Offer, establish};
use crate::definition::{HttpVersion, Origin};
use crate::error::OriginError;
use crate::health::{Transition, Window};
use crate::http2::alone::ask_alone;
use crate::http2::reach::judged;
use crate::probe_history::{Attempt, History, Step};
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, RequestHead};
use freshet_wire::h1::response;
use freshet_wire::h1::{Framing, write};
use freshet_wire::proxy_protocol;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How an origin is probed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProbeSettings {
    /// Path and query to ask for.
    pub target: String,
    /// Method to ask with; a GET's body is not read.
    pub method: Method,
    /// From one probe to the next.
    pub interval: Duration,
    /// For the whole of one probe.
    pub timeout: Duration,
    /// Results that are looked at.
    pub window: u32,
    /// How many of them have to be good.
    pub threshold: u32,
    /// How many of them count as good before the first; one short of `threshold` where `None`.
    pub initial: Option<u32>,
    /// `Host` to ask with, where it is not the origin's.
    pub host: Option<String>,
    /// The head to send as it is, in place of one made of target, method and host; over HTTP/1.1.
    pub head: Option<String>,
    /// Statuses that are good.
    pub expected: RangeInclusive<u16>,
}

impl Default for ProbeSettings {
    /// As Varnish: `/` every 5 s within 2 s, 3 good of 8, status 200.
    fn default() -> Self {
        Self {
            target: "/".into(),
            method: Method::Get,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            window: 8,
            threshold: 3,
            initial: None,
            host: None,
            head: None,
            expected: 200..=200,
        }
    }
}

/// Probes `origin` for as long as it is polled and writes the verdict to its health. One of these
/// runs for each origin and process; `on_transition` hears of every change, with the failure that
/// brought it about.
pub async fn run(
    origin: Arc<Origin>,
    settings: ProbeSettings,
    on_transition: impl FnMut(&Origin, Transition, Option<&ProbeFailure>),
) {
    run_telling(origin, settings, on_transition, |_, _| {}).await;
}

/// What one probe was and what it changed.
#[derive(Debug)]
pub struct Probed<'a> {
    /// The probe itself.
    pub attempt: &'a Attempt,
    /// Whether enough probes are good now.
    pub is_up: bool,
    /// Whether they were not before, or were.
    pub has_changed: bool,
    /// The last verdicts, this one among them.
    pub window: &'a Window,
    /// The steps of the last probes, of this one too.
    pub history: &'a History,
}

/// As [`run`], and `on_probe` hears of every probe, and before the first of what is assumed.
pub async fn run_telling(
    origin: Arc<Origin>,
    settings: ProbeSettings,
    mut on_transition: impl FnMut(&Origin, Transition, Option<&ProbeFailure>),
    mut on_probe: impl FnMut(&Origin, &Probed<'_>),
) {
    let mut window = Window::new(settings.window, settings.threshold);
    if let Some(initial) = settings.initial {
        window = window.beginning_with(initial);
        // Where it is known to begin badly or well, requests need not wait for the first probe.
        origin.health.probed(window.is_up(), UnixMillis::now());
    }
    let mut history = History::of_good(window.results());
    origin.health.show_window(&window, &history);
    let mut was_up = window.is_up();
    let (attempt, has_changed) = (Attempt::default(), !was_up);
    let before = Probed {
        attempt: &attempt,
        is_up: was_up,
        has_changed,
        window: &window,
        history: &history,
    };
    on_probe(&origin, &before);
    // A zero interval would spin; a probe may take its whole timeout, and then the next one waits.
    let mut ticks = interval(settings.interval.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first = true;
    loop {
        ticks.tick().await;
        let (result, attempt) = try_once(&origin, &settings).await;
        if matches!(&result, Err(ProbeFailure::Origin(OriginError::LocalResources { .. }))) {
            // We could not ask, which says nothing about the origin.
            continue;
        }
        let change = window.push(result.is_ok());
        history.push(&attempt);
        origin.health.show_window(&window, &history);
        let is_up = window.is_up();
        let has_changed = std::mem::replace(&mut was_up, is_up) != is_up;
        let (window_now, history) = (&window, &history);
        let told = Probed { attempt: &attempt, is_up, has_changed, window: window_now, history };
        on_probe(&origin, &told);
        let before = origin.health.changes();
        origin.health.probed(window.is_up(), UnixMillis::now());
        // An origin counts as up before its first probe, so that a bad one is a change as well.
        let went_down = first && !window.is_up() && origin.health.changes() > before;
        let first_verdict = went_down.then_some(Transition::WentDown);
        first = false;
        if let Some(change) = change.or(first_verdict) {
            on_transition(&origin, change, result.as_ref().err());
        }
    }
}

/// One probe, on a connection of its own.
///
/// # Errors
/// [`ProbeFailure`]; counted.
pub async fn probe(origin: &Arc<Origin>, settings: &ProbeSettings) -> Result<(), ProbeFailure> {
    try_once(origin, settings).await.0
}

/// One probe and the steps of it.
async fn try_once(
    origin: &Arc<Origin>,
    settings: &ProbeSettings,
) -> (Result<(), ProbeFailure>, Attempt) {
    origin.stats.probes.add(1);
    let (limit, started) = (settings.timeout, Instant::now());
    let mut attempt = Attempt::default();
    let result = match timeout(limit, ask(origin, settings, &mut attempt)).await {
        Ok(Ok(got)) if settings.expected.contains(&got) => Ok(()),
        Ok(Ok(got)) => Err(ProbeFailure::OriginStatus { got, expected: settings.expected.clone() }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ProbeFailure::OriginTimeout { limit }),
    };
    match &result {
        Ok(()) => attempt.reach(Step::Good),
        Err(why) => {
            origin.stats.probe_failures.add(1);
            attempt.fail(why);
        }
    }
    attempt.took = started.elapsed();
    (result, attempt)
}

/// The status of the final response. Not through a pool and not counted against
/// `connections_max`: an origin that is full is not ill.
async fn ask(
    origin: &Arc<Origin>,
    settings: &ProbeSettings,
    attempt: &mut Attempt,
) -> Result<u16, OriginError> {
    let offer = match origin.settings.http {
        HttpVersion::Http1 => Offer::Http1,
        HttpVersion::Http2 | HttpVersion::Either => Offer::Http2,
    };
    let mut stream = establish(origin, offer, Instant::now() + settings.timeout).await?;
    attempt.reach(Step::connected(stream.peer_address()));
    // A head that is given says itself whether a body is to come back.
    let given = settings.head.as_deref();
    let method = given.and_then(|head| head.split_ascii_whitespace().next());
    let head = RequestHead {
        method: method.map_or_else(|| settings.method.clone(), Method::from_name),
        authority: settings.host.clone().unwrap_or_else(|| origin.authority()),
        target: settings.target.clone(),
        fields: [("User-Agent", "freshet-probe")].into_iter().collect(),
        ..RequestHead::default()
    };
    if offer == Offer::Http2 {
        let (socket, is_http2) = judged(origin, stream)?;
        if is_http2 {
            attempt.reach(Step::Sent);
            let answer = ask_alone(origin, socket, &head, settings.timeout).await?;
            attempt.receive(format!("HTTP/2 {}", answer.status).as_bytes());
            return Ok(answer.status);
        }
        stream = socket;
    }
    let mut bytes = Vec::new();
    if origin.settings.proxy_header > 0 {
        proxy_protocol::write(origin.settings.proxy_header, None, None, &mut bytes);
    }
    match given {
        Some(given) => bytes.extend_from_slice(given.as_bytes()),
        None => write::request_head(&head, Framing::None, &mut bytes),
    }
    if let Err(error) = stream.write(&bytes).await {
        attempt.reach(Step::NotSent);
        return Err(OriginError::from_io(&error, 0));
    }
    attempt.reach(Step::Sent);
    let mut buffer = ReadBuffer::default();
    loop {
        match stream.read(buffer.room()).await {
            Ok(0) => {
                // A status line is an answer, whatever was to come behind it.
                attempt.receive(buffer.bytes());
                let closed = OriginError::OriginClosed { response_bytes: buffer.len() };
                return status_of_line(buffer.bytes()).ok_or(closed);
            }
            Ok(count) => buffer.fill(count),
            Err(error) => return Err(OriginError::from_io(&error, buffer.len())),
        }
        attempt.receive(buffer.bytes());
        let limits = &origin.settings.limits;
        while let Some(response) =
            response::parse(buffer.bytes(), &head.method, limits).map_err(OriginError::from_head)?
        {
            if response.head.status >= 200 {
                return Ok(response.head.status);
            }
            buffer.consume(response.head_bytes);
        }
    }
}

/// The status of a response that has come as far as the end of its first line.
fn status_of_line(bytes: &[u8]) -> Option<u16> {
    let line = bytes.split(|byte| *byte == b'\n').next().filter(|line| line.len() < bytes.len())?;
    let rest = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/")?;
    rest.split(' ').nth(1)?.trim_end().parse().ok()
}
