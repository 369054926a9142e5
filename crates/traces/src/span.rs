//! What a transcript says, as a span.

use crate::context::Context;
use crate::limits::{EVENTS_MAX, TEXT_BYTES_MAX};
use freshet_http::message::Scheme;
use freshet_node::transcript::{Outcome, Side, Tag};
use std::time::{SystemTime, UNIX_EPOCH};

/// A request or a fetch, by the names of OpenTelemetry's semantic conventions for HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) context: Context,
    /// Whether it is a request to an origin.
    pub(crate) is_fetch: bool,
    /// When it began and ended, nanoseconds of Unix time; 0 until then.
    pub(crate) began_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) method: String,
    /// Path and query of a fetch, path of a request: what follows there may be a secret.
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) protocol: String,
    pub(crate) client: String,
    pub(crate) user_agent: String,
    /// By which scheme it came, or an origin was asked.
    pub(crate) scheme: Option<Scheme>,
    pub(crate) status: u16,
    /// Whether that is what was sent, whatever records say.
    is_sent: bool,
    pub(crate) cache_status: String,
    /// The origin's name, its address and port.
    pub(crate) origin: String,
    pub(crate) peer: Option<(String, u16)>,
    pub(crate) body_bytes: Option<u64>,
    /// Why it is there: `rxreq`, `esi`, `restart`, `fetch`, `bgfetch`, `pass`, `retry`.
    pub(crate) reason: String,
    pub(crate) error: Option<String>,
    /// Points in time, and what was reached.
    pub(crate) events: Vec<(String, u64)>,
}

impl Span {
    pub(crate) fn of(context: Context) -> Self {
        Self {
            context,
            is_fetch: false,
            began_ns: 0,
            ended_ns: 0,
            method: String::new(),
            target: String::new(),
            host: String::new(),
            protocol: String::new(),
            client: String::new(),
            user_agent: String::new(),
            scheme: None,
            status: 0,
            is_sent: false,
            cache_status: String::new(),
            origin: String::new(),
            peer: None,
            body_bytes: None,
            reason: String::new(),
            error: None,
            events: Vec::new(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_ns != 0
    }

    /// Takes what the client was sent: its own, as records tell of what was there before conditions and ranges, and
    /// of none that was made here.
    pub(crate) fn answered(&mut self, outcome: &Outcome<'_>) {
        (self.scheme, self.status, self.is_sent) = (Some(outcome.scheme), outcome.status, true);
        if let Some(text) = outcome.cache_status {
            self.cache_status = kept(&String::from_utf8_lossy(text));
        }
    }

    /// Takes one record of the transcript.
    pub(crate) fn take(&mut self, side: Side, tag: Tag, text: &[u8]) {
        self.is_fetch = side == Side::Backend;
        let text = String::from_utf8_lossy(text);
        let mut words = text.split(' ');
        let mut word = |at: usize| words.nth(at).unwrap_or_default();
        match tag {
            Tag::Begin => self.reason = kept(word(2)),
            Tag::Timestamp => self.time(&text),
            // What a policy makes of it follows; the first is what was asked.
            Tag::ReqMethod if self.method.is_empty() => self.method = kept(&text),
            Tag::ReqURL if self.target.is_empty() => {
                self.target = kept(text.split('?').next().unwrap_or_default());
            }
            Tag::ReqProtocol if self.protocol.is_empty() => {
                self.protocol = kept(text.strip_prefix("HTTP/").unwrap_or(&text));
            }
            Tag::ReqStart => self.client = kept(word(0)),
            Tag::ReqHeader => self.field(&text, "host", "user-agent"),
            Tag::RespStatus | Tag::RespHeader if self.is_sent => {}
            Tag::RespStatus => self.status = text.parse().unwrap_or(0),
            Tag::RespHeader => {
                if let Some(value) = of_field(&text, "cache-status") {
                    self.cache_status = kept(value);
                }
            }
            // Of a fetch the last is what the origin got.
            Tag::BereqMethod => self.method = kept(&text),
            Tag::BereqURL => self.target = kept(&text),
            Tag::BereqHeader => self.field(&text, "host", ""),
            Tag::BerespStatus => self.status = text.parse().unwrap_or(0),
            Tag::BackendOpen => {
                self.origin = kept(word(1));
                let (address, port) = (word(0), word(0));
                self.peer = port.parse().ok().map(|port| (kept(address), port));
            }
            Tag::FetchError => self.error = Some(kept(&text)),
            Tag::ReqAcct | Tag::BereqAcct => {
                // Head, body and sum of the request, then of the response.
                self.body_bytes = word(4).parse().ok();
            }
            Tag::End => self.end(),
            _ => {}
        }
    }

    /// `Start: 1700000000.000000 0.000000 0.000000`: what, when, and since when.
    fn time(&mut self, text: &str) {
        let Some((label, rest)) = text.split_once(": ") else { return };
        let seconds = rest.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        let Some(seconds) = seconds.filter(|seconds| seconds.is_finite()) else { return };
        let at_ns = ((seconds * 1e6) as u64).saturating_mul(1000);
        if self.began_ns == 0 {
            self.began_ns = at_ns;
        } else if self.events.len() < EVENTS_MAX {
            self.events.push((kept(label), at_ns));
        }
    }

    /// `name: value` of a request.
    fn field(&mut self, text: &str, host: &str, user_agent: &str) {
        if let Some(value) = of_field(text, host) {
            self.host = kept(value);
        } else if let Some(value) = of_field(text, user_agent).filter(|_| !user_agent.is_empty()) {
            self.user_agent = kept(value);
        }
    }

    fn end(&mut self) {
        let last = self.events.last().filter(|(label, _)| {
            matches!(label.as_str(), "Resp" | "BerespBody" | "PipeSess" | "Error")
        });
        let now_ns = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
        };
        let ended = last.map_or_else(now_ns, |(_, at_ns)| *at_ns);
        if self.began_ns == 0 {
            self.began_ns = ended;
        }
        // A clock that was set back ends nothing before it began.
        self.ended_ns = ended.max(self.began_ns).max(1);
    }
}

/// The value of a field of this name, in small letters.
fn of_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = text.split_once(": ")?;
    found.eq_ignore_ascii_case(name).then_some(value)
}

