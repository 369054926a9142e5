//! What is refused before it is a request: counted, logged and told alike in every protocol.

use super::request_line::RequestLine;
use freshet_access::client::Client;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{RequestHead, Version};
use freshet_http::reason::Reason;
use freshet_net::tls::client_auth::ClientCertificate;
use freshet_telemetry::log::Record;
use freshet_wire::h1::request::RequestError;
use freshet_wire::h2::Said;
use freshet_worker::worker::Worker;
use tokio::time::Instant;

/// A refusal: what its client is told, and what counters and the log say of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Refusal {
    /// The status it is answered with, or would be where it gets none.
    pub(super) status: u16,
    /// Why, as logs have it.
    pub(super) reason: Reason,
    /// Why, in words.
    pub(super) words: &'static str,
    /// What is wrong with the head, where that is it.
    pub(super) error: Option<RequestError>,
}

/// What is known of the request that was refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    /// The bytes it began with.
    Bytes(&'a [u8]),
    /// What its head said before it was refused, in this version of HTTP.
    Said(&'a Said, Version),
    /// Its head.
    Head(&'a RequestHead),
}

impl<'a> Asked<'a> {
    fn line(self) -> RequestLine<'a> {
        match self {
            Self::Bytes(input) => RequestLine::of(input),
            Self::Said(said, version) => RequestLine {
                method: said.method.as_str().into(),
                target: said.path.as_str().into(),
                version: version.as_str().into(),
            },
            Self::Head(head) => RequestLine {
                method: head.method.as_str().into(),
                target: head.target.as_str().into(),
                version: head.version.as_str().into(),
            },
        }
    }

    fn head(self) -> Option<&'a RequestHead> {
        match self {
            Self::Head(head) => Some(head),
            Self::Bytes(_) | Self::Said(..) => None,
        }
    }

    fn authority(self) -> &'a str {
        match self {
            Self::Bytes(_) => "",
            Self::Said(said, _) => &said.authority,
            Self::Head(head) => &head.authority,
        }
    }
}

/// What the client is told of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Bytes of the head.
    pub(super) head_bytes: usize,
    /// Bytes of the page.
    pub(super) body_bytes: usize,
    /// When it was clear that there is nothing else to say.
    pub(super) since: Option<Instant>,
}

impl Told {
    /// In a stream: a head of so many bytes where it was answered, and nothing where it was reset.
    pub(super) fn in_stream(status: Option<u16>, head_bytes: usize) -> Self {
        Self { head_bytes: status.map_or(0, |_| head_bytes), ..Self::default() }
    }
}

impl Refusal {
    /// All that requests may hold of the memory is held.
    pub(super) const NO_ROOM: Self =
        Self::new(503, Reason::LocalLimit, "requests under way hold limits.requests_bytes_max");
    /// A head that begins and does not come on.
    pub(super) const HEAD_LATE: Self =
        Self::new(408, Reason::ClientTimeout, "the head did not arrive in time");
    /// Neither HTTP/1 nor HTTP/2: told nothing, as it would not understand it.
    pub(super) const NOT_HTTP: Self = Self::new(400, Reason::ClientMalformed, "this is not HTTP");
    /// A `Connection` that would take away what origins are to see.
    pub(super) const CONNECTION: Self =
        Self::new(400, Reason::ClientMalformed, "Connection names a field that is not its own");
    /// A head that no request has, told by a reset.
    pub(super) const MALFORMED: Self =
        Self::new(400, Reason::ClientMalformed, "the head is malformed");

    const fn new(status: u16, reason: Reason, words: &'static str) -> Self {
        Self { status, reason, words, error: None }
    }

    /// A head that cannot be read.
    pub(super) fn of_head(error: RequestError) -> Self {
        let refusal = Self::of_status(error.status());
        Self { words: error.reason(), error: Some(error), ..refusal }
    }

    /// A head that was answered with this status.
    pub(super) fn of_status(status: u16) -> Self {
        match status {
            414 | 431 => Self::new(status, Reason::ClientHeadTooLarge, "the head is too large"),
            _ => Self::new(status, Reason::ClientMalformed, "the head is malformed"),
        }
    }

    /// Counts and logs it, where its client is told nothing, or by what reads its heads.
    pub(super) fn note(&self, worker: &Worker, client: &Client, asked: Asked<'_>) {
        self.note_told(worker, client, asked, Told::default());
    }

    /// Counts and logs it under a number of its own, with what its client is about to be told.
    pub(super) fn note_told(
        &self,
        worker: &Worker,
        client: &Client,
        asked: Asked<'_>,
        told: Told,
    ) -> u64 {
        let id = worker.next_id();
        let stats = &worker.stats;
        let (head_bytes, body_bytes) = (told.head_bytes as u64, told.body_bytes as u64);
        stats.head_bytes.add(head_bytes);
        stats.body_bytes.add(body_bytes);
        let took_us = told.since.map_or(0, |since| since.elapsed().as_micros());
        let took_us = u64::try_from(took_us).unwrap_or(u64::MAX);
        if self.reason == Reason::LocalLimit {
            stats.requests_no_room.increment();
        } else {
            stats.requests_refused.increment();
        }
        let shown = client.certificate_for(None);
        let (line, head) = (asked.line(), asked.head());
        let field = |name: &str| head.and_then(|head| head.fields.get_str(name)).unwrap_or("");
        worker.log(&Record {
            time: UnixMillis::now(),
            first_byte_us: took_us,
            total_us: took_us,
            status: self.status,
            body_bytes,
            head_bytes,
            client: client.address.map(|address| address.ip()),
            reason: self.reason as u16,
            hit: false,
            aborted: false,
            tls: client.tls.is_some(),
            id,
            method: &line.method,
            authority: asked.authority(),
            target: &line.target,
            version: &line.version,
            user_agent: field("user-agent"),
            referer: field("referer"),
            client_name: shown.map_or("", ClientCertificate::name),
            origin: "",
            site: "",
            ..Record::default()
        });
        id
    }
}
