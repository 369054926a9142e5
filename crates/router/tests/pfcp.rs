//! Sessions from copies of the core's signalling, byte by byte as TS 29.244 lays them out.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

#[path = "support/n4.rs"]
mod n4;

use freshet_router::gtp::Form;
use freshet_router::packet::mapped;
use freshet_router::session::Client;
use freshet_router::session::learn::Told;
use freshet_router::session::network::{Network, Networks};
use freshet_router::session::pfcp::{Change, Copies, Unread};
use n4::{
    SMF, UPF, downlink_action, downlink_rule, element, f_seid, group, message, node_message,
    uplink_rule, uplink_rule_with,
};
use std::net::IpAddr;

fn session(teids: [u32; 2]) -> Told {
    Told {
        client: Client::parse("10.45.0.2").unwrap(),
        teids,
        ends: [mapped(0x0a00_0001), mapped(0x0a00_00f0)],
        qfi: 9,
        form: Form::GtpContainer,
    }
}

/// A session as a control plane makes it at once, with this end of the tunnel from the client.
fn whole(teid: u8) -> [Vec<u8>; 2] {
    [uplink_rule(&[1, 0, 0, 0, teid, 10, 0, 0, 0xf0]), downlink_action(3, 4, true, 200)]
}

struct N4(Copies);

impl N4 {
    fn asks(&mut self, bytes: &[u8]) -> Result<Vec<Change>, Unread> {
        self.0.message(IpAddr::from(SMF), IpAddr::from(UPF), bytes)
    }

    fn answers(&mut self, bytes: &[u8]) -> Result<Vec<Change>, Unread> {
        self.0.message(IpAddr::from(UPF), IpAddr::from(SMF), bytes)
    }
}

#[test]
fn a_session_is_established_completed_moved_and_deleted() {
    let mut n4 = N4(Copies::default());
    // The user plane is to choose its end of the tunnel; the base station's is not known yet.
    let buffered = group(3, &[element(108, &[0, 0, 0, 2]), element(44, &[4])]);
    let establish = message(50, 0, 7, &[uplink_rule(&[5]), buffered]);
    assert_eq!(n4.asks(&establish), Ok(vec![]));
    let created =
        group(8, &[element(56, &[0, 1]), element(21, &[1, 0, 0, 0, 100, 10, 0, 0, 0xf0])]);
    let response = message(51, 1, 7, &[element(19, &[1]), f_seid(55), created]);
    assert_eq!(n4.answers(&response), Ok(vec![]));
    // The base station answered.
    let update = message(52, 55, 8, &[downlink_action(10, 11, true, 200)]);
    assert_eq!(n4.asks(&update), Ok(vec![]));
    let done = message(53, 1, 8, &[element(19, &[1])]);
    assert_eq!(n4.answers(&done), Ok(vec![Change::Told(session([100, 200]))]));
    // A handover, whose update does not repeat the interface.
    n4.asks(&message(52, 55, 9, &[downlink_action(10, 11, false, 201)])).unwrap();
    let moved = n4.answers(&message(53, 1, 9, &[element(19, &[1])]));
    assert_eq!(moved, Ok(vec![Change::Told(session([100, 201]))]));
    n4.asks(&message(54, 55, 10, &[])).unwrap();
    let ended = n4.answers(&message(55, 1, 10, &[element(19, &[1])]));
    assert_eq!(ended, Ok(vec![Change::Ended(session([0; 2]).client)]));
}

#[test]
fn what_was_refused_unanswered_or_unseen_changes_nothing() {
    let mut n4 = N4(Copies::default());
    n4.asks(&message(50, 0, 1, &whole(100))).unwrap();
    assert_eq!(n4.answers(&message(51, 1, 1, &[element(19, &[64])])), Ok(vec![]));
    assert_eq!(n4.answers(&message(51, 1, 1, &[element(19, &[1])])), Err(Unread::Unknown));
    assert_eq!(n4.asks(&message(52, 55, 2, &[])), Err(Unread::Unknown));
    n4.asks(&message(50, 0, 3, &whole(100))).unwrap();
    assert_eq!(n4.answers(&message(53, 1, 3, &[element(19, &[1])])), Err(Unread::Unknown));
    let accepted = n4.answers(&message(51, 1, 3, &[element(19, &[1]), f_seid(5)]));
    assert_eq!(accepted, Ok(vec![Change::Told(session([100, 200]))]));
}

