//! From an address or a port to the set of filters that accept it, in a number of steps that does not
//! grow with the rules.
//!
//! The values between two neighbouring ends of all ranges are accepted by the same filters: they are a
//! class. IPv4 finds its class in at most three look-ups, by the first 16 bits, the next 8 and the
//! last 8; a port by one; IPv6 by halving the list of ends.

use super::AddressRange;
use super::compile::{Bits, TooMuch};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Classes of one field.
pub const CLASSES_MAX: usize = 1024;
/// Blocks of 256 addresses of one field: each end of a range needs two at most.
pub const BLOCKS_MAX: usize = 2048;
/// Ends of IPv6 ranges of one field; a power of two.
pub const IPV6_ENDS_MAX: usize = 1024;
/// Marks an entry that leads to a block.
pub const IS_BLOCK: u16 = 0x8000;

/// Sets, each kept once.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The sets by their number.
    pub sets: Vec<Bits>,
    numbers: HashMap<Bits, u16>,
}

impl Classes {
    fn number(&mut self, set: Bits) -> Result<u16, TooMuch> {
        if let Some(number) = self.numbers.get(&set) {
            return Ok(*number);
        }
        if self.sets.len() == CLASSES_MAX {
            return Err(TooMuch::Classes);
        }
        let number = self.sets.len() as u16;
        self.sets.push(set);
        self.numbers.insert(set, number);
        Ok(number)
    }
}

/// One address field.
#[derive(Clone, Debug)]
pub struct AddressIndex {
    /// By the first 16 bits of IPv4: a class, or [`IS_BLOCK`] and a block.
    pub top: Vec<u16>,
    /// By 8 bits more: likewise, or for the last 8 bits a class.
    pub blocks: Vec<[u16; 256]>,
    /// Where classes of IPv6 begin, rising; the first is 0.
    pub ipv6_starts: Vec<u128>,
    /// The class from each start on.
    pub ipv6_classes: Vec<u16>,
    /// The sets.
    pub classes: Classes,
}

impl AddressIndex {
    /// Compiles a field: for each filter, in their order, the ranges it accepts; none accepts all.
    ///
    /// # Errors
    /// What there is too much of.
    pub fn new(fields: &[&[AddressRange]]) -> Result<Self, TooMuch> {
        let mut index = Self {
            top: vec![0; 1 << 16],
            blocks: Vec::new(),
            ipv6_starts: Vec::new(),
            ipv6_classes: Vec::new(),
            classes: Classes::default(),
        };
        let starts4 = starts(fields, true, crate::packet::mapped(0));
        let classes4 = index.classes_of(&starts4, fields)?;
        let starts4: Vec<u64> = starts4.iter().map(|start| (*start as u64) & 0xffff_ffff).collect();
        index.fill(&starts4, &classes4)?;
        index.ipv6_starts = starts(fields, false, 0);
        if index.ipv6_starts.len() > IPV6_ENDS_MAX {
            return Err(TooMuch::Addresses);
        }
        index.ipv6_classes = index.classes_of(&index.ipv6_starts.clone(), fields)?;
        Ok(index)
    }

    fn classes_of(
        &mut self,
        starts: &[u128],
        fields: &[&[AddressRange]],
    ) -> Result<Vec<u16>, TooMuch> {
        let set_of = |start: u128| {
            let accepts = |ranges: &[AddressRange]| {
                ranges.is_empty() || ranges.iter().any(|range| range.contains(start))
            };
            Bits::of(fields.iter().map(|ranges| accepts(ranges)))
        };
        starts.iter().map(|start| self.classes.number(set_of(*start))).collect()
    }

