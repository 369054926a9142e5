//! A wire in a network namespace of its own, with a load at its ends and something in its middle.
//!
//! ```text
//! ran0 ═ acc0 [ what is measured ] cor0 ═ core0
//!                  leg0 ═ app0, tap0 ═ probe0
//! ```
//!
//! The ends send and count in the kernel, so that they cost little; what is in the middle runs in
//! threads of its own on a processor of its own.

mod processor;
pub mod search;

use freshet_load::LabError;
use freshet_router::app::{App, Kind, Leg};
use freshet_router::gtp::Form;
use freshet_router::kernel::ends::{self, Ends, FIRST_CLIENT, Front, Load, SERVERS, Taken};
use freshet_router::kernel::namespace::Namespaces;
use freshet_router::kernel::{Object, Options, Programs};
use freshet_router::packet::mapped;
use freshet_router::rule::compile::Table;
use freshet_router::rule::{Act, AddressRange, Filter, Profile, Rule};
use freshet_router::session::lines::{Lines, Numbers};
use freshet_router::session::network::Networks;
use freshet_router::session::{Client, Session};
use processor::{Priority, Watch, give_threads, hold};
use search::Verdict;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The only namespace there is.
const NS: &str = "lab";
/// Base station and core.
const ENDS: [u128; 2] = [mapped(0x0a03_0001), mapped(0x0a03_00f0)];
/// Frames of the load may be late in all by this share of a trial.
pub const LATE_MAX: f64 = 0.01;
/// How long nothing arrives before the rest counts as lost.
const SILENCE: Duration = Duration::from_millis(50);

/// What is in the middle of the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Middle {
    /// The bridge alone, which carries the wire without a router.
    Bridge,
    /// The kernel's own forwarding of IP packets; they are in no tunnels, as it does not know them.
    Kernel,
    /// A program that hands each frame over to the other side.
    Bare,
    /// The router, whose rules let everything pass.
    Pass,
    /// The router, whose last rule takes everything out of its tunnel to an app, and the app's answers.
    Breakout,
    /// The router, whose last rule gives an app a copy of everything, out of its tunnel.
    Tap,
}

impl Middle {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Bridge, Self::Kernel, Self::Bare, Self::Pass, Self::Breakout, Self::Tap];

    /// Its name in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Kernel => "kernel",
            Self::Bare => "bare",
            Self::Pass => "pass",
            Self::Breakout => "breakout",
            Self::Tap => "tap",
        }
    }

    /// Whether it is the router.
    #[must_use]
    pub const fn is_router(self) -> bool {
        self.act().is_some()
    }

    const fn act(self) -> Option<Act> {
        match self {
            Self::Pass => Some(Act::Pass),
            Self::Breakout => Some(Act::Breakout),
            Self::Tap => Some(Act::Tap),
            _ => None,
        }
    }
}

/// The longest a load is sent without a pause. Load and router have real-time priority: where others
/// wait for their processors for most of a second, the kernel takes a twentieth of one away. A shorter
/// one is seldom void: a virtual machine loses a processor for some hundred microseconds several times
/// a second, in which a ring of 256 frames overflows.
const SLICE: Duration = Duration::from_millis(100);
/// A pause, in which others have both processors.
const PAUSE: Duration = Duration::from_millis(10);
/// Slices that say nothing are sent again, as many as there are and some for short trials.
const VOID_SLICES_MAX: u32 = 10;

/// One trial: slices of load, which are summed, with pauses between them.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Packets a second that were asked for.
    pub asked: f64,
    /// Packets a second that were sent.
    pub offered: f64,
    /// Packets.
    pub sent: u64,
    /// Those that arrived where they were to.
    pub received: u64,
    /// Copies that did not arrive at the tap.
    pub copies_missing: u64,
    /// Those that an earlier one overtook.
    pub disordered: u64,
    /// What interfaces say they dropped.
    pub ring_drops: u64,
    /// Seconds.
    pub seconds: f64,
    /// By how much the generator was late in all, in seconds.
    pub late_seconds: f64,
    /// How long what is measured had no processor, in seconds.
    pub absent_seconds: f64,
    /// Slices that said nothing and were sent again; they are in no sum, but for the one a trial was
    /// given up for.
    pub void_slices: u32,
    /// Whether it was given up, as too many slices said nothing.
    pub is_given_up: bool,
}

