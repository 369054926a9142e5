//! What a client's packets with apps come to, also where the words they are counted in are full.

use crate::equality::{kernel_says, load, options};
use crate::support;
use aya::programs::{TestRun, TestRunOptions};
use freshet_router::app::{App, Kind, Leg};
use freshet_router::gtp::{Form, Wrapping};
use freshet_router::kernel::{Count, Object, Options};
use freshet_router::model::Ingress;
use freshet_router::packet::mapped;
use freshet_router::rule::compile::Table;
use freshet_router::rule::{Act, Profile};
use freshet_router::session::{Client, Hop, Path, Session};

/// More than a word holds: 2²³, and some that stay in it.
const PACKETS: u32 = (1 << 23) + 5;
const PACKET_BYTES: usize = 100;
const ENDS: [u128; 2] = [mapped(0x0a00_0001), mapped(0x0a00_00f0)];

#[test]
fn no_packet_is_lost_when_a_word_of_usage_is_full() {
    let options = Options { tells_verdicts: false, object: Object::Gauge, ..options(true) };
    let Some(mut programs) = load(&options) else { return };
    let client = mapped(0x0a2d_0001);
    let hop = Hop { addresses: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]], tags: [[0; 2]; 2] };
    let session = Session {
        client: Client::of(client).unwrap(),
        teids: [1, 2],
        qfi: 9,
        form: Form::GtpContainer,
        path: Path { ends: ENDS, hop },
    };
    let app = App {
        name: "app".to_owned(),
        kind: Kind::Breakout,
        legs: vec![Leg { interface: "lo".to_owned(), mac: [2, 0, 0, 0, 0, 9] }],
        addresses: Vec::new(),
        network: None,
        segment_bytes_max: [0; 2],
    };
    let rules = [support::rule_for_all(Act::Breakout, Some(0))];
    crate::equality::set_up(&mut programs, &[app], &rules, &[(session, 0)]);
    programs.set_rules(&Table::new(1, &rules, &[Profile::default()]).unwrap()).unwrap();

    let mut packet = vec![0x45, 0, 0, PACKET_BYTES as u8, 0, 1, 0x40, 0, 64, 6, 0, 0];
    packet.extend((client as u32).to_be_bytes());
    packet.extend([203, 0, 113, 10, 0x9c, 0x40, 0, 80]);
    packet.resize(PACKET_BYTES, 0);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let wrapping = Wrapping { addresses: ENDS, teid: 1, qfi: 9, form: Form::GtpContainer };
    frame.extend(wrapping.headers(&packet, 0, None));
    frame.extend(&packet);
    programs.set_gauge(&frame, [0; 4]).unwrap();
    let mut out = vec![0; 2048];
    let repeated = TestRunOptions {
        data_in: Some(&frame),
        data_out: Some(&mut out),
        repeat: PACKETS,
        ..TestRunOptions::default()
    };
    programs.program("access").unwrap().test_run(repeated).unwrap();
    let count = |packets: u32| Count {
        packets: packets.into(),
        bytes: u64::from(packets) * PACKET_BYTES as u64,
    };
    assert_eq!(programs.usage(0).unwrap(), [count(PACKETS), count(0)]);

    // The way back, and that the next client with this number begins at nothing.
    let mut answer = packet.clone();
    let (from, to) = answer[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    let back = [&frame[..14], &answer].concat();
    programs.set_gauge(&back, [0; 4]).unwrap();
    kernel_says(&mut programs, Ingress::App(0, 0), &back);
    assert_eq!(programs.usage(0).unwrap(), [count(PACKETS), count(1)]);
    programs.clear_usage(0).unwrap();
    assert_eq!(programs.usage(0).unwrap(), [count(0), count(0)]);
}
