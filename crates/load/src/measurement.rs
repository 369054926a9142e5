//! What a load found: plain figures, written to and read from JSON.

use super::meter::Errors;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Points of a distribution that are kept for plots.
const QUANTILES: [f64; 17] = [
    0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9975, 0.999, 0.9995, 0.9999,
    0.99999, 1.0,
];

/// A distribution of times, in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half of them are at most this.
    pub p50_us: u64,
    /// 90 % of them.
    pub p90_us: u64,
    /// 99 % of them.
    pub p99_us: u64,
    /// 99.9 % of them.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Share (0 to 1) and time below which it lies, ascending.
    pub curve: Vec<(f64, u64)>,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
            curve: QUANTILES.map(|share| (share, histogram.value_at_quantile(share))).to_vec(),
        }
    }
}

/// The figures of one class of requests, usually one size of objects.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ClassFigures {
    /// Its name.
    pub name: String,
    /// Complete responses.
    pub requests: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// From when the request was due to the first byte of its response.
    pub first_byte: Latency,
    /// To the last byte of its response.
    pub last_byte: Latency,
    /// Share of the bytes that were hits, as far as responses say; `None` where they do not.
    pub byte_hit_ratio: Option<f64>,
}

/// What the kernel counted about TCP, over the connections that were open at the end.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TcpFigures {
    /// Connections that were looked at.
    pub connections: u64,
    /// Bytes that came in, heads and TLS included, each once.
    pub received_bytes: u64,
    /// Segments that brought them.
    pub segments: u64,
    /// Of these, such as came out of order: something before them was lost or late.
    pub out_of_order: u64,
    /// Bytes that the server sent, repetitions included; known where it is on this machine.
    pub server_sent_bytes: Option<u64>,
    /// Of these, repetitions.
    pub server_repeated_bytes: Option<u64>,
    /// Smallest round trip that was seen, in microseconds.
    pub round_trip_us: u64,
}

/// From this share of a processor on, waiting for one included, a thread of the generator is taken for the limit.
pub const GENERATOR_BUSY_MAX: f64 = 0.9;

/// Share of the requests due in a time, and how many in any case, that may have come too late to be answered
/// within it.
const JUST_COME_SHARE: f64 = 0.05;
const JUST_COME: u64 = 2;

/// What the generator itself cost.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ClientFigures {
    /// Threads.
    pub threads: usize,
    /// Processor time of all threads, without what they spun.
    pub cpu_seconds: f64,
    /// Processor time in which threads with processors of their own looked for answers to come, so
    /// that no server paid for waking them.
    #[serde(default)]
    pub spun_seconds: f64,
    /// Work per request.
    pub cpu_us_per_request: f64,
    /// Work per GB (10^9 bytes) of bodies.
    pub cpu_seconds_per_gb: f64,
    /// Share of its processor that the busiest thread used, mean over time.
    pub busiest: f64,
    /// Share of the time that it waited for a processor.
    pub waited: f64,
    /// Whether the generator, not the server, may have been the limit.
    pub is_limit: bool,
}

/// What the server used, where that can be known.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ServerFigures {
    /// Where the figures come from.
    pub source: String,
    /// Processor time within the measured time.
    pub cpu_seconds: f64,
    /// Processors in use, mean.
    pub cores: f64,
    /// Processor time per request.
    pub cpu_us_per_request: f64,
    /// Processor time per GB of bodies.
    pub cpu_seconds_per_gb: f64,
    /// Largest resident size that was seen.
    pub memory_bytes: u64,
}

/// The power that was drawn, where something measures it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PowerFigures {
    /// What measured it, and what that includes.
    pub source: String,
    /// Mean over the measured time.
    pub watts: f64,
}

/// What the origin did, where it is the lab's own.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OriginFigures {
    /// Requests that it answered.
    pub requests: u64,
    /// Bytes of bodies that it sent.
    pub body_bytes: u64,
}

/// What happened in each interval; all lists have the same length.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Series {
    /// Ends of the intervals, in seconds since the measuring began.
    pub at_s: Vec<f64>,
    /// Bits of bodies per second.
    pub bits_per_second: Vec<f64>,
    /// Complete responses per second.
    pub requests_per_second: Vec<f64>,
    /// Share of the bytes that were hits.
    pub byte_hit_ratio: Vec<Option<f64>>,
    /// Half of the responses were complete after this time.
    pub p50_us: Vec<u64>,
    /// 99 % of them.
    pub p99_us: Vec<u64>,
    /// Errors of all kinds.
    pub errors: Vec<u64>,
    /// Connections open at the end.
    pub connections: Vec<u64>,
    /// Share of its processor that the busiest thread of the generator used.
    pub client_busy: Vec<f64>,
    /// Processors that the server used.
    pub server_cores: Vec<Option<f64>>,
    /// Resident size of the server.
    pub server_memory_bytes: Vec<Option<u64>>,
    /// Power.
    pub watts: Vec<Option<f64>>,
}

/// Datagrams of a load over HTTP/3: how often a client acknowledges costs a server more than all else.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct QuicFigures {
    /// Those that came.
    pub datagrams_received: u64,
    /// Those that the clients sent.
    pub datagrams_sent: u64,
}

