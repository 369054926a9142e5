//! Origins that misbehave, are slow or are gone, and what is said about them.

use crate::support::*;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::definition::{OriginAddress, Timeouts};
use freshet_origin::error::FailureKind;
use freshet_origin::health::{Health, PassiveRule};
use freshet_origin::request_body::WholeBody;
use freshet_origin::resolve::Resolver;
use freshet_origin::{Origin, OriginError, OriginSettings, exchange, pool::Pool};
use freshet_wire::h1::chunked::ChunkError;
use freshet_wire::h1::response::ResponseError;
use socket2::{SockFilter, SockRef};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// The error of an exchange whose answer this is, head or body.
async fn error_of(answer: &'static str) -> OriginError {
    let origin = serve_and_close(answer).await;
    let pool = Pool::new();
    let error = match get(&pool, &origin).await {
        Ok(mut response) => {
            let error = text(&mut response.body).await.unwrap_err();
            assert_eq!(response.body.read(&mut [0; 9]).await, Err(error.clone()));
            assert!(!response.body.is_ended());
            error
        }
        Err(error) => error,
    };
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
    assert_eq!(origin.stats.failures(error.kind()), 1);
    assert_eq!(origin.stats.in_flight.value(), 0);
    error
}

#[tokio::test]
async fn garbage_is_named_for_what_it_is() {
    let malformed = |reason| OriginError::OriginHeadMalformed { reason };
    assert_eq!(error_of("SSH-2.0-x\r\n").await, malformed(ResponseError::OriginVersionInvalid));
    assert_eq!(
        error_of("HTTP/1.1 2000 OK\r\n\r\n").await,
        malformed(ResponseError::OriginStatusInvalid)
    );
    assert_eq!(
        error_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").await,
        malformed(ResponseError::OriginContentLengthConflict)
    );
    assert_eq!(
        error_of("HTTP/1.1 101 Switching Protocols\r\n\r\n").await,
        OriginError::OriginUnaskedUpgrade
    );
    let broken = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n";
    let reason = ChunkError::SizeInvalid;
    assert_eq!(error_of(broken).await, OriginError::OriginBodyMalformed { reason });
}

/// As a machine that is gone once connections to it are there: segments with data are dropped before TCP sees
/// them, and nobody acknowledges them.
fn vanish(listener: &TcpListener) {
    // A SYN's header on loopback.
    const HEAD_BYTES_MAX: u32 = 40;
    // Classic BPF: the segment's length; return 0 bytes of it where that is greater, otherwise all.
    let filter = [
        SockFilter::new(0x80, 0, 0, 0),
        SockFilter::new(0x25, 0, 1, HEAD_BYTES_MAX),
        SockFilter::new(0x06, 0, 0, 0),
        SockFilter::new(0x06, 0, 0, u32::MAX),
    ];
    SockRef::from(listener).attach_filter(&filter).unwrap();
}

#[tokio::test]
async fn an_origin_whose_machine_is_gone_is_noticed_long_before_an_answer_is_late() {
    let (address, server) = serve(|listener| {
        vanish(&listener);
        async move { listener.accept().await.unwrap() }
    })
    .await;
    let timeouts = Timeouts { connect: Duration::from_millis(400), ..Timeouts::default() };
    let passive = PassiveRule { failures: 1, ..PassiveRule::default() };
    let origin = Origin::new(OriginSettings { timeouts, passive, ..settings(address) }).unwrap();
    let began = Instant::now();
    let error = get(&Pool::new(), &origin).await.unwrap_err();
    assert_eq!(error, OriginError::OriginVanished);
    assert!(error.is_unanswered() && !error.not_sent(), "it may have had the request");
    assert!(began.elapsed() < timeouts.first_byte / 2, "{:?}", began.elapsed());
    assert_eq!(origin.health.health(UnixMillis::now()), Health::Suspect);
    // The other end was there all the time.
    drop(server.await.unwrap());
}

