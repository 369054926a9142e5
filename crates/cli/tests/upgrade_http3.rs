//! Handing over to a new process while requests over HTTP/3 are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod http3_load;
mod support;

use drill::{Node, Origin};
use http3_load::Http3Load;
use rustix::process::Signal;
use std::time::{Duration, Instant};

#[test]
fn no_request_fails_while_processes_take_over() {
    let origin = Origin::start();
    let mut node = Node::start_with_tls(&origin, "workers = 2\n");
    let kept = Http3Load::start(&node, "/object", 4, None);
    let fresh = Http3Load::start(&node, "/object", 4, Some(3));
    for workers in [2, 4, 1, 2] {
        kept.go_on(200);
        fresh.go_on(200);
        node.signal(Signal::HUP);
        node.wait_for("the configuration was read again");
        kept.go_on(100);
        fresh.go_on(100);
        node.configure(&format!("workers = {workers}\n"));
        node.upgrade();
    }
    kept.go_on(200);
    fresh.go_on(200);
    assert!(kept.finish().handshakes >= 8, "clients are told to go");
    fresh.finish();
}

#[test]
fn clients_of_a_process_that_was_killed_hear_it_from_the_next_one() {
    let origin = Origin::start();
    let state = tempfile::tempdir().unwrap();
    let environment = [("STATE_DIRECTORY", state.path().to_owned())];
    // No other test's connections are of this address: its port is free for the second process as well.
    let free = std::net::UdpSocket::bind("127.0.77.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let configuration = format!("workers = 2\n[[listen]]\naddress = \"{address}\"\ntls = true\n");
    drop(free);
    let node = Node::start(&origin, &configuration, &environment);
    let load = Http3Load::at(address, "/object", 4, None);
    load.go_on(100);
    node.signal(Signal::KILL);
    drop(node);
    let _node = Node::start(&origin, &configuration, &environment);
    // They wait for the idle timeout of half a minute and more, were they not told.
    let began = Instant::now();
    load.go_on(100);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let figures = load.figures();
    // Two requests were under way on each of four connections.
    assert!((4..=8).contains(&figures.failed), "{figures:?}");
    let told = |(why, _): &(String, u64)| why.contains("reset by peer");
    assert!(figures.failures.iter().all(told), "{:?}", figures.failures);
    assert!(figures.handshakes > 4, "{}", figures.handshakes);
}

#[test]
fn a_download_goes_on_in_the_process_it_began_in() {
    let origin = Origin::start();
    let mut node = Node::start_with_tls(&origin, "workers = 1\n");
    let slow = Http3Load::start(&node, "/slow", 1, Some(1));
    origin.halves.reach(1);
    slow.begin_no_more();
    node.signal(Signal::USR2);
    node.takes_over();
    node.wait_for("the new process serves");
    // The new one answers others meanwhile.
    let others = Http3Load::start(&node, "/object", 4, Some(2));
    others.go_on(200);
    origin.go_on();
    let slow = slow.finish();
    assert!(slow.requests >= 1 && slow.body_bytes >= drill::SLOW_BYTES as u64);
    node.wait_for("drained");
    others.go_on(200);
    others.finish();
}
