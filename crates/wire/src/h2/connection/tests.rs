//! A connection against a client that is made of frames.

use super::super::conduct;
use super::super::frame::{flag, write};
use super::super::hpack::Indexing;
use super::super::limits::{BLOCK_FRAMES_MAX, IDLE_FRAMES_MAX, RESETS_MAX};
use super::*;
use crate::h1::Limits;
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;

mod client;
mod model;

/// A frame as the client sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The client's side, and the connection it talks to.
struct Peer {
    connection: Connection,
    encoder: Encoder,
    decoder: Decoder,
    now: Duration,
}

fn local() -> Local {
    Local {
        limits: Limits::default(),
        conduct: conduct::RFC_9113,
        streams_max: 10,
        stream_window_bytes: 100_000,
        connection_window_bytes: 200_000,
        header_table_bytes: 4096,
    }
}

fn varnish() -> Local {
    let limits = Limits { takes_loose_heads: true, ..Limits::default() };
    Local { limits, conduct: conduct::VARNISH, stream_window_bytes: 65_535, ..local() }
}

impl Peer {
    fn new(local: Local) -> Self {
        let mut peer = Self {
            connection: Connection::new(local, Scheme::Https),
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096),
            now: Duration::ZERO,
        };
        assert_eq!(peer.raw(PREFACE), Ok(vec![]));
        assert_eq!(peer.send(kind::SETTINGS, 0, 0, &[]), Ok(vec![Event::Opened]));
        peer.seen();
        peer
    }

    /// Events of these bytes, all of which have to be used.
    fn raw(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, Failed> {
        let mut events = Vec::new();
        while let Some(received) = self.connection.receive(bytes, self.now)? {
            bytes = &bytes[received.bytes..];
            if received.event != Event::Nothing {
                events.push(received.event);
            }
        }
        assert!(bytes.is_empty(), "{bytes:?} are left");
        Ok(events)
    }

    fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Vec<Event>, Failed> {
        let mut bytes = Vec::new();
        write(kind, flags, stream, payload, &mut bytes);
        self.raw(&bytes)
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Kept, &mut block);
        }
        block
    }

    fn ask(&mut self, stream: u32, flags: u8, more: &[(&str, &str)]) -> Result<Vec<Event>, Failed> {
        let fields =
            [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.test")];
        let block = self.block(&[&fields[..], more].concat());
        self.send(kind::HEADERS, flags | flag::END_HEADERS, stream, &block)
    }

    /// A request without body.
    fn get(&mut self, stream: u32, more: &[(&str, &str)]) {
        let events = self.ask(stream, flag::END_STREAM, more).expect("it is a request");
        assert!(
            matches!(&events[..], [Event::Request(number, _)] if *number == stream),
            "{events:?}"
        );
    }

    /// A request with a body.
    fn post(&mut self, stream: u32, more: &[(&str, &str)]) {
        let events = self.ask(stream, 0, more).expect("it is a request");
        assert!(
            matches!(&events[..], [Event::Request(number, _)] if *number == stream),
            "{events:?}"
        );
    }

    /// What the connection said since the last time.
    fn seen(&mut self) -> Vec<Seen> {
        let control = std::mem::take(self.connection.control());
        let mut rest = &control[..];
        let mut frames = Vec::new();
        while let Some(header) = Header::parse(rest) {
            let end = FRAME_HEADER_BYTES + header.len;
            let payload = rest[FRAME_HEADER_BYTES..end].to_vec();
            let Header { kind, flags, stream, .. } = header;
            frames.push(Seen { kind, flags, stream, payload });
            rest = &rest[end..];
        }
        assert!(rest.is_empty());
        frames
    }

    fn fields(&mut self, seen: &Seen) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read =
            self.decoder.decode(&seen.payload, |name, value| out.push((text(name), text(value))));
        assert_eq!(read, Ok(()));
        out
    }

    fn respond(&mut self, stream: u32, bytes: usize) {
        assert!(self.connection.respond(stream, &ResponseHead::new(200), None, false).is_some());
        assert!(self.connection.queue(stream, bytes));
        self.connection.finish(stream, None);
    }

    fn widen(&mut self, stream: u32, bytes: u32) {
        let events = self.send(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        assert_eq!(events, Ok(vec![Event::Opened]));
    }

    /// Streams in the order they send, with the bytes they send together.
    fn order(&mut self) -> Vec<(u32, usize)> {
        let mut order: Vec<(u32, usize)> = Vec::new();
        while let Some(frame) = self.connection.next_data(usize::MAX) {
            match order.last_mut() {
                Some((stream, bytes)) if *stream == frame.stream => *bytes += frame.bytes,
                _ => order.push((frame.stream, frame.bytes)),
            }
        }
        order
    }
}

