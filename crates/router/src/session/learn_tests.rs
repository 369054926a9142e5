//! Stories of clients, honest and not.

use super::*;
use crate::rule::AddressRange;
use crate::session::network::Network;
use proptest::prelude::*;

const GNB_A: u128 = 0xffff_0a00_0001;
const GNB_B: u128 = 0xffff_0a00_0002;
const UPF: u128 = 0xffff_0a00_00f0;
const OTHER_UPF: u128 = 0xffff_0a00_00f1;
const CLIENT: u128 = 0xffff_0a2d_0002;
const SERVER: u128 = 0xffff_cb00_710a;

fn hop(last: u8) -> Hop {
    Hop { addresses: [[2, 0, 0, 0, 0, last], [2, 0, 0, 0, 1, last]], tags: [[0; 2]; 2] }
}

fn up_from(gnb: u128, upf: u128, teid: u32, port: u16) -> Sighting {
    let flow = Flow { addresses: [CLIENT, SERVER], ports: [port, 80], protocol: 6 };
    sighting(Direction::Uplink, gnb, upf, teid, flow)
}

fn down_to(gnb: u128, upf: u128, teid: u32, port: u16) -> Sighting {
    let flow = Flow { addresses: [SERVER, CLIENT], ports: [80, port], protocol: 6 };
    sighting(Direction::Downlink, upf, gnb, teid, flow)
}

fn sighting(
    direction: Direction,
    source: u128,
    destination: u128,
    teid: u32,
    flow: Flow,
) -> Sighting {
    let (form, qfi, traffic_class) = (Form::GtpContainer, 9, 0);
    let tunnel = Tunnel { source, destination, teid, qfi, form, traffic_class };
    let client = Client::of(CLIENT).expect("a client");
    Sighting { client, direction, tunnel: Some(tunnel), hop: hop(1), flow }
}

fn known(sessions: &mut Sessions) {
    assert_eq!(sessions.seen(&up_from(GNB_A, UPF, 100, 5000), 0), Learnt::Nothing);
    let learnt = sessions.seen(&down_to(GNB_A, UPF, 200, 5000), 10);
    assert!(matches!(learnt, Learnt::Session(session) if session.teids == [100, 200]));
}

#[test]
fn a_session_is_proposed_by_the_client_and_confirmed_by_the_core() {
    let mut sessions = Sessions::new(10, Networks::default());
    assert_eq!(sessions.seen(&down_to(GNB_A, UPF, 200, 5000), 0), Learnt::Nothing);
    known(&mut sessions);
    let (session, by) = sessions.iter().next().expect("it is there");
    assert_eq!((session.qfi, session.path.ends, by), (9, [GNB_A, UPF], Authority::Learnt));
    assert_eq!(sessions.len(), 1);
}

#[test]
fn an_answer_of_another_flow_station_or_core_confirms_nothing() {
    let mut sessions = Sessions::new(10, Networks::default());
    sessions.seen(&up_from(GNB_A, UPF, 100, 5000), 0);
    for answer in [
        down_to(GNB_A, UPF, 200, 5001),
        down_to(GNB_B, UPF, 200, 5000),
        down_to(GNB_A, OTHER_UPF, 200, 5000),
    ] {
        assert_eq!(sessions.seen(&answer, 1), Learnt::Nothing);
    }
    let late = sessions.seen(&down_to(GNB_A, UPF, 200, 5000), PROPOSAL_MS);
    assert_eq!(late, Learnt::Nothing);
}

#[test]
fn two_tunnels_that_claim_one_flow_confirm_neither() {
    let mut sessions = Sessions::new(10, Networks::default());
    sessions.seen(&up_from(GNB_A, UPF, 100, 5000), 0);
    sessions.seen(&up_from(GNB_A, UPF, 666, 5000), 1);
    assert_eq!(sessions.seen(&down_to(GNB_A, UPF, 200, 5000), 2), Learnt::Nothing);
    // The honest one alone has a flow of its own.
    sessions.seen(&up_from(GNB_A, UPF, 100, 5001), 3);
    let learnt = sessions.seen(&down_to(GNB_A, UPF, 200, 5001), 4);
    assert!(matches!(learnt, Learnt::Session(session) if session.teids == [100, 200]));
}

