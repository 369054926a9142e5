//! Handing over to a new process while requests are answered.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod support;

use drill::{Client, Load, Node, Origin, copy_of_program};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use support::{PATIENCE, pid};

#[test]
fn no_request_fails_while_processes_take_over() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 4, 4);
    load.go_on(200);
    for workers in [4, 1, 2] {
        node.configure(&format!("workers = {workers}\n"));
        node.upgrade();
        load.go_on(200);
    }
    load.finish();
}

#[test]
fn descriptors_do_not_pile_up() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let before = node.descriptors();
    for _ in 0..3 {
        node.upgrade();
    }
    node.settle(before);
}

#[test]
fn a_program_that_fails_leaves_the_old_process_serving() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let load = Load::start(node.address, "/object", 4, 2);
    load.go_on(100);
    let before = node.descriptors();
    node.install("/bin/false");
    for _ in 0..3 {
        node.signal(Signal::USR2);
        node.wait_for("not upgraded, this process goes on");
        load.go_on(100);
    }
    // Who asked for it hears of it soon.
    let mut ask = support::freshet();
    ask.arg("upgrade").env("RUNTIME_DIRECTORY", node.directory.path());
    let began = Instant::now();
    let output = support::run(&mut ask);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("goes on as before: the new process ended"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    node.wait_for("not upgraded, this process goes on");
    // One that gets as far as its configuration.
    node.install(env!("CARGO_BIN_EXE_freshet"));
    node.configure("nonsense");
    let output = support::run(&mut ask);
    let said = String::from_utf8_lossy(&output.stderr);
    // What it says is what is to be mended.
    assert!(said.contains("before it was ready") && said.contains("nonsense"), "{said}");
    node.wait_for("not upgraded, this process goes on");
    load.go_on(100);
    node.settle(before + 6);
    node.configure("workers = 2\n");
    node.upgrade();
    load.go_on(100);
    load.finish();
}

#[test]
fn a_program_that_cannot_follow_its_fleet_leaves_the_old_process_where_it_is_found() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let credentials = node.directory.path().join("credentials");
    fs::write(&credentials, "none").unwrap();
    node.configure(&format!(
        "workers = 2\n[fleet]\nservers = [\"nats://127.0.0.1:1\"]\ncredentials = {credentials:?}\n"
    ));
    let mut ask = support::freshet();
    ask.arg("upgrade").env("RUNTIME_DIRECTORY", node.directory.path());
    for _ in 0..2 {
        let output = support::run(&mut ask);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("goes on as before"), "{output:?}");
        node.wait_for("not upgraded, this process goes on");
    }
    node.configure("workers = 2\n");
    node.upgrade();
}

#[test]
fn a_node_goes_back_to_the_program_before_whose_file_is_gone() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let go_back = |node: &Node| {
        let mut command = support::freshet();
        command.args(["upgrade", "--back"]).env("RUNTIME_DIRECTORY", node.directory.path());
        support::run(&mut command)
    };
    let refused = |node: &Node| {
        let output = go_back(node);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("it keeps no program"), "{said}");
    };
    let in_directory = |node: &Node, name| node.directory.path().join(name);
    refused(&node);
    let load = Load::start(node.address, "/object", 2, 2);
    load.go_on(100);
    let first = in_directory(&node, "first");
    copy_of_program(&first);
    node.install(first.to_str().unwrap());
    node.upgrade();
    let kept = node.file().ino();
    // Another takes its place, as packages do it: nothing has the name of the first any more.
    fs::remove_file(&first).unwrap();
    let second = in_directory(&node, "second");
    copy_of_program(&second);
    node.install(second.to_str().unwrap());
    node.upgrade();
    assert_ne!(node.file().ino(), kept);
    // The same program once more leaves the way back as it is.
    node.upgrade();
    load.go_on(100);
    let output = go_back(&node);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let runs =
        format!("It runs {}; a restart starts what is installed\n", env!("CARGO_PKG_VERSION"));
    assert!(output.status.success() && said.ends_with(&runs), "{output:?}");
    let pid = node.takes_over();
    node.wait_for("drained");
    assert_eq!((node.file().ino(), node.file().nlink()), (kept, 0));
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "freshet\n");
    load.go_on(100);
    // What it came back from is no way back, and is what is installed.
    refused(&node);
    node.upgrade();
    assert_eq!(node.file().ino(), fs::metadata(&second).unwrap().ino());
    load.go_on(100);
    load.finish();
}

#[test]
fn an_idle_connection_is_answered_once_more() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let mut client = Client { address: node.address, keep: true, connection: None };
    assert!(!client.ask("/object").unwrap().closes);
    node.signal(Signal::TERM);
    node.wait_for("draining");
    // Its worker may hear of it a little later than we do.
    while !client.ask("/object").unwrap().closes {}
}

#[test]
fn a_process_that_handed_over_answers_what_it_has_when_the_whole_service_is_told_to_end() {
    let origin = Origin::start();
    let mut node = Node::start(&origin, "workers = 2\n", &[]);
    let before = node.pid();
    let mut client = Client { address: node.address, keep: false, connection: None };
    let download = std::thread::spawn(move || client.ask("/slow"));
    origin.halves.reach(1);
    node.signal(Signal::USR2);
    let next = node.takes_over();
    node.wait_for("the new process serves");
    for process in [before, next] {
        kill_process(pid(process), Signal::TERM).unwrap();
    }
    node.wait_for("told to end with the service");
    origin.go_on();
    assert_eq!(download.join().unwrap().unwrap().status, 200);
    node.wait_for("drained");
}

#[test]
fn the_service_manager_learns_of_the_new_process() {
    let origin = Origin::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 256];
    let mut next = || {
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).trim().to_owned()
    };
    let mut node = Node::start(&origin, "workers = 1\n", &[("NOTIFY_SOCKET", path)]);
    assert_eq!(next(), "READY=1");
    node.upgrade();
    assert_eq!(next(), "READY=1");
    // What was said of reloads of the process before is over.
    assert_eq!(next(), format!("MAINPID={}\nSTATUS=Serving.", node.pid()));
    node.signal(Signal::TERM);
    assert_eq!(next(), "STOPPING=1");
}
