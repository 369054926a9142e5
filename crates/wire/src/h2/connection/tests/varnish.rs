//! As Varnish does it.

use super::*;

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