#[test]
fn the_core_moves_a_session_and_a_client_does_not() {
    let mut sessions = Sessions::new(10, Networks::default());
    known(&mut sessions);
    // From the new station with the same end in the core: nothing changes until the core says so.
    assert_eq!(sessions.seen(&up_from(GNB_B, UPF, 100, 5000), 20), Learnt::Nothing);
    assert_eq!(sessions.iter().next().expect("it stays").0.path.ends, [GNB_A, UPF]);
    let learnt = sessions.seen(&down_to(GNB_B, UPF, 300, 5000), 30);
    let Learnt::Session(session) = learnt else { panic!("{learnt:?}") };
    assert_eq!((session.teids, session.path.ends), ([100, 300], [GNB_B, UPF]));
}

#[test]
fn a_session_that_is_set_up_anew_is_learnt_anew() {
    let mut sessions = Sessions::new(10, Networks::default());
    known(&mut sessions);
    sessions.seen(&up_from(GNB_A, UPF, 101, 6000), 20);
    assert_eq!(sessions.seen(&down_to(GNB_A, UPF, 201, 6000), 21), Learnt::Ambiguous);
    sessions.seen(&up_from(GNB_A, UPF, 101, 6000), 22);
    let learnt = sessions.seen(&down_to(GNB_A, UPF, 201, 6000), 23);
    assert!(matches!(learnt, Learnt::Session(session) if session.teids == [101, 201]));
}

#[test]
fn who_claims_a_flow_where_its_client_moves_to_does_not_get_it() {
    let mut sessions = Sessions::new(10, Networks::default());
    known(&mut sessions);
    sessions.seen(&up_from(GNB_B, UPF, 666, 5000), 20);
    assert_eq!(sessions.seen(&down_to(GNB_B, UPF, 300, 5000), 30), Learnt::Ambiguous);
    sessions.seen(&up_from(GNB_B, UPF, 666, 5000), 31);
    sessions.seen(&up_from(GNB_B, UPF, 100, 5000), 32);
    assert_eq!(sessions.seen(&down_to(GNB_B, UPF, 300, 5000), 33), Learnt::Nothing);
}

#[test]
fn one_address_of_two_clients_belongs_to_nobody() {
    let mut sessions = Sessions::new(10, Networks::default());
    let mut outcomes = Vec::new();
    for round in 0..3 {
        for (gnb, upf, teid) in [(GNB_A, UPF, 100), (GNB_B, OTHER_UPF, 101)] {
            let at = round * 100;
            sessions.seen(&up_from(gnb, upf, teid, 5000), at);
            outcomes.push(sessions.seen(&down_to(gnb, upf, teid + 100, 5000), at + 1));
        }
    }
    assert!(outcomes.contains(&Learnt::Ambiguous), "{outcomes:?}");
    assert!(sessions.is_empty());
    // And it may be learnt again later.
    sessions.seen(&up_from(GNB_A, UPF, 100, 5000), 300 + AMBIGUOUS_MS);
    let learnt = sessions.seen(&down_to(GNB_A, UPF, 200, 5000), 301 + AMBIGUOUS_MS);
    assert!(matches!(learnt, Learnt::Session(_)));
}

#[test]
fn what_the_core_signals_is_not_unlearnt() {
    let mut sessions = Sessions::new(10, Networks::default());
    let client = Client::of(CLIENT).expect("a client");
    let told = Told { client, teids: [1, 2], ends: [GNB_A, UPF], qfi: 5, form: Form::GtpContainer };
    assert_eq!(sessions.tell(told, Authority::Pfcp), Learnt::Nothing, "no link is known yet");
    let learnt = sessions.seen(&down_to(GNB_A, UPF, 2, 5000), 1);
    assert!(matches!(learnt, Learnt::Session(session) if session.path.hop == hop(1)));
    sessions.seen(&up_from(GNB_B, UPF, 66, 5000), 2);
    assert_eq!(sessions.seen(&down_to(GNB_B, UPF, 67, 5000), 3), Learnt::Nothing);
    assert!(!sessions.forget(client, Authority::Operator));
    assert_eq!(sessions.tell(told, Authority::Operator), Learnt::Nothing);
    assert!(sessions.forget(client, Authority::Pfcp));
    assert!(sessions.is_empty());
}

