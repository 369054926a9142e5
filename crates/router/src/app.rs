//! Apps at the edge: what may be given packets, and where it is.

use std::fmt;
use std::net::IpAddr;

/// Apps a router may have.
pub const APPS_MAX: usize = 64;
/// Interfaces of all apps together.
pub const LEGS_MAX: usize = 64;
/// Apps of kind tap among them.
pub const TAPS_MAX: usize = 8;

/// How an app gets packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Without tunnel, in place of the server.
    Breakout,
    /// As they came, in on one interface and out on the other.
    InLine,
    /// Copies.
    Tap {
        /// Without tunnel.
        decapsulated: bool,
    },
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Breakout => "for breakout",
            Self::InLine => "in-line",
            Self::Tap { decapsulated: false } => "a tap",
            Self::Tap { decapsulated: true } => "a tap without tunnels",
        })
    }
}

/// An interface towards an app.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leg {
    /// The host's end, by name.
    pub interface: String,
    /// The app's own address behind it.
    pub mac: [u8; 6],
}

/// An app.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct App {
    /// Its name in the configuration.
    pub name: String,
    /// How it gets packets.
    pub kind: Kind,
    /// One interface, or for in-line apps two: the client's side and the core's.
    pub legs: Vec<Leg>,
    /// Addresses rules may name it by.
    pub addresses: Vec<IpAddr>,
    /// The network whose clients it gets alone, 0 being the one without a name. An app for breakout has
    /// one where there are networks: what it answers says only an address.
    pub network: Option<u16>,
    /// Largest segment a client's TCP may be told the app takes, for IPv4 and IPv6; 0 leaves it.
    pub segment_bytes_max: [u16; 2],
}

/// A MAC address from text such as `02:00:00:00:00:01`.
#[must_use]
pub fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split([':', '-']);
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// A MAC address as text.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn app() -> App {
        App {
            name: "cache".to_owned(),
            kind: Kind::Breakout,
            legs: vec![Leg { interface: "leg0".to_owned(), mac: [2, 0, 0, 0, 0, 9] }],
            addresses: vec!["203.0.113.10".parse().expect("an address")],
            network: None,
            segment_bytes_max: [0; 2],
        }
    }

    #[test]
    fn macs_are_read_and_written() {
        assert_eq!(mac_of("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(mac_text([2, 0, 0, 0, 0, 10]), "02:00:00:00:00:0a");
        for wrong in
            ["", "02:00:00:00:00", "02:00:00:00:00:0a:0b", "2:0:0:0:0:a", "zz:00:00:00:00:00"]
        {
            assert_eq!(mac_of(wrong), None, "{wrong}");
        }
    }
}
