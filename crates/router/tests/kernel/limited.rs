//! Rates on a wire: what a limiter lets through, and what shapes an app's answers.

use crate::support;
use crate::world::{N3, World, missing};
use freshet_router::app::{App, Kind, Leg};
use freshet_router::gtp::Form;
use freshet_router::kernel::ends::{Ends, FIRST_CLIENT, Front, Load, path};
use freshet_router::kernel::namespace::Namespaces;
use freshet_router::kernel::{Object, Options, Programs};
use freshet_router::packet::mapped;
use freshet_router::rule::compile::Table;
use freshet_router::rule::{Act, AddressRange, Filter, Part, Profile, Rule};
use freshet_router::session::lines::{Lines, Numbers};
use freshet_router::session::network::Networks;
use freshet_router::session::{Client, Session};
use serde_json::json;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Other work on the machine may spoil one.
const TRIALS: u32 = 5;
const CLIENTS: u32 = 8;
/// What arrives, in bits per second.
const RATE: f64 = 40e6;
const ENDS: [u128; 2] = [mapped(0x0a03_0001), mapped(0x0a03_00f0)];

/// A load of three times the rate, of which the rate arrives.
#[test]
fn a_limiter_lets_its_rate_through_within_five_percent() {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    eprintln!("{}", std::thread::spawn(|| limits(Vec::new(), &[(1, RATE as u64)])).join().unwrap());
}

/// The packets of some clients have a rate of their own beside that of all others.
#[test]
fn a_part_of_a_rule_has_a_rate_of_its_own_within_five_percent() {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    let some = [FIRST_CLIENT, FIRST_CLIENT + CLIENTS / 2 - 1].map(mapped);
    let some = AddressRange { first: some[0], last: some[1] };
    let filter = Filter { addresses: [Vec::new(), vec![some]], ..Filter::default() };
    let parts = vec![Part { filter, limiter: 2 }];
    let rates = [(1, RATE as u64 / 4), (2, RATE as u64 / 4 * 3)];
    eprintln!("{}", std::thread::spawn(move || limits(parts, &rates)).join().unwrap());
}

/// Rates that add up to `RATE`, by their limiters: that of the rule is 1.
fn limits(parts: Vec<Part>, rates: &[(u8, u64)]) -> String {
    let mut found = String::new();
    const SIZE: u16 = 942;
    const FRAME_BYTES: f64 = 1000.0;
    let namespaces = Namespaces::new(&["wire"]).unwrap();
    namespaces.set("wire", "ipv6/conf/default/disable_ipv6=1").unwrap();
    namespaces.cable([("wire", "ran0"), ("wire", "acc0")], 1600).unwrap();
    namespaces.cable([("wire", "core0"), ("wire", "cor0")], 1600).unwrap();
    let find = |device| namespaces.interface("wire", device).unwrap();
    let [ran, acc, core, cor] = ["ran0", "acc0", "core0", "cor0"].map(find);
    namespaces.enter("wire").unwrap();
    let mut ends = Ends::load().unwrap();
    ends.set_out(0, ran.1).unwrap();
    let _counting = ends.attach("take_uplink", core.1).unwrap();
    let _unused = ends.attach("take_downlink", ran.1).unwrap();
    let options = Options {
        tunnelled: true,
        wire_bytes_max: 1600,
        sessions: CLIENTS as usize,
        seed: 1,
        tells_verdicts: false,
        networks: Networks::default(),
        pins: None,
        object: Object::Router,
    };
    let mut programs = Programs::load(&options).unwrap();
    programs.set_wire(0, cor.1).unwrap();
    let app = App {
        name: "none".to_owned(),
        kind: Kind::Breakout,
        legs: vec![Leg { interface: "none".to_owned(), mac: [0; 6] }],
        addresses: Vec::new(),
        network: None,
        segment_bytes_max: [0; 2],
    };
    programs.set_app(0, &app, &[0], &[[0; 6]], 0).unwrap();
    let path = path(ENDS, [ran.0, core.0]);
    programs.set_path(0, &path).unwrap();
    let mut lines = Lines::new(CLIENTS as usize, options.seed);
    for number in 0..CLIENTS {
        let client = Client::of(mapped(FIRST_CLIENT + number)).unwrap();
        let teids = [1 + number; 2];
        let session = Session { client, teids, qfi: 9, form: Form::GtpContainer, path };
        let numbers = Numbers { path: 0, profile: 0, usage: number };
        programs.set_line(&lines.put(&session, numbers).unwrap()).unwrap();
    }
    let rule = Rule { limiter: 1, parts, ..support::rule_for_all(Act::Pass, None) };
    programs.set_rules(&Table::new(1, &[rule], &[Profile::default()]).unwrap()).unwrap();
    for (number, rate) in rates {
        programs.set_limiter(*number, *rate, 20).unwrap();
    }
    let _access = programs.attach("access", acc.1, Default::default()).unwrap();
    let front = |macs| Front { macs, tunnel: Some(ENDS) };
    // Three times the rate, also of each half of clients.
    let packets_per_second = 3.0 * RATE / (8.0 * FRAME_BYTES);
    let load = Load {
        packets_per_second,
        packets: (packets_per_second * 0.7) as u64,
        ways: [true, false],
        clients: CLIENTS,
        sizes: vec![SIZE],
        fronts: [front([core.0, ran.0]), front([ran.0, core.0])],
    };
    for _ in 0..TRIALS {
        ends.forget().unwrap();
        let sent = ends.send(&load, &AtomicBool::new(false)).unwrap();
        let bits = ends.taken().unwrap()[0].bytes as f64 * 8.0;
        found = format!("{:.2} Mbit/s of {:.0}: {sent:?}", bits / sent.seconds / 1e6, RATE / 1e6);
        // While the load was late there was nothing to let through.
        let least = 0.95 * RATE * (sent.seconds - sent.late_seconds);
        assert!((least..1.05 * RATE * sent.seconds).contains(&bits), "{bits}: {sent:?}");
        if sent.late_seconds < 0.01 * sent.seconds {
            break;
        }
    }
    found
}

