//! How large a datagram a way takes (RFC 8899): asked by packets that say nothing else, whose loss says
//! nothing of congestion.
//!
//! The largest is asked for first, as most ways take it, then what common tunnels leave of it. What was
//! found too little is asked about again after a while, and what was known is not believed any more when
//! nothing arrives, or nothing that is large while what is small does.

use super::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN};
use std::time::Duration;

/// Losses of a probe before a size is given up (RFC 8899 §5.1.2).
const PROBES_PER_SIZE: u8 = 3;

/// How often in a row large packets are lost, none of which arrived, before their size is given up: what is small
/// may arrive all the while, so that no silence shows it (RFC 8899 §4.3).
const LOSSES_IN_A_ROW: u8 = 3;

/// How long what is less than the largest is believed to be all (RFC 8899 §5.1.1).
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// What is asked for, the largest first. What IPv6 and UDP leave of packets of 1,500 bytes, of 1,492 (PPPoE), of
/// 1,440 and 1,420 (WireGuard over IPv4 and IPv6), of 1,400 (IPsec, mobile networks) and of the 1,280 that all take.
const SIZES: [usize; 6] = [DATAGRAM_BYTES_MAX, 1444, 1392, 1372, 1352, 1232];

/// What is known of it.
#[derive(Clone, Debug)]
pub(super) struct DatagramSize {
    bytes: usize,
    /// What is asked for next, at most; `None` when the search is over.
    next: Option<usize>,
    probes_left: u8,
    /// The packet that asks, and how many bytes it has.
    probing: Option<(u64, usize)>,
    /// When the search may begin again.
    again_at: Duration,
    /// How often large packets were lost since one arrived.
    losses: u8,
}

impl DatagramSize {
    pub(super) fn new() -> Self {
        Self {
            bytes: DATAGRAM_BYTES_MIN,
            next: Some(DATAGRAM_BYTES_MAX),
            probes_left: PROBES_PER_SIZE,
            probing: None,
            again_at: Duration::ZERO,
            losses: 0,
        }
    }

    /// Bytes of a full datagram.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The size of a datagram that asks whether larger ones arrive; `peer_max` is what the client
    /// takes. It is on its way then, as the packet `number`.
    pub(super) fn take_probe(
        &mut self,
        peer_max: usize,
        number: u64,
        now: Duration,
    ) -> Option<usize> {
        if self.probing.is_some() || self.bytes >= DATAGRAM_BYTES_MAX.min(peer_max) {
            return None;
        }
        if self.next.is_none() && now >= self.again_at {
            self.search();
        }
        let size = self.next?.min(peer_max);
        if size <= self.bytes {
            self.next = None;
            return None;
        }
        self.probing = Some((number, size));
        self.again_at = now + RAISE_AFTER;
        Some(size)
    }

    /// A packet that asked arrived. One that was sent on another way says nothing of this.
    pub(super) fn arrived(&mut self, number: u64) {
        if let Some((_, size)) = self.probing.take_if(|(probing, _)| *probing == number) {
            self.bytes = self.bytes.max(size);
            self.next = None;
        }
    }

    /// One did not.
    pub(super) fn lost(&mut self, number: u64) {
        if let Some((_, size)) = self.probing.take_if(|(probing, _)| *probing == number) {
            self.probes_left = self.probes_left.saturating_sub(1);
            if self.probes_left == 0 {
                self.probes_left = PROBES_PER_SIZE;
                self.next = SIZES.into_iter().find(|next| *next < size);
            }
        }
    }

    /// Whether packets of so many bytes in all are larger than what every way takes.
    pub(super) fn is_large(packets: u64, bytes: u64) -> bool {
        bytes > packets * DATAGRAM_BYTES_MIN as u64
    }

    /// A large packet arrived, which was not asked for.
    pub(super) fn large_arrived(&mut self) {
        self.losses = 0;
    }

    /// It was found that some did not.
    pub(super) fn large_lost(&mut self) {
        if self.bytes > DATAGRAM_BYTES_MIN {
            self.losses += 1;
            if self.losses == LOSSES_IN_A_ROW {
                self.doubt();
            }
        }
    }

    /// The client is here again; what became of a probe meanwhile was told of another way.
    pub(super) fn come_back(&mut self) {
        self.probing = None;
    }

