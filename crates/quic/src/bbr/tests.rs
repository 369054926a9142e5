//! The draft's own cases (its appendix A), over a link of one flow in virtual time.

use super::super::congestion::{Arrival, Congestion, Sending};
use super::super::pacer::Pacer;
use super::super::rtt::Rtt;
use super::super::sent::{Gone, How};
use super::*;
use std::collections::{BTreeMap, VecDeque};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// 20 Mbit/s.
const RATE: f64 = 2.5e6;
const TRIP: Duration = Duration::from_millis(40);
/// What fills it.
const PIPE: u64 = 100_000;

/// A bottleneck, what is on its way through it, and who sends.
struct Link {
    now: Duration,
    rate: f64,
    trip: Duration,
    buffer: u64,
    /// Of a thousand packets.
    lost: u64,
    /// Acknowledgements come once in so much time, all at once.
    heaps: Duration,
    /// Bytes a second that there are to send, if not any number.
    supply: Option<f64>,
    supplied: f64,
    supplied_at: Duration,
    free: Duration,
    congestion: Congestion,
    pacer: Pacer,
    rtt: Rtt,
    next: u64,
    /// Those not known to have arrived or be lost, by number, and when acknowledgements come.
    flying: BTreeMap<u64, Duration>,
    acks: VecDeque<(Duration, u64)>,
    in_flight: u64,
    delivered: u64,
    dice: u64,
    /// Phases in the order in which they began.
    phases: Vec<Phase>,
}

impl Link {
    fn new(buffer: u64) -> Self {
        Self {
            now: Duration::ZERO,
            rate: RATE,
            trip: TRIP,
            buffer,
            lost: 0,
            heaps: Duration::ZERO,
            supply: None,
            supplied: 0.0,
            supplied_at: Duration::ZERO,
            free: Duration::ZERO,
            congestion: Congestion::Bbr(Box::new(Bbr::new(7))),
            pacer: Pacer::new(),
            rtt: Rtt::new(),
            next: 0,
            flying: BTreeMap::new(),
            acks: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            dice: 1,
            phases: vec![Phase::Startup],
        }
    }

    fn bbr(&mut self) -> &mut Bbr {
        match &mut self.congestion {
            Congestion::Bbr(bbr) => bbr,
            Congestion::Cubic(_) => unreachable!("it was made so"),
        }
    }

    fn phase(&mut self) -> Phase {
        self.bbr().phase
    }

    /// Goes on until something holds; panics when that takes longer.
    fn until(&mut self, most: Duration, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = self.now + most;
        while !holds(self) {
            assert!(self.now < end, "not after {most:?}: {:?}, {:?}", self.phases, self.congestion);
            self.step(end);
        }
    }

    /// Bytes a second that arrive in so much time.
    fn goodput(&mut self, time: Duration) -> f64 {
        let (end, before) = (self.now + time, self.delivered);
        while self.now < end {
            self.step(end);
        }
        (self.delivered - before) as f64 / time.as_secs_f64()
    }

    fn step(&mut self, end: Duration) {
        let wakes = self.send();
        let acked = self.acks.front().map(|(at, _)| *at);
        let Some(at) = [acked, wakes].into_iter().flatten().min().filter(|at| *at <= end) else {
            self.now = end;
            // Nothing comes of all that: what flies is lost.
            if self.acks.is_empty() && wakes.is_none() {
                self.lose_below(u64::MAX);
            }
            return;
        };
        self.now = self.now.max(at);
        let mut highest = None;
        while let Some((_, number)) = self.acks.front().filter(|(at, _)| *at <= self.now) {
            highest = Some(*number);
            let number = *number;
            self.acks.pop_front();
            let Some(sent) = self.flying.remove(&number) else { continue };
            self.in_flight -= PACKET_BYTES;
            self.delivered += PACKET_BYTES;
            let (now, bytes) = (self.now, PACKET_BYTES);
            self.rtt.sample(now - sent, Duration::ZERO);
            let arrival = Arrival { now, sent, last: number, bytes, is_data: true };
            self.congestion.acknowledged(&arrival, TRIP, true);
        }
        if let Some(highest) = highest {
            self.lose_below(highest.saturating_sub(2));
            let oldest = self.flying.keys().next().copied().unwrap_or(self.next);
            self.congestion.settle(self.now, self.in_flight, oldest, &self.rtt);
        }
        let phase = self.phase();
        if self.phases.last() != Some(&phase) {
            self.phases.push(phase);
        }
    }

