//! What a client may not do to HTTP/3, and by which code the connection or the stream ends then: the
//! rules that RFC 9114, 9204 and 9218 give servers, one a line.

use crate::raw::Raw;
use freshet_quic::frame::write_stream_head;
use freshet_wire::h3::Code;
use freshet_wire::h3::frame::{kind, write_head};
use freshet_wire::h3::limits::RESETS_MAX;
use freshet_wire::h3::qpack;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(kind, payload.len(), &mut out);
    out.extend_from_slice(payload);
    out
}

fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    qpack::begin(&mut block);
    for (name, value) in fields {
        qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
    }
    frame(kind::HEADERS, &block)
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];

pub(crate) fn get() -> Vec<u8> {
    fields(&GET)
}

fn with(more: &[(&str, &str)]) -> Vec<u8> {
    fields(&[&GET[..], more].concat())
}

/// What bytes of a stream end the connection with.
fn ends(stream: u64, bytes: &[u8], finishes: bool) -> Option<(bool, u64)> {
    let mut raw = Raw::connected();
    raw.stream(stream, 0, bytes, finishes);
    raw.heard.closed
}

/// What no request may be, by the rule, whether that is all of it, and the code that ends the
/// connection.
pub(crate) fn illegal_requests() -> Vec<(&'static str, Vec<u8>, bool, Code)> {
    vec![
        ("§4.1 a body without a head", frame(0, b"a"), false, Code::FrameUnexpected),
        (
            "§4.1 one behind trailers",
            [get(), fields(&[("a", "b")]), frame(0, b"a")].concat(),
            false,
            Code::FrameUnexpected,
        ),
        (
            "§4.1 trailers twice",
            [get(), fields(&[("a", "b")]), fields(&[("a", "b")])].concat(),
            false,
            Code::FrameUnexpected,
        ),
        ("§7.2.3 a push given up", [get(), frame(3, &[0])].concat(), false, Code::FrameUnexpected),
        ("§7.2.4 settings", frame(4, &[]), false, Code::FrameUnexpected),
        ("§7.2.5 a push", [get(), frame(5, &[0, 0, 0])].concat(), false, Code::FrameUnexpected),
        ("§7.2.6 a farewell", frame(7, &[0]), false, Code::FrameUnexpected),
        ("§7.2.7 pushes", frame(0xd, &[0]), false, Code::FrameUnexpected),
        ("§7.2.8 a frame of HTTP/2", frame(2, &[0; 5]), false, Code::FrameUnexpected),
        ("§7.2.8 PING", frame(6, &[0; 8]), false, Code::FrameUnexpected),
        ("§7.2.8 WINDOW_UPDATE", frame(8, &[0; 4]), false, Code::FrameUnexpected),
        ("§7.2.8 CONTINUATION", frame(9, &[]), false, Code::FrameUnexpected),
        (
            "RFC 9218 §7.2 a priority",
            frame(kind::PRIORITY_UPDATE, &[0]),
            false,
            Code::FrameUnexpected,
        ),
        ("§7.1 a head cut off", get()[..6].to_vec(), true, Code::FrameError),
        ("§7.1 a frame's head cut off", vec![1], true, Code::FrameError),
        ("§7.1 a body cut off", [get(), vec![0, 9, 1]].concat(), true, Code::FrameError),
        (
            "RFC 9204 §2.2 no such entry",
            frame(1, &[0, 0, 0xff, 36]),
            false,
            Code::DecompressionFailed,
        ),
        (
            "RFC 9204 §2.2 an entry of our table",
            frame(1, &[2, 0, 0x80]),
            false,
            Code::DecompressionFailed,
        ),
        ("RFC 9204 §2.2 fields cut off", frame(1, &[0, 0, 0x51]), false, Code::DecompressionFailed),
        (
            "RFC 9204 §4.1.2 a wrong code word",
            frame(1, &[0, 0, 0x51, 0x81, 0xfe]),
            false,
            Code::DecompressionFailed,
        ),
        ("RFC 9204 §4.5.1 nothing at all", frame(1, &[]), false, Code::DecompressionFailed),
    ]
}

