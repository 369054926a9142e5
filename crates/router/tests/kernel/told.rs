//! What a router is told and what it tells: signalling, names, events, usage, and what it may do.

use crate::n4::{SMF, UPF, downlink_to, element, f_seid, message, uplink_rule};
use crate::world::{CLIENT, N3, ORIGIN, PATIENCE, World, missing};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

fn world() -> Option<World> {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return None;
    }
    Some(World::new(N3))
}

fn to_edge() -> Value {
    json!({"interfaceType": "IP", "dstIpAddress": "10.99.0.2"})
}

/// A datagram of PFCP as a mirror sends it: with its headers of IP and UDP.
pub(crate) fn copied(from: [u8; 4], to: [u8; 4], message: &[u8]) -> Vec<u8> {
    let length = (28 + message.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend([from, to].concat());
    packet.extend([8805, 8805, length - 20, 0].map(u16::to_be_bytes).concat());
    packet.extend(message);
    packet
}

#[test]
fn copies_of_signalling_at_a_socket_make_and_end_a_session() {
    const AT: &str = "127.0.0.1:18805";
    let Some(mut world) = world() else { return };
    let apps = format!("pfcp = \"{AT}\"\n{}", world.breakout_app());
    world.start_router(&apps);
    // The core's answers show the link to the base station.
    world.is_answered_by("core");
    let send = |world: &World, copies: &[Vec<u8>]| {
        world.within("rtr", || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for copy in copies {
                socket.send_to(copy, AT).unwrap();
            }
        });
    };
    let uplink = uplink_rule(&[1, 0, 0, 0, 100, 10, 3, 0, 240]);
    let downlink = downlink_to([10, 3, 0, 1], 3, 4, true, 200);
    let accepted = message(51, 1, 1, &[element(19, &[1]), f_seid(55)]);
    send(
        &world,
        &[
            copied(SMF, UPF, &message(50, 0, 1, &[uplink, downlink])),
            copied(UPF, SMF, &accepted),
            copied(SMF, UPF, &[0x21, 50, 0]),
        ],
    );
    let session =
        |world: &World| world.ask(json!({"ask": "sessions", "client": CLIENT[0]}))[0].clone();
    world.until("the core's word counts", |world| session(world)["authority"] == "pfcp");
    assert_eq!(session(&world)["teids"], json!([100, 200]));
    assert_eq!(world.ask(json!({"ask": "status"}))["pfcp"], json!([2, 1, 0]));
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    send(
        &world,
        &[
            copied(SMF, UPF, &message(54, 55, 2, &[])),
            copied(UPF, SMF, &message(55, 1, 2, &[element(19, &[1])])),
        ],
    );
    world.until("the session ends", |world| session(world).is_null());
}

/// An app reaches the address, too, and is not believed.
#[test]
fn copies_of_somebody_else_than_is_named_move_nobody() {
    const AT: &str = "10.99.0.1:18807";
    let Some(mut world) = world() else { return };
    let apps = |from: &str| {
        let edge = world.breakout_app();
        format!("pfcp = \"{AT}\"\npfcp_from = [\"{from}\"]\n{edge}")
    };
    let [others, apps_own] = [apps("10.99.0.3"), apps("10.99.0.0/30")];
    world.start_router(&others);
    world.is_answered_by("core");
    let uplink = uplink_rule(&[1, 0, 0, 0, 100, 10, 3, 0, 240]);
    let downlink = downlink_to([10, 3, 0, 1], 3, 4, true, 66);
    let accepted = message(51, 1, 1, &[element(19, &[1]), f_seid(55)]);
    let copies =
        [copied(SMF, UPF, &message(50, 0, 1, &[uplink, downlink])), copied(UPF, SMF, &accepted)];
    let send = |world: &World| {
        world.within("app", || {
            let socket = UdpSocket::bind("10.99.0.2:0").unwrap();
            for copy in &copies {
                socket.send_to(copy, AT).unwrap();
            }
        });
    };
    let counted = |world: &World| world.ask(json!({"ask": "status"}))["pfcp"].clone();
    let session =
        |world: &World| world.ask(json!({"ask": "sessions", "client": CLIENT[0]}))[0].clone();
    send(&world);
    world.until("both are refused", |world| counted(world) == json!([0, 0, 2]));
    assert_eq!(session(&world)["teids"], json!([100, 200]));
    world.kill_router();
    world.start_router(&apps_own);
    send(&world);
    world.until("both are taken", |world| counted(world) == json!([2, 0, 0]));
    world.until("they count", |world| session(world)["teids"] == json!([100, 66]));
}

