//! Handing over to a new process while requests over HTTP/3 are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod http3_load;
mod support;

use drill::{Node, Origin};
use http3_load::Http3Load;
use rustix::process::Signal;

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
