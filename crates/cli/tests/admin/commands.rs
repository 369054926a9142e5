//! Which node a command is for, and what it has it do.

use crate::node::{Node, Origin, errors};
use crate::support::{self, Process, freshet, ready, run};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

#[test]
fn a_reload_takes_a_good_file_and_refuses_a_bad_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("freshet.toml");
    let origin = Origin::start();
    let text = |name: &str| {
        format!("[[origin]]\nname = \"{name}\"\nurl = \"http://{}\"\n", origin.address)
    };
    fs::write(&file, text("first")).unwrap();
    let (good, bad) = (text("second"), text("third").replace("url", "ulr"));
    let node = Node::with(origin, &["--config", file.to_str().unwrap()]);
    assert!(node.say(&["origins"]).contains("first"));
    fs::write(&file, &bad).unwrap();
    let said = errors(&run(&mut node.command(&["reload"])));
    assert!(said.contains("did you mean `url`?") && said.contains("nothing was changed"), "{said}");
    assert!(node.say(&["origins"]).contains("first"));
    fs::write(&file, &good).unwrap();
    let said = node.say(&["reload"]);
    assert!(said.ends_with("the configuration was read again\norigins: second\n"), "{said}");
    assert!(node.ask("/page").starts_with("fwd=uri-miss; stored"));
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = errors(&run(freshet().args(["stat", "--admin", &free.to_string()])));
    assert!(said.contains(&format!("{free}: no node answers there")), "{said}");
    assert!(said.contains("freshet serve") && said.contains("--admin"), "{said}");
}

#[test]
fn one_node_of_several_is_never_guessed() {
    let home = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let serve = |name: &str| {
        let mut command = freshet();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--memory", "64MiB", "--workers", "1", "--name", name])
            .args(["--origin", &format!("http://{}", origin.address)])
            .env("XDG_RUNTIME_DIR", home.path())
            .env_remove("RUNTIME_DIRECTORY");
        command
    };
    let tell = |arguments: &[&str]| {
        let mut command = freshet();
        let of = home.path();
        command.args(arguments).env("XDG_RUNTIME_DIR", of).env_remove("RUNTIME_DIRECTORY");
        run(&mut command)
    };
    let mut first = Process::start(&mut serve("edge-1"));
    let pid = ready(&mut first);
    let said = String::from_utf8(tell(&["reload"]).stdout).unwrap();
    assert!(said.starts_with(&format!("node edge-1 (process {pid}): the configuration")), "{said}");
    let mut second = Process::start(&mut serve("edge-2"));
    let other = ready(&mut second);
    for command in ["upgrade", "reload", "stat"] {
        let output = tell(&[command]);
        let said = errors(&output);
        assert!(!output.status.success(), "{command}: {said}");
        assert!(said.contains("2 nodes run here; say which"), "{command}: {said}");
        assert!(said.contains(&format!("node edge-2, process {other}")), "{command}: {said}");
    }
    assert!(errors(&tell(&["stat", "--name", "edge-3"])).contains("no node `edge-3`"));
    assert!(tell(&["stat", "--name", "edge-2"]).status.success());
    // A third cannot take the name of one that runs.
    let refused = errors(&run(&mut serve("edge-1")));
    assert!(refused.contains("in use by another node: node edge-1"), "{refused}");
    // The second takes over from itself, and the first stays.
    let output = tell(&["upgrade", "--name", "edge-2"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("node edge-2: process "), "{said}{}", errors(&output));
    let next: u32 = said.split(' ').nth(3).unwrap().parse().unwrap();
    assert!(![pid, other].contains(&next), "{said}");
    assert!(tell(&["stat", "--name", "edge-1"]).status.success());
    assert!(tell(&["stat", "--name", "edge-2"]).status.success());
    rustix::process::kill_process(support::pid(next), Signal::TERM).unwrap();
}

#[test]
fn a_purge_of_everything_is_of_nothing_besides() {
    for words in [
        &["purge", "--all", "--tag", "x"][..],
        &["purge", "--all", "http://localhost/a"],
        &["fleet", "purge", "--all", "--ban", "req.url ~ ^/a"],
    ] {
        let refused = run(freshet().args(words));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("cannot be used with"), "{said}");
    }
}

