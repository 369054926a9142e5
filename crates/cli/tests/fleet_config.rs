//! A fleet that sends its nodes their configuration: real nodes, a real server of NATS, and the commands
//! of operators.
#![allow(clippy::unwrap_used, reason = "tests")]

mod drill;
mod nats;
mod support;

use drill::Origin;
use nats::Nats;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use support::{Process, freshet, program, ready, run, succeed};

/// A node that gets its configuration from a fleet.
struct Edge {
    process: Process,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Edge {
    /// Starts it with what it keeps in `home`.
    fn start(home: &Path, nats: &Nats, origin: &Origin, more: &str) -> Self {
        let name = home.file_name().unwrap().to_str().unwrap();
        fs::create_dir_all(home).unwrap();
        let file = home.join("freshet.toml");
        let text = format!(
            "memory = \"64MiB\"\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [[listen]]\naddress = \"127.0.0.1:0\"\n[[origin]]\nurl = \"http://{}\"\n\
             [fleet]\nservers = [\"{}\"]\nnode = \"{name}\"\nconfig = \"{}\"\n{more}",
            origin.address,
            nats.url(),
            home.join("config").display(),
        );
        fs::write(&file, text).unwrap();
        let mut command = freshet();
        command.args(["serve", "--config"]).arg(&file).env("RUNTIME_DIRECTORY", home);
        let mut process = Process::start(command.stdout(Stdio::null()));
        let address = process.wait_for(|line| {
            let rest = line.strip_prefix("listening  http://")?;
            Some(rest.split_whitespace().next()?.parse().unwrap())
        });
        ready(&mut process);
        let said = process.said_so_far();
        let admin = said.lines().find_map(|line| {
            let (_, rest) = line.strip_prefix("admin ")?.split_once("//")?;
            rest.split(|end: char| end == '/' || end.is_whitespace()).next()?.parse().ok()
        });
        let admin = admin.unwrap_or_else(|| panic!("no admin interface: {said}"));
        Self { process, address, admin }
    }

    /// The version that it says in metrics it keeps, tries or has refused.
    fn version(&self, state: &str) -> f64 {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", self.admin);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let name = format!("freshet_config_version{{state=\"{state}\"}} ");
        let value = answer.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name}in {answer}"))
    }

    /// The status of an answer and who it says has made it, which is `cache.name`.
    fn answer(&self) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(b"GET /object HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: "));
        let name = line.unwrap_or_default().split(';').next().unwrap_or_default();
        (answer.get(9..12).unwrap_or_default().to_owned(), name.to_owned())
    }

    fn name(&self) -> String {
        self.answer().1
    }
}

/// A folder with a configuration in which the cache is called so.
fn named(folder: &Path, name: &str, more: &str) -> String {
    let path = folder.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("freshet.toml"), format!("[cache]\nname = \"{name}\"\n{more}")).unwrap();
    path.to_str().unwrap().to_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Fleet {
    place: tempfile::TempDir,
    nats: Nats,
    origin: Origin,
}

impl Fleet {
    fn start() -> Option<Self> {
        let nats = Nats::start(program("nats-server")?);
        succeed(&mut nats.fleet(&["init"]));
        Some(Self { place: tempfile::tempdir().unwrap(), nats, origin: Origin::start() })
    }

    fn edge(&self, name: &str, more: &str) -> Edge {
        let edge = Edge::start(&self.place.path().join(name), &self.nats, &self.origin, more);
        while !self.nats.status().contains(name) {}
        edge
    }

    fn push(&self, path: &str, more: &[&str]) -> Command {
        let mut command = self.nats.fleet(&["config", "push", path]);
        command.args(more);
        command
    }

    fn folder(&self) -> &Path {
        self.place.path()
    }
}

const AT_ONCE: [&str; 2] = ["--hold", "0s"];

#[test]
fn a_configuration_comes_to_all_nodes_and_a_bad_one_stops_at_the_first() {
    let Some(fleet) = Fleet::start() else { return };
    let edges = ["edge-1", "edge-2", "edge-3"].map(|name| fleet.edge(name, ""));
    let all = |wanted: &str| edges.iter().all(|edge| edge.name() == wanted);
    let first = named(fleet.folder(), "first", "");
    let said = succeed(fleet.push(&first, &AT_ONCE).args(["--why", "a beginning"]));
    assert!(said.contains("stage 1 of 2") && said.contains("stage 2 of 2"), "{said}");
    assert!(said.contains("all nodes keep it") && all("first"), "{said}");
    // What is wrong with its words is found out here, and nothing is sent.
    let typo = named(fleet.folder(), "typo", "grase = \"1s\"\n");
    let wrong = run(&mut fleet.push(&typo, &AT_ONCE));
    assert!(!wrong.status.success() && errors(&wrong).contains("did you mean `grace`?"));
    let own = named(fleet.folder(), "own", "[fleet]\nname = \"x\"\n");
    assert!(errors(&run(&mut fleet.push(&own, &AT_ONCE))).contains("for a node's own file"));
    // What only a node finds out is refused by the first, and no other hears of it.
    let bad = named(fleet.folder(), "bad", "[log]\nformat = \"%Z\"\n");
    let wrong = run(&mut fleet.push(&bad, &AT_ONCE));
    let said = errors(&wrong);
    assert!(!wrong.status.success() && said.contains("was taken back: edge-1: "), "{said}");
    assert!(said.contains("log.format") && all("first"), "{said}");
    let status = fleet.nats.status();
    assert_eq!(status.matches("refused 2").count(), 1, "{status}");
    // The next is the better for it.
    let second = named(fleet.folder(), "second", "");
    succeed(&mut fleet.push(&second, &AT_ONCE));
    assert!(all("second"));
    let diff = succeed(&mut fleet.nats.fleet(&["config", "diff", &first]));
    assert_eq!(diff, "freshet.toml: changed\n- name = \"second\"\n+ name = \"first\"\n");
    succeed(fleet.nats.fleet(&["config", "rollback"]).args(AT_ONCE));
    assert!(all("first"));
    let history = succeed(&mut fleet.nats.fleet(&["config", "history"]));
    for part in ["why: a beginning", "taken back: edge-1", "why: back to 1", "all nodes run it"] {
        assert!(history.contains(part), "no `{part}` in {history}");
    }
    // One that comes later gets what all have.
    let late = fleet.edge("edge-4", "");
    while late.name() != "first" {}
}

