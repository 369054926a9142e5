//! From a request to a response: methods, conditions and ranges of RFC 9110 over the catalogue.
//!
//! Conditions and ranges are read here with a few lines of our own, not with those of the cache: an
//! instrument that shared the mistakes of what it measures would not see them.

use super::catalogue::{self, Body, Missing, Resource};
use super::growth::{self, Due, Parts};
use super::{Counters, Settings};
use crate::programme::Schedule;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_load::LabError;
use freshet_load::content::Content;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");

/// How long a cache may remember that a path names nothing. Short, because a setting may change.
const UNKNOWN_MAX_AGE_S: u64 = 10;

/// How long a cache may remember that a segment is not there yet: less than anyone notices.
const EARLY_MAX_AGE_S: u64 = 1;

/// How much is remembered of what was asked for: some minutes of a channel's parts; 2 MB.
const REMEMBERED_MAX: usize = 16_384;

/// What all connections of an origin share.
#[derive(Debug)]
pub(super) struct State {
    settings: Settings,
    schedule: Schedule,
    pub(super) counters: Arc<Counters>,
    /// The newest event for the page; empty where there is none.
    pub(super) figures: watch::Sender<Bytes>,
    asked: Mutex<Remembered>,
}

/// What was asked for last.
#[derive(Debug, Default)]
struct Remembered {
    order: VecDeque<String>,
    all: HashSet<String>,
}

impl Remembered {
    /// Whether it is asked for for the first time.
    fn is_first(&mut self, target: &str) -> bool {
        if !self.all.insert(target.to_owned()) {
            return false;
        }
        self.order.push_back(target.to_owned());
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
        true
    }
}

impl State {
    pub(super) fn new(settings: Settings) -> Result<Self, LabError> {
        let schedule = settings.schedule()?;
        let figures = watch::Sender::new(Bytes::new());
        let (counters, asked) = (Arc::default(), Mutex::default());
        Ok(Self { settings, schedule, counters, figures, asked })
    }

    /// What is always at `path`, if anything.
    pub(super) fn content_of(&self, path: &str) -> Option<Content> {
        let path = path.split('?').next().unwrap_or(path);
        let now = UnixMillis::now();
        let found = catalogue::find(&self.settings, &self.schedule, path, "", now).ok()?;
        (found.max_age_s >= catalogue::STATIC_MAX_AGE_S).then(|| found.body.make())
    }

    /// When what a request asks for is there.
    pub(super) fn due(&self, path: &str, query: &str, now: UnixMillis) -> Due {
        growth::due(&self.schedule, path, query, now)
    }

    /// The answer to a request at `now`, counted.
    pub(super) fn respond(
        &self,
        method: &Method,
        (path, query): (&str, &str),
        fields: &HeaderMap,
        now: UnixMillis,
    ) -> Response<Content> {
        let response = match self.due(path, query, now) {
            Due::TooFar => refuse(StatusCode::BAD_REQUEST, "too far ahead\n", 0),
            Due::Now | Due::At(_) => self.answer(method, (path, query), fields, now),
        };
        self.counters.requests.add(1);
        let file = path.rsplit('/').next().unwrap_or_default();
        let is_growing = response.extensions().get::<Parts>().is_some();
        if is_growing || growth::is_news(file, query) {
            self.counters.news.add(1);
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = asked.is_first(&format!("{path}?{query}"));
            self.counters.news_again.add(u64::from(!is_first));
        }
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            self.counters.not_modified.add(1);
        } else if status.is_client_error() || status.is_server_error() {
            self.counters.refused.add(1);
        }
        response
    }

    fn answer(
        &self,
        method: &Method,
        (path, query): (&str, &str),
        fields: &HeaderMap,
        now: UnixMillis,
    ) -> Response<Content> {
        if method == Method::OPTIONS {
            return preflight();
        }
        if method != Method::GET && method != Method::HEAD {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "read only here\n", 0);
            response.headers_mut().insert(header::ALLOW, READ_METHODS);
            return response;
        }
        let found = catalogue::find(&self.settings, &self.schedule, path, query, now);
        let mut response = match found {
            Ok(resource) => present(resource, method, fields),
            Err(Missing::Unknown) => {
                refuse(StatusCode::NOT_FOUND, "no such path\n", UNKNOWN_MAX_AGE_S)
            }
            Err(Missing::Early) => {
                refuse(StatusCode::NOT_FOUND, "not yet: it ends in the future\n", EARLY_MAX_AGE_S)
            }
            Err(Missing::Gone) => {
                refuse(StatusCode::NOT_FOUND, "it has left the window\n", UNKNOWN_MAX_AGE_S)
            }
        };
        if method == Method::HEAD {
            *response.body_mut() = nothing();
        }
        response
    }
}

const READ_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const ANYONE: HeaderValue = HeaderValue::from_static("*");

fn nothing() -> Content {
    Content::new("", 0, 0)
}

