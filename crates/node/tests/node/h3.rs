//! HTTP/3 clients over real UDP sockets.

use crate::authority::{Authority, secure};
use crate::client::Client;
use crate::h3_client::{H3Client, fields_frame, head};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Asked, Origin, fresh, response};
use freshet_net::limits::HANDSHAKES_UNASKED_MAX;
use freshet_wire::h3::Code;
use quinn_proto::{AckFrequencyConfig, Dir, TransportConfig, VarInt};
use std::time::{Duration, Instant};

fn setup(origin: &Origin, authority: &Authority) -> Setup {
    Setup::of(origin).encrypted(authority, "http3 = true\n")
}

struct World {
    origin: Origin,
    authority: Authority,
    node: TestNode,
}

fn world(origin: Origin) -> World {
    let authority = Authority::new();
    let node = setup(&origin, &authority).start();
    World { origin, authority, node }
}

impl World {
    async fn connect(&self) -> H3Client {
        H3Client::connect(self.node.address(), &self.authority).await
    }

    /// The next request at the origin, while a client goes on.
    async fn asked_by(&mut self, client: &mut H3Client) -> Asked {
        tokio::select! {
            asked = self.origin.next() => asked,
            () = client.until(|_| false) => unreachable!("it has no end"),
        }
    }
}

#[test]
fn bodies_of_all_sizes_come_from_the_origin_and_then_from_the_cache() {
    run(async {
        let world = world(Origin::serve(|asked| {
            let bytes = asked.target()[1..].parse().unwrap();
            fresh(pattern(1, 0..bytes))
        }));
        let mut client = world.connect().await;
        for _ in 0..2 {
            for bytes in [0, 1, 1000, 100_000, 3_000_000] {
                let answer = client.get(&format!("/{bytes}")).await;
                assert_eq!(answer.status, 200);
                assert!(answer.body == pattern(1, 0..bytes), "{bytes}");
                assert_eq!(answer.field("content-length"), Some(&*bytes.to_string()));
            }
        }
        assert_eq!((world.origin.count(), world.node.count("requests_h3")), (5, 10));
        assert_eq!(world.node.count("tls_handshakes"), 1);
        // Another connection, which may be another worker's.
        for _ in 0..4 {
            let mut client = world.connect().await;
            assert!(client.get("/100000").await.body == pattern(1, 0..100_000));
        }
        assert_eq!(world.origin.count(), 5);
    });
}

#[test]
fn responses_over_tcp_say_where_http_3_is() {
    run(async {
        let world = world(Origin::serve(|asked| match asked.target() {
            "/own" => response("200 OK", &["Cache-Control: max-age=60", "Alt-Svc: clear"], "x"),
            _ => fresh("x"),
        }));
        let config = world.authority.client(&["http/1.1"]);
        let stream = secure(world.node.address(), &config, "example.test").await.unwrap();
        let mut client = Client::over(stream);
        let said = format!("h3=\":{}\"; ma=86400", world.node.address().port());
        for target in ["/a", "/a"] {
            assert_eq!(client.get(target).await.field("alt-svc"), Some(&*said));
        }
        assert_eq!(client.get("/own").await.field("alt-svc"), Some("clear"));
        assert_eq!(world.connect().await.get("/a").await.field("alt-svc"), None);
    });
}

#[test]
fn responses_name_the_port_that_clients_come_by() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let node = Setup::of(&origin).encrypted(&authority, "http3_port = 443\n").start();
        let stream = secure(node.address(), &authority.client(&["http/1.1"]), "example.test").await;
        let answer = Client::over(stream.unwrap()).get("/a").await;
        assert_eq!(answer.field("alt-svc"), Some("h3=\":443\"; ma=86400"));
    });
}

