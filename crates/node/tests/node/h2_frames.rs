//! HTTP/2 frame by frame: the order of responses, and what a client may not do.

use crate::client::HOST;
use crate::harness::{Setup, TestNode, pattern, run};
use crate::origin::{Origin, fresh, response};
use freshet_wire::h2::PREFACE;
use freshet_wire::h2::hpack::{Decoder, Encoder, Indexing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const PROTOCOL_ERROR: u8 = 1;
const STREAM_CLOSED: u8 = 5;
const REFUSED_STREAM: u8 = 7;
const ENHANCE_YOUR_CALM: u8 = 11;

/// A frame that came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
    /// Of a head.
    pub(crate) status: String,
}

impl Frame {
    pub(crate) fn ends(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}

/// A client that does what it is told and nothing else, but for acknowledging SETTINGS.
pub(crate) struct Frames {
    stream: TcpStream,
    input: Vec<u8>,
    encoder: Encoder,
    decoder: Decoder,
}

impl Frames {
    /// A connection whose streams have this window.
    pub(crate) async fn connect(node: &TestNode, window_bytes: u32) -> Self {
        Self::over(TcpStream::connect(node.address()).await.unwrap(), window_bytes).await
    }

    /// The same behind a PROXY header.
    pub(crate) async fn connect_as(node: &TestNode, proxy: &str, window_bytes: u32) -> Self {
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        stream.write_all(proxy.as_bytes()).await.unwrap();
        Self::over(stream, window_bytes).await
    }

    /// The same over this socket.
    async fn over(stream: TcpStream, window_bytes: u32) -> Self {
        stream.set_nodelay(true).unwrap();
        let (encoder, decoder) = (Encoder::new(4096), Decoder::new(4096));
        let mut client = Self { stream, input: Vec::new(), encoder, decoder };
        client.stream.write_all(PREFACE).await.unwrap();
        let settings = [&[0, 4][..], &window_bytes.to_be_bytes()].concat();
        client.send(SETTINGS, 0, 0, &settings).await;
        client
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend_from_slice(&[kind, flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        // A node that has had enough may be gone.
        let _ = self.stream.write_all(&bytes).await;
    }

    /// Asks for `target`; without END_STREAM among `flags` a body is to follow.
    pub(crate) async fn ask(
        &mut self,
        flags: u8,
        stream: u32,
        target: &str,
        more: &[(&str, &str)],
    ) {
        let method = if flags & END_STREAM == 0 { "PUT" } else { "GET" };
        let fields =
            [(":method", method), (":scheme", "http"), (":path", target), (":authority", HOST)];
        let mut block = Vec::new();
        for (name, value) in fields.iter().chain(more) {
            self.encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Kept, &mut block);
        }
        self.send(HEADERS, END_HEADERS | flags, stream, &block).await;
    }

    pub(crate) async fn get(&mut self, stream: u32, target: &str, priority: &str) {
        self.ask(END_STREAM, stream, target, &[("priority", priority)]).await;
    }

    pub(crate) async fn widen(&mut self, stream: u32, bytes: u32) {
        self.send(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()).await;
    }

    pub(crate) async fn prioritize(&mut self, stream: u32, value: &str) {
        let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
        self.send(PRIORITY_UPDATE, 0, 0, &payload).await;
    }

    /// The next frame, but for SETTINGS; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.take_frame() {
                if frame.kind != SETTINGS {
                    return Some(frame);
                }
                if frame.flags & ACK == 0 {
                    self.send(SETTINGS, ACK, 0, &[]).await;
                }
            } else if matches!(self.stream.read_buf(&mut self.input).await, Ok(0) | Err(_)) {
                return None;
            }
        }
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let (header, rest) = self.input.split_first_chunk::<9>()?;
        let [a, b, c, kind, flags, stream @ ..] = *header;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = rest.get(..len)?.to_vec();
        self.input.drain(..9 + len);
        let mut status = String::new();
        if kind == HEADERS {
            let take = |name: &[u8], value: &[u8]| {
                if name == b":status" {
                    status = String::from_utf8_lossy(value).into_owned();
                }
            };
            // All are read, for later ones refer to them.
            self.decoder.decode(&payload, take).unwrap();
        }
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload, status })
    }

    /// The next frame of this type; others are passed over.
    pub(crate) async fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("no frame of type {kind} came"));
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// The status of the next head of this stream. What comes of others before is passed over.
    async fn status(&mut self, stream: u32) -> String {
        loop {
            let frame = self.next_of(HEADERS).await;
            if frame.stream == stream {
                return frame.status;
            }
        }
    }

    /// Streams in the order in which `bytes` of their bodies come.
    async fn order(&mut self, mut bytes: usize) -> Vec<(u32, usize)> {
        let mut order: Vec<(u32, usize)> = Vec::new();
        while bytes > 0 {
            let frame = self.next_of(DATA).await;
            bytes -= frame.payload.len();
            match order.last_mut() {
                Some((stream, sum)) if *stream == frame.stream => *sum += frame.payload.len(),
                _ => order.push((frame.stream, frame.payload.len())),
            }
        }
        order
    }

    /// Uses up the connection's window with a response of the least urgency, so that what is asked
    /// for next waits until all of it is known.
    async fn fill_window(&mut self, stream: u32) {
        self.get(stream, "/large", "u=7").await;
        assert_eq!(self.order(65_535).await, [(stream, 65_535)]);
    }

    /// Asks for something cached and waits until it waits for the connection's window.
    async fn get_waiting(&mut self, stream: u32, target: &str, priority: &str) {
        self.get(stream, target, priority).await;
        // Head and first piece are queued in one turn of the task that serves the stream.
        assert_eq!(self.status(stream).await, "200");
    }
}

