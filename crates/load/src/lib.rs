//! The load generator of the laboratory: pinned threads that ask a server for objects and measure what comes.
//!
//! Each thread has its own epoll, connections and counts; nothing is shared on the way of a request.
//! Requests come in a closed loop (each connection asks again when it has its answer, perhaps after a
//! pause) or in an open one (requests are due by the clock, whether or not the server keeps up, and
//! latency counts from when a request was due). HTTP/1.1 and HTTP/2, in the clear and under TLS, and HTTP/3
//! ([`Protocol`]). Bodies in the clear are thrown away in the kernel unread; under TLS they are decrypted from
//! large reads.
//!
//! Beside it: [`http3`], what is only to be had over HTTP/3; [`redis`], in-memory databases and a load for them; [`observe`],
//! what can be known about a server while it is asked; and [`content`], bytes that whoever serves them and
//! whoever checks them make alike.
//!
//! What it must never know: the origin and the viewers of the laboratory, and who the server is.
//!
//! ```no_run
//! use freshet_load::{Load, observe::Observer, target::Target, workload::Workload};
//!
//! let target = Target::parse("http://127.0.0.1:8000", false)?;
//! let load = Load::new(target, Workload::single("1MB", "/1MB/.file?live={1-1000}")?);
//! let measured = freshet_load::run(load, &mut Observer::default(), &mut |_| true)?;
//! println!("{:.2} Gbit/s", measured.goodput_bps / 1e9);
//! # Ok::<(), freshet_load::LabError>(())
//! ```

#![forbid(unsafe_code)]

mod check;
mod connection;
pub mod content;
mod diag;
pub mod error;
mod h1;
mod h2;
mod h3;
mod head;
mod hpack;
pub mod http3;
mod lane;
mod limits;
pub mod measurement;
mod meter;
pub mod observe;
mod random;
pub mod redis;
mod run;
pub mod target;
mod thread;
pub mod tls;
pub mod workload;

pub use check::KnownContent;
pub use error::LabError;
pub use limits::{CONNECTIONS_MAX, DURATION_MAX, SILENCE_MAX, STREAMS_MAX, THREADS_MAX};
pub use meter::Errors;
pub use run::{Progress, knock, run};
pub use tls::{TlsOptions, Version};

use crate::error::require;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use target::Target;
use workload::Workload;

/// What requests say who they are.
const USER_AGENT: &str = "freshet-lab";

/// Bytes read at a time: what a window of a fast connection holds.
const READ_BYTES: usize = 256 << 10;

/// Bytes thrown away at a time.
const SKIP_BYTES: usize = 1 << 20;

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Each connection asks again when it has its answer, after a pause between these two.
    Closed {
        /// Shortest and longest pause.
        think: Option<(Duration, Duration)>,
    },
    /// Sessions begin by the clock.
    Open {
        /// How many per second, over all threads.
        per_second: f64,
        /// At random (Poisson) instead of evenly.
        is_random: bool,
    },
}

/// What clients speak.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// HTTP/1.1, one request at a time.
    #[default]
    Http1,
    /// HTTP/2; in the clear the server has to know (RFC 9113 §3.3).
    Http2,
    /// HTTP/3, each connection from a port of its own.
    Http3,
}

impl Protocol {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Http3];

    /// Its name as a word of a file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Http3 => "http3",
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }

    /// Whether a connection has several requests at a time.
    pub fn is_multiplexed(self) -> bool {
        self != Self::Http1
    }
}