    /// Fills the levels of IPv4 from the starts of its classes.
    fn fill(&mut self, starts: &[u64], classes: &[u16]) -> Result<(), TooMuch> {
        // The class at an address, and whether it holds for `size` addresses from there.
        let at = |address: u64, size: u64| {
            let place = starts.partition_point(|start| *start <= address) - 1;
            let is_whole = starts.get(place + 1).is_none_or(|next| *next >= address + size);
            (classes[place], is_whole)
        };
        for high in 0..1_u64 << 16 {
            let address = high << 16;
            let (class, is_whole) = at(address, 1 << 16);
            self.top[high as usize] = if is_whole {
                class
            } else {
                let block = self.block()?;
                for middle in 0..256 {
                    let address = address | (middle << 8);
                    let (class, is_whole) = at(address, 256);
                    let entry = if is_whole {
                        class
                    } else {
                        let block = self.block()?;
                        for low in 0..256 {
                            self.blocks[block][low as usize] = at(address | low, 1).0;
                        }
                        IS_BLOCK | block as u16
                    };
                    self.blocks[block][middle as usize] = entry;
                }
                IS_BLOCK | block as u16
            };
        }
        Ok(())
    }

    fn block(&mut self) -> Result<usize, TooMuch> {
        if self.blocks.len() == BLOCKS_MAX {
            return Err(TooMuch::Addresses);
        }
        self.blocks.push([0; 256]);
        Ok(self.blocks.len() - 1)
    }

    /// The filters that accept the address.
    #[must_use]
    pub fn set(&self, address: u128) -> Bits {
        let class = match crate::packet::unmapped(address) {
            Some(address) => {
                let mut entry = self.top[(address >> 16) as usize];
                for shift in [8, 0] {
                    if entry & IS_BLOCK == 0 {
                        break;
                    }
                    let block = usize::from(entry & !IS_BLOCK);
                    entry = self.blocks[block][(address >> shift) as usize & 0xff];
                }
                entry
            }
            None => {
                let place = self.ipv6_starts.partition_point(|start| *start <= address) - 1;
                self.ipv6_classes[place]
            }
        };
        self.classes.sets[usize::from(class)]
    }
}

/// Where something changes: the first address, each range's start and what follows its end.
fn starts(fields: &[&[AddressRange]], is_ipv4: bool, first: u128) -> Vec<u128> {
    let most = if is_ipv4 { crate::packet::mapped(u32::MAX) } else { u128::MAX };
    let ranges = fields.iter().copied().flatten().filter(|range| range.is_ipv4() == is_ipv4);
    let mut starts: Vec<u128> = ranges
        .flat_map(|range| [Some(range.first), (range.last < most).then(|| range.last + 1)])
        .flatten()
        .chain([first])
        .collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// One port field.
#[derive(Clone, Debug)]
pub struct PortIndex {
    /// The class of each port.
    pub class: Vec<u16>,
    /// The sets.
    pub classes: Classes,
    /// Filters that accept a packet whose port is not known.
    pub unknown: Bits,
}

impl PortIndex {
    /// Compiles a field; as [`AddressIndex::new`].
    ///
    /// # Errors
    /// What there is too much of.
    pub fn new(fields: &[&[RangeInclusive<u16>]]) -> Result<Self, TooMuch> {
        let mut index = Self {
            class: vec![0; 1 << 16],
            classes: Classes::default(),
            unknown: Bits::of(fields.iter().map(|ranges| ranges.is_empty())),
        };
        let mut starts: Vec<u32> = fields
            .iter()
            .copied()
            .flatten()
            .flat_map(|range| [u32::from(*range.start()), u32::from(*range.end()) + 1])
            .chain([0])
            .filter(|start| *start < 1 << 16)
            .collect();
        starts.sort_unstable();
        starts.dedup();
        for (place, start) in starts.iter().enumerate() {
            let port = *start as u16;
            let accepts = |ranges: &[RangeInclusive<u16>]| {
                ranges.is_empty() || ranges.iter().any(|range| range.contains(&port))
            };
            let class = index.classes.number(Bits::of(fields.iter().map(|list| accepts(list))))?;
            let end = starts.get(place + 1).copied().unwrap_or(1 << 16);
            index.class[*start as usize..end as usize].fill(class);
        }
        Ok(index)
    }

    /// The filters that accept the port.
    #[must_use]
    pub fn set(&self, port: Option<u16>) -> Bits {
        port.map_or(self.unknown, |port| {
            self.classes.sets[usize::from(self.class[usize::from(port)])]
        })
    }
}
