//! What is counted: at the viewers, in the node and at the origin.

use freshet_lab::demo::{Sampler, Second};
use freshet_lab::origin::{self, Origin};
use freshet_lab::viewers::{Errors, Figures, Latency, Times, Viewers};
use freshet_node::node::Node;
use freshet_node::stats::HitCounts;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Instant;

/// Moments that the recent figures go back: one second says little, since players fetch in bursts.
const RECENT_MOMENTS: usize = 10;

/// One refresh of the view.
pub(super) struct Moment {
    /// Since the moment before.
    pub(super) last: Part,
    /// Since [`RECENT_MOMENTS`] moments before.
    pub(super) recent: Part,
    /// Since the start.
    pub(super) whole: Part,
    /// Seconds since the start.
    pub(super) seconds: f64,
}

/// Figures of a stretch of time.
pub(super) struct Part {
    /// Rates and what viewers saw.
    pub(super) rates: Second,
    /// What of it the cache answered.
    pub(super) hits: HitCounts,
}

/// The counters so far, read at one time.
#[derive(Clone, Copy)]
struct Counts {
    viewers: Figures,
    origin: origin::Totals,
    hits: HitCounts,
}

impl Counts {
    fn read(node: &Node, origin: &Origin, viewers: Option<&Viewers>) -> Self {
        let sums = node.sums();
        let mut figures = viewers.map(Viewers::figures).unwrap_or_default();
        // All that left the node, so that players one starts by hand are in the picture too. The node
        // counts a response when it is over; within one, the viewers' own count is ahead.
        figures.body_bytes = figures.body_bytes.max(sums.counter("body_bytes"));
        Self {
            viewers: figures,
            origin: origin.totals(),
            hits: HitCounts::of(|name| sums.counter(name)),
        }
    }
}

/// Turns counters into figures, second by second.
pub(super) struct Readings {
    started: Instant,
    /// One that never sampled: what it says is since the start.
    fresh: Sampler,
    /// The moments before, the newest last; never empty.
    before: VecDeque<Reading>,
}

/// Where counters stood at a moment.
#[derive(Clone)]
struct Reading {
    taken: Instant,
    sampler: Sampler,
    hits: HitCounts,
    /// Times to first bytes since the moment before it.
    first_byte: Times,
}

impl Readings {
    /// Readings that begin now, at counters of zero.
    pub(super) fn new(offer: &origin::Settings) -> Self {
        let started = Instant::now();
        let fresh = Sampler::new(offer.channels, offer.titles);
        let first = Reading {
            taken: started,
            sampler: fresh.clone(),
            hits: HitCounts::default(),
            first_byte: Times::default(),
        };
        Self { started, fresh, before: VecDeque::from([first]) }
    }

    /// The figures since the last call, of the last ones together, and since the start.
    pub(super) fn take(
        &mut self,
        node: &Node,
        origin: &Origin,
        viewers: Option<&Viewers>,
    ) -> Moment {
        let counts = Counts::read(node, origin, viewers);
        let first_byte = viewers.map(Viewers::take_interval).unwrap_or_default();
        let now = Instant::now();
        let since = |reading: &Reading, times: &Times| {
            let mut sampler = reading.sampler.clone();
            let elapsed = now.duration_since(reading.taken);
            let (viewers, origin) = (counts.viewers, counts.origin);
            let rates = sampler.sample(viewers, times.latency(), origin, elapsed);
            (Part { rates, hits: counts.hits.since(reading.hits) }, sampler)
        };
        let (first, newest) = (&self.before[0], &self.before[self.before.len() - 1]);
        let (last, sampler) = since(newest, &first_byte);
        let mut times = first_byte.clone();
        self.before.iter().skip(1).for_each(|reading| times.add(&reading.first_byte));
        let (recent, _) = since(first, &times);
        self.before.push_back(Reading { taken: now, sampler, hits: counts.hits, first_byte });
        if self.before.len() > RECENT_MOMENTS {
            self.before.pop_front();
        }
        let whole = self.whole(&counts, now);
        Moment { last, recent, whole, seconds: now.duration_since(self.started).as_secs_f64() }
    }

