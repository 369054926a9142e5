//! Packets that were sent and not acknowledged: a ring of runs, by packet number.

#[cfg(test)]
mod tests;

use super::frame::Ack;
use std::collections::VecDeque;
use std::time::Duration;

/// Something a packet carried that has to be told again when the packet is lost. Padding, PING and
/// answers to challenges are not told again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Carried {
    /// Bytes of a stream, and whether its end.
    Stream { stream: u64, offset: u64, len: u32, ends: bool },
    /// Bytes of the handshake.
    Crypto { offset: u64, len: u32 },
    /// An acknowledgement of packets up to this number.
    Ack { largest: u64 },
    /// What may be sent to us on all streams.
    MaxData,
    /// What may be sent to us on one.
    MaxStreamData { stream: u64 },
    /// How many streams may be opened.
    MaxStreams { is_both_ways: bool },
    /// A stream ended before its time.
    ResetStream { stream: u64 },
    /// A stream is not wanted.
    StopSending { stream: u64 },
    /// An id of ours.
    NewConnectionId { sequence: u64 },
    /// An id of the client's that is not used any more.
    RetireConnectionId { sequence: u64 },
    /// The handshake is confirmed.
    HandshakeDone,
    /// A token for later connections.
    NewToken,
    /// How the client is to acknowledge.
    AckFrequency { sequence: u64 },
}

/// Packets whose numbers are in a row and that were sent at one time. Where there are several, each carries
/// as many bytes of one stream, behind those of the one before.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the first.
    first: u64,
    sent: Duration,
    /// A bit for each that is not acknowledged, nor lost and told again.
    flying: u64,
    /// How many there are: [`RUN_PACKETS_MAX`] at most.
    packets: u8,
    how: How,
    /// Whether it is one that was not sent: its number was left out.
    is_skipped: bool,
    /// Bytes of each that count as in flight; 0 of one that only acknowledges.
    bytes: u16,
    /// Where in the list what they carry begins, and how much that is: where there are several, what the
    /// first carries.
    carried_at: u64,
    carried: u16,
}

/// Packets of a run: a bit for each.
pub(super) const RUN_PACKETS_MAX: usize = u64::BITS as usize;

impl Run {
    /// The number behind the last.
    fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    /// Those that fly and have numbers from `low` to `high`.
    fn flying_within(&self, low: u64, high: u64) -> u64 {
        let below = |number: u64| match number.saturating_sub(self.first) {
            64.. => u64::MAX,
            count => (1 << count) - 1,
        };
        self.flying & below(high.saturating_add(1)) & !below(low)
    }

    /// Of those in `bits` the ones from `at` on that are in a row.
    fn gone(&self, at: u32, packets: u32) -> Gone {
        let last = self.first + u64::from(at + packets - 1);
        let packets = u64::from(packets);
        let bytes = packets * u64::from(self.bytes);
        Gone { last, packets, bytes, sent: self.sent, how: self.how }
    }
}

/// How a packet is sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct How {
    pub(super) is_eliciting: bool,
    /// Whether it asks how large a packet may be, so that its loss says nothing about congestion.
    pub(super) is_probe: bool,
    /// Whether its datagram is marked.
    pub(super) is_marked: bool,
}

/// Packets in a row that were sent at one time and are acknowledged, or lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Gone {
    /// The highest number of them, and how many there are.
    pub(super) last: u64,
    pub(super) packets: u64,
    /// Bytes of all that counted as in flight.
    pub(super) bytes: u64,
    pub(super) sent: Duration,
    pub(super) how: How,
}

/// A client acknowledged what was never sent.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NeverSent;

/// The packets of one number space.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// Number of the next packet.
    next: u64,
    /// In the order of their numbers, without gaps.
    runs: VecDeque<Run>,
    /// What they carried, one after another.
    carried: VecDeque<Carried>,
    /// Number of the first of these.
    carried_first: u64,
    /// What the packet that is being built carries.
    building: u16,
    pub(super) largest_acked: Option<u64>,
    /// When a packet that asks for an acknowledgement was sent last.
    pub(super) last_eliciting: Duration,
    /// How many such packets are in flight.
    pub(super) eliciting: usize,
}