/// A load: whom to ask, for what, how often and for how long.
#[derive(Clone)]
pub struct Load {
    /// The server.
    pub target: Target,
    /// What is asked for.
    pub workload: Workload,
    /// Connections over all threads.
    pub connections: usize,
    /// What its clients speak.
    pub protocol: Protocol,
    /// Requests at a time on a connection of HTTP/2 or HTTP/3.
    pub streams: usize,
    /// TLS, for targets that speak it.
    pub tls: TlsOptions,
    /// Threads.
    pub threads: usize,
    /// Processors to pin threads to, in turn; none are pinned without.
    pub cpus: Vec<usize>,
    /// When requests come.
    pub pace: Pace,
    /// Time between all connections being open and the begin of the measuring.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// Requests at most; if set, all are counted from the first and there is no warm-up.
    pub requests_max: Option<u64>,
    /// A response that takes longer is given up, as is a connection.
    pub timeout: Duration,
    /// How long responses under way at the end are waited for.
    pub drain: Duration,
    /// How often figures are taken.
    pub interval: Duration,
    /// One response in this many has its content checked; 0 for none.
    pub check_one_in: u32,
    /// What the origin serves, where that is known.
    pub known_content: Option<Arc<KnownContent>>,
    /// What choices follow from.
    pub seed: u64,
    /// Which run it is of: what nobody has asked for has other names in another.
    pub run: u64,
    /// Set from outside to end early.
    pub stop: Arc<AtomicBool>,
    /// The end of each request's head, made once.
    request_tail: Vec<u8>,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("target", &self.target)
            .field("connections", &self.connections)
            .field("pace", &self.pace)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

impl Load {
    /// A closed loop on 100 connections over HTTP/1.1 for ten seconds, after one of warming, on one
    /// thread that is not pinned.
    pub fn new(target: Target, workload: Workload) -> Self {
        let request_tail =
            format!(" HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\n\r\n", target.authority);
        Self {
            target,
            workload,
            connections: 100,
            protocol: Protocol::Http1,
            streams: 1,
            tls: TlsOptions::default(),
            threads: 1,
            cpus: Vec::new(),
            pace: Pace::Closed { think: None },
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(10),
            requests_max: None,
            timeout: Duration::from_secs(20),
            drain: Duration::from_secs(5),
            interval: Duration::from_secs(1),
            check_one_in: 0,
            known_content: None,
            seed: 1,
            run: 0,
            stop: Arc::default(),
            request_tail: request_tail.into_bytes(),
        }
    }

    /// Refuses what is out of bounds.
    ///
    /// # Errors
    /// [`LabError::ConfigSetting`], of the first setting that is.
    pub fn validate(&self) -> Result<(), LabError> {
        let (connections, threads, streams) = (self.connections, self.threads, self.streams);
        let fine = (1..=CONNECTIONS_MAX).contains(&connections);
        require(fine, "connections", connections, "1 to 1000000")?;
        require((1..=THREADS_MAX).contains(&threads), "threads", threads, "1 to 256")?;
        require(threads <= connections, "threads", threads, "no more than connections")?;
        require((1..=STREAMS_MAX).contains(&streams), "streams", streams, "1 to 1000")?;
        let shown = |span: Duration| match span.is_zero() {
            true => "0 s".to_owned(),
            false => format!("{span:?}"),
        };
        let bounded = |setting, span: Duration| {
            require(span <= DURATION_MAX, setting, format_args!("{span:?}"), "at most 24 hours")
        };
        bounded("duration", self.duration)?;
        bounded("warmup", self.warmup)?;
        let span = self.duration;
        require(!span.is_zero(), "duration", shown(span), "more than nothing")?;
        let fine = self.timeout >= limits::TIMEOUT_MIN && self.timeout <= limits::TIMEOUT_MAX;
        require(fine, "timeout", shown(self.timeout), "100 ms to 1 hour")?;
        let fine = self.interval >= limits::INTERVAL_MIN;
        require(fine, "interval", format_args!("{:?}", self.interval), "at least 10 ms")?;
        if let Pace::Open { per_second, .. } = self.pace {
            let fine = per_second > 0.0 && per_second <= limits::RATE_MAX;
            let got = match per_second < 1e12 {
                true => per_second.to_string(),
                false => format!("{per_second:e}"),
            };
            require(fine, "rate", got, "more than 0, at most 10000000 per second")?;
        }
        if let Pace::Closed { think: Some((shortest, longest)) } = self.pace {
            let fine = shortest <= longest && longest <= limits::THINK_MAX;
            let got = format!("{shortest:?} to {longest:?}");
            require(fine, "think", got, "a shorter and a longer pause, at most an hour")?;
        }
        let is_http3 = self.protocol == Protocol::Http3;
        let fine = !is_http3 || self.target.is_tls();
        require(fine, "protocol", "HTTP/3", "another for http://, as HTTP/3 is always over TLS")?;
        let fine = !is_http3 || self.tls.version != Version::Tls12;
        require(fine, "TLS", "1.2", "1.3 for HTTP/3")?;
        let many = self.lanes() > 1;
        let fine = !(many && self.workload.session_requests_max() > 1 && self.workload.closes());
        require(fine, "streams", streams, "1 where sessions close their connection")?;
        require(!self.workload.classes().is_empty(), "workload", "empty", "at least one request")
    }

