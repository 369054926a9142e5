//! Requests, responses and connections that are used again.

use crate::support::*;
use bytes::Bytes;
use freshet_http::message::Version;
use freshet_origin::error::FailureKind;
use freshet_origin::request_body::{BodyFailure, BodyProvider, WholeBody};
use freshet_origin::{OriginSettings, Waits, exchange, pool::Pool};
use freshet_wire::h1::Framing;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_connection_is_used_again_after_a_body_of_known_length() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        let first = peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
        peer.answer("HTTP/1.1 404 Gone Fishing\r\nContent-Length: 0\r\n\r\n").await;
        first
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut response = get(&pool, &origin).await.unwrap();
    assert_eq!((response.head.status, response.framing), (200, Framing::Length(5)));
    assert!(!response.facts.reused && response.facts.local.is_some());
    assert_eq!(response.facts.remote.and_then(|peer| peer.socket_address()), Some(address));
    assert_eq!(origin.stats.in_flight.value(), 1);
    assert_eq!(text(&mut response.body).await.unwrap(), "hello");
    assert!(response.body.is_ended());
    assert_eq!((origin.stats.in_flight.value(), pool.idle_len(origin.id)), (0, 1));
    let second = get(&pool, &origin).await.unwrap();
    assert_eq!((second.head.status, second.head.reason_phrase()), (404, "Gone Fishing"));
    assert!(second.facts.reused && !second.facts.retried);
    assert_eq!(server.await.unwrap(), "GET / HTTP/1.1\r\nHost: tv.example\r\n\r\n");
    let stats = &origin.stats;
    assert_eq!((stats.connects.value(), stats.reuses.value(), stats.requests.value()), (1, 1, 2));
    assert_eq!((stats.responses.value(), stats.failures_sum()), (2, 0));
    assert_eq!(stats.bytes_sent.value(), 2 * 36);
    assert_eq!(stats.bytes_received.value(), 43 + 48);
}

#[tokio::test]
async fn a_chunked_body_gives_content_and_trailers_and_the_connection_back() {
    let (address, _server) = serve_once(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n\
         5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nSum: 12\r\n\r\n",
    )
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut response = get(&pool, &origin).await.unwrap();
    assert_eq!((response.framing, response.body.declared()), (Framing::Chunked, None));
    assert_eq!(text(&mut response.body).await.unwrap(), "hello, world");
    assert_eq!(response.body.trailers().and_then(|fields| fields.get("sum")), Some(&b"12"[..]));
    assert_eq!((response.body.received(), pool.idle_len(origin.id)), (12, 1));
}

