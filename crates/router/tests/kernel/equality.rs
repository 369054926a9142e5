//! Any frame, any rules, any sessions: the same verdict and the same bytes as the model.

use crate::support::{self, Random, World};
use aya::programs::{TestRun, TestRunOptions};
use freshet_router::app::{App, Kind};
use freshet_router::kernel::{Object, Options, Programs, Told};
use freshet_router::model::{Ingress, Out, Reason, Verdict};
use freshet_router::rule::compile::Table;
use freshet_router::session::lines::{Lines, Numbers, Write, lines_for};
use freshet_router::session::network::Networks;

/// How many frames, where somebody asks for more than the short form.
const FRAMES: &str = "FRESHET_ROUTER_FRAMES";

pub(crate) fn options(tunnelled: bool) -> Options {
    Options {
        tunnelled,
        wire_bytes_max: 1500,
        sessions: 16,
        seed: 11,
        tells_verdicts: true,
        networks: Networks::default(),
        pins: None,
        object: Object::Router,
    }
}

const LOOPBACK: u32 = 1;

/// The programs, or none where this machine does not let them be loaded.
pub(crate) fn load(options: &Options) -> Option<Programs> {
    if !rustix::process::geteuid().is_root() {
        crate::skip::skip("programs for the kernel are loaded by root only");
        return None;
    }
    if let Err(error) = aya::maps::Array::<aya::maps::MapData, u32>::create(1, 0) {
        crate::skip::skip(format_args!("this machine lets root make no maps: {error}"));
        return None;
    }
    Some(Programs::load(options).expect("root loads them on any kernel that is new enough"))
}

pub(crate) fn kernel_says(
    programs: &mut Programs,
    ingress: Ingress,
    frame: &[u8],
) -> (u32, Told, Vec<u8>) {
    let name = match ingress {
        Ingress::Access => "access",
        Ingress::Core => "core",
        Ingress::App(1, 0) => "in_line_access",
        Ingress::App(1, _) => "in_line_core",
        Ingress::App(..) => "app",
    };
    let mut out = vec![0; 4096];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        ..TestRunOptions::default()
    };
    let result = programs.program(name).unwrap().test_run(options).unwrap();
    out.truncate(result.data_size_out as usize);
    let mut told = programs.told().unwrap();
    // Only what the way it went has.
    (told.direction, told.app, told.leg) = match told.out {
        0 => (told.direction, 0, 0),
        1 => (0, told.app, told.leg),
        2 => (told.direction, told.app, 0),
        _ => (0, 0, 0),
    };
    (result.return_value, told, out)
}

fn expected(verdict: &Verdict) -> (u32, Told) {
    let mut told = Told {
        reason: verdict.reason as u32,
        out: 0,
        direction: 0,
        app: 0,
        leg: 0,
        rule: verdict.rule,
        sighted: verdict.sighting.is_some(),
    };
    let action = match verdict.out {
        Out::Wire(direction) => {
            told.direction = direction as u32;
            4
        }
        Out::App(app, leg) => {
            (told.out, told.app, told.leg) = (1, app.into(), leg.into());
            4
        }
        Out::Tap(direction, app) => {
            (told.out, told.direction, told.app) = (2, direction as u32, app.into());
            4
        }
        Out::Nowhere => {
            told.out = 3;
            1
        }
        Out::Host => {
            told.out = 4;
            2
        }
        Out::Back => {
            told.out = 5;
            3
        }
    };
    (action, told)
}

/// A kernel that knows what the model knows. Maps of interfaces are filled with one that is there.
pub(crate) fn set_up(
    programs: &mut Programs,
    apps: &[App],
    rules: &[freshet_router::rule::Rule],
    sessions: &[(freshet_router::session::Session, u16)],
) {
    for direction in 0..2 {
        programs.set_wire(direction, LOOPBACK).unwrap();
    }
    let own = support::own_macs();
    let mut place = 0;
    let mut taps = 0;
    for (number, app) in apps.iter().enumerate() {
        let legs: Vec<u16> = (0..app.legs.len() as u16).map(|leg| place + leg).collect();
        for leg in &legs {
            programs.set_leg(*leg, LOOPBACK).unwrap();
        }
        place += legs.len() as u16;
        if let Kind::Tap { .. } = app.kind {
            programs.set_tap(taps, [LOOPBACK; 2], LOOPBACK, None).unwrap();
            taps += 1;
        }
        programs.set_app(number as u8, app, &legs, &own[number], taps.saturating_sub(1)).unwrap();
        programs.set_alive(number as u8, u64::MAX).unwrap();
    }
    let mut lines = Lines::new(16, 11);
    for (number, (session, profile)) in sessions.iter().enumerate() {
        let path = number as u16;
        programs.set_path(path, &session.path).unwrap();
        let numbers = Numbers { path, profile: *profile, usage: number as u32 };
        programs.set_line(&lines.put(session, numbers).unwrap()).unwrap();
    }
    let table = Table::new(1, rules, &support::profiles()).unwrap();
    programs.set_rules(&table).unwrap();
}

