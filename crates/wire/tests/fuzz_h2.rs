//! Random frames and random compressed fields.

use bolero::check;
use freshet_http::message::{RequestHead, ResponseHead, Scheme};
use freshet_wire::h1::Limits;
use freshet_wire::h2::conduct;
use freshet_wire::h2::hpack::{Decoder, Encoder, Indexing};
use freshet_wire::h2::{Ask, Connection, Event, Local, PREFACE};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(1500);
const ITERATIONS: usize = 200_000;
const INPUT_BYTES_MAX: usize = 256;

#[test]
fn fuzz_hpack() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            // What is read is written so that it is read again, whatever was in the table before.
            let (mut decoder, mut again) = (Decoder::new(4096), Decoder::new(256));
            let mut encoder = Encoder::new(256);
            for block in input.chunks(64) {
                let mut fields = Vec::new();
                let mut keep = |name: &[u8], value: &[u8]| {
                    assert!(name.len() + value.len() <= 4096);
                    fields.push((name.to_ascii_lowercase(), value.to_vec()));
                };
                if decoder.decode(block, &mut keep).is_err() {
                    return;
                }
                let mut out = Vec::new();
                encoder.begin(&mut out);
                for (at, (name, value)) in fields.iter().enumerate() {
                    let indexing = [Indexing::Kept, Indexing::Once, Indexing::Never][at % 3];
                    encoder.field(name, value, indexing, &mut out);
                }
                let mut read = Vec::new();
                let result =
                    again.decode(&out, |name, value| read.push((name.to_vec(), value.to_vec())));
                assert_eq!((result, &read), (Ok(()), &fields));
            }
        });
}

#[test]
fn fuzz_h2_frames() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            for is_loose in [false, true] {
                let bytes = [PREFACE, &SETTINGS, &frames(input)].concat();
                let whole = serve(&bytes, bytes.len(), is_loose);
                assert_eq!(serve(&bytes, 1, is_loose), whole);
                assert_eq!(serve(&bytes, 13, is_loose), whole);
                let raw = [PREFACE, &SETTINGS, input].concat();
                assert_eq!(serve(&raw, 7, is_loose), serve(&raw, raw.len(), is_loose));
            }
        });
}

#[test]
fn fuzz_h2_frames_of_a_server() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            for bytes in [[&SETTINGS, &frames(input)[..]].concat(), [&SETTINGS, input].concat()] {
                // Heads of responses where requests are.
                let bytes = replaced(bytes);
                let whole = ask(&bytes, bytes.len());
                assert_eq!(ask(&bytes, 1), whole);
                assert_eq!(ask(&bytes, 13), whole);
            }
        });
}

/// The same with responses of the length of [`REQUEST`] where that is.
fn replaced(mut bytes: Vec<u8>) -> Vec<u8> {
    // Of status 200, with a field.
    let response: &[u8; REQUEST.len()] = b"\x88\x40\x01a\x01b";
    for at in 0..bytes.len().saturating_sub(REQUEST.len()) {
        if bytes[at..].starts_with(REQUEST) {
            bytes[at..at + REQUEST.len()].copy_from_slice(response);
        }
    }
    bytes
}

/// Asks a server that sends `bytes`, so many at a time, four requests, and returns what happened.
fn ask(bytes: &[u8], step: usize) -> (Vec<String>, Vec<u8>) {
    let limits = Limits { head_bytes_max: 1000, ..Limits::default() };
    let local = Local { limits, ..local() };
    let mut connection = Connection::client(local, Scheme::Https);
    let (mut seen, mut said) = (Vec::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + step).min(bytes.len());
        loop {
            let received = match connection.receive(&bytes[start..end], Duration::ZERO) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(failed) => {
                    seen.push(format!("{failed:?}"));
                    said.append(connection.control());
                    said.append(connection.releases());
                    assert!(!connection.is_usable());
                    return (seen, said);
                }
            };
            assert!(received.bytes > 0 && start + received.bytes <= end);
            start += received.bytes;
            match &received.event {
                Event::Data(number, place, _) => {
                    connection.take_body(*number, place.len() as u32);
                }
                Event::Reset { stream, .. } | Event::Wrong(stream, _) => {
                    assert!(!connection.queue(*stream, 1));
                }
                Event::Request(..) | Event::Refused { .. } => panic!("a server asked"),
                _ => {}
            }
            for length in [None, Some(300)] {
                let head = RequestHead { target: "/".into(), ..RequestHead::default() };
                let ends = length.is_none();
                let asked = connection.ask(Ask { head: &head, length, ends, limits });
                if let (Some(number), false) = (asked, ends) {
                    connection.queue(number, 300);
                    connection.finish(number, None);
                }
            }
            while let Some(frame) = connection.next_data(100) {
                assert!(frame.bytes > 0 && frame.bytes <= 100);
            }
            if received.event != Event::Nothing {
                seen.push(format!("{:?}", received.event));
            }
            assert!(connection.streams() <= 4);
            said.append(connection.control());
            said.append(connection.releases());
        }
    }
    (seen, said)
}

