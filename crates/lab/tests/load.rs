//! The load generator against real servers on loopback: what it counts is what they sent.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use bytes::Bytes;
use freshet_lab::origin::{self, Origin};
use freshet_load::LabError;
use freshet_load::measurement::{HitSource, Measurement};
use freshet_load::observe::{Observer, Power, PowerSource};
use freshet_load::target::Target;
use freshet_load::workload::{Draw, Workload};
use freshet_load::{Load, Pace, Progress, Protocol, run};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn origin() -> Arc<Origin> {
    Arc::new(Origin::start(origin::Settings::default()).unwrap())
}

fn load(address: SocketAddr, workload: Workload) -> Load {
    let target = Target::parse(&format!("http://{address}"), false).unwrap();
    let mut load = Load::new(target, workload);
    load.connections = 4;
    load
}

fn measure(load: Load, observer: &mut Observer) -> Measurement {
    run(load, observer, &mut |_| true).unwrap()
}

#[test]
fn bytes_and_requests_agree_with_the_origins_own_count_exactly() {
    let origin = origin();
    let workload = Workload::default()
        .session(2.0, false, &[("100 KB", "/download/100KB/{1-50}")])
        .unwrap()
        .session(1.0, false, &[("3 MB", "/download/3MB/{1-5}")])
        .unwrap();
    let mut load = load(origin.address(), workload);
    load.requests_max = Some(200);
    load.threads = 2;
    load.check_one_in = 7;
    load.known_content = Some(origin.known_content());
    let mut observer =
        Observer { origin: Some(Arc::<Origin>::clone(&origin)), ..Observer::default() };
    let measured = measure(load, &mut observer);
    assert_eq!(measured.cut_short, None);
    assert_eq!(measured.errors.total(), 0, "{:?}", measured.errors);
    assert_eq!(measured.requests_in_all, 200);
    let totals = origin.totals();
    assert_eq!(totals.requests, 200);
    assert_eq!(measured.received_bytes_in_all, totals.body_bytes);
    let by_class: u64 = measured.classes.iter().map(|class| class.body_bytes).sum();
    assert_eq!(by_class, totals.body_bytes);
    assert_eq!(measured.hit_source, HitSource::Origin);
    assert_eq!((measured.byte_hit_ratio, measured.hit_ratio), (Some(0.0), Some(0.0)));
    assert!(measured.checked >= 20, "{}", measured.checked);
    let tcp = measured.tcp.unwrap();
    assert_eq!(tcp.received_bytes, totals.body_bytes + measured.head_bytes);
}

#[test]
fn a_timed_load_has_figures_for_each_interval() {
    let origin = origin();
    let workload = Workload::single("1 MB", "/download/1MB/{1-10}").unwrap();
    let mut load = load(origin.address(), workload);
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_secs(1);
    load.interval = Duration::from_millis(100);
    let mut observer =
        Observer { origin: Some(Arc::<Origin>::clone(&origin)), ..Observer::default() };
    let measured = measure(load, &mut observer);
    assert!(measured.requests > 0);
    assert!(measured.series.at_s.len() >= 2, "{:?}", measured.series.at_s);
    assert_eq!(measured.first_byte.count, measured.requests);
    assert!(measured.first_byte.mean_us <= measured.last_byte.mean_us);
    // What came before the measuring is not in it.
    assert!(measured.received_bytes_in_all <= origin.totals().body_bytes);
}

#[test]
fn sessions_share_variables_and_close_their_connections() {
    let origin = origin();
    let workload = Workload::default()
        .variable("n", Draw::Sequence { first: 1, divide: 1, modulo: 10 })
        .unwrap()
        .session(1.0, true, &[("a", "/download/1KB/{n}"), ("b", "/download/2KB/{n}")])
        .unwrap();
    let mut load = load(origin.address(), workload);
    load.connections = 1;
    load.requests_max = Some(20);
    let measured = measure(load, &mut Observer::default());
    assert_eq!((measured.requests, measured.errors.total()), (20, 0));
    assert_eq!(measured.connections_made, 10);
    // One more for the knock at the door.
    assert_eq!(origin.totals().connections, 11);
    assert_eq!(measured.body_bytes, 10 * 3000);
}

