//! Loads the programs and writes what they look up.

use super::layout;
use crate::app::{App, Kind, TAPS_MAX};
use crate::model::Reason;
use crate::rule::compile::Table;
use crate::session::lines::{LINE_BYTES, Write, lines_for};
use crate::session::network::Networks;
use aya::maps::{
    Array, ArrayOfMaps, DevMap, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf,
};
use aya::programs::{Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use std::path::PathBuf;
use thiserror::Error;

static ROUTER: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/router.o"));
static GAUGE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gauge.o"));
static ENDS: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ends.o"));

/// What the kernel refused, in words, with what it said.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The programs could not be loaded.
    #[error("the kernel does not take the router's programs: {0}")]
    Load(#[from] Box<aya::EbpfError>),
    /// A program could not be loaded or attached.
    #[error("{what}: {source}")]
    Program {
        /// Which, and where.
        what: String,
        /// What the kernel said.
        source: Box<aya::programs::ProgramError>,
    },
    /// A map could not be read or written.
    #[error("{what}: {source}")]
    Map {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is pinned is not what was expected.
    #[error("{0}")]
    Pins(String),
}

/// How the programs are to be loaded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether clients' packets are inside GTP-U on the wire.
    pub tunnelled: bool,
    /// Longest IP packet of the wire, in bytes.
    pub wire_bytes_max: u16,
    /// Sessions there may be.
    pub sessions: usize,
    /// Seed of the table of sessions.
    pub seed: u64,
    /// Whether each packet's verdict is written down: for tests.
    pub tells_verdicts: bool,
    /// Networks that clients may be in.
    pub networks: Networks,
    /// Where maps are pinned, or found.
    pub pins: Option<PathBuf>,
    /// Which programs.
    pub object: Object,
}

/// Programs that are loaded together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Object {
    /// Those of a router.
    Router,
    /// The same as they are timed.
    Gauge,
    /// Those for the ends of a wire: [`super::ends`].
    Ends,
}

/// What became of the last packet, where that is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Told {
    /// [`Reason`] by its number.
    pub reason: u32,
    /// 0 on the wire, 1 to an app, 2 on the wire and to a tap, 3 nowhere, 4 this host, 5 back.
    pub out: u32,
    /// Direction on the wire.
    pub direction: u32,
    /// App.
    pub app: u32,
    /// Which of its interfaces.
    pub leg: u32,
    /// Rule, if one matched.
    pub rule: Option<u16>,
    /// Whether there was something to learn.
    pub sighted: bool,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// The loaded programs and their maps.
#[derive(Debug)]
pub struct Programs {
    pub(super) ebpf: Ebpf,
}

/// A word of usage is read again so often while its packets are being moved, which takes nanoseconds.
const USAGE_READS_MAX: usize = 100;
/// Packets with which a word of recent usage is moved: `RECENT_UNIT / 2` in C.
pub(super) const RECENT_PACKETS_MAX: u64 = layout::RECENT_UNIT / 2;

/// Places of tables of rules.
const NOW: u32 = 0;
pub(super) const BEFORE: u32 = 1;

/// Maps that outlive the process.
const PINNED: [&str; 17] = [
    "wire",
    "legs",
    "tap_macs",
    "sessions",
    "paths",
    "usages",
    "recent_usages",
    "apps",
    "alive",
    "limiters",
    "reasons",
    "rule_counters",
    "rules",
    "fragments",
    "settling",
    "connections",
    "kept_apps",
];

pub(super) fn map_error(what: &'static str) -> impl Fn(MapError) -> KernelError {
    move |source| KernelError::Map { what, source: Box::new(source) }
}

/// What is not there needs not be removed.
pub(super) fn unless_absent(removed: Result<(), MapError>) -> Result<(), MapError> {
    match removed {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error))
            if error.io_error.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(())
        }
        other => other,
    }
}

