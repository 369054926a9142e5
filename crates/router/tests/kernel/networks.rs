//! Two clients with one address, in two networks, on one wire: each is answered by its own app.

use crate::n4::{SMF, UPF, downlink_rule, downlink_to, element, f_seid, message, uplink_rule_with};
use crate::support::checksum;
use crate::told::copied;
use crate::world::{CLIENT, N3, ORIGIN, PATIENCE, World, missing};
use freshet_router::gtp::{Form, Wrapping};
use freshet_router::packet::mapped;
use serde_json::json;
use std::net::UdpSocket;

const CORE: u32 = 0x0a03_00f0;
/// The base station of the second client.
const STATION: u32 = 0x0a03_0003;
const PFCP: &str = "127.0.0.1:18806";

/// A datagram of so many bytes between clients' port 9000 and servers' port 90.
fn datagram(from: &str, to: &str, ports: [u16; 2], bytes: usize) -> Vec<u8> {
    let length = (28 + bytes) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, 17, 0, 0]);
    for address in [from, to] {
        packet.extend(address.parse::<std::net::Ipv4Addr>().unwrap().octets());
    }
    let check = checksum(&packet, 0);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend([length - 20, 0].map(u16::to_be_bytes).concat());
    packet.resize(usize::from(length), b'x');
    packet
}

/// A tunnel's packet as the payload of UDP.
fn tunnelled(ends: [u32; 2], teid: u32, packet: &[u8]) -> Vec<u8> {
    let addresses = ends.map(mapped);
    let wrapping = Wrapping { addresses, teid, qfi: 9, form: Form::GtpContainer };
    [&wrapping.headers(packet, 0, None)[28..], packet].concat()
}

/// Has `ns` send a payload from an address to port 2152 of another.
fn send(world: &World, ns: &str, from: &str, to: &str, payload: &[u8]) {
    world.within(ns, || {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.send_to(payload, (to, 2152)).unwrap();
    });
}

#[test]
fn two_clients_of_one_address_are_each_answered_by_the_app_of_their_network() {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return;
    }
    let mut world = World::new(N3);
    world.add_namespace("other");
    world.pair("other", "oth0", "leg1", 1500);
    world.ip("rtr", "addr add 10.98.0.1/24 dev leg1");
    world.ip("other", "addr add 10.98.0.2/24 dev oth0");
    world.ip("other", "route add default via 10.98.0.1");
    world.ip("other", &format!("addr add {}/32 dev lo", ORIGIN[0]));
    world.ip("ran", "addr add 10.3.0.3/24 dev ran0");
    world.start_server("other", "other");
    let more = format!(
        "[app.other]\nkind = \"breakout\"\ninterface = \"leg1\"\nmac = \"{}\"\n\
         network = \"enterprise\"\naddresses = [\"10.98.0.2\"]\nhealth = \"tcp 10.98.0.2:80\"\n\
         [network.enterprise]\n",
        world.mac("other", "oth0")
    );
    let apps = format!("pfcp = \"{PFCP}\"\n{}{more}", world.breakout_app());
    world.start_router(&apps);
    // Both rules ask for the same packets.
    let rule = |id: &str, app: &str| {
        json!({"trafficRuleId": id, "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
               "trafficFilter": [{"dstAddress": ORIGIN}], "action": "FORWARD_DECAPSULATED",
               "dstInterface": {"interfaceType": "IP", "dstIpAddress": app}})
    };
    world.set_rules(json!([rule("other", "10.98.0.2"), rule("edge", "10.99.0.2")]));
    world.is_answered_by("edge");

    // The core tells of the second client, in the network of the second app.
    let f_teid = [&[1, 0, 0, 1, 244][..], &CORE.to_be_bytes()].concat();
    let establish = [
        uplink_rule_with(&f_teid, &[element(22, b"n3")]),
        downlink_rule(b"\x0aenterprise"),
        downlink_to(STATION.to_be_bytes(), 3, 4, true, 222),
    ];
    world.within("rtr", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let accepted = message(51, 1, 1, &[element(19, &[1]), f_seid(55)]);
        let copies =
            [copied(SMF, UPF, &message(50, 0, 1, &establish)), copied(UPF, SMF, &accepted)];
        for copy in copies {
            socket.send_to(&copy, PFCP).unwrap();
        }
    });
    let station = world.within("ran", || UdpSocket::bind("10.3.0.3:2152").unwrap());
    station.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = format!("{}@enterprise", CLIENT[0]);
    let mut packet = [0; 2000];
    // A packet of the core shows the link to its base station.
    world.until("the core has told", |world| {
        world.ask(json!({"ask": "status"}))["pfcp"] == json!([2, 0, 0])
    });
    let down = datagram(ORIGIN[0], CLIENT[0], [90, 9000], 10);
    send(&world, "core", "10.3.0.240", "10.3.0.3", &tunnelled([CORE, STATION], 222, &down));
    station.recv(&mut packet).unwrap();
    world.until("its session is used", |world| {
        world.ask(json!({"ask": "sessions", "client": told}))[0]["teids"] == json!([500, 222])
    });

    for bytes in [100, 900] {
        let up = datagram(CLIENT[0], ORIGIN[0], [9000, 90], bytes);
        send(&world, "ran", "10.3.0.3", "10.3.0.240", &tunnelled([STATION, CORE], 500, &up));
        let length = station.recv(&mut packet).unwrap();
        let answer = String::from_utf8_lossy(&packet[..length]);
        assert!(answer.contains(&format!("other {bytes} ")), "{answer}");
        assert_eq!(packet[4..8], 222_u32.to_be_bytes(), "the tunnel to the second client");
        // In between the first one goes on being answered by its own.
        world.is_answered_by("edge");
    }
    let of = |world: &World, client: &str| {
        world.ask(json!({"ask": "sessions", "client": client}))[0].clone()
    };
    assert_eq!(of(&world, CLIENT[0])["teids"], json!([100, 200]));
    assert_eq!(of(&world, &told)["usage"]["uplink"]["packets"], 2, "{}", of(&world, &told));
    assert_eq!(of(&world, &told)["client"], told.as_str());
    let traced = |client: &str| {
        world
            .ask(json!({"ask": "trace", "client": client, "server": ORIGIN[0], "protocol": 17,
                         "ports": [9000, 90], "downlink": false}))
            .to_string()
    };
    assert!(traced(&told).contains("`other`"), "{}", traced(&told));
    assert!(traced(CLIENT[0]).contains("`edge`"), "{}", traced(CLIENT[0]));
    let unknown = world.try_ask(&json!({"ask": "sessions", "client": "10.45.0.2@else"})).unwrap();
    assert!(unknown["error"].as_str().unwrap().contains("no network `else`"), "{unknown}");

    // The next process finds both.
    world.kill_router();
    world.start_router(&apps);
    assert_eq!(of(&world, &told)["teids"], json!([500, 222]));
    let up = datagram(CLIENT[0], ORIGIN[0], [9000, 90], 300);
    world.until("the second app is alive again", |world| {
        world.ask(json!({"ask": "status"}))["apps"]["other"] == json!(true)
    });
    send(&world, "ran", "10.3.0.3", "10.3.0.240", &tunnelled([STATION, CORE], 500, &up));
    let length = station.recv(&mut packet).unwrap();
    assert!(String::from_utf8_lossy(&packet[..length]).contains("other 300 "));
}
