//! Which of many prefixes an address is in: the longest one.
//!
//! Prefixes nest, so they are laid flat once: ranges without gaps between them, each with the value of
//! its longest prefix. Looking up is a binary search, and the block of addresses around one that all
//! have the same value can be told to a resolver, which may keep the answer for all of them
//! (RFC 7871 §7.2.1).

use std::net::IpAddr;

/// No value: no prefix has the address.
const NONE: u32 = u32::MAX;

/// A prefix with its value. Bits after the prefix are ignored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefix {
    /// An address in it.
    pub address: IpAddr,
    /// Its length; at most 32 or 128.
    pub bits: u8,
}

impl Prefix {
    /// The prefix of an address that is that long, or the address itself where it is not longer.
    pub fn of(address: IpAddr, bits: u8) -> Self {
        let address = address.to_canonical();
        let (address, width) = match address {
            IpAddr::V4(one) => {
                let bits = bits.min(32);
                (IpAddr::from(one.to_bits().first(bits).to_be_bytes()), 32)
            }
            IpAddr::V6(one) => {
                let bits = bits.min(128);
                (IpAddr::from(one.to_bits().first(bits).to_be_bytes()), 128)
            }
        };
        Self { address, bits: bits.min(width) }
    }

    /// Reads `192.0.2.0/24`, or an address alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network: write 192.0.2.0/24 or 2001:db8::/32");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), str::parse).map_err(|_| wrong())?;
        if bits > width {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Prefixes on their way into a table.
#[derive(Debug, Default)]
pub struct Draft {
    v4: Vec<(u32, u8, u32)>,
    v6: Vec<(u128, u8, u32)>,
}

impl Draft {
    /// Adds a prefix with its value, which is below [`u32::MAX`].
    pub fn add(&mut self, prefix: Prefix, value: u32) {
        match prefix.address {
            IpAddr::V4(address) => {
                self.v4.push((address.to_bits().first(prefix.bits), prefix.bits, value));
            }
            IpAddr::V6(address) => {
                self.v6.push((address.to_bits().first(prefix.bits), prefix.bits, value));
            }
        }
    }

    /// Room for so many more of each family.
    pub fn reserve(&mut self, v4: usize, v6: usize) {
        self.v4.reserve(v4);
        self.v6.reserve(v6);
    }
}

/// Prefixes, IPv4 and IPv6, each with a value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Prefixes {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    len: usize,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// The value of the longest prefix; `None` where no prefix has the address.
    pub value: Option<u32>,
    /// Length of the shortest prefix around the address whose addresses all have that value.
    pub scope_bits: u8,
}

impl Prefixes {
    /// Lays prefixes flat. O(n log n); twice the memory of the table meanwhile.
    ///
    /// # Errors
    /// A prefix that is there twice, with two values.
    pub fn new(draft: Draft) -> Result<Self, Prefix> {
        let len = draft.v4.len() + draft.v6.len();
        Ok(Self { v4: Ranges::new(draft.v4)?, v6: Ranges::new(draft.v6)?, len })
    }

    /// The value for an address. An IPv4 address in IPv6 form counts as IPv4.
    pub fn find(&self, address: IpAddr) -> Found {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        }
    }

    /// How many prefixes it was made of.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.v4.heap_bytes() + self.v6.heap_bytes()
    }
}

/// Addresses of one family as numbers.
trait Word: Copy + Ord + std::ops::BitXor<Output = Self> {
    const WIDTH: u8;
    const MAX: Self;
    /// The first address of the prefix of that length.
    fn first(self, bits: u8) -> Self;
    /// The last.
    fn last(self, bits: u8) -> Self;
    fn after(self) -> Option<Self>;
    fn before(self) -> Option<Self>;
    fn leading_zeros(self) -> u8;
    fn prefix(self, bits: u8) -> Prefix;
}

