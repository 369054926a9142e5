//! A fleet whose nodes are upgraded by one command: real nodes, a real server of NATS.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod nats;
mod support;

use drill::{Client, Load, Node, Origin, copy_of_program};
use nats::Nats;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::spawn;
use support::{freshet, program, run, succeed};

const VERSION: &str = env!("CARGO_PKG_VERSION");

struct Fleet {
    _nats: Nats,
    url: String,
    origin: Origin,
    nodes: Vec<Node>,
}

impl Fleet {
    fn start(count: usize) -> Option<Self> {
        let nats = program("nats-server")?;
        let nats = Nats::start(nats);
        let url = nats.url();
        succeed(freshet().args(["fleet", "init", "--server", &url]));
        let origin = Origin::start();
        let node = |number: usize| {
            let fleet = format!("[fleet]\nservers = [\"{url}\"]\nnode = \"edge-{number}\"\n");
            Node::start(&origin, &format!("workers = 1\n{fleet}"), &[])
        };
        let nodes = (1..=count).map(node).collect();
        let out = Self { _nats: nats, url, origin, nodes };
        while out.list().matches("serves").count() != count {}
        Some(out)
    }

    fn list(&self) -> String {
        succeed(freshet().args(["fleet", "list", "--server", &self.url]))
    }

    fn upgrade(&self, words: &[&str]) -> Command {
        let mut command = self.upgrade_held("1s");
        command.args(words);
        command
    }

    fn upgrade_held(&self, hold: &str) -> Command {
        let mut command = freshet();
        command.args(["fleet", "upgrade", "--server", &self.url, "--hold", hold]);
        command
    }

    /// The programs that nodes run, as files, once all follow the log.
    fn programs(&self) -> Vec<u64> {
        while self.list().matches("serves").count() != self.nodes.len() {}
        self.nodes.iter().map(|node| node.file().ino()).collect()
    }

    /// Programs that say they are of another version, and are not.
    fn install_script(&self, node: usize, script: &str) {
        let path = self.nodes[node].directory.path().join("script");
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.nodes[node].install(path.to_str().unwrap());
    }
}

#[test]
fn all_nodes_hand_over_in_turn_and_no_request_is_lost() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let loads: Vec<_> =
        fleet.nodes.iter().map(|node| Load::start(node.address, "/object", 1, 1)).collect();
    loads.iter().for_each(|load| load.go_on(50));
    // They run this version: nobody hands over.
    let said = succeed(&mut fleet.upgrade(&["--to", VERSION]));
    assert_eq!(said.lines().last(), Some("all nodes run it already"), "{said}");
    let pids: Vec<_> = fleet.nodes.iter().map(Node::pid).collect();
    let said = succeed(&mut fleet.upgrade(&["--drain", "1s", "--at-once", "1"]));
    let nodes = ["edge-1", "edge-2", "edge-3"].into_iter().enumerate();
    let mut lines: String = nodes
        .map(|(at, name)| format!("wave {} of 3: {name}\n  {name} serves with {VERSION}\n", at + 1))
        .collect();
    lines += &format!("3 handed over to {VERSION}\n");
    assert_eq!(said, lines);
    loads.iter().for_each(|load| load.go_on(50));
    for load in loads {
        load.finish();
    }
    let next: Vec<_> = fleet.nodes.iter_mut().map(Node::takes_over).collect();
    assert!(pids.iter().zip(&next).all(|(before, after)| before != after), "{pids:?} {next:?}");
    // Those that were named, at once, and what scripts read of it.
    let words = ["--only", "edge-2,edge-3", "--canary", "100%", "--drain", "0s", "--json"];
    let said = succeed(&mut fleet.upgrade(&words));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["done"], serde_json::json!(["edge-2", "edge-3"]), "{said}");
    for node in fleet.nodes.iter_mut().skip(1) {
        node.takes_over();
    }
    drop(fleet.origin);
}

#[test]
fn it_stops_at_the_first_node_that_is_not_well_and_says_why() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let wrong = |fleet: &Fleet, words: &[&str]| {
        let output = run(&mut fleet.upgrade(words));
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // Another program than the one that was meant is installed: nobody has left for it.
    let said = wrong(&fleet, &["--to", "9.9.9"]);
    assert!(
        said.contains(&format!("edge-1: it goes on as before: {VERSION} is installed")),
        "{said}"
    );
    // And all are told where the others stand.
    let stand =
        format!("\n  {VERSION}, as before: edge-2\n  {VERSION}, back, or as before: edge-1\n");
    assert!(said.contains(&stand), "{said}");
    // One that says its version, and does not run.
    fleet.install_script(0, "[ \"$1\" = --version ] && echo freshet 9.9.9 || exit 3");
    let said = wrong(&fleet, &["--to", "9.9.9", "--drain", "0s"]);
    assert!(said.contains("edge-1: it goes on as before: process "), "{said}");
    assert!(said.contains("the new process ended before it was ready"), "{said}");
    // One that is something else than it says.
    let real = env!("CARGO_BIN_EXE_freshet");
    let script = format!(
        "[ \"$1\" = --version ] && {{ echo freshet 9.9.9; exit; }}\nexec -a \"$0\" {real} \"$@\""
    );
    fleet.install_script(0, &script);
    let said = wrong(&fleet, &["--to", "9.9.9", "--drain", "0s"]);
    assert!(said.contains(&format!("edge-1: it runs {VERSION} now, not 9.9.9")), "{said}");
    assert!(said.contains("the same command again goes on from here"), "{said}");
    assert!(said.contains(&stand), "{said}");
    // There and back.
    fleet.nodes[0].takes_over();
    fleet.nodes[0].takes_over();
    assert!(!fleet.nodes[1].process.said_so_far().contains("asked by the fleet"));
    // Words that name nothing, and times that are none.
    for words in
        [["--canary", "mars"], ["--at-once", "many"], ["--only", "mars"], ["--drain", "2h"]]
    {
        wrong(&fleet, &words);
    }
}

