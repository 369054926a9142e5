//! Who may open and send what.

use super::super::error::{Error, code};
use super::*;
use crate::parameters::Peer;

fn streams() -> Streams<Vec<u8>> {
    let local = Local { streams_max: 4, data_max: 1000, stream_data_max: 600, ..Local::default() };
    let mut streams = Streams::new(&local);
    let peer = Peer {
        data_max: 100,
        stream_data_max: 80,
        own_stream_data_max: 50,
        own_streams_max: 1,
        ..Peer::default()
    };
    streams.set_peer(&peer);
    streams
}

fn code_of<T>(result: Result<T, Error>) -> u64 {
    result.err().map_or(0, |error| error.code)
}

#[test]
fn streams_have_a_kind_and_a_limit() {
    let mut streams = streams();
    assert_eq!(code_of(streams.receive(16, 0, b"x", false)), code::STREAM_LIMIT_ERROR);
    assert_eq!(code_of(streams.receive(3, 0, b"x", false)), code::STREAM_STATE_ERROR);
    assert_eq!(code_of(streams.stop_by_peer(2, 0)), code::STREAM_STATE_ERROR);
    assert_eq!(code_of(streams.stop_by_peer(3, 0)), code::STREAM_STATE_ERROR);
    assert_eq!((streams.open(), streams.open()), (Some(3), None));
    streams.receive(12, 0, b"x", true).unwrap();
    assert_eq!(streams.len(), 5);
}

#[test]
fn windows_bound_what_is_sent_and_what_was_lost_goes_first() {
    let mut streams = streams();
    for number in [0, 4] {
        streams.receive(number, 0, b"x", true).unwrap();
        assert!(streams.write(number, vec![1; 200]));
    }
    let mut sent = Vec::new();
    while let Some(next) = streams.next_bytes(|_, _| 30) {
        sent.push(next);
    }
    assert_eq!(
        sent,
        [(0, 0..30, false), (0, 30..60, false), (0, 60..80, false), (4, 0..20, false)]
    );
    streams.lose(4, 0..10, false);
    assert_eq!(streams.next_bytes(|_, _| 30), Some((4, 0..10, false)));
    assert_eq!(streams.next_bytes(|_, _| 30), None);
    assert!(streams.max_data(150));
    assert_eq!(streams.next_bytes(|_, _| 30), Some((4, 20..50, false)));
    assert_eq!(streams.max_stream_data(0, 85), Ok(true));
    assert_eq!(streams.next_bytes(|_, _| 30), Some((0, 80..85, false)));
}

#[test]
fn a_stream_that_is_over_makes_room_for_another() {
    let mut streams = streams();
    for number in [0, 4, 8, 12] {
        streams.receive(number, 0, b"x", true).unwrap();
        streams.consume(number, 1);
        streams.end_seen(number);
        streams.take(number, 1);
        streams.finish(number);
        assert_eq!(streams.next_bytes(|_, _| 30), Some((number, 0..0, true)));
        streams.acknowledge(number, 0..0, true);
    }
    assert_eq!(streams.len(), 0);
    assert_eq!(streams.next_due().map(|due| (due.1, due.2[0])), Some((0x12, 8)));
    assert!(streams.receive(28, 0, b"x", false).is_ok());
    // Late frames for what is over are nothing.
    assert_eq!(streams.receive(0, 0, b"x", true), Ok(()));
    assert_eq!(streams.len(), 4);
}

#[test]
fn the_window_opens_as_bytes_are_taken_and_not_before() {
    let mut streams = streams();
    streams.receive(0, 0, &[1; 600], false).unwrap();
    streams.consume(0, 600);
    assert!(!streams.has_due());
    assert_eq!(code_of(streams.receive(0, 600, &[1], false)), code::FLOW_CONTROL_ERROR);
    streams.take(0, 600);
    let mut due = Vec::new();
    while let Some((_, kind, numbers, _)) = streams.next_due() {
        due.push((kind, numbers));
    }
    assert_eq!(due, [(0x10, [1600, 0, 0]), (0x11, [0, 1200, 0])]);
    // What nobody wants does not fill the window.
    streams.receive(0, 600, &[1; 600], false).unwrap();
    streams.stop(0, 7);
    assert_eq!(streams.reset_by_peer(0, 7, 1200), Ok(()));
    assert_eq!(streams.taken, 1200);
    assert_eq!(streams.received, 1200);
}

#[test]
fn what_is_not_acknowledged_is_kept_and_nothing_else() {
    let mut streams = streams();
    for number in [0, 4] {
        streams.receive(number, 0, b"x", true).unwrap();
        assert!(streams.write(number, vec![number as u8; 30]));
        assert!(streams.write(number, vec![number as u8; 20]));
    }
    assert_eq!(streams.kept(), (100, 0));
    while streams.next_bytes(|_, _| 30).is_some() {}
    // All but the first piece arrived: what is behind that stays, too.
    streams.acknowledge(0, 30..50, false);
    assert_eq!(streams.kept(), (100, 0));
    streams.acknowledge(0, 0..30, false);
    assert_eq!(streams.kept(), (50, 50));
    // What was there the last time is replaced, once; what came since is not.
    streams.replace_old(|_| panic!("nothing is old"));
    assert!(streams.write(4, vec![4; 7]));
    let mut replaced = Vec::new();
    streams.replace_old(|piece| {
        replaced.push(piece.len());
        Some(piece.clone())
    });
    assert_eq!(replaced, [30, 20]);
    assert_eq!(streams.kept(), (57, 50));
    streams.lose(4, 0..30, false);
    assert_eq!(streams.next_bytes(|_, _| 30), Some((4, 0..30, false)));
    streams.reset(4, 0);
    assert_eq!(streams.kept(), (0, 107));
}
