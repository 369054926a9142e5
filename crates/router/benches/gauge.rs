//! Nanoseconds of each path through the programs, beside a bare redirect, by `BPF_PROG_TEST_RUN`.
//!
//! `cargo bench -p freshet-router --features kernel --bench gauge`. Needs root. Each figure is the
//! least of many rounds that take turns, so that what else runs here disturbs all of them alike; what
//! a program changes in its frame is put back before each run, and the time of that is subtracted.
//!
//! `BENCH_EUPF=DIR`, a checkout of edgecomllc/eupf, times its program beside ours in the same rounds: with
//! one session, no filters and no rate limit, in a namespace that forwards.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench talks to its user")]

#[path = "../tests/support/mod.rs"]
mod support;

#[path = "gauge/eupf.rs"]
mod eupf;

use aya::programs::{TestRun, TestRunOptions};
use freshet_router::app::{App, Kind, Leg};
use freshet_router::gtp::{Form, Wrapping};
use freshet_router::kernel::{Object, Options, Programs};
use freshet_router::packet::mapped;
use freshet_router::rule::compile::Table;
use freshet_router::rule::{Act, AddressRange, Filter, Profile, Rule};
use freshet_router::session::lines::{Lines, Numbers};
use freshet_router::session::network::Networks;
use freshet_router::session::{Client, Hop, Path, Session};
use support::Random;

const ROUNDS: usize = 15;
const REPEAT: u32 = 50_000;
const FIRST_CLIENT: u32 = 0x0a80_0001;
const ENDS: [u128; 2] = [mapped(0x0a00_0001), mapped(0x0a00_00f0)];
const SERVER: u128 = mapped(0xcb00_710a);

/// What pass may cost: times a bare redirect, and times the same with 16 rules.
const PASS_MAX: f64 = 3.5;
const RULES_MAX: f64 = 1.1;
/// What breakout and the way back may cost, times eUPF's in the same run.
const BREAKOUT_MAX: f64 = 0.9;
const WRAPPED_MAX: f64 = 0.5;

fn options(sessions: usize) -> Options {
    Options {
        tunnelled: true,
        wire_bytes_max: 1500,
        sessions,
        seed: 0x5eed,
        tells_verdicts: false,
        networks: Networks::default(),
        pins: None,
        object: Object::Gauge,
    }
}

fn session(number: u32) -> Session {
    let hop = Hop { addresses: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], tags: [[0; 2]; 2] };
    Session {
        client: Client::of(mapped(FIRST_CLIENT + number)).unwrap(),
        teids: [1 + number, 1 + number],
        qfi: 9,
        form: Form::GtpContainer,
        path: Path { ends: ENDS, hop },
    }
}

/// `many` rules of which the last alone matches, if any does.
fn rules(many: u16, last: Option<Act>) -> Vec<Rule> {
    let mut random = Random(3);
    let mut rules: Vec<Rule> = (0..many)
        .map(|number| {
            let network = mapped(0xc633_6400 + (random.below(1 << 16) as u32) * 16);
            let range = AddressRange { first: network, last: network + 15 };
            let port = 1024 + random.below(4096) as u16;
            Rule {
                id: number.to_string(),
                number,
                is_flow: true,
                priority: (number / 8) as u8,
                filters: vec![Filter {
                    addresses: [Vec::new(), vec![range]],
                    ports: [Vec::new(), vec![port..=port]],
                    protocols: vec![6],
                    ..Filter::default()
                }],
                act: Act::Drop,
                app: None,
                is_active: true,
                limiter: 0,
                parts: Vec::new(),
            }
        })
        .collect();
    if let (Some(act), Some(rule)) = (last, rules.last_mut()) {
        rule.filters[0].addresses[1] = vec![AddressRange { first: SERVER, last: SERVER }];
        rule.filters[0].ports[1] = vec![80..=80];
        (rule.act, rule.app) = (act, (act == Act::Breakout).then_some(0));
    }
    rules
}