#[tokio::test]
async fn a_body_until_the_close_ends_with_it_and_nothing_is_kept() {
    let origin = serve_and_close("HTTP/1.0 200 OK\r\n\r\nall of it").await;
    let pool = Pool::new();
    let mut response = get(&pool, &origin).await.unwrap();
    assert_eq!(response.head.version, Version::Http10);
    assert_eq!(text(&mut response.body).await.unwrap(), "all of it");
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn responses_without_a_body_free_the_connection_when_they_are_released() {
    let (address, _server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n").await;
        peer.answer("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n").await;
        peer.answer("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        peer.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut head =
        exchange(&pool, &origin, &request("HEAD", "/"), None, &mut |_| {}).await.unwrap();
    assert_eq!((head.framing, pool.idle_len(origin.id)), (Framing::None, 0));
    head.body.release();
    assert_eq!(pool.idle_len(origin.id), 1);
    assert_eq!(get(&pool, &origin).await.unwrap().head.status, 304);
    assert_eq!(pool.idle_len(origin.id), 1);
    assert_eq!(get(&pool, &origin).await.unwrap().head.status, 204);
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn bytes_behind_a_response_cost_the_connection() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore",
    ] {
        let (address, _server) = serve_once(answer).await;
        let (pool, origin) = (Pool::new(), origin(address));
        let mut response = get(&pool, &origin).await.unwrap();
        assert_eq!(text(&mut response.body).await.unwrap(), "ok");
        assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
    }
}

#[tokio::test]
async fn interim_responses_are_handed_on_as_they_come() {
    let (address, _server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer(
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        )
        .await;
        // The final response comes only when the interim ones have arrived.
        assert_eq!(peer.until("go").await.as_deref(), Some("go"));
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        peer.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut seen = Vec::new();
    let gate = Gate::default();
    let body = gate.body("go");
    let mut on_interim = |head: freshet_http::message::ResponseHead| {
        seen.push((head.status, head.fields.contains("link")));
        if head.status == 103 {
            gate.open();
        }
    };
    let request = request("POST", "/");
    let response = exchange(&pool, &origin, &request, Some(Box::new(body)), &mut on_interim).await;
    let response = response.unwrap();
    assert_eq!((response.head.status, response.head.fields.contains("link")), (200, false));
    assert_eq!(seen, [(102, false), (103, true)]);
    drop(response);
    assert_eq!(pool.idle_len(origin.id), 1);
}

/// A body that is there once the gate is open, as after `100 Continue`.
#[derive(Clone, Default)]
struct Gate(Rc<(Cell<bool>, Cell<Option<Waker>>)>);

impl Gate {
    fn open(&self) {
        self.0.0.set(true);
        if let Some(waker) = self.0.1.take() {
            waker.wake();
        }
    }

    fn body(&self, text: &'static str) -> GatedBody {
        GatedBody { gate: self.clone(), whole: Some(WholeBody::new(text)) }
    }

    /// One that breaks off when the gate opens.
    fn failing(&self) -> GatedBody {
        GatedBody { gate: self.clone(), whole: None }
    }
}

struct GatedBody {
    gate: Gate,
    whole: Option<WholeBody>,
}

impl BodyProvider for GatedBody {
    fn length(&self) -> Option<u64> {
        self.whole.as_ref().and_then(WholeBody::length)
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyFailure>> {
        if !self.gate.0.0.get() {
            self.gate.0.1.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        match &mut self.whole {
            Some(whole) => whole.poll_piece(cx),
            None => Poll::Ready(Err(BodyFailure { reason: "it broke off".into() })),
        }
    }
}

#[tokio::test]
async fn request_bodies_are_sent_by_length_or_in_chunks_with_trailers() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        let mut seen = peer.until("whole").await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        seen += &peer.until("0\r\nSum: 5\r\n\r\n").await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        seen += &peer.head().await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        seen
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    send(&pool, &origin, "POST", WholeBody::new("whole")).await.unwrap();
    let mut chunked = Pieces::chunked(&["ab", "", "cde"], End::Clean);
    chunked.trailers = Some([("Sum", "5")].into_iter().collect());
    send(&pool, &origin, "PUT", chunked).await.unwrap();
    send(&pool, &origin, "POST", WholeBody::new("")).await.unwrap();
    assert_eq!(
        server.await.unwrap(),
        "POST / HTTP/1.1\r\nHost: tv.example\r\nContent-Length: 5\r\n\r\nwhole\
         PUT / HTTP/1.1\r\nHost: tv.example\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nab\r\n3\r\ncde\r\n0\r\nSum: 5\r\n\r\n\
         POST / HTTP/1.1\r\nHost: tv.example\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!((origin.stats.connects.value(), pool.idle_len(origin.id)), (1, 1));
}

#[tokio::test]
async fn the_end_of_an_early_response_ends_the_sending_and_the_connection() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig").await;
        peer.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let body = Pieces::chunked(&["some"], End::Hangs);
    let mut response = send(&pool, &origin, "POST", body).await.unwrap();
    assert_eq!(response.head.status, 413);
    assert_eq!(text(&mut response.body).await.unwrap(), "big");
    server.await.unwrap();
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn what_is_left_of_a_body_is_sent_while_the_response_comes() {
    // More than sockets take.
    const PIECES: usize = 400;
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.head().await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n").await;
        let mut all = Vec::new();
        while !all.ends_with(b"\r\n0\r\n\r\n") {
            let mut part = vec![0; 65_536];
            let count = peer.0.read(&mut part).await.unwrap();
            assert_ne!(count, 0, "the body broke off after {} bytes", all.len());
            all.extend_from_slice(&part[..count]);
        }
        peer.send("3\r\nend\r\n0\r\n\r\n").await;
        all.len()
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut body = Pieces::chunked(&[], End::Clean);
    body.pieces = vec![Bytes::from(vec![b'x'; 100_000]); PIECES].into();
    let mut response = send(&pool, &origin, "POST", body).await.unwrap();
    assert_eq!(text(&mut response.body).await.unwrap(), "earlyend");
    assert!(server.await.unwrap() > PIECES * 100_000);
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn a_client_that_breaks_off_within_an_early_response_breaks_it_off() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.head().await.unwrap();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n").await;
        peer.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let gate = Gate::default();
    let body = gate.failing();
    let mut response = send(&pool, &origin, "POST", body).await.unwrap();
    gate.open();
    let error = text(&mut response.body).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::ClientBody);
    server.await.unwrap();
}

#[tokio::test]
async fn a_refusal_is_delivered_although_the_origin_stopped_reading_and_closed() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        // Half of the connection: what comes in is refused with a reset from now on.
        peer.head().await.unwrap();
        peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let body = Pieces::chunked(&["x"], End::Hangs);
    let response = send(&pool, &origin, "POST", body).await;
    server.await.unwrap();
    // A reset may overtake the response; both ends are allowed, hanging is not.
    match response {
        Ok(response) => assert_eq!(response.head.status, 403),
        Err(error) => assert_eq!(error.proxy_status().code(), "connection_terminated"),
    }
}

#[tokio::test]
async fn switching_protocols_hands_over_the_stream_with_what_was_read_ahead() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        let head = peer
            .answer(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\n\r\nfirst frame",
            )
            .await;
        assert_eq!(peer.until("ping").await.as_deref(), Some("ping"));
        peer.send("pong").await;
        head
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut request = request("GET", "/chat");
    request.fields.append("Upgrade", "websocket");
    let response = exchange(&pool, &origin, &request, None, &mut |_| {}).await.unwrap();
    assert_eq!(response.head.status, 101);
    let raw = response.upgraded.unwrap();
    assert_eq!(raw.read_ahead(), b"first frame");
    assert_eq!((origin.stats.in_flight.value(), origin.stats.open.value()), (1, 1));
    let (mut reader, mut writer) = raw.into_halves();
    writer.write_all(b"ping").await.unwrap();
    let mut all = String::new();
    reader.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "first framepong");
    assert!(server.await.unwrap().contains("Connection: Upgrade\r\n"));
    drop((reader, writer));
    assert_eq!((origin.stats.in_flight.value(), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn a_pipe_takes_an_idle_connection() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        peer.until("raw").await
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    get(&pool, &origin).await.unwrap();
    let mut raw =
        freshet_origin::raw::connect_raw(&pool, &origin, None, Waits::default()).await.unwrap();
    raw.write_all(b"raw").await.unwrap();
    assert_eq!(server.await.unwrap().as_deref(), Some("raw"));
}

#[tokio::test]
async fn host_is_the_requests_the_configured_one_or_the_address() {
    for (configured, authority, want) in [
        (None, "tv.example", Some("tv.example")),
        (Some("in.example"), "tv.example", Some("in.example")),
        (None, "", None),
    ] {
        let (address, server) = serve_once("HTTP/1.1 204 No Content\r\n\r\n").await;
        let settings =
            OriginSettings { host_header: configured.map(Into::into), ..settings(address) };
        let origin = freshet_origin::Origin::new(settings).unwrap();
        let request = freshet_http::message::RequestHead {
            authority: authority.into(),
            ..request("GET", "/")
        };
        let pool = Pool::new();
        exchange(&pool, &origin, &request, None, &mut |_| {}).await.unwrap();
        pool.close_idle(origin.id);
        let want = want.map_or_else(|| address.to_string(), Into::into);
        assert!(server.await.unwrap().contains(&format!("Host: {want}\r\n")));
    }
}

#[tokio::test]
async fn an_origin_that_hears_its_own_address_leads_clients_by_paths() {
    let led_to = async |host: fn(SocketAddr) -> String, place: fn(SocketAddr) -> String| {
        let (address, _server) = serve(move |listener| async move {
            let at = listener.local_addr().unwrap();
            let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ";
            let mut peer = Peer::accept(&listener).await;
            peer.answer(&format!("{head}{}\r\n\r\n", place(at))).await;
            peer.closed().await;
        })
        .await;
        let settings = OriginSettings { host_header: Some(host(address)), ..settings(address) };
        let origin = freshet_origin::Origin::new(settings).unwrap();
        let pool = Pool::new();
        let response = get(&pool, &origin).await.unwrap();
        response.head.fields.get_str("location").unwrap().replace(&address.to_string(), "ORIGIN")
    };
    let own = |at: SocketAddr| at.to_string();
    assert_eq!(led_to(own, |at| format!("http://{at}/login?a")).await, "/login?a");
    // Another scheme is another server, and a name that somebody chose is one that clients may have.
    assert_eq!(led_to(own, |at| format!("https://{at}/a")).await, "https://ORIGIN/a");
    let other = |_| "www.example".to_owned();
    assert_eq!(led_to(other, |_| "http://www.example/a".into()).await, "http://www.example/a");
}

#[tokio::test]
async fn a_dropped_body_closes_its_connection_and_a_short_one_can_be_discarded() {
    for discard in [false, true] {
        let answer = "HTTP/1.1 500 Oops\r\nContent-Length: 20\r\n\r\n01234567890123456789";
        let (address, server) = serve_once(answer).await;
        let (pool, origin) = (Pool::new(), origin(address));
        let mut response = get(&pool, &origin).await.unwrap();
        response.body.read(&mut [0; 3]).await.unwrap();
        if discard {
            response.body.discard().await;
        } else {
            drop(response);
        }
        assert_eq!(pool.idle_len(origin.id), usize::from(discard));
        assert_eq!(origin.stats.in_flight.value(), 0);
        drop(pool);
        server.await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_exchange_closes_its_connection() {
    let (arrived, arrival) = tokio::sync::oneshot::channel();
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        arrived.send(peer.head().await).unwrap();
        peer.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    tokio::select! {
        _ = get(&pool, &origin) => panic!("nobody answers"),
        head = arrival => assert!(head.unwrap().is_some()),
    }
    server.await.unwrap();
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
    assert_eq!((origin.stats.in_flight.value(), origin.stats.bytes_sent.value()), (0, 36));
}

#[tokio::test]
async fn a_unix_socket_is_an_origin_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("origin.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = [0; 512];
        let count = socket.read(&mut head).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8_lossy(&head[..count]).into_owned()
    });
    let settings: OriginSettings = format!("unix:{}", path.display()).parse().unwrap();
    let origin = freshet_origin::Origin::new(settings).unwrap();
    let mut response = get(&Pool::new(), &origin).await.unwrap();
    assert_eq!(text(&mut response.body).await.unwrap(), "ok");
    assert!(server.await.unwrap().contains("Host: tv.example"));
}
