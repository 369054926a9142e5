//! What stands at the ends of a wire where there is no mobile network: a steady load and its count for
//! measurements, and a base station and a core for demonstrations. All of it is in the kernel.

use super::layout;
use super::programs::{KernelError, Object, Options, Programs, map_error};
use crate::gtp::Wrapping;
use crate::session::lines::{Lines, Numbers};
use crate::session::{Path, Session};
use aya::maps::Array;
use aya::programs::xdp::XdpLink;
use aya::programs::{TestRun, TestRunAttrs, TestRunOptions, XdpMode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Sizes that take turns in a load.
pub const SIZES_MAX: usize = 16;
/// Shortest packet of a load: headers and its mark, in bytes.
pub const PACKET_BYTES_MIN: u16 = 64;
/// Longest packet of a load, in bytes.
pub const PACKET_BYTES_MAX: u16 = 1500;
/// Clients of a load have addresses from here on.
pub const FIRST_CLIENT: u32 = 0x0a2d_0001;
/// Servers of a load are in 203.0.113.0/24, ports 80 to 95.
pub const SERVERS: [u32; 2] = [0xcb00_7100, 0xcb00_71ff];

const RUN_AT: usize = 68 + 4 * SIZES_MAX;
const LOAD_BYTES: usize = RUN_AT + 4 + 2 * FRONT_BYTES;
const FRONT_BYTES: usize = 72;
const STATION_BYTES: usize = 48;
/// Frames the kernel sends at a time.
const BATCH: u32 = 64;

/// Headers in front of a load's packets.
#[derive(Clone, Debug)]
pub struct Front {
    /// Destination and source of the link.
    pub macs: [[u8; 6]; 2],
    /// Base station and core, the sender first, where packets are in tunnels, with a container (5G).
    /// Clients have tunnels from 1 on.
    pub tunnel: Option<[u128; 2]>,
}

/// A steady load: each packet with another client, server and ports, TCP and UDP in turn.
#[derive(Clone, Debug)]
pub struct Load {
    /// Packets a second, of all ways together.
    pub packets_per_second: f64,
    /// Packets to send.
    pub packets: u64,
    /// From clients, to clients, or both in turn.
    pub ways: [bool; 2],
    /// How many clients take turns.
    pub clients: u32,
    /// Bytes of packets, without tunnel and link; up to [`SIZES_MAX`], in turn.
    pub sizes: Vec<u16>,
    /// Headers of each way.
    pub fronts: [Front; 2],
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// By how much the plan was put off because its time had passed.
    pub late_seconds: f64,
}

/// What arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// Frames of the load.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames of others, and of loads before.
    pub foreign: u64,
    /// Frames of the load that an earlier one had overtaken.
    pub disordered: u64,
}

/// Programs for the ends of a wire.
#[derive(Debug)]
pub struct Ends {
    programs: Programs,
    /// Which load frames are of.
    run: u32,
}

