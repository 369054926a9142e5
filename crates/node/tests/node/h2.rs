//! HTTP/2 clients, in the clear with prior knowledge unless a test says otherwise.

use crate::client::{Client, get as get_1};
use crate::harness::{Setup, TestNode, pattern, run, until};
use crate::origin::{Origin, fresh, head, response};
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// A connection over `stream`.
pub(crate) async fn over(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    builder: Builder,
) -> SendRequest<Bytes> {
    let (send, connection) = builder.handshake(stream).await.unwrap();
    spawn_local(async move {
        let _ = connection.await;
    });
    send
}

pub(crate) async fn connect(node: &TestNode) -> SendRequest<Bytes> {
    connect_with(node, Builder::new()).await
}

async fn connect_with(node: &TestNode, builder: Builder) -> SendRequest<Bytes> {
    over(TcpStream::connect(node.address()).await.unwrap(), builder).await
}

fn request(method: &str, scheme: &str, target: &str, fields: &[(&str, &str)]) -> Request<()> {
    let uri = format!("{scheme}://example.test{target}");
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

pub(crate) async fn ask(
    client: &mut SendRequest<Bytes>,
    method: &str,
    target: &str,
) -> ResponseFuture {
    poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    client.send_request(request(method, "http", target, &[]), true).unwrap().0
}

pub(crate) async fn begin(
    client: &mut SendRequest<Bytes>,
    method: &str,
    fields: &[(&str, &str)],
) -> (ResponseFuture, SendStream<Bytes>) {
    poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    client.send_request(request(method, "http", "/u", fields), false).unwrap()
}

pub(crate) async fn answer(response: ResponseFuture) -> Result<Answer, h2::Error> {
    let (parts, mut stream) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        body.extend_from_slice(&bytes);
        stream.flow_control().release_capacity(bytes.len()).unwrap();
    }
    let trailers = stream.trailers().await?;
    Ok(Answer { status: parts.status.as_u16(), fields: parts.headers, body, trailers })
}

pub(crate) async fn get(client: &mut SendRequest<Bytes>, scheme: &str, target: &str) -> Answer {
    poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    let sent = client.send_request(request("GET", scheme, target, &[]), true).unwrap();
    answer(sent.0).await.unwrap()
}

#[test]
fn many_streams_of_one_connection_are_answered_together() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let mut waiting = Vec::new();
        for index in 0..100 {
            waiting.push((index, ask(&mut client, "GET", &format!("/{index}")).await));
        }
        // All are with the origin before one is answered.
        let mut asked = Vec::new();
        for _ in 0..100 {
            asked.push(origin.next().await);
        }
        for one in asked.iter().rev() {
            one.send(fresh(one.request.target()));
        }
        for (index, response) in waiting {
            let answer = answer(response).await.unwrap();
            assert_eq!(answer.body, format!("/{index}").into_bytes());
        }
        assert_eq!(node.count("requests_h2"), 100);
    });
}

#[test]
fn a_large_body_goes_through_small_windows() {
    run(async {
        let origin = Origin::serve(|_| fresh(pattern(1, 0..1_000_000)));
        let node = TestNode::before(&origin);
        let mut builder = Builder::new();
        builder.initial_window_size(1000).initial_connection_window_size(70_000);
        let mut client = connect_with(&node, builder).await;
        for _ in 0..2 {
            let answer = get(&mut client, "http", "/a").await;
            assert_eq!(answer.fields["content-length"], "1000000");
            assert!(answer.body == pattern(1, 0..1_000_000));
        }
    });
}