/// A control plane need not wait for one answer before it asks for more.
#[test]
fn changes_that_are_under_way_together_are_all_made() {
    let mut n4 = N4(Copies::default());
    n4.asks(&message(50, 0, 1, &whole(100))).unwrap();
    n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
    n4.asks(&message(52, 55, 2, &[downlink_action(10, 11, true, 201)])).unwrap();
    n4.asks(&message(52, 55, 3, &[group(14, &[element(109, &[0, 0, 0, 1])])])).unwrap();
    for sequence in [2, 3] {
        let told = n4.answers(&message(53, 1, sequence, &[element(19, &[1])]));
        assert_eq!(told, Ok(vec![Change::Told(session([100, 201]))]), "{sequence}");
    }
    // And those that were refused are not.
    n4.asks(&message(52, 55, 4, &[downlink_action(10, 11, true, 202)])).unwrap();
    n4.asks(&message(52, 55, 5, &[])).unwrap();
    assert_eq!(n4.answers(&message(53, 1, 4, &[element(19, &[64])])), Ok(vec![]));
    let told = n4.answers(&message(53, 1, 5, &[element(19, &[1])]));
    assert_eq!(told, Ok(vec![Change::Told(session([100, 201]))]));
    // What was deleted meanwhile does not come back.
    n4.asks(&message(52, 55, 6, &[])).unwrap();
    n4.asks(&message(54, 55, 7, &[])).unwrap();
    n4.answers(&message(55, 1, 7, &[element(19, &[1])])).unwrap();
    assert_eq!(n4.answers(&message(53, 1, 6, &[element(19, &[1])])), Err(Unread::Unknown));
}

/// In a handover one base station sends to the next, through the core, what it still has: by rules of their own.
#[test]
fn what_a_base_station_sends_on_is_not_the_clients_way() {
    let mut n4 = N4(Copies::default());
    let mut first = Vec::from(whole(100));
    first.push(downlink_rule(b"internet"));
    n4.asks(&message(50, 0, 1, &first)).unwrap();
    n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
    let third = element(108, &[0, 0, 0, 3]);
    let end = element(21, &[1, 0, 0, 0, 0xe7, 10, 0, 0, 0xf0]);
    let onward = [element(42, &[0]), element(84, &[1, 0, 0, 0, 0, 0x78, 10, 0, 0, 7])];
    let from_station = group(2, &[element(20, &[0]), end]);
    let to_control = group(4, &[element(42, &[3]), element(22, b"smf")]);
    let more = [
        group(1, &[element(56, &[0, 3]), from_station, third.clone()]),
        group(3, &[third.clone(), group(4, &onward)]),
        group(3, &[element(108, &[0, 0, 0, 4]), to_control]),
    ];
    n4.asks(&message(52, 55, 2, &more)).unwrap();
    let told = n4.answers(&message(53, 1, 2, &[element(19, &[1])]));
    assert_eq!(told, Ok(vec![Change::Told(session([100, 200]))]));
    // The client's own rule may take that action later.
    n4.asks(&message(52, 55, 3, &[group(9, &[element(56, &[0, 2]), third])])).unwrap();
    let told = n4.answers(&message(53, 1, 3, &[element(19, &[1])]));
    let ends = [mapped(0x0a00_0007), mapped(0x0a00_00f0)];
    assert_eq!(told, Ok(vec![Change::Told(Told { ends, ..session([100, 0x78]) })]));
    // Another takes the place of a rule that is removed, and brings its action.
    let removed = group(15, &[element(56, &[0, 2])]);
    let (rule, action) = (downlink_rule(b"internet"), downlink_action(3, 4, true, 201));
    n4.asks(&message(52, 55, 4, &[action, rule, removed])).unwrap();
    let told = n4.answers(&message(53, 1, 4, &[element(19, &[1])]));
    assert_eq!(told, Ok(vec![Change::Told(session([100, 201]))]));
}

