//! Rules as bit sets: each field of a packet gives the set of filters that accept it, the sets are
//! intersected, and the lowest bit is the filter that goes first.

use super::index::{AddressIndex, PortIndex};
use super::reference::{self, Entry};
use super::{ADDRESSES_MAX, Act, Direction, ENTRIES_MAX, PORTS_MAX, Profile, Rule, Subject};
use thiserror::Error;

/// Profiles of clients a table knows.
pub const PROFILES_MAX: usize = 1024;

/// A set of filters.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Bits(pub [u64; 4]);

impl Bits {
    /// Those places that are true.
    pub fn of(places: impl Iterator<Item = bool>) -> Self {
        let mut bits = Self::default();
        for (place, _) in places.enumerate().filter(|(_, is)| *is) {
            bits.0[place / 64] |= 1 << (place % 64);
        }
        bits
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// The lowest place.
    #[must_use]
    pub fn first(self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
}

/// What a set of rules has too much of for the table.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum TooMuch {
    /// Filters.
    #[error("active rules have {0} filters in one direction; {ENTRIES_MAX} are the most")]
    Entries(usize),
    /// Address ranges.
    #[error(
        "active rules name too many addresses in one field; {ADDRESSES_MAX} ranges are the most"
    )]
    Addresses,
    /// Port ranges.
    #[error("active rules name too many ports in one field; {PORTS_MAX} ranges are the most")]
    Ports,
    /// Combinations of both.
    #[error("active rules divide one field into more than {} parts", super::index::CLASSES_MAX)]
    Classes,
    /// Profiles of clients.
    #[error(
        "clients differ in more than {PROFILES_MAX} combinations of tags, tunnel ends and network"
    )]
    Profiles,
}

/// What a filter's packets meet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Target {
    /// [`Act`] as a number.
    pub act: u8,
    /// App, for the acts that have one.
    pub app: u8,
    /// Number of the rule.
    pub rule: u16,
    /// Limiter, 0 being none.
    pub limiter: u8,
}

/// Fields no filter of a direction asks for are not looked at.
pub mod uses {
    /// Source address.
    pub const SOURCE: u32 = 1;
    /// Destination address.
    pub const DESTINATION: u32 = 1 << 1;
    /// Source port.
    pub const SOURCE_PORT: u32 = 1 << 2;
    /// Destination port.
    pub const DESTINATION_PORT: u32 = 1 << 3;
    /// Protocol.
    pub const PROTOCOL: u32 = 1 << 4;
    /// DSCP or traffic class.
    pub const TRAFFIC_CLASS: u32 = 1 << 5;
    /// Tags, tunnel ends or network.
    pub const PROFILE: u32 = 1 << 6;
}

/// The rules of one direction.
#[derive(Clone, Debug)]
pub struct Side {
    /// See [`uses`].
    pub uses: u32,
    /// All filters there are.
    pub all: Bits,
    /// Source and destination address.
    pub addresses: [AddressIndex; 2],
    /// Source and destination port.
    pub ports: [PortIndex; 2],
    /// By protocol number.
    pub protocols: Vec<Bits>,
    /// By 256 for IPv6 and the type of service or traffic class.
    pub traffic_classes: Vec<Bits>,
    /// By the number of a client's profile.
    pub profiles: Vec<Bits>,
    /// What each filter does.
    pub targets: Vec<Target>,
}

/// A whole set of rules for both directions.
#[derive(Clone, Debug)]
pub struct Table {
    /// Which set this is.
    pub generation: u64,
    /// By [`Direction`].
    pub sides: [Side; 2],
}

impl Table {
    /// Compiles checked rules for clients of these profiles.
    ///
    /// # Errors
    /// What there is too much of.
    pub fn new(generation: u64, rules: &[Rule], profiles: &[Profile]) -> Result<Self, TooMuch> {
        let side =
            |direction| Side::new(&reference::entries(rules, direction), direction, profiles);
        Ok(Self { generation, sides: [side(Direction::Uplink)?, side(Direction::Downlink)?] })
    }

    /// The first filter that matches, for a client of this profile.
    #[must_use]
    pub fn first_match(
        &self,
        direction: Direction,
        subject: &Subject,
        profile: usize,
    ) -> Option<usize> {
        self.sides[direction as usize].first_match(subject, profile)
    }
}