/// The answer of a resource that exists, as far as conditions and ranges want it. What grows is an
/// extension of it, and its content empty.
fn present(resource: Resource, method: &Method, fields: &HeaderMap) -> Response<Content> {
    let mut response = Response::new(nothing());
    let cache_control = match resource.max_age_s {
        0 => "no-store".to_owned(),
        seconds => format!("public, max-age={seconds}"),
    };
    let mut modified = Vec::new();
    date::write(resource.modified, &mut modified);
    let modified = String::from_utf8(modified).expect("HTTP dates are ASCII");
    let head = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, cache_control),
        (header::ETAG, resource.etag.clone()),
        (header::LAST_MODIFIED, modified.clone()),
        (SURROGATE_KEY, resource.tags),
    ] {
        head.insert(name, value_of(&value));
    }
    head.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    if not_modified(fields, &resource.etag, &modified) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static(resource.content_type));
    if let Body::Growing(parts) = resource.body {
        if method == Method::GET {
            response.extensions_mut().insert(parts);
        }
        return response;
    }
    head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let content = resource.body.make();
    let total = content.len();
    // Only GET has ranges, RFC 9110 §14.2.
    let asked = if method == Method::GET && range_applies(fields, &resource.etag, &modified) {
        fields.get(header::RANGE).and_then(|value| value.to_str().ok())
    } else {
        None
    };
    let content = match asked.map_or(Asked::Everything, |text| parse_range(text, total)) {
        Asked::Everything => content,
        Asked::Part(range) => {
            let described = format!("bytes {}-{}/{total}", range.start, range.end - 1);
            response.headers_mut().insert(header::CONTENT_RANGE, value_of(&described));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            content.slice(range)
        }
        Asked::Nothing => {
            let mut response = refuse(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes\n", 0);
            let described = value_of(&format!("bytes */{total}"));
            response.headers_mut().insert(header::CONTENT_RANGE, described);
            return response;
        }
    };
    response.headers_mut().insert(header::CONTENT_LENGTH, content.len().into());
    *response.body_mut() = content;
    response
}

/// Whether the conditions say that the client has it already, RFC 9110 §13.2.2. Dates are compared for
/// equality: a client that has ours sends it back as it got it.
fn not_modified(fields: &HeaderMap, etag: &str, modified: &str) -> bool {
    let mut conditions = fields.get_all(header::IF_NONE_MATCH).iter().peekable();
    if conditions.peek().is_some() {
        // Our tags contain no comma, so splitting there finds each tag whole.
        return conditions.filter_map(|value| value.to_str().ok()).any(|value| {
            value
                .split(',')
                .map(str::trim)
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
        });
    }
    fields
        .get(header::IF_MODIFIED_SINCE)
        .is_some_and(|value| value.as_bytes() == modified.as_bytes())
}

/// Whether `If-Range` lets a range through: it is absent or names this very representation.
fn range_applies(fields: &HeaderMap, etag: &str, modified: &str) -> bool {
    fields.get(header::IF_RANGE).is_none_or(|value| {
        value.as_bytes() == etag.as_bytes() || value.as_bytes() == modified.as_bytes()
    })
}

/// What a `Range` field asks for.
#[derive(Debug, PartialEq)]
enum Asked {
    /// All of it: the field is not understood or names several ranges, and so is ignored.
    Everything,
    /// These bytes; not empty, and within the representation.
    Part(Range<u64>),
    /// Bytes behind the end: 416.
    Nothing,
}

/// Reads one byte range, RFC 9110 §14.1.2, against a representation of `total` bytes.
fn parse_range(text: &str, total: u64) -> Asked {
    let number = |digits: &str| -> Option<u64> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let Some((first, last)) =
        text.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::Everything;
    };
    let range = match (number(first), number(last)) {
        (None, Some(suffix)) if first.is_empty() => total.saturating_sub(suffix)..total,
        (Some(first), None) if last.is_empty() => first..total,
        (Some(first), Some(last)) if first <= last => first..total.min(last.saturating_add(1)),
        _ => return Asked::Everything,
    };
    if range.is_empty() { Asked::Nothing } else { Asked::Part(range) }
}

fn refuse(status: StatusCode, reason: &'static str, max_age_s: u64) -> Response<Content> {
    let content = Content::new(reason, 0, 0);
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let cache_control = match max_age_s {
        0 => "no-store".to_owned(),
        seconds => format!("public, max-age={seconds}"),
    };
    let head = response.headers_mut();
    head.insert(header::CACHE_CONTROL, value_of(&cache_control));
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    head.insert(header::CONTENT_LENGTH, reason.len().into());
    head.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    response
}

/// The answer to a browser that asks whether a player from elsewhere may read here.
fn preflight() -> Response<Content> {
    let mut response = Response::new(nothing());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let head = response.headers_mut();
    head.insert(header::ALLOW, READ_METHODS);
    head.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    head.insert(header::ACCESS_CONTROL_ALLOW_METHODS, READ_METHODS);
    head.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("range"));
    response
}

