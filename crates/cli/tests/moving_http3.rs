//! Clients of HTTP/3 that go to other ports and addresses while they are answered, by a node of several workers.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod http3_load;
mod support;

use drill::{LARGE_BYTES, Node, Origin};
use freshet_load::http3::{Figures, Moves};
use http3_load::Http3Load;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const WORKERS: &str = "workers = 4\n";

fn moves(stays_ms: &[u64], is_unnoticed: bool, networks: u8) -> Moves {
    let from = (2..2 + networks).map(|last| IpAddr::from([127, 0, 0, last])).collect();
    Moves {
        stays: stays_ms.iter().copied().map(Duration::from_millis).collect(),
        from,
        is_unnoticed,
    }
}

fn of_large(node: &Node, moves: Moves) -> Http3Load {
    Http3Load::moving(node.tls_address.unwrap(), "/large", 3, None, Some(moves))
}

/// Until clients were elsewhere some times, however fast the machine is.
fn goes_on(load: &Http3Load) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        load.go_on(5);
    }
}

fn was_elsewhere(figures: &Figures) {
    assert!(figures.moves > 5, "{}", figures.moves);
    assert_eq!(figures.body_bytes, figures.requests * LARGE_BYTES as u64);
}

/// Has clients move while they are answered, over the connections they began with.
fn stays_connected(node: &Node, moves: Moves) {
    let load = of_large(node, moves.clone());
    goes_on(&load);
    let figures = load.finish();
    was_elsewhere(&figures);
    assert_eq!(figures.handshakes, 3, "{moves:?}");
}

#[test]
fn downloads_go_on_where_clients_move_to() {
    let origin = Origin::start();
    let node = Node::start_with_tls(&origin, WORKERS);
    for is_unnoticed in [false, true] {
        for networks in [0, 3] {
            stays_connected(&node, moves(&[60], is_unnoticed, networks));
        }
    }
}

/// Before the node knows that they are where they went to.
#[test]
fn clients_that_move_twice_at_once_are_answered() {
    let origin = Origin::start();
    let node = Node::start_with_tls(&origin, WORKERS);
    for is_unnoticed in [false, true] {
        stays_connected(&node, moves(&[60, 1], is_unnoticed, 3));
    }
}

#[test]
fn clients_that_move_while_processes_take_over_lose_no_response() {
    let origin = Origin::start();
    let mut node = Node::start_with_tls(&origin, "workers = 2\n");
    let noticed = of_large(&node, moves(&[100], false, 3));
    let unnoticed = of_large(&node, moves(&[130], true, 0));
    for workers in [4, 1, 2] {
        goes_on(&noticed);
        unnoticed.go_on(5);
        node.configure(&format!("workers = {workers}\n"));
        node.upgrade();
    }
    noticed.go_on(10);
    unnoticed.go_on(10);
    was_elsewhere(&noticed.finish());
    was_elsewhere(&unnoticed.finish());
}

/// A network may give a client another port at any time, also before the first answer has come.
#[test]
fn a_handshake_is_finished_from_another_port() {
    let origin = Origin::start();
    let node = Node::start_with_tls(&origin, WORKERS);
    let address = node.tls_address.unwrap();
    let load = Http3Load::moving(address, "/object", 8, Some(1), Some(moves(&[200], true, 0)));
    // Each of eight is in the midst of its handshake, or of its one request, whenever it gets another port.
    (0..3).for_each(|_| goes_on(&load));
    let figures = load.finish();
    assert!(figures.moves > 5 && figures.handshakes > 50, "{figures:?}");
}
