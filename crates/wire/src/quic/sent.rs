//! Packets that were sent and not acknowledged: a ring by packet number.

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
    /// How the client is to acknowledge.
    AckFrequency { sequence: u64 },
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Sent,
    /// Acknowledged, or lost and told again.
    Done,
    /// Its number was left out.
    Skipped,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sent: Duration,
    /// Bytes that count as in flight; 0 of one that only acknowledges.
    pub(super) bytes: u16,
    pub(super) is_eliciting: bool,
    /// Whether it asks how large a packet may be, so that its loss says nothing about congestion.
    pub(super) is_probe: bool,
    /// Whether its datagram was marked.
    pub(super) is_marked: bool,
    state: State,
    /// Where in the list what it carried begins, and how much that is.
    carried_at: u64,
    carried: u16,
}

/// How a packet is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    pub(super) is_eliciting: bool,
    pub(super) is_probe: bool,
    pub(super) is_marked: bool,
}

/// A client acknowledged what was never sent.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NeverSent;

/// The packets of one number space.
#[derive(Debug, Default)]
pub(super) struct SentPackets {
    /// Number of the first packet of the ring.
    first: u64,
    ring: VecDeque<Packet>,
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
        self.first + self.ring.len() as u64
    }

    /// Numbers that are remembered.
    pub(super) fn span(&self) -> u64 {
        self.ring.len() as u64
    }

    /// Leaves out the next number.
    pub(super) fn skip(&mut self) {
        let carried_at = self.carried_end();
        self.ring.push_back(Packet {
            sent: Duration::ZERO,
            bytes: 0,
            is_eliciting: false,
            is_probe: false,
            is_marked: false,
            state: State::Skipped,
            carried_at,
            carried: 0,
        });
    }

    /// The next packet carries this.
    pub(super) fn carry(&mut self, carried: Carried) {
        self.carried.push_back(carried);
        self.building += 1;
    }

    /// The next packet was sent, with all that was said it carries.
    pub(super) fn push(&mut self, sent: Duration, bytes: u16, how: How) {
        let How { is_eliciting, is_probe, is_marked } = how;
        let carried = std::mem::take(&mut self.building);
        let carried_at = self.carried_end() - u64::from(carried);
        self.ring.push_back(Packet {
            sent,
            bytes,
            is_eliciting,
            is_probe,
            is_marked,
            state: State::Sent,
            carried_at,
            carried,
        });
        if is_eliciting {
            self.last_eliciting = sent;
            self.eliciting += 1;
        }
    }

    /// The packets of `ack` are done: `each` gets those that were not before, from the highest.
    ///
    /// # Errors
    /// [`NeverSent`]
    pub(super) fn acknowledge(
        &mut self,
        ack: &Ack<'_>,
        mut each: impl FnMut(u64, &Packet, &mut dyn Iterator<Item = Carried>),
    ) -> Result<(), NeverSent> {
        if ack.largest >= self.next_number() {
            return Err(NeverSent);
        }
        for range in ack.ranges() {
            if *range.end() < self.first {
                break;
            }
            for number in (self.first.max(*range.start())..=*range.end()).rev() {
                let at = (number - self.first) as usize;
                let Some(packet) = self.ring.get_mut(at) else { continue };
                match packet.state {
                    State::Skipped => return Err(NeverSent),
                    State::Done => continue,
                    State::Sent => {}
                }
                packet.state = State::Done;
                let packet = *packet;
                self.eliciting -= usize::from(packet.is_eliciting);
                each(number, &packet, &mut self.carried_by(&packet));
            }
        }
        self.largest_acked = self.largest_acked.max(Some(ack.largest));
        self.forget();
        Ok(())
    }

    /// The packets that are lost by now (RFC 9002 §6.1): `each` gets them, from the lowest. Returns
    /// when the next one is, unless it is acknowledged before.
    pub(super) fn detect_lost(
        &mut self,
        now: Duration,
        delay: Duration,
        mut each: impl FnMut(u64, &Packet, &mut dyn Iterator<Item = Carried>),
    ) -> Option<Duration> {
        let largest = self.largest_acked?;
        let mut at = 0;
        let mut next = None;
        while let Some(packet) = self.ring.get_mut(at) {
            let number = self.first + at as u64;
            if number > largest {
                break;
            }
            if packet.state == State::Sent {
                let is_lost = largest - number >= REORDERING_PACKETS || packet.sent + delay <= now;
                if is_lost {
                    packet.state = State::Done;
                    let packet = *packet;
                    self.eliciting -= usize::from(packet.is_eliciting);
                    each(number, &packet, &mut self.carried_by(&packet));
                } else {
                    next = Some(packet.sent + delay);
                    break;
                }
            }
            at += 1;
        }
        self.forget();
        next
    }

    /// What the oldest packets in flight carried, of at most `count` of them.
    pub(super) fn oldest(&self, count: usize, mut each: impl FnMut(Carried)) {
        let flying = |packet: &&Packet| packet.state == State::Sent && packet.is_eliciting;
        for packet in self.ring.iter().filter(flying).take(count) {
            self.carried_by(packet).for_each(&mut each);
        }
    }

    /// Bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        let flying = self.ring.iter().filter(|packet| packet.state == State::Sent);
        flying.map(|packet| u64::from(packet.bytes)).sum()
    }

    fn carried_end(&self) -> u64 {
        self.carried_first + self.carried.len() as u64
    }

    fn carried_by(&self, packet: &Packet) -> impl Iterator<Item = Carried> {
        let start = (packet.carried_at - self.carried_first) as usize;
        self.carried.range(start..start + usize::from(packet.carried)).copied()
    }

    /// Forgets the packets at the front that are done. A number that was left out stays until a
    /// higher one is acknowledged: who acknowledges it too is seen.
    fn forget(&mut self) {
        let largest = self.largest_acked;
        let (mut packets, mut carried) = (0, 0);
        for packet in &self.ring {
            let number = self.first + packets as u64;
            let is_over = match packet.state {
                State::Sent => false,
                State::Done => true,
                State::Skipped => largest.is_some_and(|largest| largest > number),
            };
            if !is_over {
                break;
            }
            packets += 1;
            carried += usize::from(packet.carried);
        }
        self.ring.drain(..packets);
        self.first += packets as u64;
        self.carried.drain(..carried);
        self.carried_first += carried as u64;
        if self.ring.is_empty() {
            // A client that was sent much may ask for nothing more.
            self.ring.shrink_to(RESTING_PACKETS);
            self.carried.shrink_to(RESTING_PACKETS);
        }
    }
}

