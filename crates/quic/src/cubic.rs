//! How much may be in flight: CUBIC (RFC 9438) with HyStart++ (RFC 9406).

use super::congestion::{WINDOW_BYTES_FIRST, WINDOW_BYTES_MIN};
use super::limits::{DATAGRAM_BYTES_MAX, WINDOW_BYTES_MAX};
use std::time::Duration;

/// Bytes of a full packet, which windows grow by.
const PACKET_BYTES: u64 = DATAGRAM_BYTES_MAX as u64;
/// RFC 9438 §4.6 and §5.1
const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// RFC 9406 §4.3
const RTT_THRESHOLD_MIN: Duration = Duration::from_millis(4);
const RTT_THRESHOLD_MAX: Duration = Duration::from_millis(16);
const RTT_SAMPLES: u32 = 8;
const CONSERVATIVE_DIVISOR: u64 = 4;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The congestion window of a path.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    window: u64,
    threshold: u64,
    /// Losses of packets sent before this belong to one and the same event.
    recovery: Option<Duration>,
    /// The window that is aimed at, which was before the last event, the one that was, and when growth began
    /// again.
    window_max: f64,
    window_prior: f64,
    epoch: Option<Epoch>,
    slow_start: SlowStart,
    /// What was before the last event, as long as all of its losses may turn out to be none.
    before: Option<Box<Before>>,
}

/// What a loss changes, to be put back where there was none (RFC 9438 §4.9.2).
#[derive(Clone, Debug)]
struct Before {
    window: u64,
    threshold: u64,
    recovery: Option<Duration>,
    window_max: f64,
    window_prior: f64,
    epoch: Option<Epoch>,
    conservative: Option<(u32, Duration)>,
    /// Packets of the event that have not come after all.
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Duration,
    /// Seconds until the window is what it was.
    k: f64,
    /// What Reno would have by now (RFC 9438 §4.3).
    reno: f64,
}

/// HyStart++: slow start that ends before packets are lost.
#[derive(Clone, Debug, Default)]
struct SlowStart {
    /// The first packet number that is not of this round.
    round_end: u64,
    least: Option<Duration>,
    last_least: Option<Duration>,
    samples: u32,
    /// While it is found out whether the way is really longer: rounds so far, and the least when it
    /// began.
    conservative: Option<(u32, Duration)>,
}

