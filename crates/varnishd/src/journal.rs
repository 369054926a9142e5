//! The node's transcripts as records of the log, and what is counted by them.

use crate::shm::log::{Log, Records, Side as LogSide};
use crate::traffic::{Fetch, Traffic};
use freshet_node::transcript::{Records as Noted, Scribe, Side, Tag};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Why connections close, in the words of the log and of the counters.
const CLOSES: &[(&str, &str)] = &[
    ("REM_CLOSE", "sc_rem_close"),
    ("REQ_CLOSE", "sc_req_close"),
    ("REQ_HTTP10", "sc_req_http10"),
    ("RX_BAD", "sc_rx_bad"),
    ("RX_BODY", "sc_rx_body"),
    ("RX_JUNK", "sc_rx_junk"),
    ("RX_OVERFLOW", "sc_rx_overflow"),
    ("RX_TIMEOUT", "sc_rx_timeout"),
    ("RX_CLOSE_IDLE", "sc_rx_close_idle"),
    ("TX_PIPE", "sc_tx_pipe"),
    ("TX_ERROR", "sc_tx_error"),
    ("TX_EOF", "sc_tx_eof"),
    ("RESP_CLOSE", "sc_resp_close"),
    ("OVERLOAD", "sc_overload"),
    ("PIPE_OVERFLOW", "sc_pipe_overflow"),
    ("RANGE_SHORT", "sc_range_short"),
    ("REQ_HTTP20", "sc_req_http20"),
    ("VCL_FAILURE", "sc_vcl_failure"),
];

/// Those of [`CLOSES`] that nobody meant.
const ERRORS: [&str; 11] = [
    "REQ_HTTP10",
    "RX_BAD",
    "RX_BODY",
    "RX_JUNK",
    "RX_OVERFLOW",
    "RX_TIMEOUT",
    "TX_ERROR",
    "OVERLOAD",
    "PIPE_OVERFLOW",
    "RANGE_SHORT",
    "VCL_FAILURE",
];

/// What there may be several of at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Clients' connections.
    Connection,
    /// Their requests, and those for parts of pages.
    Request,
    /// Requests to origins.
    Fetch,
}

/// Those of [`CLOSES`] where a connection ends that no request has come over, or none any more.
const BETWEEN_REQUESTS: [&str; 5] =
    ["REM_CLOSE", "RX_TIMEOUT", "RX_CLOSE_IDLE", "RX_OVERFLOW", "OVERLOAD"];

/// Tags have numbers below this.
const TAGS: usize = 128;

/// Writes transcripts into the log.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Arc<Log>,
    rules: Arc<Rules>,
    /// Records by their tags, written or masked.
    counts: [AtomicU64; TAGS],
    /// Transactions begun, by their kinds.
    begun: [AtomicU64; 3],
    /// Ends of transactions, of clients' and of fetches.
    ended: [AtomicU64; 2],
    /// Connections by why they closed, as [`CLOSES`] has it.
    closes: [AtomicU64; CLOSES.len()],
    /// Bytes of requests' heads.
    request_head_bytes: AtomicU64,
    /// Pages that policies were asked for.
    synthesized: AtomicU64,
    /// Subroutines that failed.
    failed: AtomicU64,
    /// Requests that expected what is not done here.
    unexpected: AtomicU64,
    /// Connections of origins kept for another request.
    recycled: AtomicU64,
    /// Responses of origins that are not kept, and those that are for a moment only.
    transient: [AtomicU64; 2],
    /// What the fetches of each origin were of.
    traffic: Mutex<BTreeMap<String, Traffic>>,
    /// Requests that were to become tunnels.
    tunnels: AtomicU64,
    /// Bytes of tunnels: of requests' heads, from clients, and to them.
    pipe_bytes: [AtomicU64; 3],
}

/// What is written, as parameters say; they may change at any time.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    masked: [AtomicU64; TAGS / 64],
    text_bytes_max: AtomicUsize,
    immediate: AtomicBool,
}

impl Rules {
    /// Takes over what the parameters say.
    pub(crate) fn set(&self, masked: &[u8], text_bytes_max: usize, immediate: bool) {
        let mut words = [0_u64; TAGS / 64];
        for tag in masked {
            if let Some(word) = words.get_mut(usize::from(*tag) / 64) {
                *word |= 1 << (tag % 64);
            }
        }
        for (slot, word) in self.masked.iter().zip(words) {
            slot.store(word, Relaxed);
        }
        self.text_bytes_max.store(text_bytes_max, Relaxed);
        self.immediate.store(immediate, Relaxed);
    }

