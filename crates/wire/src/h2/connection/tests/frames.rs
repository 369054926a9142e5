//! Frames that break rules.

use super::*;

#[test]
fn another_preface_is_refused_at_its_first_wrong_byte() {
    let mut connection = Connection::new(local(), Scheme::Http);
    assert_eq!(connection.receive(b"PRI * HTTP/1", Duration::ZERO), Err(Failed));
}

#[test]
fn frames_that_do_not_fit_the_state_of_their_stream() {
    // DATA and HEADERS behind the end of the request.
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    let reset = Event::Reset { stream: 1, by_peer: None };
    assert_eq!(peer.send(kind::DATA, 0, 1, b"x"), Ok(vec![reset]));
    assert_eq!(peer.seen(), [rst(1, Code::StreamClosed)]);
    // What was on its way is not another mistake.
    assert_eq!(peer.send(kind::DATA, 0, 1, b"x"), Ok(vec![]));
    assert_eq!(peer.ask(1, flag::END_STREAM, &[]), Ok(vec![]));
    assert_eq!(peer.seen(), []);
    // After the client's own reset it is.
    peer.get(3, &[]);
    let reset = Event::Reset { stream: 3, by_peer: Some(8) };
    assert_eq!(peer.send(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8]), Ok(vec![reset]));
    assert_eq!(peer.send(kind::DATA, 0, 3, b"x"), Ok(vec![]));
    assert_eq!(peer.seen(), [rst(3, Code::StreamClosed)]);
    // A stream that is done: the connection is over.
    peer.get(5, &[]);
    peer.connection.respond(5, &ResponseHead::new(204), None, true);
    assert_eq!(peer.ask(5, flag::END_STREAM, &[]), Err(Failed));
    assert_goaway(&mut peer, 5, Code::StreamClosed);
    // One that was passed over.
    let mut peer = Peer::new(local());
    peer.get(3, &[]);
    assert_eq!(peer.ask(1, flag::END_STREAM, &[]), Err(Failed));
    assert_goaway(&mut peer, 3, Code::ProtocolError);
}

