//! Origins that follow a script of frames.

use crate::support::*;
use bytes::Bytes;
use freshet_origin::error::FailureKind;
use freshet_origin::request_body::WholeBody;
use freshet_origin::{HttpVersion, Origin, OriginError, OriginResponse, OriginSettings};
use freshet_origin::{exchange, pool::Pool, probe};
use freshet_wire::h1::Framing;
use freshet_wire::h2::PREFACE;
use freshet_wire::h2::hpack::{Decoder, Encoder, Indexing};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A frame as the server sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The server's end of a connection.
struct Server {
    socket: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
}

impl Server {
    /// Takes a connection and says what a server says first.
    async fn accept(listener: &TcpListener, settings: &[u8]) -> Self {
        let mut socket = listener.accept().await.expect("a connection").0;
        socket.set_nodelay(true).expect("a socket");
        let mut preface = [0; PREFACE.len()];
        socket.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(preface, PREFACE);
        let (encoder, decoder) = (Encoder::new(4096), Decoder::new(4096));
        let mut server = Self { socket, encoder, decoder };
        server.send(SETTINGS, 0, 0, settings).await;
        server
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let _ = self.try_send(kind, flags, stream, payload).await;
    }

    /// False when the client is gone.
    async fn try_send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags];
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.socket.write_all(&bytes).await.is_ok()
    }

    /// The next frame; `None` when the client closed.
    async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).await.ok()?;
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; len];
        self.socket.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame of this kind, others being passed over.
    async fn next(&mut self, kind: u8) -> Option<Frame> {
        loop {
            match self.frame().await? {
                frame if frame.kind == kind => return Some(frame),
                _ => {}
            }
        }
    }

    /// The next request: its stream and fields.
    async fn request(&mut self) -> Option<(u32, Vec<String>)> {
        let frame = self.next(HEADERS).await?;
        assert!(frame.flags & END_HEADERS != 0);
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("tests speak ASCII");
        let field = |name: &[u8], value: &[u8]| {
            fields.push(format!("{}={}", text(name), text(value)));
        };
        self.decoder.decode(&frame.payload, field).expect("fields");
        Some((frame.stream, fields))
    }

    fn fields(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Kept, &mut block);
        }
        block
    }

    async fn head(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        let block = self.fields(fields);
        self.send(HEADERS, flags | END_HEADERS, stream, &block).await;
    }

    async fn answer(&mut self, stream: u32, text: &str) {
        self.head(stream, 0, &[(":status", "200")]).await;
        self.send(DATA, END_STREAM, stream, text.as_bytes()).await;
    }

    async fn goaway(&mut self, last: u32, code: u32) {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// Waits until the client closes; returns the largest code of a GOAWAY or RST_STREAM.
    async fn code(&mut self) -> Option<u32> {
        let mut code = None::<u32>;
        while let Some(frame) = self.frame().await {
            let at = match frame.kind {
                GOAWAY => 4,
                RST_STREAM => 0,
                _ => continue,
            };
            let bytes = frame.payload[at..at + 4].try_into().expect("four bytes");
            code = code.max(Some(u32::from_be_bytes(bytes)));
        }
        code
    }
}

fn http2(address: SocketAddr) -> Arc<Origin> {
    let settings = OriginSettings { http: HttpVersion::Http2, ..settings(address) };
    Origin::new(settings).expect("usable settings")
}

async fn whole(mut response: OriginResponse) -> Result<String, OriginError> {
    text(&mut response.body).await
}

#[tokio::test]
async fn a_request_has_its_fields_and_nothing_of_a_connection() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (stream, fields) = server.request().await.expect("a request");
        server.answer(stream, "hello").await;
        fields
    })
    .await;
    local(async move {
        let mut head = request("GET", "/a?b");
        for (name, value) in [
            ("Connection", "close, X-Hop"),
            ("Keep-Alive", "5"),
            ("X-Hop", "1"),
            ("TE", "trailers, deflate"),
            ("Transfer-Encoding", "chunked"),
            ("Accept", "*/*"),
            ("Priority", "u=1, i"),
            ("Cookie", "a=b"),
        ] {
            head.fields.append(name, value);
        }
        let origin = http2(address);
        let pool = Pool::new();
        let response = exchange(&pool, &origin, &head, None, &mut |_| {}).await.unwrap();
        assert_eq!(whole(response).await.unwrap(), "hello");
        let want = [
            ":method=GET",
            ":scheme=http",
            ":authority=tv.example",
            ":path=/a?b",
            "accept=*/*",
            "priority=u=1, i",
            "cookie=a=b",
            "te=trailers",
        ];
        assert_eq!(server.await.unwrap(), want);
    })
    .await;
}