#[test]
fn a_rule_with_a_name_follows_what_the_resolver_says() {
    let Some(mut world) = world() else { return };
    let named = |world: &World| {
        let mut rules = world.rule("FORWARD_DECAPSULATED", to_edge());
        rules[0]["trafficFilter"][0]["dstAddress"] = json!(["Video.example"]);
        rules
    };
    // Without anybody to ask the set is refused, with the place.
    world.start_router(&world.breakout_app());
    let refused = world.try_ask(&json!({"ask": "set-rules", "rules": named(&world)})).unwrap();
    assert_eq!(
        refused["mistakes"][0]["place"], "rules[0].trafficFilter[0].dstAddress[0]",
        "{refused}"
    );
    world.kill_router();
    let apps = format!("resolver = \"127.0.0.1:5353\"\n{}", world.breakout_app());
    world.start_router(&apps);
    world.is_answered_by("core");
    world.set_rules(named(&world));
    world.until("nobody answers for the name", |world| {
        world.ask(json!({"ask": "events"})).to_string().contains("name-unknown")
    });
    // What is not known matches nothing.
    world.is_answered_by("core");
    let answer = format!("video.example={}", ORIGIN[0]);
    let dns = world.script("rtr", "dns.py", &["127.0.0.1", "5353", &answer], Stdio::null());
    let is_edge = |world: &World| world.get(0) == Some(format!("edge {}", CLIENT[0]));
    world.until("the name is known", is_edge);
    assert!(world.get(1).unwrap().starts_with("core"), "the name has no such address");
    // The next process knows it without asking.
    drop(dns);
    world.kill_router();
    world.start_router(&apps);
    world.until("the name is still known", is_edge);
    world.set_rules(json!([]));
    world.is_answered_by("core");
}

#[test]
fn events_are_pushed_to_who_follows() {
    let Some(mut world) = world() else { return };
    world.start_router(&world.breakout_app());
    let mut stream = UnixStream::connect(world.path("router.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"{\"version\": 1, \"ask\": \"follow\"}\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut until = |what: &str| {
        loop {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            let event = &line["answer"];
            if event["what"] == what {
                return event.clone();
            }
        }
    };
    until("app-alive");
    world.is_answered_by("core");
    assert!(until("session")["number"].as_u64().unwrap() > 0);
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    until("rules");
    // Who does not read is let go, and nobody waits for it.
    let deaf: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(world.path("router.sock")).unwrap();
            stream.write_all(b"{\"version\": 1, \"ask\": \"follow\"}\n").unwrap();
            stream
        })
        .collect();
    let mut last = String::new();
    let mut newest = BufReader::new(deaf.last().unwrap());
    newest.read_line(&mut last).unwrap();
    assert!(last.contains("follow already"), "{last}");
    world.servers.pop();
    until("app-dead");
}

#[test]
fn usage_is_recorded_while_a_session_goes_on_and_when_it_ends() {
    let Some(mut world) = world() else { return };
    let apps = format!("usage_interval_s = 1\n{}", world.breakout_app());
    world.start_router(&apps);
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    let records = |world: &World, kind: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(world.path("usage.jsonl")).unwrap_or_default();
        let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        records.filter(|one| one["kind"] == kind && one["client"] == CLIENT[0]).collect()
    };
    world.until("the first record", |world| !records(world, "interim").is_empty());
    world.carries_long_bodies();
    world.until("a record of more", |world| {
        let last = records(world, "interim").pop().unwrap();
        last["downlink"]["bytes"].as_u64().unwrap() > 1_000_000
    });
    assert!(records(&world, "end").is_empty());
    world.ask(json!({"ask": "remove-session", "client": CLIENT[0]}));
    world.until("the last record", |world| !records(world, "end").is_empty());
}

/// The service has no more of root than it needs, and no less.
#[test]
fn what_the_service_file_allows_is_enough_and_nothing_is_not() {
    const UNIT: &str = include_str!("../../../../packaging/freshet-router.service");
    let Some(mut world) = world() else { return };
    let allowed =
        UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let allowed: String = allowed
        .split_whitespace()
        .map(|one| format!(",+{}", one.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let config = world.configure(&world.breakout_app());
    let start = |world: &World, allowed: &str| {
        let whole = world.router_command(&config);
        let mut arguments: Vec<_> = whole.get_args().map(ToOwned::to_owned).collect();
        let set = format!("-all{allowed}");
        for (place, word) in ["setpriv", "--bounding-set", &set].into_iter().enumerate() {
            arguments.insert(3 + place, word.into());
        }
        let mut command = std::process::Command::new("ip");
        command.args(arguments).env(crate::world::CONFIG, &config).stdin(Stdio::null());
        command.stdout(Stdio::null());
        command
    };
    let refused = start(&world, "").stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("did not start: "), "{said}");
    assert!(said.contains("kernel") || said.contains("permitted"), "{said}");
    assert!(world.get(0).is_some_and(|text| text.starts_with("core")));
    let child = start(&world, &allowed).spawn().unwrap();
    world.router = Some(crate::world::Running(child));
    world.until("the router answers", |world| world.try_ask(&json!({ "ask": "status" })).is_some());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
}