impl Trial {
    fn add(&mut self, slice: &Self) {
        self.sent += slice.sent;
        self.received += slice.received;
        self.copies_missing += slice.copies_missing;
        self.disordered += slice.disordered;
        self.ring_drops += slice.ring_drops;
        self.seconds += slice.seconds;
        self.late_seconds += slice.late_seconds;
        self.absent_seconds += slice.absent_seconds;
        self.offered = self.sent as f64 / self.seconds.max(1e-9);
    }

    /// Packets that did not arrive, copies included.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received) + self.copies_missing
    }

    /// What it says: nothing where the load was late, or where no more packets were lost than came
    /// while what is measured had no processor.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let is_late = self.late_seconds > LATE_MAX * self.seconds;
        let is_absent = self.lost() > 0 && self.lost() as f64 <= self.absent_seconds * self.offered;
        if is_late || is_absent || self.is_given_up || self.sent == 0 {
            Verdict::Void
        } else if self.lost() > 0 {
            Verdict::Lost
        } else {
            Verdict::Whole
        }
    }
}

/// What a wire is made for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is in its middle.
    pub middle: Middle,
    /// Rules of the router.
    pub rules: u16,
    /// Clients that take turns.
    pub clients: u32,
    /// Processors of the load and of what is measured.
    pub cpus: [usize; 2],
    /// From clients, to clients.
    pub ways: [bool; 2],
}

/// A wire.
pub struct Bed {
    plan: Plan,
    ends: Ends,
    /// They are on interfaces as long as these are kept.
    _links: Vec<freshet_router::kernel::Link>,
    _router: Option<Programs>,
    fronts: [Front; 2],
    namespaces: Namespaces,
}

fn wrong(what: &str) -> impl Fn(&dyn Display) -> LabError + '_ {
    move |why| LabError::LocalSystem { what: what.to_owned(), why: why.to_string() }
}

/// In a thread of its own, which the work may pin and move elsewhere.
fn apart<T: Send>(work: impl FnOnce() -> Result<T, LabError> + Send) -> Result<T, LabError> {
    std::thread::scope(|scope| scope.spawn(work).join().expect("the thread says what is wrong"))
}

impl Bed {
    /// Makes a wire.
    ///
    /// # Errors
    /// What this machine lacks or refused.
    pub fn new(plan: Plan) -> Result<Self, LabError> {
        if let Some(missing) = freshet_router::kernel::namespace::missing() {
            return Err(wrong("a wire to measure")(&missing));
        }
        apart(|| Self::make(plan))
    }