    /// Nothing arrives any more, perhaps because of the size: all begins again.
    pub(super) fn doubt(&mut self) {
        self.bytes = DATAGRAM_BYTES_MIN;
        self.probing = None;
        self.losses = 0;
        self.search();
    }

    fn search(&mut self) {
        (self.next, self.probes_left) = (Some(DATAGRAM_BYTES_MAX), PROBES_PER_SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);
    const ANY: usize = 65_527;

    /// What is found on a way that takes `most`, and how many datagrams it lost.
    fn found(size: &mut DatagramSize, most: usize, peer_max: usize, now: Duration) -> (usize, u32) {
        let mut lost = 0;
        for number in 0.. {
            let Some(bytes) = size.take_probe(peer_max, number, now) else { break };
            assert_eq!(size.take_probe(peer_max, number + 1, now), None, "one at a time");
            if bytes <= most {
                size.arrived(number);
            } else {
                size.lost(number);
                lost += 1;
            }
        }
        (size.bytes(), lost)
    }

    #[test]
    fn what_a_way_takes_is_found() {
        for (most, want) in [
            (1500, (1452, 0)),
            (1451, (1444, 3)),
            (1443, (1392, 6)),
            (1391, (1372, 9)),
            (1279, (1232, 15)),
            (1200, (1200, 18)),
        ] {
            assert_eq!(found(&mut DatagramSize::new(), most, ANY, NOW), want);
        }
    }

    #[test]
    fn what_a_client_takes_at_most_is_asked_for_once() {
        assert_eq!(found(&mut DatagramSize::new(), 1500, 1300, NOW), (1300, 0));
        assert_eq!(found(&mut DatagramSize::new(), 1250, 1300, NOW), (1232, 3));
        assert_eq!(found(&mut DatagramSize::new(), 1500, 1200, NOW), (1200, 0));
    }

    #[test]
    fn what_is_less_than_the_largest_is_asked_about_again() {
        let mut size = DatagramSize::new();
        assert_eq!(found(&mut size, 1392, ANY, NOW), (1392, 6));
        let later = NOW + RAISE_AFTER;
        assert_eq!(found(&mut size, 1500, ANY, later - Duration::from_millis(1)), (1392, 0));
        assert_eq!(found(&mut size, 1500, ANY, later), (1452, 0));
        // Nothing arrives any more: it may be the size, or not.
        size.doubt();
        assert_eq!(size.bytes(), DATAGRAM_BYTES_MIN);
        assert_eq!(found(&mut size, 1400, ANY, later), (1392, 6));
        size.doubt();
        assert_eq!(found(&mut size, 1500, ANY, later), (1452, 0));
    }

    #[test]
    fn a_size_of_which_none_arrive_is_given_up() {
        let mut size = DatagramSize::new();
        assert_eq!(found(&mut size, 1500, ANY, NOW), (1452, 0));
        for _ in 0..10 {
            (1..LOSSES_IN_A_ROW).for_each(|_| size.large_lost());
            size.large_arrived();
        }
        assert_eq!(size.bytes(), 1452);
        (0..LOSSES_IN_A_ROW).for_each(|_| size.large_lost());
        assert_eq!(size.bytes(), DATAGRAM_BYTES_MIN);
        // Those that were on their way do not end the search.
        assert_eq!(size.take_probe(ANY, 5, NOW), Some(1452));
        (0..20).for_each(|_| size.large_lost());
        size.arrived(5);
        assert_eq!(size.bytes(), 1452);
        assert!(!DatagramSize::is_large(3, 3600) && DatagramSize::is_large(3, 3601));
    }

    #[test]
    fn what_was_asked_of_another_way_says_nothing_of_this() {
        let mut size = DatagramSize::new();
        assert_eq!(size.take_probe(ANY, 7, NOW), Some(DATAGRAM_BYTES_MAX));
        for number in [6, 8] {
            size.arrived(number);
            (0..PROBES_PER_SIZE).for_each(|_| size.lost(number));
        }
        assert_eq!(size.bytes(), DATAGRAM_BYTES_MIN);
        // What became of that one was told while the client was elsewhere.
        size.come_back();
        assert_eq!(size.take_probe(ANY, 9, NOW), Some(DATAGRAM_BYTES_MAX));
    }
}