/// §6.5: a packet may have several messages.
#[test]
fn messages_that_follow_in_a_packet_are_read_too() {
    let mut n4 = N4(Copies::default());
    let mut packet = message(50, 0, 1, &whole(100));
    packet[0] |= 4;
    packet.extend(message(50, 0, 2, &whole(101)));
    n4.asks(&packet).unwrap();
    // One that answers nothing takes nothing from the other.
    let mut packet = message(51, 1, 9, &[element(19, &[1])]);
    packet[0] |= 4;
    packet.extend(message(51, 1, 2, &[element(19, &[1]), f_seid(56)]));
    assert_eq!(n4.answers(&packet), Ok(vec![Change::Told(session([101, 200]))]));
    packet.truncate(16);
    assert_eq!(n4.answers(&packet), Err(Unread::Malformed));
}

/// What is signalled outranks what is seen: sessions that nobody will remove would never be learnt anew.
#[test]
fn sessions_end_when_their_user_plane_is_started_anew() {
    let mut n4 = N4(Copies::default());
    // A heartbeat's answer, which is of no session.
    let beat =
        |started: u8| [vec![0x20, 2, 0, 12, 0, 0, 9, 0], element(96, &[0, 0, 0, started])].concat();
    assert_eq!(n4.answers(&beat(1)), Ok(vec![]));
    n4.asks(&message(50, 0, 1, &whole(100))).unwrap();
    n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
    assert_eq!(n4.asks(&beat(7)), Ok(vec![]));
    assert_eq!(n4.answers(&beat(1)), Ok(vec![]));
    assert_eq!(n4.answers(&beat(2)), Ok(vec![Change::Ended(session([0; 2]).client)]));
    assert_eq!(n4.asks(&message(54, 55, 2, &[])), Err(Unread::Unknown));
}

/// A session of `SMF`, as the node of this name, in these sets; nobody else has it.
fn established(name: &[u8], sets: &[Vec<u8>]) -> N4 {
    let mut n4 = N4(Copies::default());
    let elements = [whole(100).to_vec(), vec![element(60, name)], sets.to_vec()].concat();
    n4.asks(&message(50, 0, 1, &elements)).unwrap();
    n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
    n4
}

fn ended() -> Vec<Change> {
    vec![Change::Ended(session([0; 2]).client)]
}

/// §6.2.8, §6.2.6: a control plane that leaves takes its sessions with it, and one that comes anew has none of before.
#[test]
fn sessions_end_with_their_association() {
    let name = b"\x02\x03smf\x04core";
    let accepted = element(19, &[1]);
    for (asks, answer) in [(9, 10), (5, 6)] {
        let asked = |name: &[u8]| node_message(asks, 2, &[element(60, name)]);
        let answered = |cause: u8| {
            node_message(answer, 2, &[element(60, &[0, 192, 0, 2, 2]), element(19, &[cause])])
        };
        let mut n4 = established(name, &[]);
        // Another one's, one that is refused, and one that nobody asked for.
        n4.asks(&asked(b"\x02\x05other")).unwrap();
        assert_eq!(n4.answers(&answered(1)), Ok(vec![]), "{asks}");
        n4.asks(&asked(name)).unwrap();
        assert_eq!(n4.answers(&answered(72)), Ok(vec![]), "{asks}");
        let unasked = if asks == 9 { Err(Unread::Unknown) } else { Ok(vec![]) };
        assert_eq!(n4.answers(&answered(1)), unasked, "{asks}");
        n4.asks(&asked(name)).unwrap();
        assert_eq!(n4.answers(&answered(1)), Ok(ended()), "{asks}");
        assert_eq!(n4.asks(&message(54, 55, 3, &[])), Err(Unread::Unknown), "{asks}");
        // Who did not say a name is known by its address.
        let mut n4 = N4(Copies::default());
        n4.asks(&message(50, 0, 1, &whole(100))).unwrap();
        n4.answers(&message(51, 1, 1, &[accepted.clone(), f_seid(55)])).unwrap();
        n4.asks(&asked(name)).unwrap();
        assert_eq!(n4.answers(&answered(1)), Ok(ended()), "{asks}");
        assert_eq!(n4.asks(&node_message(asks, 4, &[])), Err(Unread::Malformed), "{asks}");
    }
    // Sessions of before may be kept.
    let mut n4 = established(name, &[]);
    n4.asks(&node_message(5, 2, &[element(60, name)])).unwrap();
    let kept = node_message(6, 2, &[accepted, element(184, &[1])]);
    assert_eq!(n4.answers(&kept), Ok(vec![]));
    assert_eq!(n4.asks(&message(54, 55, 3, &[])), Ok(vec![]));
}