    /// What is left to say at the end.
    pub(super) fn summary(
        &self,
        node: &Node,
        origin: &Origin,
        viewers: Option<&Viewers>,
    ) -> Summary {
        let counts = Counts::read(node, origin, viewers);
        let now = Instant::now();
        let whole = self.whole(&counts, now);
        let Latency { p50_us, p99_us, max_us, .. } = whole.rates.first_byte;
        let millis = |micros: u64| (whole.rates.first_byte.count > 0).then(|| micros as f64 / 1e3);
        Summary {
            seconds: now.duration_since(self.started).as_secs_f64(),
            channels: whole.rates.channels,
            titles: whole.rates.titles,
            viewers: whole.rates.viewers,
            gbit_per_second: whole.rates.bits_per_second / 1e9,
            body_bytes: counts.viewers.body_bytes,
            origin_body_bytes: counts.origin.body_bytes,
            byte_hit_ratio: counts.hits.byte_ratio(),
            requests: counts.hits.requests,
            hits: counts.hits.hits,
            request_hit_ratio: counts.hits.request_ratio(),
            ttfb_p50_ms: millis(p50_us),
            ttfb_p99_ms: millis(p99_us),
            ttfb_max_ms: millis(max_us),
            segments: counts.viewers.segments,
            late: counts.viewers.late,
            errors: counts.viewers.errors.total(),
            errors_by_kind: counts.viewers.errors.into(),
        }
    }

    fn whole(&self, counts: &Counts, now: Instant) -> Part {
        let elapsed = now.duration_since(self.started);
        let (viewers, origin) = (counts.viewers, counts.origin);
        Part {
            rates: self.fresh.clone().sample(viewers, viewers.first_byte, origin, elapsed),
            hits: counts.hits,
        }
    }
}

impl Moment {
    /// What the page shows of it.
    pub(super) fn news(&self) -> News {
        let Part { rates, hits } = &self.recent;
        let Latency { count, p50_us, p99_us, .. } = rates.first_byte;
        let millis = |micros: u64| (count > 0).then(|| micros as f64 / 1e3);
        News {
            seconds: self.seconds,
            viewers: rates.viewers,
            last_gbit_per_second: self.last.rates.bits_per_second / 1e9,
            last_origin_gbit_per_second: self.last.rates.origin_bits_per_second / 1e9,
            gbit_per_second: rates.bits_per_second / 1e9,
            origin_gbit_per_second: rates.origin_bits_per_second / 1e9,
            byte_hit_ratio: hits.byte_ratio(),
            request_hit_ratio: hits.request_ratio(),
            ttfb_p50_ms: millis(p50_us),
            ttfb_p99_ms: millis(p99_us),
            late: rates.late,
            errors: rates.errors,
        }
    }
}

/// A moment as the page gets it: of the recent figures, and the throughput of the last second.
#[derive(Serialize)]
pub(super) struct News {
    seconds: f64,
    viewers: u64,
    last_gbit_per_second: f64,
    last_origin_gbit_per_second: f64,
    gbit_per_second: f64,
    origin_gbit_per_second: f64,
    byte_hit_ratio: Option<f64>,
    request_hit_ratio: Option<f64>,
    ttfb_p50_ms: Option<f64>,
    ttfb_p99_ms: Option<f64>,
    late: u64,
    errors: u64,
}

/// The last word, for people and, as JSON, for scripts. Ratios are 0 to 1; what nothing was measured
/// of is `null`.
#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) seconds: f64,
    pub(super) channels: u32,
    pub(super) titles: u32,
    pub(super) viewers: u64,
    pub(super) gbit_per_second: f64,
    pub(super) body_bytes: u64,
    pub(super) origin_body_bytes: u64,
    pub(super) byte_hit_ratio: Option<f64>,
    pub(super) requests: u64,
    pub(super) hits: u64,
    pub(super) request_hit_ratio: Option<f64>,
    pub(super) ttfb_p50_ms: Option<f64>,
    pub(super) ttfb_p99_ms: Option<f64>,
    pub(super) ttfb_max_ms: Option<f64>,
    pub(super) segments: u64,
    pub(super) late: u64,
    pub(super) errors: u64,
    pub(super) errors_by_kind: ErrorKinds,
}

/// [`Errors`] as JSON names them.
#[derive(Serialize)]
pub(super) struct ErrorKinds {
    connect: u64,
    status: u64,
    transfer: u64,
    manifest: u64,
}

impl From<Errors> for ErrorKinds {
    fn from(errors: Errors) -> Self {
        let Errors { connect, status, transfer, manifest } = errors;
        Self { connect, status, transfer, manifest }
    }
}