macro_rules! word {
    ($word:ty, $width:literal) => {
        impl Word for $word {
            const WIDTH: u8 = $width;
            const MAX: Self = <$word>::MAX;

            fn first(self, bits: u8) -> Self {
                self & !<$word>::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
            }

            fn last(self, bits: u8) -> Self {
                self | <$word>::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
            }

            fn after(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn leading_zeros(self) -> u8 {
                // At most 128.
                self.leading_zeros() as u8
            }

            fn prefix(self, bits: u8) -> Prefix {
                Prefix { address: self.to_be_bytes().into(), bits }
            }
        }
    };
}

word!(u32, 32);
word!(u128, 128);

/// Where the value changes, in order: each range begins at its start and ends before the next. Starts
/// and values apart, since together the compiler would pad them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Ranges<W> {
    starts: Vec<W>,
    values: Vec<u32>,
}

impl<W: Word> Ranges<W> {
    fn new(mut prefixes: Vec<(W, u8, u32)>) -> Result<Self, Prefix> {
        // Those around others come before them.
        prefixes.sort_unstable_by_key(|&(start, bits, _)| (start, bits));
        let mut out = Self {
            starts: Vec::with_capacity(2 * prefixes.len() + 1),
            values: Vec::with_capacity(2 * prefixes.len() + 1),
        };
        // The prefixes around the present place, the longest last, by their ends.
        let mut around: Vec<(W, u32)> = Vec::with_capacity(usize::from(W::WIDTH) + 1);
        let mut before: Option<(W, u8, u32)> = None;
        for one @ (start, bits, value) in prefixes {
            match before.replace(one) {
                Some((same, length, other)) if (same, length) == (start, bits) => {
                    if other != value {
                        return Err(start.prefix(bits));
                    }
                    continue;
                }
                _ => {}
            }
            out.leave(&mut around, Some(start));
            out.change(start, value);
            around.push((start.last(bits), value));
        }
        out.leave(&mut around, None);
        out.starts.shrink_to_fit();
        out.values.shrink_to_fit();
        Ok(out)
    }

    /// Ends the prefixes that end before `place`, or all of them.
    fn leave(&mut self, around: &mut Vec<(W, u32)>, place: Option<W>) {
        while let Some((end, _)) = around.pop_if(|(end, _)| place.is_none_or(|place| *end < place))
        {
            let value = around.last().map_or(NONE, |(_, value)| *value);
            if let Some(next) = end.after() {
                self.change(next, value);
            }
        }
    }

