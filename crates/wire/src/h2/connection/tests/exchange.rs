//! Requests, answers and the end of a connection.

use super::*;

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