/// §6.2.9: all sessions that a part of a node has, which either side may say.
#[test]
fn sessions_end_with_their_set() {
    let set = |first: u8, rest: &[u8]| element(65, &[&[first][..], rest].concat());
    let own = [set(0x01, &[192, 0, 2, 1, 0, 7]), set(0x22, &[0, 1, 2, 3, 0, 8, 0, 9, 4])];
    let accepted = || node_message(15, 2, &[element(19, &[1])]);
    let by = |n4: &mut N4, sets: &[Vec<u8>], is_user_plane: bool| {
        let elements = [vec![element(60, &[0, 192, 0, 2, 1])], sets.to_vec()].concat();
        let asked = node_message(14, 2, &elements);
        if is_user_plane {
            n4.answers(&asked).and_then(|_| n4.asks(&accepted()))
        } else {
            n4.asks(&asked).and_then(|_| n4.answers(&accepted()))
        }
    };
    for is_user_plane in [false, true] {
        for (sets, is_meant) in [
            (set(0x01, &[192, 0, 2, 1, 0, 7]), true),
            (set(0x22, &[0, 1, 2, 3, 0, 1, 0, 9]), true),
            (set(0x01, &[192, 0, 2, 1, 0, 9]), false),
            (set(0x01, &[192, 0, 2, 9, 0, 7]), false),
            (set(0x21, &[192, 0, 2, 1, 0, 7]), false),
            (set(0x71, &[192, 0, 2, 1, 0, 7]), false),
            (set(0x00, &[192, 0, 2, 1]), false),
        ] {
            let mut n4 = established(&[0, 192, 0, 2, 1], &own);
            let expected = if is_meant { ended() } else { Vec::new() };
            assert_eq!(
                by(&mut n4, std::slice::from_ref(&sets), is_user_plane),
                Ok(expected),
                "{sets:?}"
            );
        }
    }
    // A node that names others names those of before no more.
    let mut n4 = established(&[0, 192, 0, 2, 1], &own);
    n4.asks(&message(52, 55, 3, &[set(0x01, &[192, 0, 2, 1, 0, 5])])).unwrap();
    n4.answers(&message(53, 1, 3, &[element(19, &[1])])).unwrap();
    assert_eq!(by(&mut n4, &own[..1], false), Ok(vec![]));
    assert_eq!(by(&mut n4, &[set(0x01, &[192, 0, 2, 1, 0, 5])], false), Ok(ended()));
    let mut n4 = established(&[0, 192, 0, 2, 1], &own);
    for broken in [&[][..], &[0x12, 1, 2, 3], &[0x03, 1, 2, 3, 4, 0, 1]] {
        assert_eq!(
            by(&mut n4, &[element(65, broken)], false),
            Err(Unread::Malformed),
            "{broken:?}"
        );
    }
    assert_eq!(by(&mut n4, &[], false), Ok(vec![]));
}

/// A call gets a flow of its own; everything else goes on in the first one.
#[test]
fn another_flow_of_a_session_does_not_take_the_place_of_the_first() {
    let mut n4 = N4(Copies::default());
    let flow = |id: u8, qfi: u8| group(7, &[element(109, &[0, 0, 0, id]), element(124, &[qfi])]);
    let mut first = Vec::from(whole(100));
    first.push(flow(1, 9));
    n4.asks(&message(50, 0, 1, &first)).unwrap();
    n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
    n4.asks(&message(52, 55, 2, &[flow(2, 2)])).unwrap();
    let told = n4.answers(&message(53, 1, 2, &[element(19, &[1])]));
    assert_eq!(told, Ok(vec![Change::Told(session([100, 200]))]));
}