#[test]
fn heads_ranges_and_conditions_are_those_of_any_protocol() {
    run(async {
        let world = world(Origin::serve(|_| {
            let fields = ["Cache-Control: max-age=60", "ETag: \"a\"", "X-Name: Value"];
            response("200 OK", &fields, pattern(1, 0..10_000))
        }));
        let mut client = world.connect().await;
        let stream = client.ask("HEAD", "/a", &[], None);
        let answer = client.answer(stream).await;
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        assert_eq!(answer.field("content-length"), Some("10000"));
        assert_eq!(answer.field("x-name"), Some("Value"));
        let stream = client.ask("GET", "/a", &[("range", "bytes=100-199")], None);
        let answer = client.answer(stream).await;
        assert_eq!((answer.status, &*answer.body), (206, &pattern(1, 100..200)[..]));
        let stream = client.ask("GET", "/a", &[("if-none-match", "\"a\"")], None);
        assert_eq!(client.answer(stream).await.status, 304);
    });
}

#[test]
fn many_requests_of_one_connection_are_answered_together() {
    run(async {
        let mut world = world(Origin::scripted());
        let mut client = world.connect().await;
        let streams: Vec<_> =
            (0..80).map(|index| client.ask("GET", &format!("/{index}"), &[], None)).collect();
        // All are with the origin before one is answered.
        let mut asked = Vec::new();
        while asked.len() < streams.len() {
            let count = asked.len();
            let origin = &mut world.origin;
            tokio::select! {
                one = origin.next() => asked.push(one),
                () = client.until(|_| false) => unreachable!("it has no end, at {count}"),
            }
        }
        for one in asked.iter().rev() {
            one.send(fresh(one.request.target()));
        }
        for (index, stream) in streams.into_iter().enumerate() {
            assert_eq!(client.answer(stream).await.body, format!("/{index}").into_bytes());
        }
    });
}

#[test]
fn uploads_reach_the_origin_through_small_windows() {
    run(async {
        let world = world(Origin::serve(|asked| {
            assert!(asked.body == pattern(2, 0..1_000_000));
            response("201 Created", &["Cache-Control: no-store"], "made")
        }));
        let mut client = world.connect().await;
        let body = pattern(2, 0..1_000_000);
        for _ in 0..3 {
            let fields = [("content-length", "1000000")];
            let stream = client.ask("POST", "/u", &fields, Some(&body));
            let answer = client.answer(stream).await;
            assert_eq!((answer.status, &*answer.body), (201, &b"made"[..]));
        }
    });
}

#[test]
fn trailers_and_interim_responses_reach_the_client() {
    run(async {
        let world = world(Origin::serve(|_| {
            let early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\
                        Cache-Control: no-store\r\n\r\n";
            format!("{early}{head}3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n").into_bytes()
        }));
        let mut client = world.connect().await;
        let answer = client.get("/t").await;
        assert_eq!((answer.status, &*answer.body), (200, &b"abc"[..]));
        assert_eq!(answer.interim, [103]);
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    });
}

#[test]
fn a_drain_lets_requests_finish_and_tells_the_client_to_go() {
    run(async {
        let mut world = world(Origin::scripted());
        let mut client = world.connect().await;
        let stream = client.ask("GET", "/a", &[], None);
        let asked = world.asked_by(&mut client).await;
        world.node.node.drain();
        // GOAWAY is the frame of type 7; settings are before it.
        client.until(|client| client.control().windows(2).any(|pair| pair == [7, 8])).await;
        asked.send(fresh("late"));
        assert_eq!(client.answer(stream).await.body, b"late");
        let (node, answered) = (&world.node, Instant::now());
        client.until(|client| client.lost.is_some()).await;
        until(|| node.count("connections_closed") == 1).await;
        // What it had not read by then would have been lost.
        assert!(answered.elapsed() > Duration::from_secs(4), "{:?}", answered.elapsed());
    });
}

#[test]
fn a_drain_leaves_it_to_clients_to_close() {
    run(async {
        let world = world(Origin::serve(|_| fresh("x")));
        let mut clients = [world.connect().await, world.connect().await];
        for client in &mut clients {
            assert_eq!(client.get("/a").await.status, 200);
        }
        world.node.node.drain();
        let told = |client: &H3Client| client.control().windows(2).any(|pair| pair == [7, 8]);
        for client in &mut clients {
            client.until(told).await;
        }
        // One of them takes its time, and is not waited for by the other.
        let began = Instant::now();
        let [mut first, mut second] = clients;
        first.close();
        until(|| world.node.count("connections_closed") == 1).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let pause = tokio::time::sleep(Duration::from_secs(1));
        tokio::select! {
            () = pause => {}
            () = second.until(|client| client.lost.is_some()) => panic!("{:?}", second.lost),
        }
        assert_eq!(second.lost, None);
        second.close();
        until(|| world.node.count("connections_closed") == 2).await;
    });
}