fn frame(is_up: bool) -> Vec<u8> {
    let client = mapped(FIRST_CLIENT);
    let (from, to) = if is_up { (client, SERVER) } else { (SERVER, client) };
    // A TCP segment of 100 bytes to port 80; the checksums do not matter here.
    let mut packet = vec![0x45, 0, 0, 140, 0, 1, 0x40, 0, 64, 6, 0, 0];
    packet.extend((from as u32).to_be_bytes());
    packet.extend((to as u32).to_be_bytes());
    let ports: [u16; 2] = if is_up { [40_000, 80] } else { [80, 40_000] };
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    packet.resize(140, 0x55);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    if is_up {
        let form = Form::GtpContainer;
        let wrapping = Wrapping { addresses: ENDS, teid: 1, qfi: 9, form };
        frame.extend(wrapping.headers(&packet, 0, None));
    }
    frame.extend(packet);
    frame
}

struct Bench {
    programs: Programs,
}

impl Bench {
    fn new(sessions: usize) -> Self {
        let mut programs = Programs::load(&options(sessions)).unwrap();
        programs.set_wire(0, 1).unwrap();
        programs.set_wire(1, 1).unwrap();
        programs.set_leg(0, 1).unwrap();
        let app = App {
            name: "app".to_owned(),
            kind: Kind::Breakout,
            legs: vec![Leg { interface: "lo".to_owned(), mac: [2, 0, 0, 0, 0, 9] }],
            addresses: Vec::new(),
            network: None,
            segment_bytes_max: [1400, 1380],
        };
        programs.set_app(0, &app, &[0], &[[2, 0, 0, 0, 0, 8]], 0).unwrap();
        programs.set_alive(0, u64::MAX).unwrap();
        let mut lines = Lines::new(sessions, options(sessions).seed);
        programs.set_path(0, &session(0).path).unwrap();
        for number in 0..sessions as u32 {
            let numbers = Numbers { path: 0, profile: 0, usage: number };
            let write = lines.put(&session(number), numbers).expect("a quarter full has room");
            programs.set_line(&write).unwrap();
        }
        Self { programs }
    }

    fn set_rules(&mut self, rules: &[Rule]) {
        let table = Table::new(1, rules, &[Profile::default()]).unwrap();
        self.programs.set_rules(&table).unwrap();
    }

    fn set_frame(&mut self, frame: &[u8], turn: [u32; 4]) {
        self.programs.set_gauge(frame, turn).unwrap();
    }

    fn run(&mut self, name: &str, frame: &[u8], expected: u32) -> f64 {
        let mut out = vec![0; 2048];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            repeat: REPEAT,
            ..TestRunOptions::default()
        };
        let result = self.programs.program(name).unwrap().test_run(options).unwrap();
        assert_eq!(result.return_value, expected, "{name}");
        result.duration.as_nanos() as f64
    }
}

const PASS: u32 = 2;
const REDIRECT: u32 = 4;
const NO_TURN: [u32; 4] = [0; 4];