#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    // Answers every request after 30 ms, on one connection: half of what is due can be done.
    let address = canned_after(Duration::from_millis(30), HI, false);
    let mut load = load(address, Workload::single("a", "/").unwrap());
    load.connections = 1;
    load.pace = Pace::Open { per_second: 100.0, is_random: false };
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_millis(1500);
    load.interval = Duration::from_millis(100);
    load.drain = Duration::from_millis(100);
    let measured = measure(load, &mut Observer::default());
    assert!(measured.late_arrivals > 0);
    // Each request that was due is answered for, and those that were while the connection was made.
    let due = measured.due.unwrap();
    assert!((140..=151).contains(&due), "{due}");
    assert!(measured.asked >= due, "{due} {}", measured.asked);
    assert_eq!(measured.last_byte.count, measured.asked);
    assert!(measured.errors.unserved > due / 2, "{:?}", measured.errors);
    assert_eq!(measured.errors.total(), measured.errors.unserved);
    assert!(!measured.keeps_up());
    // The n-th request is done 30·n ms after the start but was due 10·n ms after it: a closed loop
    // would say 30 ms for all of them.
    assert!(measured.last_byte.max_us > 100_000, "{:?}", measured.last_byte);
    assert!(measured.last_byte.p50_us > 60_000, "{:?}", measured.last_byte);
}

#[test]
fn requests_that_are_never_answered_are_failures_that_took_their_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let workload = Workload::default().session(1.0, true, &[("a", "/a"), ("b", "/b")]).unwrap();
    let mut load = load(listener.local_addr().unwrap(), workload);
    load.pace = Pace::Open { per_second: 50.0, is_random: false };
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_millis(400);
    load.drain = Duration::from_millis(100);
    let measured = measure(load, &mut Observer::default());
    // The second request of a session is due with it.
    let due = measured.due.unwrap();
    assert!((36..=42).contains(&due), "{due}");
    let asked = measured.asked;
    assert!(asked >= due, "{due} {asked}");
    assert_eq!((measured.requests, measured.errors.unserved), (0, asked));
    assert_eq!(measured.failed_share(), 1.0);
    let [a, b] = [&measured.classes[0], &measured.classes[1]];
    assert_eq!((a.last_byte.count, b.last_byte.count), (asked / 2, asked / 2));
    assert!(measured.last_byte.max_us > 400_000, "{:?}", measured.last_byte);
}

#[test]
fn answers_that_come_behind_the_end_count_with_their_time() {
    // One connection is answered 300 ms late, behind the measured time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _knock = listener.accept();
        let Ok((mut stream, _)) = listener.accept() else { return };
        std::thread::sleep(Duration::from_millis(300));
        let mut request = [0; 4096];
        while stream.read(&mut request).is_ok_and(|count| count > 0) {
            if stream.write_all(HI).is_err() {
                return;
            }
        }
    });
    let mut load = load(address, Workload::single("a", "/").unwrap());
    load.connections = 1;
    load.pace = Pace::Open { per_second: 50.0, is_random: false };
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_millis(200);
    let measured = measure(load, &mut Observer::default());
    let due = measured.due.unwrap();
    assert_eq!((measured.requests, measured.errors.total()), (0, 0));
    assert!(measured.asked >= due, "{due} {}", measured.asked);
    assert_eq!(measured.last_byte.count, measured.asked);
    assert!(measured.last_byte.max_us > 250_000, "{:?}", measured.last_byte);
    assert!(!measured.keeps_up());
}

#[test]
fn power_is_that_of_the_measured_time_and_not_of_what_is_waited_for() {
    // Each answer takes as long as the load, so that the last come well behind its end.
    let address = canned_after(Duration::from_millis(550), HI, false);
    let folder = tempfile::tempdir().unwrap();
    let meter = folder.path().join("watts");
    std::fs::write(&meter, "100").unwrap();
    let power = Power::find(&PowerSource::File(meter)).unwrap();
    let mut observer = Observer { power: Some(power), ..Observer::default() };
    let mut load = load(address, Workload::single("a", "/").unwrap());
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_millis(600);
    let watts = measure(load, &mut observer).power.unwrap().watts;
    assert!((90.0..110.0).contains(&watts), "{watts}");
}