#[tokio::test]
async fn answers_come_in_any_order_over_one_connection() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let mut streams = Vec::new();
        for _ in 0..10 {
            streams.push(server.request().await.expect("a request").0);
        }
        for stream in streams.iter().rev() {
            server.head(*stream, 0, &[(":status", "200"), ("x-stream", "1")]).await;
        }
        for part in ["a", "b", "c"] {
            for stream in &streams {
                let text = format!("{part}{stream} ");
                server.send(DATA, u8::from(part == "c"), *stream, text.as_bytes()).await;
            }
        }
        streams
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let asking: Vec<_> = (0..10)
            .map(|_| {
                let (pool, origin) = (pool.clone(), Arc::clone(&origin));
                tokio::task::spawn_local(async move {
                    whole(get(&pool, &origin).await.unwrap()).await.unwrap()
                })
            })
            .collect();
        let mut texts = Vec::new();
        for one in asking {
            texts.push(one.await.unwrap());
        }
        let want = |stream| format!("a{stream} b{stream} c{stream} ");
        let mut wanted: Vec<_> = server.await.unwrap().into_iter().map(want).collect();
        texts.sort();
        wanted.sort();
        assert_eq!(texts, wanted);
        assert_eq!(origin.stats.connects.value(), 1);
        assert_eq!((pool.idle_len(origin.id), origin.stats.idle.value()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn what_a_server_allows_at_a_time_is_kept_to_and_more_connections_are_opened() {
    // MAX_CONCURRENT_STREAMS of 2. Nobody is answered before three connections have two each.
    let (address, _server) = serve(|listener| async move {
        let all = Arc::new(tokio::sync::Barrier::new(3));
        let mut tasks = tokio::task::JoinSet::new();
        for connection in 0..3 {
            let mut server = Server::accept(&listener, &[0, 3, 0, 0, 0, 2]).await;
            let all = Arc::clone(&all);
            tasks.spawn(async move {
                if connection == 0 {
                    let (stream, _) = server.request().await.expect("a request");
                    server.answer(stream, "first").await;
                }
                let (one, _) = server.request().await.expect("a request");
                let (two, _) = server.request().await.expect("a request");
                all.wait().await;
                server.answer(one, "fine").await;
                server.answer(two, "fine").await;
                server.code().await
            });
        }
        while tasks.join_next().await.is_some() {}
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let asked = || async { whole(get(&pool, &origin).await.unwrap()).await.unwrap() };
        // The settings are known once something was answered.
        assert_eq!(asked().await, "first");
        let (a, b, c, d, e, f) = tokio::join!(asked(), asked(), asked(), asked(), asked(), asked());
        assert!([a, b, c, d, e, f].iter().all(|text| text == "fine"));
        assert_eq!(origin.stats.connects.value(), 3);
    })
    .await;
}

#[tokio::test]
async fn what_a_server_that_leaves_did_not_look_at_is_sent_again_whatever_the_method() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (first, _) = server.request().await.expect("a request");
        let (second, _) = server.request().await.expect("a request");
        server.goaway(first, 0).await;
        let mut other = Server::accept(&listener, &[]).await;
        let (stream, _) = other.request().await.expect("the second again");
        let mut body = Vec::new();
        while body.len() < 5 {
            body.extend(other.next(DATA).await.expect("its body").payload);
        }
        other.answer(stream, std::str::from_utf8(&body).unwrap()).await;
        // The first is still answered where it was asked.
        server.answer(first, "first").await;
        assert!(server.next(GOAWAY).await.is_some() && second > first);
        other
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let body = WholeBody::new("again");
        let (first, second) = tokio::join!(
            async { whole(get(&pool, &origin).await.unwrap()).await.unwrap() },
            async {
                let response = send(&pool, &origin, "POST", body).await.unwrap();
                assert!(response.facts.retried);
                whole(response).await.unwrap()
            }
        );
        assert_eq!((first.as_str(), second.as_str()), ("first", "again"));
        assert_eq!((origin.stats.connects.value(), origin.stats.retries.value()), (2, 1));
        drop(server.await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_refused_stream_is_asked_again_and_not_for_ever() {
    let (address, server) = serve(|listener| async move {
        let mut refused = 0;
        for connection in 0..2 {
            let mut server = Server::accept(&listener, &[]).await;
            // Two on the first connection, the last on one of its own.
            for _ in 0..2 - connection {
                let (stream, _) = server.request().await.expect("a request");
                server.send(RST_STREAM, 0, stream, &[0, 0, 0, 7]).await;
                refused += 1;
            }
            if connection == 1 {
                return (refused, server);
            }
            tokio::spawn(async move { server.code().await });
        }
        unreachable!()
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let error = get(&pool, &origin).await.unwrap_err();
        assert!(matches!(error, OriginError::OriginUnseen { .. }) && error.not_sent(), "{error}");
        assert_eq!(server.await.unwrap().0, 3);
    })
    .await;
}

#[tokio::test]
async fn resets_are_failures_by_their_code() {
    for (code, kind) in [
        (0, FailureKind::Closed),
        (2, FailureKind::Closed),
        (8, FailureKind::Closed),
        (1, FailureKind::HeadMalformed),
        (99, FailureKind::Closed),
    ] {
        let (address, server) = serve(move |listener| async move {
            let mut server = Server::accept(&listener, &[]).await;
            let (stream, _) = server.request().await.expect("a request");
            server.send(RST_STREAM, 0, stream, &[0, 0, 0, code]).await;
            let (stream, _) = server.request().await.expect("a request");
            server.head(stream, 0, &[(":status", "200"), ("content-length", "9")]).await;
            server.send(DATA, 0, stream, b"four").await;
            server.send(RST_STREAM, 0, stream, &[0, 0, 0, code]).await;
            let (stream, _) = server.request().await.expect("a request");
            server.answer(stream, "fine").await;
            server
        })
        .await;
        local(async move {
            let (pool, origin) = (Pool::new(), http2(address));
            let error = get(&pool, &origin).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{code}: {error}");
            let error = whole(get(&pool, &origin).await.unwrap()).await.unwrap_err();
            assert_eq!(error.kind(), FailureKind::BodyIncomplete, "{code}: {error}");
            // The connection is as good as before.
            assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "fine");
            assert_eq!(origin.stats.connects.value(), 1);
            drop(server.await.unwrap());
        })
        .await;
    }
}

#[tokio::test]
async fn interim_heads_padding_continuations_and_trailers_are_read() {
    let (address, _server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (stream, _) = server.request().await.expect("a request");
        server.head(stream, 0, &[(":status", "103"), ("link", "</a>")]).await;
        server.head(stream, 0, &[(":status", "103"), ("link", "</b>")]).await;
        let block = server.fields(&[(":status", "200"), ("x-long", &"x".repeat(3000))]);
        // Padded, and in three frames.
        let mut first = vec![4];
        first.extend_from_slice(&block[..10]);
        first.extend_from_slice(&[0; 4]);
        server.send(HEADERS, 8, stream, &first).await;
        server.send(CONTINUATION, 0, stream, &block[10..100]).await;
        server.send(CONTINUATION, END_HEADERS, stream, &block[100..]).await;
        server.send(DATA, 8, stream, &[2, b'h', b'i', 0, 0]).await;
        server.send(PING, 0, 0, b"are you ").await;
        server.send(DATA, 0, stream, b"").await;
        server.send(200, 0, stream, b"of no known type").await;
        server.head(stream, END_STREAM, &[("sum", "2")]).await;
        server.next(PING).await.expect("an answer").payload
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let mut links = Vec::new();
        let mut keep = |head: freshet_http::message::ResponseHead| {
            links.push(head.fields.get("link").unwrap_or_default().to_vec());
        };
        let head = request("GET", "/");
        let mut response = exchange(&pool, &origin, &head, None, &mut keep).await.unwrap();
        assert_eq!(links, [b"</a>", b"</b>"]);
        assert_eq!(response.head.fields.get("x-long").map(<[u8]>::len), Some(3000));
        assert_eq!(response.framing, Framing::Chunked);
        assert_eq!(text(&mut response.body).await.unwrap(), "hi");
        assert_eq!(response.body.trailers().and_then(|all| all.get("sum")), Some(&b"2"[..]));
    })
    .await;
}

#[tokio::test]
async fn a_body_of_no_content_ends_by_itself_and_costs_no_reset() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (stream, _) = server.request().await.expect("a request");
        server.head(stream, 0, &[(":status", "200"), ("content-length", "100")]).await;
        server.send(DATA, END_STREAM, stream, b"").await;
        let (stream, _) = server.request().await.expect("a request");
        server.head(stream, END_STREAM, &[(":status", "304"), ("content-length", "100")]).await;
        let (stream, _) = server.request().await.expect("a request");
        server.head(stream, END_STREAM, &[(":status", "200")]).await;
        server
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        for (method, status, framing) in [
            ("HEAD", 200, Framing::None),
            ("GET", 304, Framing::None),
            ("GET", 200, Framing::Length(0)),
        ] {
            let head = request(method, "/");
            let response = exchange(&pool, &origin, &head, None, &mut |_| {}).await.unwrap();
            assert_eq!((response.head.status, response.framing), (status, framing));
            assert!(response.body.is_ended());
        }
        drop(pool);
        assert_eq!(server.await.unwrap().code().await, Some(0), "a GOAWAY of NO_ERROR");
    })
    .await;
}

