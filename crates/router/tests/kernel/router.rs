//! A router on a wire: real clients, real servers, real packets.

use crate::world::{CLIENT, CONFIG, N3, N6, ORIGIN, Wire, World, missing};
use freshet_router::kernel::{Running, config};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Other tests start this program again as the router, with this one test to run.
#[test]
fn is_the_router_when_told_so() {
    let Some(path) = std::env::var_os(CONFIG) else { return };
    let text = std::fs::read_to_string(path).unwrap();
    match config::read(&text)
        .map_err(|what| what.to_string())
        .and_then(|config| Running::start(config).map_err(|error| error.to_string()))
    {
        Ok(mut router) => router.run().unwrap(),
        Err(error) => {
            eprintln!("did not start: {error}");
            std::process::exit(1);
        }
    }
}

const S1U_IPV6: Wire = Wire { tunnel: Some(0), outer_ipv6: true, ..N3 };

fn world(wire: Wire) -> Option<World> {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return None;
    }
    Some(World::new(wire))
}

pub(crate) fn to_edge() -> serde_json::Value {
    json!({"interfaceType": "IP", "dstIpAddress": "10.99.0.2"})
}

/// A client's requests are answered by the core without a rule and by the edge with one, and the
/// server sees the client's own address both times; long bodies arrive whole both ways.
fn breaks_out(wire: Wire) {
    let Some(mut world) = world(wire) else { return };
    world.is_answered_by("core");
    world.start_router(&world.breakout_app());
    world.is_answered_by("core");
    world.until("the app is alive", |world| {
        world.ask(json!({"ask": "status"}))["apps"]["edge"] == json!(true)
    });
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    world.carries_long_bodies();
    let sessions = world.ask(json!({"ask": "sessions"}));
    let used = sessions[0]["usage"]["downlink"]["bytes"].as_u64().unwrap();
    assert!(used > 1_000_000, "{sessions}");
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    let traced = world.ask(json!({
        "ask": "trace", "client": CLIENT[0], "server": ORIGIN[0], "protocol": 6,
        "ports": [40000, 80], "downlink": false,
    }));
    assert_eq!(traced["reason"], "breakout", "{traced}");
    world.set_rules(json!([]));
    world.is_answered_by("core");
}

#[test]
fn breakout_on_n3() {
    breaks_out(N3);
}

#[test]
fn breakout_on_s1u_over_ipv6() {
    breaks_out(S1U_IPV6);
}

#[test]
fn breakout_on_n3_in_a_vlan() {
    breaks_out(Wire { vlan: Some(5), ..N3 });
}

#[test]
fn breakout_on_n6() {
    breaks_out(N6);
}

/// The wire has no room for 1500 bytes and a tunnel: apps are told, and their packets arrive.
#[test]
fn an_app_with_a_longer_mtu_is_told() {
    breaks_out(Wire { mtu: 1500, client_mtu: 1456, ..N3 });
}

#[test]
fn a_dead_app_gives_the_traffic_back() {
    let Some(mut world) = world(N3) else { return };
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    let mut times = Vec::new();
    // A machine with other work may take longer once.
    while times.len() < 3 && !times.iter().any(|time| *time <= BACK_WITHIN) {
        world.is_answered_by("edge");
        // The app dies.
        world.servers.pop();
        times.push(back_at_the_core(&world));
        world.start_server("app", "edge");
    }
    assert!(times.iter().any(|time| *time <= BACK_WITHIN), "{times:?}");
    eprintln!("a dead app's traffic is back at the core after {times:?}");
    let events = world.ask(json!({"ask": "events"})).to_string();
    assert!(events.contains("app-dead"), "{events}");
}

/// How soon the traffic of what is dead is to be back.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(1);

/// How long it takes from now until the core answers the client.
pub(crate) fn back_at_the_core(world: &World) -> Duration {
    use std::io::{Read, Write};
    let begun = Instant::now();
    world.within("ran", || {
        let address = format!("{}:80", ORIGIN[0]).parse().unwrap();
        let patience = Duration::from_millis(100);
        let ask = || {
            let mut stream = std::net::TcpStream::connect_timeout(&address, patience).ok()?;
            stream.set_read_timeout(Some(patience)).ok()?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            answer.contains("core ").then_some(())
        };
        while ask().is_none() {
            assert!(begun.elapsed() < crate::world::PATIENCE, "the core never answers");
        }
    });
    begun.elapsed()
}

