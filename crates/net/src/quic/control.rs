//! What the kernel says and is told beside the bytes of datagrams (`cmsg(3)`): the size of joined
//! ones, the address of ours they were sent to or are to be sent from, and their marks of congestion
//! (`ip(7)`, `ipv6(7)`).

use freshet_quic::Ecn;
use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for all that is said or told of one call.
pub(super) const CONTROL_BYTES: usize = 128;

/// A length, then level and type.
const HEAD_BYTES: usize = size_of::<usize>() + 2 * size_of::<c_int>();
/// `in_pktinfo`: an interface, the address to answer from, the one in the datagram's head.
const INFO_4_BYTES: usize = 12;
/// `in6_pktinfo`: an address and an interface.
const INFO_6_BYTES: usize = 20;

/// Messages to the kernel.
pub(super) struct Told {
    bytes: [u8; CONTROL_BYTES],
    len: usize,
}

impl Told {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; CONTROL_BYTES], len: 0 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Has the bytes cut into datagrams of this size.
    pub(super) fn segment_bytes(&mut self, size: u16) {
        self.add(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
    }

    /// Has datagrams marked, which go to an address that is IPv6 or not.
    pub(super) fn ecn(&mut self, ecn: Ecn, is_v6: bool) {
        let value = c_int::from(ecn as u8).to_ne_bytes();
        match is_v6 {
            true => self.add(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &value),
            false => self.add(libc::IPPROTO_IP, libc::IP_TOS, &value),
        }
    }

    /// Has datagrams sent from this address of ours, out of a socket that `is_v6` or not.
    pub(super) fn source(&mut self, address: IpAddr, is_v6: bool) {
        match address {
            IpAddr::V4(address) if !is_v6 => {
                let mut info = [0; INFO_4_BYTES];
                info[4..8].copy_from_slice(&address.octets());
                self.add(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V4(address) => self.source_v6(address.to_ipv6_mapped()),
            IpAddr::V6(address) => self.source_v6(address),
        }
    }

    fn source_v6(&mut self, address: Ipv6Addr) {
        let mut info = [0; INFO_6_BYTES];
        info[..16].copy_from_slice(&address.octets());
        self.add(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
    }

    fn add(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let len = HEAD_BYTES + value.len();
        let Some(place) = self.bytes.get_mut(self.len..self.len + len) else { return };
        let head = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), value];
        let mut at = 0;
        for part in head {
            if let Some(place) = place.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        }
        self.len += len.next_multiple_of(size_of::<usize>());
    }
}

/// What the kernel said of datagrams that came.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Said {
    /// The size of each but the last, where several were joined.
    pub(super) segment_bytes: Option<usize>,
    /// Which of our addresses they were sent to.
    pub(super) to: Option<IpAddr>,
    /// How they were marked.
    pub(super) ecn: Ecn,
}

impl Said {
    /// Reads the messages of one call; what is cut off or unknown is passed over.
    pub(super) fn read(mut control: &[u8]) -> Self {
        let mut said = Self::default();
        while let Some((len, rest)) = control.split_first_chunk::<{ size_of::<usize>() }>() {
            let len = usize::from_ne_bytes(*len);
            let Some((level, rest)) = rest.split_first_chunk::<4>() else { break };
            let Some((kind, _)) = rest.split_first_chunk::<4>() else { break };
            let Some(value) = control.get(HEAD_BYTES..len) else { break };
            said.take((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind)), value);
            let Some(next) = control.get(len.next_multiple_of(size_of::<usize>())..) else { break };
            control = next;
        }
        said
    }

    fn take(&mut self, kind: (c_int, c_int), value: &[u8]) {
        match kind {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = value.first_chunk().map(|size| i32::from_ne_bytes(*size));
                self.segment_bytes = size.and_then(|size| usize::try_from(size).ok());
            }
            // One byte, or a number of the machine's.
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                let byte = if cfg!(target_endian = "big") { value.last() } else { value.first() };
                self.ecn = byte.map_or(Ecn::NotEct, |byte| Ecn::of_traffic_class(*byte));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = value.first_chunk().map(|class| i32::from_ne_bytes(*class));
                self.ecn = class.map_or(Ecn::NotEct, |class| Ecn::of_traffic_class(class as u8));
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let address = value.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
                self.to = address.map(|bytes| Ipv4Addr::from(*bytes).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let address = value.first_chunk::<16>();
                self.to = address.map(|bytes| Ipv6Addr::from(*bytes).to_canonical());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_again() {
        let cases: [(IpAddr, bool, c_int); 3] = [
            (Ipv4Addr::new(192, 0, 2, 1).into(), false, libc::IP_PKTINFO),
            (Ipv4Addr::new(192, 0, 2, 1).into(), true, libc::IPV6_PKTINFO),
            ("2001:db8::1".parse().unwrap(), true, libc::IPV6_PKTINFO),
        ];
        for (address, is_v6, kind) in cases {
            let mut told = Told::new();
            told.segment_bytes(1200);
            told.source(address, is_v6);
            told.ecn(Ecn::Ce, address.is_ipv6());
            let read = Said::read(told.as_bytes());
            assert_eq!(read, Said { segment_bytes: None, to: Some(address), ecn: Ecn::Ce });
            assert!(told.as_bytes().windows(4).any(|part| part == kind.to_ne_bytes()));
        }
    }

    #[test]
    fn what_is_cut_off_is_passed_over() {
        let mut told = Told::new();
        told.source(Ipv4Addr::LOCALHOST.into(), true);
        for len in 0..told.len - 4 {
            assert_eq!(Said::read(&told.bytes[..len]), Said::default(), "{len}");
        }
        assert_eq!(Said::read(&[0; 64]), Said::default());
        assert_eq!(Said::read(&[0xff; 64]), Said::default());
    }
}
