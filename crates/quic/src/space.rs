//! The three spaces of packet numbers (RFC 9000 §12.3) and what belongs to each.

use super::ack_frequency::{Frequency, Obeyed, PACKETS_PER_ACK};
use super::ecn::Counts;
use super::limits::{CRYPTO_BYTES_MAX, RANGES_MAX, SILENT_PACKETS_MAX};
use super::packet::Kind;
use super::ranges::Ranges;
use super::receive::ReceiveBuffer;
use super::send::SendBuffer;
use super::sent::SentPackets;
use std::time::Duration;

/// Which keys a packet is under.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Level {
    Initial,
    Handshake,
    OneRtt,
}

impl Level {
    pub(super) const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::OneRtt];

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Initial => Kind::Initial,
            Self::Handshake => Kind::Handshake,
            Self::OneRtt => Kind::OneRtt,
        }
    }
}

/// Packets of one level, both ways, and its part of the handshake.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) sent: SentPackets,
    pub(super) received: Received,
    pub(super) crypto_out: SendBuffer<Vec<u8>>,
    pub(super) crypto_in: ReceiveBuffer,
    /// When a packet is lost, unless it is acknowledged before.
    pub(super) loss_at: Option<Duration>,
    /// Packets to be sent although nothing more may be in flight, to hear from the client.
    pub(super) probes: u8,
    /// Packets in a row that only acknowledged.
    pub(super) silent: u32,
}

impl Space {
    pub(super) fn new() -> Self {
        Self {
            sent: SentPackets::default(),
            received: Received::default(),
            crypto_out: SendBuffer::new(),
            crypto_in: ReceiveBuffer::default(),
            loss_at: None,
            probes: 0,
            silent: 0,
        }
    }

    /// Whether a part of the handshake is to be sent.
    pub(super) fn has_crypto(&self) -> bool {
        self.crypto_out.has_lost() || self.crypto_out.sent() < self.crypto_out.end()
    }

    /// Whether a packet that would only acknowledge should ask to be acknowledged too.
    pub(super) fn is_too_silent(&self) -> bool {
        self.silent >= SILENT_PACKETS_MAX
    }

    /// Whether as much of the handshake may come.
    pub(super) fn takes_crypto(&self, end: u64) -> bool {
        end <= self.crypto_in.start() + CRYPTO_BYTES_MAX
    }
}

/// The spaces of a connection. Those of the handshake are apart, and are not there once it is over.
#[derive(Debug)]
pub(super) struct Spaces {
    handshake: Option<Box<[Space; 2]>>,
    pub(super) data: Space,
}

impl Spaces {
    pub(super) fn new() -> Self {
        Self { handshake: None, data: Space::new() }
    }

    /// The space of a level: an empty one where the level is not begun, or over.
    pub(super) fn of(&mut self, level: Level) -> &mut Space {
        let handshake = || Box::new([Space::new(), Space::new()]);
        match level {
            Level::OneRtt => &mut self.data,
            Level::Initial => &mut self.handshake.get_or_insert_with(handshake)[0],
            Level::Handshake => &mut self.handshake.get_or_insert_with(handshake)[1],
        }
    }

    /// Those that are there, in the order of their levels.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Level, &Space)> {
        let [initial, handshake] = match self.handshake.as_deref() {
            Some([initial, handshake]) => [Some(initial), Some(handshake)],
            None => [None, None],
        };
        Level::ALL.into_iter().zip([initial, handshake, Some(&self.data)]).filter_map(there)
    }

    /// The same to change.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Level, &mut Space)> {
        let [initial, handshake] = match self.handshake.as_deref_mut() {
            Some([initial, handshake]) => [Some(initial), Some(handshake)],
            None => [None, None],
        };
        Level::ALL.into_iter().zip([initial, handshake, Some(&mut self.data)]).filter_map(there)
    }

    /// The handshake is over.
    pub(super) fn forget_handshake(&mut self) {
        self.handshake = None;
    }
}

fn there<T>((level, space): (Level, Option<T>)) -> Option<(Level, T)> {
    space.map(|space| (level, space))
}

/// Packets that came.
#[derive(Debug, Default)]
pub(super) struct Received {
    ranges: Ranges,
    /// Everything below counts as having come.
    floor: u64,
    /// Packets that ask for an acknowledgement and did not get one.
    unacknowledged: u32,
    /// When they have to.
    due: Option<Duration>,
    /// When the highest came.
    highest_at: Duration,
    /// The number above the highest that was acknowledged.
    told: u64,
    /// How the client wants it done.
    pub(super) obeyed: Obeyed,
    /// Packets by their marks.
    pub(super) counts: Counts,
}

/// What a packet asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asks {
    Nothing,
    /// An acknowledgement.
    Ack,
    /// One that does not wait for others.
    AtOnce,
}

impl Received {
    /// Whether a packet came before.
    pub(super) fn is_known(&self, number: u64) -> bool {
        number < self.floor || self.ranges.contains(number)
    }

    /// The number above the highest.
    pub(super) fn expected(&self) -> u64 {
        self.ranges.end().unwrap_or(0)
    }