fn value_of(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("fields here are made of visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::TIMELINE_START;

    const NOW: UnixMillis = UnixMillis(TIMELINE_START.0 + 86_400_000);
    const FILE: &str = "/download/1000/a";

    fn ask(method: &Method, path: &str, fields: &[(HeaderName, &str)]) -> Response<Content> {
        let state = State::new(Settings::default()).unwrap();
        let fields = fields.iter().map(|(name, value)| (name.clone(), value_of(value))).collect();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        state.respond(method, (path, query), &fields, NOW)
    }

    fn field(response: &Response<Content>, name: HeaderName) -> String {
        response.headers()[name].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_head_is_a_get_without_its_body() {
        let path = "/vod-1/variant01/dshmv/443KB/3";
        let (get, head) = (ask(&Method::GET, path, &[]), ask(&Method::HEAD, path, &[]));
        assert_eq!(get.headers(), head.headers());
        assert_eq!(get.body().len(), 524_288);
        assert_eq!(field(&head, header::CONTENT_LENGTH), "524288");
        assert!(head.body().is_empty());
    }

    #[test]
    fn ranges_are_cut_out_of_the_whole() {
        let whole = ask(&Method::GET, FILE, &[]).body().to_vec();
        for (asked, range, described) in [
            ("bytes=0-0", 0..1, "bytes 0-0/1000"),
            ("bytes=10-19", 10..20, "bytes 10-19/1000"),
            ("bytes=990-", 990..1000, "bytes 990-999/1000"),
            ("bytes=-5", 995..1000, "bytes 995-999/1000"),
            ("bytes=-5000", 0..1000, "bytes 0-999/1000"),
            ("bytes=500-99999999999999999999999", 500..1000, "bytes 500-999/1000"),
        ] {
            let response = ask(&Method::GET, FILE, &[(header::RANGE, asked)]);
            assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT, "{asked}");
            assert_eq!(field(&response, header::CONTENT_RANGE), described);
            assert_eq!(response.body().to_vec(), whole[range]);
        }
    }

    #[test]
    fn ranges_that_cannot_be_met_are_refused_and_odd_ones_ignored() {
        for asked in ["bytes=1000-", "bytes=-0", "bytes=2000-3000"] {
            let response = ask(&Method::GET, FILE, &[(header::RANGE, asked)]);
            assert_eq!(response.status(), StatusCode::RANGE_NOT_SATISFIABLE, "{asked}");
            assert_eq!(field(&response, header::CONTENT_RANGE), "bytes */1000");
        }
        for asked in ["bytes=5-4", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6"] {
            let response = ask(&Method::GET, FILE, &[(header::RANGE, asked)]);
            assert_eq!(response.status(), StatusCode::OK, "{asked}");
        }
    }

    #[test]
    fn an_if_range_of_another_representation_yields_the_whole() {
        let etag = field(&ask(&Method::GET, FILE, &[]), header::ETAG);
        let with = |condition: &str| {
            let fields = [(header::RANGE, "bytes=0-9"), (header::IF_RANGE, condition)];
            ask(&Method::GET, FILE, &fields).status()
        };
        assert_eq!(with(&etag), StatusCode::PARTIAL_CONTENT);
        assert_eq!(with("Wed, 01 Jan 2025 00:00:00 GMT"), StatusCode::PARTIAL_CONTENT);
        assert_eq!(with("\"other\""), StatusCode::OK);
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let etag = field(&ask(&Method::GET, FILE, &[]), header::ETAG);
        let list = format!("\"x\", W/{etag}");
        for value in [etag.as_str(), list.as_str(), "*"] {
            let response = ask(&Method::GET, FILE, &[(header::IF_NONE_MATCH, value)]);
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
            assert_eq!(field(&response, header::ETAG), etag);
            assert!(response.body().is_empty());
        }
        let date = (header::IF_MODIFIED_SINCE, "Wed, 01 Jan 2025 00:00:00 GMT");
        let by_date = ask(&Method::GET, FILE, std::slice::from_ref(&date));
        assert_eq!(by_date.status(), StatusCode::NOT_MODIFIED);
        // A tag that does not match outweighs a date that does.
        let both = ask(&Method::GET, FILE, &[date, (header::IF_NONE_MATCH, "\"x\"")]);
        assert_eq!(both.status(), StatusCode::OK);
    }

    #[test]
    fn a_segment_of_the_future_is_not_found_for_a_second_only() {
        let response = ask(&Method::GET, "/channel-1/variant01/4K/15360KB/14400.m4s", &[]);
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(field(&response, header::CACHE_CONTROL), "public, max-age=1");
    }

    #[test]
    fn writing_is_not_allowed() {
        let response = ask(&Method::PUT, FILE, &[]);
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(field(&response, header::ALLOW), "GET, HEAD, OPTIONS");
    }
}