#[test]
fn a_wave_goes_back_with_a_node_whose_clients_fare_worse_and_a_fleet_when_it_is_told_to() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let old = fleet.programs();
    let program = fleet.nodes[0].directory.path().join("other");
    copy_of_program(&program);
    let new = fs::metadata(&program).unwrap().ino();
    fleet.nodes.iter().for_each(|node| node.install(program.to_str().unwrap()));
    let (address, ends) = (fleet.nodes[2].address, Arc::new(AtomicBool::new(false)));
    let asks = spawn({
        let ends = Arc::clone(&ends);
        move || {
            let mut client = Client { address, keep: false, connection: None };
            // Each is another object: the origin is asked for all.
            (0..).take_while(|_| !ends.load(SeqCst)).for_each(|number| {
                let _ = client.ask(&format!("/object-{number}"));
            });
        }
    });
    let mut command = fleet.upgrade_held("6s");
    command.args(["--drain", "0s", "--at-once", "2"]);
    let upgrade = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    fleet.nodes.iter_mut().for_each(|node| assert_ne!(node.takes_over(), 0));
    // What is bad about the new program, as far as anybody can see.
    fleet.origin.lose();
    let output = upgrade.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("edge-3: ") && said.contains("responses were errors (5xx)"), "{said}");
    let stand = format!(
        "\n  {VERSION}, handed over, and well: edge-1\n  {VERSION}, back, or as before: edge-2, edge-3\n"
    );
    assert!(said.contains(&stand), "{said}");
    fleet.nodes.iter_mut().skip(1).for_each(|node| assert_ne!(node.takes_over(), 0));
    assert_eq!(fleet.programs(), [new, old[1], old[2]]);
    ends.store(true, SeqCst);
    asks.join().unwrap();
    // Those that were well before, at a word; those that are back have nothing to go back to.
    let output = run(&mut fleet.upgrade(&["--back", "--drain", "0s"]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        !output.status.success() && said.contains("edge-2 stays: it keeps no program"),
        "{said}"
    );
    assert!(said.contains(&format!("1 handed over to {VERSION}")), "{said}");
    fleet.nodes[0].takes_over();
    assert_eq!(fleet.programs(), old);
    let output = run(&mut fleet.upgrade(&["--back"]));
    assert!(String::from_utf8(output.stderr).unwrap().contains("each node stays"));
}

#[test]
fn nodes_that_do_not_answer_are_named_and_nothing_waits_for_them() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    drop(fleet.nodes.pop());
    let output = run(&mut fleet.upgrade(&["--drain", "0s"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("as they were, since they do not answer: edge-2"), "{said}");
    fleet.nodes[0].takes_over();
}

#[test]
fn a_drained_node_wants_no_new_clients_until_it_is_told_otherwise_or_begins_anew() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let drain = |fleet: &Fleet, words: &[&str]| {
        run(freshet().args(["fleet", "drain", "--server", &fleet.url]).args(words))
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let drained = |fleet: &Fleet| fleet.list().matches("drained").count();
    for _ in 0..2 {
        assert_eq!(said(&drain(&fleet, &["edge-1"])), "edge-1 wants no new clients\n");
    }
    assert_eq!((drained(&fleet), fleet.list().matches("serves").count()), (1, 1));
    // Those that come all the same are served.
    let load = Load::start(fleet.nodes[0].address, "/object", 1, 1);
    load.go_on(50);
    load.finish();
    let undone = drain(&fleet, &["edge-1", "--undo", "--json"]);
    assert_eq!(said(&undone), "{\"drained\":false,\"node\":\"edge-1\"}\n");
    assert_eq!(drained(&fleet), 0);
    assert!(drain(&fleet, &["edge-2"]).status.success());
    succeed(&mut fleet.upgrade(&["--only", "edge-2", "--drain", "0s"]));
    fleet.nodes[1].takes_over();
    assert_eq!(drained(&fleet), 0);
    let nobody = drain(&fleet, &["edge-7"]);
    let why = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && why.contains("edge-7 does not say"), "{why}");
}