const WINDOW_LARGE: u32 = 1 << 30;

/// Bodies of 100,000 bytes, and a large one; all cached.
async fn cached() -> (Origin, TestNode) {
    let origin = Origin::serve(|asked| {
        let bytes = if asked.target() == "/large" { 1_000_000 } else { 100_000 };
        if asked.target() == "/urgent" {
            let fields = ["Cache-Control: max-age=60", "Priority: u=0"];
            return response("200 OK", &fields, pattern(1, 0..bytes));
        }
        fresh(pattern(1, 0..bytes))
    });
    let node = TestNode::before(&origin);
    for target in ["/large", "/a", "/b", "/urgent"] {
        assert_eq!(crate::client::get(&node, target).await.status, 200);
    }
    (origin, node)
}

#[test]
fn a_client_that_reads_nothing_gets_only_so_many_heads() {
    run(async {
        let origin = Origin::serve(|_| {
            let field = format!("X-Long: {}", "x".repeat(30_000));
            response("200 OK", &["Cache-Control: max-age=60", &field], "")
        });
        let limits =
            "[limits]\nsend_timeout = \"200ms\"\nidle_timeout = \"200ms\"\nstreams_max = 400";
        let node = Setup::of(&origin).and(limits).start();
        assert_eq!(crate::client::get(&node, "/a").await.status, 200);
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(node.address()).await.unwrap();
        let mut client = Frames::over(stream, WINDOW_LARGE).await;
        // 8 MB of heads, each for some bytes; the kernel takes up to 4 MB.
        for stream in 0..300 {
            client.ask(END_STREAM, 2 * stream + 1, "/a", &[]).await;
        }
        node.counted("connections_closed", 2).await;
        assert_eq!(node.count("requests"), 301);
        assert!(node.count("head_bytes") < 6_000_000, "{}", node.count("head_bytes"));
    });
}

#[test]
fn what_is_begun_has_to_end_within_the_request_timeout() {
    run(async {
        let origin = Origin::scripted();
        let limits = "[limits]\nrequest_timeout = \"200ms\"\nidle_timeout = \"30s\"";
        let node = Setup::of(&origin).and(limits).start();
        // A head in parts, and a frame in parts; with and without another stream.
        for (at, (in_frames, has_stream)) in
            [(true, false), (true, true), (false, false), (false, true)].into_iter().enumerate()
        {
            let mut client = Frames::connect(&node, WINDOW_LARGE).await;
            if has_stream {
                client.get(1, "/waits", "").await;
            }
            let is_over = || node.count("timeouts") > at as u64;
            let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
            if in_frames {
                client.send(HEADERS, END_STREAM, 3, &[]).await;
            } else {
                let _ = client.stream.write_all(&[0, 0x40, 0, HEADERS, 0, 0, 0, 0, 3]).await;
            }
            // Fewer than the frames that a head may have.
            for _ in 0..30 {
                ticks.tick().await;
                if is_over() {
                    break;
                }
                if in_frames {
                    client.send(CONTINUATION, 0, 3, &[]).await;
                } else {
                    let _ = client.stream.write_all(&[0]).await;
                }
            }
            assert!(is_over(), "{in_frames} {has_stream}");
            let goaway = client.next_of(GOAWAY).await;
            assert_eq!(goaway.payload[4..], [0, 0, 0, ENHANCE_YOUR_CALM]);
        }
    });
}

