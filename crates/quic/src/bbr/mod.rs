//! How much may be in flight and how fast it goes out: BBR, version 3 (draft-ietf-ccwg-bbr-06).
//!
//! It measures how fast data arrives and how short the round trip can be, and sends as fast and has as
//! much in flight as that says: losses alone do not make it slower, as long as they are few. From time to time
//! it tries whether more is to be had, and looks for the short round trip with less in flight.
//!
//! [`deliveries`] measures, [`model`] keeps what is known of the way, [`phases`] decides what is tried when;
//! here is what follows for the window and the pace. Names of the draft are said where ours are
//! others. Not here is what undoes losses that were none: a way that reorders shows it soon, and then there
//! are few of them.

mod deliveries;
mod model;
mod phases;
#[cfg(test)]
mod tests;

use super::congestion::{Arrival, Sending, WINDOW_BYTES_FIRST, WINDOW_BYTES_MIN};
use super::limits::{BATCH_BYTES_MAX, DATAGRAM_BYTES_MAX, WINDOW_BYTES_MAX};
use super::pacer::Pace;
use super::random::Random;
use super::rtt::Rtt;
use deliveries::{Deliveries, Sample};
use model::{Aggregation, Bounds, FullPipe, MaxRate, Rounds, ShortestTrip};
use phases::{Phase, Probe};
use std::time::Duration;

/// SMSS: bytes of a full packet.
const PACKET_BYTES: u64 = DATAGRAM_BYTES_MAX as u64;
/// MinPipeCwnd: with fewer packets in flight a client that acknowledges every second one would be waited for.
const PIPE_BYTES_MIN: u64 = 4 * PACKET_BYTES;
/// PacingMarginPercent: so much slower than measured, that queues become shorter.
const PACING_MARGIN: f64 = 0.01;
/// A round trip of which nothing is known, for the first pace.
const FIRST_TRIP: Duration = Duration::from_millis(1);

/// The congestion window and the pace of a way.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    deliveries: Deliveries,
    phase: Phase,
    rounds: Rounds,
    max_rate: MaxRate,
    bounds: Bounds,
    aggregation: Aggregation,
    full: FullPipe,
    trip: ShortestTrip,
    probe: Probe,
    /// cwnd, and prior_cwnd: what it was before the round trip was probed.
    window: u64,
    window_before: u64,
    /// pacing_rate, in bytes a second, and whether any round trip was known for it.
    pacing_rate: f64,
    has_trip: bool,
    /// idle_restart: whether nothing was in flight before what is now.
    has_rested: bool,
    /// is_cwnd_limited: whether the window was full in this round trip, and in the one before.
    is_full: [bool; 2],
    random: Random,
}

/// What there is to know when an acknowledgement was read.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Duration,
    in_flight: u64,
    sample: Sample,
}