/// §8.2.62: the control plane may leave the choice to the user plane, which says what it chose.
#[test]
fn the_user_plane_may_choose_the_address_of_a_client() {
    let mut n4 = N4(Copies::default());
    let pdi =
        group(2, &[element(20, &[0]), element(21, &[5]), element(93, &[16]), element(124, &[9])]);
    let rule = group(1, &[element(56, &[0, 1]), pdi, element(108, &[0, 0, 0, 1])]);
    n4.asks(&message(50, 0, 1, &[rule, downlink_action(3, 4, true, 200)])).unwrap();
    let created = group(
        8,
        &[
            element(56, &[0, 1]),
            element(21, &[1, 0, 0, 0, 100, 10, 0, 0, 0xf0]),
            element(93, &[2, 10, 45, 0, 2]),
        ],
    );
    let told = n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55), created]));
    assert_eq!(told, Ok(vec![Change::Told(session([100, 200]))]));
}

/// A client that comes back has a new session before the old one is removed, at another user plane perhaps.
#[test]
fn the_end_of_an_older_session_ends_no_newer_one() {
    let mut n4 = N4(Copies::default());
    for (sequence, teid, seid) in [(1, 100, 55), (2, 101, 56)] {
        n4.asks(&message(50, 0, sequence, &whole(teid))).unwrap();
        let told = n4.answers(&message(51, 1, sequence, &[element(19, &[1]), f_seid(seid)]));
        let expected = session([u32::from(teid), 200]);
        assert_eq!(told, Ok(vec![Change::Told(expected)]));
    }
    for (sequence, seid, expected) in
        [(3, 55, vec![]), (4, 56, vec![Change::Ended(session([0; 2]).client)])]
    {
        n4.asks(&message(54, seid, sequence, &[])).unwrap();
        let ended = n4.answers(&message(55, 1, sequence, &[element(19, &[1])]));
        assert_eq!(ended, Ok(expected), "{seid}");
    }
}

/// More usage reports may follow a deletion, and of a request some parts may be refused.
#[test]
fn what_is_accepted_with_more_to_come_or_in_part_is_accepted() {
    for (cause, is_accepted) in [(1, true), (2, true), (3, true), (63, true), (64, false)] {
        let mut n4 = N4(Copies::default());
        n4.asks(&message(50, 0, 1, &whole(100))).unwrap();
        n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)])).unwrap();
        n4.asks(&message(54, 55, 2, &[])).unwrap();
        let ended = n4.answers(&message(55, 1, 2, &[element(19, &[cause])])).unwrap();
        let expected = is_accepted.then(|| Change::Ended(session([0; 2]).client));
        assert_eq!(ended, Vec::from_iter(expected), "{cause}");
    }
}

