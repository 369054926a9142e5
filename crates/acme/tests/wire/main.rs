//! A manager against a small authority over real HTTP, one that behaves and one that does not.
#![allow(clippy::unwrap_used, reason = "tests")]

mod authority;
mod broken;
mod crashes;
mod demand;
mod support;

use authority::{Authority, Fate, problem};
use freshet_acme::{ChallengeKind, ExternalAccount, Manager};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{Bench, NAME, until};

#[test]
fn a_certificate_is_ordered_once_and_used_again() {
    let bench = Bench::new();
    let running = bench.start();
    until(|| bench.has_certificate());
    drop(running);
    // The next process has it before it asks anybody.
    let before = bench.authority.state().requests;
    let next = Bench::beside(&bench);
    let manager = Manager::open(next.plan(), &next.store).unwrap();
    assert!(next.has_certificate());
    assert_eq!(next.authority.state().requests, before);
    drop(manager);
    let state = next.authority.state();
    assert_eq!((state.orders.len(), state.accounts.len()), (1, 1));
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
}

#[test]
fn names_are_proved_in_a_handshake_where_http_is_not_offered() {
    let bench = Bench::new();
    bench.authority.state().kinds = vec!["dns-01", "tls-alpn-01"];
    let running = bench.start();
    until(|| bench.has_certificate());
    assert_eq!(bench.kinds.lock().unwrap().as_slice(), ["tls-alpn-01"]);
    drop(running);
}

#[test]
fn after_a_failed_challenge_another_kind_has_its_turn_and_says_why() {
    let bench = Bench::new();
    bench.refuse_first();
    let running = bench.start();
    until(|| bench.has_certificate());
    assert_eq!(bench.kinds.lock().unwrap().as_slice(), ["http-01", "tls-alpn-01"]);
    let failures = running.status().failures();
    assert!(failures.contains(&("challenge", 1)), "{failures:?}");
}

#[test]
fn an_account_elsewhere_is_bound_and_missing_one_is_said() {
    let bench = Bench::new();
    bench.authority.state().external = Some(("id-1".into(), b"secret".to_vec()));
    let running = bench.start();
    let error = until(|| support::error_of(&running));
    assert!(error.contains("acme.eab_key_id"), "{error}");
    let external = ExternalAccount { key_id: "id-1".into(), hmac_key: b"secret".to_vec() };
    let plan = freshet_acme::Plan { external_account: Some(external), ..bench.plan() };
    running.follow(plan).unwrap();
    until(|| bench.has_certificate());
}

#[test]
fn a_renewal_names_what_it_replaces_and_the_old_one_is_served_until_then() {
    let bench = Bench::new();
    // The window has passed already: renew at once, once.
    let past = ("2020-01-01T00:00:00Z".to_owned(), "2020-01-02T00:00:00Z".to_owned());
    bench.authority.state().window = Some(past);
    let running = bench.start();
    until(|| {
        bench.authority.state().orders.iter().filter(|one| one.status == "valid").count() == 2
    });
    assert!(bench.has_certificate());
    drop(running);
    let state = bench.authority.state();
    assert_eq!(state.orders[0].replaces, None);
    let replaces = state.orders[1].replaces.as_deref().unwrap();
    let (authority, serial) = replaces.split_once('.').unwrap();
    assert!(!authority.is_empty() && !serial.is_empty() && !replaces.contains('='));
}

#[test]
fn asking_for_a_renewal_orders_again() {
    let bench = Bench::new();
    let running = bench.start();
    until(|| bench.has_certificate());
    assert_eq!(running.renew(&["other.example".to_owned()]), 0);
    assert_eq!(running.renew(&[NAME.to_owned()]), 1);
    until(|| bench.authority.state().orders.len() == 2);
}

#[test]
fn an_order_that_ended_meanwhile_is_made_anew_at_once() {
    let bench = Bench::new();
    // Trouble in the middle leaves the order under way.
    bench.authority.twist(Arc::new(|_, what, reply| match what.starts_with("POST /orders/") {
        true => Fate::Answer(problem(500, "serverInternal", "trouble")),
        false => Fate::Answer(reply),
    }));
    let running = bench.start();
    until(|| support::error_of(&running));
    drop(running);
    bench.authority.behave();
    bench.authority.state().orders[0].status = "invalid";
    let mut plan = bench.plan();
    (plan.pace.first, plan.pace.max) = (Duration::from_secs(3600), Duration::from_secs(3600));
    let running = bench.start_with(plan);
    running.renew(&[]);
    until(|| bench.has_certificate() && support::error_of(&running).is_none());
    assert_eq!(bench.authority.state().orders.len(), 2);
}

