//! Windows and bodies.

use super::*;

#[test]
fn windows_open_as_bodies_are_taken() {
    let mut peer = Peer::new(local());
    peer.post(1, &[]);
    peer.post(3, &[]);
    // 100,000 bytes of one that nobody takes do not stop the other.
    for _ in 0..6 {
        assert!(peer.send(kind::DATA, 0, 1, &[0; 16_384]).is_ok());
    }
    assert_eq!(peer.seen(), []);
    for _ in 0..100 {
        let events = peer.send(kind::DATA, 0, 3, &[0; 16_384]);
        assert_eq!(events, Ok(vec![Event::Data(3, 9..9 + 16_384, false)]));
        peer.connection.take_body(3, 16_384);
    }
    let mut seen = peer.seen();
    assert!(seen.contains(&window_update(3, 4 * 16_384)), "{seen:?}");
    // Over its own window.
    let reset = Event::Reset { stream: 1, by_peer: None };
    assert_eq!(peer.send(kind::DATA, 0, 1, &[0; 16_384]), Ok(vec![reset]));
    seen.extend(peer.seen());
    assert!(seen.contains(&rst(1, Code::FlowControlError)));
    // What was never taken of it came back with its end.
    let given = seen.iter().filter(|frame| frame.kind == kind::WINDOW_UPDATE && frame.stream == 0);
    let given: u32 = given.map(|frame| number(&frame.payload)).sum();
    assert!(107 * 16_384 - given <= 100_000, "{given}");
}

#[test]
fn more_than_the_connections_window_ends_it() {
    let mut peer = Peer::new(Local { stream_window_bytes: 1 << 20, ..local() });
    peer.post(1, &[]);
    let sent = (0..100).take_while(|_| peer.send(kind::DATA, 0, 1, &[0; 16_384]).is_ok()).count();
    assert_eq!(sent, 200_000 / 16_384);
    assert_goaway(&mut peer, 1, Code::FlowControlError);
}

#[test]
fn padding_without_content_is_given_back() {
    let mut peer = Peer::new(local());
    peer.post(1, &[]);
    let mut payload = [0; 256];
    payload[0] = 255;
    for _ in 0..800 {
        assert_eq!(peer.send(kind::DATA, flag::PADDED, 1, &payload), Ok(vec![]));
    }
}

#[test]
fn a_body_nobody_takes_is_not_asked_for_after_the_answer() {
    let mut peer = Peer::new(local());
    peer.post(1, &[]);
    peer.connection.respond(1, &ResponseHead::new(413), Some(0), true);
    assert_eq!(peer.seen().len(), 1);
    peer.connection.refuse_body(1);
    assert_eq!(peer.seen(), [rst(1, Code::NoError)]);
    // The other way round.
    peer.post(3, &[]);
    peer.connection.refuse_body(3);
    assert_eq!(peer.send(kind::DATA, 0, 3, b"x"), Ok(vec![]));
    peer.post(5, &[]);
    peer.connection.refuse_body(5);
    let ended = peer.send(kind::DATA, flag::END_STREAM, 5, b"x");
    assert_eq!(ended, Ok(vec![Event::End(5)]));
    peer.connection.respond(5, &ResponseHead::new(204), None, true);
    peer.connection.respond(3, &ResponseHead::new(413), Some(0), true);
    assert_eq!(peer.seen().pop(), Some(rst(3, Code::NoError)));
    assert_eq!(peer.connection.streams(), 0);
}

#[test]
fn what_was_on_its_way_as_its_request_was_answered_is_no_idle_frame() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    peer.post(3, &[]);
    peer.connection.respond(3, &ResponseHead::new(403), Some(0), true);
    peer.connection.refuse_body(3);
    peer.seen();
    // As much as the window of the stream let in, in small frames.
    for _ in 0..100_000 / 20 {
        assert_eq!(peer.send(kind::DATA, 0, 3, &[0; 20]), Ok(vec![]));
    }
    assert_eq!(peer.connection.streams(), 1);
    // What comes beyond it, and what brings nothing, is.
    let more = (0..).take_while(|_| peer.send(kind::DATA, 0, 3, &[0; 20]).is_ok()).count();
    assert_eq!(more, IDLE_FRAMES_MAX as usize);
    assert_goaway(&mut peer, 3, Code::EnhanceYourCalm);
}

#[test]
fn a_smaller_first_window_may_make_windows_negative() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    peer.respond(1, 100_000);
    peer.widen(0, 100_000);
    assert_eq!(peer.order(), [(1, 65_535)]);
    let events = peer.send(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 10]);
    assert_eq!(events, Ok(vec![Event::Opened]));
    peer.widen(1, 65_524);
    assert_eq!(peer.order(), []);
    peer.widen(1, 2);
    assert_eq!(peer.order(), [(1, 1)]);
    let huge = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    peer.widen(1, 100);
    assert_eq!(peer.send(kind::SETTINGS, 0, 0, &huge), Err(Failed));
    assert_goaway(&mut peer, 1, Code::FlowControlError);
}
