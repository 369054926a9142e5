//! Marks of congestion, both ways (RFC 9000 §13.4).

use crate::raw::Raw;
use crate::world::{Way, World};
use freshet_quic::Ecn;
use freshet_quic::ecn::Counts;
use freshet_quic::parameters::Local;
use std::time::Duration;

/// Has 20 KB sent and acknowledged; says how many datagrams were marked.
fn send(raw: &mut Raw, stream: u64) -> u64 {
    let before = raw.heard.marked;
    assert!(raw.server.quic.write(stream, vec![7; 20_000]));
    raw.frames(&[1]);
    raw.pass(Duration::from_millis(20));
    raw.heard.marked - before
}

#[test]
fn marks_of_packets_that_came_are_told() {
    let mut raw = Raw::connected();
    raw.frames(&[1]);
    assert_eq!(raw.heard.counts, None);
    for (ecn, want) in [
        (Ecn::Ect0, Counts { ect0: 1, ..Counts::default() }),
        (Ecn::Ce, Counts { ect0: 1, ce: 1, ..Counts::default() }),
        (Ecn::Ect1, Counts { ect0: 1, ect1: 1, ce: 1 }),
    ] {
        // Two at a time are acknowledged at once.
        raw.acknowledges = false;
        raw.ecn = ecn;
        raw.frames(&[1]);
        raw.ecn = Ecn::NotEct;
        raw.frames(&[1]);
        raw.pass(Duration::from_millis(50));
        assert_eq!(raw.heard.counts, Some(want));
        let is_congested = u64::from(ecn == Ecn::Ce);
        assert_eq!(raw.server.quic.take_marks().received, is_congested);
    }
}

#[test]
fn who_sees_marks_gets_more_and_who_does_not_gets_none() {
    for (sees, is_kept) in [
        (Ecn::Ect0, true),
        (Ecn::Ce, true),
        // They are taken off on the way, or changed; or the client does not look.
        (Ecn::NotEct, false),
        (Ecn::Ect1, false),
    ] {
        let mut raw = Raw::greedy_that_sees(sees);
        let stream = raw.server.quic.open().expect("it lets us open one");
        send(&mut raw, stream);
        assert!(raw.heard.marked > 0, "it is tried");
        (0..3).for_each(|_| {
            send(&mut raw, stream);
        });
        assert_eq!(send(&mut raw, stream) > 0, is_kept, "{sees:?}");
        let congested = raw.server.quic.statistics().packets_congested;
        assert_eq!(congested > 0, sees == Ecn::Ce);
        let marks = raw.server.quic.take_marks();
        assert_eq!((marks.sent, marks.congested), (raw.heard.marked, congested));
        assert_eq!((marks.failed, marks.received), (u64::from(!is_kept), 0), "{sees:?}");
        // Later they are taken off.
        raw.sees = Ecn::NotEct;
        send(&mut raw, stream);
        assert_eq!(send(&mut raw, stream), 0, "{sees:?}");
        // Once for each way.
        assert_eq!(raw.server.quic.take_marks().failed, u64::from(is_kept), "{sees:?}");
        assert_eq!(raw.heard.closed, None);
    }
}

#[test]
fn who_says_that_it_saw_more_than_was_sent_gets_none() {
    let mut raw = Raw::greedy_that_sees(Ecn::Ect0);
    let stream = raw.server.quic.open().expect("it lets us open one");
    assert!(send(&mut raw, stream) > 0);
    raw.saw.ce += 100;
    send(&mut raw, stream);
    assert_eq!(send(&mut raw, stream), 0);
    assert_eq!(raw.server.quic.statistics().packets_congested, 0);
}

/// A router that marks a part of what it passes on slows the server down before it has to lose anything.
#[test]
fn a_router_that_marks_is_heard_before_it_loses_packets() {
    let sent = |congested| {
        let mut world = World::new(1, Way { congested, ..Way::GOOD }, Local::default());
        let limit = Duration::from_secs(600);
        world.run(limit, |world| !world.client.is_handshaking());
        world.ask(10, 3_000_000).expect("there is room for one");
        world.run(limit, |world| world.is_done());
        (world.now, world.server.as_ref().expect("it is there").statistics())
    };
    let (fast, without) = sent(0);
    let (slow, with) = sent(50);
    assert!(slow > 2 * fast, "{slow:?} {fast:?}");
    assert!(with.packets_congested > 0 && without.packets_congested == 0);
    assert_eq!((with.packets_lost, without.packets_lost), (0, 0));
}
