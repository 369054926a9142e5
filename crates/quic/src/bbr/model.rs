//! What is known of a way: how much goes through, how much fits, and how short it is
//! (draft-ietf-ccwg-bbr-06 §5.5).

use super::deliveries::Sample;
use super::{Bbr, Moment, PACKET_BYTES, PIPE_BYTES_MIN};
use std::time::Duration;

/// LossThresh: what may be lost of what was in flight while more is tried.
const LOSS_SHARE_MAX: f64 = 0.02;
/// Beta: what a round trip with losses leaves at least.
const BETA: f64 = 0.7;
/// Headroom: what is left free for others below what was too much.
const HEADROOM: f64 = 0.15;
/// MinRTTFilterLen and ProbeRTTInterval.
const TRIP_KEPT: Duration = Duration::from_secs(10);
const TRIP_FRESH: Duration = Duration::from_secs(5);
/// Half of ExtraAckedFilterLen: the filter has two places.
const AGGREGATION_ROUNDS: u32 = 5;
/// Rounds without growth, and the growth that counts as such.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;

/// Round trips, by packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// round_count, and whether the last acknowledgement began one.
    pub(super) count: u64,
    pub(super) is_start: bool,
    /// next_round_delivered.
    end: u64,
    /// The same of round trips that begin with a loss: loss_round_delivered, loss_round_start.
    loss_end: u64,
    pub(super) is_loss_start: bool,
    /// is_loss_in_round, and how many times packets in a row were lost since such a one began.
    is_loss_in: bool,
    pub(super) losses: u32,
}

impl Rounds {
    /// StartRound.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.end = delivered;
    }
}

/// max_bw: the most that arrived, in bytes a second, since what was probed before last.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxRate {
    before: f64,
    now: f64,
}

impl MaxRate {
    pub(super) fn get(&self) -> f64 {
        self.before.max(self.now)
    }

    fn add(&mut self, rate: f64) {
        self.now = self.now.max(rate);
    }

    /// AdvanceMaxBwFilter. What was measured nothing in is not a cycle.
    pub(super) fn advance(&mut self) {
        if self.now > 0.0 {
            self.before = std::mem::take(&mut self.now);
        }
    }
}

/// What losses say of how much may be sent: for long, and until more is tried again.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    /// bw: what is sent at. bw_shortterm, bw_latest: bytes a second.
    pub(super) rate: f64,
    rate_short: f64,
    rate_latest: f64,
    /// inflight_longterm, inflight_shortterm; the greatest number for none. inflight_latest.
    pub(super) in_flight_long: u64,
    pub(super) in_flight_short: u64,
    in_flight_latest: u64,
}

impl Bounds {
    pub(super) const fn new() -> Self {
        Self {
            rate: 0.0,
            rate_short: f64::INFINITY,
            rate_latest: 0.0,
            in_flight_long: u64::MAX,
            in_flight_short: u64::MAX,
            in_flight_latest: 0,
        }
    }

    /// BoundBWForModel.
    pub(super) fn bound_rate(&mut self, most: f64) {
        self.rate = most.min(self.rate_short);
    }

    /// ResetShortTermModel.
    pub(super) fn forget_short(&mut self) {
        (self.rate_short, self.in_flight_short) = (f64::INFINITY, u64::MAX);
    }

    /// InflightWithHeadroom.
    pub(super) fn with_headroom(&self) -> u64 {
        if self.in_flight_long == u64::MAX {
            return u64::MAX;
        }
        let headroom = (HEADROOM * self.in_flight_long as f64) as u64;
        self.in_flight_long.saturating_sub(headroom.max(PACKET_BYTES)).max(PIPE_BYTES_MIN)
    }

    /// AdvanceLatestDeliverySignals.
    pub(super) fn advance(&mut self, sample: &Sample, is_loss_start: bool) {
        if is_loss_start {
            (self.rate_latest, self.in_flight_latest) = (sample.rate, sample.delivered);
        }
    }

    /// InitLowerBounds and LossLowerBounds.
    fn lower(&mut self, most: f64, window: u64) {
        if self.rate_short == f64::INFINITY {
            self.rate_short = most;
        }
        if self.in_flight_short == u64::MAX {
            self.in_flight_short = window;
        }
        self.rate_short = self.rate_latest.max(BETA * self.rate_short);
        let lowered = (BETA * self.in_flight_short as f64) as u64;
        self.in_flight_short = self.in_flight_latest.max(lowered);
    }
}

/// extra_acked: how much more than its rate a way delivers at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    began: Duration,
    acked: u64,
    most: [u64; 2],
    rounds: u32,
}

impl Aggregation {
    pub(super) fn extra(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// What comes now is counted anew.
    pub(super) fn restart(&mut self, now: Duration) {
        (self.began, self.acked) = (now, 0);
    }
}

/// Whether more is sent without more arriving.
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// full_bw_reached: whether it ever was so; full_bw_now: whether it is since it was tried last.
    pub(super) is_reached: bool,
    pub(super) is_now: bool,
    rate: f64,
    rounds: u32,
}

impl FullPipe {
    /// ResetFullBW, with what arrives now.
    pub(super) fn restart(&mut self, rate: f64) {
        (self.is_now, self.rounds, self.rate) = (false, 0, rate);
    }
}

