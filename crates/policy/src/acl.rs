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
    /// Entries, by their first address, the least exact first.
    pub entries: Vec<Entry>,
    /// Where it is declared.
    pub span: Span,
    ranges: Ranges,
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

/// Which entry decides about an address: networks within one another cut into ranges that follow
/// one another, so that a look-up is one binary search. A range is its first address, and one more
/// than the place of its entry, or 0 where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ranges {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u32)>,
}

impl Acl {
    /// A list without entries.
    pub fn new(name: Box<str>, span: Span) -> Self {
        Self { name, log: false, entries: Vec::new(), span, ranges: Ranges::default() }
    }

    /// The entry that decides about an address, the most exact one. IPv4 addresses written as IPv6
    /// count as IPv4. Takes O(log n).
    pub fn find(&self, address: IpAddr) -> Option<&Entry> {
        let place = match address.to_canonical() {
            IpAddr::V4(address) => decides(&self.ranges.v4, u32::from(address)),
            IpAddr::V6(address) => decides(&self.ranges.v6, u128::from(address)),
        };
        self.entries.get((place as usize).checked_sub(1)?)
    }

    /// Whether an address is in the list.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.find(address).is_some_and(|entry| !entry.negated)
    }

    /// Takes the entries as they are written. Returns two that contradict each other.
    pub fn arrange(&mut self) -> Option<(Span, Span)> {
        let key = |entry: &Entry| (entry.address.is_ipv6(), number(entry.address), entry.bits);
        // Of equals the one written first stays in front.
        self.entries.sort_by_key(key);
        let contradict =
            |pair: &&[Entry]| key(&pair[0]) == key(&pair[1]) && pair[0].negated != pair[1].negated;
        let found = self.entries.windows(2).find(contradict);
        let found = found.map(|pair| (pair[0].span, pair[1].span));
        self.entries.dedup_by_key(|entry| key(entry));
        let split = self.entries.partition_point(|entry| entry.address.is_ipv4());
        let (v4, v6) = self.entries.split_at(split);
        let narrow = |(first, place): (u128, u32)| (u32::try_from(first).unwrap_or(0), place);
        self.ranges.v4 = ranges(v4, 1).into_iter().map(narrow).collect();
        self.ranges.v6 = ranges(v6, split as u32 + 1);
        found
    }
}

/// The place in the range an address is in; 0 for none.
fn decides<T: Copy + Ord>(ranges: &[(T, u32)], address: T) -> u32 {
    let behind = ranges.partition_point(|(first, _)| *first <= address);
    behind.checked_sub(1).map_or(0, |at| ranges[at].1)
}

/// Cuts networks of one family into ranges; the first has the place `place`.
fn ranges(entries: &[Entry], place: u32) -> Vec<(u128, u32)> {
    let mut out: Vec<(u128, u32)> = Vec::with_capacity(2 * entries.len());
    let mut begin = |first: u128, place: u32| match out.last_mut() {
        Some(last) if last.0 == first => last.1 = place,
        _ => out.push((first, place)),
    };
    // The networks around the one that is looked at, with the address behind each.
    let mut around: Vec<(Option<u128>, u32)> = Vec::new();
    for (entry, place) in entries.iter().zip(place..) {
        let first = number(entry.address);
        while let Some((Some(end), _)) =
            around.last().copied().filter(|(end, _)| end.is_some_and(|end| end <= first))
        {
            around.pop();
            begin(end, around.last().map_or(0, |(_, place)| *place));
        }
        begin(first, place);
        let size = 1_u128.checked_shl(u32::from(width(entry.address) - entry.bits));
        let limit = if entry.address.is_ipv4() { 1_u128 << 32 } else { 0 };
        let end = size.and_then(|size| first.checked_add(size)).filter(|end| *end != limit);
        around.push((end, place));
    }
    while let Some((end, _)) = around.pop() {
        if let Some(end) = end {
            begin(end, around.last().map_or(0, |(_, place)| *place));
        }
    }
    out
}

impl Entry {
    /// Whether bits behind the mask are set.
    pub fn has_bits_behind_mask(&self) -> bool {
        let shift = u32::from(width(self.address) - self.bits);
        let mask = 1_u128.checked_shl(shift).map_or(u128::MAX, |bit| bit - 1);
        number(self.address) & mask != 0
    }
}

/// Bits of an address.
pub fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A network written with fewer than four numbers, as `10.1` for 10.1.0.0/16, or with all four.
pub fn short_network(text: &str) -> Option<(Ipv4Addr, u8)> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        *bytes.get_mut(count)? = part.trim_start().parse::<u32>().ok()?.try_into().ok()?;
        count += 1;
    }
    Some((bytes.into(), 8 * count as u8))
}

/// The first address of the network an address is in.
pub fn masked(address: IpAddr, bits: u8) -> IpAddr {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str, bits: u8, negated: bool) -> Entry {
        let span = Span::default();
        Entry { address: text.parse().unwrap(), bits, negated, text: text.into(), span }
    }

    fn list(entries: Vec<Entry>) -> Acl {
        let mut acl = Acl::new("a".into(), Span::default());
        acl.entries = entries;
        acl.arrange();
        acl
    }

    /// The most exact entry by a look at each.
    fn naive(entries: &[Entry], address: IpAddr) -> Option<(IpAddr, u8)> {
        let holds = |entry: &&Entry| {
            entry.address.is_ipv4() == address.is_ipv4()
                && masked(address, entry.bits) == masked(entry.address, entry.bits)
        };
        let best = entries.iter().filter(holds).max_by_key(|entry| entry.bits);
        best.map(|entry| (entry.address, entry.bits))
    }

    #[test]
    fn networks_within_one_another() {
        let acl = list(vec![
            entry("0.0.0.0", 0, true),
            entry("10.0.0.0", 8, false),
            entry("10.255.0.0", 16, true),
            entry("255.255.255.255", 32, false),
            entry("::", 0, false),
            entry("ffff:ffff::", 32, true),
        ]);
        let found = |text: &str| acl.contains(text.parse().unwrap());
        assert!(found("10.0.0.0") && found("10.254.255.255") && !found("10.255.0.0"));
        assert!(!found("11.0.0.0") && !found("9.255.255.255") && found("255.255.255.255"));
        assert!(found("::1") && !found("ffff:ffff::1") && found("ffff:fffe::"));
        assert!(found("::ffff:10.1.1.1") && !found("::ffff:11.1.1.1"));
        assert!(!list(Vec::new()).contains("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn as_a_look_at_each_entry_says() {
        let mut seed = 7_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        for _ in 0..200 {
            let mut entries = Vec::new();
            for _ in 0..next() % 12 {
                let bits = (next() % 33) as u8;
                // Few addresses, so that networks meet.
                let address =
                    masked(Ipv4Addr::from(((next() % 64) << 26) | (next() % 4)).into(), bits);
                entries.push(Entry { address, ..entry("0.0.0.0", bits, next() % 2 == 0) });
            }
            let acl = list(entries.clone());
            for _ in 0..200 {
                let address: IpAddr = Ipv4Addr::from(((next() % 64) << 26) | (next() % 4)).into();
                let found = acl.find(address).map(|entry| (entry.address, entry.bits));
                assert_eq!(found, naive(&entries, address), "{address} in {entries:?}");
            }
        }
    }

    #[test]
    fn entries_that_contradict_each_other_are_found() {
        let mut acl = Acl::new("a".into(), Span::default());
        acl.entries = vec![entry("10.0.0.0", 8, false), entry("10.0.0.0", 8, true)];
        assert!(acl.arrange().is_some());
    }
}
