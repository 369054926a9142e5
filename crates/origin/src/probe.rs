//! Asking an origin whether it is well.

use crate::buffer::ReadBuffer;
use crate::connect::{Offer, establish};
use crate::definition::{HttpVersion, Origin};
use crate::error::OriginError;
use crate::health::{Transition, Window};
use crate::http2::alone::ask_alone;
use crate::http2::reach::judged;
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
            expected: 200..=200,
        }
    }
}

/// Why a probe was not good.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeFailure {
    /// No response.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Another status than expected.
    #[error("the origin answered the probe with {got}, expected {} to {}", expected.start(), expected.end())]
    OriginStatus {
        /// The status.
        got: u16,
        /// The good ones.
        expected: RangeInclusive<u16>,
    },
    /// Not done in time.
    #[error("the origin did not answer the probe within {limit:?}")]
    OriginTimeout {
        /// The probe's timeout.
        limit: Duration,
    },
}

/// Probes `origin` for as long as it is polled and writes the verdict to its health. One of these
/// runs for each origin and process; `on_transition` hears of every change, with the failure that
/// brought it about.
pub async fn run(
    origin: Arc<Origin>,
    settings: ProbeSettings,
    mut on_transition: impl FnMut(&Origin, Transition, Option<&ProbeFailure>),
) {
    let mut window = Window::new(settings.window, settings.threshold);
    if let Some(initial) = settings.initial {
        window = window.beginning_with(initial);
        // Where it is known to begin badly or well, requests need not wait for the first probe.
        origin.health.probed(window.is_up(), UnixMillis::now());
    }
    origin.health.show_window(&window);
    // A zero interval would spin; a probe may take its whole timeout, and then the next one waits.
    let mut ticks = interval(settings.interval.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first = true;
    loop {
        ticks.tick().await;
        let result = probe(&origin, &settings).await;
        if matches!(&result, Err(ProbeFailure::Origin(OriginError::LocalResources { .. }))) {
            // We could not ask, which says nothing about the origin.
            continue;
        }
        let change = window.push(result.is_ok());
        origin.health.show_window(&window);
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
    origin.stats.probes.add(1);
    let limit = settings.timeout;
    let result = match timeout(limit, ask(origin, settings)).await {
        Ok(Ok(got)) if settings.expected.contains(&got) => Ok(()),
        Ok(Ok(got)) => Err(ProbeFailure::OriginStatus { got, expected: settings.expected.clone() }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ProbeFailure::OriginTimeout { limit }),
    };
    if result.is_err() {
        origin.stats.probe_failures.add(1);
    }
    result
}

/// The status of the final response. Not through a pool and not counted against
/// `connections_max`: an origin that is full is not ill.
async fn ask(origin: &Arc<Origin>, settings: &ProbeSettings) -> Result<u16, OriginError> {
    let offer = match origin.settings.http {
        HttpVersion::Http1 => Offer::Http1,
        HttpVersion::Http2 | HttpVersion::Either => Offer::Http2,
    };
    let mut stream = establish(origin, offer, Instant::now() + settings.timeout).await?;
    let head = RequestHead {
        method: settings.method.clone(),
        authority: settings.host.clone().unwrap_or_else(|| origin.authority()),
        target: settings.target.clone(),
        fields: [("User-Agent", "freshet-probe")].into_iter().collect(),
        ..RequestHead::default()
    };
    if offer == Offer::Http2 {
        let (socket, is_http2) = judged(origin, stream)?;
        if is_http2 {
            let answer = ask_alone(origin, socket, &head, settings.timeout).await?;
            return Ok(answer.status);
        }
        stream = socket;
    }
    let mut bytes = Vec::new();
    if origin.settings.proxy_header > 0 {
        proxy_protocol::write(origin.settings.proxy_header, None, None, &mut bytes);
    }
    write::request_head(&head, Framing::None, &mut bytes);
    stream.write(&bytes).await.map_err(|error| OriginError::from_io(&error, 0))?;
    let mut buffer = ReadBuffer::default();
    loop {
        match stream.read(buffer.room()).await {
            Ok(0) => return Err(OriginError::OriginClosed { response_bytes: buffer.len() }),
            Ok(count) => buffer.fill(count),
            Err(error) => return Err(OriginError::from_io(&error, buffer.len())),
        }
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