/// How byte hits were told from misses.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HitSource {
    /// Neither did responses say, nor was the origin ours.
    #[default]
    Unknown,
    /// Fields of the responses: `Cache-Status`, `X-Cache`, `X-Varnish` or `Age`.
    Fields,
    /// The lab's origin counted what it sent.
    Origin,
}

/// All figures of one load.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Measurement {
    /// What the clients spoke; empty where they did not say.
    #[serde(default)]
    pub protocol: String,
    /// How long was measured.
    pub seconds: f64,
    /// Complete responses within that time.
    pub requests: u64,
    /// Requests that were due by the clock in that time; `None` where clients ask again as they are answered.
    #[serde(default)]
    pub due: Option<u64>,
    /// Requests of which it is known what became: those with a complete response, whatever it said and whenever
    /// it came, and those with none.
    #[serde(default)]
    pub asked: u64,
    /// Complete responses per second.
    pub requests_per_second: f64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Bits of bodies per second: what viewers get.
    pub goodput_bps: f64,
    /// Bits per second on the wire: heads, TLS, TCP, IP, Ethernet and repetitions included, as far as
    /// the kernel can be asked; of QUIC what arrived.
    pub throughput_bps: Option<f64>,
    /// Bytes of response heads.
    pub head_bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Responses by the first digit of their status, from 1xx on.
    pub statuses: [u64; 5],
    /// Connections asked for.
    pub connections: usize,
    /// Connections open at a time, at most.
    pub connections_peak: u64,
    /// Connections that were made within the time.
    pub connections_made: u64,
    /// How long making a connection took, TLS included.
    pub connecting: Latency,
    /// To the first byte, all classes.
    pub first_byte: Latency,
    /// To the last byte, all classes.
    pub last_byte: Latency,
    /// By class.
    pub classes: Vec<ClassFigures>,
    /// Share of the bytes that came from the cache.
    pub byte_hit_ratio: Option<f64>,
    /// Share of the responses that came from the cache.
    pub hit_ratio: Option<f64>,
    /// How that is known.
    pub hit_source: HitSource,
    /// Responses whose content was compared.
    pub checked: u64,
    /// Requests that were sent once more, as the server closed their connection before it answered: they are
    /// one request in all other figures.
    #[serde(default)]
    pub asked_again: u64,
    /// Arrivals that found all connections busy.
    pub late_arrivals: u64,
    /// TCP.
    pub tcp: Option<TcpFigures>,
    /// QUIC.
    pub quic: Option<QuicFigures>,
    /// The generator.
    pub client: ClientFigures,
    /// The server.
    pub server: Option<ServerFigures>,
    /// Power.
    pub power: Option<PowerFigures>,
    /// The origin.
    pub origin: Option<OriginFigures>,
    /// Bytes of bodies received in all, of responses cut short and of those that came in after the
    /// measured time too: what an origin or a server has to have sent.
    pub received_bytes_in_all: u64,
    /// Complete responses in all, those after the measured time too.
    pub requests_in_all: u64,
    /// Over time.
    pub series: Series,
    /// Why it ended early, if it did.
    pub cut_short: Option<String>,
    /// The first rule of HTTP that the server broke, if it did.
    pub violation: Option<String>,
}

impl Measurement {
    /// Share of the requests that failed.
    pub fn failed_share(&self) -> f64 {
        (self.errors.total() as f64 / self.asked.max(1) as f64).min(1.0)
    }

    /// Whether the server kept up with the clock: within the time it answered as many as were due in it, but
    /// for those that had just come.
    pub fn keeps_up(&self) -> bool {
        let behind = |due: u64| due.saturating_sub(self.requests);
        self.due
            .is_none_or(|due| behind(due) <= JUST_COME.max((due as f64 * JUST_COME_SHARE) as u64))
    }

    /// Requests per second per watt.
    pub fn requests_per_joule(&self) -> Option<f64> {
        let watts = self.power.as_ref().map(|power| power.watts).filter(|watts| *watts > 0.0)?;
        Some(self.requests_per_second / watts)
    }

    /// Gigabits of bodies per second per watt.
    pub fn gbps_per_watt(&self) -> Option<f64> {
        let watts = self.power.as_ref().map(|power| power.watts).filter(|watts| *watts > 0.0)?;
        Some(self.goodput_bps / 1e9 / watts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_failures_are_of_all_that_was_asked() {
        let errors = Errors { status: 50, unserved: 50, ..Errors::default() };
        let half = Measurement { requests: 150, asked: 200, errors, ..Measurement::default() };
        assert_eq!(half.failed_share(), 0.5);
        assert_eq!(Measurement::default().failed_share(), 0.0);
    }

    #[test]
    fn a_server_keeps_up_that_answers_what_is_due() {
        let of = |requests, due| Measurement { requests, due, ..Measurement::default() };
        assert!(of(290, Some(300)).keeps_up() && of(1, None).keeps_up());
        assert!(of(1, Some(3)).keeps_up());
        assert!(!of(162, Some(300)).keeps_up() && !of(0, Some(3)).keeps_up());
    }
}