#[test]
fn an_upload_may_take_longer_than_the_request_timeout() {
    run(async {
        let origin = Origin::serve(|asked| {
            let count = asked.body.iter().filter(|byte| **byte == b'x').count();
            response("200 OK", &[], count.to_string())
        });
        let limits = "[limits]\nrequest_timeout = \"200ms\"";
        let node = Setup::of(&origin).and(limits).start();
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.ask(0, 1, "/u", &[]).await;
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
        // Each write ends within a frame.
        let frame = [&[0, 0, 10, DATA, 0, 0, 0, 0, 1][..], &[b'x'; 10]].concat();
        client.stream.write_all(&frame[..15]).await.unwrap();
        for _ in 0..25 {
            ticks.tick().await;
            client.stream.write_all(&[&frame[15..], &frame[..15]].concat()).await.unwrap();
        }
        client.stream.write_all(&frame[15..]).await.unwrap();
        client.send(DATA, END_STREAM, 1, &[]).await;
        assert_eq!(client.status(1).await, "200");
        assert_eq!(
            (client.next_of(DATA).await.payload, node.count("timeouts")),
            (b"260".to_vec(), 0)
        );
    });
}

/// What requests of all connections of `node` hold.
fn held(node: &TestNode) -> u64 {
    node.node.shared.requests_bytes()
}

#[test]
fn heads_that_a_few_bytes_stand_for_are_counted_as_large_as_they_are() {
    run(async {
        let origin = Origin::scripted();
        let limits = "[limits]\nrequests_bytes_max = \"1000KiB\"";
        // One connection has no more of it than its group.
        let node = Setup { groups: 1, ..Setup::of(&origin) }.and(limits).start();
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        // Each head has some bytes on the wire and 30 KB here.
        let long = "x".repeat(3700);
        let fields = [("x-long", long.as_str()); 8];
        let mut refused = 0;
        for stream in 0..100 {
            client.ask(END_STREAM, 2 * stream + 1, &format!("/{stream}"), &fields).await;
        }
        while held(&node) < 800 << 10 || refused == 0 {
            let reset = client.next_of(RST_STREAM).await;
            assert_eq!(reset.payload, [0, 0, 0, REFUSED_STREAM]);
            refused += 1;
        }
        node.counted("requests_no_room", 90).await;
        assert!(held(&node) <= 1000 << 10);
        // A usual request of somebody else is served meanwhile, and one over HTTP/1 that is not
        // is told why it is not.
        let mut other = Frames::connect(&node, WINDOW_LARGE).await;
        other.get(1, "/other", "").await;
        let mut asked = origin;
        while asked.next().await.request.target() != "/other" {}
        let mut third = crate::client::Client::to(&node).await;
        let answer = third.get_with("/third", &[&format!("x-long: {}", "x".repeat(30_000))]).await;
        assert_eq!(answer.status, 503);
        drop((client, other, asked));
        crate::harness::until(|| held(&node) == 0).await;
    });
}

#[test]
fn a_body_that_stops_or_drips_is_a_408_and_lets_its_origin_go() {
    run(async {
        let mut origin = Origin::scripted();
        let limits = "[limits]\nbody_timeout = \"200ms\"\nbody_rate_min = \"1KB\"";
        let node = Setup::of(&origin).and(limits).start();
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.ask(0, 1, "/stops", &[]).await;
        client.send(DATA, 0, 1, b"x").await;
        let mut asked = origin.next().await;
        asked.closed().await;
        assert_eq!(client.status(1).await, "408");
        client.ask(0, 3, "/drips", &[]).await;
        client.send(DATA, 0, 3, b"x").await;
        let mut asked = origin.next().await;
        let mut ticks = tokio::time::interval(std::time::Duration::from_millis(20));
        for _ in 0..500 {
            ticks.tick().await;
            client.send(DATA, 0, 3, b"x").await;
            if node.count("timeouts") == 2 {
                break;
            }
        }
        asked.closed().await;
        assert_eq!(client.status(3).await, "408");
        assert_eq!(node.count("timeouts"), 2);
    });
}

