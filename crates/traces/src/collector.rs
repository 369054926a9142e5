//! Who is told: a collector of OpenTelemetry, asked by HTTP.

use crate::encode::{self, Resource};
use crate::limits::{
    ANSWER_WITHIN, BATCH_SPANS_MAX, BATCH_WITHIN, FIELDS_BYTES_MAX, RETRY_AFTER_MAX, TRIES_MAX,
};
use crate::metrics;
use crate::span::Span;
use freshet_base::clock::UnixMillis;
use freshet_base::file;
use freshet_base::log_limit::LogLimit;
use freshet_base::machine;
use freshet_config::traces::Tracing;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::pool::Pool;
use freshet_origin::request_body::WholeBody;
use freshet_origin::{Origin, OriginSettings, exchange};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout, timeout_at};

/// Lines about a collector that does not take what it is sent are this far apart.
const FAILURE_PERIOD: Duration = Duration::from_secs(60);

/// A collector, and how it is asked.
#[derive(Debug)]
pub struct Collector {
    origin: Arc<Origin>,
    head: RequestHead,
    resource: Resource,
}

/// What a collector is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// Spans of requests.
    Traces,
    /// The node's metrics.
    Metrics,
}

impl Signal {
    /// Where it is sent, unless the collector's URL says something else.
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }

    /// Its path, by what the URL says: that is where spans go, and others go beside.
    fn target(self, path: &str) -> Option<String> {
        match (path, self) {
            ("" | "/", _) => Some(self.path().to_owned()),
            (path, Self::Traces) => Some(path.to_owned()),
            (path, Self::Metrics) => {
                Some(format!("{}{}", path.strip_suffix(Self::Traces.path())?, self.path()))
            }
        }
    }
}

/// Why spans were not taken.
enum Failure {
    /// Another try may help, after so long.
    Now(String, Option<Duration>),
    /// None does.
    Ever(String),
}

impl Collector {
    /// The one that settings name, for one kind of what it takes; reads their files.
    ///
    /// # Errors
    /// What cannot be meant, or be read.
    pub fn new(settings: &Tracing, signal: Signal) -> Result<Self, String> {
        let wrong = |why: &str| format!("tracing.otlp: `{}` {why}", settings.otlp);
        let (scheme, rest) = settings
            .otlp
            .split_once("://")
            .ok_or_else(|| wrong("is no URL: write http://127.0.0.1:4318"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("has a path of more than letters, digits and signs"));
        }
        let mut of: OriginSettings = format!("{scheme}://{authority}")
            .parse()
            .map_err(|error| wrong(&format!("cannot be asked: {error}")))?;
        of.logs_outages = false;
        of.timeouts.connect = ANSWER_WITHIN;
        of.timeouts.first_byte = ANSWER_WITHIN;
        match (&mut of.tls, &settings.ca) {
            (Some(tls), ca) => tls.ca.clone_from(ca),
            (None, Some(_)) => {
                return Err(wrong("is not asked over TLS, so tracing.ca means nothing"));
            }
            (None, None) => {}
        }
        let origin = Origin::new(of).map_err(|error| wrong(&error.to_string()))?;
        let mut fields: Fields = [
            ("User-Agent", concat!("freshet/", env!("CARGO_PKG_VERSION"))),
            ("Content-Type", "application/json"),
        ]
        .into_iter()
        .collect();
        if let Some(path) = &settings.fields {
            let wrong = |why: String| format!("tracing.fields: {}: {why}", path.display());
            let text = file::read_text(path, FIELDS_BYTES_MAX)
                .map_err(|error| wrong(error.to_string()))?;
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (name, value) = read_field(line)
                    .ok_or_else(|| wrong(format!("a line is `Name: value`, not `{line}`")))?;
                fields.set(name, value);
            }
        }
        let target = signal.target(path).ok_or_else(|| {
            wrong("says where spans go, but not where metrics do: let its path end with /v1/traces")
        })?;
        let head = RequestHead {
            method: Method::Post,
            authority: authority.to_owned(),
            target,
            fields,
            ..RequestHead::default()
        };
        let host = machine::host_name().unwrap_or_default();
        let resource = Resource { service: settings.service.clone(), host };
        Ok(Self { origin, head, resource })
    }

    /// Sends spans as they come, several at a time, until no more can come.
    pub(crate) async fn follow(self, mut spans: Receiver<Box<Span>>, lost: Arc<AtomicU64>) {
        let pool = Pool::new();
        let (log, mut told) = (LogLimit::new(), 0);
        while let Some(first) = spans.recv().await {
            let mut batch = vec![first];
            let until = tokio::time::Instant::now() + BATCH_WITHIN;
            while batch.len() < BATCH_SPANS_MAX
                && let Ok(Some(span)) = timeout_at(until, spans.recv()).await
            {
                batch.push(span);
            }
            let body = encode::message(&self.resource, &batch).to_string().into_bytes();
            let sent = self.send(&pool, &body, || spans.is_closed()).await;
            if sent.is_err() {
                lost.fetch_add(batch.len() as u64, Relaxed);
            }
            let all = lost.load(Relaxed);
            if all > told && log.admit(UnixMillis::now(), FAILURE_PERIOD).is_some() {
                let why = sent.err().unwrap_or_else(|| "more come than can be sent".to_owned());
                let collector = &self.head.authority;
                tracing::warn!(collector, spans = all - told, "spans of traces are lost: {why}");
                told = all;
            }
        }
    }

    /// Sends metrics each period until it is told to stop, and then once more.
    pub(crate) async fn tell(
        self,
        every: Duration,
        began: UnixMillis,
        mut stopped: oneshot::Receiver<()>,
        text: impl Fn() -> Option<String>,
    ) {
        let (pool, log) = (Pool::new(), LogLimit::new());
        let mut ends = false;
        while !ends {
            ends = timeout(every, &mut stopped).await.is_ok();
            let Some(metrics) = text() else { continue };
            let now = UnixMillis::now();
            let message =
                metrics::message(&self.resource, &metrics, nanoseconds(began), nanoseconds(now));
            let sent = self.send(&pool, message.to_string().as_bytes(), || ends).await;
            if let Err(why) = sent
                && log.admit(now, FAILURE_PERIOD).is_some()
            {
                let collector = &self.head.authority;
                tracing::warn!(collector, "metrics are not sent: {why}");
            }
        }
    }

    /// Sends a message, and again where that may help; not for long when the node is about to end.
    async fn send(&self, pool: &Pool, body: &[u8], ends: impl Fn() -> bool) -> Result<(), String> {
        let mut pause = Duration::from_secs(1);
        for tried in 1..=TRIES_MAX {
            let why = match self.ask(pool, body.to_vec()).await {
                Ok(()) => return Ok(()),
                Err(Failure::Ever(why)) => return Err(why),
                Err(Failure::Now(why, after)) => {
                    pause = after.unwrap_or(pause).min(RETRY_AFTER_MAX);
                    why
                }
            };
            if tried == TRIES_MAX || ends() {
                return Err(why);
            }
            sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }

    async fn ask(&self, pool: &Pool, body: Vec<u8>) -> Result<(), Failure> {
        let body = Box::new(WholeBody::new(body));
        let asked = async {
            let mut on_interim = |_interim| {};
            let answer = exchange(pool, &self.origin, &self.head, Some(body), &mut on_interim);
            let mut answer = answer.await.map_err(|error| Failure::Now(error.to_string(), None))?;
            let mut piece = [0; 4096];
            // What it says is read, so that the connection can be used again.
            while answer.body.read(&mut piece).await.is_ok_and(|count| count > 0) {}
            Ok(answer.head)
        };
        let late = || Failure::Now(format!("no answer within {} s", ANSWER_WITHIN.as_secs()), None);
        let head = timeout(ANSWER_WITHIN, asked).await.map_err(|_| late())??;
        let why = format!("the collector answers with {}", head.status);
        match head.status {
            200..=299 => Ok(()),
            429 | 502 | 503 | 504 => {
                let after = head.fields.get_str("retry-after").and_then(|text| text.parse().ok());
                Err(Failure::Now(why, after.map(Duration::from_secs)))
            }
            _ => Err(Failure::Ever(why)),
        }
    }
}

