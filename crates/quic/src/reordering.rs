//! How much later than others a packet may come before it is taken for lost, and those that were and come after all
//! (RFC 9002 §6.1, RFC 8985 §6.2).
//!
//! A way that reorders shows it by acknowledgements of packets that were taken for lost. From then on it is not counted
//! how many others overtake one, and waited longer, until losses that were none have not been seen for a while. Where
//! nothing is lost nothing is remembered.

use super::frame::Ack;
use super::limits::LOST_RUNS_MAX;
use super::rtt::{GRANULARITY, Rtt};
use super::sent::Gone;
use std::collections::VecDeque;
use std::time::Duration;

/// A packet that so many higher ones were acknowledged before is lost, on a way of which nothing else is known
/// (RFC 9002 §6.1.1).
const PACKETS: u64 = 3;
/// So many eighths of a round trip after it was sent it is too (RFC 9002 §6.1.2).
const EIGHTHS: u32 = 9;
/// The least and the most of these on a way that reorders (RFC 8985 §6.2 step 4).
const EIGHTHS_LATE: u32 = 10;
const EIGHTHS_MAX: u32 = 16;
/// After so many times at which something was lost, and none at which it came after all, the way is as any other
/// (RFC 8985 §6.2 step 4).
const LOSSES_UNTIL_FORGOTTEN: u8 = 16;

/// What is waited for before a packet is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tolerance {
    /// Higher ones that are acknowledged before it; the greatest number where they do not count.
    pub(super) packets: u64,
    /// Eighths of a round trip since it was sent.
    eighths: u32,
}

impl Tolerance {
    pub(super) const FIRST: Self = Self { packets: PACKETS, eighths: EIGHTHS };

    /// How long after it was sent a packet is lost, once a later one is acknowledged.
    pub(super) fn delay(self, rtt: &Rtt) -> Duration {
        (rtt.longer() * self.eighths / 8).max(GRANULARITY)
    }
}

/// What is known of the order in which packets come.
#[derive(Debug, Default)]
pub(super) struct Reordering {
    known: Option<Box<Known>>,
}

#[derive(Debug)]
struct Known {
    tolerance: Tolerance,
    /// Times at which something is lost until that is forgotten, and when the last began.
    losses_left: u8,
    loss_at: Duration,
    /// What was taken for lost, in the order of numbers.
    runs: VecDeque<Run>,
}

/// Packets that were taken for lost and sent at one time.
#[derive(Debug)]
struct Run {
    /// The lowest number, and a bit for each from there on that has not come.
    first: u64,
    lost: u64,
    sent: Duration,
    /// When nobody waits for them any more.
    until: Duration,
}

impl Run {
    /// Those that have not come and have numbers from `low` to `high`.
    fn within(&self, low: u64, high: u64) -> u64 {
        let below = |number: u64| match number.saturating_sub(self.first) {
            count @ 0..64 => (1 << count) - 1,
            _ => u64::MAX,
        };
        self.lost & below(high.saturating_add(1)) & !below(low)
    }
}

impl Reordering {
    /// What is waited for now.
    pub(super) fn tolerance(&self) -> Tolerance {
        self.known.as_ref().map_or(Tolerance::FIRST, |known| known.tolerance)
    }

    /// Packets are taken for lost, which are told in the order of their numbers. They may come until `until`.
    pub(super) fn lost(&mut self, gone: &Gone, now: Duration, until: Duration) {
        let known = self.known.get_or_insert_with(|| {
            Box::new(Known {
                tolerance: Tolerance::FIRST,
                losses_left: LOSSES_UNTIL_FORGOTTEN,
                loss_at: Duration::ZERO,
                runs: VecDeque::new(),
            })
        });
        known.note_loss(gone.sent, now);
        known.forget(now);
        let first = gone.last + 1 - gone.packets;
        let lost = u64::MAX >> u64::from(u64::BITS).saturating_sub(gone.packets);
        if let Some(run) = known.runs.back_mut()
            && run.sent == gone.sent
            && let Some(at) = first.checked_sub(run.first)
            && at + gone.packets <= u64::from(u64::BITS)
        {
            run.lost |= lost << at;
            return;
        }
        if known.runs.len() == LOST_RUNS_MAX {
            known.runs.pop_front();
        }
        known.runs.push_back(Run { first, lost, sent: gone.sent, until });
    }

