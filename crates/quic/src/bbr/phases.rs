//! What is tried when (draft-ietf-ccwg-bbr-06 §5.3): as much as there is at first, then a little more or less than
//! that in turns.

use super::super::sent::Gone;
use super::model::{in_flight_at_loss, is_too_high};
use super::{Bbr, Moment, PACKET_BYTES};
use std::time::Duration;

/// BBRStartupFullLossCnt: packets in a row that have to be lost in as many places of a round trip.
const STARTUP_LOSSES: u32 = 6;
/// Round trips that Drain may take.
const DRAIN_ROUNDS: u64 = 3;
/// Time between what is probed: so much, and up to a second more.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// And in round trips: as many as Reno would take, up to these.
const PROBE_ROUNDS_MAX: u64 = 63;
/// How often what is added in a round trip is doubled.
const UP_DOUBLINGS_MAX: u32 = 30;
/// ProbeRTTDuration.
const PROBE_TRIP: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Twice as much each round trip.
    Startup,
    /// What waits on the way after that gets less.
    Drain,
    /// ProbeBW_DOWN: a little less, until nothing waits any more.
    Down,
    /// ProbeBW_CRUISE: as much as arrives.
    Cruise,
    /// ProbeBW_REFILL: the same for a round trip, whatever was lost before.
    Refill,
    /// ProbeBW_UP: a quarter more.
    Up,
    /// ProbeRTT: half of what fits, so that the round trip is as short as it can be.
    ProbeTrip,
}

impl Phase {
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            // 4 ln 2: the least that doubles the rate each round trip.
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeTrip => 1.0,
            Self::Up => 1.25,
        }
    }

    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeTrip => 0.5,
            _ => 2.0,
        }
    }

    /// IsProbingBW.
    pub(super) fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// IsInAProbeBWState.
    fn is_cycle(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// ack_phase: what acknowledgements say of what is probed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Feedback {
    #[default]
    None,
    Refilling,
    Starting,
    Coming,
    Stopping,
}

/// What is tried, how it went last and when it is tried again.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    feedback: Feedback,
    /// is_bw_probe_sample: whether acknowledgements are of packets of a probe that did not prove too much.
    pub(super) is_sampling: bool,
    /// probe_up_acked_per_inc, bw_probe_up_acked, bw_probe_up_rounds.
    acked_per_packet: u64,
    acked: u64,
    doublings: u32,
    pub(super) rounds_since_up: u64,
    /// bw_probe_wait, cycle_stamp.
    wait: Duration,
    began: Duration,
    /// prev_probe_too_high, prev_probe_precautionary.
    was_too_high: bool,
    was_cautious: bool,
    /// drain_start_round.
    drain_began: u64,
    /// probe_rtt_done_stamp, probe_rtt_round_done.
    trip_done_at: Option<Duration>,
    is_trip_round_done: bool,
}

#[cfg(test)]
impl Probe {
    pub(super) fn was_too_high(&self) -> bool {
        self.was_too_high
    }
}

impl Bbr {
    /// The phase that follows from what was learned.
    pub(super) fn advance(&mut self, moment: &Moment) {
        self.check_startup(moment);
        let is_drained = moment.in_flight <= self.full_pipe(self.bounds.rate);
        if self.phase == Phase::Drain
            && (is_drained || self.rounds.count > self.probe.drain_began + DRAIN_ROUNDS)
        {
            self.begin_down(moment.now);
        }
        if self.full.is_reached && !self.adapt_long(moment) {
            self.advance_cycle(moment);
        }
        self.check_trip(moment);
    }

    /// CheckStartupDone.
    fn check_startup(&mut self, moment: &Moment) {
        if self.rounds.is_loss_start {
            let losses = std::mem::take(&mut self.rounds.losses);
            let is_too_high = is_too_high(moment.sample.lost, moment.sample.in_flight);
            if !self.full.is_reached && losses >= STARTUP_LOSSES && is_too_high {
                self.found_full();
            }
        }
        if self.phase == Phase::Startup && self.full.is_reached {
            self.phase = Phase::Drain;
            self.probe.drain_began = self.rounds.count;
        }
    }