impl SentPackets {
    /// The number of the next packet.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Numbers that are remembered.
    pub(super) fn span(&self) -> u64 {
        self.next - self.first()
    }

    /// Leaves out the next number.
    pub(super) fn skip(&mut self) {
        assert_eq!(self.building, 0, "no packet is left out that carries something");
        self.add(Run {
            first: self.next,
            sent: Duration::ZERO,
            flying: 0,
            packets: 1,
            how: How::default(),
            is_skipped: true,
            bytes: 0,
            carried_at: self.carried_end(),
            carried: 0,
        });
    }

    /// The next packet carries this.
    pub(super) fn carry(&mut self, carried: Carried) {
        self.carried.push_back(carried);
        self.building += 1;
    }

    /// The next `packets` were sent, [`RUN_PACKETS_MAX`] at most, each of `bytes`. Where there are several,
    /// one frame of a stream was said to be carried, and each further one carries as much behind it.
    pub(super) fn push_run(&mut self, sent: Duration, packets: u8, bytes: u16, how: How) {
        let carried = std::mem::take(&mut self.building);
        assert!(packets == 1 || carried == 1, "a run carries one frame");
        self.add(Run {
            first: self.next,
            sent,
            flying: u64::MAX >> (u64::BITS - u32::from(packets.max(1))),
            packets,
            how,
            is_skipped: false,
            bytes,
            carried_at: self.carried_end() - u64::from(carried),
            carried,
        });
        if how.is_eliciting {
            self.last_eliciting = sent;
            self.eliciting += usize::from(packets);
        }
    }

    fn add(&mut self, run: Run) {
        self.next = run.end();
        self.runs.push_back(run);
    }

    /// The packets of `ack` are done: `each` gets those that were not before, from the highest, as many at
    /// once as are in a row and were sent so.
    ///
    /// # Errors
    /// [`NeverSent`]
    pub(super) fn acknowledge(
        &mut self,
        ack: &Ack<'_>,
        mut each: impl FnMut(&Gone, &mut dyn Iterator<Item = Carried>),
    ) -> Result<(), NeverSent> {
        if ack.largest >= self.next {
            return Err(NeverSent);
        }
        let first = self.first();
        for range in ack.ranges() {
            let (low, high) = (*range.start(), *range.end());
            if high < first {
                break;
            }
            let mut end = self.runs.partition_point(|run| run.first <= high);
            while let Some(at) = end.checked_sub(1)
                && let Some(run) = self.runs.get_mut(at)
                && run.end() > low
            {
                if run.is_skipped {
                    return Err(NeverSent);
                }
                let mut bits = run.flying_within(low, high);
                run.flying &= !bits;
                let run = *run;
                while bits != 0 {
                    let above = bits.leading_zeros();
                    let packets = (bits << above).leading_ones();
                    let at = u64::BITS - above - packets;
                    bits &= !(u64::MAX >> (u64::BITS - packets) << at);
                    self.each_gone(&run, at, packets, &mut each);
                }
                end = at;
            }
        }
        self.largest_acked = self.largest_acked.max(Some(ack.largest));
        self.forget();
        Ok(())
    }