/// A text within its bound.
fn kept(text: &str) -> String {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(side: Side, records: &[(Tag, &str)]) -> Span {
        let mut span = Span::of(Context::root());
        records.iter().for_each(|(tag, text)| span.take(side, *tag, text.as_bytes()));
        span
    }

    #[test]
    fn a_request_is_as_it_was_asked_and_as_it_ended() {
        let span = told(
            Side::Client,
            &[
                (Tag::Begin, "req 1 rxreq"),
                (Tag::Timestamp, "Start: 1700000000.250000 0.000000 0.000000"),
                (Tag::ReqStart, "192.0.2.7 4711 a0"),
                (Tag::ReqMethod, "GET"),
                (Tag::ReqURL, "/a?token=secret"),
                (Tag::ReqProtocol, "HTTP/2.0"),
                (Tag::ReqHeader, "Host: www.example"),
                (Tag::ReqHeader, "User-Agent: curl/8"),
                (Tag::ReqURL, "/rewritten"),
                (Tag::Timestamp, "Process: 1700000000.250100 0.000100 0.000100"),
                (Tag::RespStatus, "200"),
                (Tag::RespHeader, "Cache-Status: freshet; hit"),
                (Tag::Timestamp, "Resp: 1700000000.251000 0.001000 0.000900"),
                (Tag::ReqAcct, "60 0 60 150 5000 5150"),
                (Tag::End, ""),
            ],
        );
        assert_eq!((&*span.method, &*span.target, &*span.host), ("GET", "/a", "www.example"));
        assert_eq!((&*span.protocol, &*span.client, &*span.reason), ("2.0", "192.0.2.7", "rxreq"));
        assert_eq!((span.status, span.body_bytes, span.is_fetch), (200, Some(5000), false));
        assert_eq!((&*span.user_agent, &*span.cache_status), ("curl/8", "freshet; hit"));
        assert_eq!(span.began_ns, 1_700_000_000_250_000_000);
        assert_eq!(span.ended_ns, 1_700_000_000_251_000_000);
        assert_eq!(span.events.len(), 2);
        assert!(span.has_ended());
    }

    #[test]
    fn what_was_sent_goes_before_what_there_was() {
        let mut span = told(Side::Client, &[(Tag::RespStatus, "200")]);
        let cache_status = Some(&b"freshet; hit"[..]);
        span.answered(&Outcome { scheme: Scheme::Https, status: 304, cache_status });
        for (tag, text) in [(Tag::RespStatus, "200"), (Tag::RespHeader, "Cache-Status: x")] {
            span.take(Side::Client, tag, text.as_bytes());
        }
        assert_eq!((span.status, &*span.cache_status), (304, "freshet; hit"));
        assert_eq!(span.scheme, Some(Scheme::Https));
    }

    #[test]
    fn a_fetch_is_as_the_origin_got_it() {
        let span = told(
            Side::Backend,
            &[
                (Tag::Begin, "bereq 2 fetch"),
                (Tag::Timestamp, "Start: 1700000000.000000 0.000000 0.000000"),
                (Tag::BereqMethod, "GET"),
                (Tag::BereqURL, "/a"),
                (Tag::BereqURL, "/b?x=1"),
                (Tag::BereqHeader, "host: origin.example"),
                (Tag::BackendOpen, "0 default 192.0.2.9 8080 127.0.0.1 40000 connect"),
                (Tag::BerespStatus, "503"),
                (Tag::FetchError, "first byte timeout"),
                (Tag::End, ""),
            ],
        );
        assert_eq!(
            (&*span.target, &*span.host, &*span.origin),
            ("/b?x=1", "origin.example", "default")
        );
        assert_eq!((span.peer, span.status), (Some(("192.0.2.9".into(), 8080)), 503));
        assert_eq!(span.error.as_deref(), Some("first byte timeout"));
        assert!(span.is_fetch && span.ended_ns > span.began_ns);
    }

    #[test]
    fn no_record_makes_it_panic_or_grow() {
        for tag in Tag::ALL {
            for text in ["", " ", "x", ": ", "Start: NaN", "Start: 1e300 0 0", "0 a b c d e f g"] {
                told(Side::Client, &[(*tag, text), (Tag::End, "")]);
            }
        }
        let long = "é".repeat(TEXT_BYTES_MAX);
        let time = (Tag::Timestamp, "Fetch: 1.0 0.0 0.0");
        let mut records = vec![(Tag::ReqURL, &*long)];
        records.extend(std::iter::repeat_n(time, 1000));
        let span = told(Side::Client, &records);
        assert!(span.target.len() <= TEXT_BYTES_MAX && span.events.len() == EVENTS_MAX);
    }
}