impl Bbr {
    pub(super) fn new(seed: u64) -> Self {
        let mut bbr = Self {
            deliveries: Deliveries::default(),
            phase: Phase::Startup,
            rounds: Rounds::default(),
            max_rate: MaxRate::default(),
            bounds: Bounds::new(),
            aggregation: Aggregation::default(),
            full: FullPipe::default(),
            trip: ShortestTrip::default(),
            probe: Probe::default(),
            window: WINDOW_BYTES_FIRST,
            window_before: 0,
            pacing_rate: 0.0,
            has_trip: false,
            has_rested: false,
            is_full: [false; 2],
            random: Random::new(seed),
        };
        bbr.begin_pacing(FIRST_TRIP);
        bbr
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// How fast they go out.
    pub(super) fn pace(&self) -> Pace {
        Pace::of_rate(self.pacing_rate)
    }

    /// Packets with data go out.
    pub(super) fn sending(&mut self, sending: &Sending) {
        if sending.in_flight == 0 && self.deliveries.is_limited() {
            self.rested(sending.now);
        }
        self.deliveries.sending(sending);
        let in_flight = sending.in_flight + sending.packets * sending.bytes;
        self.is_full[0] |= in_flight + PACKET_BYTES > self.window;
    }

    /// Nothing more is sent, although the window has room.
    pub(super) fn ran_dry(&mut self, in_flight: u64) {
        if in_flight < self.window {
            self.deliveries.limit(in_flight);
        }
    }

    /// Packets arrived.
    pub(super) fn acknowledged(&mut self, arrival: &Arrival) {
        self.deliveries.acknowledged(arrival);
    }

    /// A router says that its queue grows: as if the window had been too large, whatever little was marked.
    pub(super) fn marked(&mut self, now: Duration) {
        self.note_loss();
        if self.phase == Phase::Startup {
            self.found_full();
        } else if self.probe.is_sampling
            && let Some((in_flight, is_limited)) = self.deliveries.newest()
        {
            self.in_flight_was_too_high(in_flight, is_limited, now);
        }
    }

    /// An acknowledgement was read, and what it shows as lost is known: UpdateOnACK of the draft.
    pub(super) fn settle(&mut self, now: Duration, in_flight: u64, oldest: u64, rtt: &Rtt) {
        if !self.has_trip && rtt.is_known() {
            self.has_trip = true;
            self.begin_pacing(rtt.smoothed);
        }
        if let Some(sample) = self.deliveries.sample(now) {
            let moment = Moment { now, in_flight, sample };
            self.learn(&moment);
            self.advance(&moment);
            self.bounds.advance(&sample, self.rounds.is_loss_start);
            self.bounds.bound_rate(self.max_rate.get());
            self.set_pace(self.phase.pacing_gain());
            self.set_window(sample.acked);
        }
        self.deliveries.forget(oldest);
    }

    /// All that was sent for a long time was lost (RFC 9002 §7.6). The window grows again with what arrives,
    /// up to what the way was measured to take.
    pub(super) fn collapsed(&mut self) {
        self.window_before = 0;
        self.window = WINDOW_BYTES_MIN;
    }

    /// InitPacingRate.
    fn begin_pacing(&mut self, trip: Duration) {
        let trip = trip.as_secs_f64().max(1e-6);
        self.pacing_rate = Phase::Startup.pacing_gain() * WINDOW_BYTES_FIRST as f64 / trip;
    }

    /// SetPacingRateWithGain: until the way is known to be full only upwards.
    fn set_pace(&mut self, gain: f64) {
        let rate = gain * self.bounds.rate * (1.0 - PACING_MARGIN);
        if rate > 0.0 && (self.full.is_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// SetCwnd.
    fn set_window(&mut self, acked: u64) {
        let most = self.in_flight_max();
        if self.full.is_reached {
            self.window = (self.window + acked).min(most);
        } else if self.window < most || self.deliveries.delivered < WINDOW_BYTES_FIRST {
            self.window += acked;
        }
        self.window = self.window.max(PIPE_BYTES_MIN);
        if self.phase == Phase::ProbeTrip {
            self.window = self.window.min(self.probe_trip_window());
        }
        let cap = match self.phase {
            Phase::Startup | Phase::Drain => u64::MAX,
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.in_flight_long,
            Phase::Cruise | Phase::ProbeTrip => self.bounds.with_headroom(),
        };
        let cap = cap.min(self.bounds.in_flight_short).max(PIPE_BYTES_MIN);
        self.window = self.window.min(cap).min(WINDOW_BYTES_MAX);
    }

    /// BDPMultiple: so many times what fills the way, at a rate.
    fn pipe(&self, rate: f64, gain: f64) -> u64 {
        match self.trip.least {
            Some(least) => (gain * rate * least.as_secs_f64()) as u64,
            None => WINDOW_BYTES_FIRST,
        }
    }

    /// QuantizationBudget: what is acknowledged and sent in heaps takes room for these.
    fn with_quanta(&self, in_flight: u64) -> u64 {
        // A near client gets a batch at a time.
        let is_near = self.trip.least.is_some_and(Rtt::is_near_trip);
        let quantum = if is_near { BATCH_BYTES_MAX as u64 } else { self.pace().quantum };
        let probing = if self.phase == Phase::Up { 2 * PACKET_BYTES } else { 0 };
        in_flight.max(quantum).max(PIPE_BYTES_MIN) + probing
    }

    /// Inflight: what fills the way at a rate.
    fn full_pipe(&self, rate: f64) -> u64 {
        self.with_quanta(self.pipe(rate, 1.0))
    }

    /// UpdateMaxInflight.
    fn in_flight_max(&self) -> u64 {
        let pipe = self.pipe(self.bounds.rate, self.phase.window_gain());
        self.with_quanta(pipe + self.aggregation.extra())
    }

    /// ProbeRTTCwnd.
    fn probe_trip_window(&self) -> u64 {
        self.pipe(self.bounds.rate, Phase::ProbeTrip.window_gain()).max(PIPE_BYTES_MIN)
    }

    /// TargetInflight.
    fn target(&self) -> u64 {
        self.pipe(self.bounds.rate, 1.0).min(self.window)
    }

    /// Whether the window was what kept more from being sent, in this round trip or the one before.
    fn is_window_limited(&self) -> bool {
        self.is_full[0] || self.is_full[1]
    }
}