/// min_rtt: the shortest round trip, with nothing waiting on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortestTrip {
    pub(super) least: Option<Duration>,
    least_at: Duration,
    /// probe_rtt_min_delay, probe_rtt_min_stamp: the same of a shorter time.
    fresh: Option<Duration>,
    pub(super) fresh_at: Duration,
    /// probe_rtt_expired.
    pub(super) is_stale: bool,
}

impl ShortestTrip {
    /// UpdateMinRTT.
    fn add(&mut self, trip: Duration, now: Duration) {
        self.is_stale = self.fresh.is_some() && now > self.fresh_at + TRIP_FRESH;
        if self.is_stale || self.fresh.is_none_or(|fresh| trip < fresh) {
            (self.fresh, self.fresh_at) = (Some(trip), now);
        }
        let is_old = now > self.least_at + TRIP_KEPT;
        if is_old || self.least.is_none_or(|least| self.fresh.is_some_and(|fresh| fresh < least)) {
            (self.least, self.least_at) = (self.fresh, self.fresh_at);
        }
    }
}

/// IsInflightTooHigh.
pub(super) fn is_too_high(lost: u64, in_flight: u64) -> bool {
    lost as f64 > in_flight as f64 * LOSS_SHARE_MAX
}

/// InflightAtLoss: what was in flight when too much was lost, of which the last `size` bytes were `lost` among
/// them.
pub(super) fn in_flight_at_loss(in_flight: u64, lost: u64, size: u64) -> u64 {
    let before = in_flight.saturating_sub(size);
    let lost_before = lost.saturating_sub(size);
    let more = (LOSS_SHARE_MAX * before as f64 - lost_before as f64) / (1.0 - LOSS_SHARE_MAX);
    before + more.max(0.0) as u64
}

impl Bbr {
    /// UpdateModelAndState up to where phases change.
    pub(super) fn learn(&mut self, moment: &Moment) {
        let sample = &moment.sample;
        let delivered = self.deliveries.delivered;
        // UpdateLatestDeliverySignals
        self.bounds.rate_latest = self.bounds.rate_latest.max(sample.rate);
        self.bounds.in_flight_latest = self.bounds.in_flight_latest.max(sample.delivered);
        self.rounds.is_loss_start = sample.prior_delivered >= self.rounds.loss_end;
        if self.rounds.is_loss_start {
            self.rounds.loss_end = delivered;
        }
        // UpdateRound
        self.rounds.is_start = sample.prior_delivered >= self.rounds.end;
        if self.rounds.is_start {
            self.rounds.begin(delivered);
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1;
            self.is_full = [false, self.is_full[0]];
        }
        // UpdateMaxBw
        if sample.rate > 0.0 && (!sample.is_limited || sample.rate >= self.max_rate.get()) {
            self.max_rate.add(sample.rate);
        }
        // UpdateCongestionSignals
        if self.rounds.is_loss_start {
            if self.rounds.is_loss_in && !self.phase.is_accelerating() {
                self.bounds.lower(self.max_rate.get(), self.window);
            }
            self.rounds.is_loss_in = false;
        }
        self.learn_aggregation(moment);
        self.learn_full(sample);
        self.trip.add(sample.rtt, moment.now);
    }

    /// UpdateACKAggregation.
    fn learn_aggregation(&mut self, moment: &Moment) {
        let extra = &mut self.aggregation;
        if self.rounds.is_start {
            extra.rounds += 1;
            let kept = if self.full.is_reached { AGGREGATION_ROUNDS } else { 1 };
            if extra.rounds >= kept {
                extra.rounds = 0;
                extra.most = [0, extra.most[0]];
            }
        }
        let passed = moment.now.saturating_sub(extra.began).as_secs_f64();
        let mut expected = (self.bounds.rate * passed) as u64;
        if extra.acked <= expected {
            extra.restart(moment.now);
            expected = 0;
        }
        extra.acked += moment.sample.acked;
        let more = extra.acked.saturating_sub(expected).min(self.window);
        extra.most[0] = extra.most[0].max(more);
    }

    /// CheckFullBWReached.
    fn learn_full(&mut self, sample: &Sample) {
        let full = &mut self.full;
        if full.is_now || !self.rounds.is_start || sample.is_limited {
            return;
        }
        if sample.rate >= full.rate * FULL_GROWTH {
            return full.restart(sample.rate);
        }
        full.rounds += 1;
        full.is_now = full.rounds >= FULL_ROUNDS;
        full.is_reached |= full.is_now;
    }

    /// NoteLoss.
    pub(super) fn note_loss(&mut self) {
        if !self.rounds.is_loss_in {
            self.rounds.loss_end = self.deliveries.delivered;
        }
        self.rounds.is_loss_in = true;
        self.rounds.losses += 1;
    }

    /// The way is full, as losses in Startup say, and about so much fits.
    pub(super) fn found_full(&mut self) {
        self.full.is_reached = true;
        let pipe = self.pipe(self.bounds.rate, 1.0);
        self.bounds.in_flight_long = pipe.max(self.bounds.in_flight_latest).max(PIPE_BYTES_MIN);
    }

    /// HandleInflightTooHigh, but for the phase.
    pub(super) fn lower_long(&mut self, in_flight: u64, is_limited: bool) {
        if !is_limited {
            let least = (self.target() as f64 * BETA) as u64;
            self.bounds.in_flight_long = in_flight.max(least);
        }
    }

    /// ResetCongestionSignals.
    pub(super) fn forget_latest(&mut self) {
        self.rounds.is_loss_in = false;
        (self.bounds.rate_latest, self.bounds.in_flight_latest) = (0.0, 0);
    }
}