/// A time as OTLP has it.
fn nanoseconds(time: UnixMillis) -> u64 {
    time.0.saturating_mul(1_000_000)
}

/// `Name: value`.
fn read_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let (name, value) = (name.trim(), value.trim());
    let is_good =
        !name.is_empty() && name.bytes().all(is_name) && !value.contains(char::is_control);
    is_good.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_config::mistake::Place;

    fn settings(otlp: &str) -> Tracing {
        Tracing {
            otlp: otlp.into(),
            sample: 1,
            follow: Vec::new(),
            service: "edge".into(),
            fields: None,
            ca: None,
            metrics: Duration::ZERO,
            place: Place::default(),
        }
    }

    #[test]
    fn a_collector_is_a_url_whose_path_has_a_default() {
        for (url, target) in [
            ("http://127.0.0.1:4318", "/v1/traces"),
            ("http://127.0.0.1:4318/", "/v1/traces"),
            ("https://otlp.example/api/otlp/v1/traces", "/api/otlp/v1/traces"),
        ] {
            let target_of = |signal| Collector::new(&settings(url), signal).unwrap().head.target;
            assert_eq!(target_of(Signal::Traces), target);
            assert_eq!(target_of(Signal::Metrics), target.replace("traces", "metrics"));
        }
        let own = settings("https://otlp.example/spans");
        assert_eq!(Collector::new(&own, Signal::Traces).unwrap().head.target, "/spans");
        assert!(
            Collector::new(&own, Signal::Metrics).unwrap_err().contains("not where metrics do")
        );
        for url in ["127.0.0.1:4318", "ftp://a", "http://", "http://a/b c", "http://a:x"] {
            let why = Collector::new(&settings(url), Signal::Traces).unwrap_err();
            assert!(why.starts_with(&format!("tracing.otlp: `{url}` ")), "{why}");
        }
        let with_ca = Tracing { ca: Some("/x".into()), ..settings("http://a") };
        assert!(Collector::new(&with_ca, Signal::Traces).unwrap_err().contains("means nothing"));
        let missing = Tracing { fields: Some("/nowhere".into()), ..settings("http://a") };
        assert!(
            Collector::new(&missing, Signal::Traces)
                .unwrap_err()
                .starts_with("tracing.fields: /nowhere")
        );
    }

    #[test]
    fn fields_are_lines() {
        assert_eq!(read_field("Authorization: Bearer a:b"), Some(("Authorization", "Bearer a:b")));
        for line in ["Authorization", ": x", "a b: c", "A: b\rc"] {
            assert_eq!(read_field(line), None, "{line}");
        }
    }
}