#[tokio::test]
async fn a_body_nobody_reads_holds_up_no_other_and_its_memory_is_bounded() {
    const WINDOW: usize = 512 * 1024;
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (slow, _) = server.request().await.expect("a request");
        server.head(slow, 0, &[(":status", "200")]).await;
        // All that its window lets in.
        for _ in 0..WINDOW / 8192 {
            server.send(DATA, 0, slow, &[0; 8192]).await;
        }
        let (fast, _) = server.request().await.expect("a request");
        server.head(fast, 0, &[(":status", "200")]).await;
        for _ in 0..WINDOW / 8192 {
            server.send(DATA, 0, fast, &[1; 8192]).await;
        }
        let update = loop {
            match server.next(WINDOW_UPDATE).await.expect("room for more") {
                frame if frame.stream != 0 => break frame.stream,
                _ => {}
            }
        };
        assert_eq!(update, fast);
        server.send(DATA, END_STREAM, fast, &[1]).await;
        // One byte more than it may.
        server.send(DATA, 0, slow, &[0]).await;
        loop {
            let frame = server.next(RST_STREAM).await.expect("a reset");
            if frame.stream == slow {
                return frame.payload;
            }
        }
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let slow = get(&pool, &origin).await.unwrap();
        let mut fast = get(&pool, &origin).await.unwrap();
        let (mut count, mut out) = (0, vec![0; 20_000]);
        while let Ok(read @ 1..) = fast.body.read(&mut out).await {
            count += read;
        }
        assert_eq!((count, fast.body.is_ended()), (WINDOW + 1, true));
        assert_eq!(server.await.unwrap(), [0, 0, 0, 3], "FLOW_CONTROL_ERROR");
        // What it may have sent is there; how it ended as well.
        let error = whole(slow).await.unwrap_err();
        let received = WINDOW as u64;
        assert!(
            matches!(&error, OriginError::OriginStreamBroken { received: all, .. } if *all == received),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_dropped_is_reset_and_its_connection_used_again() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        let (stream, _) = server.request().await.expect("a request");
        server.head(stream, 0, &[(":status", "200")]).await;
        server.send(DATA, 0, stream, b"begun").await;
        let reset = server.next(RST_STREAM).await.expect("a reset");
        // What was on its way is no mistake.
        server.send(DATA, 0, stream, b"late").await;
        let (stream, _) = server.request().await.expect("a request");
        server.answer(stream, "fine").await;
        (reset.payload, server)
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let mut response = get(&pool, &origin).await.unwrap();
        assert!(response.body.read(&mut [0; 3]).await.unwrap() > 0);
        drop(response);
        assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "fine");
        assert_eq!(server.await.unwrap().0, [0, 0, 0, 8], "CANCEL");
        assert_eq!(origin.stats.connects.value(), 1);
    })
    .await;
}

