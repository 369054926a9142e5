//! What a router must let go on, and what comes in pieces.

use crate::world::{N3, ORIGIN, PATIENCE, Wire, World, missing};
use serde_json::json;
use std::net::UdpSocket;

fn world(wire: Wire) -> Option<World> {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return None;
    }
    let mut world = World::new(wire);
    world.start_router(&world.breakout_app());
    world.set_rules(
        world.rule(
            "FORWARD_DECAPSULATED",
            json!({"interfaceType": "IP", "dstIpAddress": "10.99.0.2"}),
        ),
    );
    world.is_answered_by("edge");
    Some(world)
}

#[test]
fn signals_of_tunnels_go_on_as_they_came() {
    let Some(world) = world(N3) else { return };
    // Echo request, error indication and end marker (TS 29.281, 7.2 and 7.3), a hundred of each.
    const SIGNALS: [&[u8]; 3] = [
        &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0],
        &[0x30, 26, 0, 12, 0, 0, 0, 0, 16, 0, 0, 0, 100, 133, 0, 4, 10, 3, 0, 1],
        &[0x30, 254, 0, 0, 0, 0, 0, 100],
    ];
    let (counted, received) = (world.counted("tunnel-signal"), world.received("core", "core0"));
    let core = world.upf_address();
    world.within("ran", || {
        let socket = UdpSocket::bind("10.3.0.1:0").unwrap();
        for signal in SIGNALS.iter().cycle().take(300) {
            socket.send_to(signal, (core.as_str(), 2152)).unwrap();
        }
    });
    world.until("all are counted", |world| world.counted("tunnel-signal") >= counted + 300);
    assert!(world.received("core", "core0") >= received + 300);
    world.is_answered_by("edge");
}

/// Outer packets longer than the wire takes come in fragments, which are nobody's business here.
#[test]
fn fragments_of_tunnel_packets_go_on_as_they_came() {
    let Some(world) = world(Wire { client_mtu: 3000, ..N3 }) else { return };
    world.set_rules(json!([]));
    world.is_answered_by("core");
    world.carries_long_bodies();
    assert!(world.counted("outer-fragment") > 100, "{}", world.counted("outer-fragment"));
}

/// Later fragments have no ports; the rule with ports has them all the same, behind the first one.
#[test]
fn fragments_of_a_clients_datagram_go_where_the_first_one_goes() {
    let Some(world) = world(N3) else { return };
    let exchange = |bytes: usize| {
        world.within("ran", || {
            let socket = UdpSocket::bind("10.45.0.2:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(&vec![b'x'; bytes], (ORIGIN[0], 90)).unwrap();
            let mut answer = vec![0; 65536];
            let (length, from) = socket.recv_from(&mut answer).unwrap();
            assert_eq!((length, from.to_string()), (bytes, format!("{}:90", ORIGIN[0])));
            String::from_utf8_lossy(&answer[..20]).into_owned()
        })
    };
    for bytes in [100, 4000, 20_000] {
        let answer = exchange(bytes);
        assert!(answer.starts_with(&format!("core {bytes} ")), "{answer}");
    }
    world.set_rules(json!([{
        "trafficRuleId": "datagrams", "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
        "trafficFilter": [{"dstPort": ["90"], "protocol": ["UDP"]}],
        "action": "FORWARD_DECAPSULATED",
        "dstInterface": {"interfaceType": "IP", "dstIpAddress": "10.99.0.2"},
    }]));
    for bytes in [100, 4000, 20_000] {
        let answer = exchange(bytes);
        assert!(answer.starts_with(&format!("edge {bytes} ")), "{answer}");
    }
}
