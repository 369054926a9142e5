//! Reading the configuration again while requests are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod support;

use drill::{Load, Node, Origin};
use rustix::process::Signal;

#[test]
fn no_request_fails_while_the_configuration_is_read_again() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 4, 2);
    load.go_on(200);
    let before = node.descriptors();
    for index in 1..=5 {
        node.configure(&format!("workers = 2\n[cache]\ngrace = \"{index}s\"\n"));
        node.signal(Signal::HUP);
        node.wait_for("the configuration was read again");
        load.go_on(200);
    }
    // Connections of the load come and go: as many as it has threads.
    node.settle(before + 6);
    load.finish();
}

#[test]
fn a_wrong_file_changes_nothing() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 2, 1);
    for wrong in ["nonsense", "workers = 2\n[cache]\ngrase = \"1s\"\n", "[log]\nformat = \"%Z\"\n"]
    {
        node.configure(wrong);
        node.signal(Signal::HUP);
        node.wait_for("nothing was changed");
        load.go_on(50);
    }
    node.configure("workers = 3\n");
    node.signal(Signal::HUP);
    node.wait_for("workers has changed; that takes effect with an upgrade");
    node.wait_for("the configuration was read again");
    load.finish();
}