    fn lose_below(&mut self, number: u64) {
        let kept = self.flying.split_off(&number);
        for (last, sent) in std::mem::replace(&mut self.flying, kept) {
            self.in_flight -= PACKET_BYTES;
            let gone = Gone { last, packets: 1, bytes: PACKET_BYTES, sent, how: How::default() };
            self.congestion.lost(&gone, self.now, true);
        }
    }

    /// Sends what may be sent, and says when there may be more without an acknowledgement.
    fn send(&mut self) -> Option<Duration> {
        let (now, bytes) = (self.now, PACKET_BYTES);
        if let Some(supply) = self.supply {
            self.supplied += supply * (now - self.supplied_at).as_secs_f64();
        }
        self.supplied_at = now;
        loop {
            let pace = self.congestion.pace(&self.rtt);
            self.pacer.fill(now, &pace, false);
            let has_data = self.supply.is_none() || self.supplied >= bytes as f64;
            if !has_data {
                self.congestion.ran_dry(self.in_flight);
                let supply = self.supply.filter(|supply| *supply > 0.0)?;
                let wait = (bytes as f64 - self.supplied) / supply + 1e-6;
                return Some(now + Duration::from_secs_f64(wait));
            }
            if self.in_flight + bytes > self.congestion.window() {
                return None;
            }
            if !self.pacer.has(bytes) {
                return Some(self.pacer.next(&pace, bytes).max(now + Duration::from_micros(1)));
            }
            let sending =
                Sending { now, first: self.next, packets: 1, bytes, in_flight: self.in_flight };
            self.congestion.sending(&sending);
            self.pacer.spend(bytes as usize);
            self.supplied -= bytes as f64;
            self.in_flight += bytes;
            self.flying.insert(self.next, now);
            self.carry(self.next);
            self.next += 1;
        }
    }

    fn carry(&mut self, number: u64) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let waits = self.free.saturating_sub(self.now).as_secs_f64() * self.rate;
        if waits > self.buffer as f64 || (self.dice >> 33) % 1000 < self.lost {
            return;
        }
        let takes = Duration::from_secs_f64(PACKET_BYTES as f64 / self.rate);
        self.free = self.free.max(self.now) + takes;
        let mut at = self.free + self.trip;
        if !self.heaps.is_zero() {
            let heap = self.heaps.as_nanos() as u64;
            at = Duration::from_nanos((at.as_nanos() as u64).div_ceil(heap) * heap);
        }
        self.acks.push_back((at, number));
    }
}

#[track_caller]
fn assert_within(found: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&found), "{found} is not within {low} and {high}");
}

#[test]
fn startup_ends_where_no_more_arrives_and_what_waits_is_drained() {
    let mut link = Link::new(10 * PIPE);
    link.until(SECOND, |link| link.phase() != Phase::Startup);
    assert_eq!(link.phase(), Phase::Drain);
    let bbr = link.bbr();
    assert!(bbr.full.is_reached && bbr.full.is_now);
    assert_within(bbr.max_rate.get(), 0.98 * RATE, 1.02 * RATE);
    // A doubling each round trip, and three without.
    assert!(bbr.rounds.count <= 10, "{}", bbr.rounds.count);
    let paced = bbr.pacing_rate;
    assert_within(paced, 0.47 * RATE, 0.51 * RATE);
    link.until(SECOND, |link| link.phase() != Phase::Drain);
    // Where nothing waits any more, it cruises at once.
    assert_eq!(link.phase(), Phase::Cruise);
    assert!(link.in_flight <= 105 * PIPE / 100, "{}", link.in_flight);
    assert_within(link.bbr().pacing_rate, 0.97 * RATE, 1.01 * RATE);
}