    /// UpdateProbeBWCyclePhase, when nothing else decided.
    fn advance_cycle(&mut self, moment: &Moment) {
        let phase = self.phase;
        match phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(moment.now) => self.begin_refill(),
            Phase::Down => {
                let most = self.bounds.with_headroom().min(self.full_pipe(self.max_rate.get()));
                if moment.in_flight <= most {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Refill if self.rounds.is_start => {
                self.probe.is_sampling = true;
                self.begin_up(moment);
            }
            Phase::Up if self.is_time_to_go_down(moment) => {
                self.probe.was_too_high = false;
                self.begin_down(moment.now);
            }
            _ => {}
        }
    }

    /// StartProbeBW_DOWN.
    fn begin_down(&mut self, now: Duration) {
        self.forget_latest();
        self.probe.acked_per_packet = u64::MAX;
        self.probe.rounds_since_up = self.random.below(2);
        self.probe.wait = PROBE_WAIT + Duration::from_micros(self.random.below(1_000_000));
        self.probe.began = now;
        self.probe.feedback = Feedback::Stopping;
        self.rounds.begin(self.deliveries.delivered);
        self.phase = Phase::Down;
    }

    /// StartProbeBW_REFILL.
    fn begin_refill(&mut self) {
        self.bounds.forget_short();
        (self.probe.doublings, self.probe.acked) = (0, 0);
        self.probe.was_cautious = false;
        self.probe.feedback = Feedback::Refilling;
        self.rounds.begin(self.deliveries.delivered);
        self.phase = Phase::Refill;
    }

    /// StartProbeBW_UP.
    fn begin_up(&mut self, moment: &Moment) {
        self.probe.feedback = Feedback::Starting;
        self.rounds.begin(self.deliveries.delivered);
        self.full.restart(moment.sample.rate);
        self.phase = Phase::Up;
        self.steepen();
    }

    /// RaiseInflightLongtermSlope.
    fn steepen(&mut self) {
        let growth = 1 << self.probe.doublings;
        self.probe.doublings = (self.probe.doublings + 1).min(UP_DOUBLINGS_MAX);
        self.probe.acked_per_packet = (self.window / growth).max(PACKET_BYTES);
    }

    /// ProbeInflightLongtermUpward.
    fn raise_long(&mut self, acked: u64) {
        if !self.is_window_limited() || self.window < self.bounds.in_flight_long {
            return;
        }
        self.probe.acked += acked;
        let packets = self.probe.acked / self.probe.acked_per_packet;
        self.probe.acked -= packets * self.probe.acked_per_packet;
        self.bounds.in_flight_long += packets * PACKET_BYTES;
        if self.rounds.is_start {
            self.steepen();
        }
    }

    /// AdaptLongTermModel. Whether it decided the phase.
    fn adapt_long(&mut self, moment: &Moment) -> bool {
        let sample = &moment.sample;
        let is_start = self.rounds.is_start;
        if self.probe.feedback == Feedback::Starting && is_start {
            self.probe.feedback = Feedback::Coming;
        }
        if self.probe.feedback == Feedback::Stopping && is_start {
            self.probe.is_sampling = false;
            self.probe.feedback = Feedback::None;
            if self.phase.is_cycle() && !sample.is_limited {
                self.max_rate.advance();
            }
            if self.phase.is_cycle() && self.probe.was_cautious && !self.probe.was_too_high {
                self.begin_refill();
                return true;
            }
        }
        if !is_too_high(sample.lost, sample.in_flight) && self.bounds.in_flight_long != u64::MAX {
            self.bounds.in_flight_long = self.bounds.in_flight_long.max(sample.in_flight);
            if self.phase == Phase::Up {
                self.raise_long(sample.acked);
            }
        }
        false
    }

    /// IsTimeToProbeBW.
    fn is_time_to_probe(&self, now: Duration) -> bool {
        let rounds = (self.target() / PACKET_BYTES).min(PROBE_ROUNDS_MAX);
        now > self.probe.began + self.probe.wait || self.probe.rounds_since_up >= rounds
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, moment: &Moment) -> bool {
        let sample = &moment.sample;
        // What was in flight when the acknowledgement came.
        let in_flight = moment.in_flight + sample.acked;
        if self.probe.was_too_high && in_flight >= self.bounds.in_flight_long {
            self.probe.was_cautious = true;
            return true;
        }
        if self.is_window_limited() && self.window >= self.bounds.in_flight_long {
            self.full.restart(sample.rate);
            return false;
        }
        self.full.is_now
    }

    /// Packets are lost: HandleLostPacket.
    pub(crate) fn lost(&mut self, gone: &Gone, now: Duration) {
        self.deliveries.lost += gone.bytes;
        self.note_loss();
        if !self.probe.is_sampling {
            return;
        }
        let Some(flight) = self.deliveries.flight(gone.last) else { return };
        let (in_flight, lost) =
            (flight.in_flight_at(gone.last), flight.lost_since(self.deliveries.lost));
        if is_too_high(lost, in_flight) {
            let in_flight = in_flight_at_loss(in_flight, lost, gone.bytes);
            self.in_flight_was_too_high(in_flight, flight.is_limited, now);
        }
    }

    /// HandleInflightTooHigh.
    pub(super) fn in_flight_was_too_high(
        &mut self,
        in_flight: u64,
        is_limited: bool,
        now: Duration,
    ) {
        self.probe.was_too_high = true;
        self.probe.is_sampling = false;
        self.lower_long(in_flight, is_limited);
        if self.phase == Phase::Up {
            self.begin_down(now);
        }
    }

    /// CheckProbeRTT.
    fn check_trip(&mut self, moment: &Moment) {
        if self.phase != Phase::ProbeTrip && self.trip.is_stale && !self.has_rested {
            self.phase = Phase::ProbeTrip;
            self.window_before = self.window;
            self.probe.trip_done_at = None;
            self.probe.feedback = Feedback::Stopping;
            self.rounds.begin(self.deliveries.delivered);
        }
        if self.phase == Phase::ProbeTrip {
            // What arrives now says little of what could.
            self.deliveries.limit(moment.in_flight);
            match self.probe.trip_done_at {
                None if moment.in_flight <= self.probe_trip_window() => {
                    self.probe.trip_done_at = Some(moment.now + PROBE_TRIP);
                    self.probe.is_trip_round_done = false;
                    self.rounds.begin(self.deliveries.delivered);
                }
                None => {}
                Some(_) => {
                    self.probe.is_trip_round_done |= self.rounds.is_start;
                    if self.probe.is_trip_round_done {
                        self.check_trip_done(moment.now);
                    }
                }
            }
        }
        self.has_rested &= moment.sample.delivered == 0;
    }

    /// CheckProbeRTTDone and ExitProbeRTT.
    fn check_trip_done(&mut self, now: Duration) {
        if self.probe.trip_done_at.is_none_or(|done| now <= done) {
            return;
        }
        self.trip.fresh_at = now;
        self.window = self.window.max(self.window_before);
        self.bounds.forget_short();
        if self.full.is_reached {
            self.begin_down(now);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }

    /// HandleRestartFromIdle: what goes out is the first after nothing was in flight.
    pub(super) fn rested(&mut self, now: Duration) {
        self.has_rested = true;
        self.aggregation.restart(now);
        if self.phase.is_cycle() {
            self.set_pace(1.0);
        } else if self.phase == Phase::ProbeTrip {
            self.check_trip_done(now);
        }
    }
}