fn rst(stream: u32, code: Code) -> Seen {
    let payload = (code as u32).to_be_bytes().to_vec();
    Seen { kind: kind::RST_STREAM, flags: 0, stream, payload }
}

fn window_update(stream: u32, bytes: u32) -> Seen {
    Seen { kind: kind::WINDOW_UPDATE, flags: 0, stream, payload: bytes.to_be_bytes().to_vec() }
}

/// The last frame says goodbye with this code, up to this stream.
fn assert_goaway(peer: &mut Peer, last_stream: u32, code: Code) {
    let seen = peer.seen();
    let last = seen.last().expect("it says why");
    let payload = [last_stream.to_be_bytes(), (code as u32).to_be_bytes()].concat();
    assert_eq!((last.kind, &last.payload), (kind::GOAWAY, &payload));
    assert!(peer.connection.is_done());
}

#[test]
fn a_connection_begins_with_settings_and_without_old_priorities() {
    let mut connection = Connection::new(local(), Scheme::Http);
    let control = std::mem::take(connection.control());
    let settings = &control[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + 24];
    assert!(settings.as_chunks::<6>().0.contains(&[0, 9, 0, 0, 0, 1]));
    assert!(settings.as_chunks::<6>().0.contains(&[0, 3, 0, 0, 0, 10]));
    assert!(!connection.is_established());
    for part in PREFACE.chunks(5).scan(0, |end, part| {
        *end += part.len();
        Some(*end)
    }) {
        let received = connection.receive(&PREFACE[..part], Duration::ZERO);
        assert_eq!(received.map(|received| received.is_some()), Ok(part == PREFACE.len()));
    }
    // SETTINGS come first.
    let mut bytes = Vec::new();
    write(kind::PING, 0, 0, &[0; 8], &mut bytes);
    assert_eq!(connection.receive(&bytes, Duration::ZERO), Err(Failed));
}

#[test]
fn another_preface_is_refused_at_its_first_wrong_byte() {
    let mut connection = Connection::new(local(), Scheme::Http);
    assert_eq!(connection.receive(b"PRI * HTTP/1", Duration::ZERO), Err(Failed));
}

#[test]
fn a_request_is_answered() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    let mut head = ResponseHead::new(200);
    head.fields =
        [("Content-Type", "text/plain"), ("Keep-Alive", "x"), ("Connection", "y"), ("Y", "z")]
            .into_iter()
            .collect();
    assert!(peer.connection.respond(1, &head, Some(5), false).is_some());
    let seen = peer.seen();
    assert_eq!((seen.len(), seen[0].kind, seen[0].flags), (1, kind::HEADERS, flag::END_HEADERS));
    let want = [(":status", "200"), ("content-type", "text/plain"), ("content-length", "5")];
    let want: Vec<_> = want.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    assert_eq!(peer.fields(&seen[0]), want);
    assert!(peer.connection.queue(1, 5));
    peer.connection.finish(1, None);
    let frame = peer.connection.next_data(100);
    assert_eq!(frame, Some(DataFrame { stream: 1, bytes: 5, left: 0, ends: true }));
    assert_eq!((peer.connection.streams(), peer.connection.next_data(100)), (0, None));
}