#[test]
fn who_has_less_to_send_than_may_be_sent_stays_in_startup() {
    let mut link = Link::new(PIPE);
    link.supply = Some(RATE / 10.0);
    link.goodput(4 * SECOND);
    assert_eq!(link.phases, [Phase::Startup]);
    assert_within(link.bbr().max_rate.get(), RATE / 20.0, RATE * 1.1);
    // Until much of it is lost.
    link.supply = Some(RATE / 2.0);
    link.lost = 200;
    link.until(3 * SECOND, |link| link.phase() != Phase::Startup);
    assert!(link.bbr().full.is_reached && link.bbr().bounds.in_flight_long < u64::MAX);
}

#[test]
fn a_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut link = Link::new(4 * PIPE);
    link.until(SECOND, |link| link.phase() == Phase::Cruise);
    link.phases.clear();
    link.goodput(4 * SECOND);
    let want = [Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down];
    assert_eq!(link.phases.get(..4), Some(&want[..]), "{:?}", link.phases);
    assert_within(link.goodput(4 * SECOND), 0.9 * RATE, RATE);
    // Little waits: a quarter of what fills the way at the most, while more is tried.
    assert!(link.in_flight < 2 * PIPE, "{}", link.in_flight);
}

#[test]
fn the_round_trip_is_probed_with_less_in_flight_and_not_by_who_rested() {
    let mut link = Link::new(4 * PIPE);
    link.until(8 * SECOND, |link| link.phase() == Phase::ProbeTrip);
    assert!(link.now > 5 * SECOND, "{:?}", link.now);
    let began = link.now;
    link.until(SECOND, |link| link.in_flight <= 11 * PIPE / 20);
    link.until(SECOND, |link| link.phase() != Phase::ProbeTrip);
    assert!(link.now - began >= 200 * MS && link.now - began < 400 * MS);
    assert_eq!(link.phase(), Phase::Cruise);
    let least = link.bbr().trip.least.unwrap();
    assert!(least < TRIP + 3 * MS, "{least:?}");
    // What is idle for longer than that does not have to.
    let mut link = Link::new(4 * PIPE);
    link.goodput(3 * SECOND);
    link.supply = Some(0.0);
    link.goodput(4 * SECOND);
    assert_eq!(link.in_flight, 0);
    link.supply = None;
    link.phases.clear();
    link.goodput(2 * SECOND);
    assert!(!link.phases.contains(&Phase::ProbeTrip), "{:?}", link.phases);
}

#[test]
fn ten_times_as_much_and_a_tenth_are_found() {
    let mut link = Link::new(2 * PIPE);
    link.goodput(3 * SECOND);
    (link.rate, link.buffer) = (10.0 * RATE, 20 * PIPE);
    link.goodput(10 * SECOND);
    assert_within(link.goodput(5 * SECOND), 9.0 * RATE, 10.0 * RATE);
    (link.rate, link.buffer) = (RATE, 2 * PIPE);
    link.goodput(15 * SECOND);
    assert_within(link.goodput(5 * SECOND), 0.9 * RATE, RATE);
    assert_within(link.bbr().max_rate.get(), 0.95 * RATE, 1.3 * RATE);
}

#[test]
fn too_many_losses_while_more_is_tried_bound_what_may_be_in_flight() {
    let mut link = Link::new(4 * PIPE);
    link.until(5 * SECOND, |link| link.phase() == Phase::Up);
    link.lost = 100;
    let before = link.bbr().target();
    link.until(SECOND, |link| link.phase() != Phase::Up);
    assert_eq!(link.phase(), Phase::Down);
    let long = link.bbr().bounds.in_flight_long;
    assert!(long >= before * 7 / 10 && long < 3 * before, "{long} of {before}");
    assert!(link.bbr().probe.was_too_high());
    // Next time it stops where it was too much, and as that went well, goes on beyond it.
    link.lost = 0;
    link.until(5 * SECOND, |link| link.phase() == Phase::Up);
    link.phases.clear();
    link.until(5 * SECOND, |link| link.bbr().bounds.in_flight_long > long + 10 * PACKET_BYTES);
    assert!(!link.phases.contains(&Phase::Cruise) || link.phases.len() > 4, "{:?}", link.phases);
}