#[test]
fn whatever_a_client_sets_it_gets_the_same_bytes() {
    run(async {
        let origin = Origin::serve(|asked| {
            let bytes = asked.target()[1..].parse().unwrap();
            let fields: Vec<String> =
                (0..40).map(|at| format!("X-Field-{at}: {bytes} {}", "v".repeat(at))).collect();
            let mut fields: Vec<&str> = fields.iter().map(|field| &**field).collect();
            fields.push("Cache-Control: max-age=60");
            response("200 OK", &fields, pattern(bytes, 0..bytes))
        });
        let node = TestNode::before(&origin);
        for window in [70, 16_384, 65_535, 1 << 20] {
            for (frame, table) in [(16_384, 0), (16_385, 100), (1 << 20, 4096), (1 << 24, 65_536)] {
                let mut builder = Builder::new();
                builder.initial_window_size(window).max_frame_size(frame.min((1 << 24) - 1));
                builder.header_table_size(table);
                let mut client = connect_with(&node, builder).await;
                let mut waiting = Vec::new();
                for bytes in [1, 5000, 40_000, 0, 16_384] {
                    waiting.push((bytes, ask(&mut client, "GET", &format!("/{bytes}")).await));
                }
                for (bytes, response) in waiting {
                    let answer = answer(response).await.unwrap();
                    assert!(answer.body == pattern(bytes, 0..bytes), "{window} {frame} {table}");
                    assert_eq!(answer.fields["x-field-3"], format!("{bytes} vvv"));
                }
            }
        }
    });
}

#[test]
fn several_large_bodies_share_a_connection() {
    run(async {
        let origin = Origin::serve(|asked| {
            let seed = asked.target()[1..].parse().unwrap();
            fresh(pattern(seed, 0..700_000))
        });
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let mut tasks = Vec::new();
        for seed in 0..10_u64 {
            let response = ask(&mut client, "GET", &format!("/{seed}")).await;
            tasks.push(spawn_local(async move {
                answer(response).await.unwrap().body == pattern(seed, 0..700_000)
            }));
        }
        for task in tasks {
            assert!(task.await.unwrap());
        }
    });
}

#[test]
fn trailers_of_the_origin_are_trailers_of_the_stream() {
    run(async {
        let origin = Origin::serve(|asked| {
            let control = if asked.target() == "/kept" { "max-age=60" } else { "no-store" };
            let control = format!("Cache-Control: {control}");
            let mut bytes = head("200 OK", &[&control, "Transfer-Encoding: chunked"], None);
            bytes.extend_from_slice(b"5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n");
            bytes
        });
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        for target in ["/kept", "/kept", "/passed"] {
            let answer = get(&mut client, "http", target).await;
            assert_eq!(answer.body, b"hello");
            let trailers = answer.trailers.unwrap_or_else(|| panic!("none of {target}"));
            assert_eq!(trailers["x-sum"], "42");
        }
    });
}

#[test]
fn an_upload_arrives_whole_and_its_answer_comes_back() {
    run(async {
        let origin =
            Origin::serve(|asked| response("200 OK", &["Cache-Control: no-store"], &asked.body));
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let body = pattern(1, 0..3_000_000);
        let (response, mut stream) =
            begin(&mut client, "PUT", &[("content-length", "3000000")]).await;
        let sending = body.clone();
        spawn_local(async move {
            let mut rest = Bytes::from(sending);
            while !rest.is_empty() {
                stream.reserve_capacity(rest.len().min(65_536));
                let room = poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
                let part = rest.split_to(room.min(rest.len()));
                stream.send_data(part, rest.is_empty()).unwrap();
            }
        });
        assert!(answer(response).await.unwrap().body == body);
    });
}

#[test]
fn an_upload_over_the_limit_is_a_413() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).and("[limits]\nbody_bytes_max = \"1KB\"").start();
        let mut client = connect(&node).await;
        let (response, _stream) = begin(&mut client, "PUT", &[("content-length", "2000")]).await;
        assert_eq!(answer(response).await.unwrap().status, 413);
        let (response, mut stream) = begin(&mut client, "PUT", &[]).await;
        stream.send_data(Bytes::from(vec![0; 2000]), false).unwrap();
        assert_eq!(answer(response).await.unwrap().status, 413);
        assert_eq!(get(&mut client, "http", "/after").await.body, b"x");
    });
}