#[test]
fn a_wire_whose_frames_are_too_long_for_programs_is_told_so() {
    let Some(world) = world(Wire { mtu: 9000, ..N3 }) else { return };
    let config = world.configure(&world.breakout_app());
    let output = world.router_command(&config).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("acc0") && said.contains("MTU of 9000"), "{said}");
    world.is_answered_by("core");
}

#[test]
fn a_killed_router_is_followed_by_another_and_flows_go_on() {
    let Some(mut world) = world(N3) else { return };
    let apps = world.breakout_app();
    world.start_router(&apps);
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    // A machine with other work may take longer than the dead-man switch waits, once.
    let is_carried = (0..3).any(|_| download_goes_on(&mut world, &apps));
    assert!(is_carried, "no download outlived the router");
    // Without another the dead-man switch gives the traffic back.
    world.kill_router();
    let back = back_at_the_core(&world);
    assert!(back <= 3 * BACK_WITHIN, "{back:?}");
    world.is_answered_by("core");
}

/// Whether a download of three seconds arrives whole, with the router killed and followed by another in
/// its midst.
fn download_goes_on(world: &mut World, apps: &str) -> bool {
    world.is_answered_by("edge");
    let used = |world: &World| {
        let sessions = world.ask(json!({"ask": "sessions", "client": CLIENT[0]}));
        sessions[0]["usage"]["downlink"]["bytes"].as_u64().unwrap_or_default()
    };
    let before = used(world);
    let slow = Command::new("ip")
        .args(["netns", "exec", &world.ns("ran"), "curl", "-sS", "--max-time", "30"])
        .arg(format!("http://{}/300000/slow", ORIGIN[0]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    world.until("the download is under way", |world| used(world) > before + 50_000);
    world.kill_router();
    world.start_router(apps);
    let status = world.ask(json!({"ask": "status"}));
    assert_eq!((&status["adopted"], &status["sessions"]), (&json!(true), &json!(2)), "{status}");
    let output = slow.wait_with_output().unwrap();
    output.status.success() && output.stdout.len() == 300_000
}

#[test]
fn a_client_that_moves_keeps_its_edge() {
    let Some(mut world) = world(N3) else { return };
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    let (upf, gnbs) = (world.upf_address(), world.gnbs());
    world.gnb.as_mut().unwrap().set(1, &upf, 100, 9);
    world.upf.as_mut().unwrap().set(0, &gnbs[1], 201, 9);
    // The core's next packet to the client says where it is: that nobody listens at this port.
    for host in [ORIGIN[0].to_owned(), format!("[{}]", ORIGIN[1])] {
        assert_eq!(world.curl(&[&format!("http://{host}:81/")]), None);
    }
    world.is_answered_by("edge");
    let sessions = world.ask(json!({"ask": "sessions"}));
    assert_eq!(sessions[0]["ends"][0], gnbs[1].as_str(), "{sessions}");
    let events = world.ask(json!({"ask": "events"})).to_string();
    assert!(events.contains("handover"), "{events}");
}

/// Packets with the client's source from another tunnel are nobody's: they pass, and the client's own
/// session stays.
#[test]
fn a_forged_source_neither_reaches_the_edge_nor_moves_the_session() {
    let Some(mut world) = world(N3) else { return };
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    let upf = world.upf_address();
    let gnbs = world.gnbs();
    let before = world.ask(json!({"ask": "sessions"}))[0]["teids"].clone();
    for (local, teid) in [(0, 666), (1, 667)] {
        world.gnb.as_mut().unwrap().set(local, &upf, teid, 9);
        world.is_answered_by("core");
        assert!(world.counted("other-tunnel") > 0);
        let sessions = world.ask(json!({"ask": "sessions"}));
        assert_eq!(sessions[0]["teids"], before, "{sessions}");
        assert_eq!(sessions[0]["ends"][0], gnbs[0].as_str(), "{sessions}");
    }
    world.gnb.as_mut().unwrap().set(0, &upf, 100, 9);
    world.is_answered_by("edge");
}

#[test]
fn an_in_line_app_is_passed_through_and_bypassed_when_it_is_gone() {
    for wire in [N3, S1U_IPV6, N6] {
        let Some(mut world) = world(wire) else { return };
        world.pair("app", "in0", "in-a", wire.mtu);
        world.pair("app", "in1", "in-b", wire.mtu);
        world.ip("app", "link add inner type bridge stp_state 0 mcast_snooping 0");
        world.ip("app", &format!("link set inner mtu {}", wire.mtu));
        for one in ["in0", "in1"] {
            world.ip("app", &format!("link set {one} master inner"));
        }
        world.ip("app", "link set inner up");
        let app = "[app.box]\nkind = \"in-line\"\ninterface = [\"in-a\", \"in-b\"]\n\
                   mac = [\"02:00:00:00:00:01\", \"02:00:00:00:00:02\"]\naddresses = [\"192.0.2.7\"]\n";
        world.start_router(app);
        world.is_answered_by("core");
        let to = json!([{"interfaceType": "MAC", "dstMacAddress": "02:00:00:00:00:01"},
                        {"interfaceType": "MAC", "dstMacAddress": "02:00:00:00:00:02"}]);
        world.set_rules(world.rule("PASSTHROUGH", to));
        let before = world.counted("from-in-line");
        world.is_answered_by("core");
        world.carries_long_bodies();
        assert!(world.counted("from-in-line") >= before + 1000, "not all went through the app");
        world.ip("app", "link set in1 down");
        world.until("the app is bypassed", |world| {
            world.get(0).is_some_and(|text| text.starts_with("core"))
        });
        assert!(world.counted("app-dead") > 0);
    }
}

#[test]
fn a_tap_gets_a_copy_of_each_packet() {
    for (wire, decapsulated) in [(N3, false), (N3, true), (S1U_IPV6, true), (N6, false)] {
        let Some(mut world) = world(wire) else { return };
        world.pair("app", "probe", "tap0", wire.mtu);
        let (kind, action) = if decapsulated {
            ("tap-decapsulated", "DUPLICATE_DECAPSULATED")
        } else {
            ("tap", "DUPLICATE_ENCAPSULATED")
        };
        world.start_router(&format!(
            "[app.probe]\nkind = \"{kind}\"\ninterface = \"tap0\"\nmac = \"{}\"\n\
             addresses = [\"192.0.2.8\"]\n",
            world.mac("app", "probe")
        ));
        world.is_answered_by("core");
        world.until("the tap is alive", |world| {
            world.ask(json!({"ask": "status"}))["apps"]["probe"] == json!(true)
        });
        let to = json!({"interfaceType": "IP", "dstIpAddress": "192.0.2.8"});
        world.set_rules(world.rule(action, to));
        let (counted, received) = (world.counted("tap"), world.received("app", "probe"));
        world.is_answered_by("core");
        world.carries_long_bodies();
        let copies = world.counted("tap") - counted;
        assert!(copies >= 1000, "{copies} copies");
        world.until("all copies arrive", |world| {
            world.received("app", "probe") - received >= copies
        });
    }
}

/// A kernel that refuses is not there for the asking: here a filter of system calls refuses.
#[test]
fn a_kernel_that_refuses_is_named_and_the_wire_untouched() {
    const EPERM: i32 = 1;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;
    const ALL: i32 = -1;
    const MAP_CREATE: i32 = 0;
    const PROG_LOAD: i32 = 5;
    const OBJ_PIN: i32 = 6;
    const LINK_CREATE: i32 = 28;
    let Some(world) = world(N3) else { return };
    let config = world.configure(&world.breakout_app());
    for (errno, command, expected) in [
        (ENOSYS, ALL, "CONFIG_BPF_SYSCALL"),
        (EPERM, ALL, "CAP_BPF and CAP_NET_ADMIN"),
        (EINVAL, MAP_CREATE, "lacks: BPF maps, in Linux since 3.19"),
        (EINVAL, PROG_LOAD, "lacks: XDP programs, in Linux since 4.8"),
        (EPERM, OBJ_PIN, "pin"),
        (EPERM, LINK_CREATE, "may this process attach programs"),
    ] {
        let router = world.router_command(&config);
        let mut refused = Command::new("ip");
        let arguments: Vec<_> = router.get_args().map(ToOwned::to_owned).collect();
        let script =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/refuse.py");
        refused
            .args(&arguments[..3])
            .arg("python3")
            .arg(script)
            .args([errno.to_string(), command.to_string()])
            .args(&arguments[3..])
            .env(CONFIG, &config);
        let output = refused.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{expected}: {said}");
        world.is_answered_by("core");
        let left = std::fs::read_dir(world.path("bpf/router")).into_iter().flatten();
        let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
        let is_empty = left.iter().all(|one| one.is_dir() && one.ends_with("links"));
        assert!(is_empty, "{expected}: {left:?} is left");
    }
}

#[test]
fn what_cannot_start_leaves_the_wire_untouched() {
    let Some(mut world) = world(N3) else { return };
    let refuses = |world: &World, change: &dyn Fn(String) -> String, expected: &str| {
        let path = world.configure(&world.breakout_app());
        let text = change(std::fs::read_to_string(&path).unwrap());
        let path = world.path("other.toml");
        std::fs::write(&path, text).unwrap();
        let output = world.router_command(&path).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{expected}: {said}");
        assert!(world.get(0).is_some_and(|text| text.starts_with("core")));
    };
    refuses(
        &world,
        &|text| text.replace("\"cor0\"", "\"cor9\""),
        "core: there is no interface `cor9`",
    );
    refuses(
        &world,
        &|text| text.replace("\"cor0\"", "\"leg0\"").replace("\"leg0\"\nmac", "\"cor0\"\nmac"),
        "must be in one bridge",
    );
    refuses(&world, &|text| text.replace("/bpf/router", "/router"), "is in no BPF file system");
    let rules = world.path("rules.json");
    std::fs::write(&rules, json!([{"trafficRuleId": "x"}]).to_string()).unwrap();
    let with_rules = format!("rules = \"{}\"\n", rules.display());
    refuses(&world, &|text| with_rules.clone() + &text, "rules[0]: missing field");
    let long = |text: String| text.replace("router.sock", &format!("{}.sock", "r".repeat(100)));
    refuses(&world, &long, "socket: ");
    // A second router: with the same socket, and on the same wire.
    world.start_router(&world.breakout_app());
    refuses(&world, &|text| text, "another router is running");
    let elsewhere = |text: String| {
        text.replace("router.sock", "second.sock")
            .replace("bpf/router", "bpf/second")
            .replace("router.json", "second.json")
    };
    refuses(&world, &elsewhere, "is another program on it?");
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    let mistaken = world.rule("DUPLICATE_ENCAPSULATED", to_edge());
    let refused =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.set_rules(mistaken)));
    assert!(refused.is_err());
    world.is_answered_by("edge");
}

