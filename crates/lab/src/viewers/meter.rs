//! What viewers measure.

use super::client::Fault;
use freshet_base::counter::SharedCounter;
use hdrhistogram::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer waits are recorded as this long.
const FIRST_BYTE_MAX_US: u64 = 120_000_000;

/// Digits that histograms keep: values are right to a thousandth.
const DIGITS: u8 = 3;

/// What a group of viewers did so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Viewers that have a programme open now.
    pub watching: u64,
    /// Connections made.
    pub connections: u64,
    /// Responses received, with any status.
    pub responses: u64,
    /// Requests of which no response began.
    pub unanswered: u64,
    /// Bytes of bodies received.
    pub body_bytes: u64,
    /// Segments of pictures or sound received whole.
    pub segments: u64,
    /// Times that the next segments came after the buffer had run dry.
    pub late: u64,
    /// How long playbacks stood still for that, in milliseconds.
    pub stalled_ms: u64,
    /// Media that playbacks have got, in milliseconds.
    pub played_ms: u64,
    /// Bits that this media has by its manifests; over `played_ms` it is the mean bit rate.
    pub played_bits: u64,
    /// Changes of the bit rate.
    pub switches: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Time from a request to the head of its response.
    pub first_byte: Latency,
    /// Time from the first request of a programme to its first segments.
    pub start_up: Latency,
    /// How far behind live playbacks were as each segment or part came, of channels that tell the time.
    pub behind_live: Latency,
    /// Time from the end of a part until a player that waited for it had it whole.
    pub delivery: Latency,
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Errors {
    /// No connection could be made.
    pub connect: u64,
    /// A response of another status than 200.
    pub status: u64,
    /// A response that ended early, broke HTTP or took too long.
    pub transfer: u64,
    /// A manifest that could not be read.
    pub manifest: u64,
}

impl Errors {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.connect + self.status + self.transfer + self.manifest
    }
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_us: u64,
    /// Half were no longer than this.
    pub p50_us: u64,
    /// 90 % were no longer than this.
    pub p90_us: u64,
    /// 99 % were no longer than this.
    pub p99_us: u64,
    /// 99.9 % were no longer than this.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            mean_us: if histogram.is_empty() { 0 } else { histogram.mean().round() as u64 },
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

/// Times of a stretch of time, which may be put together with those of others; some 130 KB.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        let bounds = Histogram::new_with_bounds(1, FIRST_BYTE_MAX_US, DIGITS);
        Self(bounds.expect("the bounds are in order and three digits are allowed"))
    }
}

impl Times {
    /// How they are distributed.
    pub fn latency(&self) -> Latency {
        Latency::of(&self.0)
    }

    /// Those of both.
    pub fn add(&mut self, others: &Self) {
        self.0.add(&others.0).expect("all have the same bounds");
    }

    fn record(&mut self, micros: u64) {
        self.0.saturating_record(micros);
    }
}

/// Where all viewers of a group count; about 700 KB, most of it histograms.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) watching: SharedCounter,
    pub(super) connections: SharedCounter,
    pub(super) unanswered: SharedCounter,
    pub(super) body_bytes: SharedCounter,
    pub(super) segments: SharedCounter,
    pub(super) late: SharedCounter,
    pub(super) stalled_ms: SharedCounter,
    pub(super) played_ms: SharedCounter,
    pub(super) played_bits: SharedCounter,
    pub(super) switches: SharedCounter,
    connect_errors: SharedCounter,
    status_errors: SharedCounter,
    transfer_errors: SharedCounter,
    manifest_errors: SharedCounter,
    times: Mutex<AllTimes>,
}

#[derive(Debug, Default)]
struct AllTimes {
    whole: Times,
    interval: Times,
    start_up: Times,
    behind_live: Times,
    delivery: Times,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            watching: SharedCounter::default(),
            connections: SharedCounter::default(),
            unanswered: SharedCounter::default(),
            body_bytes: SharedCounter::default(),
            segments: SharedCounter::default(),
            late: SharedCounter::default(),
            stalled_ms: SharedCounter::default(),
            played_ms: SharedCounter::default(),
            played_bits: SharedCounter::default(),
            switches: SharedCounter::default(),
            connect_errors: SharedCounter::default(),
            status_errors: SharedCounter::default(),
            transfer_errors: SharedCounter::default(),
            manifest_errors: SharedCounter::default(),
            times: Mutex::default(),
        }
    }

    pub(super) fn record_first_byte(&self, span: Duration) {
        let mut times = self.times();
        times.whole.record(micros(span));
        times.interval.record(micros(span));
    }

    pub(super) fn record_start_up(&self, span: Duration) {
        self.times().start_up.record(micros(span));
    }

    pub(super) fn record_behind_live(&self, span: Duration) {
        self.times().behind_live.record(micros(span));
    }

    pub(super) fn record_delivery(&self, span: Duration) {
        self.times().delivery.record(micros(span));
    }

    pub(super) fn count_fault(&self, fault: Fault) {
        let counter = match fault {
            Fault::Connect => &self.connect_errors,
            Fault::Status(_) => &self.status_errors,
            Fault::Transfer => &self.transfer_errors,
            Fault::Manifest => &self.manifest_errors,
        };
        counter.add(1);
    }

    pub(super) fn figures(&self) -> Figures {
        let [first_byte, start_up, behind_live, delivery] = {
            let times = self.times();
            [&times.whole, &times.start_up, &times.behind_live, &times.delivery].map(Times::latency)
        };
        Figures {
            watching: self.watching.value(),
            connections: self.connections.value(),
            responses: first_byte.count,
            unanswered: self.unanswered.value(),
            body_bytes: self.body_bytes.value(),
            segments: self.segments.value(),
            late: self.late.value(),
            stalled_ms: self.stalled_ms.value(),
            played_ms: self.played_ms.value(),
            played_bits: self.played_bits.value(),
            switches: self.switches.value(),
            errors: Errors {
                connect: self.connect_errors.value(),
                status: self.status_errors.value(),
                transfer: self.transfer_errors.value(),
                manifest: self.manifest_errors.value(),
            },
            first_byte,
            start_up,
            behind_live,
            delivery,
        }
    }

    /// The times since the last call of this.
    pub(super) fn take_interval(&self) -> Times {
        std::mem::take(&mut self.times().interval)
    }

    fn times(&self) -> MutexGuard<'_, AllTimes> {
        // A panic between two records leaves all histograms whole.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_where_it_is_taken_and_the_whole_goes_on() {
        let meter = Meter::new();
        for millis in 1..=100 {
            meter.record_first_byte(Duration::from_millis(millis));
        }
        let mut times = meter.take_interval();
        let interval = times.latency();
        assert_eq!(interval.count, 100);
        assert!((49_900..=50_100).contains(&interval.p50_us), "{interval:?}");
        assert!((98_900..=99_100).contains(&interval.p99_us), "{interval:?}");
        meter.record_first_byte(Duration::from_secs(3600));
        let later = meter.take_interval();
        assert_eq!(later.latency().count, 1);
        times.add(&later);
        assert_eq!(times.latency().count, 101);
        assert_eq!(meter.take_interval().latency(), Latency::default());
        assert_eq!(meter.figures().responses, 101);
    }
}