    fn writes(&self, tag: Tag) -> bool {
        let number = tag.number();
        let word = self.masked.get(usize::from(number) / 64).map_or(0, |word| word.load(Relaxed));
        word >> (number % 64) & 1 == 0
    }
}

impl Journal {
    /// A journal that writes into `log`.
    pub(crate) fn new(log: Arc<Log>, rules: Arc<Rules>) -> Self {
        Self {
            log,
            rules,
            counts: [const { AtomicU64::new(0) }; TAGS],
            begun: [const { AtomicU64::new(0) }; 3],
            ended: [const { AtomicU64::new(0) }; 2],
            closes: [const { AtomicU64::new(0) }; CLOSES.len()],
            request_head_bytes: AtomicU64::new(0),
            synthesized: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unexpected: AtomicU64::new(0),
            recycled: AtomicU64::new(0),
            transient: [const { AtomicU64::new(0) }; 2],
            traffic: Mutex::default(),
            tunnels: AtomicU64::new(0),
            pipe_bytes: [const { AtomicU64::new(0) }; 3],
        }
    }

    /// Writes a record that belongs to no transaction.
    pub(crate) fn note(&self, tag: Tag, text: &str) {
        if self.rules.writes(tag) {
            let most = self.rules.text_bytes_max.load(Relaxed);
            self.log.publish_one(tag.number(), LogSide::None, 0, text.as_bytes(), most);
        }
    }

    /// How many records there were of a tag.
    pub(crate) fn count(&self, tag: Tag) -> u64 {
        self.counts.get(usize::from(tag.number())).map_or(0, |count| count.load(Relaxed))
    }

