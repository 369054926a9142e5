//! Packets a second that one core carries from a generator through the router and out on the other
//! side, over veth pairs: a capacity, since generator and router share the core. The time is that which
//! the sending thread was on a processor, with the receiving it was interrupted for: what else runs on
//! the machine does not count, and neither does the little that the kernel puts off to another thread.
//!
//! `cargo bench -p freshet-router --features kernel --bench capacity`. Needs root and namespaces. The
//! mix of sizes is 64, 64, 128, 256, 256, 512, 1024, 1024, 1500, 1500 bytes of the client's packet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code,
    reason = "a bench talks to its user, and uses a part of what tests share"
)]

#[path = "../../../tests/skip.rs"]
mod skip;
#[path = "../tests/kernel/world.rs"]
mod world;

use aya::programs::{TestRun, TestRunAttrs, TestRunOptions, XdpMode};
use freshet_router::gtp::{Form, Wrapping};
use freshet_router::kernel::{Object, Options, Programs, Running, config};
use freshet_router::session::network::Networks;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use world::{CONFIG, N3, N6, ORIGIN, World, missing};

/// Tells this program, started again, to take what arrives at an interface.
const SINK: &str = "FRESHET_ROUTER_SINK";
/// Tells this program, started again, where to send frames to: `MAC`.
const SEND: &str = "FRESHET_ROUTER_SEND";
/// Tells it, where it is not empty, that packets are in no tunnels.
const PLAIN: &str = "FRESHET_ROUTER_PLAIN";
const SIZES: [usize; 10] = [64, 64, 128, 256, 256, 512, 1024, 1024, 1500, 1500];
const FRAMES_OF_A_SIZE: u32 = 40_000;
const ROUNDS: usize = 5;

fn main() {
    if let Some(path) = std::env::var_os(CONFIG) {
        let text = std::fs::read_to_string(path).unwrap();
        Running::start(config::read(&text).unwrap()).unwrap().run().unwrap();
        return;
    }
    if let Ok(device) = std::env::var(SINK) {
        sink(&device);
        return;
    }
    if let Ok(to) = std::env::var(SEND) {
        send(&to);
        return;
    }
    if let Some(why) = missing() {
        println!("capacity: {why}; nothing was measured");
        return;
    }
    println!("{:28}{:>10}{:>10}{:>12}", "one core, veth, mix", "Mpps", "Gbit/s", "lost");
    let mut bridge = World::new(N3);
    (bridge.gnb, bridge.upf) = (None, None);
    measure(&mut bridge, "bridge alone", "core", "core0");
    drop(bridge);
    let mut kernel = World::new(N6);
    forward(&kernel);
    measure(&mut kernel, KERNEL, "core", "core0");
    drop(kernel);
    let mut world = World::new(N3);
    world.pair("app", "probe", "tap0", N3.mtu);
    let apps = format!(
        "{}[app.probe]\nkind = \"tap-decapsulated\"\ninterface = \"tap0\"\nmac = \"{}\"\n\
         addresses = [\"192.0.2.8\"]\n",
        // The sink answers no connection.
        world.breakout_app().replace("tcp 10.99.0.2:80", "carrier"),
        world.mac("app", "probe")
    );
    world.start_router(&apps);
    world.is_answered_by("core");
    // The session is known; nobody is to spend time on what arrives.
    (world.gnb, world.upf) = (None, None);
    measure(&mut world, "pass", "core", "core0");
    let rules = |action: &str, address: &str| {
        json!([{
            "trafficRuleId": "origin", "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
            "trafficFilter": [{"dstAddress": ORIGIN, "dstPort": ["80"]}], "action": action,
            "dstInterface": {"interfaceType": "IP", "dstIpAddress": address},
        }])
    };
    world.set_rules(rules("FORWARD_DECAPSULATED", "10.99.0.2"));
    measure(&mut world, "breakout", "app", "app0");
    world.set_rules(rules("DUPLICATE_DECAPSULATED", "192.0.2.8"));
    measure(&mut world, "tap, decapsulated", "app", "probe");
}

/// What forwards packets without tunnels, which the kernel does not know.
const KERNEL: &str = "the kernel's forwarding";

/// Has the kernel forward from one end of the wire to the other, in place of the bridge.
fn forward(world: &World) {
    world.sysctl("rtr", "net.ipv4.ip_forward=1");
    world.ip("rtr", "link set acc0 nomaster");
    world.ip("rtr", "link set cor0 nomaster");
    world.ip("rtr", "addr add 10.201.0.1/24 dev cor0");
    let mac = world.mac("core", "core0");
    world.ip("rtr", &format!("neigh add 10.201.0.2 lladdr {mac} dev cor0 nud permanent"));
    world.ip("rtr", "route add 203.0.113.0/24 via 10.201.0.2 dev cor0");
}

