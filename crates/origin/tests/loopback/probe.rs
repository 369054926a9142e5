//! Probes and what directors make of them.

use crate::support::*;
use freshet_base::clock::UnixMillis;
use freshet_origin::director::{Director, Member};
use freshet_origin::health::{Health, HealthBoard, Transition};
use freshet_origin::probe::{self, ProbeFailure, ProbeSettings};
use freshet_origin::{Origin, OriginError};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Answers probes with these statuses in turn; 0 closes without an answer, 1 never answers. The
/// last one stays.
async fn moody(statuses: &'static [u16]) -> Arc<Origin> {
    let (address, _) = serve(|listener| async move {
        let asked = AtomicUsize::new(0);
        let mut silent = Vec::new();
        loop {
            let mut peer = Peer::accept(&listener).await;
            let Some(head) = peer.head().await else { continue };
            assert!(head.starts_with("GET /health HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
            let at = asked.fetch_add(1, Relaxed).min(statuses.len() - 1);
            match statuses[at] {
                0 => {}
                1 => silent.push(peer),
                status => {
                    peer.send(&format!(
                        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 {status} x\r\n\r\n"
                    ))
                    .await;
                }
            }
        }
    })
    .await;
    origin(address)
}

fn settings() -> ProbeSettings {
    ProbeSettings {
        target: "/health".into(),
        window: 4,
        threshold: 2,
        expected: 200..=204,
        ..ProbeSettings::default()
    }
}

/// The first transitions that probing brings, with the failure and the number of probes so far.
async fn transitions(
    origin: &Arc<Origin>,
    count: usize,
) -> Vec<(Transition, Option<ProbeFailure>, u64)> {
    let seen = RefCell::new(Vec::new());
    let enough = tokio::sync::Notify::new();
    let on_transition = |origin: &Origin, transition, failure: Option<&ProbeFailure>| {
        seen.borrow_mut().push((transition, failure.cloned(), origin.stats.probes.value()));
        if seen.borrow().len() == count {
            enough.notify_one();
        }
    };
    tokio::select! {
        () = probe::run(Arc::clone(origin), settings(), on_transition) => {}
        () = enough.notified() => {}
    }
    seen.into_inner()
}

#[tokio::test(start_paused = true)]
async fn an_origin_goes_down_and_up_by_its_window() {
    let origin = moody(&[204, 200, 500, 0, 1, 200, 500, 200]).await;
    let health = || origin.health.health(UnixMillis::now());
    assert_eq!(health(), Health::Up);
    let seen = transitions(&origin, 1).await;
    // Good at once: one probe confirms what was assumed.
    assert_eq!(seen, [(Transition::WentUp, None, 1)]);
    assert_eq!((health(), origin.health.changes()), (Health::Up, 0));

    // A new run has a new window, one short of its threshold.
    let seen = transitions(&origin, 3).await;
    let timeout = ProbeFailure::OriginTimeout { limit: Duration::from_secs(2) };
    assert_eq!(seen[0], (Transition::WentUp, None, 2));
    // Of 200, 500, close: the silent one leaves a single good result among four.
    assert_eq!(seen[1], (Transition::WentDown, Some(timeout), 5));
    assert_eq!(seen[2], (Transition::WentUp, None, 8));
    assert_eq!((health(), origin.health.changes()), (Health::Up, 2));
    assert_eq!(origin.stats.probe_failures.value(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_is_ill_from_the_start_goes_down_with_the_first_probe() {
    let origin = moody(&[503]).await;
    let seen = transitions(&origin, 1).await;
    let failure = ProbeFailure::OriginStatus { got: 503, expected: 200..=204 };
    assert_eq!(seen, [(Transition::WentDown, Some(failure), 1)]);
    assert_eq!(origin.health.health(UnixMillis::now()), Health::Down);
    assert!(origin.health.changed() > UnixMillis(0));
}

#[tokio::test]
async fn a_probe_says_what_was_wrong() {
    let origin = moody(&[0]).await;
    let error = probe::probe(&origin, &settings()).await.unwrap_err();
    assert_eq!(error, ProbeFailure::Origin(OriginError::OriginClosed { response_bytes: 0 }));
    assert_eq!(origin.stats.open.value(), 0);
}

#[tokio::test]
async fn directors_follow_probes_through_the_board() {
    let [ill, well] = [moody(&[500]).await, moody(&[200]).await];
    let board = HealthBoard::new([Arc::clone(&well), Arc::clone(&ill)]);
    let members = [&ill, &well].map(|origin| Member::new(origin.id, &origin.settings.name));
    let director = Director::fallback(members);
    let choose = || director.choose(0, &[], &board.at(UnixMillis::now()));
    assert_eq!(choose(), Some(ill.id));
    transitions(&ill, 1).await;
    assert_eq!(choose(), Some(well.id));
    assert!(board.origin(well.id).is_some_and(|origin| Arc::ptr_eq(origin, &well)));
    let unknown = Director::fallback([Member::new(freshet_origin::OriginId(u32::MAX), "gone")]);
    assert_eq!(unknown.choose(0, &[], &board.at(UnixMillis::now())), None);
}