/// Frames go to and fro between this program, started again in the client's namespace, and itself in
/// the core's, while the programs are taken off the wire, put on it and replaced.
#[test]
fn nothing_is_lost_when_programs_come_and_go() {
    let part = |name| std::env::var(name).ok();
    match (part(SEND_TO), part(ANSWER_AT)) {
        (Some(to), _) => return send(&to, part(FRAMES).unwrap().parse().unwrap()),
        (_, Some(at)) => return answer(&at),
        _ => {}
    }
    let Some(mut world) = world(N3) else { return };
    world.start_router(&world.breakout_app());
    world.is_answered_by("core");
    let config =
        config::read(&std::fs::read_to_string(world.path("router.toml")).unwrap()).unwrap();
    load(&mut world, 200_000, |world| {
        // Replaced by those of a new process, then taken off and put on again.
        world.kill_router();
        world.start_router(&world.breakout_app());
        world.kill_router();
        freshet_router::kernel::detach(&config).unwrap();
        world.start_router(&world.breakout_app());
    });
}

/// Has frames go to and fro over the wire while something is done again and again, and fails where one is
/// lost.
#[allow(clippy::print_stderr, reason = "what was done is shown beside what came of it")]
pub(crate) fn load(world: &mut World, frames: u64, mut round: impl FnMut(&mut World)) {
    let frames = std::env::var(LOAD).unwrap_or_else(|_| frames.to_string());
    let this = |world: &World, ns| {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &world.ns(ns)])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "router::nothing_is_lost_when_programs_come_and_go", "--nocapture"]);
        command
    };
    let address = format!("{}:9", world.upf_address());
    let far = this(world, "core").env(ANSWER_AT, &address).stdout(Stdio::piped()).spawn();
    let mut far = crate::world::Running(far.unwrap());
    let said = BufReader::new(far.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.into_iter().any(|line| line.ends_with(READY)), "the far end is there");
    let load = this(world, "ran").env(SEND_TO, &address).env(FRAMES, &frames).spawn().unwrap();
    let mut load = crate::world::Running(load);
    let mut rounds = 0;
    while load.0.try_wait().unwrap().is_none() {
        round(world);
        rounds += 1;
    }
    assert!(load.0.wait().unwrap().success(), "frames were lost in {rounds} rounds");
    assert!(rounds >= 2, "{rounds} rounds show nothing");
}

