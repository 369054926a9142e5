//! Connections that are kept, shared, limited and given up.

use crate::support::*;
use freshet_origin::{Origin, OriginError, OriginSettings, pool::Pool};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An origin that answers every request on every connection, and counts connections.
async fn obliging() -> (SocketAddr, Arc<AtomicUsize>) {
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    let (address, _) = serve(|listener| async move {
        loop {
            let mut peer = Peer::accept(&listener).await;
            count.fetch_add(1, Relaxed);
            tokio::spawn(async move {
                while peer.head().await.is_some() {
                    peer.send(OK).await;
                }
            });
        }
    })
    .await;
    (address, accepted)
}

fn limited(address: SocketAddr, connections_max: u32) -> Arc<Origin> {
    let mut settings = OriginSettings { connections_max, ..settings(address) };
    // A slow machine may take its time: these tests are not about waiting too long.
    settings.timeouts.queue = Duration::from_secs(60);
    Origin::new(settings).unwrap()
}

/// A whole exchange: the body's text.
async fn fetch(pool: &Pool, origin: &Arc<Origin>) -> Result<String, OriginError> {
    let mut response = get(pool, origin).await?;
    text(&mut response.body).await
}

/// Runs `other` beside `main` until that is done.
async fn beside<T>(main: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    tokio::select! {
        result = main => result,
        () = other => panic!("this runs for ever"),
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_without_a_retry() {
    let (address, server) = serve(|listener| async move {
        Peer::accept(&listener).await.answer(OK).await;
        let mut second = Peer::accept(&listener).await;
        second.answer(OK).await;
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));
    fetch(&pool, &origin).await.unwrap();
    // The close has reached this side's kernel when the sweep finds it.
    while pool.idle_len(origin.id) > 0 {
        tokio::task::yield_now().await;
        pool.sweep();
    }
    fetch(&pool, &origin).await.unwrap();
    assert_eq!((origin.stats.connects.value(), origin.stats.retries.value()), (2, 0));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_at_their_age() {
    let (address, _) = obliging().await;
    let (pool, origin) = (Pool::new(), origin(address));
    beside(
        async {
            fetch(&pool, &origin).await.unwrap();
            assert_eq!((pool.idle_len(origin.id), origin.stats.idle.value()), (1, 1));
            tokio::time::sleep(origin.settings.timeouts.idle / 2).await;
            assert_eq!(pool.idle_len(origin.id), 1);
            tokio::time::sleep(origin.settings.timeouts.idle).await;
            assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (0, 0));
        },
        pool.maintain(),
    )
    .await;
}

#[tokio::test]
async fn no_more_are_kept_than_allowed() {
    let (address, _) = obliging().await;
    let origin = Origin::new(OriginSettings { idle_max: 1, ..settings(address) }).unwrap();
    let pool = Pool::new();
    let (a, b, c) =
        tokio::join!(fetch(&pool, &origin), fetch(&pool, &origin), fetch(&pool, &origin));
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!((pool.idle_len(origin.id), origin.stats.open.value()), (1, 1));
}

#[tokio::test]
async fn exchanges_beyond_the_limit_take_turns_on_the_same_connections() {
    let (address, accepted) = obliging().await;
    let (pool, origin) = (Pool::new(), limited(address, 2));
    let all = async {
        let (mut running, mut done) = (Vec::new(), 0);
        for _ in 0..20 {
            running.push(Box::pin(fetch(&pool, &origin)));
        }
        std::future::poll_fn(|cx| {
            running.retain_mut(|fetch| match fetch.as_mut().poll(cx) {
                std::task::Poll::Ready(result) => {
                    assert_eq!(result.as_deref(), Ok("ok"));
                    done += 1;
                    false
                }
                std::task::Poll::Pending => true,
            });
            if running.is_empty() { std::task::Poll::Ready(done) } else { std::task::Poll::Pending }
        })
        .await
    };
    assert_eq!(all.await, 20);
    assert_eq!((accepted.load(Relaxed), origin.stats.open.value()), (2, 2));
    assert_eq!((origin.stats.waits.value(), origin.stats.reuses.value()), (18, 18));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_connection_is_bounded_in_time_and_number() {
    let (address, _) = obliging().await;
    let settings =
        OriginSettings { connections_max: 1, connection_waiters_max: 1, ..settings(address) };
    let (pool, origin) = (Pool::new(), Origin::new(settings).unwrap());
    let held = get(&pool, &origin).await.unwrap();
    let (late, many) = tokio::join!(fetch(&pool, &origin), fetch(&pool, &origin));
    let waited = Duration::from_secs(1);
    assert_eq!(late, Err(OriginError::LocalConnectionLimit { connections_max: 1, waited }));
    assert_eq!(many, Err(OriginError::LocalQueueFull { waiting_max: 1 }));
    assert_eq!(late.unwrap_err().status(), 503);
    drop(held);
    assert_eq!(fetch(&pool, &origin).await.as_deref(), Ok("ok"));
}

#[tokio::test]
async fn an_idle_connection_of_one_worker_makes_room_for_another() {
    let (address, accepted) = obliging().await;
    let origin = limited(address, 1);
    let (here, there) = (Pool::new(), Pool::new());
    fetch(&here, &origin).await.unwrap();
    assert_eq!(here.idle_len(origin.id), 1);
    let answer = beside(fetch(&there, &origin), here.maintain()).await;
    assert_eq!(answer.as_deref(), Ok("ok"));
    assert_eq!((here.idle_len(origin.id), there.idle_len(origin.id)), (0, 1));
    assert_eq!((accepted.load(Relaxed), origin.stats.open.value()), (2, 1));
}

#[test]
fn the_limit_holds_over_threads() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        runtime().block_on(async {
            tell.send(obliging().await.0).unwrap();
            let _ = stopped.await;
        });
    });
    let address = told.recv().unwrap();
    let origin = limited(address, 3);
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let origin = Arc::clone(&origin);
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let pool = Pool::new();
                    let work = async {
                        for _ in 0..50 {
                            let answers =
                                tokio::join!(fetch(&pool, &origin), fetch(&pool, &origin));
                            assert_eq!(answers, (Ok("ok".into()), Ok("ok".into())));
                            assert!(origin.stats.open.value() <= 3);
                        }
                    };
                    beside(work, pool.maintain()).await;
                });
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    drop(stop);
    server.join().unwrap();
    assert_eq!((origin.stats.open.value(), origin.stats.in_flight.value()), (0, 0));
    assert_eq!(origin.stats.responses.value(), 400);
}