#[test]
fn the_urgent_overtakes_and_equals_go_one_after_another() {
    run(async {
        let (_origin, node) = cached().await;
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.fill_window(1).await;
        client.get_waiting(3, "/a", "u=5").await;
        client.get_waiting(5, "/b", "u=5").await;
        client.get_waiting(7, "/a", "u=0").await;
        client.widen(0, 300_000).await;
        assert_eq!(client.order(300_000).await, [(7, 100_000), (3, 100_000), (5, 100_000)]);
        client.widen(0, 1_000_000).await;
        assert_eq!(client.order(934_465).await, [(1, 934_465)]);
    });
}

#[test]
fn incremental_responses_share() {
    run(async {
        let (_origin, node) = cached().await;
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.fill_window(1).await;
        client.get_waiting(3, "/a", "u=3, i").await;
        client.get_waiting(5, "/b", "u=3, i").await;
        client.widen(0, 120_000).await;
        let order = client.order(120_000).await;
        assert!(order.iter().all(|(_, bytes)| *bytes <= 16_384), "{order:?}");
        let of_one: usize =
            order.iter().filter(|(stream, _)| *stream == 3).map(|(_, bytes)| bytes).sum();
        assert!(of_one.abs_diff(60_000) <= 16_384, "{order:?}");
    });
}

#[test]
fn updates_of_priorities_count_before_and_after_the_request() {
    run(async {
        let (_origin, node) = cached().await;
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.prioritize(7, "u=1").await;
        client.fill_window(1).await;
        client.get_waiting(3, "/a", "u=4").await;
        client.get_waiting(5, "/b", "u=4").await;
        client.get_waiting(7, "/b", "u=6").await;
        client.prioritize(5, "u=2").await;
        client.widen(0, 300_000).await;
        assert_eq!(client.order(300_000).await, [(7, 100_000), (5, 100_000), (3, 100_000)]);
    });
}

#[test]
fn a_response_says_how_urgent_it_is() {
    run(async {
        let (_origin, node) = cached().await;
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.fill_window(1).await;
        client.get_waiting(3, "/a", "u=2").await;
        client.get_waiting(5, "/urgent", "u=6").await;
        client.widen(0, 200_000).await;
        assert_eq!(client.order(200_000).await, [(5, 100_000), (3, 100_000)]);
    });
}

#[test]
fn a_player_that_is_about_to_stand_still_goes_first() {
    run(async {
        let (_origin, node) = cached().await;
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.fill_window(1).await;
        client.get_waiting(3, "/a?CMCD=bl%3D9000%2Csid%3D%22x%22", "u=3").await;
        client.get_waiting(5, "/b?CMCD=bl%3D400%2Csid%3D%22x%22", "u=3").await;
        client.get_waiting(7, "/a", "u=1").await;
        client.widen(0, 300_000).await;
        assert_eq!(client.order(300_000).await, [(7, 100_000), (5, 100_000), (3, 100_000)]);
    });
}

#[test]
fn an_urgent_response_that_cannot_be_sent_stops_nobody() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, 1000).await;
        // One waits for its origin, one for its own window.
        client.get(1, "/slow", "u=0").await;
        let slow = origin.next().await;
        client.get(3, "/held", "u=0").await;
        origin.next().await.send(fresh(pattern(3, 0..50_000)));
        assert_eq!(client.order(1000).await, [(3, 1000)]);
        client.get(5, "/b", "u=7").await;
        origin.next().await.send(fresh(pattern(5, 0..50_000)));
        client.widen(5, 50_000).await;
        assert_eq!(client.order(50_000).await, [(5, 50_000)]);
        client.widen(0, 100_000).await;
        slow.send(fresh("slow"));
        assert_eq!(client.order(4).await, [(1, 4)]);
        client.widen(3, 50_000).await;
        assert_eq!(client.order(49_000).await, [(3, 49_000)]);
    });
}

