//! What costs more than it should.

use super::*;

#[test]
fn heads_over_a_limit_are_answered() {
    let mut peer = Peer::new(local());
    let large = "v".repeat(40_000);
    let block = peer.block(&[(":method", "GET"), ("x", &large)]);
    let mut parts = block.chunks(16_000);
    let first = parts.next().expect("it is large");
    assert_eq!(peer.send(kind::HEADERS, flag::END_STREAM, 1, first), Ok(vec![]));
    let mut events = Vec::new();
    let count = parts.len();
    for (at, part) in parts.enumerate() {
        let flags = if at + 1 == count { flag::END_HEADERS } else { 0 };
        events = peer.send(kind::CONTINUATION, flags, 1, part).expect("it goes on");
    }
    let is_told = |events: &[Event]| {
        matches!(events, [Event::Refused { stream: 1, status: Some(431), head_bytes: 1.., .. }])
    };
    assert!(is_told(&events), "{events:?}");
    let seen = peer.seen();
    assert_eq!(peer.fields(&seen[0])[0].1, "431");
    assert_eq!(peer.connection.streams(), 0);
    peer.get(3, &[]);
}

#[test]
fn a_flood_of_continuation_ends_the_connection() {
    // Many small frames.
    let mut peer = Peer::new(local());
    assert_eq!(peer.send(kind::HEADERS, 0, 1, b""), Ok(vec![]));
    let sent = (0..1000).take_while(|_| peer.send(kind::CONTINUATION, 0, 1, b"").is_ok()).count();
    assert_eq!(sent, BLOCK_FRAMES_MAX as usize - 1);
    assert_goaway(&mut peer, 1, Code::EnhanceYourCalm);
    // Few large ones: no more is kept than some heads have.
    let mut peer = Peer::new(local());
    assert_eq!(peer.send(kind::HEADERS, 0, 1, b""), Ok(vec![]));
    let sent =
        (0..1000).take_while(|_| peer.send(kind::CONTINUATION, 0, 1, &[0; 16_384]).is_ok()).count();
    assert_eq!(sent, 8);
    assert_goaway(&mut peer, 1, Code::EnhanceYourCalm);
    // Nothing may come between.
    let mut peer = Peer::new(local());
    assert_eq!(peer.send(kind::HEADERS, 0, 1, b""), Ok(vec![]));
    assert_eq!(peer.send(kind::PING, 0, 0, &[0; 8]), Err(Failed));
}

#[test]
fn frames_to_no_use_end_the_connection_unless_they_come_slowly() {
    for (kind_, stream, payload) in [
        (kind::PING, 0, &[0; 8][..]),
        (kind::SETTINGS, 0, &[]),
        (kind::PRIORITY, 9, &[0; 5]),
        (kind::PRIORITY_UPDATE, 0, b"\0\0\0\x01u=1"),
        (kind::DATA, 1, b""),
        (99, 0, b"x"),
    ] {
        let mut peer = Peer::new(local());
        peer.post(1, &[]);
        let mut sent = 0;
        while sent < 2 * IDLE_FRAMES_MAX && peer.send(kind_, 0, stream, payload).is_ok() {
            sent += 1;
            peer.connection.control().clear();
        }
        assert!(sent.abs_diff(IDLE_FRAMES_MAX) < 3, "{sent} frames of type {kind_}");
        assert_goaway(&mut peer, 1, Code::EnhanceYourCalm);
        // A hundred in a second for a long time.
        let mut peer = Peer::new(local());
        peer.post(1, &[]);
        for _ in 0..5 * IDLE_FRAMES_MAX {
            peer.now += Duration::from_millis(10);
            assert!(peer.send(kind_, 0, stream, payload).is_ok());
            peer.connection.control().clear();
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read() {
    let mut peer = Peer::new(local());
    let mut sent = 0;
    while peer.connection.wants_input() {
        peer.get(2 * sent + 1, &[]);
        peer.connection.respond(2 * sent + 1, &ResponseHead::new(204), None, true);
        sent += 1;
        assert!(sent < 100_000);
    }
    assert!(peer.connection.control().len() < CONTROL_BYTES_MAX + 1000);
    peer.seen();
    assert!(peer.connection.wants_input());
}

#[test]
fn rapid_resets_end_the_connection_whoever_makes_them() {
    for by_client in [true, false] {
        let mut peer = Peer::new(local());
        let mut opened = 0;
        loop {
            let stream = 2 * opened + 1;
            peer.post(stream, &[]);
            opened += 1;
            let result = if by_client {
                peer.send(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])
            } else {
                // A window of nothing is a mistake the connection answers with a reset.
                peer.send(kind::WINDOW_UPDATE, 0, stream, &[0; 4])
            };
            if result.is_err() {
                break;
            }
            assert!(opened <= RESETS_MAX);
        }
        assert_eq!(opened, RESETS_MAX + 1);
        assert_goaway(&mut peer, 2 * opened - 1, Code::EnhanceYourCalm);
    }
    // One that takes every second response is none of those.
    let mut peer = Peer::new(local());
    for at in 0..10 * RESETS_MAX {
        peer.get(4 * at + 1, &[]);
        assert!(peer.send(kind::RST_STREAM, 0, 4 * at + 1, &[0, 0, 0, 8]).is_ok());
        peer.get(4 * at + 3, &[]);
        peer.connection.respond(4 * at + 3, &ResponseHead::new(204), None, true);
        peer.seen();
    }
}