#[test]
fn who_comes_while_a_node_drains_is_refused_at_once() {
    run(async {
        let mut world = world(Origin::scripted());
        let mut client = world.connect().await;
        let stream = client.ask("GET", "/a", &[], None);
        let asked = world.asked_by(&mut client).await;
        let address = world.node.address();
        world.node.node.drain();
        client.until(|client| client.control().windows(2).any(|pair| pair == [7, 8])).await;
        let tls = world.authority.client(&["h3"]);
        let mut late = H3Client::start_early([127, 0, 0, 1], address, tls).await;
        let began = Instant::now();
        late.until(|late| late.lost.is_some()).await;
        let lost = late.lost.unwrap();
        assert!(lost.contains("refused"), "{lost}");
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        asked.send(fresh("late"));
        assert_eq!(client.answer(stream).await.body, b"late");
    });
}

#[test]
fn a_client_that_is_not_done_when_a_drain_ends_is_told_so() {
    run(async {
        let mut world = world(Origin::scripted());
        let mut client = world.connect().await;
        client.ask("GET", "/a", &[], None);
        let asked = world.asked_by(&mut client).await;
        world.node.node.drain();
        client.until(|client| client.control().windows(2).any(|pair| pair == [7, 8])).await;
        assert_eq!(client.lost, None);
        world.node.node.stop();
        client.until(|client| client.lost.is_some()).await;
        let (lost, said) = (client.lost.unwrap(), format!("{}", Code::NoError as u64));
        assert!(lost.contains(&said), "{lost}");
        drop(asked);
    });
}

#[test]
fn who_moves_is_judged_by_where_it_is() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["Cache-Control: no-store"], "x"));
        let authority = Authority::new();
        let rules = "[[access]]\npath = \"/in\"\nallow = [\"127.0.0.1\"]\n";
        let node = setup(&origin, &authority).and(rules).start();
        let mut client = H3Client::connect(node.address(), &authority).await;
        assert_eq!(client.get("/in").await.status, 200);
        // It has moved once it has shown that it is there.
        client.move_to([127, 0, 0, 2]).await;
        let began = Instant::now();
        while client.get("/in").await.status != 403 {
            assert!(began.elapsed() < Duration::from_secs(10), "it is where it was");
        }
        assert_eq!(client.get("/out").await.status, 200);
        client.move_to([127, 0, 0, 1]).await;
        while client.get("/in").await.status != 200 {
            assert!(began.elapsed() < Duration::from_secs(20), "it is not where it was");
        }
    });
}

