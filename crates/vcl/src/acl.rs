//! Access lists: networks, the longest first.

use crate::source::Span;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An access list.
#[derive(Clone, Debug, PartialEq)]
pub struct Acl {
    /// Its name.
    pub name: Box<str>,
    /// Whether matches are logged.
    pub log: bool,
    /// Entries, the most exact first.
    pub entries: Vec<Entry>,
    /// Where it is declared.
    pub span: Span,
}

/// An entry of an access list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// A network's first address.
    pub address: IpAddr,
    /// Bits of it that count.
    pub bits: u8,
    /// Whether addresses in it are not in the list.
    pub negated: bool,
    /// As it is written.
    pub text: Box<str>,
    /// Where.
    pub span: Span,
}

impl Acl {
    /// The entry that decides about an address. IPv4 addresses written as IPv6 count as IPv4.
    pub fn find(&self, address: IpAddr) -> Option<&Entry> {
        let address = address.to_canonical();
        self.entries.iter().find(|entry| entry.contains(address))
    }

    /// Whether an address is in the list.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.find(address).is_some_and(|entry| !entry.negated)
    }

    /// Puts the entries into the order they are looked at. Returns two that contradict each other.
    pub(crate) fn arrange(&mut self) -> Option<(Span, Span)> {
        // The most exact first; of equals, the one written first.
        self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.bits));
        for (at, one) in self.entries.iter().enumerate() {
            let same = self.entries[at + 1..]
                .iter()
                .take_while(|other| other.bits == one.bits)
                .find(|other| {
                    number(other.address) == number(one.address)
                        && other.address.is_ipv4() == one.address.is_ipv4()
                        && other.negated != one.negated
                });
            if let Some(other) = same {
                return Some((one.span, other.span));
            }
        }
        None
    }
}

impl Entry {
    /// Whether an address is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let width = width(self.address);
        if self.address.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let shift = u32::from(width - self.bits.min(width));
        let cut = |address: IpAddr| number(address).checked_shr(shift).unwrap_or(0);
        cut(self.address) == cut(address)
    }

    /// Whether bits behind the mask are set.
    pub(crate) fn has_bits_behind_mask(&self) -> bool {
        let shift = u32::from(width(self.address) - self.bits);
        let mask = 1_u128.checked_shl(shift).map_or(u128::MAX, |bit| bit - 1);
        number(self.address) & mask != 0
    }
}

/// Bits of an address.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A network written with fewer than four numbers, as `10.1` for 10.1.0.0/16, or with all four.
pub(crate) fn short_network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *bytes.get_mut(count)? = part.trim_start().parse::<u32>().ok()?.try_into().ok()?;
        count += 1;
    }
    Some((bytes.into(), 8 * count as u8))
}

/// The first address of the network an address is in.
pub(crate) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}