    /// Requests at a time on a connection.
    fn lanes(&self) -> usize {
        if self.protocol.is_multiplexed() { self.streams } else { 1 }
    }

    /// How many of the connections are thread `number`'s.
    fn connections_of(&self, number: usize) -> usize {
        self.connections / self.threads + usize::from(number < self.connections % self.threads)
    }

    /// Whether all counts from the first request on.
    fn counts_all(&self) -> bool {
        self.requests_max.is_some()
    }
}

/// Why a connection is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// It could not be made.
    Connect(Errno),
    /// TLS failed.
    Tls,
    /// The peer broke a rule.
    Protocol(&'static str),
    /// The peer closed it in good order.
    Closed,
    /// The peer reset it, or closed it when it had read what it was asked.
    Dropped,
}

/// What the threads of a load share; none of it is touched per request, but for the number of
/// requests where that is bounded.
#[derive(Debug)]
struct Shared {
    begun: Instant,
    /// Nanoseconds since `begun` at which the measuring begins and ends.
    from_ns: AtomicU64,
    until_ns: AtomicU64,
    stop: Arc<AtomicBool>,
    is_aborted: AtomicBool,
    /// Whether it was aborted as the server had died.
    is_dead: AtomicBool,
    sequence: AtomicU64,
    budget: AtomicI64,
    digests: check::Digests,
    /// Open connections by thread, before the measuring.
    open: Vec<AtomicUsize>,
    /// When a byte of a response last came.
    answered_ns: AtomicU64,
    /// Threads whose measured time is over.
    closed: AtomicUsize,
    /// Connections that could not be made, by the unluckiest thread.
    refused: AtomicU64,
    violation: Mutex<Option<&'static str>>,
}

impl Shared {
    fn new(load: &Load) -> Self {
        let budget = load.requests_max.and_then(|count| i64::try_from(count).ok());
        Self {
            begun: Instant::now(),
            from_ns: AtomicU64::new(if load.counts_all() { 0 } else { u64::MAX }),
            until_ns: AtomicU64::new(u64::MAX),
            stop: Arc::clone(&load.stop),
            is_aborted: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            sequence: AtomicU64::new(0),
            budget: AtomicI64::new(budget.unwrap_or(i64::MAX)),
            digests: check::Digests::default(),
            open: (0..load.threads).map(|_| AtomicUsize::new(0)).collect(),
            answered_ns: AtomicU64::new(0),
            closed: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            violation: Mutex::new(None),
        }
    }

    fn from(&self) -> u64 {
        self.from_ns.load(Ordering::Relaxed)
    }

    fn until(&self) -> u64 {
        self.until_ns.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.is_aborted.load(Ordering::Relaxed)
    }

    /// Whether somebody ended it early, so that nobody is to blame for what has no answer.
    fn is_interrupted(&self) -> bool {
        self.is_stopped() && !self.is_dead.load(Ordering::Relaxed)
    }

    fn set_open(&self, thread: usize, count: usize) {
        if let Some(open) = self.open.get(thread) {
            open.store(count, Ordering::Relaxed);
        }
    }

    fn open_count(&self) -> usize {
        self.open.iter().map(|open| open.load(Ordering::Relaxed)).sum()
    }

    fn note_violation(&self, why: &'static str) {
        if let Ok(mut violation) = self.violation.lock() {
            violation.get_or_insert(why);
        }
    }
}