#[tokio::test]
async fn what_is_cut_short_is_never_taken_for_whole() {
    let closed = |response_bytes| OriginError::OriginClosed { response_bytes };
    assert_eq!(error_of("").await, closed(0));
    assert_eq!(error_of("HTTP/1.1 200 OK\r\nA: b\r\n").await, closed(23));
    assert_eq!(
        error_of("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await,
        OriginError::OriginBodyIncomplete { received: 5, declared: Some(9) }
    );
    assert_eq!(
        error_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").await,
        OriginError::OriginBodyIncomplete { received: 5, declared: None }
    );
    assert_eq!(error_of("HTTP/1.1 103 Early Hints\r\n\r\n").await, closed(0));
}

#[tokio::test]
async fn floods_meet_their_limits() {
    let (address, _server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer(&format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(40_000))).await;
        Peer::accept(&listener).await.answer(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(101)).await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let reason = ResponseError::OriginHeadTooLarge;
    assert_eq!(get(&pool, &origin).await.unwrap_err(), OriginError::OriginHeadTooLarge { reason });
    let mut count = 0;
    let request = request("GET", "/");
    let error = exchange(&pool, &origin, &request, None, &mut |_| count += 1).await.unwrap_err();
    assert_eq!((error, count), (OriginError::OriginInterimFlood { interim_max: 100 }, 100));
}

#[tokio::test]
async fn a_failing_request_body_is_the_clients_fault_and_never_looks_whole() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        let mut all = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut peer.0, &mut all).await.unwrap();
        all
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut body = Pieces::chunked(&[], End::Fails);
    body.pieces = [Bytes::from(vec![b'x'; 100_000])].into();
    let error = send(&pool, &origin, "POST", body).await.unwrap_err();
    assert_eq!((error.status(), error.kind()), (400, FailureKind::ClientBody));
    assert!(error.to_string().contains("the client left"));
    let seen = server.await.unwrap();
    assert!(seen.len() > 100_000 && !seen.ends_with(b"0\r\n\r\n"));
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test]
async fn a_request_body_of_another_length_than_declared_is_refused() {
    for (length, complaint) in [(3, "longer than the 3 bytes"), (9, "after 4 of 9 bytes")] {
        let (address, _server) = serve(|listener| async move {
            let mut peer = Peer::accept(&listener).await;
            peer.head().await;
            peer.closed().await;
        })
        .await;
        let mut body = Pieces::chunked(&["four"], End::Clean);
        body.length = Some(length);
        let error = send(&Pool::new(), &origin(address), "PUT", body).await.unwrap_err();
        assert!(error.to_string().contains(complaint), "{error}");
    }
}

#[tokio::test]
async fn a_dead_reused_connection_is_replaced_once() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        // Closed with the next request on its way.
        peer.head().await.unwrap();
        drop(peer);
        let mut fresh = Peer::accept(&listener).await;
        let body = fresh.until("small").await.unwrap();
        fresh.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await;
        fresh.head().await.unwrap();
        drop(fresh);
        body
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    get(&pool, &origin).await.unwrap();
    // Idempotent, and the body is remembered.
    let response = send(&pool, &origin, "PUT", WholeBody::new("small")).await.unwrap();
    assert_eq!(response.head.status, 201);
    assert!(response.facts.retried && !response.facts.reused);
    assert_eq!((origin.stats.retries.value(), origin.stats.failures_sum()), (1, 0));
    // Not idempotent, and sent: nobody knows what the origin did with it.
    let error = send(&pool, &origin, "POST", WholeBody::new("small")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Closed);
    assert_eq!(origin.stats.retries.value(), 1);
    assert!(server.await.unwrap().ends_with("small"));
}