#[test]
fn a_node_goes_back_by_itself_when_its_clients_get_errors() {
    let Some(fleet) = Fleet::start() else { return };
    let canary = fleet.edge("edge-1", "labels = [\"canary\"]\n");
    let other = fleet.edge("edge-2", "");
    let good = named(fleet.folder(), "good", "");
    succeed(&mut fleet.push(&good, &AT_ONCE));
    let ends = Arc::new(AtomicBool::new(false));
    let (stop, address) = (Arc::clone(&ends), canary.address);
    let load = std::thread::spawn(move || {
        while !stop.load(SeqCst) {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = b"GET /object HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
    });
    let closed = named(fleet.folder(), "closed", "[maintenance]\nenabled = true\n");
    let wrong = run(&mut fleet.push(&closed, &["--canary", "canary", "--hold", "30s"]));
    ends.store(true, SeqCst);
    load.join().unwrap();
    let said = errors(&wrong);
    assert!(said.contains("responses were errors (5xx)"), "{said}");
    // It has taken the configuration before back by the time it says so, or does now.
    while canary.answer() != ("200".to_owned(), "good".to_owned()) {}
    assert_eq!(other.answer(), ("200".to_owned(), "good".to_owned()));
}

#[test]
fn nodes_and_servers_that_die_lose_nothing_and_only_one_operator_has_his_way() {
    let Some(mut fleet) = Fleet::start() else { return };
    let edge = fleet.edge("edge-1", "");
    let kept = named(fleet.folder(), "kept", "");
    succeed(&mut fleet.push(&kept, &AT_ONCE));
    // A long trial: nobody else gets between.
    let next = named(fleet.folder(), "next", "");
    let mut push = fleet.push(&next, &["--hold", "1h"]);
    let mut pushing = Process::start(push.stdout(Stdio::null()));
    while edge.name() != "next" {}
    let busy = run(&mut fleet.push(&kept, &AT_ONCE));
    assert!(errors(&busy).contains("is on its way, at stage 1 of"), "{}", errors(&busy));
    assert!(fleet.nats.status().contains("tries 2"));
    // A node that dies while it tries something, with no server to ask, starts with what it kept.
    fleet.nats.kill();
    drop(edge);
    let home = fleet.place.path().join("edge-1");
    let mut edge = Edge::start(&home, &fleet.nats, &fleet.origin, "");
    assert_eq!(edge.name(), "kept");
    // The server has what it had, and whoever sees to the roll-out has waited, and takes it back.
    fleet.nats.run();
    assert!(!pushing.end().0.success());
    let said = pushing.said();
    assert!(said.contains("the process ended while it tried this"), "{said}");
    assert_eq!(edge.name(), "kept");
    let idle = run(&mut fleet.nats.fleet(&["config", "resume"]));
    assert!(errors(&idle).contains("nothing is on its way to `all`"), "{idle:?}");
    // One that is ended as it was asked to is not to blame, and one that was taken back goes.
    let mut push = fleet.push(&next, &["--hold", "1h"]);
    let pushing = Process::start(push.stdout(Stdio::null()));
    while edge.name() != "next" {}
    edge.process.signal(rustix::process::Signal::TERM);
    assert!(support::is_clean(edge.process.end().0));
    let edge = Edge::start(&home, &fleet.nats, &fleet.origin, "");
    while edge.name() != "next" {}
    // Where nobody sees to it any more, somebody else may.
    drop(pushing);
    let mut resume = fleet.nats.fleet(&["config", "resume"]);
    let mut resuming = Process::start(resume.stdout(Stdio::piped()));
    succeed(&mut fleet.nats.fleet(&["config", "rollback"]));
    assert!(!resuming.end().0.success());
    while edge.name() != "kept" {}
}

#[test]
fn servers_that_restart_during_a_trial_end_nothing() {
    let Some(mut fleet) = Fleet::start() else { return };
    let edges = ["edge-1", "edge-2"].map(|name| fleet.edge(name, ""));
    let mut push = fleet.push(&named(fleet.folder(), "first", ""), &["--hold", "3s"]);
    let mut pushing = Process::start(push.stdout(Stdio::piped()));
    while edges[0].name() != "first" {}
    fleet.nats.kill();
    fleet.nats.run();
    let (status, said) = pushing.end();
    assert!(status.success() && said.contains("all nodes keep it"), "{said} {}", pushing.said());
    assert_eq!(said.matches("stage 1 of 2").count(), 1, "{said}");
    assert!(edges.iter().all(|edge| edge.name() == "first" && edge.version("kept") == 1.0));
}

#[test]
fn what_was_refused_is_tried_again_when_somebody_says_so() {
    let Some(fleet) = Fleet::start() else { return };
    let edge = fleet.edge("edge-1", "");
    succeed(&mut fleet.push(&named(fleet.folder(), "first", ""), &AT_ONCE));
    let logs = fleet.folder().join("logs");
    let log = format!("[log]\naccess = \"{}\"\n", logs.join("access.log").display());
    let path = named(fleet.folder(), "logging", &log);
    let wrong = run(&mut fleet.push(&path, &AT_ONCE));
    assert!(errors(&wrong).contains("version 2 (") && errors(&wrong).contains("taken back"));
    let versions = |edge: &Edge| ["kept", "trying", "refused"].map(|state| edge.version(state));
    while versions(&edge) != [1.0, 0.0, 2.0] {}
    // Nobody tries it again by himself: not when it is mended either.
    fs::create_dir(&logs).unwrap();
    let retry =
        |more: &[&str]| fleet.nats.fleet(&[&["config", "retry", "--hold", "0s"], more].concat());
    let said = succeed(&mut retry(&[]));
    assert!(said.contains("version 3 (") && said.contains("all nodes keep it"), "{said}");
    assert_eq!((edge.name(), versions(&edge)), ("logging".into(), [3.0, 0.0, 2.0]));
    let history = succeed(&mut fleet.nats.fleet(&["config", "history"]));
    assert!(history.contains("why: 2 again."), "{history}");
    let wrong = run(&mut retry(&[]));
    assert!(errors(&wrong).contains("no version was taken back last"), "{wrong:?}");
    let wrong = run(&mut retry(&["--number", "9"]));
    assert!(errors(&wrong).contains("there is no version 9"), "{wrong:?}");
    succeed(&mut retry(&["--number", "1"]));
    assert_eq!(edge.name(), "first");
}

#[test]
fn who_comes_later_gets_what_was_pushed_and_nobody_is_said_to_have_it_before() {
    let Some(fleet) = Fleet::start() else { return };
    let said = succeed(&mut fleet.push(&named(fleet.folder(), "first", ""), &AT_ONCE));
    assert!(said.contains("no node of `all` is there to take it yet"), "{said}");
    let history = || succeed(&mut fleet.nats.fleet(&["config", "history"]));
    assert!(history().contains("no node says that it has it"), "{}", history());
    let edge = fleet.edge("edge-1", "");
    while edge.name() != "first" {}
    while !history().contains("all nodes run it") {}
    // Who misspells a group hears of the one that there is.
    let path = named(fleet.folder(), "second", "");
    let pushed = run(fleet.push(&path, &AT_ONCE).args(["--group", "al"]));
    let said = errors(&pushed);
    assert!(pushed.status.success(), "{said}");
    let hint = "no node of group `al` answers; of these groups some do: all";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn what_is_secret_is_sealed_or_not_sent() {
    let Some(fleet) = Fleet::start() else { return };
    let secret = fleet.folder().join("secret");
    let text = succeed(freshet().args(["fleet", "secret"]));
    fs::write(&secret, &text).unwrap();
    let edge = fleet.edge("edge-1", &format!("secret = \"{}\"\n", secret.display()));
    let path = named(fleet.folder(), "closed", "[[access]]\npath = \"/\"\nusers = \"users\"\n");
    let missing = run(&mut fleet.push(&path, &AT_ONCE));
    assert!(errors(&missing).contains("names `users`, which is not there"), "{missing:?}");
    let users = "anna:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\n";
    fs::write(Path::new(&path).join("users"), users).unwrap();
    let open = run(&mut fleet.push(&path, &AT_ONCE));
    assert!(errors(&open).contains("`users` is secret"), "{open:?}");
    // A node with a secret believes nothing that is not sealed with it.
    let plain = named(fleet.folder(), "plain", "");
    let wrong = run(&mut fleet.push(&plain, &AT_ONCE));
    assert!(errors(&wrong).contains("not sealed with this fleet's secret"), "{wrong:?}");
    let sealed = ["--secret", secret.to_str().unwrap(), "--hold", "0s"];
    succeed(&mut fleet.push(&path, &sealed));
    assert_eq!(edge.answer().0, "401");
    let found = Command::new("grep").args(["-rl", "anna"]).arg(fleet.nats.folder.path()).output();
    assert!(found.unwrap().stdout.is_empty(), "the servers have it in the clear");
}