    /// An acknowledgement came. `each` gets what of it was taken for lost: when it was sent, and how many packets.
    /// Whether there was any.
    pub(super) fn acknowledged(
        &mut self,
        ack: &Ack<'_>,
        now: Duration,
        rtt: &Rtt,
        mut each: impl FnMut(Duration, u64),
    ) -> bool {
        let Some(known) = &mut self.known else { return false };
        known.forget(now);
        let mut has_come = false;
        let lowest = known.runs.front().map_or(u64::MAX, |run| run.first);
        for range in ack.ranges().take_while(|range| *range.end() >= lowest) {
            let (low, high) = (*range.start(), *range.end());
            let end = known.runs.partition_point(|run| run.first <= high);
            let runs = known.runs.range_mut(..end).rev();
            for run in runs.take_while(|run| run.first + u64::from(u64::BITS) > low) {
                let came = run.within(low, high);
                if came == 0 {
                    continue;
                }
                run.lost &= !came;
                has_come = true;
                known.losses_left = LOSSES_UNTIL_FORGOTTEN;
                known.tolerance.raise(now.saturating_sub(run.sent), rtt);
                each(run.sent, u64::from(came.count_ones()));
            }
        }
        if has_come {
            known.runs.retain(|run| run.lost != 0);
        }
        if known.runs.is_empty() && known.tolerance == Tolerance::FIRST {
            self.known = None;
        }
        has_come
    }

    /// Nothing is in flight: what was taken for lost does not come any more.
    pub(super) fn rest(&mut self) {
        match &mut self.known {
            Some(known) if known.tolerance != Tolerance::FIRST => known.runs = VecDeque::new(),
            known => *known = None,
        }
    }
}

impl Known {
    /// Something is lost that was sent then. What was on its way together is lost at one time.
    fn note_loss(&mut self, sent: Duration, now: Duration) {
        if sent < self.loss_at {
            return;
        }
        self.loss_at = now;
        self.losses_left = self.losses_left.saturating_sub(1);
        if self.losses_left == 0 {
            self.losses_left = LOSSES_UNTIL_FORGOTTEN;
            self.tolerance = Tolerance::FIRST;
        }
    }

    /// Forgets what does not come any more.
    fn forget(&mut self, now: Duration) {
        while self.runs.front().is_some_and(|run| run.until <= now) {
            self.runs.pop_front();
        }
    }
}