/// What ends a connection, with the code.
async fn ends(world: &World, code: Code, bring: impl FnOnce(&mut H3Client)) {
    let mut client = world.connect().await;
    assert_eq!(client.get("/a").await.status, 200);
    bring(&mut client);
    client.until(|client| client.lost.is_some()).await;
    let said = format!("{}", code as u64);
    let lost = client.lost.as_ref().unwrap();
    assert!(lost.contains(&said), "{lost}, not {code:?}");
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_by_name() {
    run(async {
        let world = world(Origin::serve(|_| fresh("x")));
        let request = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            move |client: &mut H3Client| {
                client.open(Dir::Bi, &bytes, false);
            }
        };
        let one_way = |bytes: &[u8], finishes: bool| {
            let bytes = bytes.to_vec();
            move |client: &mut H3Client| {
                client.open(Dir::Uni, &bytes, finishes);
            }
        };
        // A body without a head, frames of other streams and of HTTP/2.
        ends(&world, Code::FrameUnexpected, request(&[0, 1, 9])).await;
        for kind in [3, 4, 5, 7, 0xd, 2, 6, 8, 9] {
            ends(&world, Code::FrameUnexpected, request(&[kind, 0])).await;
        }
        // Fields that refer to a table that is not there.
        ends(&world, Code::DecompressionFailed, request(&[1, 3, 0, 0, 0x80])).await;
        ends(&world, Code::ExcessiveLoad, request(&[1, 0x80, 0x10, 0, 0])).await;
        // A second control stream, a push, instructions for a table.
        ends(&world, Code::StreamCreationError, one_way(&[0, 4, 0], false)).await;
        ends(&world, Code::StreamCreationError, one_way(&[1, 0], false)).await;
        ends(&world, Code::EncoderStreamError, one_way(&[2, 0x3f, 0xe2, 0x1f], false)).await;
        ends(&world, Code::DecoderStreamError, one_way(&[3, 0x80], false)).await;
        ends(&world, Code::ClosedCriticalStream, one_way(&[3], true)).await;
        // A stream nobody knows does no harm.
        let mut client = world.connect().await;
        client.open(Dir::Uni, &[0x21, 1, 2, 3], true);
        assert_eq!(client.get("/a").await.status, 200);
        assert!(world.node.count("h3_errors") >= 16);
    });
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_served() {
    run(async {
        let world = world(Origin::serve(|_| fresh("x")));
        let mut client = world.connect().await;
        let wrong = [
            fields_frame(&[(":method", "GET"), (":path", "/")]),
            head("GET", "/", &[("connection", "close")]),
            head("GET", "no-slash", &[]),
            head("POST", "/", &[("content-length", "5")]),
        ];
        for bytes in wrong {
            let stream = client.open(Dir::Bi, &bytes, true);
            client.until(|client| client.streams[&stream].reset.is_some()).await;
            assert_eq!(client.streams[&stream].reset, Some(Code::MessageError as u64));
        }
        let long = "x".repeat(40_000);
        let stream = client.ask("GET", "/", &[("a", &long)], None);
        assert_eq!(client.answer(stream).await.status, 431);
        // A request that ends within its head.
        let stream = client.open(Dir::Bi, &[], true);
        client.until(|client| client.streams[&stream].reset.is_some()).await;
        assert_eq!(client.get("/a").await.status, 200);
    });
}

#[test]
fn a_client_that_gives_up_request_after_request_is_told_to_go() {
    run(async {
        let world = world(Origin::scripted());
        let mut client = world.connect().await;
        let mut given_up = 0;
        while client.lost.is_none() && given_up < 10_000 {
            if !client.can_ask() {
                client.hear().await;
                continue;
            }
            let stream = client.ask("GET", "/a", &[], None);
            client.hear_nothing();
            let _ = client.connection.send_stream(stream).reset(VarInt::from_u32(0x10c));
            let _ = client.connection.recv_stream(stream).stop(VarInt::from_u32(0x10c));
            client.streams.remove(&stream);
            given_up += 1;
        }
        let lost = client.lost.as_ref().expect("it was told to go");
        assert!(lost.contains(&(Code::ExcessiveLoad as u64).to_string()), "{lost}");
        assert!(given_up < 2000, "{given_up}");
    });
}

#[test]
fn handshakes_that_never_end_keep_no_client_out() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let mut setup = setup(&origin, &authority);
        setup.workers = 1;
        let world = World { origin, node: setup.start(), authority };
        let open = HANDSHAKES_UNASKED_MAX as u64;
        let address = world.node.address();
        // What only looks like a first packet holds nothing.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&nothing_inside(), address).unwrap();
        world.node.counted("quic_dropped", 1).await;
        assert_eq!(world.node.count("connections_accepted"), 0);
        // More than may be open before clients have to show where they are: the rest is asked to.
        H3Client::begin_only(address, &world.authority, HANDSHAKES_UNASKED_MAX + 50).await;
        world.node.counted("connections_accepted", open).await;
        let mut client = world.connect().await;
        assert_eq!(client.get("/a").await.body, b"x");
        assert_eq!(world.node.count("connections_accepted"), open + 1);
        // Of this one both datagrams that its hello takes are asked: nothing is kept of the first.
        assert_eq!(world.node.count("quic_retries"), 52);
        assert_eq!(world.node.count("tls_handshakes"), 1);
    });
}

/// What only looks like a first packet.
fn nothing_inside() -> [u8; 1200] {
    let mut datagram = [0; 1200];
    datagram[..16].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
    datagram[16..18].copy_from_slice(&(0x4000_u16 | 1182).to_be_bytes());
    datagram
}

