//! Whom a client belongs to: limits on what one client may take are limits on its network, since an
//! address of its own costs a client nothing under IPv6, and little elsewhere.

use freshet_config::limits::Prefixes;
use freshet_origin::Party;
use std::net::IpAddr;

/// A client's network: the first bits of its address. Clients on Unix sockets are of one network.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Network(u128);

impl Network {
    /// The network of a client; of a Unix socket's without an address.
    pub fn of(address: Option<IpAddr>, prefixes: Prefixes) -> Self {
        let Some(address) = address else { return Self::default() };
        let (bits, kept) = match address.to_canonical() {
            // Mapped, so that no IPv4 network is an IPv6 one.
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), 96 + u32::from(prefixes.v4.min(32))),
            IpAddr::V6(v6) => (v6.to_bits(), u32::from(prefixes.v6.min(128))),
        };
        let mask = u128::MAX.checked_shl(128 - kept).unwrap_or(0);
        Self(bits & mask)
    }

    /// For keys.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Its clients as those who share an origin's connections, of which they get so many percent.
    pub fn party(self, percent: u8) -> Party {
        Party { number: self.0, percent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str, v4: u8, v6: u8) -> Network {
        Network::of(Some(address.parse().expect("an address")), Prefixes { v4, v6 })
    }

    #[test]
    fn addresses_of_one_network_are_the_same_client() {
        assert_eq!(of("192.0.2.1", 24, 56), of("192.0.2.200", 24, 56));
        assert_ne!(of("192.0.2.1", 32, 56), of("192.0.2.2", 32, 56));
        assert_eq!(of("::ffff:192.0.2.1", 32, 56), of("192.0.2.1", 32, 56));
        assert_eq!(of("2001:db8:0:1::1", 32, 56), of("2001:db8:0:ff::2", 32, 56));
        assert_ne!(of("2001:db8:0:100::1", 32, 56), of("2001:db8:0:ff::2", 32, 56));
    }

    #[test]
    fn no_bits_are_one_network_and_all_bits_one_address() {
        assert_eq!(of("2001:db8::1", 0, 0), of("2002::", 0, 0));
        assert_eq!(of("10.0.0.1", 0, 0), of("192.0.2.1", 0, 0));
        assert_ne!(of("2001:db8::1", 32, 128), of("2001:db8::2", 32, 128));
        assert_ne!(of("10.0.0.1", 0, 0), of("2001:db8::1", 0, 128));
    }
}