#[test]
fn proposals_of_many_sources_are_bounded() {
    let mut sessions = Sessions::new(100, Networks::default());
    for number in 0..1000_u128 {
        let mut forged = up_from(GNB_A, UPF, 666, 5000);
        forged.client = Client::of(CLIENT + 1 + number).expect("a client");
        sessions.seen(&forged, number as u64);
    }
    assert!(sessions.clients.len() <= 25);
    // Once they are stale there is room for an honest one.
    let mut sessions_now = |sighting: &Sighting, at| sessions.seen(sighting, at);
    sessions_now(&up_from(GNB_A, UPF, 100, 5000), 20_000);
    let learnt = sessions_now(&down_to(GNB_A, UPF, 200, 5000), 20_001);
    assert!(matches!(learnt, Learnt::Session(_)));
}

#[test]
fn the_oldest_learnt_session_makes_room_and_told_ones_stay() {
    let mut sessions = Sessions::new(3, Networks::default());
    let learn = |sessions: &mut Sessions, number: u128, at| {
        let client = Client::of(CLIENT + number).expect("a client");
        let mut up = up_from(GNB_A, UPF, 100 + number as u32, 5000);
        let mut down = down_to(GNB_A, UPF, 200 + number as u32, 5000);
        (up.client, down.client) = (client, client);
        sessions.seen(&up, at);
        (client, sessions.seen(&down, at))
    };
    let (first, _) = learn(&mut sessions, 1, 1);
    let told = Told {
        client: Client::of(CLIENT).expect("a client"),
        teids: [1, 2],
        ends: [GNB_A, UPF],
        qfi: 5,
        form: Form::GtpContainer,
    };
    assert!(matches!(sessions.tell(told, Authority::Operator), Learnt::Session(_)));
    let (second, _) = learn(&mut sessions, 2, 2);
    assert!(sessions.evicted().is_empty());
    let (third, learnt) = learn(&mut sessions, 3, 3);
    assert!(matches!(learnt, Learnt::Session(_)));
    assert_eq!((sessions.evicted(), sessions.len()), (vec![first], 3));
    learn(&mut sessions, 4, 4);
    assert_eq!(sessions.evicted(), [second]);
    assert!(sessions.get(told.client).is_some() && sessions.get(third).is_some());
    // One that is told needs room from when it is told.
    let more = Told { client: Client::of(CLIENT + 5).expect("a client"), ..told };
    assert!(matches!(sessions.tell(more, Authority::Pfcp), Learnt::Session(_)));
    assert_eq!((sessions.evicted(), sessions.len()), (vec![third], 3));
    let waiting =
        Told { client: Client::of(CLIENT + 6).expect("a client"), ends: [GNB_B, UPF], ..told };
    for teid in [7, 8] {
        let waiting = Told { teids: [7, teid], ..waiting };
        assert_eq!(
            sessions.tell(waiting, Authority::Pfcp),
            Learnt::Nothing,
            "no link is known yet"
        );
    }
    assert_eq!((sessions.evicted().len(), sessions.len()), (1, 2));
    let last = Told { client: Client::of(CLIENT + 7).expect("a client"), ..told };
    assert_eq!(sessions.tell(last, Authority::Pfcp), Learnt::Full, "all of them are told");
}

proptest! {
    /// Whatever a forger sends from its own tunnel, whenever: as the core answers only the owner, the
    /// session is never the forger's, and where the owner's was confirmed it stays or is nobody's.
    #[test]
    fn a_forger_gets_nothing(
        steps in prop::collection::vec((0_u8..3, 5000_u16..5004, 1_u64..3000), 1..60),
    ) {
        let mut sessions = Sessions::new(10, Networks::default());
        let mut now = 0;
        for (who, port, pause) in steps {
            now += pause;
            match who {
                // The owner sends, and the core answers.
                0 => {
                    sessions.seen(&up_from(GNB_A, UPF, 100, port), now);
                    sessions.seen(&down_to(GNB_A, UPF, 200, port), now);
                }
                // The forger is at the same station.
                1 => { sessions.seen(&up_from(GNB_A, UPF, 666, port + 10), now); }
                // Or at another.
                _ => { sessions.seen(&up_from(GNB_B, UPF, 667, port), now); }
            }
            for (session, _) in sessions.iter() {
                prop_assert_eq!(session.teids, [100, 200]);
                prop_assert_eq!(session.path.ends, [GNB_A, UPF]);
            }
            let states = sessions.clients.values();
            let confirmed = states.filter(|state| state.session.is_some()).count();
            prop_assert_eq!(confirmed, sessions.confirmed);
            prop_assert_eq!(sessions.clients.len() - confirmed, sessions.proposers);
        }
    }
}

