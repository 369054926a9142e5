//! How often the other side acknowledges, and how often it wants it done
//! (draft-ietf-quic-ack-frequency).

use super::limits::{ASKED_DELAY_MAX, PACKETS_PER_ACK_MAX};
use super::rtt::GRANULARITY;
use std::time::Duration;

/// What we hold an acknowledgement back for at least, if that is asked for: the finest that timers are.
pub(super) const DELAY_MIN: Duration = GRANULARITY;

/// Acknowledgements in one round trip: with fewer of them the window would grow by leaps, and losses would
/// be seen late.
const ACKS_PER_ROUND: u64 = 8;
/// Every so many packets an acknowledgement goes out at once, where nobody has asked otherwise (RFC 9000
/// §13.2.2).
pub(super) const PACKETS_PER_ACK: u64 = 2;
/// So many packets above a missing one it is lost (RFC 9002 §6.1.1), which is to be known at once.
const REORDERING: u64 = 3;

/// How packets are acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frequency {
    /// Packets that ask for it and may come before one goes out: it goes out at the next.
    pub threshold: u64,
    /// How long it may be held back.
    pub delay_max: Duration,
    /// So far above a missing packet the next one has it go out at once; 0 for never.
    pub reordering: u64,
}

/// A client asked for what it may not.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct TooSoon;

/// What a client has asked for, in place of what is done by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Obeyed {
    /// The number of the next frame that counts: those of before may overtake one another.
    next: u64,
    pub(super) frequency: Option<Frequency>,
}

impl Obeyed {
    /// An ACK_FREQUENCY frame came.
    pub(super) fn ask(&mut self, sequence: u64, asked: Frequency) -> Result<(), TooSoon> {
        if asked.delay_max < DELAY_MIN {
            return Err(TooSoon);
        }
        if sequence >= self.next {
            self.next = sequence + 1;
            let delay_max = asked.delay_max.min(ASKED_DELAY_MAX);
            self.frequency = Some(Frequency { delay_max, ..asked });
        }
        Ok(())
    }
}

/// What we ask a client for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// What it says that it can wait for at least; `None` where it does not understand.
    delay_min: Option<Duration>,
    /// What it said of itself at first.
    delay_usual: Duration,
    /// The number of the next frame.
    sequence: u64,
    wanted: Frequency,
    is_due: bool,
    /// Whether it is not known what became of the last one.
    is_under_way: bool,
}

impl Asking {
    pub(super) const fn new() -> Self {
        Self {
            delay_min: None,
            delay_usual: Duration::ZERO,
            sequence: 0,
            wanted: Frequency {
                threshold: PACKETS_PER_ACK - 1,
                delay_max: Duration::ZERO,
                reordering: REORDERING,
            },
            is_due: false,
            is_under_way: false,
        }
    }

    /// The client said how long it waits, and what it can be asked for at least.
    pub(super) fn set_peer(&mut self, delay_usual: Duration, delay_min: Option<Duration>) {
        (self.delay_min, self.delay_usual) = (delay_min, delay_usual);
        self.wanted.delay_max = delay_usual;
    }

    /// Whether the client understands.
    pub(super) fn is_understood(&self) -> bool {
        self.delay_min.is_some()
    }

    /// So many packets are on the way at most, each for so long. It is asked again only where that makes a
    /// difference, once it is known what became of what was asked before.
    pub(super) fn consider(&mut self, packets_in_window: u64, rtt: Duration) {
        let Some(delay_min) = self.delay_min.filter(|_| !self.is_under_way) else { return };
        let packets =
            (packets_in_window / ACKS_PER_ROUND).clamp(PACKETS_PER_ACK, PACKETS_PER_ACK_MAX);
        // A client that gets little is left alone.
        if self.sequence == 0 && packets < 2 * PACKETS_PER_ACK {
            return;
        }
        let delay_max = (rtt / 4).min(self.delay_usual).max(delay_min).max(DELAY_MIN);
        let before = self.wanted.threshold + 1;
        let has_changed = packets >= 2 * before
            || 2 * packets <= before
            || delay_max >= 2 * self.wanted.delay_max
            || 2 * delay_max <= self.wanted.delay_max;
        if self.sequence == 0 || has_changed {
            self.wanted = Frequency { threshold: packets - 1, delay_max, reordering: REORDERING };
            self.is_due = true;
        }
    }

