//! The client's side of a connection against the server's.

use super::super::{Answer, Ask};
use super::*;
use freshet_http::message::{Method, RequestHead};
use proptest::prelude::*;
use std::collections::VecDeque;

/// An exchange: bytes of both bodies, whether their lengths are told, trailers of both.
#[derive(Clone, Debug)]
struct Exchange {
    up: usize,
    down: usize,
    sized: bool,
    trailers: bool,
    interim: usize,
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let exchange = (0_usize..200_000, 0_usize..200_000, any::<bool>(), any::<bool>(), 0_usize..3)
        .prop_map(|(up, down, sized, trailers, interim)| Exchange {
            up: up.saturating_sub(80_000),
            down: down.saturating_sub(50_000),
            sized,
            trailers,
            interim,
        });
    proptest::collection::vec(exchange, 1..12)
}

/// One end, with what is on its way to it.
struct End {
    connection: Connection,
    input: VecDeque<u8>,
}

/// Moves what `from` has to say to `to`, at most so many bytes of bodies.
fn carry(from: &mut End, to: &mut End, bytes_max: usize) {
    to.input.extend(from.connection.control().drain(..));
    let mut left = bytes_max;
    while left > 0
        && let Some(frame) = from.connection.next_data(left)
    {
        left -= frame.bytes;
        let header = crate::h2::data_frame_header(frame.stream, frame.bytes, frame.ends);
        to.input.extend(header);
        to.input.extend(std::iter::repeat_n(7, frame.bytes));
        to.input.extend(from.connection.control().drain(..));
    }
}

/// Takes up to so many bytes in, and returns what they brought.
fn receive(end: &mut End, bytes_max: usize) -> Vec<Event> {
    let bytes = end.input.make_contiguous();
    let bytes = &bytes[..bytes.len().min(bytes_max)];
    let (mut used, mut events) = (0, Vec::new());
    while let Some(received) =
        end.connection.receive(&bytes[used..], Duration::ZERO).expect("both keep to the rules")
    {
        used += received.bytes;
        events.push(received.event);
    }
    end.input.drain(..used);
    events
}