/// How many frames this program is to send, and to which address.
const FRAMES: &str = "FRESHET_ROUTER_SEND";
const SEND_TO: &str = "FRESHET_ROUTER_SEND_TO";
/// At which address it is to send back what comes, and what it prints once it does.
const ANSWER_AT: &str = "FRESHET_ROUTER_ANSWER_AT";
const READY: &str = "ready to answer";
/// How many frames the test is to have sent, where somebody asks for more than the short form.
const LOAD: &str = "FRESHET_ROUTER_LOAD";

/// Sends datagrams that are answered, at a pace of 50,000 a second at most, and fails where an answer
/// is missing. No more of them are under way at a time than the queue of any device on the way holds:
/// on a machine whose processors are all busy a wire would drop the rest, whatever is attached to it.
fn send(to: &str, frames: u64) {
    const UNDER_WAY_MAX: u64 = 64;
    const INTERVAL: Duration = Duration::from_micros(20);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(crate::world::PATIENCE)).unwrap();
    let started = Instant::now();
    let mut answered = 0;
    for sent in 0..frames + UNDER_WAY_MAX {
        if sent >= UNDER_WAY_MAX {
            let came = socket.recv(&mut [0; 128]);
            assert!(came.is_ok(), "{} lost of {sent}: {came:?}", sent.min(frames) - answered);
            answered += 1;
        }
        if sent < frames {
            // One call of the system's for a batch: it sleeps longer than an interval.
            let due = INTERVAL * u32::try_from(sent).unwrap();
            if sent % 32 == 0 {
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
            assert_eq!(socket.send(&[0; 100]).unwrap(), 100);
        }
    }
}