/// What a server does that ends its connection, or one exchange.
async fn misbehave(server: &mut Server, how: usize, stream: u32) -> bool {
    match how {
        0 => server.send(DATA, 0, stream, b"before a head").await,
        1 => server.send(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x88]).await,
        2 => server.send(HEADERS, END_HEADERS, stream, &[0xff; 20]).await,
        3 => server.send(HEADERS, END_HEADERS, 9, &[0x88]).await,
        4 => server.send(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1]).await,
        5 => server.send(SETTINGS, 0, 0, &[0; 5]).await,
        6 => server.send(WINDOW_UPDATE, 0, 0, &[0; 4]).await,
        7 => server.send(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).await,
        8 => server.head(stream, 0, &[(":status", "abc")]).await,
        9 => server.head(stream, 0, &[(":status", "200"), ("a", "b\r\nc")]).await,
        10 => server.send(DATA, 0, 0, b"of no stream").await,
        11 => server.send(16, 0, 0, &[0, 0, 0, 1, b'u']).await,
        // Floods: each is ended long before it is over.
        12 => {
            server.send(HEADERS, 0, stream, &[]).await;
            while server.try_send(CONTINUATION, 0, stream, &[]).await {}
        }
        13 => while server.try_send(PING, 0, 0, &[0; 8]).await {},
        14 => while server.try_send(SETTINGS, 0, 0, &[]).await {},
        15 => while server.try_send(99, 0, 0, &[]).await {},
        16 => {
            server.head(stream, 0, &[(":status", "200")]).await;
            while server.try_send(DATA, 0, stream, &[]).await {}
        }
        17 => {
            // Interim responses without an end.
            let block = server.fields(&[(":status", "103")]);
            for _ in 0..200 {
                server.send(HEADERS, END_HEADERS, stream, &block).await;
            }
        }
        18 => {
            // A small block that stands for much.
            let long = "x".repeat(4000);
            let mut block = server.fields(&[(":status", "200"), ("bomb", &long)]);
            let again = server.fields(&[("bomb", &long)]);
            for _ in 0..1000 {
                block.extend_from_slice(&again);
            }
            server.send(HEADERS, END_HEADERS, stream, &block).await;
        }
        _ => return false,
    }
    true
}

