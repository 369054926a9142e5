//! Values as the programs in the kernel have them: `bpf/layout.h` says the same in C.

use crate::app::{App, LEGS_MAX};
use crate::gtp::Form;
use crate::packet::{Link, TAGS_MAX, unmapped};
use crate::rule::Direction;
use crate::rule::compile::{Bits, Side, Table};
use crate::rule::index::{
    AddressIndex, BLOCKS_MAX, CLASSES_MAX, IPV6_ENDS_MAX, IS_BLOCK, PortIndex,
};
use crate::session::learn::{Flow, Sighting};
use crate::session::{Client, Hop, Path};

/// Changed whenever a layout changes: what was pinned by another one is not taken over.
pub const LAYOUT: u64 = 4;

const BITS: usize = 32;
const ADDRESSES: usize = (1 << 17) + BLOCKS_MAX * 512 + IPV6_ENDS_MAX * 18 + CLASSES_MAX * BITS;
const PORTS: usize = (1 << 17) + (CLASSES_MAX + 1) * BITS;
const PROFILES: usize = crate::rule::compile::PROFILES_MAX;
const SIDE: usize = 8
    + BITS
    + 2 * ADDRESSES
    + 2 * PORTS
    + (256 + 512 + PROFILES) * BITS
    + crate::rule::ENTRIES_MAX * 8;
/// Bytes of a table of rules.
pub const TABLE_BYTES: usize = 8 + 2 * SIDE;
/// Bytes of a path, of an app, of usage, of a limiter.
pub const PATH_BYTES: usize = 64;
/// See [`PATH_BYTES`].
pub const APP_BYTES: usize = 64;
/// See [`PATH_BYTES`].
pub const USAGE_BYTES: usize = 32;
/// Bytes of usage that was not added to the other yet, and what a byte counts as in a word of it; packets count as one.
pub const RECENT_USAGE_BYTES: usize = 16;
/// See [`RECENT_USAGE_BYTES`].
pub const RECENT_UNIT: u64 = 1 << 24;
/// See [`PATH_BYTES`].
pub const LIMITER_BYTES: usize = 24;
/// See [`PATH_BYTES`].
pub const SETTLING_BYTES: usize = 16;
/// Bytes of a connection, and of what it began with.
pub const CONNECTION_BYTES: [usize; 2] = [40, 24];
/// Bytes of a sighting.
pub const SIGHTING_BYTES: usize = 104;

/// The word at this place, in words.
///
/// # Panics
/// Where the value is shorter.
pub fn word(value: &[u8], place: usize) -> u64 {
    u64::from_ne_bytes(array(value, place * 8))
}

/// A word of recent usage.
pub fn recent(word: u64) -> super::programs::Count {
    super::programs::Count { packets: word % RECENT_UNIT, bytes: word / RECENT_UNIT }
}

/// Writes one value after the other, and fills up to where a part ends.
struct Writer(Vec<u8>);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u16s<'a>(&mut self, values: impl IntoIterator<Item = &'a u16>) {
        for value in values {
            self.bytes(&value.to_ne_bytes());
        }
    }

    fn sets(&mut self, sets: &[Bits]) {
        for word in sets.iter().flat_map(|set| set.0) {
            self.bytes(&word.to_ne_bytes());
        }
    }

    fn fill(&mut self, end: usize) {
        assert!(self.0.len() <= end, "a part is longer than its place");
        self.0.resize(end, 0);
    }
}

/// A table of rules.
#[must_use]
pub fn table(table: &Table) -> Box<[u8; TABLE_BYTES]> {
    let mut to = Writer(Vec::with_capacity(TABLE_BYTES));
    to.bytes(&table.generation.to_ne_bytes());
    for side in &table.sides {
        write_side(side, &mut to);
    }
    to.0.into_boxed_slice().try_into().expect("every part has its length")
}

fn write_side(side: &Side, to: &mut Writer) {
    let start = to.0.len();
    to.bytes(&u64::from(side.uses).to_ne_bytes());
    to.sets(&[side.all]);
    for index in &side.addresses {
        write_addresses(index, to);
    }
    for index in &side.ports {
        write_ports(index, to);
    }
    to.sets(&side.protocols);
    to.sets(&side.traffic_classes);
    let end = to.0.len() + PROFILES * BITS;
    to.sets(&side.profiles);
    to.fill(end);
    for target in &side.targets {
        to.bytes(&[target.act, target.app]);
        to.bytes(&target.rule.to_ne_bytes());
        to.bytes(&[target.limiter, 0, 0, 0]);
    }
    to.fill(start + SIDE);
}

fn write_addresses(index: &AddressIndex, to: &mut Writer) {
    let start = to.0.len();
    assert!(index.blocks.len() <= usize::from(IS_BLOCK), "a block's number fits its entry");
    to.u16s(&index.top);
    let end = to.0.len() + BLOCKS_MAX * 512;
    to.u16s(index.blocks.iter().flatten());
    to.fill(end);
    // Behind the last start none is below an address, but the highest address itself.
    let unused = IPV6_ENDS_MAX - index.ipv6_starts.len();
    let starts = || index.ipv6_starts.iter().copied().chain(std::iter::repeat_n(u128::MAX, unused));
    for start in starts() {
        to.bytes(&((start >> 64) as u64).to_ne_bytes());
    }
    for start in starts() {
        to.bytes(&(start as u64).to_ne_bytes());
    }
    let last = index.ipv6_classes.last().copied().unwrap_or_default();
    to.u16s(&index.ipv6_classes);
    to.u16s(&vec![last; unused]);
    to.sets(&index.classes.sets);
    to.fill(start + ADDRESSES);
}