/// A network instance is a name or labels; that of the data network goes before that of the access side,
/// and without either the core's address tells.
#[test]
fn a_session_is_in_the_network_the_core_names() {
    let network = |name: &str, instance: &str, core: u32| Network {
        name: name.to_owned(),
        instances: vec![instance.to_owned()],
        cores: vec![freshet_router::rule::AddressRange { first: mapped(core), last: mapped(core) }],
        ..Network::default()
    };
    let networks = vec![
        network("enterprise", "enterprise.mnc001.mcc001.gprs", 1),
        network("police", "police", 0x0a00_00f0),
    ];
    let networks = Networks::new(networks).unwrap();
    let labels = b"\x0aEnterprise\x06mnc001\x06mcc001\x04gprs";
    let dotted = b"enterprise.mnc001.mcc001.gprs";
    let access = |instance: &[u8]| {
        uplink_rule_with(&[1, 0, 0, 0, 100, 10, 0, 0, 0xf0], &[element(22, instance)])
    };
    let plain = uplink_rule(&[1, 0, 0, 0, 100, 10, 0, 0, 0xf0]);
    let cases = [
        (vec![access(labels)], 1),
        (vec![access(dotted)], 1),
        (vec![plain.clone(), downlink_rule(labels)], 1),
        (vec![access(b"n3"), downlink_rule(dotted)], 1),
        (vec![access(dotted), downlink_rule(b"\x06police")], 2),
        (vec![plain], 2),
        // Names nobody configured tell nothing, and neither does what is no name.
        (vec![access(b"other"), downlink_rule(b"\xff\xfe")], 2),
    ];
    for (number, (mut elements, expected)) in cases.into_iter().enumerate() {
        let mut n4 = N4(Copies::new(networks.clone()));
        elements.push(downlink_action(3, 4, true, 200));
        n4.asks(&message(50, 0, 1, &elements)).unwrap();
        let told = n4.answers(&message(51, 1, 1, &[element(19, &[1]), f_seid(55)]));
        let Ok([Change::Told(told)]) = told.as_deref() else { panic!("{number}: {told:?}") };
        assert_eq!(told.client, session([0; 2]).client.within(expected), "{number}");
        n4.asks(&message(54, 55, 2, &[])).unwrap();
        let ended = n4.answers(&message(55, 1, 2, &[element(19, &[1])]));
        assert_eq!(ended, Ok(vec![Change::Ended(told.client)]), "{number}");
    }
}

/// Messages with bytes changed, cut or put in, as whoever reaches the address may send them, harm nothing.
#[test]
fn whatever_comes_is_read_or_refused() {
    let mut state = 1_u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % end
    };
    let accepted = element(19, &[1]);
    let node = element(60, &[0, 192, 0, 2, 1]);
    let set = element(65, &[0x02, 192, 0, 2, 1, 0, 7, 0, 8]);
    let first = [whole(100).to_vec(), vec![node.clone(), set.clone()]].concat();
    let good = [
        message(50, 0, 1, &first),
        message(51, 1, 1, &[accepted.clone(), f_seid(55)]),
        message(52, 55, 2, &[downlink_action(10, 11, true, 201), set.clone()]),
        message(53, 1, 2, std::slice::from_ref(&accepted)),
        node_message(5, 3, &[node.clone(), element(96, &[0, 0, 0, 1])]),
        node_message(6, 3, &[accepted.clone(), element(184, &[0])]),
        node_message(9, 4, std::slice::from_ref(&node)),
        node_message(10, 4, std::slice::from_ref(&accepted)),
        node_message(14, 5, &[node, set]),
        node_message(15, 5, &[accepted]),
        message(54, 55, 6, &[]),
    ];
    let mut n4 = N4(Copies::default());
    let (mut changes, mut refused) = (0, 0);
    for _ in 0..200_000 {
        let mut bytes = good[below(good.len())].clone();
        for _ in 0..below(3) {
            let place = below(bytes.len());
            match below(4) {
                0 => bytes.truncate(place.max(1)),
                1 => bytes.insert(place, below(256) as u8),
                _ => bytes[place] = below(256) as u8,
            }
        }
        let read = if below(2) == 0 { n4.asks(&bytes) } else { n4.answers(&bytes) };
        match read {
            Ok(read) => changes += read.len(),
            Err(_) => refused += 1,
        }
    }
    assert!(changes > 1000 && refused > 1000, "{changes} changes, {refused} refused");
}

#[test]
fn lengths_that_contradict_each_other_are_malformed() {
    let mut n4 = N4(Copies::default());
    let good = message(50, 0, 1, &[uplink_rule(&[1, 0, 0, 0, 100, 10, 0, 0, 0xf0])]);
    for cut in [0, 3, 11, 15, 16, 17, 20, good.len() - 1] {
        assert_eq!(n4.asks(&good[..cut]), Err(Unread::Malformed), "{cut}");
    }
    // An element that says it is longer than the group it is in.
    let mut longer = good;
    longer[19] += 1;
    assert_eq!(n4.asks(&longer), Err(Unread::Malformed));
    let short = message(50, 0, 1, &[uplink_rule(&[1, 0, 0])]);
    assert_eq!(n4.asks(&short), Err(Unread::Malformed));
}