    /// From `start` on it is `value`.
    fn change(&mut self, start: W, value: u32) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
        }
        if self.values.last().copied().unwrap_or(NONE) != value {
            self.starts.push(start);
            self.values.push(value);
        }
    }

    fn find(&self, address: W) -> Found {
        let next = self.starts.partition_point(|start| *start <= address);
        let own = next.checked_sub(1);
        let value = own.and_then(|own| self.values.get(own)).copied().unwrap_or(NONE);
        // A block stays in the range when it is too short to reach the neighbours.
        let apart = |neighbour: W| (address ^ neighbour).leading_zeros() + 1;
        let below = own.and_then(|own| self.starts.get(own)?.before()).map_or(0, apart);
        let above = self.starts.get(next).map_or(0, |next| apart(*next));
        debug_assert!(below <= W::WIDTH && above <= W::WIDTH && address <= W::MAX);
        Found { value: Some(value).filter(|value| *value != NONE), scope_bits: below.max(above) }
    }

    fn heap_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<W>() + self.values.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(prefixes: &[(&str, u32)]) -> Prefixes {
        let mut draft = Draft::default();
        for (text, value) in prefixes {
            draft.add(Prefix::read(text).unwrap(), *value);
        }
        Prefixes::new(draft).unwrap()
    }

    fn find(table: &Prefixes, address: &str) -> (Option<u32>, u8) {
        let found = table.find(address.parse().unwrap());
        (found.value, found.scope_bits)
    }

    #[test]
    fn the_longest_prefix_wins_and_the_scope_has_no_other_in_it() {
        let table = table(&[
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 1),
            ("2001:db8::/32", 3),
            ("0.0.0.0/0", 0),
        ]);
        assert_eq!(find(&table, "10.1.2.3"), (Some(1), 24));
        assert_eq!(find(&table, "10.1.3.3"), (Some(2), 24), "10.1.2.0/23 has another in it");
        assert_eq!(find(&table, "10.200.0.1"), (Some(1), 9));
        assert_eq!(find(&table, "::ffff:10.200.0.1"), (Some(1), 9));
        assert_eq!(find(&table, "192.0.2.1"), (Some(0), 1));
        assert_eq!(find(&table, "2001:db8::1"), (Some(3), 32));
        assert_eq!(find(&table, "2001:db9::1"), (None, 32));
        assert_eq!(Prefixes::default().find([192, 0, 2, 1].into()).scope_bits, 0);
    }

    #[test]
    fn a_prefix_of_two_values_is_refused() {
        let mut draft = Draft::default();
        draft.add(Prefix::read("10.0.0.1/8").unwrap(), 1);
        draft.add(Prefix::read("10.0.0.0/8").unwrap(), 1);
        draft.add(Prefix::read("10.9.0.0/8").unwrap(), 2);
        assert_eq!(Prefixes::new(draft).unwrap_err().to_string(), "10.0.0.0/8");
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "a", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(Prefix::read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Prefix::of("10.1.2.3".parse().unwrap(), 24).to_string(), "10.1.2.0/24");
    }

    /// Few bits differ, so that prefixes meet and nest.
    fn prefix() -> impl Strategy<Value = (Prefix, u32)> {
        let v4 = (0..=255_u32, 0..=8_u8, 20..=32_u8).prop_map(|(low, high, bits)| {
            (IpAddr::from((low | u32::from(high) << 24).to_be_bytes()), bits)
        });
        let v6 = (any::<u8>(), 112..=128_u8)
            .prop_map(|(low, bits)| (IpAddr::from(u128::from(low).to_be_bytes()), bits));
        let any = prop_oneof![
            v4,
            v6,
            Just((IpAddr::from([0; 4]), 0)),
            Just((IpAddr::from([255; 4]), 31))
        ];
        (any, 0..4_u32).prop_map(|((address, bits), value)| (Prefix { address, bits }, value))
    }

    fn naive(prefixes: &[(Prefix, u32)], address: IpAddr) -> Option<u32> {
        let has = |prefix: &Prefix| {
            prefix.address.is_ipv4() == address.is_ipv4()
                && Prefix::of(address, prefix.bits) == Prefix::of(prefix.address, prefix.bits)
        };
        let matching = prefixes.iter().filter(|(prefix, _)| has(prefix));
        matching.max_by_key(|(prefix, _)| prefix.bits).map(|(_, value)| *value)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_walk_of_all_finds(
            given in prop::collection::vec(prefix(), 0..40),
            low in any::<u8>(), high in 0..=9_u8, is_v6 in any::<bool>(),
        ) {
            let mut prefixes: Vec<(Prefix, u32)> = Vec::new();
            for (prefix, value) in given {
                let prefix = Prefix::of(prefix.address, prefix.bits);
                if !prefixes.iter().any(|(other, _)| *other == prefix) {
                    prefixes.push((prefix, value));
                }
            }
            let mut draft = Draft::default();
            prefixes.iter().for_each(|(prefix, value)| draft.add(*prefix, *value));
            let table = Prefixes::new(draft).unwrap();
            let address: IpAddr = if is_v6 {
                u128::from(low).to_be_bytes().into()
            } else {
                (u32::from(low) | u32::from(high) << 24).to_be_bytes().into()
            };
            let found = table.find(address);
            prop_assert_eq!(found.value, naive(&prefixes, address));
            // All in the scope have the same, and in a shorter one somebody has another.
            let block = Prefix::of(address, found.scope_bits);
            for (prefix, _) in &prefixes {
                let inside = prefix.address.is_ipv4() == address.is_ipv4()
                    && Prefix::of(prefix.address, block.bits).address == block.address
                    && prefix.bits >= block.bits;
                if inside {
                    prop_assert_eq!(naive(&prefixes, prefix.address), found.value);
                }
            }
        }
    }
}