fn write_ports(index: &PortIndex, to: &mut Writer) {
    let start = to.0.len();
    to.u16s(&index.class);
    to.sets(&index.classes.sets);
    to.fill(start + PORTS - BITS);
    to.sets(&[index.unknown]);
}

/// A path.
#[must_use]
pub fn path(path: &Path) -> [u8; PATH_BYTES] {
    let mut to = Writer(Vec::with_capacity(PATH_BYTES));
    for end in path.ends {
        to.bytes(&end.to_be_bytes());
    }
    to.bytes(&path.hop.addresses.concat());
    for value in path.hop.tags.as_flattened() {
        to.bytes(&value.to_be_bytes());
    }
    let tags = path.hop.tags.iter().filter(|[kind, _]| *kind != 0).count();
    let version = if unmapped(path.ends[1]).is_some() { 4 } else { 6 };
    to.bytes(&[version, tags as u8]);
    to.fill(PATH_BYTES);
    to.0.try_into().expect("it was filled to its length")
}

/// The path as it was written.
#[must_use]
pub fn read_path(bytes: &[u8; PATH_BYTES]) -> Path {
    let end = |at: usize| u128::from_be_bytes(array(bytes, at));
    let tag = |at: usize| u16::from_be_bytes(array(bytes, at));
    Path {
        ends: [end(0), end(16)],
        hop: Hop {
            addresses: [array(bytes, 32), array(bytes, 38)],
            tags: [[tag(44), tag(46)], [tag(48), tag(50)]],
        },
    }
}

/// An app whose interfaces are at these places of the map of legs and have these addresses.
#[must_use]
pub fn app(app: &App, legs: &[u16], own: &[[u8; 6]], tap: u16) -> [u8; APP_BYTES] {
    let mut to = Writer(Vec::with_capacity(APP_BYTES));
    let leg = |index: usize| legs.get(index).copied().unwrap_or(LEGS_MAX as u16);
    to.u16s(&[leg(0), leg(1), tap, app.segment_bytes_max[0], app.segment_bytes_max[1]]);
    for index in 0..2 {
        to.bytes(&app.legs.get(index).map_or([0; 6], |leg| leg.mac));
    }
    for index in 0..2 {
        to.bytes(&own.get(index).copied().unwrap_or_default());
    }
    to.fill(APP_BYTES);
    to.0.try_into().expect("it was filled to its length")
}

/// A limiter for so many bits a second, that lets `burst_ms` of them through at once; 0 is no limit.
#[must_use]
pub fn limiter(bits_per_second: u64, burst_ms: u64) -> [u8; LIMITER_BYTES] {
    let ns_per_kib = 1024 * 8 * 1_000_000_000_u64;
    let ns_per_kib = ns_per_kib.checked_div(bits_per_second).unwrap_or_default();
    let mut bytes = [0; LIMITER_BYTES];
    bytes[8..16].copy_from_slice(&ns_per_kib.to_ne_bytes());
    bytes[16..].copy_from_slice(&(burst_ms * 1_000_000).to_ne_bytes());
    bytes
}

/// Since when and until when rules settle, on the monotonic clock.
#[must_use]
pub fn settling(since_ns: u64, until_ns: u64) -> [u8; SETTLING_BYTES] {
    let mut bytes = [0; SETTLING_BYTES];
    bytes[..8].copy_from_slice(&since_ns.to_ne_bytes());
    bytes[8..].copy_from_slice(&until_ns.to_ne_bytes());
    bytes
}

/// The app that a connection began with, whether it gets its packets or not.
#[must_use]
pub const fn app_of(begun: &[u8; CONNECTION_BYTES[1]]) -> u8 {
    begun[9]
}

/// What the kernel saw. It does not know the client's network.
#[must_use]
pub fn sighting(bytes: &[u8]) -> Option<Sighting> {
    let bytes: &[u8; SIGHTING_BYTES] = bytes.get(..SIGHTING_BYTES)?.try_into().ok()?;
    let word = |at: usize| u64::from_ne_bytes(array(bytes, at));
    let address = |at: usize| u128::from(word(at)) << 64 | u128::from(word(at + 8));
    let port = |at: usize| u16::from_ne_bytes(array(bytes, at));
    let form = match bytes[82] {
        1 => Form::Gtp,
        2 => Form::GtpContainer,
        _ => Form::Plain,
    };
    let mut link = Link {
        addresses: [array(bytes, 84), array(bytes, 90)],
        tags: [[0; 2]; TAGS_MAX],
        bytes: 0,
    };
    for (index, tag) in link.tags.as_flattened_mut().iter_mut().enumerate() {
        *tag = u16::from_be_bytes(array(bytes, 96 + index * 2));
    }
    let tunnel = crate::gtp::Tunnel {
        source: address(40),
        destination: address(56),
        teid: u32::from_ne_bytes(array(bytes, 72)),
        qfi: bytes[83],
        form,
        traffic_class: 0,
    };
    Some(Sighting {
        client: Client { address: word(0), network: 0 },
        direction: if bytes[80] == 0 { Direction::Uplink } else { Direction::Downlink },
        tunnel: (form != Form::Plain).then_some(tunnel),
        hop: Hop::from(&link),
        flow: Flow {
            addresses: [address(8), address(24)],
            ports: [port(76), port(78)],
            protocol: bytes[81],
        },
    })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a part within its value")
}