fn least(list: &[f64]) -> f64 {
    list.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Of runs and of putting back alone, each the least: what is left without putting back.
fn least_of_both(list: &[[f64; 2]]) -> f64 {
    let of = |which: usize| list.iter().map(|both| both[which]).fold(f64::INFINITY, f64::min);
    of(0) - of(1)
}

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("gauge: needs root; nothing was measured");
        return;
    }
    let mut peer = match std::env::var_os(eupf::CHECKOUT) {
        Some(checkout) if eupf::is_inside() => Some(eupf::Peer::load(checkout.as_ref(), 1)),
        Some(_) => return eupf::again_inside(),
        None => None,
    };
    let mut is_dear = false;
    let mut bench = Bench::new(64);
    let (up, down) = (frame(true), frame(false));
    let paths: [(&str, &str, &[u8], Vec<Rule>); 8] = [
        ("bare redirect", "bare", &up, rules(1, None)),
        ("put back, uplink", "back", &up, rules(1, None)),
        ("put back, downlink", "back", &down, rules(1, None)),
        ("pass, no rules", "access_alone", &up, Vec::new()),
        ("pass, 16 rules", "access_alone", &up, rules(16, Some(Act::Pass))),
        ("pass, 256 rules", "access_alone", &up, rules(256, Some(Act::Pass))),
        ("breakout, 256 rules", "access", &up, rules(256, Some(Act::Breakout))),
        ("from the app, encapsulated", "app", &down, rules(256, Some(Act::Breakout))),
    ];
    let mut figures = vec![Vec::new(); paths.len()];
    let mut of_peer = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        if let Some(peer) = &mut peer {
            of_peer[0].push(peer.run(&up, NO_TURN));
            of_peer[1].push(peer.run(&down, NO_TURN));
        }
        for ((_, program, frame, rules), figures) in paths.iter().zip(&mut figures) {
            bench.set_rules(rules);
            bench.set_frame(frame, NO_TURN);
            let expected = if *program == "back" { PASS } else { REDIRECT };
            figures.push(bench.run(program, frame, expected));
        }
    }
    let mut ns: Vec<f64> = figures.iter().map(|figures| least(figures)).collect();
    let (back_up, back_down) = (ns[1], ns[2]);
    let nothing_ns = ns[0];
    ns[6] -= back_up;
    ns[7] -= back_down;
    println!("{:32}{:>8}{:>10}", "", "ns", "of bare");
    for ((name, ..), ns) in paths.iter().zip(&ns) {
        println!("{name:32}{ns:>8.0}{:>10.2}", ns / nothing_ns);
    }
    if peer.is_some() {
        let [up, down] = of_peer.each_ref().map(|figures| least_of_both(figures));
        println!("{:32}{up:>8.0}{:>10.2}", "eUPF, uplink", up / nothing_ns);
        println!("{:32}{down:>8.0}{:>10.2}", "eUPF, downlink", down / nothing_ns);
        let (breakout, wrapped) = (ns[6] / up, ns[7] / down);
        println!("breakout: {breakout:.2} of eUPF's uplink (at most {BREAKOUT_MAX})");
        println!("into the tunnel: {wrapped:.2} of eUPF's downlink (at most {WRAPPED_MAX})");
        is_dear |= breakout > BREAKOUT_MAX || wrapped > WRAPPED_MAX;
    }
    clients();
    let (of_bare, of_16) = (ns[5] / ns[0], ns[5] / ns[4]);
    println!(
        "pass with 256 rules: {of_bare:.2} of bare (at most {PASS_MAX}), {of_16:.2} of 16 rules"
    );
    if is_dear || of_bare > PASS_MAX || of_16 > RULES_MAX {
        println!("gauge: above what it may cost");
        std::process::exit(1);
    }
}

/// What it costs that clients differ from packet to packet, so that look-ups miss the caches.
fn clients() {
    const SOURCE_AT: u32 = 14 + 20 + 8 + 16 + 12;
    const TEID_AT: u32 = 14 + 20 + 8 + 4;
    const DESTINATION_AT: u32 = 14 + 16;
    let [up, down] = [true, false].map(frame);
    let checkout = std::env::var_os(eupf::CHECKOUT);
    let heads = ["pass", "breakout", "eUPF, up", "from app", "eUPF, down"];
    print!("{:20}", "clients, at random");
    println!("{}", heads.map(|head| format!("{head:>12}")).concat());
    for many in [1_u32, 100, 10_000, 100_000, 1_000_000] {
        let mut bench = Bench::new(many as usize);
        let mut peer = checkout.as_ref().map(|checkout| eupf::Peer::load(checkout.as_ref(), many));
        let turns =
            [[many, SOURCE_AT, TEID_AT, FIRST_CLIENT], [many, DESTINATION_AT, 0, FIRST_CLIENT]];
        let mut figures = vec![Vec::new(); 5];
        let mut of_peer = [Vec::new(), Vec::new()];
        for _ in 0..5 {
            if let Some(peer) = &mut peer {
                of_peer[0].push(peer.run(&up, turns[0]));
                of_peer[1].push(peer.run(&down, turns[1]));
            }
            bench.set_frame(&up, turns[0]);
            bench.set_rules(&rules(256, Some(Act::Pass)));
            figures[0].push(bench.run("access", &up, REDIRECT));
            bench.set_rules(&rules(256, Some(Act::Breakout)));
            figures[1].push(bench.run("access", &up, REDIRECT));
            figures[3].push(bench.run("back", &up, PASS));
            bench.set_frame(&down, turns[1]);
            figures[2].push(bench.run("app", &down, REDIRECT));
            figures[4].push(bench.run("back", &down, PASS));
        }
        let ns: Vec<f64> = figures.iter().map(|figures| least(figures)).collect();
        let [of_up, of_down] = of_peer.each_ref().map(|figures| least_of_both(figures));
        let shown = [ns[0] - ns[3], ns[1] - ns[3], of_up, ns[2] - ns[4], of_down].map(|one| {
            if one.is_finite() { format!("{one:>12.0}") } else { format!("{:>12}", "-") }
        });
        println!("{many:<20}{}", shown.concat());
    }
}