#[test]
fn an_upload_the_client_resets_ends_at_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let (response, mut stream) = begin(&mut client, "PUT", &[]).await;
        stream.send_data(Bytes::from_static(b"part"), false).unwrap();
        let mut asked = origin.next().await;
        assert!(asked.some_body().await.is_some());
        stream.send_reset(Reason::CANCEL);
        drop(response);
        asked.closed().await;
        // The connection goes on.
        let response = ask(&mut client, "GET", "/a").await;
        origin.next().await.send(fresh("x"));
        assert_eq!(answer(response).await.unwrap().body, b"x");
    });
}

#[test]
fn requests_that_are_malformed_reset_their_stream_only() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        for field in [("host", "other.test"), ("host", "a b")] {
            poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
            let request = request("GET", "http", "/a", &[field]);
            let (response, _) = client.send_request(request, true).unwrap();
            let error = answer(response).await.err().unwrap_or_else(|| panic!("{field:?}"));
            assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR), "{field:?}");
        }
        assert_eq!(get(&mut client, "http", "/a").await.body, b"x");
        assert_eq!((origin.count(), node.count("requests_refused")), (1, 2));
    });
}

#[test]
fn heads_over_the_limits_are_refused_with_a_status() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let limits = "[limits]\ntarget_bytes_max = \"1KB\"\nfields_max = 20";
        let node = Setup::of(&origin).and(limits).start();
        let mut client = connect(&node).await;
        let long = format!("/{}", "x".repeat(2000));
        assert_eq!(get(&mut client, "http", &long).await.status, 414);
        let names: Vec<String> = (0..30).map(|index| format!("x-{index}")).collect();
        let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let many = request("GET", "http", "/a", &fields);
        let (response, _) = client.send_request(many, true).unwrap();
        assert_eq!(answer(response).await.unwrap().status, 431);
        let value = "v".repeat(40_000);
        poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let large = request("GET", "http", "/a", &[("x-large", &value)]);
        let (response, _) = client.send_request(large, true).unwrap();
        assert_eq!(answer(response).await.unwrap().status, 431);
        assert_eq!(get(&mut client, "http", "/a").await.body, b"x");
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_client_that_cancels_within_a_body_leaves_the_fill_alone() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let first = ask(&mut client, "GET", "/a").await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(400_000)));
        asked.send(pattern(1, 0..100_000));
        let (_, mut stream) = first.await.unwrap().into_parts();
        assert!(stream.data().await.unwrap().is_ok());
        let second = ask(&mut client, "GET", "/a").await;
        drop(stream);
        node.counted("responses_aborted", 1).await;
        asked.send(pattern(1, 100_000..400_000));
        assert!(answer(second).await.unwrap().body == pattern(1, 0..400_000));
        assert!(get(&mut client, "http", "/a").await.body == pattern(1, 0..400_000));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_pass_whose_client_cancels_ends_at_the_origin() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let response = ask(&mut client, "POST", "/u").await;
        let mut asked = origin.next().await;
        drop(response);
        asked.closed().await;
        let response = ask(&mut client, "GET", "/a").await;
        origin.next().await.send(fresh("x"));
        assert_eq!(answer(response).await.unwrap().body, b"x");
    });
}

#[test]
fn a_client_that_only_resets_is_cut_off() {
    run(async {
        let origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let mut sent = 0;
        for index in 0..20_000 {
            if poll_fn(|cx| client.poll_ready(cx)).await.is_err() {
                break;
            }
            let request = request("GET", "http", &format!("/{index}"), &[]);
            let Ok((_, mut stream)) = client.send_request(request, false) else { break };
            sent += 1;
            stream.send_reset(Reason::CANCEL);
            tokio::task::yield_now().await;
        }
        assert!(sent < 20_000);
        node.counted("h2_goaway", 1).await;
        assert!(node.count("fetches") < 1000, "{} fetches", node.count("fetches"));
        assert!(origin.count() < 1000);
    });
}