#[test]
fn http2_takes_as_many_requests_at_a_time_as_it_is_told() {
    let address = http2_server();
    let workload = Workload::default()
        .session(1.0, false, &[("small", "/10?{1-1000}")])
        .unwrap()
        .session(1.0, false, &[("large", "/300000")])
        .unwrap();
    let mut load = load(address, workload);
    (load.protocol, load.streams, load.connections) = (Protocol::Http2, 8, 2);
    load.requests_max = Some(500);
    load.check_one_in = 5;
    let measured = measure(load, &mut Observer::default());
    assert_eq!(measured.errors.total(), 0, "{:?} {:?}", measured.errors, measured.violation);
    assert_eq!(measured.requests, 500);
    let expected: u64 = measured.classes[0].requests * 10 + measured.classes[1].requests * 300_000;
    assert_eq!(measured.body_bytes, expected);
    assert_eq!(measured.byte_hit_ratio, Some(1.0));
    assert_eq!(measured.connections_made, 2);
}

#[test]
fn sessions_close_their_connections_over_http2_too() {
    let workload = Workload::default().session(1.0, true, &[("a", "/10"), ("b", "/20")]).unwrap();
    let mut load = load(http2_server(), workload);
    (load.protocol, load.connections) = (Protocol::Http2, 1);
    load.requests_max = Some(20);
    let measured = measure(load, &mut Observer::default());
    assert_eq!((measured.requests, measured.errors.total()), (20, 0), "{:?}", measured.errors);
    assert_eq!(measured.connections_made, 10);
}

/// An HTTP/2 server on hyper that answers `/N` with N bytes.
fn http2_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        });
    });
    address
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full>, Infallible> {
    let length = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    let body = Full(Some(Bytes::from(vec![7; length])));
    let response = Response::builder().header("cache-status", "test; hit; ttl=1").body(body);
    Ok(response.unwrap())
}

struct Full(Option<Bytes>);

impl hyper::body::Body for Full {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(hyper::body::Frame::data(bytes))))
    }
}

/// A short answer.
const HI: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// A server that answers with these bytes to every request, and then closes when told.
fn canned(answer: &'static [u8], close: bool) -> SocketAddr {
    canned_after(Duration::ZERO, answer, close)
}

/// One that takes so long for each.
fn canned_after(pause: Duration, answer: &'static [u8], close: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    std::thread::sleep(pause);
                    if stream.write_all(answer).is_err() || close {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn framings_other_than_a_length_are_understood() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Cache: HIT\r\n\r\n\
                    5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\n\r\n";
    let until_close = b"HTTP/1.1 200 OK\r\nX-Cache: MISS\r\n\r\n12345678";
    for (answer, close, hits) in [(&chunked[..], false, 1.0), (&until_close[..], true, 0.0)] {
        let mut load = load(canned(answer, close), Workload::single("a", "/").unwrap());
        load.requests_max = Some(30);
        load.check_one_in = 3;
        let measured = measure(load, &mut Observer::default());
        assert_eq!(measured.errors.total(), 0, "{:?} {:?}", measured.errors, measured.violation);
        assert_eq!((measured.requests, measured.body_bytes), (30, 240));
        assert_eq!(measured.byte_hit_ratio, Some(hits));
    }
}

#[test]
fn servers_that_break_http_or_close_early_are_counted_and_named() {
    let twice = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more";
    let mut load = load(canned(twice, false), Workload::single("a", "/").unwrap());
    load.requests_max = Some(10);
    let measured = measure(load, &mut Observer::default());
    assert_eq!(measured.requests, 0);
    assert!(measured.errors.protocol >= 10, "{:?}", measured.errors);
    assert!(measured.violation.unwrap().contains("behind the end"));

    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi";
    let mut load = self::load(canned(short, true), Workload::single("a", "/").unwrap());
    load.requests_max = Some(10);
    let measured = measure(load, &mut Observer::default());
    assert_eq!((measured.requests, measured.errors.closed), (0, 10), "{:?}", measured.errors);
    assert!(measured.cut_short.is_some());
}

/// A server that answers the first request of each connection and then does this with it.
fn tires_after_one(end: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                if stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    // It leaves with what comes next, be that only the end.
                    let flags = rustix::net::SendFlags::MORE;
                    let _ = rustix::net::send(&stream, HI, flags);
                    end(stream);
                }
            });
        }
    });
    address
}