impl Programs {
    /// Loads the programs; nothing is attached.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn load(options: &Options) -> Result<Self, KernelError> {
        let lines = lines_for(options.sessions) as u32;
        let networks = options.networks.last();
        let (tunnelled, tells) = (u8::from(options.tunnelled), u8::from(options.tells_verdicts));
        let mask = lines - 1;
        let vlans_tell = u8::from(options.networks.vlans().next().is_some());
        let mut loader = EbpfLoader::new();
        loader
            .override_global("tunnelled", &tunnelled, true)
            .override_global("tells_verdicts", &tells, true)
            .override_global("wire_bytes_max", &options.wire_bytes_max, true)
            .override_global("lines_mask", &mask, true)
            .override_global("hash_seed", &options.seed, true)
            .override_global("networks", &networks, true)
            .override_global("vlans_tell", &vlans_tell, true)
            .map_max_entries("sessions", lines)
            .map_max_entries("usages", options.sessions as u32)
            .map_max_entries("recent_usages", options.sessions as u32);
        if let Some(folder) = &options.pins {
            for name in PINNED.iter().chain(TAPS.as_flattened()) {
                loader.map_pin_path(name, folder.join(name));
            }
        }
        let object = match options.object {
            Object::Router => ROUTER,
            Object::Gauge => GAUGE,
            Object::Ends => ENDS,
        };
        let ebpf = loader.load(object).map_err(Box::new)?;
        let mut programs = Self { ebpf };
        for (vlan, network) in options.networks.vlans() {
            let mut vlans = programs.array::<4>("vlan_networks")?;
            let number = u32::from(network).to_ne_bytes();
            vlans.set(vlan.into(), number, 0).map_err(map_error("vlan_networks"))?;
        }
        Ok(programs)
    }

    /// A program, loaded into the kernel.
    ///
    /// # Errors
    /// What the kernel's verifier said.
    pub fn program(&mut self, name: &str) -> Result<&mut Xdp, KernelError> {
        let what = format!("the program `{name}` is not taken");
        let wrong = |source| KernelError::Program { what: what.clone(), source: Box::new(source) };
        let program = self.ebpf.program_mut(name).expect("a program of this object");
        let program: &mut Xdp = program.try_into().map_err(&wrong)?;
        if program.fd().is_err() {
            program.load().map_err(wrong)?;
        }
        Ok(program)
    }

    pub(super) fn map(&mut self, name: &'static str) -> &mut Map {
        self.ebpf.map_mut(name).expect("a map of this object")
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        name: &'static str,
    ) -> Result<Array<&mut MapData, [u8; N]>, KernelError> {
        Array::try_from(self.map(name)).map_err(map_error(name))
    }

    /// Replaces the rules as a whole. Returns when no packet meets the old ones any more.
    ///
    /// # Errors
    /// What the kernel refused; then the old ones stay.
    pub fn set_rules(&mut self, table: &Table) -> Result<(), KernelError> {
        self.set_table(NOW, table)
    }

    pub(super) fn set_table(&mut self, place: u32, table: &Table) -> Result<(), KernelError> {
        let wrong = map_error("rules");
        let bytes = layout::table(table);
        // By reference: it is megabytes long.
        let value: &[u8; layout::TABLE_BYTES] = &bytes;
        let mut inner =
            Array::<MapData, [u8; layout::TABLE_BYTES]>::create(1, 0).map_err(&wrong)?;
        inner.set(0, value, 0).map_err(&wrong)?;
        let mut rules = ArrayOfMaps::<_, Array<MapData, [u8; layout::TABLE_BYTES]>>::try_from(
            self.map("rules"),
        )
        .map_err(&wrong)?;
        rules.set(place, &inner, 0).map_err(wrong)
    }

    /// Writes a line of the table of sessions.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_line(&mut self, write: &Write) -> Result<(), KernelError> {
        let mut lines = self.array::<LINE_BYTES>("sessions")?;
        lines.set(write.slot, write.line, 0).map_err(map_error("sessions"))
    }

    /// Reads a line of the table of sessions.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn line(&mut self, slot: u32) -> Result<[u8; LINE_BYTES], KernelError> {
        self.array("sessions")?.get(&slot, 0).map_err(map_error("sessions"))
    }

    /// Writes a path.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_path(
        &mut self,
        number: u16,
        path: &crate::session::Path,
    ) -> Result<(), KernelError> {
        let mut paths = self.array::<{ layout::PATH_BYTES }>("paths")?;
        paths.set(number.into(), layout::path(path), 0).map_err(map_error("paths"))
    }

    /// Reads a path.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn path(&mut self, number: u16) -> Result<crate::session::Path, KernelError> {
        let bytes = self.array("paths")?.get(&number.into(), 0).map_err(map_error("paths"))?;
        Ok(layout::read_path(&bytes))
    }

    /// Writes an app; see [`layout::app`].
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_app(
        &mut self,
        number: u8,
        app: &App,
        legs: &[u16],
        own: &[[u8; 6]],
        tap: u16,
    ) -> Result<(), KernelError> {
        let mut apps = self.array::<{ layout::APP_BYTES }>("apps")?;
        apps.set(number.into(), layout::app(app, legs, own, tap), 0).map_err(map_error("apps"))
    }

    /// Until when an app is taken for alive, in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_alive(&mut self, app: u8, until_ns: u64) -> Result<(), KernelError> {
        let mut alive = self.array::<8>("alive")?;
        alive.set(app.into(), until_ns.to_ne_bytes(), 0).map_err(map_error("alive"))
    }

    /// Sets a limiter; see [`layout::limiter`].
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_limiter(
        &mut self,
        number: u8,
        bits_per_second: u64,
        burst_ms: u64,
    ) -> Result<(), KernelError> {
        let mut limiters = self.array::<{ layout::LIMITER_BYTES }>("limiters")?;
        let value = layout::limiter(bits_per_second, burst_ms);
        limiters.set(number.into(), value, 0).map_err(map_error("limiters"))
    }

    /// Whose network the app at an interface is in; none is that without a name.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_leg_network(
        &mut self,
        interface: u32,
        network: Option<u16>,
    ) -> Result<(), KernelError> {
        let wrong = map_error("leg_networks");
        let mut map = HashMap::<_, u32, u32>::try_from(self.map("leg_networks")).map_err(&wrong)?;
        match network.filter(|network| *network > 0) {
            Some(network) => map.insert(interface, u32::from(network), 0).map_err(wrong),
            None => unless_absent(map.remove(&interface)).map_err(wrong),
        }
    }

    /// Where frames of the wire go on, by direction: an interface by its index.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_wire(&mut self, direction: u32, interface: u32) -> Result<(), KernelError> {
        self.set_device("wire", direction, interface, false)
    }

    /// Where an app's interface is; 0 is nowhere.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_leg(&mut self, place: u16, interface: u32) -> Result<(), KernelError> {
        self.set_device("legs", place.into(), interface, false)
    }

    /// Where a tap's copies go, 0 being nowhere, and the packets themselves in each direction.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_tap(
        &mut self,
        tap: u16,
        wire: [u32; 2],
        interface: u32,
        macs: Option<[[u8; 6]; 2]>,
    ) -> Result<(), KernelError> {
        if macs.is_some() {
            self.set_tap_macs(interface, macs)?;
            self.program("tap_unwrap")?;
        }
        for (direction, peer) in wire.into_iter().enumerate() {
            let name = TAPS[usize::from(tap)][direction];
            self.set_device(name, 0, peer, false)?;
            self.set_device(name, 1, interface, macs.is_some())?;
        }
        Ok(())
    }

    /// The link's destination and source of copies without tunnels, by the tap's interface; none where it
    /// has no such copies any more.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_tap_macs(
        &mut self,
        interface: u32,
        macs: Option<[[u8; 6]; 2]>,
    ) -> Result<(), KernelError> {
        let wrong = map_error("tap_macs");
        let mut map =
            HashMap::<_, u32, [u8; 12]>::try_from(self.map("tap_macs")).map_err(&wrong)?;
        match macs {
            Some(macs) => {
                let macs: [u8; 12] = macs.concat().try_into().expect("two addresses");
                map.insert(interface, macs, 0).map_err(wrong)
            }
            None => unless_absent(map.remove(&interface)).map_err(wrong),
        }
    }

    fn set_device(
        &mut self,
        map: &'static str,
        place: u32,
        interface: u32,
        unwraps: bool,
    ) -> Result<(), KernelError> {
        let program = if unwraps {
            let program = self.program("tap_unwrap")?;
            let fd = program.fd().map_err(|source| KernelError::Program {
                what: "the program `tap_unwrap` is not loaded".to_owned(),
                source: Box::new(source),
            })?;
            Some(fd.try_clone().map_err(|error| KernelError::Pins(error.to_string()))?)
        } else {
            None
        };
        let mut devices = DevMap::try_from(self.map(map)).map_err(map_error(map))?;
        let set = devices.set(place, interface, program.as_ref(), 0);
        set.map_err(|source| KernelError::Map { what: map, source: Box::new(source) })
    }

    /// Counts by reason, for each of: from base stations, from the core, from apps.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn reasons(&mut self) -> Result<[Vec<(Reason, Count)>; 3], KernelError> {
        const PLACES: u32 = 32;
        let mut counts = [Vec::new(), Vec::new(), Vec::new()];
        for (port, list) in counts.iter_mut().enumerate() {
            for reason in Reason::ALL {
                let place = port as u32 * PLACES + reason as u32;
                list.push((reason, self.count("reasons", place)?));
            }
        }
        Ok(counts)
    }

    /// What a rule matched.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn rule_count(&mut self, number: u16) -> Result<Count, KernelError> {
        self.count("rule_counters", number.into())
    }

    /// Sets a rule's count to nothing, for another rule to have it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn clear_rule_count(&mut self, number: u16) -> Result<(), KernelError> {
        let wrong = map_error("rule_counters");
        let mut map =
            PerCpuArray::<_, [u64; 2]>::try_from(self.map("rule_counters")).map_err(&wrong)?;
        let place = u32::from(number);
        let zeros = map.get(&place, 0).map_err(&wrong)?.iter().map(|_| [0; 2]).collect::<Vec<_>>();
        let zeros = aya::maps::PerCpuValues::try_from(zeros)
            .map_err(|error| KernelError::Pins(error.to_string()))?;
        map.set(place, zeros, 0).map_err(wrong)
    }

    fn count(&mut self, name: &'static str, place: u32) -> Result<Count, KernelError> {
        let wrong = map_error(name);
        let map = PerCpuArray::<_, [u64; 2]>::try_from(self.map(name)).map_err(&wrong)?;
        let values = map.get(&place, 0).map_err(wrong)?;
        Ok(values.iter().fold(Count::default(), |sum, [packets, bytes]| Count {
            packets: sum.packets + packets,
            bytes: sum.bytes + bytes,
        }))
    }

    /// What a client's packets with apps came to: from the client, to the client.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn usage(&mut self, number: u32) -> Result<[Count; 2], KernelError> {
        let mut recent = self.recent_usage(number)?;
        for _ in 0..USAGE_READS_MAX {
            let moved = self.moved_usage(number)?;
            let after = self.recent_usage(number)?;
            // Nothing was moved from one to the other between these reads, nor is being moved.
            let is_settled = |way: usize| {
                let [before, after] = [recent[way].packets, after[way].packets];
                before <= after && after < RECENT_PACKETS_MAX
            };
            if is_settled(0) && is_settled(1) {
                return Ok([0, 1].map(|way| Count {
                    packets: moved[way].packets + recent[way].packets,
                    bytes: moved[way].bytes + recent[way].bytes,
                }));
            }
            recent = after;
        }
        self.moved_usage(number)
    }

    fn moved_usage(&mut self, number: u32) -> Result<[Count; 2], KernelError> {
        let usages = self.array::<{ layout::USAGE_BYTES }>("usages")?;
        let bytes = usages.get(&number, 0).map_err(map_error("usages"))?;
        let count = |way| Count {
            packets: layout::word(&bytes, way),
            bytes: layout::word(&bytes, 2 + way),
        };
        Ok([count(0), count(1)])
    }

    fn recent_usage(&mut self, number: u32) -> Result<[Count; 2], KernelError> {
        let recent = self.array::<{ layout::RECENT_USAGE_BYTES }>("recent_usages")?;
        let bytes = recent.get(&number, 0).map_err(map_error("recent_usages"))?;
        Ok([0, 1].map(|way| layout::recent(layout::word(&bytes, way))))
    }

    /// Sets a client's usage to nothing, for another client to have it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn clear_usage(&mut self, number: u32) -> Result<(), KernelError> {
        let mut recent = self.array::<{ layout::RECENT_USAGE_BYTES }>("recent_usages")?;
        let nothing = [0; layout::RECENT_USAGE_BYTES];
        recent.set(number, nothing, 0).map_err(map_error("recent_usages"))?;
        let mut usages = self.array::<{ layout::USAGE_BYTES }>("usages")?;
        usages.set(number, [0; layout::USAGE_BYTES], 0).map_err(map_error("usages"))
    }

    /// Forgets which fragments belong together.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn clear_fragments(&mut self) -> Result<(), KernelError> {
        let wrong = map_error("fragments");
        let mut map =
            HashMap::<_, [u8; 40], [u8; 4]>::try_from(self.map("fragments")).map_err(&wrong)?;
        let keys: Vec<_> = map.keys().filter_map(Result::ok).collect();
        keys.iter().try_for_each(|key| map.remove(key)).map_err(wrong)
    }

    /// The queue of sightings; once.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn take_sightings(&mut self) -> Result<RingBuf<MapData>, KernelError> {
        let map = self.ebpf.take_map("sightings").expect("it is taken once");
        RingBuf::try_from(map).map_err(map_error("sightings"))
    }

    /// The last packet's verdict, when [`Options::tells_verdicts`].
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn told(&mut self) -> Result<Told, KernelError> {
        let bytes: [u8; 28] = self.array("verdicts")?.get(&0, 0).map_err(map_error("verdicts"))?;
        let word = |place: usize| {
            let word: [u8; 4] = bytes[place * 4..][..4].try_into().expect("four bytes");
            u32::from_ne_bytes(word)
        };
        Ok(Told {
            reason: word(0),
            out: word(1),
            direction: word(2),
            app: word(3),
            leg: word(4),
            rule: u16::try_from(word(5)).ok(),
            sighted: word(6) != 0,
        })
    }

    /// Sets what a measured program is to put back, and which clients take turns in it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_gauge(&mut self, frame: &[u8], turn: [u32; 4]) -> Result<(), KernelError> {
        const KEPT: usize = 192;
        let mut kept = [0; 8 + KEPT];
        let head = frame.len().min(KEPT);
        kept[..4].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        kept[4..8].copy_from_slice(&(head as u32).to_ne_bytes());
        kept[8..8 + head].copy_from_slice(&frame[..head]);
        self.array("kept")?.set(0, kept, 0).map_err(map_error("kept"))?;
        let mut turns = [0; 24];
        for (place, value) in turn.into_iter().enumerate() {
            turns[place * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        self.array("turns")?.set(0, turns, 0).map_err(map_error("turns"))
    }

    /// Attaches a program to an interface; the link ends with what is returned.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn attach(
        &mut self,
        name: &str,
        interface: u32,
        mode: XdpMode,
    ) -> Result<aya::programs::xdp::XdpLink, KernelError> {
        let what = format!("the program `{name}` cannot be attached to interface {interface}");
        let program = self.program(name)?;
        let link = program.attach_to_if_index(interface, mode);
        link.and_then(|link| program.take_link(link))
            .map_err(|source| KernelError::Program { what, source: Box::new(source) })
    }
}

const TAPS: [[&str; 2]; TAPS_MAX] = [
    ["tap_0_0", "tap_0_1"],
    ["tap_1_0", "tap_1_1"],
    ["tap_2_0", "tap_2_1"],
    ["tap_3_0", "tap_3_1"],
    ["tap_4_0", "tap_4_1"],
    ["tap_5_0", "tap_5_1"],
    ["tap_6_0", "tap_6_1"],
    ["tap_7_0", "tap_7_1"],
];

/// The program for an app's interface, if it has one.
#[must_use]
pub(super) const fn program_of(kind: Kind, leg: usize) -> Option<&'static str> {
    match (kind, leg) {
        (Kind::Breakout, _) => Some("app"),
        (Kind::InLine, 0) => Some("in_line_access"),
        (Kind::InLine, _) => Some("in_line_core"),
        (Kind::Tap { .. }, _) => None,
    }
}