#[test]
fn a_client_that_cancels_now_and_then_is_not_cut_off() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        for index in 0..300 {
            drop(ask(&mut client, "GET", &format!("/{index}")).await);
            for _ in 0..2 {
                assert_eq!(get(&mut client, "http", "/a").await.body, b"x");
            }
        }
        assert_eq!(node.count("h2_goaway"), 0);
    });
}

#[test]
fn early_hints_reach_clients_of_both_versions() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let hints = || head("103 Early Hints", &["Link: </style.css>; rel=preload"], None);
        let mut plain = Client::to(&node).await;
        plain.ask("GET", "/1", &[]).await;
        let asked = origin.next().await;
        asked.send(hints());
        let early = plain.head().await.unwrap();
        assert_eq!((early.status(), early.field("link")), (103, Some("</style.css>; rel=preload")));
        asked.send(fresh("x"));
        assert_eq!(plain.answer("GET").await.text(), "x");

        let mut client = connect(&node).await;
        let mut response = ask(&mut client, "GET", "/2").await;
        let asked = origin.next().await;
        asked.send(hints());
        let early = poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
        assert_eq!(early.status(), 103);
        assert_eq!(early.headers()["link"], "</style.css>; rel=preload");
        asked.send(fresh("y"));
        assert_eq!(answer(response).await.unwrap().body, b"y");
    });
}

#[test]
fn a_body_that_breaks_off_resets_the_stream_and_not_the_connection() {
    run(async {
        let mut origin = Origin::scripted();
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        let response = ask(&mut client, "GET", "/a").await;
        let asked = origin.next().await;
        asked.send(head("200 OK", &["Cache-Control: max-age=60"], Some(1000)));
        asked.send("abc");
        asked.close();
        let error = answer(response).await.err().unwrap();
        assert!(error.is_reset(), "{error}");
        let response = ask(&mut client, "GET", "/b").await;
        origin.next().await.send(fresh("x"));
        assert_eq!(answer(response).await.unwrap().body, b"x");
        until(|| node.objects() == 1).await;
    });
}

#[test]
fn head_over_http_2_has_a_length_and_no_body() {
    run(async {
        let origin = Origin::serve(|_| fresh("abcde"));
        let node = TestNode::before(&origin);
        let mut client = connect(&node).await;
        for _ in 0..2 {
            let response = ask(&mut client, "HEAD", "/a").await;
            let answer = answer(response).await.unwrap();
            assert_eq!((answer.status, answer.body.len()), (200, 0));
            assert_eq!(answer.fields["content-length"], "5");
        }
        assert_eq!(get_1(&node, "/a").await.text(), "abcde");
    });
}

#[test]
fn the_fields_of_a_connection_do_not_cross_versions() {
    run(async {
        let origin = Origin::serve(|_| {
            let fields = ["Connection: keep-alive, X-Hop", "Keep-Alive: timeout=5", "X-Hop: 1"];
            response("200 OK", &fields, "x")
        });
        let node = TestNode::before(&origin);
        let answer = get(&mut connect(&node).await, "http", "/a").await;
        for name in ["connection", "keep-alive", "x-hop", "transfer-encoding"] {
            assert!(!answer.fields.contains_key(name), "{name}");
        }
    });
}

#[test]
fn an_idle_connection_whose_client_is_silent_is_closed() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).and("[limits]\nidle_timeout = \"100ms\"").start();
        let mut stream = TcpStream::connect(node.address()).await.unwrap();
        // Preface and empty SETTINGS, then nothing: no acknowledgement, no PING back.
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        node.counted("connections_closed", 1).await;
    });
}

#[test]
fn an_idle_connection_is_told_to_go() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).and("[limits]\nidle_timeout = \"100ms\"").start();
        let mut client = connect(&node).await;
        assert_eq!(get(&mut client, "http", "/a").await.body, b"x");
        node.counted("connections_closed", 1).await;
    });
}