#[test]
fn frames_of_requests() {
    for (section, bytes, finishes, code) in illegal_requests() {
        let ended = ends(0, &bytes, finishes);
        assert_eq!(ended, Some((true, code as u64)), "{section}, not {code:?}");
    }
}

#[test]
fn heads_that_are_none() {
    for (section, bytes, code) in [
        ("§4.3.1 without a method", fields(&GET[1..]), Code::MessageError),
        ("§4.3.1 without a scheme", fields(&[GET[0], GET[2], GET[3]]), Code::MessageError),
        ("§4.3.1 without a path", fields(&GET[..3]), Code::MessageError),
        (
            "§4.3.1 with an empty path",
            fields(&[GET[0], GET[1], GET[2], (":path", "")]),
            Code::MessageError,
        ),
        ("§4.3 a method twice", with(&[(":method", "GET")]), Code::MessageError),
        ("§4.3 one of responses", with(&[(":status", "200")]), Code::MessageError),
        ("§4.3 one that nobody knows", with(&[(":other", "a")]), Code::MessageError),
        (
            "§4.3 one behind a field",
            fields(&[GET[0], GET[1], GET[2], ("a", "b"), GET[3]]),
            Code::MessageError,
        ),
        ("§4.2 capital letters", with(&[("Accept", "a")]), Code::MessageError),
        ("§4.2 a field of connections", with(&[("connection", "close")]), Code::MessageError),
        ("§4.2 transfer-encoding", with(&[("transfer-encoding", "chunked")]), Code::MessageError),
        ("§4.2 te", with(&[("te", "gzip")]), Code::MessageError),
        ("§10.3 a line's end", with(&[("a", "b\r\nc: d")]), Code::MessageError),
        ("§4.3.1 two authorities", with(&[("host", "b.test")]), Code::MessageError),
        (
            "§4.3.1 CONNECT with a path",
            fields(&[(":method", "CONNECT"), GET[2], GET[3]]),
            Code::MessageError,
        ),
        ("§4.1.2 no body where one was told", with(&[("content-length", "5")]), Code::MessageError),
        (
            "§4.1.2 a shorter one",
            [with(&[("content-length", "5")]), frame(0, b"abcd")].concat(),
            Code::MessageError,
        ),
        (
            "§4.1.2 a longer one",
            [with(&[("content-length", "5")]), frame(0, b"abcdef")].concat(),
            Code::MessageError,
        ),
        (
            "§4.1.2 two lengths",
            with(&[("content-length", "5"), ("content-length", "6")]),
            Code::MessageError,
        ),
        (
            "§4.3 such a field in trailers",
            [get(), fields(&[(":path", "/")])].concat(),
            Code::MessageError,
        ),
        ("§4.1.1 nothing", vec![], Code::RequestIncomplete),
        ("§4.1.1 nothing but what nobody knows", frame(0x21, b"abc"), Code::RequestIncomplete),
    ] {
        let mut raw = Raw::connected();
        raw.stream(0, 0, &bytes, true);
        // The request may have been answered before it was seen to be none.
        if raw.requests == 0 {
            assert_eq!(raw.heard.resets.get(&0), Some(&(code as u64)), "{section}");
        }
        raw.stream(4, 0, &get(), true);
        assert_eq!(raw.heard.closed, None, "{section}");
        assert!(raw.requests >= 1, "{section}");
    }
}