/// Sends back what comes, until it is ended.
#[allow(clippy::print_stdout, reason = "who started it reads that it is there")]
fn answer(at: &str) {
    let socket = std::net::UdpSocket::bind(at).unwrap();
    println!("{READY}");
    let mut frame = [0; 128];
    loop {
        let (length, from) = socket.recv_from(&mut frame).unwrap();
        socket.send_to(&frame[..length], from).unwrap();
    }
}

/// The programs are gone with an interface of the wire; when it is there again they are, too.
#[test]
fn an_interface_of_the_wire_that_comes_back_gets_its_programs_again() {
    let Some(mut world) = world(N3) else { return };
    let mac = world.mac("ran", "ran0");
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    let off = |world: &World| world.ask(json!({"ask": "status"}))["off_wire"].clone();
    assert!(off(&world).is_null());
    for _ in 0..2 {
        world.ip("rtr", "link delete acc0");
        world.until("it is missed", |world| {
            off(world).as_str().is_some_and(|why| why.contains("there is no interface `acc0`"))
        });
        world.pair("ran", "ran0", "acc0", N3.mtu);
        world.ip("ran", &format!("link set ran0 address {mac}"));
        for gnb in world.gnbs() {
            world.ip("ran", &format!("addr add {gnb}/24 dev ran0"));
        }
        world.until("its bridge is missed", |world| {
            off(world).as_str().is_some_and(|why| why.contains("must be in one bridge"))
        });
        world.ip("rtr", "link set acc0 master br0");
        world.until("the wire is whole", |world| off(world).is_null());
        world.is_answered_by("edge");
    }
    let events = world.ask(json!({"ask": "events"})).to_string();
    assert_eq!(events.matches("wire-found-again").count(), 2, "{events}");
}