impl Cubic {
    pub(super) fn new() -> Self {
        Self {
            window: WINDOW_BYTES_FIRST,
            threshold: u64::MAX,
            recovery: None,
            window_max: 0.0,
            window_prior: 0.0,
            epoch: None,
            slow_start: SlowStart::default(),
            before: None,
        }
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Whether no end is known yet.
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// An acknowledgement with a new measurement came, of `number`; the next one to be sent is
    /// `next`.
    pub(super) fn measured(&mut self, latest: Duration, number: u64, next: u64) {
        if !self.is_in_slow_start() {
            return;
        }
        let start = &mut self.slow_start;
        start.least = Some(start.least.map_or(latest, |least| least.min(latest)));
        start.samples += 1;
        let (Some(least), true) = (start.least, start.samples >= RTT_SAMPLES) else {
            if number >= start.round_end {
                self.next_round(next);
            }
            return;
        };
        match start.conservative {
            None => {
                if let Some(last) = start.last_least {
                    let threshold = (last / 8).clamp(RTT_THRESHOLD_MIN, RTT_THRESHOLD_MAX);
                    if least >= last + threshold {
                        start.conservative = Some((0, least));
                    }
                }
            }
            // It was not: others had been in the way.
            Some((_, baseline)) if least < baseline => start.conservative = None,
            Some(_) => {}
        }
        if number >= self.slow_start.round_end {
            self.next_round(next);
        }
    }

    fn next_round(&mut self, next: u64) {
        let start = &mut self.slow_start;
        start.round_end = next;
        start.last_least = start.least.take();
        start.samples = 0;
        if let Some((rounds, _)) = &mut start.conservative {
            *rounds += 1;
            if *rounds >= CONSERVATIVE_ROUNDS {
                self.threshold = self.window;
                start.conservative = None;
            }
        }
    }

    /// `bytes`, sent at `sent`, were acknowledged. `is_limited` tells whether the window was what
    /// kept more from being sent.
    pub(super) fn acknowledged(
        &mut self,
        now: Duration,
        sent: Duration,
        bytes: u64,
        rtt: Duration,
        is_limited: bool,
    ) {
        if !is_limited || self.is_known(sent) {
            return;
        }
        if self.is_in_slow_start() {
            let divisor =
                if self.slow_start.conservative.is_some() { CONSERVATIVE_DIVISOR } else { 1 };
            self.window = (self.window + bytes / divisor).min(WINDOW_BYTES_MAX);
            return;
        }
        let window = self.window as f64;
        let packet = PACKET_BYTES as f64;
        let window_max = self.window_max.max(window.min(self.window_max + packet));
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            k: ((window_max - window).max(0.0) / packet / C).cbrt(),
            reno: window,
        });
        if self.window_max < window {
            self.window_max = self.window_max.max(1.0);
        }
        let t = now.saturating_sub(epoch.began).as_secs_f64() + rtt.as_secs_f64();
        let target = C * (t - epoch.k).powi(3) * packet + window_max;
        // What a smaller decrease gave is made up for until the window is what it was; Reno goes on by a
        // packet each round trip.
        let alpha = match epoch.reno < self.window_prior {
            true => 3.0 * (1.0 - BETA) / (1.0 + BETA),
            false => 1.0,
        };
        epoch.reno += alpha * packet * bytes as f64 / window;
        let target = target.max(epoch.reno).clamp(window, 1.5 * window);
        let growth = (target - window) * bytes as f64 / window;
        self.window = ((window + growth) as u64).min(WINDOW_BYTES_MAX);
    }

    /// So many packets sent at `sent` were lost. Their loss counts once for all that were in flight.
    pub(super) fn lost(&mut self, now: Duration, sent: Duration, packets: u64) {
        if !self.is_known(sent) {
            self.before = Some(Box::new(Before {
                window: self.window,
                threshold: self.threshold,
                recovery: self.recovery,
                window_max: self.window_max,
                window_prior: self.window_prior,
                epoch: self.epoch,
                conservative: self.slow_start.conservative,
                lost: 0,
            }));
            self.reduce(now);
        }
        if let Some(before) = &mut self.before
            && before.recovery.is_none_or(|recovery| sent > recovery)
        {
            before.lost += packets;
        }
    }

    /// So many packets sent at `sent` that were taken for lost came after all. Where that is true of all that was
    /// lost, nothing was: the window is as it was before.
    pub(super) fn came(&mut self, sent: Duration, packets: u64) {
        let is_known = self.is_known(sent);
        let Some(before) = &mut self.before else { return };
        if !is_known || before.recovery.is_some_and(|recovery| sent <= recovery) {
            return;
        }
        before.lost = before.lost.saturating_sub(packets);
        if before.lost > 0 {
            return;
        }
        let Some(before) = self.before.take().filter(|before| before.window >= self.window) else {
            return;
        };
        self.window = before.window;
        self.threshold = before.threshold;
        self.recovery = before.recovery;
        (self.window_max, self.window_prior) = (before.window_max, before.window_prior);
        self.epoch = before.epoch;
        self.slow_start.conservative = before.conservative;
    }

    /// A router says that its queue grows, of packets up to those sent at `sent`: as a loss that is one.
    pub(super) fn marked(&mut self, now: Duration, sent: Duration) {
        if !self.is_known(sent) {
            self.reduce(now);
        }
        self.before = None;
    }

    /// Nothing is in flight, so that nothing more comes of what was taken for lost.
    pub(super) fn rest(&mut self) {
        self.before = None;
    }

    /// Whether what was sent then belongs to an event that is known.
    fn is_known(&self, sent: Duration) -> bool {
        self.recovery.is_some_and(|recovery| sent <= recovery)
    }

    fn reduce(&mut self, now: Duration) {
        self.recovery = Some(now);
        let window = self.window as f64;
        self.window_prior = window;
        // Who has less than last time leaves room for others (RFC 9438 §4.7).
        self.window_max =
            if window < self.window_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.window = ((window * BETA) as u64).max(WINDOW_BYTES_MIN);
        self.threshold = self.window;
        self.epoch = None;
        self.slow_start.conservative = None;
    }

    /// All that was sent for a long time was lost (RFC 9002 §7.6).
    pub(super) fn collapsed(&mut self) {
        self.window = WINDOW_BYTES_MIN;
        self.recovery = None;
        self.epoch = None;
        self.before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    /// Whole packets of it.
    fn packets(cubic: &Cubic) -> u64 {
        cubic.window() / PACKET_BYTES
    }

    /// A round trip in which the whole window is acknowledged.
    fn round(cubic: &mut Cubic, now: &mut Duration) {
        *now += RTT;
        let mut left = cubic.window();
        while left > 0 {
            let bytes = left.min(PACKET_BYTES);
            cubic.acknowledged(*now, *now - RTT / 2, bytes, RTT, true);
            left -= bytes;
        }
    }

    #[test]
    fn slow_start_doubles_and_a_loss_takes_three_tenths() {
        let (mut cubic, mut now) = (Cubic::new(), RTT);
        for rounds in 1..=5 {
            round(&mut cubic, &mut now);
            assert_eq!(cubic.window(), WINDOW_BYTES_FIRST << rounds);
        }
        let before = cubic.window();
        cubic.lost(now, now - RTT, 1);
        cubic.lost(now, now - RTT / 2, 1);
        assert_eq!(cubic.window(), before * 7 / 10);
        assert!(!cubic.is_in_slow_start());
    }

    #[test]
    fn the_window_comes_back_to_where_it_was_and_then_goes_on() {
        let (mut cubic, mut now) = (Cubic::new(), RTT);
        (0..6).for_each(|_| round(&mut cubic, &mut now));
        let before = cubic.window();
        cubic.lost(now, now - RTT, 1);
        let k = (before as f64 * 0.3 / PACKET_BYTES as f64 / 0.4).cbrt();
        let rounds = (k / RTT.as_secs_f64()) as usize;
        (0..rounds).for_each(|_| round(&mut cubic, &mut now));
        let share = cubic.window() as f64 / before as f64;
        assert!((0.95..1.1).contains(&share), "{share}");
        (0..2 * rounds).for_each(|_| round(&mut cubic, &mut now));
        assert!(cubic.window() > before * 11 / 10);
        (0..10_000).for_each(|_| round(&mut cubic, &mut now));
        assert_eq!(cubic.window(), WINDOW_BYTES_MAX);
    }

    #[test]
    fn it_grows_no_slower_than_reno() {
        let (mut cubic, mut now) = (Cubic::new(), RTT);
        cubic.lost(now, now, 1);
        let before = cubic.window();
        // What was lost comes back by half a packet each round trip, and then it is a whole one, long before
        // the curve of so small a window is as high.
        (0..6).for_each(|_| round(&mut cubic, &mut now));
        assert!(
            (before + 5 * PACKET_BYTES / 2..before + 4 * PACKET_BYTES).contains(&cubic.window())
        );
        let known = packets(&cubic);
        (0..4).for_each(|_| round(&mut cubic, &mut now));
        assert!((known + 3..=known + 5).contains(&packets(&cubic)), "{known}, {}", packets(&cubic));
    }

    #[test]
    fn nothing_grows_while_something_else_is_in_the_way() {
        let mut cubic = Cubic::new();
        cubic.acknowledged(RTT, Duration::ZERO, 100_000, RTT, false);
        assert_eq!(cubic.window(), WINDOW_BYTES_FIRST);
        for at in 1..100 {
            cubic.lost(RTT * at, RTT * at, 1);
        }
        assert_eq!(cubic.window(), WINDOW_BYTES_MIN);
    }

    #[test]
    fn what_comes_after_all_puts_the_window_back() {
        let (mut cubic, mut now) = (Cubic::new(), RTT);
        (0..3).for_each(|_| round(&mut cubic, &mut now));
        let first = cubic.window();
        // In slow start, which goes on then.
        cubic.lost(now, now - RTT, 2);
        cubic.lost(now, now - RTT / 2, 1);
        cubic.came(now - RTT, 2);
        assert_eq!(cubic.window(), first * 7 / 10);
        cubic.came(now - RTT / 2, 1);
        assert!(cubic.window() == first && cubic.is_in_slow_start());
        round(&mut cubic, &mut now);
        assert_eq!(cubic.window(), 2 * first);
        // Where anything of an event is lost indeed, or marked, it counts; and what comes of another changes nothing.
        let mut marked = cubic.clone();
        marked.lost(now, now - RTT, 1);
        marked.marked(now, now - RTT / 2);
        marked.came(now - RTT, 1);
        cubic.lost(now, now - RTT, 2);
        cubic.came(now - RTT, 1);
        let reduced = 2 * first * 7 / 10;
        assert_eq!((cubic.window(), marked.window()), (reduced, reduced));
        let later = now + RTT;
        cubic.lost(later, later, 1);
        cubic.came(now - RTT, 1);
        assert!(cubic.window() < reduced);
        cubic.came(later, 1);
        assert!(cubic.window() == reduced && !cubic.is_in_slow_start());
        cubic.came(later, 1);
        assert_eq!(cubic.window(), reduced);
    }

    #[test]
    fn slow_start_ends_where_the_way_gets_longer() {
        let mut cubic = Cubic::new();
        let mut number = 0;
        for round in 0..12_u32 {
            // From the fourth round on packets wait in a queue.
            let rtt = RTT + Duration::from_millis(8) * round.saturating_sub(3);
            for _ in 0..10 {
                cubic.measured(rtt, number, number + 10);
                number += 1;
            }
        }
        assert!(!cubic.is_in_slow_start());
        let mut cubic = Cubic::new();
        for number in 0..200 {
            cubic.measured(RTT, number, number + 10);
        }
        assert!(cubic.is_in_slow_start());
    }
}