    /// What is counted by records, by the names of the counters.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let closes = CLOSES.iter().zip(&self.closes).map(|((_, name), count)| (*name, count));
        let [heads, up, down] = &self.pipe_bytes;
        let [uncacheable, short] = &self.transient;
        let others = [
            ("s_synth", &self.synthesized),
            ("vcl_fail", &self.failed),
            ("client_req_417", &self.unexpected),
            ("backend_recycle", &self.recycled),
            ("beresp_uncacheable", uncacheable),
            ("beresp_shortlived", short),
            ("s_req_hdrbytes", &self.request_head_bytes),
            ("s_pipe", &self.tunnels),
            ("s_pipe_hdrbytes", heads),
            ("s_pipe_in", up),
            ("s_pipe_out", down),
        ];
        closes.chain(others).map(|(name, count)| (name, count.load(Relaxed)))
    }

    /// How many of a kind have begun, and how many have ended.
    pub(crate) fn under_way(&self, kind: Kind) -> (u64, u64) {
        // What has ended is read first: it has begun by then.
        let [clients, fetches] = self.ended.each_ref().map(|count| count.load(Relaxed));
        let connections = self.count(Tag::SessClose);
        let ended = match kind {
            Kind::Connection => connections,
            Kind::Request => clients.saturating_sub(connections),
            Kind::Fetch => fetches,
        };
        (self.begun[kind as usize].load(Relaxed), ended)
    }

    fn count_begun(&self, kind: Kind) {
        self.begun[kind as usize].fetch_add(1, Relaxed);
    }

    /// Connections that closed as nobody meant.
    pub(crate) fn closed_by_errors(&self) -> u64 {
        self.closed(|why| ERRORS.contains(&why))
    }

    /// Connections that closed with a request.
    pub(crate) fn closed_with_request(&self) -> u64 {
        self.closed(|why| !BETWEEN_REQUESTS.contains(&why))
    }

    /// Connections that closed for such a reason.
    fn closed(&self, is_such: impl Fn(&str) -> bool) -> u64 {
        let closes = CLOSES.iter().zip(&self.closes).filter(|((why, _), _)| is_such(why));
        closes.map(|(_, count)| count.load(Relaxed)).sum()
    }

    /// What was sent to an origin and received from it since it is known, by `policy.name`.
    pub(crate) fn traffic_of(&self, origin: &str) -> Traffic {
        let traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.get(origin).copied().unwrap_or_default()
    }

    /// Forgets what was exchanged with origins that are not there any more.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.retain(|origin, _| is_there(origin));
    }

    /// Counts what a fetch was of.
    fn count_fetch(&self, fetch: &Fetch<'_>) {
        if let Some(count) = fetch.transient().and_then(|place| self.transient.get(place)) {
            count.fetch_add(1, Relaxed);
        }
        let Some((origin, traffic)) = fetch.traffic() else { return };
        let mut all = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(origin).or_default().add(traffic);
    }

    /// Counts the first field of an accounting record.
    fn count_bytes(&self, text: &[u8]) {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        self.request_head_bytes.fetch_add(first.unwrap_or(0), Relaxed);
    }

    /// Counts the fields of a tunnel's accounting record but the second, the head its origin got.
    fn count_pipe(&self, text: &[u8]) {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let numbers = text.split(' ').map(|word| word.parse().unwrap_or(0));
        let counted = numbers.enumerate().filter(|(at, _)| *at != 1).map(|(_, number)| number);
        for (count, number) in self.pipe_bytes.iter().zip(counted) {
            count.fetch_add(number, Relaxed);
        }
    }

    /// Bytes from clients through tunnels, and to them.
    pub(crate) fn piped_bytes(&self) -> (u64, u64) {
        (self.pipe_bytes[1].load(Relaxed), self.pipe_bytes[2].load(Relaxed))
    }

    fn count_close(&self, text: &[u8]) {
        let why = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let found = CLOSES.iter().zip(&self.closes).find(|((word, _), _)| word.as_bytes() == why);
        if let Some((_, count)) = found {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Records written, and turns of the ring.
    pub(crate) fn written(&self) -> (u64, u64) {
        self.log.written()
    }
}

impl Scribe for Journal {
    fn wants_request(&self, _: u64, _: Option<IpAddr>, _: Option<&[u8]>) -> bool {
        self.count_begun(Kind::Request);
        true
    }

    fn wants(&self, _: u64, kind: &str, _: u64) -> bool {
        self.count_begun(match kind {
            "sess" => Kind::Connection,
            "req" => Kind::Request,
            _ => Kind::Fetch,
        });
        true
    }

    fn take(&self, id: u64, side: Side, noted: &Noted) {
        let side = match side {
            Side::Client => LogSide::Client,
            Side::Backend => LogSide::Backend,
        };
        let most = self.rules.text_bytes_max.load(Relaxed);
        // The log has 30 bits for it.
        let id = u32::try_from(id & 0x3fff_ffff).unwrap_or(0);
        let mut records = Records::default();
        // Whether a policy was asked what becomes of the request.
        let mut is_asked = false;
        let mut fetch = (side == LogSide::Backend).then(Fetch::default);
        for (tag, text) in noted.iter() {
            if let Some(fetch) = &mut fetch {
                fetch.note(tag, text);
            }
            if let Some(count) = self.counts.get(usize::from(tag.number())) {
                count.fetch_add(1, Relaxed);
            }
            match tag {
                Tag::SessClose => self.count_close(text),
                Tag::End => {
                    let place = usize::from(side == LogSide::Backend);
                    self.ended[place].fetch_add(1, Relaxed);
                }
                Tag::Begin if side == LogSide::Backend && text.ends_with(b" pipe") => {
                    self.tunnels.fetch_add(1, Relaxed);
                }
                Tag::VCL_return if text == b"fail" => {
                    self.failed.fetch_add(1, Relaxed);
                }
                Tag::BackendClose if text.ends_with(b" recycle") => {
                    self.recycled.fetch_add(1, Relaxed);
                }
                Tag::RespStatus if text == b"417" && !is_asked => {
                    self.unexpected.fetch_add(1, Relaxed);
                }
                Tag::VCL_call if text == b"RECV" => is_asked = true,
                Tag::VCL_call if text == b"SYNTH" => {
                    self.synthesized.fetch_add(1, Relaxed);
                }
                Tag::ReqAcct => self.count_bytes(text),
                Tag::PipeAcct => self.count_pipe(text),
                _ => {}
            }
            if !self.rules.writes(tag) {
                continue;
            }
            if records.len() + text.len() + 16 > self.log.batch_bytes_max() {
                self.log.publish(&mut records);
            }
            records.push(tag.number(), side, id, text, most);
        }
        self.log.publish(&mut records);
        if let Some(fetch) = &fetch {
            self.count_fetch(fetch);
        }
    }

    fn note(&self, tag: Tag, text: &str) {
        Self::note(self, tag, text);
    }

    fn immediate(&self) -> bool {
        self.rules.immediate.load(Relaxed)
    }
}
