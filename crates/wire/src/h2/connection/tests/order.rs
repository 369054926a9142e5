//! Who sends first.

use super::*;

#[test]
fn urgent_streams_go_first_and_updates_count_before_and_after_the_request() {
    let mut peer = Peer::new(local());
    let update = |peer: &mut Peer, stream: u32, value: &str| {
        let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
        assert!(peer.send(kind::PRIORITY_UPDATE, 0, 0, &payload).is_ok());
    };
    update(&mut peer, 7, "u=0");
    for (stream, value) in [(1, "u=5"), (3, ""), (5, "u=1"), (7, "u=6"), (9, "u=4")] {
        peer.get(stream, &[("priority", value)]);
        peer.respond(stream, 10_000);
    }
    update(&mut peer, 9, "u=2");
    assert_eq!(peer.order(), [(7, 10_000), (5, 10_000), (9, 10_000), (3, 10_000), (1, 10_000)]);
    // A response's own field says otherwise.
    peer.get(11, &[]);
    peer.get(13, &[]);
    peer.respond(11, 100);
    let mut head = ResponseHead::new(200);
    head.fields.append("priority", "u=0");
    peer.connection.respond(13, &head, None, false);
    peer.connection.queue(13, 100);
    assert_eq!(peer.order(), [(13, 100), (11, 100)]);
}

#[test]
fn no_more_streams_are_foretold_than_may_be_open() {
    let mut peer = Peer::new(local());
    for stream in (1..21).step_by(2) {
        let payload = [&u32::to_be_bytes(stream)[..], b"u=1"].concat();
        assert!(peer.send(kind::PRIORITY_UPDATE, 0, 0, &payload).is_ok());
    }
    // The same ones again, and another that was done.
    assert!(peer.send(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=2").is_ok());
    assert_eq!(peer.send(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x15u=2"), Err(Failed));
    assert_goaway(&mut peer, 0, Code::ProtocolError);
}

#[test]
fn an_urgent_stream_without_window_or_bytes_stops_nobody() {
    let mut peer = Peer::new(local());
    peer.get(1, &[("priority", "u=0")]);
    peer.get(3, &[("priority", "u=7")]);
    peer.get(5, &[("priority", "u=0")]);
    peer.widen(0, 1_000_000);
    peer.respond(1, 70_000);
    peer.respond(3, 10_000);
    peer.connection.respond(5, &ResponseHead::new(200), None, false);
    assert_eq!(peer.order(), [(1, 65_535), (3, 10_000)]);
    assert!(peer.connection.is_shut(1));
    peer.widen(1, 100_000);
    assert_eq!(peer.order(), [(1, 4465)]);
    assert!(peer.connection.queue(5, 10));
    peer.connection.finish(5, None);
    assert_eq!(peer.order(), [(5, 10)]);
    assert_eq!(peer.connection.streams(), 0);
}

#[test]
fn a_hastened_stream_goes_before_those_that_are_as_urgent() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    peer.get(3, &[]);
    peer.get(5, &[("priority", "u=1")]);
    peer.get(7, &[]);
    for stream in [3, 7, 9] {
        peer.connection.hasten(stream);
    }
    for stream in [1, 3, 5] {
        peer.respond(stream, 100);
    }
    // Its origin knows better.
    let mut head = ResponseHead::new(200);
    head.fields.append("priority", "u=5");
    peer.connection.respond(7, &head, None, false);
    assert!(peer.connection.queue(7, 100));
    peer.connection.finish(7, None);
    assert_eq!(peer.order(), [(5, 100), (3, 100), (1, 100), (7, 100)]);
}

#[test]
fn incremental_streams_share() {
    let mut peer = Peer::new(local());
    for stream in [1, 3] {
        peer.get(stream, &[("priority", "u=3, i")]);
        peer.respond(stream, 30_000);
    }
    assert_eq!(peer.order(), [(1, 16_384), (3, 16_384), (1, 13_616), (3, 13_616)]);
}
