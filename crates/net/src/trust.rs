//! Which peers are believed when they say who they speak for.

use crate::address::PeerAddress;
use crate::error::NetError;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of IP addresses such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Peers that may speak for others: proxies and load balancers in front.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TrustedPeers {
    /// Trusted ranges. Peers on a Unix socket are trusted always: the file's permissions say who
    /// may connect.
    pub networks: Vec<Network>,
}

impl TrustedPeers {
    /// Whether `peer` is trusted. Walks the ranges: there are a few.
    pub fn contains(&self, peer: PeerAddress) -> bool {
        match peer {
            PeerAddress::Unix => true,
            PeerAddress::Tcp(address) => {
                self.networks.iter().any(|network| network.contains(address.ip()))
            }
        }
    }
}

impl Network {
    /// Whether the range has this address. An IPv4 address in IPv6 form counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = |width: u8| u32::from(width - self.prefix_bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(range), IpAddr::V4(address)) => {
                let differing = range.to_bits() ^ address.to_bits();
                differing.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(range), IpAddr::V6(address)) => {
                let differing = range.to_bits() ^ address.to_bits();
                differing.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Reads `10.0.0.0/8`, `2001:db8::/32` or a single address. Bits after the prefix are ignored.
impl FromStr for Network {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let refuse = || NetError::ConfigNetwork { text: text.into() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| refuse())?
            }
            Some(_) => return Err(refuse()),
            None => width,
        };
        if prefix_bits > width {
            return Err(refuse());
        }
        // An IPv4 address has one form.
        match address {
            IpAddr::V6(v6) if prefix_bits >= 96 && v6.to_ipv4_mapped().is_some() => {
                Ok(Self { address: address.to_canonical(), prefix_bits: prefix_bits - 96 })
            }
            _ => Ok(Self { address, prefix_bits }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_hold_what_their_prefix_says() {
        let has = |range: &str, address: &str| network(range).contains(address.parse().unwrap());
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("::/0", "2001:db8::1"));
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.6"));
        assert!(
            has("2001:db8::/33", "2001:db8:7fff::1") && !has("2001:db8::/33", "2001:db8:8000::")
        );
        assert!(has("192.0.2.0/24", "::ffff:192.0.2.9"));
        assert!(has("::ffff:192.0.2.0/120", "192.0.2.9") && has("::ffff:192.0.2.9", "192.0.2.9"));
        assert!(!has("::ffff:192.0.2.0/120", "192.0.3.9"));
    }

    #[test]
    fn text_that_is_no_range_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "ten/8", "10/8"] {
            assert_eq!(text.parse::<Network>(), Err(NetError::ConfigNetwork { text: text.into() }));
        }
    }

    #[test]
    fn unix_peers_are_always_trusted_and_others_only_when_listed() {
        let mut trusted = TrustedPeers::default();
        let peer = PeerAddress::Tcp("192.0.2.1:9".parse().unwrap());
        assert!(trusted.contains(PeerAddress::Unix) && !trusted.contains(peer));
        trusted.networks.push(network("192.0.2.0/24"));
        assert!(trusted.contains(peer));
    }

    proptest! {
        #[test]
        fn a_range_agrees_with_comparing_bits_one_by_one(a: u32, b: u32, bits in 0u8..=32) {
            let range = Network { address: IpAddr::V4(a.into()), prefix_bits: bits };
            let same = (0..bits).all(|bit| (a >> (31 - bit)) & 1 == (b >> (31 - bit)) & 1);
            prop_assert_eq!(range.contains(IpAddr::V4(b.into())), same);
        }
    }
}