/// Packets that there is room for while none is in flight.
const RESTING_PACKETS: usize = 16;

/// A packet that so many higher ones were acknowledged before is lost (RFC 9002 §6.1.1).
const REORDERING_PACKETS: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::ecn::Counts;
    use crate::quic::frame::{Frame, write_ack};
    use crate::quic::ranges::Ranges;
    use crate::quic::varint::Reader;

    fn acknowledge(sent: &mut SentPackets, numbers: &[u64]) -> Result<Vec<u64>, NeverSent> {
        let (mut ranges, mut out) = (Ranges::new(), Vec::new());
        for number in numbers {
            ranges.insert(*number..number + 1);
        }
        write_ack(&ranges, &Counts::default(), 0, 1000, &mut out);
        let Ok(Frame::Ack(ack)) = Frame::read(&mut Reader::new(&out)) else { panic!("an ACK") };
        let mut seen = Vec::new();
        sent.acknowledge(&ack, |number, _, carried| {
            assert_eq!(carried.next(), Some(Carried::MaxStreamData { stream: number }));
            assert_eq!(carried.next(), None);
            seen.push(number);
        })?;
        Ok(seen)
    }

    fn sent(count: u64, skipped: u64) -> SentPackets {
        let mut sent = SentPackets::default();
        for number in 0..count {
            if number == skipped {
                sent.skip();
                continue;
            }
            sent.carry(Carried::MaxStreamData { stream: number });
            let how = How { is_eliciting: true, ..How::default() };
            sent.push(Duration::from_millis(number), 100, how);
        }
        sent
    }

    #[test]
    fn each_packet_is_acknowledged_once_and_forgotten() {
        let mut sent = sent(10, 99);
        assert_eq!(acknowledge(&mut sent, &[1, 2, 5]), Ok(vec![5, 2, 1]));
        assert_eq!(acknowledge(&mut sent, &[0, 1, 2, 5]), Ok(vec![0]));
        assert_eq!((sent.first, sent.bytes(), sent.eliciting), (3, 600, 6));
        assert_eq!(acknowledge(&mut sent, &[0, 1, 3, 4, 6, 7, 8, 9]), Ok(vec![9, 8, 7, 6, 4, 3]));
        assert_eq!((sent.span(), sent.carried.len(), sent.bytes()), (0, 0, 0));
        assert_eq!(acknowledge(&mut sent, &[10]), Err(NeverSent));
    }

    #[test]
    fn who_acknowledges_what_was_left_out_is_seen() {
        for skipped in [0, 4, 8] {
            let mut all = sent(10, skipped);
            let numbers: Vec<u64> = (0..10).collect();
            assert_eq!(acknowledge(&mut all, &numbers), Err(NeverSent));
            let mut all = sent(10, skipped);
            let below: Vec<u64> = (0..skipped).collect();
            if !below.is_empty() {
                acknowledge(&mut all, &below).expect("they were sent");
            }
            assert_eq!(acknowledge(&mut all, &[skipped]), Err(NeverSent), "{skipped}");
            let above: Vec<u64> = (skipped + 1..10).collect();
            acknowledge(&mut all, &above).expect("they were sent");
            assert_eq!(all.span(), 0);
        }
    }

    #[test]
    fn packets_are_lost_by_number_or_by_time() {
        let mut sent = sent(10, 2);
        acknowledge(&mut sent, &[5]).expect("it was sent");
        let mut lost = Vec::new();
        let (now, delay) = (Duration::from_millis(6), Duration::from_millis(5));
        let next = sent.detect_lost(now, delay, |number, _, _| lost.push(number));
        assert_eq!((lost, next), (vec![0, 1], Some(Duration::from_millis(8))));
        let mut lost = Vec::new();
        let next =
            sent.detect_lost(Duration::from_millis(9), delay, |number, _, _| lost.push(number));
        assert_eq!((lost, next), (vec![3, 4], None));
        assert_eq!(sent.first, 6);
    }
}