#[test]
fn few_losses_cost_little() {
    // A round trip in which one in a hundred is lost is slower by as much, until more is tried again.
    for (lost, least) in [(1, 0.9), (10, 0.75)] {
        let mut link = Link::new(2 * PIPE);
        link.lost = lost;
        link.goodput(5 * SECOND);
        let goodput = link.goodput(20 * SECOND);
        assert_within(goodput, least * RATE, RATE);
    }
}

#[test]
fn a_buffer_of_a_tenth_is_enough() {
    let mut link = Link::new(PIPE / 10);
    link.goodput(3 * SECOND);
    assert_within(link.goodput(20 * SECOND), 0.8 * RATE, RATE);
}

#[test]
fn acknowledgements_in_heaps_are_waited_for_with_more_in_flight() {
    let mut link = Link::new(10 * PIPE);
    link.heaps = 60 * MS;
    link.goodput(5 * SECOND);
    assert!(link.bbr().aggregation.extra() > 0);
    assert_within(link.goodput(10 * SECOND), 0.9 * RATE, RATE);
}

#[test]
fn a_way_that_a_packet_more_than_fills_takes_four() {
    let mut link = Link::new(20 * PACKET_BYTES);
    (link.rate, link.trip) = (8_000.0, 20 * MS);
    link.goodput(20 * SECOND);
    assert_within(link.goodput(20 * SECOND), 0.85 * 8_000.0, 8_000.0);
    assert!(link.bbr().window() >= PIPE_BYTES_MIN);
}

#[test]
fn a_mark_of_a_router_ends_startup_and_counts_as_loss() {
    let mut link = Link::new(10 * PIPE);
    link.until(SECOND, |link| link.bbr().window() > PIPE / 2);
    let now = link.now;
    link.congestion.marked(now, now);
    link.until(SECOND, |link| link.phase() == Phase::Drain);
    // A mark in each of some round trips makes it slower, though nothing is lost.
    link.goodput(4 * SECOND);
    link.until(5 * SECOND, |link| link.phase() == Phase::Up);
    link.until(5 * SECOND, |link| link.phase() == Phase::Cruise);
    let before = link.bbr().bounds.rate;
    for _ in 0..5 {
        let now = link.now;
        link.congestion.marked(now, now);
        let rounds = link.bbr().rounds.count;
        link.until(SECOND, |link| link.bbr().rounds.count > rounds);
    }
    let rate = link.bbr().bounds.rate;
    assert!(rate < before && rate > 0.7 * before, "{rate} of {before}");
    assert!(link.bbr().bounds.in_flight_short < u64::MAX);
}

#[test]
fn nothing_but_losses_leaves_two_packets_and_what_arrives_brings_it_back() {
    let mut link = Link::new(4 * PIPE);
    link.goodput(3 * SECOND);
    link.congestion.collapsed();
    assert_eq!(link.congestion.window(), WINDOW_BYTES_MIN);
    link.goodput(2 * SECOND);
    assert_within(link.goodput(2 * SECOND), 0.9 * RATE, RATE);
}

#[test]
fn what_is_remembered_of_packets_goes_with_them() {
    let mut link = Link::new(PIPE);
    link.lost = 50;
    link.goodput(5 * SECOND);
    link.supply = Some(0.0);
    link.supplied = 0.0;
    link.goodput(5 * SECOND);
    assert_eq!(link.in_flight, 0);
    // The last that were lost are found out by a timer, and forgotten with the next that arrives.
    link.supply = Some(RATE / 100.0);
    link.lost = 0;
    link.goodput(SECOND);
    assert!(link.bbr().deliveries.flights() <= 4, "{}", link.bbr().deliveries.flights());
}