fn head(index: usize) -> RequestHead {
    RequestHead {
        method: Method::Post,
        authority: "a.test".into(),
        target: format!("/{index}"),
        fields: [("x-index", index.to_string().as_str())].into_iter().collect(),
        ..RequestHead::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whatever the windows and however the bytes are cut, each side gets what the other sent.
    #[test]
    fn exchanges_arrive_as_they_were_sent(
        exchanges in exchanges(),
        windows in (1_000_u32..100_000, 1_000_u32..100_000, 1_u32..8),
        cuts in prop::collection::vec(20_000_usize..60_000, 1..5),
    ) {
        let mine = Local { stream_window_bytes: windows.0, streams_max: 100, ..local() };
        let theirs = Local { stream_window_bytes: windows.1, streams_max: windows.2, ..local() };
        let input = VecDeque::new;
        let mut client = End { connection: Connection::client(mine, Scheme::Https), input: input() };
        let mut server = End { connection: Connection::new(theirs, Scheme::Https), input: input() };
        let trailers = || Some([("sum", "1")].into_iter().collect::<Fields>());
        let mut asked = BTreeMap::new();
        // Bodies that came, by stream.
        let (mut up, mut down) = (BTreeMap::<u32, usize>::new(), BTreeMap::<u32, usize>::new());
        let (mut next, mut ended, mut turns) = (0, 0, 0);
        let mut cuts = cuts.iter().cycle();
        // What the server says of its windows is known before they are used.
        carry(&mut server, &mut client, 0);
        prop_assert!(receive(&mut client, usize::MAX).contains(&Event::Opened));
        while ended < exchanges.len() {
            turns += 1;
            prop_assert!(turns < 20_000, "it comes to no end");
            while let Some(one) = exchanges.get(next) {
                let head = head(next);
                let length = one.sized.then_some(one.up as u64);
                let ask = Ask { head: &head, length, ends: false, limits: Limits::default() };
                let Some(number) = client.connection.ask(ask) else { break };
                client.connection.queue(number, one.up);
                client.connection.finish(number, trailers().filter(|_| one.trailers));
                asked.insert(number, next);
                next += 1;
            }
            prop_assert!(client.connection.streams() <= windows.2 as usize);
            let cut = *cuts.next().expect("a cycle has no end");
            carry(&mut client, &mut server, cut);
            for event in receive(&mut server, cut) {
                match event {
                    Event::Request(number, request) => {
                        prop_assert_eq!(&request.head.fields, &{
                            let mut fields = head(asked[&number]).fields;
                            if let Some(length) = request.length {
                                fields.append("content-length", length.to_string().as_bytes());
                            }
                            fields
                        });
                        prop_assert_eq!(request.head.target, format!("/{}", asked[&number]));
                    }
                    Event::Data(number, place, ends) => {
                        *up.entry(number).or_default() += place.len();
                        server.connection.take_body(number, place.len() as u32);
                        if ends {
                            answer(&mut server.connection, number, &exchanges[asked[&number]]);
                        }
                    }
                    Event::End(number) => {
                        answer(&mut server.connection, number, &exchanges[asked[&number]]);
                    }
                    Event::Nothing | Event::Opened => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            carry(&mut server, &mut client, cut);
            for event in receive(&mut client, cut) {
                match event {
                    Event::Answer(number, answer) => {
                        let Answer { head, length, ends } = *answer;
                        let one = &exchanges[asked[&number]];
                        if head.status == 200 {
                            prop_assert_eq!(length, one.sized.then_some(one.down as u64));
                            prop_assert!(!ends);
                        } else {
                            prop_assert_eq!(head.status, 103);
                        }
                    }
                    Event::Data(number, place, ends) => {
                        *down.entry(number).or_default() += place.len();
                        client.connection.take_body(number, place.len() as u32);
                        ended += usize::from(ends);
                    }
                    Event::End(_) => ended += 1,
                    Event::Trailers(number, fields) => {
                        prop_assert!(exchanges[asked[&number]].trailers);
                        prop_assert_eq!(fields.get("sum"), Some(&b"1"[..]));
                        ended += 1;
                    }
                    Event::Nothing | Event::Opened => {}
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
        for (number, index) in asked {
            let one = &exchanges[index];
            prop_assert_eq!(up.get(&number).copied().unwrap_or(0), one.up);
            prop_assert_eq!(down.get(&number).copied().unwrap_or(0), one.down);
        }
        prop_assert_eq!((client.connection.streams(), server.connection.streams()), (0, 0));
    }
}

fn answer(server: &mut Connection, number: u32, exchange: &Exchange) {
    for _ in 0..exchange.interim {
        server.respond(number, &ResponseHead::new(103), None, false);
    }
    let length = exchange.sized.then_some(exchange.down as u64);
    server.respond(number, &ResponseHead::new(200), length, false);
    server.queue(number, exchange.down);
    let trailers = [("sum", "1")].into_iter().collect::<Fields>();
    server.finish(number, exchange.trailers.then_some(trailers));
}

#[test]
fn nothing_more_is_asked_of_a_server_that_leaves() {
    let mut client = Connection::client(local(), Scheme::Https);
    let mut control = Vec::new();
    write(kind::SETTINGS, 0, 0, &[], &mut control);
    let received = client.receive(&control, Duration::ZERO).expect("settings");
    assert_eq!(received.map(|received| received.event), Some(Event::Opened));
    let head = head(0);
    let ask = Ask { head: &head, length: None, ends: true, limits: Limits::default() };
    assert_eq!((client.ask(ask), client.ask(ask)), (Some(1), Some(3)));
    let mut goaway = Vec::new();
    write(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0], &mut goaway);
    let received = client.receive(&goaway, Duration::ZERO).expect("a frame");
    assert_eq!(received.map(|received| received.event), Some(Event::Leaving(1)));
    // The second was not looked at; the first is answered still.
    assert_eq!((client.streams(), client.is_usable(), client.ask(ask)), (1, false, None));
}