    /// The packets that are lost by now (RFC 9002 §6.1), as `overtaking` higher ones were acknowledged, or any so long
    /// after they were sent: `each` gets them, from the lowest. Returns when the next one is, unless it is acknowledged
    /// before.
    pub(super) fn detect_lost(
        &mut self,
        now: Duration,
        delay: Duration,
        overtaking: u64,
        mut each: impl FnMut(&Gone, &mut dyn Iterator<Item = Carried>),
    ) -> Option<Duration> {
        let largest = self.largest_acked?;
        let overtaken = largest.checked_sub(overtaking);
        let mut next = None;
        let mut at = 0;
        while next.is_none()
            && let Some(run) = self.runs.get_mut(at)
            && run.first <= largest
        {
            let late = run.flying_within(run.first, largest);
            let is_time = run.sent + delay <= now;
            let mut bits = match overtaken {
                _ if is_time => late,
                Some(overtaken) => run.flying_within(run.first, overtaken),
                None => 0,
            };
            if bits != late {
                next = Some(run.sent + delay);
            }
            run.flying &= !bits;
            let run = *run;
            while bits != 0 {
                let at = bits.trailing_zeros();
                let packets = (bits >> at).trailing_ones();
                bits &= !(u64::MAX >> (u64::BITS - packets) << at);
                self.each_gone(&run, at, packets, &mut each);
            }
            at += 1;
        }
        self.forget();
        next
    }

    /// What the oldest packets in flight carried, of at most `count` of them.
    pub(super) fn oldest(&self, count: usize, mut each: impl FnMut(Carried)) {
        let flying = |run: &&Run| run.flying != 0 && run.how.is_eliciting;
        let places = |run: &Run| {
            let mut bits = run.flying;
            std::iter::from_fn(move || {
                let at = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(at)
            })
        };
        let runs = self.runs.iter().filter(flying);
        let packets = runs.flat_map(|run| places(run).map(move |at| (run, at)));
        for (run, at) in packets.take(count) {
            self.carried_by(run, at, 1).for_each(&mut each);
        }
    }

    /// Bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.bytes) * u64::from(run.flying.count_ones())).sum()
    }

    /// The lowest number that is remembered.
    pub(super) fn first(&self) -> u64 {
        self.runs.front().map_or(self.next, |run| run.first)
    }

    /// Gives back what there is no use for while nothing is in flight.
    pub(super) fn rest(&mut self) {
        self.runs.shrink_to_fit();
        self.carried.shrink_to_fit();
    }

    fn each_gone(
        &mut self,
        run: &Run,
        at: u32,
        packets: u32,
        each: &mut impl FnMut(&Gone, &mut dyn Iterator<Item = Carried>),
    ) {
        let gone = run.gone(at, packets);
        if run.how.is_eliciting {
            self.eliciting -= gone.packets as usize;
        }
        each(&gone, &mut self.carried_by(run, at, packets));
    }

    fn carried_end(&self) -> u64 {
        self.carried_first + self.carried.len() as u64
    }

    /// What so many packets of a run carry from the one at `at` on.
    fn carried_by(&self, run: &Run, at: u32, packets: u32) -> impl Iterator<Item = Carried> {
        let start = (run.carried_at - self.carried_first) as usize;
        let carried = self.carried.range(start..start + usize::from(run.carried));
        let is_one = run.packets == 1;
        carried.map(move |carried| match *carried {
            Carried::Stream { stream, offset, len, .. } if !is_one => Carried::Stream {
                stream,
                offset: offset + u64::from(at) * u64::from(len),
                len: packets * len,
                ends: false,
            },
            carried => carried,
        })
    }

    /// Forgets the packets at the front that are done. A number that was left out stays until a
    /// higher one is acknowledged: who acknowledges it too is seen.
    fn forget(&mut self) {
        let is_known = |number| self.largest_acked.is_some_and(|largest| largest > number);
        while let Some(run) = self.runs.front()
            && run.flying == 0
            && (!run.is_skipped || is_known(run.first))
        {
            self.carried.drain(..usize::from(run.carried));
            self.carried_first += u64::from(run.carried);
            self.runs.pop_front();
        }
        if self.runs.is_empty() {
            // A client that was sent much may ask for nothing more.
            self.runs.shrink_to(RESTING_PACKETS);
            self.carried.shrink_to(RESTING_PACKETS);
        }
    }
}

/// Packets that there is room for while none is in flight.
const RESTING_PACKETS: usize = 16;