#[test]
fn what_nobody_knows_is_passed_over() {
    let mut raw = Raw::connected();
    let all = [
        frame(0x21, b"abc"),
        get(),
        frame(0x1f * 7 + 0x21, b""),
        frame(0, b"a"),
        frame(0x40, b"x"),
    ];
    // In pieces, so that each may be cut anywhere.
    for (at, byte) in all.concat().iter().enumerate() {
        raw.stream(0, at as u64, &[*byte], false);
    }
    raw.stream(6, 0, &[0x40, 0x21, 1, 2], false);
    raw.stream(2, 3, &frame(0x21, b"abc"), false);
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
    assert_eq!(raw.heard.stops.get(&6), Some(&(Code::StreamCreationError as u64)));
}

#[test]
fn frames_of_the_control_stream() {
    let settings = |payload: &[u8]| frame(4, payload);
    let ids = [frame(0xd, &[8]), frame(0xd, &[7])].concat();
    let farewells = |first: u8, second: u8| [frame(7, &[first]), frame(7, &[second])].concat();
    for (section, bytes, code) in [
        ("§6.2.1 no settings first", frame(7, &[0]), Code::MissingSettings),
        ("§6.2.1 none of what nobody knows either", frame(0x21, &[]), Code::MissingSettings),
        ("§7.2.4 settings twice", [settings(&[]), settings(&[])].concat(), Code::FrameUnexpected),
        ("§7.2.4 a setting twice", settings(&[6, 1, 6, 1]), Code::SettingsError),
        ("§7.2.4.1 a setting of HTTP/2", settings(&[4, 0]), Code::SettingsError),
        ("§7.1 one cut off", settings(&[6]), Code::FrameError),
        ("§7.2.1 a body", [settings(&[]), frame(0, &[1])].concat(), Code::FrameUnexpected),
        ("§7.2.2 a head", [settings(&[]), get()].concat(), Code::FrameUnexpected),
        ("§7.2.5 a push", [settings(&[]), frame(5, &[0, 0])].concat(), Code::FrameUnexpected),
        (
            "§7.2.8 a frame of HTTP/2",
            [settings(&[]), frame(8, &[0])].concat(),
            Code::FrameUnexpected,
        ),
        ("§7.2.3 a push that never was", [settings(&[]), frame(3, &[0])].concat(), Code::IdError),
        ("§7.2.7 fewer pushes", [settings(&[]), ids].concat(), Code::IdError),
        ("§5.2 a later farewell", [settings(&[]), farewells(4, 8)].concat(), Code::IdError),
        ("§7.1 a farewell and more", [settings(&[]), frame(7, &[0, 0])].concat(), Code::FrameError),
        ("§7.1 an empty one", [settings(&[]), frame(7, &[])].concat(), Code::FrameError),
        (
            "RFC 9218 §7.2 a priority of no request",
            [settings(&[]), frame(kind::PRIORITY_UPDATE, &[2])].concat(),
            Code::IdError,
        ),
        (
            "RFC 9218 §7.2 of a request beyond the limit",
            [settings(&[]), frame(kind::PRIORITY_UPDATE, &[40])].concat(),
            Code::IdError,
        ),
        (
            "RFC 9218 §7.2 of a push",
            [settings(&[]), frame(kind::PRIORITY_UPDATE_PUSH, &[0])].concat(),
            Code::IdError,
        ),
    ] {
        let mut raw = Raw::established();
        raw.stream(2, 0, &[&[0][..], &bytes].concat(), false);
        assert_eq!(raw.heard.closed, Some((true, code as u64)), "{section}, not {code:?}");
    }
    let mut raw = Raw::established();
    let last = frame(kind::PRIORITY_UPDATE, &[36]);
    raw.stream(2, 0, &[&[0][..], &settings(&[]), &last].concat(), false);
    assert_eq!(raw.heard.closed, None);
    let mut raw = Raw::established();
    raw.stream(2, 0, &[&[0][..], &settings(&[]), &farewells(8, 4)].concat(), false);
    assert!(raw.heard.closed.is_none_or(|(_, code)| code == Code::NoError as u64));
}