#[test]
fn who_comes_beyond_the_limit_is_refused_before_anything_is_computed() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let mut setup = setup(&origin, &authority).and("[limits]\nconnections_max = 1\n");
        setup.workers = 1;
        let world = World { origin, node: setup.start(), authority };
        let mut one = world.connect().await;
        assert_eq!(one.get("/a").await.body, b"x");
        let (to, tls) = (world.node.address(), world.authority.client(&["h3"]));
        let mut two = H3Client::start_early([127, 0, 0, 1], to, tls).await;
        two.until(|client| client.lost.is_some()).await;
        assert!(two.lost.unwrap().contains("refused"));
        // Nobody looks into it.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&nothing_inside(), to).unwrap();
        world.node.counted("connections_refused", 2).await;
        assert_eq!(world.node.count("quic_dropped"), 0);
        assert_eq!(
            (world.node.count("connections_accepted"), one.get("/a").await.status),
            (1, 200)
        );
    });
}

#[test]
fn what_quic_answers_and_ends_by_itself_is_counted() {
    run(async {
        let world = world(Origin::serve(|_| fresh("x")));
        let to = world.node.address();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[[0x40; 40], [7; 40]].concat(), to).unwrap();
        world.node.counted("quic_resets", 1).await;
        let mut datagram = nothing_inside();
        datagram[4] = 5;
        socket.send_to(&datagram, to).unwrap();
        world.node.counted("quic_versions_told", 1).await;
        let mut other =
            H3Client::start_early([127, 0, 0, 1], to, world.authority.client(&["h4"])).await;
        other.until(|client| client.lost.is_some()).await;
        world.node.counted("quic_errors_handshake", 1).await;
    });
}

#[test]
fn a_client_that_knows_nothing_of_its_connection_any_more_ends_it() {
    run(async {
        let world = world(Origin::serve(|_| fresh(pattern(1, 0..5_000_000))));
        // What it says so with reaches any worker.
        for round in 1..=4 {
            let mut client = world.connect().await;
            assert_eq!(client.get("/a").await.status, 200);
            // The node has a token of it from the first id that it uses by the client's wish.
            client.move_to([127, 0, 0, 2]).await;
            assert_eq!(client.get("/a").await.status, 200);
            let stream = client.ask("GET", "/a", &[], None);
            client.until(|client| client.came(stream) > 0).await;
            client.forget_and_say_so().await;
            world.node.counted("quic_resets_heard", round).await;
            world.node.counted("connections_closed", round).await;
        }
    });
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    run(async {
        let world = world(Origin::serve(|_| fresh(pattern(1, 0..5_000_000))));
        for _ in 0..10 {
            let mut client = world.connect().await;
            let stream = client.ask("GET", "/a", &[], None);
            client.until(|client| client.connection.stats().path.cwnd > 0).await;
            client.close();
            drop((stream, client));
        }
        world.node.counted("connections_closed", 10).await;
        let mut client = world.connect().await;
        assert!(client.get("/a").await.body == pattern(1, 0..5_000_000));
    });
}

const OBJECT_BYTES: u64 = 4_000_000;

/// Has read a part of something only it asks for, with windows that take all of it, and is not heard
/// of again.
async fn silent(world: &World, seed: u64) -> H3Client {
    let wide = |transport: &mut TransportConfig| {
        transport.stream_receive_window(VarInt::from_u32(1 << 26));
        transport.receive_window(VarInt::from_u32(1 << 26));
    };
    let address = world.node.address();
    let mut client = H3Client::connect_from([127, 0, 0, 2], address, &world.authority, wide).await;
    let stream = client.ask("GET", &format!("/cold/{seed}"), &[], None);
    client.until(|client| client.came(stream) > 1_500_000 || client.lost.is_some()).await;
    client
}