#[test]
fn the_kernel_does_what_the_model_says() {
    let frames: u64 = std::env::var(FRAMES).map_or(20_000, |text| text.parse().unwrap());
    let mut reasons = std::collections::BTreeMap::<_, u64>::new();
    // Frames whose client is one of several of its address.
    let mut shared = 0;
    for (tunnelled, networks) in worlds() {
        let with = Options { networks: networks.clone(), ..options(tunnelled) };
        let Some(mut programs) = load(&with) else { return };
        let mut sightings = programs.take_sightings().unwrap();
        let worlds = (frames / 800).max(1);
        for seed in 0..worlds {
            let mut random = Random(seed << 1 | u64::from(tunnelled));
            let World { mut model, apps, rules, sessions } =
                support::world(&mut random, tunnelled, &networks);
            if rules.is_empty() {
                continue;
            }
            forget_sessions(&mut programs);
            set_up(&mut programs, &apps, &rules, &sessions);
            let dead = random.below(8) as u8;
            model.set_alive(dead, false);
            programs.set_alive(dead, 1).unwrap();
            programs.forget_connections(|_| true).unwrap();
            // Of every other world rules settle, which were others before.
            let before = (seed % 2 == 0).then(|| support::rules(&mut random, 20, &apps));
            let table =
                Table::new(0, before.as_deref().unwrap_or_default(), &support::profiles()).unwrap();
            let until_ns = if before.is_some() { u64::MAX } else { 0 };
            programs.settle(&table, 0, until_ns).unwrap();
            model.settle(before);
            for number in 0..200 {
                let (ingress, frame) = support::frame(&mut random, tunnelled, &sessions);
                arrive(&mut programs, &apps, ingress);
                let (meant, said) =
                    (model.decide(ingress, &frame), kernel_says(&mut programs, ingress, &frame));
                let is_met = matches!(meant.reason, Reason::Breakout | Reason::FromApp);
                shared +=
                    u64::from(is_met && sessions.iter().any(|(one, _)| one.client.network > 0));
                compare(
                    &meant,
                    &said,
                    &format!("seed {seed}, frame {number} at {ingress:?}: {frame:02x?}"),
                );
                *reasons.entry(meant.reason.name()).or_default() += 1;
                while let Some(item) = sightings.next() {
                    let seen = freshet_router::kernel::layout::sighting(&item).unwrap();
                    let mut meant = meant.sighting.unwrap();
                    if let Some(tunnel) = &mut meant.tunnel {
                        tunnel.traffic_class = 0;
                    }
                    assert_eq!(seen, meant, "seed {seed}, frame {number}");
                }
            }
        }
    }
    eprintln!("{reasons:?}, {shared} among networks");
    assert!(shared > frames / 200, "{shared} frames among networks show nothing");
    for reason in Reason::ALL {
        let is_rare = matches!(reason.name(), "rate-limited" | "no-room");
        assert!(is_rare || reasons.contains_key(reason.name()), "{} never came", reason.name());
    }
}

/// Good frames with some bytes replaced, and cut; and bytes that are no frame.
#[test]
fn broken_frames_are_to_the_kernel_what_they_are_to_the_model() {
    let frames: u64 = std::env::var(FRAMES).map_or(10_000, |text| text.parse().unwrap());
    let mut malformed = 0;
    for (tunnelled, networks) in worlds() {
        let with = Options { networks: networks.clone(), ..options(tunnelled) };
        let Some(mut programs) = load(&with) else { return };
        let mut random = Random(0xbad + u64::from(tunnelled));
        let World { mut model, apps, rules, sessions } = loop {
            let world = support::world(&mut random, tunnelled, &networks);
            if !world.rules.is_empty() {
                break world;
            }
        };
        set_up(&mut programs, &apps, &rules, &sessions);
        model.set_alive(1, false);
        programs.set_alive(1, 1).unwrap();
        for number in 0..frames / 4 {
            let (ingress, mut frame) = support::frame(&mut random, tunnelled, &sessions);
            if random.one_in(10) {
                frame = (0..14 + random.below(200)).map(|_| random.below(256) as u8).collect();
            }
            for _ in 0..random.below(6) {
                // Mostly in the headers.
                let most = if random.one_in(3) { frame.len() } else { frame.len().min(90) };
                let place = random.below(most as u64) as usize;
                frame[place] = random.below(256) as u8;
            }
            if random.one_in(4) {
                // The kernel is given no frame without a link header.
                frame.truncate(14 + random.below(frame.len() as u64 - 13) as usize);
            }
            arrive(&mut programs, &apps, ingress);
            let (meant, said) =
                (model.decide(ingress, &frame), kernel_says(&mut programs, ingress, &frame));
            compare(&meant, &said, &format!("frame {number} at {ingress:?}: {frame:02x?}"));
            malformed += u64::from(meant.reason.name() == "malformed");
        }
    }
    assert!(malformed > frames / 10, "{malformed} malformed frames show nothing");
}