    /// A packet came. What it asks for may wait for `delay_max`, where the client has not asked for another time.
    pub(super) fn add(&mut self, number: u64, asks: Asks, now: Duration, delay_max: Duration) {
        let expected = self.expected();
        self.ranges.insert(number..number + 1);
        if self.ranges.len() > RANGES_MAX {
            self.ranges.truncate_front(RANGES_MAX);
            self.floor = self.ranges.first().map_or(self.floor, |first| first.start);
        }
        if number >= expected {
            self.highest_at = now;
        }
        if asks == Asks::Nothing {
            return;
        }
        self.unacknowledged += 1;
        let Frequency { threshold, delay_max, reordering } = self
            .obeyed
            .frequency
            .unwrap_or(Frequency { threshold: PACKETS_PER_ACK - 1, delay_max, reordering: 1 });
        // The client learns of a gap at once (RFC 9000 §13.2.1).
        let tells_of_gap = match reordering {
            0 => false,
            1 => number != expected,
            _ => self.has_lost(reordering),
        };
        let is_at_once =
            asks == Asks::AtOnce || tells_of_gap || u64::from(self.unacknowledged) > threshold;
        let due = if is_at_once { now } else { now + delay_max };
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }

    /// Whether a packet is missing so far below the highest of which no acknowledgement told as much
    /// (draft-ietf-quic-ack-frequency §6.2).
    fn has_lost(&self, reordering: u64) -> bool {
        let Some(highest) = self.expected().checked_sub(1) else { return false };
        // Those below are told of: the highest that was acknowledged was so far above them.
        let untold = self.told.saturating_sub(reordering).max(self.floor);
        let mut start = untold;
        for range in self.ranges.iter() {
            if range.start > start {
                return highest - start >= reordering;
            }
            start = start.max(range.end);
        }
        false
    }

    /// Packets up to `largest` do not have to be acknowledged any more: the client knows.
    pub(super) fn settle(&mut self, largest: u64) {
        // The highest range stays, so that there always is a number to expect.
        let end = (largest + 1).min(self.expected().saturating_sub(1));
        if end > self.floor {
            self.ranges.remove(0..end);
            self.floor = end;
        }
    }

    /// The ranges to acknowledge, what marks were seen and when the highest came; nothing is due then.
    pub(super) fn acknowledge(&mut self) -> (&Ranges, &Counts, Duration) {
        self.unacknowledged = 0;
        self.due = None;
        self.told = self.expected();
        (&self.ranges, &self.counts, self.highest_at)
    }

    /// Has what came acknowledged once more.
    pub(super) fn repeat(&mut self, now: Duration) {
        if !self.ranges.is_empty() {
            self.due = Some(now);
        }
    }

    /// When an acknowledgement has to go out.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_second_packet_and_a_gap_are_acknowledged_at_once() {
        let mut received = Received::default();
        received.add(0, Asks::Nothing, MS, 25 * MS);
        assert_eq!(received.due(), None);
        received.add(1, Asks::Ack, MS, 25 * MS);
        assert_eq!(received.due(), Some(26 * MS));
        received.add(2, Asks::Ack, 2 * MS, 25 * MS);
        assert_eq!(received.due(), Some(2 * MS));
        let (ranges, _, at) = received.acknowledge();
        assert_eq!((ranges.iter().next(), at), (Some(&(0..3)), 2 * MS));
        received.add(4, Asks::Ack, 3 * MS, 25 * MS);
        assert_eq!(received.due(), Some(3 * MS));
    }

    #[test]
    fn what_a_client_asks_for_is_done() {
        let mut received = Received::default();
        let asked = Frequency { threshold: 3, delay_max: 50 * MS, reordering: 3 };
        assert!(received.obeyed.ask(0, asked).is_ok());
        for number in 0..3 {
            received.add(number, Asks::Ack, MS, 25 * MS);
            assert_eq!(received.due(), Some(51 * MS));
        }
        received.add(3, Asks::Ack, 2 * MS, 25 * MS);
        assert_eq!(received.due(), Some(2 * MS));
        received.acknowledge();
        // 4 is missing, and lost once 7 is there. Nothing more is new until another is.
        for (number, is_due) in [(5, false), (6, false), (7, true), (8, false), (9, false)] {
            received.add(number, Asks::Ack, 3 * MS, 25 * MS);
            assert_eq!(received.due() == Some(3 * MS), is_due, "{number}");
            if is_due {
                received.acknowledge();
            }
        }
        received.acknowledge();
        received.add(12, Asks::Ack, 3 * MS, 25 * MS);
        assert_eq!(received.due(), Some(53 * MS));
        received.add(13, Asks::Ack, 3 * MS, 25 * MS);
        assert_eq!(received.due(), Some(3 * MS));
        received.acknowledge();
        received.add(14, Asks::AtOnce, 4 * MS, 25 * MS);
        assert_eq!(received.due(), Some(4 * MS));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_forgotten_counts_as_seen() {
        let mut received = Received::default();
        for number in 0..10_000 {
            received.add(2 * number, Asks::Ack, MS, MS);
        }
        assert_eq!(received.ranges.len(), RANGES_MAX);
        assert!(received.is_known(3) && received.is_known(19_998) && !received.is_known(19_997));
        received.settle(19_998);
        assert!(received.is_known(19_997) && received.is_known(19_998));
        assert_eq!((received.ranges.len(), received.expected()), (1, 19_999));
    }
}