#[test]
fn a_stream_whose_client_opens_no_window_is_reset() {
    run(async {
        let origin = Origin::serve(|_| fresh(pattern(1, 0..1_000_000)));
        let node = Setup::of(&origin).and("[limits]\nsend_timeout = \"100ms\"").start();
        let mut client = connect(&node).await;
        let response = ask(&mut client, "GET", "/a").await;
        let (_, mut stream) = response.await.unwrap().into_parts();
        // Reads and never gives the window back.
        let error = loop {
            match stream.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("the whole body came through a closed window"),
            }
        };
        assert!(error.is_reset(), "{error}");
        assert_eq!(node.count("timeouts"), 1);
    });
}

/// A server of calls that answers before it is told anything, and then says again what it hears.
async fn echo(listener: TcpListener) {
    let (socket, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(socket).await.unwrap();
    while let Some(Ok((call, mut respond))) = connection.accept().await {
        // Servers of gRPC end the call of who does not say that trailers reach it.
        assert_eq!(call.headers().get("te").map(HeaderValue::as_bytes), Some(&b"trailers"[..]));
        let mut send = respond.send_response(Response::new(()), false).unwrap();
        let mut heard = call.into_body();
        spawn_local(async move {
            while let Some(Ok(data)) = heard.data().await {
                heard.flow_control().release_capacity(data.len()).unwrap();
                send.send_data(data, false).unwrap();
            }
            let status = [(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
            send.send_trailers(status.into_iter().collect()).unwrap();
        });
    }
}

#[test]
fn a_call_goes_both_ways_at_once_for_as_long_as_it_is_answered() {
    run(async {
        // A client that is answered may have nothing to say for longer than a body may keep us waiting.
        let limit = Duration::from_millis(100);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut setup = Setup::of(&Origin::scripted());
        let url = listener.local_addr().unwrap();
        setup.origins = format!("[[origin]]\nurl = \"http://{url}\"\nhttp = \"2\"\n");
        spawn_local(echo(listener));
        let node = setup.and("[limits]\nbody_timeout = \"100ms\"\n").start();
        let mut client = connect(&node).await;
        poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let fields = [("te", "trailers"), ("content-type", "application/grpc")];
        let call = request("POST", "http", "/chat.Chat/Talk", &fields);
        let (response, mut send) = client.send_request(call, false).unwrap();
        let (head, mut answer) = response.await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        for word in ["one", "two"] {
            tokio::time::sleep(limit * 2).await;
            send.send_data(word.into(), false).unwrap();
            assert_eq!(answer.data().await.unwrap().unwrap(), word);
        }
        send.send_data(Bytes::new(), true).unwrap();
        assert!(answer.data().await.is_none());
        assert_eq!(answer.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    });
}

#[test]
fn hyper_gets_bodies_in_both_versions() {
    run(async {
        let origin = Origin::serve(|_| fresh(pattern(1, 0..500_000)));
        let node = TestNode::before(&origin);
        let request = || {
            let request =
                Request::builder().uri("http://example.test/a").header("host", crate::client::HOST);
            request.body(String::new()).unwrap()
        };
        let io = TokioIo::new(TcpStream::connect(node.address()).await.unwrap());
        let (mut one, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        spawn_local(connection);
        let io = TokioIo::new(TcpStream::connect(node.address()).await.unwrap());
        let builder = hyper::client::conn::http2::Builder::new(Spawn);
        let (mut two, connection) = builder.handshake(io).await.unwrap();
        spawn_local(connection);
        for _ in 0..2 {
            let response = one.send_request(request()).await.unwrap();
            assert!(hyper_body(response.into_body()).await == pattern(1, 0..500_000));
            let response = two.send_request(request()).await.unwrap();
            assert!(hyper_body(response.into_body()).await == pattern(1, 0..500_000));
        }
        assert_eq!(origin.count(), 1);
    });
}

#[derive(Clone)]
struct Spawn;

impl<F: Future + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

async fn hyper_body(mut body: hyper::body::Incoming) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(frame) =
        poll_fn(|cx| hyper::body::Body::poll_frame(std::pin::Pin::new(&mut body), cx)).await
    {
        if let Ok(bytes) = frame.unwrap().into_data() {
            out.extend_from_slice(&bytes);
        }
    }
    out
}