/// What is on the wire, and whether addresses are unique in networks alone.
fn worlds() -> [(bool, Networks); 4] {
    let (none, some) = (Networks::default(), support::networks());
    [(true, none.clone()), (true, some.clone()), (false, none), (false, some)]
}

/// Packets of a test come in at one interface, whatever the app.
fn arrive(programs: &mut Programs, apps: &[App], ingress: Ingress) {
    if let Ingress::App(app, _) = ingress {
        let network = apps[usize::from(app)].network.unwrap_or_default();
        programs.set_leg_network(LOOPBACK, Some(network)).unwrap();
    }
}

/// Has a kernel know nobody any more.
pub(crate) fn forget_sessions(programs: &mut Programs) {
    for slot in 0..lines_for(16) as u32 {
        programs.set_line(&Write { slot, line: [0; 32] }).unwrap();
    }
    programs.clear_fragments().unwrap();
}

fn compare(meant: &Verdict, (action, told, bytes): &(u32, Told, Vec<u8>), place: &str) {
    let (meant_action, meant_told) = expected(meant);
    assert_eq!(*told, meant_told, "{place}");
    assert_eq!(*action, meant_action, "{place}");
    if meant.out != Out::Nowhere {
        assert_eq!(*bytes, meant.frame, "{place}");
    }
}

/// A rule's rate holds within five in a hundred. The burst is long, so that it does not matter when
/// this test has to wait for a processor.
#[test]
fn a_limited_rule_keeps_its_rate() {
    use freshet_router::rule::{Act, Rule};
    const RATE: u64 = 50_000_000;
    const BURST_MS: u64 = 1000;
    let Some(mut programs) = load(&Options { tells_verdicts: false, ..options(false) }) else {
        return;
    };
    let rule = Rule { number: 7, limiter: 3, ..support::rule_for_all(Act::Pass, None) };
    let mut random = Random(1);
    let client = freshet_router::packet::mapped(0x0a2d_0002);
    let session =
        support::session(&mut random, freshet_router::session::Client::of(client).unwrap(), false);
    set_up(&mut programs, &support::apps(), &[rule], &[(session, 0)]);
    programs.set_limiter(3, RATE, BURST_MS).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend(loop {
        let packet = support::packet(&mut random, client, 0xffff_cb00_710a);
        if packet.len() > 1300 {
            break packet;
        }
    });
    programs.program("access").unwrap();
    let started = std::time::Instant::now();
    while started.elapsed() < std::time::Duration::from_secs(1) {
        let options =
            TestRunOptions { data_in: Some(&frame), repeat: 2000, ..TestRunOptions::default() };
        programs.program("access").unwrap().test_run(options).unwrap();
    }
    let seconds = started.elapsed().as_secs_f64() + BURST_MS as f64 / 1000.0;
    let reasons = programs.reasons().unwrap();
    let of = |name: &str| {
        let found = reasons[0].iter().find(|(reason, _)| reason.name() == name).unwrap();
        found.1.bytes as f64 * 8.0
    };
    let (passed, dropped) = (of("rule-pass"), of("rate-limited"));
    assert!(
        dropped > passed / 4.0,
        "{passed} passed, {dropped} dropped: the rate was never reached"
    );
    let off = passed / (RATE as f64 * seconds) - 1.0;
    assert!(off.abs() < 0.05, "{:.1} % off", off * 100.0);
}

/// Measurements run a frame again and again, and each time from the same bytes on.
#[test]
fn a_measured_frame_is_put_back_as_it_was() {
    let measured = Options { tells_verdicts: false, object: Object::Gauge, ..options(true) };
    let Some(mut programs) = load(&measured) else { return };
    let whole: Vec<u8> = (0..200).map(|number| number as u8).collect();
    programs.set_gauge(&whole, [0; 4]).unwrap();
    let (other, mut out) = (vec![0xff; whole.len()], vec![0; whole.len()]);
    let options = TestRunOptions {
        data_in: Some(&other),
        data_out: Some(&mut out),
        ..TestRunOptions::default()
    };
    let result = programs.program("back").unwrap().test_run(options).unwrap();
    assert_eq!((result.return_value, &out[..80]), (2, &whole[..80]));
}