/// What no stream one way may be, in the same words behind its number.
pub(crate) fn illegal_one_way() -> Vec<(&'static str, u64, Vec<u8>, bool, Code)> {
    vec![
        ("§6.2 a second control stream", 6, vec![0], false, Code::StreamCreationError),
        ("§6.2.2 a push", 6, vec![1, 0], false, Code::StreamCreationError),
        ("§6.2.1 the end of control", 2, vec![0, 4, 0], true, Code::ClosedCriticalStream),
        ("RFC 9204 §4.2 the end of the encoder", 6, vec![2], true, Code::ClosedCriticalStream),
        ("RFC 9204 §4.2 of the decoder", 6, vec![3], true, Code::ClosedCriticalStream),
        (
            "RFC 9204 §4.3.1 a larger table",
            6,
            vec![2, 0x3f, 0xe2, 0x1f],
            false,
            Code::EncoderStreamError,
        ),
        ("RFC 9204 §4.3.2 an entry", 6, vec![2, 0xc0, 1, b'a'], false, Code::EncoderStreamError),
        ("RFC 9204 §4.3.4 one twice", 6, vec![2, 0x00], false, Code::EncoderStreamError),
        ("RFC 9204 §4.4.1 an answer to nothing", 6, vec![3, 0x80], false, Code::DecoderStreamError),
        ("RFC 9204 §4.4.3 no entry more", 6, vec![3, 0x00], false, Code::DecoderStreamError),
        (
            "RFC 9204 §4.4.3 an entry that never was",
            6,
            vec![3, 0x01],
            false,
            Code::DecoderStreamError,
        ),
    ]
}

#[test]
fn streams_one_way() {
    for (section, stream, bytes, finishes, code) in illegal_one_way() {
        let ended = ends(stream, &bytes, finishes);
        assert_eq!(ended, Some((true, code as u64)), "{section}, not {code:?}");
    }
    // What QPACK's streams may say of no table.
    let mut raw = Raw::connected();
    raw.stream(6, 0, &[2, 0x20], false);
    raw.stream(10, 0, &[3, 0x44], false);
    raw.stream(0, 0, &get(), true);
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
    // A critical stream given up, from either side.
    let mut raw = Raw::connected();
    raw.frames(&crate::errors::numbers(4, &[2, 0, 3], &[]));
    assert_eq!(raw.heard.closed, Some((true, Code::ClosedCriticalStream as u64)));
    let mut raw = Raw::connected();
    raw.frames(&crate::errors::numbers(5, &[3, 0], &[]));
    assert_eq!(raw.heard.closed, Some((true, Code::ClosedCriticalStream as u64)));
}

#[test]
fn who_wants_no_response_before_it_asks_is_not_looked_at() {
    let stop = |stream: u64| crate::errors::numbers(5, &[stream, 9], &[]);
    let mut raw = Raw::connected();
    // The second one comes before the first, of which something is known only by that.
    for stream in [4, 0] {
        raw.frames(&stop(stream));
        raw.stream(stream, 0, &get(), true);
        assert_eq!(raw.heard.resets.get(&stream), Some(&9));
    }
    assert_eq!((raw.requests, raw.heard.closed), (0, None));
    assert_eq!(raw.server.streams(), 0);
    raw.stream(8, 0, &get(), true);
    assert_eq!(raw.requests, 1);
    // Who stops what was answered gives nothing up.
    raw.frames(&stop(8));
    assert_eq!(raw.heard.closed, None);
    // It is as one that is given up later, and counts as that. Time pays for some of them.
    let mut raw = Raw::connected();
    for stream in (0..2 * RESETS_MAX).map(|at| 4 * u64::from(at)) {
        raw.frames(&[stop(stream), stream_frame(stream, &get())].concat());
    }
    let ended = raw.heard.closed;
    assert_eq!((raw.requests, ended), (0, Some((true, Code::ExcessiveLoad as u64))));
}

/// The frame with all of a stream.
fn stream_frame(stream: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_stream_head(stream, 0, bytes.len(), true, &mut out);
    out.extend_from_slice(bytes);
    out
}