#[test]
fn trailers_come_behind_the_last_data() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    peer.connection.respond(1, &ResponseHead::new(200), None, false);
    peer.connection.queue(1, 20_000);
    let trailers: Fields = [("x-sum", "1")].into_iter().collect();
    peer.connection.finish(1, Some(trailers));
    peer.seen();
    let bytes: Vec<_> = std::iter::from_fn(|| {
        let frame = peer.connection.next_data(usize::MAX)?;
        assert!(!frame.ends);
        Some((frame.bytes, !peer.connection.control().is_empty()))
    })
    .collect();
    assert_eq!(bytes, [(16_384, false), (3616, true)]);
    let seen = peer.seen();
    assert_eq!(seen[0].flags, flag::END_HEADERS | flag::END_STREAM);
    assert_eq!(peer.fields(&seen[0]), [("x-sum".to_owned(), "1".to_owned())]);
}

#[test]
fn a_head_too_long_for_a_frame_goes_on_in_others() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    let mut head = ResponseHead::new(200);
    let value: String = (0..40_000_u32).map(|at| char::from(b'A' + (at * 7 % 26) as u8)).collect();
    head.fields.append("x-long", &value);
    peer.connection.respond(1, &head, Some(0), true);
    let seen = peer.seen();
    let kinds: Vec<_> = seen.iter().map(|frame| (frame.kind, frame.flags)).collect();
    let (first, middle) = ((kind::HEADERS, flag::END_STREAM), (kind::CONTINUATION, 0));
    assert_eq!((kinds[0], kinds[1]), (first, middle));
    assert_eq!(kinds.last(), Some(&(kind::CONTINUATION, flag::END_HEADERS)));
    let payload = seen.iter().flat_map(|frame| frame.payload.clone()).collect();
    let whole = Seen { payload, ..seen[0].clone() };
    assert_eq!(peer.fields(&whole)[1].1, value);
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_others_go_on() {
    let mut peer = Peer::new(local());
    for stream in 0..10 {
        peer.get(2 * stream + 1, &[]);
    }
    assert_eq!(peer.ask(21, flag::END_STREAM, &[]), Ok(vec![]));
    assert_eq!(peer.seen(), [rst(21, Code::RefusedStream)]);
    peer.connection.respond(1, &ResponseHead::new(204), None, true);
    peer.get(23, &[]);
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
    assert_eq!(events, Ok(vec![Event::Refused { stream: 5, status: None }]));
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
        assert_eq!(
            peer.send(kind::HEADERS, flags, stream, &block),
            Ok(vec![Event::Refused { stream, status: Some(501) }])
        );
        let seen = peer.seen();
        assert_eq!(peer.fields(&seen[0])[0].1, "501", "{method}");
    }
}

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
    assert_eq!(events, [Event::Refused { stream: 1, status: Some(431) }]);
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
fn varnish_opens_the_connection_at_once_and_the_stream_when_it_takes() {
    let mut peer = Peer::new(varnish());
    peer.post(3, &[]);
    let mut payload = vec![83];
    payload.resize(16_384, 0);
    assert!(peer.send(kind::DATA, flag::PADDED, 3, &payload).is_ok());
    assert_eq!(peer.seen(), [window_update(0, 16_384)]);
    peer.connection.take_body(3, 16_300);
    assert_eq!(peer.seen(), [window_update(3, 16_384)]);
    // Nothing more is said of a body that is there.
    assert!(peer.send(kind::DATA, flag::END_STREAM, 3, b"x").is_ok());
    peer.connection.take_body(3, 1);
    assert_eq!(peer.seen(), [window_update(0, 1)]);
    // Nor of one that has the length it was to have.
    peer.post(5, &[("content-length", "1")]);
    assert!(peer.send(kind::DATA, 0, 5, b"x").is_ok());
    peer.connection.take_body(5, 1);
    assert_eq!(peer.seen(), [window_update(0, 1)]);
}

