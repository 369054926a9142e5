//! Ending, and losing the origin, while requests are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod support;

use drill::{Client, Load, Node, Origin, SLOW_BYTES};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use support::is_clean;

#[test]
fn open_downloads_are_finished() {
    let Some(curl) = support::program("curl") else { return };
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let downloads: Vec<_> = ["--http1.1", "--http2-prior-knowledge"]
        .into_iter()
        .enumerate()
        .map(|(index, protocol)| {
            let url = format!("http://{}/slow{index}", node.address);
            Command::new(&curl)
                .args(["-sS", "-o", "/dev/null", "-w", "%{size_download}", protocol, &url])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    origin.halves.reach(2);
    node.signal(Signal::TERM);
    node.wait_for("draining");
    origin.go_on();
    for download in downloads {
        let output = download.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), SLOW_BYTES.to_string());
    }
    assert!(is_clean(node.process.end().0));
}

#[test]
fn what_another_worker_fills_is_finished() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 4\n", &[]);
    // Spread over the workers, of which one fills for all; its own client may well be the first
    // to have everything.
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let address = node.address;
            std::thread::spawn(move || {
                Client { address, keep: false, connection: None }.ask("/slow").unwrap().status
            })
        })
        .collect();
    origin.halves.reach(1);
    node.signal(Signal::TERM);
    node.wait_for("draining");
    origin.go_on();
    // One that had not been accepted by then is refused, and says so.
    let answered = clients.into_iter().filter_map(|client| client.join().ok());
    assert!(answered.inspect(|status| assert_eq!(*status, 200)).count() > 0);
    assert!(is_clean(node.process.end().0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "drain = \"1h\"\nworkers = 2\n", &[]);
    let address = node.address;
    let download = std::thread::spawn(move || {
        Client { address, keep: false, connection: None }.ask("/slow").is_err()
    });
    origin.halves.reach(1);
    node.signal(Signal::TERM);
    node.wait_for("draining");
    node.signal(Signal::TERM);
    assert!(is_clean(node.process.end().0));
    assert!(download.join().unwrap(), "it was cut off");
}

#[test]
fn clients_do_not_notice_that_the_origin_is_lost() {
    let mut origin = Origin::start();
    let node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/brief", 4, 2);
    load.go_on(200);
    origin.lose();
    load.aged.reach(200);
    load.finish();
}
