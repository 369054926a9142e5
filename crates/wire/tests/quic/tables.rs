//! Tables of fields within a connection: the client's, and ours at the client.

use crate::raw::{Raw, parameters};
use crate::world::{client_tls, tls};
use freshet_http::fields::Fields;
use freshet_quic::Version;
use freshet_wire::h1::Limits;
use freshet_wire::h3::{Code, Local};

/// A larger table, as large as it may be.
const LARGE: [u8; 3] = [0x3f, 0xe1, 0x1f];

/// A request that refers to so many entries, the last ones first, of so many that the table has had.
fn request(of: u8, refers: u8) -> Vec<u8> {
    let mut block = vec![of + 1, 0, 0xc0 | 17, 0xc0 | 23, 0xc0 | 1, 0x50, 1, b'a'];
    block.extend((0..refers).map(|index| 0x80 | index));
    let mut out = vec![1, block.len() as u8];
    out.append(&mut block);
    out
}

/// `x-a: b`, told in advance.
const ENTRY: [u8; 6] = [0x43, b'x', b'-', b'a', 1, b'b'];

#[test]
fn a_client_fills_its_table_and_is_told_what_came() {
    let mut raw = Raw::connected();
    raw.stream(6, 0, &[&[2][..], &LARGE, &ENTRY[..3]].concat(), false);
    assert_eq!(raw.heard.bytes.get(&7), None, "nothing is whole");
    raw.stream(6, 7, &[&ENTRY[3..], &[0x00]].concat(), false);
    assert_eq!(raw.heard.bytes[&7], [3, 0x02]);
    raw.stream(0, 0, &request(2, 2), true);
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
    assert_eq!(raw.heard.bytes[&7], [3, 0x02, 0x80]);
    // Of what is given up in its midst nothing refers to the table any more.
    raw.stream(4, 0, &request(2, 1)[..5], false);
    raw.frames(&[4, 4, 0, 5]);
    assert_eq!(raw.heard.bytes[&7], [3, 0x02, 0x80, 0x44]);
    assert_eq!((raw.requests, raw.heard.closed), (1, None));
}

#[test]
fn no_head_waits_for_what_is_told() {
    let mut raw = Raw::connected();
    raw.stream(0, 0, &request(1, 1), true);
    let code = Code::DecompressionFailed as u64;
    assert_eq!((raw.requests, raw.heard.closed), (0, Some((true, code))));
}

#[test]
fn as_many_heads_wait_as_may() {
    let local = Local { limits: Limits::default(), blocked_streams_max: 2 };
    let versions = (Version::V1, Version::V1);
    let new = || {
        let (parameters, protocols) = (parameters(&[]), [&b"h3"[..]]);
        let mut raw = Raw::built(versions, parameters, &protocols, client_tls(), &tls().0, local);
        raw.shake_hands();
        raw.stream(2, 0, &[0, 4, 0], false);
        for stream in [0, 4] {
            raw.stream(stream, 0, &request(1, 1), stream == 4);
        }
        assert_eq!((raw.requests, raw.heard.closed), (0, None));
        raw
    };
    let mut raw = new();
    // One is given up, another takes its place, and what came in time is read.
    raw.frames(&[4, 0, 0, 11]);
    raw.stream(8, 0, &request(1, 1), true);
    raw.stream(6, 0, &[&[2][..], &LARGE, &ENTRY].concat(), false);
    assert_eq!((raw.requests, raw.heard.closed), (2, None));
    assert_eq!(raw.heard.bytes[&7], [3, 0x40, 0x84, 0x88]);
    let mut raw = new();
    raw.stream(8, 0, &request(1, 1), true);
    let code = Code::DecompressionFailed as u64;
    assert_eq!((raw.requests, raw.heard.closed), (0, Some((true, code))));
}

#[test]
fn a_table_that_changes_without_end_ends_the_connection() {
    let changes = |requests: u64| {
        let mut raw = Raw::connected();
        raw.stream(6, 0, &[&[2][..], &LARGE, &ENTRY].concat(), false);
        let mut at = 10;
        for round in 0..20 {
            raw.stream(6, at, &[0; 100], false);
            at += 100;
            for request in 0..requests {
                raw.stream(4 * (round * requests + request), 0, &crate::requests::get(), true);
            }
        }
        raw.heard.closed
    };
    assert_eq!(changes(0), Some((true, Code::ExcessiveLoad as u64)));
    assert_eq!(changes(2), None);
}

#[test]
fn what_is_said_again_is_told_to_clients_that_take_a_table() {
    let mut raw = Raw::established();
    raw.answer = Fields::new();
    raw.answer.append("x-cache", "a hit of this node");
    raw.stream(2, 0, &[0, 4, 3, 1, 0x50, 0x00], false);
    let bytes = |raw: &mut Raw, number: u64| {
        raw.stream(4 * number, 0, &crate::requests::get(), true);
        raw.heard.bytes[&(4 * number)].len()
    };
    let (first, second) = (bytes(&mut raw, 0), bytes(&mut raw, 1));
    // The size of the table, and the field.
    let told = raw.heard.bytes.values().find(|said| said.starts_with(&[2, 0x3f])).cloned();
    assert!(told.is_some_and(|told| told.len() < 40));
    // Until it is known to be there it is not referred to.
    assert_eq!((first, second, bytes(&mut raw, 2)), (first, first, first));
    raw.stream(10, 0, &[3, 0x01], false);
    assert!(bytes(&mut raw, 3) + 15 < first);
    // Its head is acknowledged once.
    raw.stream(10, 2, &[0x80 | 12, 0x44], false);
    assert_eq!(raw.heard.closed, None);
    raw.stream(10, 4, &[0x80 | 12], false);
    assert_eq!(raw.heard.closed, Some((true, Code::DecoderStreamError as u64)));
}

#[test]
fn a_client_that_leaves_no_room_for_it_gets_no_table() {
    let mut raw = Raw::new(parameters(&[(9, Some(&[1]))]), &[b"h3"]);
    raw.shake_hands();
    raw.answer.append("x-cache", "a hit of this node");
    raw.stream(2, 0, &[0, 4, 3, 1, 0x50, 0x00], false);
    raw.stream(6, 0, &[&[2][..], &LARGE, &ENTRY].concat(), false);
    for number in 0..3 {
        raw.stream(4 * number, 0, &crate::requests::get(), true);
    }
    assert_eq!((raw.requests, raw.heard.closed), (3, None));
    let streams: Vec<u64> = raw.heard.bytes.keys().copied().collect();
    assert_eq!(streams, [0, 3, 4, 8]);
}