    /// Whether something is to be said.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// What is to be said, with its number.
    pub(super) fn take(&mut self) -> Option<(u64, Frequency)> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.is_under_way = true;
        Some((sequence, self.wanted))
    }

    /// The last one arrived: how long the client waits from now on. `None` of one before it.
    pub(super) fn arrived(&mut self, sequence: u64) -> Option<Duration> {
        let is_last = sequence + 1 == self.sequence;
        self.is_under_way &= !is_last;
        is_last.then_some(self.wanted.delay_max)
    }

    /// It was lost, and is said again with another number.
    pub(super) fn lost(&mut self, sequence: u64) {
        self.is_due |= self.is_under_way && sequence + 1 == self.sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn asking() -> Asking {
        let mut asking = Asking::new();
        asking.set_peer(25 * MS, Some(MS));
        asking
    }

    #[test]
    fn a_client_is_asked_when_it_gets_much_and_again_when_that_changes() {
        let mut asking = asking();
        asking.consider(10, 40 * MS);
        assert_eq!(asking.take(), None);
        asking.consider(80, 40 * MS);
        let first = Frequency { threshold: 9, delay_max: 10 * MS, reordering: 3 };
        assert_eq!(asking.take(), Some((0, first)));
        // Nothing more until it is known what became of it.
        asking.consider(1000, 40 * MS);
        assert_eq!(asking.take(), None);
        assert_eq!(asking.arrived(0), Some(10 * MS));
        asking.consider(100, 50 * MS);
        assert_eq!(asking.take(), None);
        asking.consider(10_000, 400 * MS);
        let second = Frequency { threshold: PACKETS_PER_ACK_MAX - 1, delay_max: 25 * MS, ..first };
        assert_eq!(asking.take(), Some((1, second)));
        assert_eq!(asking.arrived(0), None);
        asking.lost(1);
        assert_eq!(asking.take(), Some((2, second)));
        asking.lost(1);
        assert_eq!((asking.take(), asking.arrived(2)), (None, Some(25 * MS)));
        asking.consider(10, 400 * MS);
        assert_eq!(asking.take(), Some((3, Frequency { threshold: 1, ..second })));
    }

    #[test]
    fn a_client_is_asked_for_what_it_can_do_and_not_where_it_does_not_understand() {
        let mut asking = Asking::new();
        asking.set_peer(25 * MS, None);
        asking.consider(1000, 40 * MS);
        assert_eq!(asking.take(), None);
        asking.set_peer(25 * MS, Some(20 * MS));
        asking.consider(1000, MS);
        assert_eq!(asking.take().map(|(_, wanted)| wanted.delay_max), Some(20 * MS));
    }

    #[test]
    fn the_newest_wish_counts_within_its_bounds() {
        let asked = Frequency { threshold: 7, delay_max: 5 * MS, reordering: 0 };
        let mut obeyed = Obeyed::default();
        assert_eq!(obeyed.ask(3, asked), Ok(()));
        assert_eq!(obeyed.ask(2, Frequency { threshold: 1, ..asked }), Ok(()));
        assert_eq!(obeyed.frequency, Some(asked));
        let long = Frequency { delay_max: Duration::from_secs(1 << 30), ..asked };
        assert_eq!(obeyed.ask(4, long), Ok(()));
        assert_eq!(obeyed.frequency.map(|asked| asked.delay_max), Some(ASKED_DELAY_MAX));
        let short = Frequency { delay_max: MS - Duration::from_micros(1), ..asked };
        assert_eq!(obeyed.ask(1, short), Err(TooSoon));
    }
}