impl Ends {
    /// Loads them.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn load() -> Result<Self, KernelError> {
        Programs::load(&Options {
            tunnelled: true,
            wire_bytes_max: u16::MAX,
            sessions: 16,
            seed: 1,
            tells_verdicts: false,
            networks: crate::session::network::Networks::default(),
            pins: None,
            object: Object::Ends,
        })
        .map(|programs| Self { programs, run: 0 })
    }

    /// Where frames leave: those of clients or into the tunnel at 0, those to clients or out of it at 1.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_out(&mut self, way: u32, interface: u32) -> Result<(), KernelError> {
        self.programs.set_wire(way, interface)
    }

    /// Puts one of the programs of `ends.bpf.c` on an interface, for as long as the link is kept.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn attach(&mut self, program: &str, interface: u32) -> Result<XdpLink, KernelError> {
        self.programs.attach(program, interface, XdpMode::default())
    }

    /// Sends a load from this thread, which spins until all is sent or `stop` is set.
    ///
    /// # Errors
    /// What the kernel refused.
    ///
    /// # Panics
    /// When the load has no sizes, or some out of bounds.
    pub fn send(&mut self, load: &Load, stop: &AtomicBool) -> Result<Sent, KernelError> {
        const TURNS_MAX: u64 = 1 << 25;
        // Each call takes the kernel a moment in which nothing is sent, so that there are to be few.
        let mut ns_per_turn = 50.0;
        assert!((1..=SIZES_MAX).contains(&load.sizes.len()), "sizes of a load");
        let bounds = PACKET_BYTES_MIN..=PACKET_BYTES_MAX;
        assert!(load.sizes.iter().all(|size| bounds.contains(size)), "sizes of a load");
        let wrong = map_error("loads");
        let mut map = self.programs.array::<LOAD_BYTES>("loads")?;
        map.set(0, encode(load, self.run), 0).map_err(&wrong)?;
        // Long enough for any size: the program cuts it.
        let frame = vec![0x55; 58 + usize::from(PACKET_BYTES_MAX)];
        loop {
            let map = self.programs.array::<LOAD_BYTES>("loads")?;
            let state = map.get(&0, 0).map_err(&wrong)?;
            let [start_ns, sent, end_ns, late_ns] = [0, 4, 5, 6].map(|at| layout::word(&state, at));
            if sent >= load.packets || stop.load(Ordering::Relaxed) {
                return Ok(Sent {
                    packets: sent,
                    seconds: end_ns.saturating_sub(start_ns) as f64 / 1e9,
                    late_seconds: late_ns as f64 / 1e9,
                });
            }
            let left_ns = (load.packets - sent) as f64 / load.packets_per_second * 1e9;
            let turns = ((left_ns / ns_per_turn) as u64).clamp(1 << 12, TURNS_MAX) as u32;
            let options = TestRunOptions {
                data_in: Some(&frame),
                repeat: turns,
                attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
                ..TestRunOptions::default()
            };
            let begun = Instant::now();
            let run = self.programs.program("send")?.test_run(options);
            ns_per_turn = (begun.elapsed().as_nanos() as f64 / f64::from(turns)).max(1.0);
            run.map_err(|source| KernelError::Program {
                what: "the load cannot be sent".to_owned(),
                source: Box::new(source),
            })?;
        }
    }

    /// What arrived since this was last asked: from clients, to clients, and copies.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn taken(&mut self) -> Result<[Taken; 3], KernelError> {
        let wrong = map_error("takings");
        let mut takings = [Taken::default(); 3];
        for (way, taken) in takings.iter_mut().enumerate() {
            let map =
                Array::<_, [u64; 5]>::try_from(self.programs.map("takings")).map_err(&wrong)?;
            let [frames, bytes, foreign, disordered, _] =
                map.get(&(way as u32), 0).map_err(&wrong)?;
            *taken = Taken { frames, bytes, foreign, disordered };
        }
        Ok(takings)
    }

    /// Begins to count anew. What is still under way of loads before is of others from now on.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn forget(&mut self) -> Result<(), KernelError> {
        self.run = self.run.wrapping_add(1);
        let mut load = [0; LOAD_BYTES];
        load[RUN_AT..][..4].copy_from_slice(&self.run.to_ne_bytes());
        let mut map = self.programs.array::<LOAD_BYTES>("loads")?;
        map.set(0, load, 0).map_err(map_error("loads"))?;
        let wrong = map_error("takings");
        let mut map =
            Array::<_, [u64; 5]>::try_from(self.programs.map("takings")).map_err(&wrong)?;
        (0..3).try_for_each(|way| map.set(way, [0; 5], 0)).map_err(wrong)
    }

    /// Makes this one end of a client's tunnel. In `session` the far end is the first of the path, and
    /// the second identifier is what the far end knows the tunnel by. `macs` are destination and source
    /// of frames out of the tunnel.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn set_station(
        &mut self,
        session: &Session,
        macs: [[u8; 6]; 2],
        is_base_station: bool,
    ) -> Result<(), KernelError> {
        let numbers = Numbers { path: 0, profile: 0, usage: 0 };
        let write = Lines::new(1, 1).put(session, numbers).expect("an empty table has room");
        let mut station = [0; STATION_BYTES];
        station[..32].copy_from_slice(&write.line);
        station[32..44].copy_from_slice(macs.as_flattened());
        station[44] = u8::from(is_base_station);
        self.programs.set_path(0, &session.path)?;
        let mut map = self.programs.array::<STATION_BYTES>("stations")?;
        map.set(0, station, 0).map_err(map_error("stations"))
    }
}

fn encode(load: &Load, run: u32) -> [u8; LOAD_BYTES] {
    let mut bytes = [0; LOAD_BYTES];
    let interval = (1e9 * 1024.0 / load.packets_per_second.max(1e-3)) as u64;
    bytes[16..24].copy_from_slice(&interval.to_ne_bytes());
    bytes[24..32].copy_from_slice(&load.packets.to_ne_bytes());
    let ways = u32::from(load.ways[0]) | u32::from(load.ways[1]) << 1;
    let mut words = vec![ways, load.clients.max(1), load.sizes.len() as u32];
    words.extend(load.sizes.iter().map(|size| u32::from(*size)));
    for (place, word) in words.into_iter().enumerate() {
        bytes[56 + place * 4..][..4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes[RUN_AT..][..4].copy_from_slice(&run.to_ne_bytes());
    for (way, front) in load.fronts.iter().enumerate() {
        let place = LOAD_BYTES - (2 - way) * FRONT_BYTES;
        bytes[place..place + FRONT_BYTES].copy_from_slice(&encode_front(front, way == 0));
    }
    bytes
}

fn encode_front(front: &Front, is_uplink: bool) -> [u8; FRONT_BYTES] {
    let mut bytes = [0; FRONT_BYTES];
    let mut headers = front.macs.concat();
    headers.extend([8, 0]);
    if let Some(addresses) = front.tunnel {
        let form = crate::gtp::Form::GtpContainer;
        headers.extend(Wrapping { addresses, teid: 0, qfi: 9, form }.headers(&[], 0, None));
        // The type of the container says which way it goes (TS 38.415, 5.5.3.1).
        headers[55] = if is_uplink { 0x10 } else { 0 };
        headers[16..18].fill(0);
        headers[24..26].fill(0);
        let sum = crate::gtp::sum(&headers[14..34]) as u32;
        bytes[0] = 1;
        bytes[4..8].copy_from_slice(&sum.to_ne_bytes());
    }
    bytes[8..8 + headers.len()].copy_from_slice(&headers);
    bytes
}

/// A path between two ends as frames on the wire have it: destination and source.
#[must_use]
pub fn path(ends: [u128; 2], macs: [[u8; 6]; 2]) -> Path {
    let hop = crate::session::Hop { addresses: macs, tags: [[0; 2]; crate::packet::TAGS_MAX] };
    Path { ends, hop }
}

const _: () = assert!(layout::PATH_BYTES == 64, "stations share paths with the router");