impl Tolerance {
    /// A packet that was taken for lost came, so long after it was sent. The next one may take a little longer still.
    fn raise(&mut self, after: Duration, rtt: &Rtt) {
        let trip = rtt.longer().max(GRANULARITY);
        let eighths = 1 + (8 * after.as_nanos()).div_ceil(trip.as_nanos());
        let eighths = u32::try_from(eighths).unwrap_or(u32::MAX).clamp(EIGHTHS_LATE, EIGHTHS_MAX);
        self.packets = u64::MAX;
        self.eighths = self.eighths.max(eighths);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ecn::Counts;
    use super::super::frame::{Frame, write_ack};
    use super::super::ranges::Ranges;
    use super::super::sent::How;
    use super::super::varint::Reader;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::ops::Range;
    use std::slice::from_ref;

    const MS: Duration = Duration::from_millis(1);
    const FOREVER: Duration = Duration::from_secs(1 << 20);

    fn rtt(trip: Duration) -> Rtt {
        let mut rtt = Rtt::new();
        rtt.sample(trip, Duration::ZERO);
        rtt
    }

    fn gone(numbers: Range<u64>, sent: Duration) -> Gone {
        let packets = numbers.end - numbers.start;
        Gone { last: numbers.end - 1, packets, bytes: 1000 * packets, sent, how: How::default() }
    }

    /// What was sent when of what came after all.
    fn acknowledge(
        known: &mut Reordering,
        numbers: &[Range<u64>],
        now: Duration,
    ) -> Vec<(Duration, u64)> {
        let (mut ranges, mut out, mut came) = (Ranges::new(), Vec::new(), Vec::new());
        for range in numbers {
            ranges.insert(range.clone());
        }
        write_ack(&ranges, &Counts::default(), 0, 100_000, &mut out);
        let Ok(Frame::Ack(ack)) = Frame::read(&mut Reader::new(&out)) else { panic!("an ACK") };
        let is_any = known.acknowledged(&ack, now, &rtt(40 * MS), |sent, packets| {
            came.push((sent, packets));
        });
        assert_eq!(is_any, !came.is_empty());
        came
    }

    #[test]
    fn what_comes_later_is_waited_for_from_then_on() {
        let mut known = Reordering::default();
        assert_eq!(known.tolerance().delay(&rtt(40 * MS)), 45 * MS);
        known.lost(&gone(10..12, MS), 42 * MS, 200 * MS);
        known.lost(&gone(13..14, 2 * MS), 42 * MS, 200 * MS);
        let came = acknowledge(&mut known, &[0..11, 13..25], 45 * MS);
        assert_eq!(came, [(2 * MS, 1), (MS, 1)]);
        // One took nine eighths of a round trip: the next may take ten, whatever overtakes it.
        assert_eq!(known.tolerance(), Tolerance { packets: u64::MAX, eighths: 10 });
        assert_eq!(acknowledge(&mut known, from_ref(&(0..11)), 50 * MS), []);
        assert_eq!(acknowledge(&mut known, from_ref(&(11..12)), 55 * MS), [(MS, 1)]);
        assert_eq!(known.tolerance().delay(&rtt(40 * MS)), 60 * MS);
        // What never ends is not waited for.
        known.lost(&gone(30..31, 60 * MS), 120 * MS, 5000 * MS);
        assert_eq!(acknowledge(&mut known, from_ref(&(30..31)), 1060 * MS), [(60 * MS, 1)]);
        assert_eq!(known.tolerance().delay(&rtt(40 * MS)), 80 * MS);
    }

    #[test]
    fn losses_that_are_some_make_it_as_it_was() {
        let mut known = Reordering::default();
        known.lost(&gone(10..11, MS), 40 * MS, 200 * MS);
        acknowledge(&mut known, from_ref(&(10..11)), 50 * MS);
        let raised = known.tolerance();
        assert_eq!(raised, Tolerance { packets: u64::MAX, eighths: 11 });
        for loss in 1..=u64::from(LOSSES_UNTIL_FORGOTTEN) {
            assert_eq!(known.tolerance(), raised);
            // What was on its way together counts once.
            let sent = 100 * MS * loss as u32;
            for number in 0..5 {
                let number = 100 * loss + number;
                known.lost(&gone(number..number + 1, sent), sent + 50 * MS, sent + 90 * MS);
            }
        }
        assert_eq!(known.tolerance(), Tolerance::FIRST);
        assert!(known.known.is_some());
        acknowledge(&mut known, from_ref(&(2000..2001)), FOREVER);
        assert!(known.known.is_none(), "nothing is left to be known");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let mut known = Reordering::default();
        for number in 0..10_000 {
            let sent = MS * number as u32;
            known.lost(&gone(2 * number..2 * number + 1, sent), sent, FOREVER);
        }
        let came = acknowledge(&mut known, from_ref(&(0..20_000)), 10_000 * MS);
        assert_eq!(came.len(), LOST_RUNS_MAX);
        known.lost(&gone(30_000..30_001, MS), MS, 2 * MS);
        assert_eq!(acknowledge(&mut known, from_ref(&(30_000..30_001)), 2 * MS), []);
        // One that rests remembers no more than how much the way reorders.
        known.rest();
        assert!(known.tolerance() != Tolerance::FIRST);
        known = Reordering::default();
        known.lost(&gone(0..64, MS), MS, FOREVER);
        known.rest();
        assert!(known.known.is_none());
    }

    proptest! {
        /// Against a set of numbers: of fewer losses than are forgotten.
        #[test]
        fn what_comes_is_what_was_lost(
            steps in proptest::collection::vec((any::<bool>(), 1..100_u64, 1..=64_u64), 1..LOST_RUNS_MAX),
        ) {
            let (mut known, mut lost) = (Reordering::default(), BTreeSet::new());
            let (mut next, mut sent) = (0, Duration::ZERO);
            for (is_loss, gap, packets) in steps {
                if is_loss {
                    // Some of one batch, or of another.
                    if gap > 20 {
                        sent += MS;
                    }
                    let first = next + gap % 20;
                    next = first + packets;
                    known.lost(&gone(first..next, sent), sent, FOREVER);
                    lost.extend(first..next);
                } else {
                    let low = next.saturating_sub(3 * gap);
                    let ranges = [low / 2..low / 2 + 1, low..low + packets];
                    let came = acknowledge(&mut known, &ranges, sent);
                    let before = lost.len();
                    lost.retain(|number| !ranges.iter().any(|range| range.contains(number)));
                    let count: u64 = came.iter().map(|(_, packets)| packets).sum();
                    prop_assert_eq!(count as usize, before - lost.len());
                }
            }
        }
    }
}