    fn make(plan: Plan) -> Result<Self, LabError> {
        let refuse = wrong("a wire to measure");
        let namespaces = Namespaces::new(&[NS]).map_err(|what| refuse(&what))?;
        let set_up = || -> Result<_, String> {
            for setting in ["ipv6/conf/all/disable_ipv6=1", "ipv6/conf/default/disable_ipv6=1"] {
                namespaces.set(NS, setting)?;
            }
            let cables =
                [("ran0", "acc0"), ("core0", "cor0"), ("app0", "leg0"), ("probe0", "tap0")];
            for (end, middle) in cables {
                namespaces.cable([(NS, end), (NS, middle)], 1600)?;
            }
            let find = |device| namespaces.interface(NS, device);
            Ok([find("ran0")?, find("acc0")?, find("core0")?, find("cor0")?])
        };
        let [ran, acc, core, cor] = set_up().map_err(|what| refuse(&what))?;
        namespaces.enter(NS).map_err(|what| refuse(&what))?;
        let find = |device| namespaces.interface(NS, device).map_err(|what| refuse(&what));
        let (app, leg) = (find("app0")?, find("leg0")?);
        let (probe, tap) = (find("probe0")?, find("tap0")?);
        let is_breakout = plan.middle == Middle::Breakout;

        let mut ends = Ends::load().map_err(|error| refuse(&error))?;
        let (far, far_peer) = if is_breakout { (app, leg) } else { (core, cor) };
        let mut links = Vec::new();
        for (program, device) in
            [("take_downlink", ran), ("take_uplink", far), ("take_copies", probe)]
        {
            links.push(ends.attach(program, device.1).map_err(|error| refuse(&error))?);
        }
        ends.set_out(0, ran.1).map_err(|error| refuse(&error))?;
        ends.set_out(1, far.1).map_err(|error| refuse(&error))?;
        // A bridge hands on what is for the other end; the kernel forwards what is for itself.
        let is_kernel = plan.middle == Middle::Kernel;
        let next = if is_kernel { [acc.0, cor.0] } else { [core.0, ran.0] };
        let [base_station, user_plane] = ENDS;
        let fronts = [
            Front {
                macs: [next[0], ran.0],
                tunnel: (!is_kernel).then_some([base_station, user_plane]),
            },
            Front {
                macs: [if is_breakout { far_peer.0 } else { next[1] }, far.0],
                tunnel: (!is_kernel && !is_breakout).then_some([user_plane, base_station]),
            },
        ];
        let middle = |namespaces: &Namespaces| match plan.middle {
            Middle::Kernel => forward(namespaces, [ran.0, core.0]),
            _ => bridge(namespaces),
        };
        middle(&namespaces).map_err(|what| refuse(&what))?;
        let mut router = None;
        if let Some(act) = plan.middle.act() {
            let devices = Devices { acc, cor, leg, tap, core: core.0, ran: ran.0, app: app.0 };
            let (programs, more) = start(&plan, act, &devices).map_err(|error| refuse(&error))?;
            router = Some(programs);
            links.extend(more);
        } else if plan.middle == Middle::Bare {
            let mut programs = Ends::load().map_err(|error| refuse(&error))?;
            programs.set_out(0, cor.1).map_err(|error| refuse(&error))?;
            programs.set_out(1, acc.1).map_err(|error| refuse(&error))?;
            for (program, device) in [("bare_uplink", acc.1), ("bare_downlink", cor.1)] {
                links.push(programs.attach(program, device).map_err(|error| refuse(&error))?);
            }
        }
        give_threads(&namespaces, plan.cpus[1])?;
        Ok(Self { plan, ends, _links: links, _router: router, fronts, namespaces })
    }

