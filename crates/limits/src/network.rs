//! Networks of clients, as they are blocked.

use crate::error::LimitError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The first bits of an address. IPv4 is kept in its place in IPv6, so that an address has one form.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Prefix {
    address: u128,
    /// 0 to 128; 96 more than was written for IPv4.
    length: u8,
}

impl Prefix {
    /// All of an address.
    pub fn whole(address: IpAddr) -> Self {
        Self { address: bits(address), length: 128 }
    }

    /// The first `length` bits of it, where an IPv4 address has 96 to begin with.
    pub fn first(address: IpAddr, length: u8) -> Self {
        let length = length.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { address: bits(address) & mask, length }
    }

    /// How many bits count, with 96 for IPv4.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        Self::first(address, self.length) == self
    }
}

fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Prefix {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let refuse = || LimitError::Network { text: text.chars().take(64).collect() };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let before = if address.is_ipv4() { 96 } else { 0 };
        let length = match length {
            None => 128,
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length: u8 = length.parse().map_err(|_| refuse())?;
                length.checked_add(before).filter(|length| *length <= 128).ok_or_else(refuse)?
            }
            Some(_) => return Err(refuse()),
        };
        Ok(Self::first(address, length))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = Ipv6Addr::from_bits(self.address);
        let (address, length, whole) = match v6.to_ipv4_mapped() {
            Some(v4) if self.length >= 96 => (IpAddr::V4(v4), self.length - 96, 32),
            _ => (IpAddr::V6(v6), self.length, 128),
        };
        match length == whole {
            true => write!(f, "{address}"),
            false => write!(f, "{address}/{length}"),
        }
    }
}

impl From<Ipv4Addr> for Prefix {
    fn from(address: Ipv4Addr) -> Self {
        Self::whole(address.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_shown_in_one_form() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:DB8:0:1::1/56", "2001:db8::/56"),
            ("::/0", "::/0"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            let prefix: Prefix = text.parse().expect(text);
            assert_eq!(prefix.to_string(), shown);
            assert_eq!(shown.parse(), Ok(prefix));
        }
        for text in
            ["", "a", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/+8", "::/129", "::/999", "/8"]
        {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let has = |network: &str, address: &str| {
            network.parse::<Prefix>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.0/24", "::ffff:192.0.2.1"));
        assert!(has("0.0.0.0/0", "203.0.113.1") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("2001:db8::/56", "2001:db8:0:ff::1"));
    }
}