impl Side {
    fn new(
        entries: &[Entry<'_>],
        direction: Direction,
        profiles: &[Profile],
    ) -> Result<Self, TooMuch> {
        if entries.len() > ENTRIES_MAX {
            return Err(TooMuch::Entries(entries.len()));
        }
        if profiles.len() > PROFILES_MAX {
            return Err(TooMuch::Profiles);
        }
        let bits = |holds: &dyn Fn(&Entry<'_>) -> bool| Bits::of(entries.iter().map(holds));
        let addresses = |side: usize| {
            let fields: Vec<_> =
                entries.iter().map(|entry| entry.filter.addresses[side].as_slice()).collect();
            if fields.iter().map(|ranges| ranges.len()).sum::<usize>() > ADDRESSES_MAX {
                return Err(TooMuch::Addresses);
            }
            AddressIndex::new(&fields)
        };
        let ports = |side: usize| {
            let fields: Vec<_> =
                entries.iter().map(|entry| entry.filter.ports[side].as_slice()).collect();
            if fields.iter().map(|ranges| ranges.len()).sum::<usize>() > PORTS_MAX {
                return Err(TooMuch::Ports);
            }
            PortIndex::new(&fields)
        };
        let of_protocol = |protocol: u8| {
            bits(&|entry| {
                let list = &entry.filter.protocols;
                list.is_empty() || list.contains(&protocol)
            })
        };
        let of_class = |number: usize| {
            let (version, class) = if number < 256 { (4, number) } else { (6, number - 256) };
            bits(&|entry| reference::has_class(&entry.filter, version, class as u8))
        };
        Ok(Self {
            uses: fields_used(entries),
            all: Bits::of(entries.iter().map(|_| true)),
            addresses: [addresses(0)?, addresses(1)?],
            ports: [ports(0)?, ports(1)?],
            protocols: (0..=255).map(of_protocol).collect(),
            traffic_classes: (0..512).map(of_class).collect(),
            profiles: profiles
                .iter()
                .map(|profile| {
                    bits(&|entry| reference::has_profile(&entry.filter, direction, profile))
                })
                .collect(),
            targets: entries.iter().map(target).collect(),
        })
    }

    fn first_match(&self, subject: &Subject, profile: usize) -> Option<usize> {
        let class = usize::from(subject.traffic_class) + if subject.version == 6 { 256 } else { 0 };
        let ports = subject.ports;
        let sets = [
            (uses::SOURCE, self.addresses[0].set(subject.addresses[0])),
            (uses::DESTINATION, self.addresses[1].set(subject.addresses[1])),
            (uses::SOURCE_PORT, self.ports[0].set(ports.map(|ports| ports[0]))),
            (uses::DESTINATION_PORT, self.ports[1].set(ports.map(|ports| ports[1]))),
            (uses::PROTOCOL, self.protocols[usize::from(subject.protocol)]),
            (uses::TRAFFIC_CLASS, self.traffic_classes[class]),
            (uses::PROFILE, self.profiles.get(profile).copied().unwrap_or_default()),
        ];
        let used = sets.into_iter().filter(|(field, _)| self.uses & field != 0);
        used.fold(self.all, |left, (_, set)| left.and(set)).first()
    }
}

fn fields_used(entries: &[Entry<'_>]) -> u32 {
    let mut used = 0;
    for filter in entries.iter().map(|entry| &entry.filter) {
        let fields = [
            (uses::SOURCE, !filter.addresses[0].is_empty()),
            (uses::DESTINATION, !filter.addresses[1].is_empty()),
            (uses::SOURCE_PORT, !filter.ports[0].is_empty()),
            (uses::DESTINATION_PORT, !filter.ports[1].is_empty()),
            (uses::PROTOCOL, !filter.protocols.is_empty()),
            (uses::TRAFFIC_CLASS, filter.dscp.is_some() || filter.traffic_class.is_some()),
            (uses::PROFILE, filter.asks_for_profile()),
        ];
        used |= fields.into_iter().filter(|(_, is)| *is).fold(0, |all, (field, _)| all | field);
    }
    used
}

/// What a filter's packets meet. An answer of a broken out flow that comes from the core is nothing
/// for the app: it goes on.
#[must_use]
pub fn target(entry: &Entry<'_>) -> Target {
    let is_answer = entry.is_reversed && entry.rule.act == Act::Breakout;
    let act = if is_answer { Act::Pass } else { entry.rule.act };
    Target {
        act: act as u8,
        app: entry.rule.app.unwrap_or_default(),
        rule: entry.rule.number,
        limiter: entry.limiter,
    }
}