    /// Sends at a steady rate for a time, and counts what arrives. It ends early with the first slice
    /// that loses, or where too many say nothing: that verdict is the trial's.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn trial(
        &mut self,
        packets_per_second: f64,
        span: Duration,
        sizes: &[u16],
        stop: &AtomicBool,
    ) -> Result<Trial, LabError> {
        let mut drops = self.ring_drops()?;
        let mut trial = Trial { asked: packets_per_second, ..Trial::default() };
        let slices = (span.as_secs_f64() / SLICE.as_secs_f64()).ceil().max(1.0) as u32;
        let mut left = slices;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let mut slice = self.slice(packets_per_second, span / slices, sizes, stop)?;
            let verdict = slice.verdict();
            if verdict != Verdict::Whole {
                let before = std::mem::replace(&mut drops, self.ring_drops()?);
                slice.ring_drops = drops.saturating_sub(before);
            }
            if verdict == Verdict::Void {
                trial.void_slices += 1;
                trial.is_given_up = trial.void_slices > slices.max(VOID_SLICES_MAX);
            }
            // What a trial was given up for is shown.
            if verdict != Verdict::Void || trial.is_given_up {
                left -= 1;
                trial.add(&slice);
            }
            if trial.is_given_up || verdict == Verdict::Lost {
                break;
            }
            if left > 0 {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(trial)
    }

    fn slice(
        &mut self,
        packets_per_second: f64,
        span: Duration,
        sizes: &[u16],
        stop: &AtomicBool,
    ) -> Result<Trial, LabError> {
        let refuse = wrong("the load");
        let watch = Watch::begin(self.plan.cpus[1])?;
        self.ends.forget().map_err(|error| refuse(&error))?;
        let load = Load {
            packets_per_second,
            packets: ((packets_per_second * span.as_secs_f64()) as u64).max(1),
            ways: self.plan.ways,
            clients: self.plan.clients,
            sizes: sizes.to_vec(),
            fronts: self.fronts.clone(),
        };
        let (ends, cpu) = (&mut self.ends, self.plan.cpus[0]);
        let sent = apart(|| {
            hold(rustix::thread::gettid(), cpu, Priority::Measured)?;
            ends.send(&load, stop).map_err(|error| wrong("the load")(&error))
        })?;
        let is_tap = self.plan.middle == Middle::Tap;
        let whole = if is_tap { 2 * sent.packets } else { sent.packets };
        let mut taken = [Taken::default(); 3];
        let mut changed = Instant::now();
        loop {
            let now = self.ends.taken().map_err(|error| refuse(&error))?;
            let arrived: u64 = now.iter().map(|way| way.frames).sum();
            if now != taken {
                (taken, changed) = (now, Instant::now());
            }
            if arrived >= whole || changed.elapsed() > SILENCE {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut slice = Trial::default();
        slice.add(&Trial {
            sent: sent.packets,
            received: taken[0].frames + taken[1].frames,
            copies_missing: if is_tap { sent.packets.saturating_sub(taken[2].frames) } else { 0 },
            disordered: taken[0].disordered + taken[1].disordered,
            seconds: sent.seconds,
            late_seconds: sent.late_seconds,
            absent_seconds: watch.end()?.as_secs_f64(),
            ..Trial::default()
        });
        Ok(slice)
    }

    /// What all interfaces dropped for want of room.
    fn ring_drops(&self) -> Result<u64, LabError> {
        let mut drops = 0;
        for device in ["ran0", "acc0", "core0", "cor0", "app0", "leg0", "probe0", "tap0"] {
            let output = self.namespaces.command(NS, "ethtool").args(["-S", device]).output();
            let output = output.map_err(|error| wrong("ethtool")(&error))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let counts = text.lines().filter_map(|line| line.trim().split_once(": "));
            let counts = counts.filter(|(name, _)| {
                name.starts_with("rx_queue_")
                    && name.ends_with("_drops")
                    && !name.ends_with("_xdp_drops")
                    || name.ends_with("_errors")
            });
            drops += counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum::<u64>();
        }
        Ok(drops)
    }
}

fn bridge(namespaces: &Namespaces) -> Result<(), String> {
    namespaces.ip(NS, "link add br0 type bridge stp_state 0 mcast_snooping 0")?;
    namespaces.ip(NS, "link set br0 mtu 1600")?;
    for port in ["acc0", "cor0"] {
        namespaces.ip(NS, &format!("link set {port} master br0"))?;
    }
    namespaces.ip(NS, "link set br0 up").map(drop)
}

/// Has the kernel forward between clients and servers of the load.
fn forward(namespaces: &Namespaces, peers: [[u8; 6]; 2]) -> Result<(), String> {
    namespaces.set(NS, "ipv4/ip_forward=1")?;
    for ((device, network, own, next), mac) in [
        ("acc0", "10.45.0.0/16", "10.201.0.1/24", "10.201.0.2"),
        ("cor0", "203.0.113.0/24", "10.202.0.1/24", "10.202.0.2"),
    ]
    .into_iter()
    .zip(peers)
    {
        let mac = freshet_router::app::mac_text(mac);
        namespaces.ip(NS, &format!("addr add {own} dev {device}"))?;
        namespaces.ip(NS, &format!("neigh add {next} lladdr {mac} dev {device} nud permanent"))?;
        namespaces.ip(NS, &format!("route add {network} via {next} dev {device}"))?;
    }
    Ok(())
}

type Device = ([u8; 6], u32);

struct Devices {
    acc: Device,
    cor: Device,
    leg: Device,
    tap: Device,
    core: [u8; 6],
    ran: [u8; 6],
    app: [u8; 6],
}

/// Starts the router's programs with all sessions and rules.
fn start(
    plan: &Plan,
    act: Act,
    devices: &Devices,
) -> Result<(Programs, Vec<freshet_router::kernel::Link>), freshet_router::kernel::KernelError> {
    let options = Options {
        tunnelled: true,
        wire_bytes_max: 1600,
        sessions: plan.clients as usize,
        seed: 1,
        tells_verdicts: false,
        networks: Networks::default(),
        pins: None,
        object: Object::Router,
    };
    let mut programs = Programs::load(&options)?;
    programs.set_wire(0, devices.cor.1)?;
    programs.set_wire(1, devices.acc.1)?;
    let app = App {
        name: "app".to_owned(),
        kind: if act == Act::Tap { Kind::Tap { decapsulated: true } } else { Kind::Breakout },
        legs: vec![Leg { interface: "leg0".to_owned(), mac: devices.app }],
        addresses: Vec::new(),
        network: None,
        segment_bytes_max: [0; 2],
    };
    if act == Act::Tap {
        let macs = Some([devices.app, devices.tap.0]);
        programs.set_tap(0, [devices.cor.1, devices.acc.1], devices.tap.1, macs)?;
    }
    programs.set_leg(0, devices.leg.1)?;
    programs.set_app(0, &app, &[0], &[devices.leg.0], 0)?;
    programs.set_alive(0, u64::MAX)?;
    let path = ends::path(ENDS, [devices.ran, devices.core]);
    programs.set_path(0, &path)?;
    let mut lines = Lines::new(plan.clients as usize, options.seed);
    for number in 0..plan.clients {
        let client = Client::of(mapped(FIRST_CLIENT + number)).expect("an IPv4 address");
        let teids = [1 + number, 1 + number];
        let session = Session { client, teids, qfi: 9, form: Form::GtpContainer, path };
        let numbers = Numbers { path: 0, profile: 0, usage: number };
        let write = lines.put(&session, numbers).expect("there is room for all of them");
        programs.set_line(&write)?;
    }
    let rules = rules(plan.rules, act);
    let table = Table::new(1, &rules, &[Profile::default()]).expect("few enough rules");
    programs.set_rules(&table)?;
    let mut links = Vec::new();
    for (program, device) in
        [("app", devices.leg.1), ("access", devices.acc.1), ("core", devices.cor.1)]
    {
        links.push(programs.attach(program, device, Default::default())?);
    }
    Ok((programs, links))
}

/// So many rules, of which the last alone matches the load.
fn rules(many: u16, act: Act) -> Vec<Rule> {
    let range = |first: u32, last: u32| AddressRange { first: mapped(first), last: mapped(last) };
    let rule = |number: u16| {
        let is_last = number + 1 == many;
        // Networks of documentation and testing that the load has no packets for.
        let network = 0xc612_0000 + u32::from(number) * 64;
        let (servers, ports) = if is_last {
            (range(SERVERS[0], SERVERS[1]), 80..=95)
        } else {
            (range(network, network + 63), 1024 + number..=1024 + number)
        };
        Rule {
            id: number.to_string(),
            number,
            is_flow: true,
            priority: (number / 8) as u8,
            filters: vec![Filter {
                addresses: [Vec::new(), vec![servers]],
                ports: [Vec::new(), vec![ports]],
                protocols: vec![6, 17],
                ..Filter::default()
            }],
            act: if is_last { act } else { Act::Drop },
            app: (is_last && act != Act::Pass).then_some(0),
            is_active: true,
            limiter: 0,
            parts: Vec::new(),
        }
    };
    (0..many).map(rule).collect()
}