/// What a command says in JSON: a value, or one a line.
fn json(output: Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", errors(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn facts_are_json_where_that_is_asked_for() {
    let node = Node::start();
    let url = node.url("/page");
    node.ask("/page");
    // Workers hand over what they log once in a while.
    while node.say(&["log"]).is_empty() {}
    for command in [
        &["stat"][..],
        &["explain", &url],
        &["origins"],
        &["log"],
        &["block"],
        &["maintenance"],
        &["sites"],
        &["certificate", "list"],
        &["store", "list"],
        &["purge", &url],
    ] {
        let said = json(run(node.command(command).args(["--format", "json"])));
        assert!(!said.is_empty(), "{command:?}");
        let short = json(run(node.command(command).arg("--json")));
        assert_eq!(short.is_empty(), said.is_empty(), "{command:?}");
    }
    let keys = json(run(freshet().args(["keys", "--format", "json"])));
    assert!(keys[0].as_array().unwrap().len() > 100, "{keys:?}");
    let both = run(&mut node.command(&["stat", "--json", "--format", "text"]));
    let said = String::from_utf8_lossy(&both.stderr);
    assert!(!both.status.success() && said.contains("cannot be used with"), "{said}");
}

#[test]
fn what_acts_on_a_node_says_in_json_what_it_did() {
    let home = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let told = |command: &mut Command| {
        json(run(command.env("XDG_RUNTIME_DIR", home.path()).env_remove("RUNTIME_DIRECTORY")))
            .remove(0)
    };
    let tell = |command: &str| told(freshet().args([command, "--format", "json"]));
    assert_eq!(tell("stop"), json!({"node": null, "process": null}));
    let mut serve = freshet();
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--listen-tls", "off", "--admin", "127.0.0.1:0"])
        .args(["--memory", "64MiB", "--workers", "1", "--name", "edge"])
        .args(["--origin", &format!("http://{}", origin.address)])
        .env("XDG_RUNTIME_DIR", home.path())
        .env_remove("RUNTIME_DIRECTORY");
    let mut node = Process::start(&mut serve);
    let pid = ready(&mut node);
    let address = origin.address.to_string();
    let want =
        json!({"node": "edge", "process": pid, "origins": [address], "waiting": [], "stayed": []});
    assert_eq!(tell("reload"), want);
    let upgraded = tell("upgrade");
    let next = upgraded["process"].as_u64().unwrap();
    assert_eq!(upgraded, json!({"node": "edge", "before": pid, "process": next, "version": null}));
    assert_ne!(next, u64::from(pid));
    assert_eq!(tell("stop"), json!({"node": "edge", "process": next}));
}

#[test]
fn clients_are_blocked_listed_and_let_in_again() {
    let node = Node::start();
    assert_eq!(node.say(&["block"]), "nobody is blocked\n");
    let said =
        node.say(&["block", "192.0.2.7", "2001:DB8::1/56", "--for", "6h", "--why", "scraper"]);
    assert!(said.contains("192.0.2.7                             6 h  all"), "{said}");
    assert!(said.contains("2001:db8::/56") && said.contains("an operator: scraper"), "{said}");
    let json = support::succeed(&mut node.command(&["block", "--json"]));
    assert!(json.contains("\"left_s\":21"), "{json}");
    assert!(!node.say(&["block", "2001:db8::/56", "--remove"]).contains("2001"));
    assert_eq!(node.say(&["block", "192.0.2.7", "--remove"]), "nobody is blocked\n");
    for (arguments, says) in [
        (&["block", "192.0.2.7", "--remove"][..], "192.0.2.7 is not blocked"),
        (&["block", "192.0.2.0/33"], "is no address or network"),
        (&["block", "nobody"], "is no address or network"),
        (&["block", "192.0.2.7", "--for", "0s"], "not how long"),
        (&["block", "192.0.2.7", "--for", "2y"], "not how long"),
        (&["block", "192.0.2.7", "--for", "400d"], "not how long"),
        (&["block", "192.0.2.7", "--site", "a"], "there is no site `a`"),
        (&["block", "--remove"], "give the addresses"),
    ] {
        let said = errors(&run(&mut node.command(arguments)));
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    // Who is blocked cannot connect, and is let in again.
    node.say(&["block", "127.0.0.1"]);
    let mut answer = String::new();
    let mut socket = TcpStream::connect(node.clients).unwrap();
    let _ = socket.write_all(b"GET /page HTTP/1.0\r\n\r\n");
    assert!(socket.read_to_string(&mut answer).is_err() || answer.is_empty(), "{answer}");
    node.say(&["block", "127.0.0.1", "--remove"]);
    assert!(node.ask("/page").starts_with("fwd=uri-miss; stored"));
}
