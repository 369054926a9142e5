//! Where a socket listens or connects to, as people write it.

use crate::error::NetError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on or to connect to. No names but `localhost`: resolving is the caller's.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket at a path.
    Unix(PathBuf),
}

/// Who is at the other end of an accepted connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PeerAddress {
    /// A TCP peer; IPv4 peers of a dual-stack listener are given as IPv4.
    Tcp(SocketAddr),
    /// A process on this machine.
    Unix,
}

impl Address {
    /// The TCP port, if there is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(address) => Some(address.port()),
            Self::Unix(_) => None,
        }
    }

    /// Whether nobody can listen on both: the same, or one of them is all addresses of the machine, where `[::]` takes
    /// IPv4 as well. Any two of port 0 go together.
    pub fn is_in_way_of(&self, other: &Self) -> bool {
        let (Self::Tcp(one), Self::Tcp(other)) = (self, other) else { return self == other };
        let (here, there) = (one.ip().to_canonical(), other.ip().to_canonical());
        let takes = |all: IpAddr, one: IpAddr| {
            all == one || (all.is_unspecified() && (all.is_ipv6() || one.is_ipv4()))
        };
        one.port() != 0 && one.port() == other.port() && (takes(here, there) || takes(there, here))
    }
}

impl PeerAddress {
    /// The peer's IP address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }

    /// The peer's IP address and port, if it has them.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Reads `127.0.0.1:80`, `[::1]:443`, `unix:/run/x.sock`, `localhost:80`, which no name server is asked for (RFC 6761
/// §6.3), or `:8000`, which is every interface in both families.
impl FromStr for Address {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let refuse = |why| NetError::ConfigAddress { text: text.into(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() || path.contains('\0') {
                return Err(refuse("a path must follow `unix:`"));
            }
            return Ok(Self::Unix(path.into()));
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = decimal_port(port)
                .ok_or_else(|| refuse("a port from 0 to 65535 must follow `:`"))?;
            return Ok(Self::Tcp((Ipv6Addr::UNSPECIFIED, port).into()));
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(decimal_port) {
            return Ok(Self::Tcp((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| match text.rsplit_once(':') {
            Some((name, port)) if is_name(name) && decimal_port(port).is_some() => {
                refuse("names are not looked up here, but `localhost`; write the address instead, as 192.0.2.1:80")
            }
            _ => refuse("expected 127.0.0.1:80, [::1]:80, :80, localhost:80 or unix:/path"),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix:"),
        }
    }
}

/// Whether a text is a name of a host, and no address.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes().all(is_of_name) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn decimal_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_reads_as_documented() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!("127.0.0.1:80".parse(), Ok(tcp("127.0.0.1:80")));
        assert_eq!("[::]:443".parse(), Ok(tcp("[::]:443")));
        assert_eq!(":8000".parse(), Ok(tcp("[::]:8000")));
        assert_eq!("unix:/run/x.sock".parse(), Ok(Address::Unix("/run/x.sock".into())));
        assert_eq!("localhost:6080".parse(), Ok(tcp("127.0.0.1:6080")));
    }

    #[test]
    fn names_and_half_addresses_are_refused_with_the_text() {
        for text in ["", ":", ":+1", ":70000", "localhost:", "::1:80", "127.0.0.1", "unix:"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
        let error = "edge-1.example:6080".parse::<Address>().unwrap_err().to_string();
        assert!(
            error.contains("`edge-1.example:6080`") && error.contains("write the address"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(ip: IpAddr, port: u16, path in "/[a-z/._-]{1,40}") {
            for address in [Address::Tcp((ip, port).into()), Address::Unix(path.into())] {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }

    #[test]
    fn who_listens_for_all_is_in_the_way_of_each() {
        let at = |text: &str| text.parse::<Address>().unwrap();
        for (one, other, is_in_way) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("[::]:0", "0.0.0.0:0", false),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", "[::]:80", false),
        ] {
            assert_eq!(at(one).is_in_way_of(&at(other)), is_in_way, "{one} {other}");
            assert_eq!(at(other).is_in_way_of(&at(one)), is_in_way, "{other} {one}");
        }
    }
}