#[tokio::test]
async fn a_post_whose_body_nobody_touched_is_sent_again() {
    let (address, server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        peer.head().await.unwrap();
        drop(peer);
        let mut fresh = Peer::accept(&listener).await;
        fresh.answer("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n").await;
        fresh.closed().await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    get(&pool, &origin).await.unwrap();
    let body = Pieces::chunked(&[], End::Hangs);
    let response = send(&pool, &origin, "POST", body).await.unwrap();
    assert_eq!((response.head.status, response.facts.retried), (401, true));
    drop(response);
    server.await.unwrap();
}

#[tokio::test]
async fn a_timeout_notice_on_a_reused_connection_is_not_the_answer() {
    let (address, _server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        peer.answer("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
        let mut fresh = Peer::accept(&listener).await;
        fresh.answer("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    get(&pool, &origin).await.unwrap();
    // The second time it is on a fresh connection, and meant.
    let response = get(&pool, &origin).await.unwrap();
    assert_eq!((response.head.status, response.facts.retried), (408, true));
}

#[tokio::test(start_paused = true)]
async fn slowness_is_504_and_says_which_limit_was_met() {
    let (address, _server) = serve(|listener| async move {
        let mut peers = Vec::new();
        loop {
            let mut peer = Peer::accept(&listener).await;
            match peer.head().await.unwrap() {
                head if head.contains("/body ") => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await;
                }
                head if head.contains("/interim ") => {
                    peer.send("HTTP/1.1 102 Processing\r\n\r\n").await;
                }
                _ => peer.send("HTTP/1.1 200").await,
            }
            peers.push(peer);
        }
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let Timeouts { first_byte, between_bytes, .. } = origin.settings.timeouts;
    for target in ["/head", "/interim"] {
        let start = Instant::now();
        let request = request("GET", target);
        let error = exchange(&pool, &origin, &request, None, &mut |_| {}).await.unwrap_err();
        assert_eq!(error, OriginError::OriginFirstByteTimeout { limit: first_byte });
        assert!((first_byte..first_byte * 2).contains(&start.elapsed()));
    }
    let start = Instant::now();
    let request = request("GET", "/body");
    let mut response = exchange(&pool, &origin, &request, None, &mut |_| {}).await.unwrap();
    let error = text(&mut response.body).await.unwrap_err();
    assert_eq!(error, OriginError::OriginBodyTimeout { limit: between_bytes });
    assert_eq!((error.status(), response.body.received()), (504, 5));
    assert!((between_bytes..between_bytes * 2).contains(&start.elapsed()));
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_takes_nothing_is_a_write_timeout_and_a_slow_client_is_none() {
    let (address, _server) = serve(|listener| async move {
        let peer = Peer::accept(&listener).await;
        std::future::pending::<()>().await;
        drop(peer);
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    let mut endless = Pieces::chunked(&[], End::Clean);
    endless.pieces = vec![Bytes::from(vec![b'x'; 1 << 20]); 64].into();
    let error = send(&pool, &origin, "POST", endless).await.unwrap_err();
    let limit = origin.settings.timeouts.between_bytes;
    assert_eq!(error, OriginError::OriginWriteTimeout { limit });

    let silent = Pieces::chunked(&[], End::Hangs);
    let (address, _server) = serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        peer.head().await;
        peer.closed().await;
    })
    .await;
    let patient = crate::support::origin(address);
    let hour = Duration::from_secs(3600);
    let sending = send(&pool, &patient, "POST", silent);
    assert!(tokio::time::timeout(hour, sending).await.is_err(), "the client may be slow");
}

#[tokio::test]
async fn a_refused_connection_marks_the_origin_and_an_opened_one_clears_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (pool, origin) = (Pool::new(), origin(address));
    let now = UnixMillis::now;
    for _ in 0..3 {
        assert_eq!(origin.health.health(now()), Health::Up);
        let error = get(&pool, &origin).await.unwrap_err();
        assert_eq!(error, OriginError::OriginRefused { address: address.to_string() });
        assert!(error.not_sent());
    }
    assert_eq!(origin.health.health(now()), Health::Suspect);
    assert_eq!(origin.stats.failures(FailureKind::Refused), 3);
    let listener = TcpListener::bind(address).await.unwrap();
    let (answer, _) = tokio::join!(get(&pool, &origin), async {
        Peer::accept(&listener).await.answer("HTTP/1.1 204 No Content\r\n\r\n").await
    });
    assert_eq!(answer.unwrap().head.status, 204);
    assert_eq!(origin.health.health(now()), Health::Up);
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (address, _server) = serve_once("HTTP/1.1 204 No Content\r\n\r\n").await;
    let settings: OriginSettings = "http://origin.example".parse().unwrap();
    let addresses = vec![closed, address];
    let lookup = move |host: &str, port| {
        assert_eq!((host, port), ("origin.example", 80));
        Ok(addresses.clone())
    };
    let resolver = Resolver::new("origin.example", 80, Box::new(lookup));
    let origin = Origin::with_resolver(settings, Some(resolver)).unwrap();
    let response = get(&Pool::new(), &origin).await.unwrap();
    assert_eq!(response.facts.remote.and_then(|peer| peer.socket_address()), Some(address));
    assert_eq!(origin.stats.connects.value(), 1);
}

#[tokio::test]
async fn an_origin_that_comes_back_at_another_address_is_found_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let moved = Arc::new(std::sync::Mutex::new(closed));
    let at = Arc::clone(&moved);
    let lookup = move |_: &str, _| Ok(vec![*at.lock().unwrap()]);
    let resolver = Resolver::new("origin.example", 80, Box::new(lookup));
    // It was there until now, and the name with it.
    let asked = std::time::Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
    resolver.resolve(asked).await.unwrap();
    let settings: OriginSettings = "http://origin.example".parse().unwrap();
    let origin = Origin::with_resolver(settings, Some(resolver)).unwrap();
    let (address, _server) = serve_once("HTTP/1.1 204 No Content\r\n\r\n").await;
    *moved.lock().unwrap() = address;
    let response = get(&Pool::new(), &origin).await.unwrap();
    assert_eq!(response.facts.remote.and_then(|peer| peer.socket_address()), Some(address));
    assert_eq!(origin.stats.failures(FailureKind::Refused), 0);
}

#[tokio::test]
async fn a_name_without_an_address_is_502_with_the_name() {
    let address = OriginAddress::Name { host: "nowhere.example".into(), port: 80 };
    let resolver = Resolver::new(
        "nowhere.example",
        80,
        Box::new(|_, _| Err(std::io::Error::other("NXDOMAIN"))),
    );
    let origin = Origin::with_resolver(OriginSettings::new(address), Some(resolver)).unwrap();
    let error = get(&Pool::new(), &origin).await.unwrap_err();
    assert_eq!((error.status(), error.proxy_status().code()), (502, "dns_error"));
    assert!(
        error.to_string().contains("nowhere.example") && error.to_string().contains("NXDOMAIN")
    );
}

#[tokio::test]
async fn an_unknown_method_and_a_long_target_go_through_as_they_are() {
    let (address, server) =
        serve_once("HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n").await;
    let origin: Arc<Origin> = origin(address);
    let target = format!("/{}", "a".repeat(7000));
    let request =
        RequestHead { method: Method::from_name("M-SEARCH"), target, ..RequestHead::default() };
    let pool = Pool::new();
    exchange(&pool, &origin, &request, None, &mut |_| {}).await.unwrap();
    drop(pool);
    assert!(server.await.unwrap().starts_with("M-SEARCH /aaaa"));
}
