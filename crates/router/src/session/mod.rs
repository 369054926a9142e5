//! Clients' sessions: who is behind which tunnel, and how packets to them are wrapped.
//!
//! [`learn`] decides what is believed, [`pfcp`] reads copies of the core's own signalling, [`lines`]
//! lays sessions out for the kernel. Time is an argument, in milliseconds.

pub mod learn;
pub mod lines;
pub mod network;
pub mod pfcp;

use crate::gtp::Form;
use crate::packet::{Link, TAGS_MAX, unmapped};
use serde::Serialize;

/// Sessions a router keeps when it is not told otherwise.
pub const SESSIONS_DEFAULT: usize = 65_536;
/// Most it can be told.
pub const SESSIONS_MAX: usize = 1 << 21;
/// Pairs of tunnel ends with the link between them.
pub const PATHS_MAX: usize = 4096;

/// A client: who has an address in a network.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Client {
    /// An IPv4 address, or the first 64 bits of IPv6 ones.
    pub address: u64,
    /// The network instance (3GPP TS 23.501, §5.6.12) in which nobody else has the address: a number
    /// of [`network::Networks`].
    pub network: u16,
}

/// What stands before an IPv4 address in a [`Client`]: as IPv6 it would be in `::/32`, where nobody is.
const IPV4_BIT: u64 = 1 << 32;

impl Client {
    /// The client of an address in the network without a name; none for IPv6 addresses that nobody has.
    #[must_use]
    pub const fn of(address: u128) -> Option<Self> {
        match unmapped(address) {
            Some(address) => Some(Self { address: IPV4_BIT | address as u64, network: 0 }),
            None => {
                let address = (address >> 64) as u64;
                if address < IPV4_BIT << 1 { None } else { Some(Self { address, network: 0 }) }
            }
        }
    }

    /// Who has this address in another network.
    #[must_use]
    pub const fn within(self, network: u16) -> Self {
        Self { network, ..self }
    }

    /// Reads `192.0.2.1`, `2001:db8::/64` or an address in it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let address: std::net::IpAddr = text.strip_suffix("/64").unwrap_or(text).parse().ok()?;
        Self::of(crate::packet::AddressOf::from(address).0)
    }
}

/// Its address. [`network::Networks::text`] says the network as well.
impl std::fmt::Display for Client {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.address >> 32 == 1 {
            std::net::Ipv4Addr::from(self.address as u32).fmt(to)
        } else {
            write!(to, "{}/64", std::net::Ipv6Addr::from(u128::from(self.address) << 64))
        }
    }
}

/// Addresses and VLAN tags of frames to a client.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Hop {
    /// Destination and source of the link.
    pub addresses: [[u8; 6]; 2],
    /// As in [`Link`].
    pub tags: [[u16; 2]; TAGS_MAX],
}

impl From<&Link> for Hop {
    fn from(link: &Link) -> Self {
        Self { addresses: link.addresses, tags: link.tags }
    }
}

/// The way to a client that many share: outer addresses and the link.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Path {
    /// Base station and core's user plane; 0 where nothing is tunnelled.
    pub ends: [u128; 2],
    /// The link towards the base station.
    pub hop: Hop,
}

/// A client's session, complete: what the kernel needs to recognise and to wrap its packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Session {
    /// Whose.
    pub client: Client,
    /// Identifiers of the tunnels from and to the client.
    pub teids: [u32; 2],
    /// QoS flow of packets to the client.
    pub qfi: u8,
    /// How its packets are wrapped.
    pub form: Form,
    /// The way to it.
    pub path: Path,
}

/// Who says so, the first with most weight.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// The core, in its signalling.
    Pfcp,
    /// Traffic in both directions.
    Learnt,
    /// A person.
    Operator,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_addresses_and_prefixes() {
        let shown = |text: &str| Client::parse(text).map(|client| client.to_string());
        assert_eq!(shown("10.45.0.2").as_deref(), Some("10.45.0.2"));
        assert_eq!(shown("2001:db8:1:2::5").as_deref(), Some("2001:db8:1:2::/64"));
        assert_eq!(shown("2001:db8:1:2::/64").as_deref(), Some("2001:db8:1:2::/64"));
        assert_eq!(shown("::1"), None);
        assert_eq!(shown("10.45.0"), None);
    }
}