/// The best of some rounds, by what arrived at an interface.
fn measure(world: &mut World, name: &str, ns: &str, device: &str) {
    let sent = u64::from(FRAMES_OF_A_SIZE) * SIZES.len() as u64;
    let (mut best, mut lost) = (0.0_f64, 0);
    // Also what goes on to the core beside a copy.
    let ends =
        if ns == "core" { vec![(ns, device)] } else { vec![(ns, device), ("core", "core0")] };
    let _sinks: Vec<world::Running> =
        ends.into_iter().map(|(ns, device)| start_sink(world, ns, device)).collect();
    for _ in 0..ROUNDS {
        let next =
            if name == KERNEL { world.mac("rtr", "acc0") } else { world.mac("core", "core0") };
        let before = world.received(ns, device);
        let output = Command::new("ip")
            .args(["netns", "exec", &world.ns("ran")])
            .arg(std::env::current_exe().unwrap())
            .env(SEND, next)
            .env(PLAIN, if name == KERNEL { "1" } else { "" })
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let seconds: f64 = said
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
        let arrived = (world.received(ns, device) - before).min(sent);
        lost += sent - arrived;
        best = best.max(arrived as f64 / seconds);
    }
    let mean = SIZES.iter().sum::<usize>() as f64 / SIZES.len() as f64;
    let lost = format!("{lost} of {}", sent * ROUNDS as u64);
    println!("{name:28}{:>10.2}{:>10.2}{lost:>18}", best / 1e6, best * mean * 8.0 / 1e9);
}

fn start_sink(world: &World, ns: &str, device: &str) -> world::Running {
    let mut child = Command::new("ip")
        .args(["netns", "exec", &world.ns(ns)])
        .arg(std::env::current_exe().unwrap())
        .env(SINK, device)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    world::Running(child)
}

/// Takes all that arrives at an interface until it is killed.
fn sink(device: &str) {
    let mut programs = Programs::load(&options()).unwrap();
    let index = std::fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).unwrap();
    let index = index.trim().parse().unwrap();
    let _link = programs.attach("sink", index, XdpMode::default()).unwrap();
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn options() -> Options {
    Options {
        tunnelled: true,
        wire_bytes_max: 1500,
        sessions: 16,
        seed: 1,
        tells_verdicts: false,
        networks: Networks::default(),
        pins: None,
        object: Object::Gauge,
    }
}

/// Sends the mix out on `ran0`, and prints how many seconds that took.
fn send(to: &str) {
    let mut programs = Programs::load(&options()).unwrap();
    let index = std::fs::read_to_string("/sys/class/net/ran0/ifindex").unwrap();
    programs.set_wire(0, index.trim().parse().unwrap()).unwrap();
    let own = std::fs::read_to_string("/sys/class/net/ran0/address").unwrap();
    let macs = [to, own.trim()].map(|text| freshet_router::app::mac_of(text).unwrap());
    let mut nanoseconds = 0;
    for bytes in SIZES {
        let frame = frame(bytes, macs);
        let options = TestRunOptions {
            data_in: Some(&frame),
            repeat: FRAMES_OF_A_SIZE,
            attrs: TestRunAttrs::new().xdp_live_frames(64),
            ..TestRunOptions::default()
        };
        programs.set_gauge(&frame, [0; 4]).unwrap();
        let program = programs.program("generate").unwrap();
        let started = cpu_ns();
        program.test_run(options).unwrap();
        nanoseconds += cpu_ns() - started;
    }
    println!("{}", nanoseconds as f64 / 1e9);
}

/// How long this thread was on a processor.
fn cpu_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn frame(bytes: usize, macs: [[u8; 6]; 2]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((bytes as u16).to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
    packet.extend([10, 45, 0, 2, 203, 0, 113, 10]);
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    packet.extend([40_000_u16, 80, (bytes - 20) as u16, 0].map(u16::to_be_bytes).concat());
    packet.resize(bytes, 0x55);
    let end = |last: u32| freshet_router::packet::mapped(0x0a03_0000 + last);
    let wrapping =
        Wrapping { addresses: [end(1), end(240)], teid: 100, qfi: 9, form: Form::GtpContainer };
    let mut frame = macs.concat();
    frame.extend([8, 0]);
    if std::env::var_os(PLAIN).is_some_and(|is| !is.is_empty()) {
        frame.extend(packet);
        return frame;
    }
    frame.extend(wrapping.headers(&packet, 0, None));
    frame.extend(packet);
    frame
}