#[tokio::test]
async fn a_server_that_misbehaves_gets_an_error_and_takes_nobody_with_it() {
    for how in 0..=18 {
        let (address, server) = serve(move |listener| async move {
            let mut server = Server::accept(&listener, &[]).await;
            let (stream, _) = server.request().await.expect("a request");
            let bad = tokio::spawn(async move {
                assert!(misbehave(&mut server, how, stream).await);
                server.code().await
            });
            let mut other = Server::accept(&listener, &[]).await;
            let (stream, _) = other.request().await.expect("a request");
            other.answer(stream, "fine").await;
            (bad, other)
        })
        .await;
        local(async move {
            let (pool, origin) = (Pool::new(), http2(address));
            let result = match get(&pool, &origin).await {
                Ok(response) => whole(response).await,
                Err(error) => Err(error),
            };
            let error = result.unwrap_err();
            assert_eq!(error.status(), 502, "{how}: {error}");
            // Whatever was wrong with one, another works.
            pool.close_idle(origin.id);
            assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "fine", "{how}");
            let (bad, other) = server.await.unwrap();
            // Where the server still wrote, the kernel may have thrown our word away.
            assert_ne!(bad.await.unwrap(), Some(0), "{how}");
            drop(other);
        })
        .await;
    }
}

#[tokio::test]
async fn a_connection_that_dies_is_opened_again_for_what_may_be_sent_twice() {
    let (address, _server) = serve(|listener| async move {
        for _ in 0..3 {
            let mut server = Server::accept(&listener, &[]).await;
            let (stream, _) = server.request().await.expect("a request");
            server.answer(stream, "one").await;
            // Gone with the next request, without a word.
            server.request().await.expect("a request");
        }
        let mut server = Server::accept(&listener, &[]).await;
        let (stream, _) = server.request().await.expect("a request");
        server.answer(stream, "four").await;
        server.code().await
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "one");
        // A GET goes to the next connection.
        assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "one");
        // What a server may have done is not done again.
        let error = send(&pool, &origin, "POST", WholeBody::new("x")).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Closed, "{error}");
        assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "one");
        let post = request("POST", "/");
        let error = exchange(&pool, &origin, &post, None, &mut |_| {}).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Closed, "{error}");
        assert_eq!(whole(get(&pool, &origin).await.unwrap()).await.unwrap(), "four");
    })
    .await;
}

