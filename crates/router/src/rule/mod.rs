//! Traffic rules as ETSI GS MEC 011 has them (§7.1.2.2, §7.1.5), read, checked and compiled.
//!
//! [`wire`] is the form they arrive in, [`check`](check::check) turns a whole set into [`Rule`]s or
//! says every mistake with its place, [`compile`] makes the bit sets the kernel looks packets up in,
//! and [`mod@reference`] says slowly and plainly what these must answer.

pub mod check;
pub mod compile;
pub mod index;
pub mod name;
pub mod reference;
pub mod wire;

use crate::packet::mapped;
use std::ops::RangeInclusive;

/// Where IPv4 is among all addresses.
const IPV4_FIRST: u128 = mapped(0);
const IPV4_LAST: u128 = mapped(u32::MAX);
/// Filters of active rules that can be told apart in one direction: bits of a set.
pub const ENTRIES_MAX: usize = 256;
/// Rules a set may hold, active and inactive.
pub const RULES_MAX: usize = 1024;
/// Address ranges that the filters of one direction may name in one field.
pub const ADDRESSES_MAX: usize = 500;
/// Port ranges that the filters of one direction may name in one field.
pub const PORTS_MAX: usize = 500;
/// Ranges, protocols or tags in one list of one filter.
pub const LIST_MAX: usize = 64;

/// The way of a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Direction {
    /// From the client.
    Uplink = 0,
    /// To the client.
    Downlink = 1,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Act {
    /// Let it go on to the core as it came.
    Pass = 0,
    /// Drop it.
    Drop = 1,
    /// Take it out of its tunnel and give it to the app: breakout.
    Breakout = 2,
    /// Give it to the app as it came, and what comes out on the app's other side on: in-line.
    InLine = 3,
    /// Let it go on and give the app a copy: tap.
    Tap = 4,
}

/// A rule that was checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Its identifier.
    pub id: String,
    /// Its number for counters: stable while rules of the same identifier follow each other.
    pub number: u16,
    /// Whether answers of the flow are matched too, with source and destination exchanged.
    pub is_flow: bool,
    /// 0 goes first, 255 last; equal ones by their order in the set.
    pub priority: u8,
    /// At least one; any of them suffices.
    pub filters: Vec<Filter>,
    /// What is done.
    pub act: Act,
    /// Which app, for the acts that have one.
    pub app: Option<u8>,
    /// Whether it takes part.
    pub is_active: bool,
    /// Which limiter its packets pass: an index, 0 being none.
    pub limiter: u8,
    /// Packets of it that pass another one; of several the first that they are of.
    pub parts: Vec<Part>,
}

/// Packets of a rule that pass a limiter of their own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// Which: those it accepts as they go, or with source and destination exchanged. It has addresses, ports
    /// and protocols alone.
    pub filter: Filter,
    /// Their limiter, as of rules.
    pub limiter: u8,
}

/// One filter: every field that is not empty must hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Source and destination addresses.
    pub addresses: [Vec<AddressRange>; 2],
    /// Source and destination ports.
    pub ports: [Vec<RangeInclusive<u16>>; 2],
    /// Protocol numbers.
    pub protocols: Vec<u8>,
    /// Tags of clients, of which one suffices.
    pub tags: Vec<String>,
    /// Tunnel's source and target addresses.
    pub tunnels: [Vec<AddressRange>; 2],
    /// DSCP of IPv4 packets.
    pub dscp: Option<u8>,
    /// Traffic class of IPv6 packets.
    pub traffic_class: Option<u8>,
    /// The network of clients, where the rule's app answers those of one alone.
    pub network: Option<u16>,
}

/// Addresses from the first to the last, both of one version; IPv4 is mapped.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct AddressRange {
    /// First.
    pub first: u128,
    /// Last.
    pub last: u128,
}

impl AddressRange {
    /// Whether it holds the address.
    #[must_use]
    pub const fn contains(&self, address: u128) -> bool {
        self.first <= address && address <= self.last
    }

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (first <= last).then_some(Self { first, last })
    }

    /// Whether it has addresses of an IP version.
    fn has(&self, is_ipv4: bool) -> bool {
        let mapped = Self { first: IPV4_FIRST, last: IPV4_LAST };
        if is_ipv4 { self.and(&mapped).is_some() } else { !self.is_ipv4() }
    }

    /// Whether its addresses are IPv4.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        crate::packet::unmapped(self.first).is_some()
    }
}

/// What a client has that packets do not say: rules ask for tags and for tunnels' ends. Few clients
/// differ in it, so that it is kept once and clients have its number.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Profile {
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// Addresses of the base station and of the core's user plane, where there are tunnels.
    pub tunnel: Option<[u128; 2]>,
    /// Number of its network, 0 being the one without a name.
    pub network: u16,
}

/// What rules are matched against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Subject {
    /// 4 or 6.
    pub version: u8,
    /// Source and destination.
    pub addresses: [u128; 2],
    /// Source and destination port, where they are known.
    pub ports: Option<[u16; 2]>,
    /// Protocol number.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub traffic_class: u8,
}

impl Filter {
    /// Whether it asks for something of the client that packets do not say: its [`Profile`].
    #[must_use]
    pub fn asks_for_profile(&self) -> bool {
        !self.tags.is_empty()
            || self.tunnels.iter().any(|ends| !ends.is_empty())
            || self.network.is_some()
    }

    /// What accepts what both accept, where there is such a thing. The other has addresses, ports and
    /// protocols alone.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let addresses =
            |side: usize| common(&self.addresses[side], &other.addresses[side], AddressRange::and);
        let ports = |side: usize| {
            let both = |one: &RangeInclusive<u16>, other: &RangeInclusive<u16>| {
                let (first, last) = (*one.start().max(other.start()), *one.end().min(other.end()));
                (first <= last).then_some(first..=last)
            };
            common(&self.ports[side], &other.ports[side], both)
        };
        let same = |one: &u8, other: &u8| (one == other).then_some(*one);
        let addresses = [addresses(0)?, addresses(1)?];
        // No packet goes from one IP version to the other.
        let may_be = |is_ipv4: bool| {
            addresses.iter().all(|side| side.is_empty() || side.iter().any(|one| one.has(is_ipv4)))
        };
        if !may_be(true) && !may_be(false) {
            return None;
        }
        Some(Self {
            addresses,
            ports: [ports(0)?, ports(1)?],
            protocols: common(&self.protocols, &other.protocols, same)?,
            ..self.clone()
        })
    }

    /// The filter of the packets that answer.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let swapped = |pair: &[Vec<AddressRange>; 2]| [pair[1].clone(), pair[0].clone()];
        Self {
            addresses: swapped(&self.addresses),
            ports: [self.ports[1].clone(), self.ports[0].clone()],
            tunnels: swapped(&self.tunnels),
            ..self.clone()
        }
    }
}

/// What two lists have in common, where one that is empty means all there is; none where that is nothing.
fn common<T: Clone>(one: &[T], other: &[T], both: impl Fn(&T, &T) -> Option<T>) -> Option<Vec<T>> {
    if one.is_empty() || other.is_empty() {
        return Some([one, other].concat());
    }
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
    let found: Vec<T> = pairs.filter_map(|(one, other)| both(one, other)).collect();
    (!found.is_empty()).then_some(found)
}