#[test]
fn padded_uploads_arrive_without_their_padding() {
    run(async {
        let origin =
            Origin::serve(|asked| response("200 OK", &["Cache-Control: no-store"], &asked.body));
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.ask(0, 1, "/u", &[("content-length", "2000")]).await;
        let body = pattern(1, 0..2000);
        for (at, part) in body.chunks(100).enumerate() {
            let payload = [&[7][..], part, &[0; 7]].concat();
            let end = if at == 19 { END_STREAM } else { 0 };
            client.send(DATA, PADDED | end, 1, &payload).await;
        }
        assert_eq!(client.status(1).await, "200");
        let mut received = Vec::new();
        while received.len() < 2000 {
            received.extend_from_slice(&client.next_of(DATA).await.payload);
        }
        assert!(received == body);
    });
}

#[test]
fn a_body_that_is_not_as_long_as_told_ends_its_stream_and_its_fetch() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        // So long that it is not read before the origin is asked.
        client.ask(0, 1, "/u", &[("content-length", "70000")]).await;
        client.send(DATA, 0, 1, b"01234").await;
        let mut asked = origin.next().await;
        assert!(asked.some_body().await.is_some());
        for _ in 0..5 {
            client.send(DATA, 0, 1, &[b'x'; 16384]).await;
        }
        let reset = client.next_of(RST_STREAM).await;
        assert_eq!((reset.stream, &reset.payload[..]), (1, &[0, 0, 0, PROTOCOL_ERROR][..]));
        asked.closed().await;
    });
}

#[test]
fn a_client_that_waits_is_told_to_send_its_body() {
    run(async {
        let fields = ["Cache-Control: no-store"];
        let origin = Origin::serve(move |asked| response("200 OK", &fields, &asked.body));
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        let fields = [("expect", "100-continue"), ("content-length", "4")];
        client.ask(0, 1, "/u", &fields).await;
        assert_eq!(client.status(1).await, "100");
        client.send(DATA, END_STREAM, 1, b"body").await;
        assert_eq!(client.status(1).await, "200");
        assert_eq!(client.next_of(DATA).await.payload, b"body");
    });
}

#[test]
fn streams_over_the_maximum_are_refused() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[limits]\nstreams_max = 2").start();
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        for stream in [1, 3, 5] {
            client.get(stream, &format!("/{stream}"), "").await;
        }
        let reset = client.next_of(RST_STREAM).await;
        assert_eq!((reset.stream, &reset.payload[..]), (5, &[0, 0, 0, REFUSED_STREAM][..]));
        origin.next().await.send(fresh("x"));
        assert!(client.next_of(DATA).await.ends());
        client.get(7, "/7", "").await;
        origin.next().await;
        origin.next().await;
    });
}

#[test]
fn data_behind_the_end_resets_the_stream() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.get(1, "/a", "").await;
        let asked = origin.next().await;
        client.send(DATA, 0, 1, b"x").await;
        let reset = client.next_of(RST_STREAM).await;
        assert_eq!((reset.stream, &reset.payload[..]), (1, &[0, 0, 0, STREAM_CLOSED][..]));
        asked.send(fresh("x"));
        client.get(3, "/a", "").await;
        assert_eq!(client.status(3).await, "200");
    });
}

#[test]
fn a_flood_of_pings_ends_the_connection() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        let mut pings = Vec::new();
        for _ in 0..5000 {
            pings.extend_from_slice(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        let _ = client.stream.write_all(&pings).await;
        let goaway = client.next_of(GOAWAY).await;
        assert_eq!(goaway.payload[4..], [0, 0, 0, ENHANCE_YOUR_CALM]);
        assert_eq!(client.next().await, None);
        assert_eq!(node.count("h2_goaway"), 1);
    });
}

#[test]
fn an_idle_client_is_told_to_go_in_two_steps() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).and("[limits]\nidle_timeout = \"100ms\"").start();
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.get(1, "/a", "").await;
        let announced = client.next_of(GOAWAY).await;
        assert_eq!(announced.payload, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let ping = client.next_of(PING).await;
        client.send(PING, ACK, 0, &ping.payload).await;
        let last = client.next_of(GOAWAY).await;
        assert_eq!(last.payload, [0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(client.next().await, None);
    });
}

#[test]
fn a_client_that_says_goodbye_is_let_go() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let mut client = Frames::connect(&node, WINDOW_LARGE).await;
        client.get(1, "/a", "").await;
        client.send(GOAWAY, 0, 0, &[0; 8]).await;
        assert!(client.next_of(DATA).await.ends());
        assert_eq!(client.next().await, None);
    });
}