#[test]
fn frames_no_connection_has() {
    for (kind_, flags, stream, payload, code) in [
        (kind::DATA, 0, 1, &b"x"[..], Code::ProtocolError),
        (kind::DATA, 0, 0, b"x", Code::ProtocolError),
        (kind::HEADERS, flag::END_HEADERS, 0, b"", Code::ProtocolError),
        (kind::HEADERS, flag::END_HEADERS, 2, b"", Code::ProtocolError),
        (kind::HEADERS, flag::END_HEADERS | flag::PADDED, 1, b"\x01", Code::ProtocolError),
        (kind::HEADERS, flag::END_HEADERS | flag::PRIORITY, 1, b"1234", Code::ProtocolError),
        (kind::HEADERS, flag::END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff", Code::CompressionError),
        (kind::PRIORITY, 0, 0, b"12345", Code::ProtocolError),
        (kind::PRIORITY, 0, 1, b"1234", Code::FrameSizeError),
        (kind::RST_STREAM, 0, 1, b"1234", Code::ProtocolError),
        (kind::RST_STREAM, 0, 1, b"123", Code::FrameSizeError),
        (kind::SETTINGS, 0, 1, b"", Code::ProtocolError),
        (kind::SETTINGS, 0, 0, b"1234", Code::FrameSizeError),
        (kind::SETTINGS, flag::ACK, 0, b"123456", Code::FrameSizeError),
        (kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2], Code::ProtocolError),
        (kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0], Code::FlowControlError),
        (kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1], Code::ProtocolError),
        (kind::SETTINGS, 0, 0, &[0, 9, 0, 0, 0, 2], Code::ProtocolError),
        (kind::PUSH_PROMISE, 0, 1, b"1234", Code::ProtocolError),
        (kind::PING, 0, 0, b"1234567", Code::FrameSizeError),
        (kind::PING, 0, 1, b"12345678", Code::ProtocolError),
        (kind::GOAWAY, 0, 1, b"12345678", Code::ProtocolError),
        (kind::GOAWAY, 0, 0, b"1234567", Code::FrameSizeError),
        (kind::WINDOW_UPDATE, 0, 0, &[0; 4], Code::ProtocolError),
        (kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff], Code::FlowControlError),
        (kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1], Code::ProtocolError),
        (kind::WINDOW_UPDATE, 0, 0, b"12345", Code::FrameSizeError),
        (kind::CONTINUATION, flag::END_HEADERS, 1, b"", Code::ProtocolError),
        (kind::PRIORITY_UPDATE, 0, 1, b"\0\0\0\x01u=1", Code::ProtocolError),
        (kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\0u=1", Code::ProtocolError),
        (kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x02u=1", Code::ProtocolError),
        (kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0", Code::FrameSizeError),
        (99, 0, 0, &[0; 16_385], Code::FrameSizeError),
    ] {
        let mut peer = Peer::new(local());
        let mut bytes = Vec::new();
        write(kind_, flags, stream, payload, &mut bytes);
        let result = peer.connection.receive(&bytes, Duration::ZERO);
        assert_eq!(result, Err(Failed), "{kind_} {flags} {stream} {payload:?}");
        let goaway = peer.seen().pop().expect("it says why");
        assert_eq!(goaway.payload[4..], (code as u32).to_be_bytes(), "{kind_} {payload:?}");
    }
}

#[test]
fn a_wrong_length_is_seen_before_the_payload() {
    let mut peer = Peer::new(local());
    peer.post(1, &[]);
    let result = peer.connection.receive(&[0, 0, 3, 8, 0, 0, 0, 0, 1], Duration::ZERO);
    assert_eq!(result, Err(Failed));
    assert_goaway(&mut peer, 1, Code::FrameSizeError);
}

#[test]
fn a_stream_ends_for_its_own_mistakes_alone() {
    let mut peer = Peer::new(local());
    for (stream, payload, code) in [
        (1, [0, 0, 0, 0], Code::ProtocolError),
        (3, [0x7f, 0xff, 0xff, 0xff], Code::FlowControlError),
    ] {
        peer.post(stream, &[]);
        let reset = Event::Reset { stream, by_peer: None };
        assert_eq!(peer.send(kind::WINDOW_UPDATE, 0, stream, &payload), Ok(vec![reset]));
        assert_eq!(peer.seen(), [rst(stream, code)]);
    }
    let events = peer.ask(5, flag::END_STREAM, &[(":status", "200")]);
    let Ok([Event::Refused { stream: 5, status: None, head_bytes: 0, .. }]) = events.as_deref()
    else {
        panic!("{events:?}")
    };
    assert_eq!(peer.seen(), [rst(5, Code::ProtocolError)]);
    peer.get(7, &[]);
    assert_eq!(peer.send(kind::PRIORITY, 0, 7, &[0, 0, 0, 7, 1]).map(|events| events.len()), Ok(1));
    assert_eq!(peer.seen(), [rst(7, Code::ProtocolError)]);
}

#[test]
fn a_body_has_the_length_that_was_told() {
    type Part = (&'static [u8], u8);
    let cases: [(&[Part], bool); 5] = [
        (&[(b"abc", flag::END_STREAM)], true),
        (&[(b"ab", 0), (b"c", flag::END_STREAM)], true),
        (&[(b"abcd", 0)], false),
        (&[(b"abc", 0), (b"d", flag::END_STREAM)], false),
        (&[(b"ab", flag::END_STREAM)], false),
    ];
    for (frames, is_right) in cases {
        let mut peer = Peer::new(local());
        peer.post(1, &[("content-length", "3")]);
        let mut last = None;
        for (payload, flags) in frames {
            last = peer.send(kind::DATA, *flags, 1, payload).expect("the connection goes on").pop();
        }
        let is_reset = last == Some(Event::Reset { stream: 1, by_peer: None });
        assert_eq!(!is_reset, is_right, "{frames:?}");
        assert_eq!(peer.seen().contains(&rst(1, Code::ProtocolError)), !is_right);
    }
    // Trailers end a body too.
    let mut peer = Peer::new(local());
    peer.post(1, &[("content-length", "3")]);
    let block = peer.block(&[("x", "y")]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let reset = Event::Reset { stream: 1, by_peer: None };
    assert_eq!(peer.send(kind::HEADERS, flags, 1, &block), Ok(vec![reset]));
}

#[test]
fn methods_that_servers_take_for_others_are_refused() {
    for (method, stream) in [("get", 1), ("Post", 3), ("PRI", 5)] {
        let mut peer = Peer::new(local());
        let fields =
            [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", "/")];
        let block = peer.block(&fields);
        let flags = flag::END_STREAM | flag::END_HEADERS;
        let events = peer.send(kind::HEADERS, flags, stream, &block).expect("it is answered");
        let [Event::Refused { stream: refused, status: Some(501), head_bytes: 1.., .. }] =
            events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(refused, stream);
        let seen = peer.seen();
        assert_eq!(peer.fields(&seen[0])[0].1, "501", "{method}");
    }
}