/// A frame that a ring kept until the next load has begun is neither one of that nor out of order in it.
#[test]
fn what_is_left_of_a_load_is_not_of_the_next() {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    std::thread::spawn(|| {
        let namespaces = Namespaces::new(&["left"]).unwrap();
        namespaces.set("left", "ipv6/conf/default/disable_ipv6=1").unwrap();
        namespaces.cable([("left", "ran0"), ("left", "acc0")], 1600).unwrap();
        namespaces.enter("left").unwrap();
        let mut ends = Ends::load().unwrap();
        let acc = namespaces.interface("left", "acc0").unwrap().1;
        let _counting = ends.attach("take_uplink", acc).unwrap();
        // A frame of the first load, by its mark, and its ninth.
        let frame = format!("{:0112x}7465667209000000", 0);
        let mut taken = |arrived: u64| {
            let send = "import socket, sys\n\
                        socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
                        socket.bind(('ran0', 0))\n\
                        socket.send(bytes.fromhex(sys.argv[1]))";
            ends.forget().unwrap();
            let mut python = namespaces.command("left", "python3");
            assert!(python.args(["-c", send, &frame]).status().unwrap().success());
            loop {
                let taken = ends.taken().unwrap()[0];
                if taken.frames + taken.foreign >= arrived {
                    return (taken.frames, taken.foreign);
                }
                std::thread::yield_now();
            }
        };
        assert_eq!(taken(1), (1, 0));
        assert_eq!(taken(1), (0, 1));
    })
    .join()
    .unwrap();
}

/// Downlink is shaped where the app sends: its own interface has a queue for that.
#[test]
fn a_queue_at_the_apps_interface_shapes_its_answers_within_five_percent() {
    const BYTES: f64 = 3e6;
    const RATE: f64 = 20e6;
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    let mut world = World::new(N3);
    let ns = world.ns("app");
    let tc = |line: &str| {
        let mut all = vec!["netns", "exec", &ns, "tc"];
        all.extend(line.split_whitespace());
        let output = crate::world::run("ip", &all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    tc("qdisc add dev app0 root handle 1: htb default 10");
    tc("class add dev app0 parent 1: classid 1:10 htb rate 20mbit ceil 20mbit burst 16k");
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule(
        "FORWARD_DECAPSULATED",
        json!({
            "interfaceType": "IP", "dstIpAddress": "10.99.0.2"
        }),
    ));
    world.is_answered_by("edge");
    let mut rates = Vec::new();
    for _ in 0..TRIALS {
        let begun = Instant::now();
        let got = world.curl(&[&format!("http://{}/{BYTES}", crate::world::ORIGIN[0])]).unwrap();
        // Of 1514 bytes of a frame 1448 are the body's.
        let bits = got.len() as f64 * 8.0 * 1514.0 / 1448.0;
        let rate = bits / begun.elapsed().as_secs_f64() / RATE;
        assert!(rate < 1.05, "{rate} of the rate");
        rates.push(rate);
        if rate > 0.95 {
            eprintln!("{rates:?} of the rate");
            return;
        }
    }
    panic!("{rates:?} of the rate");
}

/// A rate that comes with the rules holds what they lead to the app together, also in the next process.
#[test]
fn a_rate_that_rules_share_is_kept_by_this_process_and_the_next() {
    const BYTES: usize = 1_500_000;
    const RATE: f64 = 20e6;
    /// What a limiter lets through at once, in seconds.
    const BURST_S: f64 = 0.02;
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    let mut world = World::new(N3);
    let apps = world.breakout_app();
    world.start_router(&apps);
    let rules = world.rule("FORWARD_DECAPSULATED", crate::router::to_edge());
    let set =
        |limits: serde_json::Value| json!({"ask": "set-rules", "rules": rules, "limits": limits});
    let limit = |rate: u64| json!([{"rules": ["origin", "other"], "bits_per_second": rate}]);
    let refused = world.try_ask(&set(limit(1))).unwrap();
    assert_eq!(refused["mistakes"][0]["place"], "limits[0].bits_per_second", "{refused}");
    world.ask(set(limit(RATE as u64)));
    let upload = world.path("long");
    std::fs::write(&upload, vec![b'y'; BYTES]).unwrap();
    for process in 0..2 {
        world.is_answered_by("edge");
        let (begun, before) = (Instant::now(), world.counted("rate-limited"));
        let body = format!("@{}", upload.display());
        let url = format!("http://{}/", crate::world::ORIGIN[0]);
        let sent = world.curl(&["--max-time", "300", "--data-binary", &body, &url]);
        assert_eq!(sent, Some(format!("{BYTES}\n")));
        // Not faster: how much slower TCP is that loses packets is its own affair.
        let most = 1.05 * RATE * (begun.elapsed().as_secs_f64() + BURST_S);
        assert!(BYTES as f64 * 8.0 < most, "{:?} in process {process}", begun.elapsed());
        assert!(world.counted("rate-limited") > before, "process {process} dropped nothing");
        world.kill_router();
        world.start_router(&apps);
    }
    world.ask(set(json!([])));
    let before = world.counted("rate-limited");
    world.carries_long_bodies();
    assert_eq!(world.counted("rate-limited"), before);
}