fn in_networks() -> Sessions {
    let police = AddressRange { first: OTHER_UPF, last: OTHER_UPF };
    let network = |name: &str, vlans: &[u16], cores: &[AddressRange]| Network {
        name: name.to_owned(),
        vlans: vlans.to_vec(),
        cores: cores.to_vec(),
        ..Network::default()
    };
    let networks = vec![
        network("enterprise", &[100], &[]),
        network("police", &[], &[police]),
        network("signalled", &[], &[]),
    ];
    Sessions::new(40, Networks::new(networks).expect("they are good"))
}

/// What the kernel says is of no network yet.
fn meets(sessions: &mut Sessions, sighting: Sighting, now_ms: u64) -> (u16, Learnt) {
    let client = sessions.whose(&sighting);
    (client.network, sessions.seen(&Sighting { client, ..sighting }, now_ms))
}

#[test]
fn clients_of_one_address_are_learnt_side_by_side_where_the_wire_tells_networks() {
    let mut sessions = in_networks();
    let put = |mut sighting: Sighting, is_tagged: bool| {
        sighting.hop.tags[0] = if is_tagged { [0x8100, 100] } else { [0; 2] };
        sighting
    };
    let ways = [(0, UPF, false), (1, UPF, true), (2, OTHER_UPF, false)];
    for (network, core, is_tagged) in ways {
        let teid = 100 + u32::from(network);
        let proposed = meets(&mut sessions, put(up_from(GNB_A, core, teid, 5000), is_tagged), 0);
        assert_eq!(proposed, (network, Learnt::Nothing));
    }
    for (network, core, is_tagged) in ways {
        let teid = 200 + u32::from(network);
        let (found, learnt) =
            meets(&mut sessions, put(down_to(GNB_A, core, teid, 5000), is_tagged), 1);
        assert_eq!(found, network);
        assert!(matches!(learnt, Learnt::Session(_)), "{network}: {learnt:?}");
    }
    let client = Client::of(CLIENT).expect("a client");
    for network in 0..3 {
        let (session, _) = sessions.get(client.within(network)).expect("each has its own");
        assert_eq!(session.teids, [100 + u32::from(network), 200 + u32::from(network)]);
    }
}

/// Where the core alone knows the network, the tunnel says whose packet it is.
#[test]
fn a_signalled_session_is_found_by_its_tunnel() {
    let mut sessions = in_networks();
    let client = Client::of(CLIENT).expect("a client").within(3);
    let (teids, ends) = ([100, 200], [GNB_A, UPF]);
    let told = Told { client, teids, ends, qfi: 9, form: Form::GtpContainer };
    assert_eq!(sessions.tell(told, Authority::Pfcp), Learnt::Nothing, "its link is not known");
    // Another client of the address, of the same core.
    assert_eq!(meets(&mut sessions, up_from(GNB_A, UPF, 101, 6000), 0).0, 0);
    assert_eq!(meets(&mut sessions, up_from(GNB_A, UPF, 100, 5000), 0), (3, Learnt::Nothing));
    let (network, learnt) = meets(&mut sessions, down_to(GNB_A, UPF, 200, 5000), 1);
    assert_eq!(network, 3);
    assert!(matches!(learnt, Learnt::Session(one) if one.client == client), "{learnt:?}");
    // It moves to another base station: nobody else is proposed by that.
    assert_eq!(meets(&mut sessions, up_from(GNB_B, UPF, 100, 5000), 2), (3, Learnt::Nothing));
    let (network, learnt) = meets(&mut sessions, down_to(GNB_A, UPF, 201, 6000), 3);
    assert_eq!(network, 0);
    assert!(matches!(learnt, Learnt::Session(one) if one.teids == [101, 201]), "{learnt:?}");
    assert_eq!(sessions.get(client).map(|(one, _)| one.teids), Some([100, 200]));
}