#[test]
fn a_server_that_drops_what_it_has_read_fails_and_one_that_closes_before_does_not() {
    let ten = |end| {
        let mut load = load(tires_after_one(end), Workload::single("a", "/").unwrap());
        (load.connections, load.requests_max) = (1, Some(10));
        measure(load, &mut Observer::default())
    };
    // Closed with bytes that nobody has read, a connection is reset.
    let reset = |mut stream: TcpStream| {
        stream.set_nodelay(true).unwrap();
        let _ = stream.read(&mut [0; 1]);
    };
    let read = |mut stream: TcpStream| {
        stream.set_nodelay(true).unwrap();
        let _ = stream.read(&mut [0; 4096]);
        std::thread::sleep(Duration::from_millis(30));
    };
    for end in [reset as fn(TcpStream), read] {
        let found = ten(end);
        assert_eq!((found.requests, found.errors.closed, found.asked_again), (5, 5, 0));
        assert_eq!((found.asked, found.failed_share()), (10, 0.5));
    }
    let closed = ten(drop);
    assert_eq!((closed.requests, closed.errors.total()), (10, 0), "{:?}", closed.errors);
    assert_eq!(closed.connections_made, 10);
}

#[test]
fn content_that_changes_under_one_path_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let _knock = listener.accept();
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut request = [0; 4096];
        let mut number = 0_u8;
        while stream.read(&mut request).is_ok_and(|count| count > 0) {
            number += 1;
            let body = if number < 8 { "right" } else { "wrong" };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut load = load(address, Workload::single("a", "/a").unwrap());
    load.connections = 1;
    load.requests_max = Some(10);
    load.check_one_in = 1;
    let measured = measure(load, &mut Observer::default());
    assert_eq!((measured.checked, measured.errors.content), (10, 3));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let load = load(free, Workload::single("a", "/").unwrap());
    let error = run(load, &mut Observer::default(), &mut |_| true).unwrap_err();
    assert!(matches!(error, LabError::TargetSilent { .. }), "{error}");
    assert!(error.to_string().contains("Does the server run"), "{error}");
}

#[test]
fn a_server_that_dies_ends_the_load_with_what_there_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let _knock = listener.accept();
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut request = [0; 4096];
        for _ in 0..50 {
            if stream.read(&mut request).is_ok_and(|count| count > 0) {
                let _ = stream.write_all(HI);
            }
        }
    });
    let mut load = load(address, Workload::single("a", "/").unwrap());
    load.connections = 1;
    load.requests_max = Some(1_000_000);
    load.duration = Duration::from_secs(60);
    let measured = measure(load, &mut Observer::default());
    server.join().unwrap();
    assert!(measured.cut_short.unwrap().contains("stopped answering"));
    assert_eq!(measured.requests, 50);
    assert!(measured.errors.connect > 0);
    assert!(measured.seconds < 30.0, "{}", measured.seconds);
}

#[test]
fn an_interrupted_load_keeps_what_was_measured() {
    let origin = origin();
    let mut load = load(origin.address(), Workload::single("a", "/download/1KB/a").unwrap());
    load.warmup = Duration::ZERO;
    load.duration = Duration::from_secs(600);
    load.interval = Duration::from_millis(50);
    let stop = Arc::new(AtomicBool::new(false));
    load.stop = Arc::clone(&stop);
    let measured = run(load, &mut Observer::default(), &mut |progress: &Progress| {
        if progress.requests_per_second > 0.0 {
            stop.store(true, Ordering::Relaxed);
        }
        true
    })
    .unwrap();
    assert_eq!(measured.cut_short.as_deref(), Some("it was interrupted"));
    assert!(measured.requests > 0);
}

#[test]
fn settings_out_of_bounds_are_named() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let refused = |change: fn(&mut Load)| {
        let mut load = load(address, Workload::single("a", "/").unwrap());
        change(&mut load);
        match run(load, &mut Observer::default(), &mut |_| true) {
            Err(LabError::ConfigSetting { setting, .. }) => setting,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|load| load.connections = 0), "connections");
    assert_eq!(refused(|load| load.threads = 5), "threads");
    assert_eq!(refused(|load| load.duration = Duration::ZERO), "duration");
    assert_eq!(refused(|load| load.timeout = Duration::ZERO), "timeout");
    assert_eq!(
        refused(|load| load.pace = Pace::Open { per_second: -1.0, is_random: false }),
        "rate"
    );
    assert_eq!(refused(|load| load.duration = Duration::MAX), "duration");
}