fn local() -> Local {
    Local {
        limits: Limits::default(),
        conduct: conduct::RFC_9113,
        streams_max: 4,
        stream_window_bytes: 100,
        connection_window_bytes: 70_000,
        header_table_bytes: 4096,
    }
}

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// A request: GET, https, / and an authority, without Huffman.
const REQUEST: &[u8] = b"\x82\x87\x84\x41\x01a";

/// Frames that are right more often than chance would have them.
fn frames(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = input;
    while let [kind, flags, stream, len, after @ ..] = rest {
        let (payload, after) = after.split_at(usize::from(*len % 24).min(after.len()));
        rest = after;
        let kind = kind % 18;
        let head: &[u8] = if kind == 1 && flags & 0x28 == 0 { REQUEST } else { &[] };
        let fixed = match kind {
            3 | 8 => Some(4),
            2 => Some(5),
            6 | 7 => Some(8),
            _ => None,
        };
        let mut body = [head, payload].concat();
        if let Some(fixed) = fixed.filter(|_| flags & 0x80 == 0) {
            body.resize(fixed, 1);
        }
        let is_of_connection = matches!(kind, 4 | 6 | 7 | 16);
        let number = if is_of_connection { 0 } else { stream % 12 };
        out.extend_from_slice(&[0, 0, body.len() as u8, kind, flags & 0x2d, 0, 0, 0, number]);
        out.extend_from_slice(&body);
    }
    out
}

/// Serves a client that sends `bytes`, so many at a time, and returns all that happened.
fn serve(bytes: &[u8], step: usize, is_loose: bool) -> (Vec<String>, Vec<u8>) {
    let local = Local {
        limits: Limits { head_bytes_max: 1000, takes_loose_heads: is_loose, ..Limits::default() },
        conduct: if is_loose { conduct::VARNISH } else { conduct::RFC_9113 },
        ..local()
    };
    let mut connection = Connection::new(local, Scheme::Https);
    let (mut seen, mut said) = (Vec::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + step).min(bytes.len());
        loop {
            let received = match connection.receive(&bytes[start..end], Duration::ZERO) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(failed) => {
                    seen.push(format!("{failed:?}"));
                    said.append(connection.control());
                    said.append(connection.releases());
                    assert!(connection.is_done());
                    return (seen, said);
                }
            };
            assert!(received.bytes > 0 && start + received.bytes <= end);
            start += received.bytes;
            react(&mut connection, &received.event);
            if received.event != Event::Nothing {
                seen.push(format!("{:?}", received.event));
            }
            assert!(connection.streams() <= 4);
            said.append(connection.control());
            said.append(connection.releases());
        }
    }
    (seen, said)
}

/// What a session might do.
fn react(connection: &mut Connection, event: &Event) {
    match event {
        Event::Request(number, request) => {
            let ends = number % 3 == 0;
            connection.respond(*number, &ResponseHead::new(200), Some(7), ends);
            if !ends {
                connection.queue(*number, 300);
                connection.finish(*number, (number % 5 == 0).then(Default::default));
            } else if !request.ends {
                connection.refuse_body(*number);
            }
        }
        Event::Data(number, place, _) => connection.take_body(*number, place.len() as u32),
        Event::Reset { stream, .. } => assert!(!connection.queue(*stream, 1)),
        _ => {}
    }
    while let Some(frame) = connection.next_data(100) {
        assert!(frame.bytes > 0 && frame.bytes <= 100);
    }
}