#[test]
fn varnish_takes_small_frames_and_any_frame_first() {
    let mut bytes = PREFACE.to_vec();
    write(kind::SETTINGS, flag::ACK, 0, &[], &mut bytes);
    write(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 64], &mut bytes);
    for (local, is_taken) in [(varnish(), true), (local(), false)] {
        let connection = Connection::new(local, Scheme::Http);
        let (encoder, decoder) = (Encoder::new(4096), Decoder::new(4096));
        let mut peer = Peer { connection, encoder, decoder, now: Duration::ZERO };
        assert_eq!(peer.raw(&bytes).is_ok(), is_taken);
        if is_taken {
            peer.get(1, &[]);
            peer.respond(1, 100);
            let order: Vec<_> = std::iter::from_fn(|| peer.connection.next_data(1000)).collect();
            assert_eq!(order.iter().map(|frame| frame.bytes).collect::<Vec<_>>(), [64, 36]);
        }
    }
}

#[test]
fn varnish_names_what_is_wrong_with_a_stream_before_a_length() {
    let (odd_settings, update) = (vec![0], 0x4000_u32.to_be_bytes().to_vec());
    for (kind, stream, payload, ours, varnishs) in [
        (kind::RST_STREAM, 0, vec![], Code::FrameSizeError, Code::ProtocolError),
        (kind::SETTINGS, 0, odd_settings, Code::FrameSizeError, Code::ProtocolError),
        (kind::WINDOW_UPDATE, 2, update, Code::ProtocolError, Code::ProtocolError),
    ] {
        for (local, code) in [(local(), ours), (varnish(), varnishs)] {
            let mut peer = Peer::new(local);
            assert!(peer.send(kind, 0, stream, &payload).is_err());
            assert_goaway(&mut peer, 0, code);
        }
    }
    // Priorities are of streams that a client opens.
    let priority = [0, 0, 0, 0, 15];
    assert!(Peer::new(local()).send(kind::PRIORITY, 0, 2, &priority).is_ok());
    let mut peer = Peer::new(varnish());
    assert!(peer.send(kind::PRIORITY, 0, 2, &priority).is_err());
    assert_goaway(&mut peer, 0, Code::ProtocolError);
}

#[test]
fn varnish_ends_the_connection_of_a_body_that_is_announced_and_missing() {
    let head = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")];
    let fields = [&head[..], &[("content-length", "23")]].concat();
    for (local, is_over) in [(local(), false), (varnish(), true)] {
        let mut peer = Peer::new(local);
        let block = peer.block(&fields);
        let flags = flag::END_HEADERS | flag::END_STREAM;
        assert_eq!(peer.send(kind::HEADERS, flags, 1, &block).is_err(), is_over);
        if is_over {
            assert_goaway(&mut peer, 1, Code::ProtocolError);
        } else {
            assert_eq!(peer.seen(), [rst(1, Code::ProtocolError)]);
        }
    }
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

#[test]
fn a_client_is_told_to_go_in_two_steps() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    peer.connection.shut_down();
    let seen = peer.seen();
    assert_eq!(seen[0].payload[..4], STREAM_MAX.to_be_bytes());
    assert_eq!((seen.len(), seen[1].kind), (2, kind::PING));
    // One that was on its way is served.
    peer.get(3, &[]);
    assert_eq!(peer.send(kind::PING, flag::ACK, 0, &LEAVING_PING), Ok(vec![Event::Opened]));
    let seen = peer.seen();
    assert_eq!((seen[0].kind, &seen[0].payload[..4]), (kind::GOAWAY, &[0, 0, 0, 3][..]));
    // Later ones are not looked at.
    assert_eq!(peer.ask(5, flag::END_STREAM, &[]), Ok(vec![]));
    for stream in [1, 3] {
        assert!(!peer.connection.is_done());
        peer.connection.respond(stream, &ResponseHead::new(204), None, true);
    }
    assert!(peer.connection.is_done());
}

#[test]
fn a_client_that_goes_is_done_with_its_streams() {
    let mut peer = Peer::new(local());
    peer.get(1, &[]);
    assert_eq!(peer.send(kind::GOAWAY, 0, 0, &[0; 8]), Ok(vec![Event::Opened]));
    assert!(!peer.connection.is_done());
    peer.connection.respond(1, &ResponseHead::new(204), None, true);
    assert!(peer.connection.is_done());
}