#[test]
fn a_limit_of_the_authority_is_heeded() {
    let bench = Bench::new();
    bench.authority.twist(Arc::new(|_, what, reply| match what {
        "POST /order" => {
            let mut limited = problem(429, "rateLimited", "too many");
            limited.fields.push(("Retry-After", "86400".to_owned()));
            limited.fields.extend(reply.fields);
            Fate::Answer(limited)
        }
        _ => Fate::Answer(reply),
    }));
    let running = bench.start();
    until(|| support::error_of(&running));
    let names = running.status().names();
    let now_s = freshet_base::clock::UnixMillis::now().seconds();
    assert!(names[0].1.due_s > now_s + 80_000, "{names:?}");
    // A process that is started again heeds it as well.
    drop(running);
    bench.authority.behave();
    let manager = Manager::open(bench.plan(), &bench.store).unwrap();
    assert!(manager.status().names()[0].1.due_s > now_s + 80_000);
}

#[test]
fn an_authority_that_has_forgotten_the_account_gets_it_again() {
    let bench = Bench::new();
    let running = bench.start();
    until(|| bench.has_certificate());
    bench.authority.state().accounts.clear();
    running.renew(&[]);
    until(|| {
        bench.authority.state().orders.iter().filter(|one| one.status == "valid").count() == 2
    });
    assert_eq!(bench.authority.state().accounts.len(), 1);
}

#[test]
fn two_processes_of_one_directory_order_once() {
    let bench = Bench::new();
    let other = Bench::beside(&bench);
    let (one, two) = (bench.start(), other.start());
    until(|| bench.has_certificate() || other.has_certificate());
    // The one that waited takes over with what is there, and orders nothing.
    let first_has_it = bench.has_certificate();
    let waiting = if first_has_it {
        drop(one);
        &other
    } else {
        drop(two);
        &bench
    };
    until(|| waiting.has_certificate());
    assert_eq!(bench.authority.state().orders.len(), 1);
}

#[test]
fn nothing_is_under_way_while_it_pauses() {
    let bench = Bench::new();
    let is_under_way = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_under_way);
    bench.authority.twist(Arc::new(move |_, what, reply| match what {
        "POST /orders/0" => {
            seen.store(true, SeqCst);
            Fate::Silence
        }
        _ => Fate::Answer(reply),
    }));
    let running = bench.start();
    until(|| is_under_way.load(SeqCst));
    running.pause();
    let other = Bench::beside(&bench);
    bench.authority.behave();
    let next = other.start();
    until(|| other.has_certificate());
    drop(next);
    running.resume();
    until(|| bench.has_certificate());
    assert_eq!(bench.authority.state().orders.len(), 1);
}

#[test]
fn answers_that_fail_at_random_end_with_a_certificate_all_the_same() {
    for seed in 1..=12_u64 {
        let bench = Bench::new();
        bench.authority.twist(support::faults(seed));
        let running = bench.start();
        until(|| bench.has_certificate());
        drop(running);
        let state = bench.authority.state();
        assert!(state.wrong.is_empty(), "seed {seed}: {:?}", state.wrong);
        assert_eq!(state.accounts.len(), 1, "seed {seed}");
    }
}

#[test]
fn plans_that_cannot_be_followed_are_refused() {
    let bench = Bench::new();
    for change in [
        |plan: &mut freshet_acme::Plan| plan.directory = "http://ca.example/dir".into(),
        |plan: &mut freshet_acme::Plan| plan.names = vec!["*.example.org".into()],
        |plan: &mut freshet_acme::Plan| plan.names = vec!["../../etc/passwd".into()],
        |plan: &mut freshet_acme::Plan| plan.state = "/proc/none".into(),
    ] {
        let mut plan = bench.plan();
        change(&mut plan);
        let error = Manager::open(plan, &bench.store).map(|_| ()).unwrap_err();
        assert!(!error.message.is_empty() && !error.kind.cure().is_empty());
    }
    let kinds = [ChallengeKind::Http, ChallengeKind::TlsAlpn];
    assert_eq!(bench.plan().challenges, kinds);
}

#[test]
fn the_authority_here_refuses_what_is_not_signed() {
    // So that a client that signs nothing would not pass these tests.
    let authority = Authority::start(Arc::new(|_, _, _, _| true));
    let answer = support::post(authority.address, "/order", b"{}");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(authority.state().wrong.len(), 1);
}