/// Memory for eight of the objects that a client reads a part of. What they leave unacknowledged is
/// theirs to keep only within what all readers may, and little of it in place.
#[test]
fn clients_that_acknowledge_nothing_any_more_hold_little() {
    run(async {
        let origin = Origin::serve(|asked| {
            let (kind, seed) = asked.target()[1..].split_once('/').unwrap();
            let bytes = if kind == "hot" { 500_000 } else { OBJECT_BYTES };
            fresh(pattern(seed.parse().unwrap(), 0..bytes))
        });
        let authority = Authority::new();
        let mut setup = setup(&origin, &authority);
        setup.memory = "32MiB";
        let world = World { origin, node: setup.start(), authority };
        let mut clients = Vec::new();
        for seed in 0..24 {
            clients.push(silent(&world, seed).await);
            let stats = world.node.node.shared.readers.stats();
            let limit = world.node.node.shared.cache.memory().limit_bytes / 100 * 25;
            assert!(stats.bytes <= limit, "{} of {limit}", stats.bytes);
        }
        // Whoever reads gets what it asks for, hits and misses.
        let mut other = world.connect().await;
        for round in 0..2 {
            for seed in 100..112 {
                let answer = other.get(&format!("/cold/{seed}")).await;
                assert!(answer.status == 200 && answer.body == pattern(seed, 0..OBJECT_BYTES));
            }
            for _ in 0..2 {
                assert!(other.get("/hot/7").await.body == pattern(7, 0..500_000), "{round}");
            }
        }
        // And who comes back too, or is told that there is no more.
        for (seed, mut client) in (0..).zip(clients) {
            let stream = *client.streams.keys().find(|stream| stream.dir() == Dir::Bi).unwrap();
            client
                .until(|client| {
                    let came = &client.streams[&stream];
                    came.ended || came.reset.is_some() || client.lost.is_some()
                })
                .await;
            if client.streams[&stream].ended {
                let answer = client.answer(stream).await;
                assert!(answer.body == pattern(seed, 0..OBJECT_BYTES));
            }
            client.close();
        }
        until(|| world.node.node.shared.readers.stats().bytes == 0).await;
    });
}

/// A client far away is given what it needs to be served fast, and gives it back.
#[test]
fn what_a_client_acknowledges_is_counted_no_more() {
    run(async {
        let world = world(Origin::serve(|_| fresh(pattern(1, 0..OBJECT_BYTES))));
        let mut client = world.connect().await;
        for _ in 0..3 {
            assert!(client.get("/a").await.body == pattern(1, 0..OBJECT_BYTES));
        }
        let readers = &world.node.node.shared.readers;
        tokio::select! {
            () = until(|| readers.stats().bytes == 0) => {}
            () = client.until(|_| false) => unreachable!("it has no end"),
        }
        assert_eq!((readers.stats().displaced, client.lost.as_ref()), (0, None));
    });
}

#[test]
fn marks_of_congestion_are_counted() {
    run(async {
        let world = world(Origin::serve(|_| fresh(pattern(1, 0..100_000))));
        let count = |name: &str| world.node.count(&format!("quic_ecn_{name}"));
        // A client that says nothing of marks: they are left.
        let mut silent = world.connect().await;
        silent.get("/").await;
        assert!(count("sent") > 0);
        assert_eq!((count("failed"), count("congested"), count("received")), (1, 0, 0));
        silent.mark_congested();
        silent.get("/").await;
        assert!(count("received") > 0);
        assert_eq!((count("failed"), count("congested")), (1, 0));
    });
}

#[test]
fn wishes_of_how_to_acknowledge_are_counted() {
    run(async {
        let world = world(Origin::serve(|_| fresh(pattern(1, 0..3_000_000))));
        let count = |name: &str| world.node.count(&format!("quic_ack_frequency_{name}"));
        let mut client = world.connect().await;
        client.get("/").await;
        assert!(count("asked") > 0);
        assert_eq!(count("obeyed"), 0);
        let asks = |transport: &mut TransportConfig| {
            let mut asks = AckFrequencyConfig::default();
            asks.ack_eliciting_threshold(VarInt::from_u32(20));
            asks.max_ack_delay(Some(Duration::from_millis(20)));
            transport.ack_frequency_config(Some(asks));
        };
        let to = world.node.address();
        let mut client = H3Client::connect_with(to, &world.authority, asks).await;
        client.get("/").await;
        assert!(count("obeyed") > 0);
    });
}