#[tokio::test]
async fn many_that_wait_for_a_connection_that_cannot_be_had_fail_with_it() {
    let (address, server) = serve(|listener| async move { drop(listener) }).await;
    server.await.unwrap();
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let (a, b, c) = tokio::join!(get(&pool, &origin), get(&pool, &origin), get(&pool, &origin));
        for result in [a, b, c] {
            assert_eq!(result.unwrap_err().kind(), FailureKind::Refused);
        }
        assert_eq!(origin.stats.open.value(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_probe_asks_in_http2() {
    let (address, server) = serve(|listener| async move {
        for status in ["200", "503"] {
            let mut server = Server::accept(&listener, &[]).await;
            let (stream, fields) = server.request().await.expect("a request");
            assert!(fields.contains(&":path=/up".to_owned()), "{fields:?}");
            server.head(stream, END_STREAM, &[(":status", status)]).await;
        }
    })
    .await;
    let origin = http2(address);
    let settings = probe::ProbeSettings { target: "/up".into(), ..Default::default() };
    probe::probe(&origin, &settings).await.unwrap();
    let error = probe::probe(&origin, &settings).await.unwrap_err();
    assert!(matches!(error, probe::ProbeFailure::OriginStatus { got: 503, .. }), "{error}");
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_asked_by_a_ping_and_given_up() {
    let (address, server) = serve(|listener| async move {
        let mut server = Server::accept(&listener, &[]).await;
        server.request().await.expect("a request");
        let ping = server.next(PING).await.expect("a question");
        assert_eq!(ping.flags & ACK, 0);
        // It is there, for once.
        server.send(PING, ACK, 0, &ping.payload).await;
        server.code().await
    })
    .await;
    local(async move {
        let settings = settings(address);
        let mut timeouts = settings.timeouts;
        timeouts.first_byte = Duration::from_secs(600);
        let http = HttpVersion::Http2;
        let origin = Origin::new(OriginSettings { http, timeouts, ..settings }).unwrap();
        let pool = Pool::new();
        let error = get(&pool, &origin).await.unwrap_err();
        assert!(error.to_string().contains("PING"), "{error}");
        server.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_large_upload_waits_for_windows_and_is_all_there() {
    let (address, server) = serve(|listener| async move {
        // A window of 1000 bytes for each stream.
        let mut server = Server::accept(&listener, &[0, 4, 0, 0, 3, 232]).await;
        let (stream, fields) = server.request().await.expect("a request");
        let mut body = Vec::new();
        while body.len() < 300_000 {
            let frame = server.next(DATA).await.expect("a piece");
            let step = (frame.payload.len() as u32).to_be_bytes();
            body.extend(frame.payload);
            server.send(WINDOW_UPDATE, 0, stream, &step).await;
            server.send(WINDOW_UPDATE, 0, 0, &step).await;
        }
        server.answer(stream, "taken").await;
        (body, fields)
    })
    .await;
    local(async move {
        let (pool, origin) = (Pool::new(), http2(address));
        let text = Bytes::from((0..300_000_u32).map(|n| n as u8).collect::<Vec<_>>());
        let body = WholeBody::new(text.clone());
        let response = send(&pool, &origin, "PUT", body).await.unwrap();
        assert_eq!(whole(response).await.unwrap(), "taken");
        let (got, fields) = server.await.unwrap();
        assert!(got == text && fields.contains(&"content-length=300000".to_owned()));
    })
    .await;
}
