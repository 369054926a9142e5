//! What is in memory outlives an upgrade.
#![allow(clippy::unwrap_used, reason = "tests")]

mod named;
mod support;

use freshet_net::succession::Line;
use named::{Origin, content};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{JoinHandle, spawn};
use std::time::Instant;
use support::{PATIENCE, Process, freshet, pid, ready, succeed};

/// A node that hands over to others; all of them end with the test.
struct Node {
    process: Process,
    address: SocketAddr,
    pids: Vec<u32>,
}

impl Node {
    fn start(origin: SocketAddr, folder: &Path, more: &[&str]) -> Self {
        let mut process = Process::start(
            freshet()
                .args(["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB", "--workers", "2"])
                .args(["--origin", &format!("http://{origin}")])
                .args(["--admin", &format!("unix:{}/admin", folder.display())])
                .args(more)
                .env("XDG_RUNTIME_DIR", folder)
                .env("FRESHET_LOG", "info"),
        );
        let address = process.wait_for(|line| {
            let rest = line.strip_prefix("listening  http://")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        let pid = ready(&mut process);
        Self { process, address, pids: vec![pid] }
    }

    /// Begins to hand over; the new process serves afterwards.
    fn upgrade(&mut self) {
        self.signal(Signal::USR2);
        let next = ready(&mut self.process);
        self.pids.push(next);
        self.wait_for("the new process serves");
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid(*self.pids.last().unwrap()), signal).unwrap();
    }

    /// Kills all its processes, and waits until what they held is free.
    fn kill(&self) {
        let open = |number: &u32| pidfd_open(pid(*number), PidfdFlags::empty()).unwrap();
        let all: Vec<_> = self.pids.iter().map(open).collect();
        for process in &all {
            // One may have ended with the other.
            let _ = pidfd_send_signal(process, Signal::KILL);
            poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
        }
    }

    fn wait_for(&mut self, text: &str) -> String {
        self.process.wait_for(|line| line.contains(text).then(|| line.to_owned()))
    }

    /// The head and the body of an answer of this host, over a connection of its own; `fields` end in a line's end.
    fn exchange(&self, host: &str, target: &str, fields: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap(), body)
    }

    fn client(&self) -> Client {
        Client { address: self.address, connection: None }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for successor in &self.pids[1..] {
            let _ = kill_process(pid(*successor), Signal::KILL);
        }
    }
}

/// A client that keeps its connection as long as the server does.
struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    /// The status and `Cache-Status` of a response whose bytes were right.
    fn ask(&mut self, method: &str, target: &str) -> std::io::Result<(u16, String)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                BufReader::new(stream)
            }
        };
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("no answer: {line:?}")))?;
        let (mut cached, mut length, mut closes) = (String::new(), 0, false);
        loop {
            line.clear();
            connection.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(std::io::Error::other)?,
                "cache-status" => cached = value.to_owned(),
                "connection" => closes = value == "close",
                _ => {}
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        if method == "GET" && status == 200 && body != content(target) {
            return Err(std::io::Error::other(format!("{target}: wrong bytes")));
        }
        if !closes {
            self.connection = Some(connection);
        }
        Ok((status, cached))
    }
}

/// Clients that ask for all of these until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(node: &Node, targets: &[String]) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let threads = (0..4)
            .map(|client_number| {
                let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
                let (mut client, targets) = (node.client(), targets.to_vec());
                spawn(move || {
                    let mut failures = Vec::new();
                    let mut at = client_number * 7;
                    while !stop.load(SeqCst) && failures.len() < 5 {
                        let target = &targets[at % targets.len()];
                        at += 1;
                        match client.ask("GET", target) {
                            Ok((200, _)) => {}
                            other => failures.push(format!("{target}: {other:?}")),
                        }
                        answered.fetch_add(1, SeqCst);
                    }
                    failures
                })
            })
            .collect();
        Self { stop, answered, threads }
    }

    fn go_on(&self, more: u64) {
        let (wanted, until) = (self.answered.load(SeqCst) + more, Instant::now() + PATIENCE);
        while self.answered.load(SeqCst) < wanted {
            assert!(Instant::now() < until, "no answers");
            std::thread::yield_now();
        }
    }

    fn finish(self) {
        self.stop.store(true, SeqCst);
        let failures: Vec<_> =
            self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(failures.is_empty(), "{failures:?}");
    }
}

#[test]
fn memory_moves_while_requests_are_answered_and_no_origin_is_asked() {
    memory_moves(1);
}

#[test]
fn what_is_being_filled_when_a_hand_over_begins_moves_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut node = Node::start(listener.local_addr().unwrap(), folder.path(), &[]);
    let target = "/200000/slow";
    let mut client = node.client();
    let asked = spawn(move || client.ask("GET", target));
    let (mut origin, _) = listener.accept().unwrap();
    let mut request = BufReader::new(origin.try_clone().unwrap()).lines();
    while !request.next().unwrap().unwrap().is_empty() {}
    let body = content(target);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
    origin.write_all(format!("{head}Cache-Control: max-age=3600\r\n\r\n").as_bytes()).unwrap();
    origin.write_all(&body[..100_000]).unwrap();
    node.upgrade();
    origin.write_all(&body[100_000..]).unwrap();
    assert_eq!(asked.join().unwrap().unwrap().0, 200);
    // No origin answers any more.
    drop((listener, origin, request));
    node.wait_for("memory was handed over");
    let (status, cached) = node.client().ask("GET", target).unwrap();
    assert!(status == 200 && cached.contains("hit"), "{status} {cached}");
}

#[test]
fn memory_of_groups_moves_as_that_of_one() {
    memory_moves(2);
}

/// The upgrade of a node with so many groups of workers.
fn memory_moves(groups: usize) {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let mut targets: Vec<String> = (0..300).map(|at| format!("/{}/{at}", 1 + at * 97)).collect();
    targets.extend((0..15).map(|at| format!("/{}/large", 1_000_000 + at)));
    targets.push("/0/empty".into());
    let file = folder.path().join("freshet.toml");
    std::fs::write(&file, format!("numa_groups = {groups}\n")).unwrap();
    let more = ["--config", &file.to_string_lossy()];
    let mut node = Node::start(origin.address, folder.path(), &more);
    let mut client = node.client();
    for target in &targets {
        assert_eq!(client.ask("GET", target).unwrap().0, 200);
    }
    for target in ["/98/1", "/195/2"] {
        assert_eq!(client.ask("PURGE", target).unwrap().0, 200);
    }
    targets.retain(|target| target != "/98/1" && target != "/195/2");
    // An idle connection would be waited for.
    drop(client);
    let fetched = origin.requests.load(SeqCst);
    // Twice: what was handed over can be handed over again.
    for _ in 0..2 {
        let load = Load::start(&node, &targets);
        load.go_on(100);
        node.upgrade();
        let mut client = node.client();
        let began = Instant::now();
        let (_, cached) = client.ask("GET", "/1000003/large").unwrap();
        let first_ms = began.elapsed().as_millis();
        assert!(cached.contains("hit"), "{cached}");
        assert!(first_ms < 200, "the first hit took {first_ms} ms");
        load.go_on(100);
        let said = node.wait_for("memory was taken over");
        assert!(said.contains("objects=314") && said.contains("lost=0"), "{said}");
        load.go_on(100);
        load.finish();
        let mut client = node.client();
        for target in &targets {
            let (status, cached) = client.ask("GET", target).unwrap();
            assert!(status == 200 && cached.contains("hit"), "{target}: {status} {cached}");
        }
    }
    assert_eq!(origin.requests.load(SeqCst), fetched, "all of it was in memory");
    let (_, cached) = node.client().ask("GET", "/98/1").unwrap();
    assert!(cached.contains("fwd=uri-miss"), "what was purged does not come back: {cached}");
}

#[test]
fn what_goes_from_memory_during_the_move_is_fetched_by_who_has_begun_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let mut node = Node::start(origin.address, folder.path(), &[]);
    // More than there is memory for: each one that comes has another go.
    let targets: Vec<String> = (0..90).map(|at| format!("/{}/large", 1_000_000 + at)).collect();
    let load = Load::start(&node, &targets);
    load.go_on(200);
    for _ in 0..3 {
        node.upgrade();
        load.go_on(100);
        node.wait_for("memory was taken over");
    }
    load.finish();
}

#[test]
fn what_a_site_keeps_stays_its_own_in_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let file = folder.path().join("freshet.toml");
    let sites = [("a", "/1000"), ("b", "/2000")];
    let site = |(name, base): (&str, &str)| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.test\"]\n\
             [[site.origin]]\nurl = \"http://{}{base}\"\n",
            origin.address
        )
    };
    std::fs::write(&file, sites.map(site).concat()).unwrap();
    let more = ["--config", &file.to_string_lossy()];
    let mut node = Node::start(origin.address, folder.path(), &more);
    // The same path of both; whose it is shows in its bytes.
    let cached = |node: &Node, (name, base): (&str, &str)| {
        let whole = content(&format!("{base}/same"));
        let (head, body) = node.exchange(&format!("{name}.test"), "/same", "");
        assert!(head.starts_with("HTTP/1.1 200") && body == whole, "{name}: {head}");
        let (part, body) =
            node.exchange(&format!("{name}.test"), "/same", "Range: bytes=100-199\r\n");
        assert!(part.starts_with("HTTP/1.1 206") && body == whole[100..200], "{name}: {part}");
        head.contains("; hit")
    };
    assert_eq!(sites.map(|site| cached(&node, site)), [false, false]);
    let say = |words: &[&str]| succeed(freshet().args(words).env("XDG_RUNTIME_DIR", folder.path()));
    for purged in ["a", "b"] {
        node.upgrade();
        node.wait_for("memory was taken over");
        assert_eq!(sites.map(|site| cached(&node, site)), [true, true]);
        say(&["purge", "--all", "--site", purged]);
        // What was purged is not handed over, and what was not is.
        node.upgrade();
        node.wait_for("memory was taken over");
        let is_kept = sites.map(|(name, _)| name != purged);
        assert_eq!(sites.map(|site| cached(&node, site)), is_kept);
    }
}

#[test]
fn what_was_said_on_the_command_line_holds_in_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let mut node = Node::start(origin.address, folder.path(), &[]);
    let say = |words: &[&str]| succeed(freshet().args(words).env("XDG_RUNTIME_DIR", folder.path()));
    let name = origin.address.to_string();
    say(&["origins", &name, "down"]);
    say(&["maintenance", "on"]);
    say(&["block", "198.51.100.0/24", "--for", "1h", "--why", "crawler"]);
    // What went over goes over again.
    for _ in 0..2 {
        node.upgrade();
        assert!(say(&["origins"]).contains("down     down"), "{}", say(&["origins"]));
        assert!(say(&["maintenance"]).contains("maintenance\n"), "{}", say(&["maintenance"]));
        let blocks = say(&["block"]);
        assert!(blocks.contains("198.51.100.0/24") && blocks.contains("crawler"), "{blocks}");
        let answer = node.client().ask("GET", "/1000/a").unwrap();
        assert_eq!(answer.0, 503, "{answer:?}");
    }
    say(&["origins", &name, "auto"]);
    say(&["maintenance", "off"]);
    node.upgrade();
    assert!(say(&["origins"]).contains("up       auto"), "{}", say(&["origins"]));
    let answer = node.client().ask("GET", "/1000/a").unwrap();
    assert_eq!(answer.0, 200, "{answer:?}");
}

#[test]
fn a_purge_during_the_move_holds_in_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let mut node = Node::start(origin.address, folder.path(), &[]);
    let mut old = node.client();
    for target in ["/1000/a", "/1000/b", "/1000/c"] {
        old.ask("GET", target).unwrap();
    }
    node.upgrade();
    // Over a connection to the old process, which answers once more.
    let (status, _) = old.ask("PURGE", "/1000/a").unwrap();
    assert_eq!(status, 200);
    let mut new = node.client();
    assert_eq!(new.ask("PURGE", "/1000/b").unwrap().0, 200);
    node.wait_for("memory was taken over");
    let cached = |target: &str| node.client().ask("GET", target).unwrap().1;
    assert!(cached("/1000/a").contains("fwd=uri-miss"), "purged in the old process");
    assert!(cached("/1000/b").contains("fwd=uri-miss"), "purged in the new process");
    assert!(cached("/1000/c").contains("hit"));
}

#[test]
fn lifetimes_a_policy_gives_in_the_old_process_hold_in_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let policy = folder.path().join("policy.vcl");
    let text = format!(
        "vcl 4.1;\nimport purge;\nbackend b {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n\
         sub vcl_recv {{ if (req.method ~ \"ED$\") {{ return (hash); }} }}\n\
         sub vcl_hit {{\n\
         if (req.method == \"ENDED\") {{ purge.soft(0s, 0s); return (synth(200)); }}\n\
         if (req.method == \"EXTENDED\") {{ purge.soft(1d); return (synth(200)); }} }}\n\
         sub vcl_backend_response {{ set beresp.ttl = 1h; set beresp.grace = 1h; }}\n",
        origin.address.port()
    );
    std::fs::write(&policy, text).unwrap();
    let mut node =
        Node::start(origin.address, folder.path(), &["--vcl", &policy.to_string_lossy()]);
    let (mut old, mut other) = (node.client(), node.client());
    for target in ["/1000/a", "/1000/b", "/1000/c"] {
        old.ask("GET", target).unwrap();
    }
    other.ask("GET", "/1000/b").unwrap();
    node.client().ask("ENDED", "/1000/c").unwrap();
    node.upgrade();
    // Over connections to the old process, which answers once more.
    assert_eq!(old.ask("ENDED", "/1000/a").unwrap().0, 200);
    assert_eq!(other.ask("EXTENDED", "/1000/b").unwrap().0, 200);
    node.wait_for("memory was taken over");
    let cached = |target: &str| node.client().ask("GET", target).unwrap().1;
    assert!(!cached("/1000/a").contains("hit"), "ended in the old process during the move");
    assert!(!cached("/1000/c").contains("hit"), "ended before it");
    let extended = cached("/1000/b");
    let ttl = extended.split("ttl=").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    let ttl: u64 = ttl.trim().parse().unwrap();
    assert!(ttl > 80_000, "{extended}");
}

#[test]
fn bans_go_over_with_what_they_ban() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let policy = folder.path().join("policy.vcl");
    let text = format!(
        "vcl 4.1;\nbackend b {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n\
         sub vcl_recv {{ if (req.method == \"BAN\") {{\n\
         ban({{\"obj.http.none != \"bc\" && req.url == \"}} + req.url); return (synth(200)); }} }}\n",
        origin.address.port()
    );
    std::fs::write(&policy, text).unwrap();
    let mut node =
        Node::start(origin.address, folder.path(), &["--vcl", &policy.to_string_lossy()]);
    let ask = |node: &Node, method: &str, target: &str| {
        let (status, cached) = node.client().ask(method, target).unwrap();
        assert_eq!(status, 200, "{method} {target}");
        cached
    };
    for target in ["/1000/a", "/1000/b", "/1000/c"] {
        ask(&node, "GET", target);
    }
    ask(&node, "BAN", "/1000/a");
    ask(&node, "BAN", "/1000/b");
    // Fetched again since, so the ban is not about it.
    ask(&node, "GET", "/1000/b");
    let fetched = origin.requests.load(SeqCst);
    node.upgrade();
    node.wait_for("memory was taken over");
    assert!(!ask(&node, "GET", "/1000/a").contains("hit"), "it was banned before");
    assert!(ask(&node, "GET", "/1000/b").contains("hit"));
    assert!(ask(&node, "GET", "/1000/c").contains("hit"));
    assert_eq!(origin.requests.load(SeqCst), fetched + 1);
    ask(&node, "BAN", "/1000/c");
    assert!(!ask(&node, "GET", "/1000/c").contains("hit"), "it was banned since");
}

#[test]
fn a_ban_or_purge_in_the_old_process_is_on_the_disk_when_it_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let store = format!("{}:64MiB", folder.path().join("store").display());
    let policy = folder.path().join("policy.vcl");
    let text = format!(
        "vcl 4.1;\nbackend b {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n\
         sub vcl_recv {{ if (req.method == \"PURGE\") {{ return (purge); }}\n\
         if (req.method == \"BAN\") {{\n\
         ban({{\"obj.http.none != \"bc\" && req.url == \"}} + req.url); return (synth(200)); }} }}\n",
        origin.address.port()
    );
    std::fs::write(&policy, text).unwrap();
    let arguments = ["--vcl", &policy.to_string_lossy(), "--store", &store];
    let mut node = Node::start(origin.address, folder.path(), &arguments);
    let targets = ["/1000/a", "/1000/b", "/1000/c", "/1000/d"];
    let mut old = node.client();
    for target in targets {
        assert_eq!(old.ask("GET", target).unwrap().0, 200);
    }
    node.client().ask("BAN", "/1000/d").unwrap();
    let mut other = node.client();
    other.ask("GET", "/1000/a").unwrap();
    node.upgrade();
    node.wait_for("the disk is in use");
    // Over connections to the old process, which answers once more.
    assert_eq!(old.ask("BAN", "/1000/a").unwrap().0, 200);
    assert_eq!(other.ask("PURGE", "/1000/b").unwrap().0, 200);
    node.kill();
    drop(node);
    let node = Node::start(origin.address, folder.path(), &arguments);
    let fetched = origin.requests.load(SeqCst);
    assert!(node.client().ask("GET", "/1000/c").unwrap().1.contains("hit"), "it is on the disk");
    assert_eq!(origin.requests.load(SeqCst), fetched);
    for target in ["/1000/a", "/1000/b", "/1000/d"] {
        assert_eq!(node.client().ask("GET", target).unwrap().0, 200);
    }
    assert_eq!(origin.requests.load(SeqCst), fetched + 3, "banned or purged in both processes");
}

#[test]
fn disks_go_over_with_memory() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let store = format!("{}:256MiB", folder.path().join("store").display());
    let mut node = Node::start(origin.address, folder.path(), &["--store", &store]);
    // More than memory holds, so that most is on the disk only.
    let targets: Vec<String> = (0..100).map(|at| format!("/{}/{at}", 1_000_000 + at)).collect();
    let mut client = node.client();
    // What comes faster than the disk writes is not written: until it has all.
    let fetched = loop {
        let before = origin.requests.load(SeqCst);
        for target in &targets {
            client.ask("GET", target).unwrap();
        }
        if origin.requests.load(SeqCst) == before {
            break before;
        }
    };
    drop(client);
    node.upgrade();
    // Memory moves while the disk does, and may be there first.
    let has_moved = Cell::new(false);
    for text in ["left to the new process", "the disk is in use"] {
        node.process.wait_for(|line| {
            has_moved.set(has_moved.get() || line.contains("memory was taken over"));
            line.contains(text).then_some(())
        });
    }
    let load = Load::start(&node, &targets);
    load.go_on(200);
    if !has_moved.get() {
        node.wait_for("memory was taken over");
    }
    load.go_on(200);
    load.finish();
    let again = origin.requests.load(SeqCst) - fetched;
    assert_eq!(again, 0, "memory or the disk has all");
}

#[test]
fn memory_of_a_lower_class_is_taken_over_once_the_old_process_has_drained() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let origin = Origin::start();
    let file = folder.path().join("freshet.toml");
    let lower = folder.path().join("lower");
    let text = format!("[lower_memory]\npath = {lower:?}\nsize = \"128MiB\"\n");
    std::fs::write(&file, text).unwrap();
    let mut node =
        Node::start(origin.address, folder.path(), &["--config", &file.to_string_lossy()]);
    let targets: Vec<String> = (0..90).map(|at| format!("/{}/{at}", 1_000_000 + at)).collect();
    let ask_all = |node: &Node| {
        let mut client = node.client();
        for target in &targets {
            assert_eq!(client.ask("GET", target).unwrap().0, 200);
        }
    };
    // More than the first class holds, so a part is in the lower one.
    ask_all(&node);
    let fetched = origin.requests.load(SeqCst);
    ask_all(&node);
    assert_eq!(origin.requests.load(SeqCst), fetched, "both classes hold all of it");
    for _ in 0..2 {
        let load = Load::start(&node, &targets);
        load.go_on(100);
        node.upgrade();
        load.go_on(100);
        // In this order or the other.
        let mut missing = vec!["memory was taken over", "a lower class of memory is in use"];
        while !missing.is_empty() {
            let line = node.process.wait_for(|line| {
                missing.iter().any(|text| line.contains(text)).then(|| line.to_owned())
            });
            assert!(!line.contains("in part only"), "{line}");
            missing.retain(|text| !line.contains(text));
        }
        load.go_on(200);
        load.finish();
        // What the first class had no room for is fetched again, and then both have all again.
        ask_all(&node);
        let fetched = origin.requests.load(SeqCst);
        ask_all(&node);
        assert_eq!(origin.requests.load(SeqCst), fetched, "both classes hold all of it again");
    }
}

#[test]
fn the_end_of_the_old_process_leaves_what_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let mut node = Node::start(origin.address, folder.path(), &[]);
    let targets: Vec<String> = (0..20).map(|at| format!("/{}/{at}", 100_000 + at)).collect();
    for target in &targets {
        node.client().ask("GET", target).unwrap();
    }
    node.upgrade();
    kill_process(pid(node.pids[0]), Signal::KILL).unwrap();
    node.wait_for("taken over in part only");
    // Over new connections: the old process may still have accepted one before.
    for target in &targets {
        assert_eq!(node.client().ask("GET", target).unwrap().0, 200);
        assert!(node.client().ask("GET", target).unwrap().1.contains("hit"));
    }
}

#[test]
fn a_process_that_says_something_else_is_not_taken_over_from() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let hello = |version: u64| {
        let mut bytes = vec![16, 0, 0, 0, 1];
        bytes.extend_from_slice(b"freshet\n");
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes
    };
    // A newer format, noise, and an end in the middle.
    for (said, why) in [
        (hello(7), "format 7"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "no frame of ours"),
        (hello(1)[..9].to_vec(), "failed to fill whole buffer"),
    ] {
        let mut command = freshet();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "off"])
            .args(["--origin", &format!("http://{}", origin.address)])
            .env("XDG_RUNTIME_DIR", folder.path());
        let line = Line::of(&mut command).unwrap();
        let mut process = Process::start(&mut command);
        let mut line = line.opened();
        line.write_all(&said).unwrap();
        line.shutdown(Shutdown::Write).unwrap();
        let log =
            process.wait_for(|line| line.contains("it starts empty").then(|| line.to_owned()));
        assert!(log.contains(why), "{log}");
        let address = process.wait_for(|line| {
            line.strip_prefix("listening  http://")?.split_whitespace().next()?.parse().ok()
        });
        let mut client = Client { address, connection: None };
        assert_eq!(client.ask("GET", "/10/a").unwrap().0, 200);
    }
}

/// A packager that begins with this segment, and how often it was asked.
#[derive(Clone, Default)]
struct Packager {
    first: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
}

impl Packager {
    fn playlist(&self) -> String {
        let first = self.first.load(SeqCst);
        format!(
            "#EXTM3U\n#EXT-X-TARGETDURATION:100\n#EXT-X-MEDIA-SEQUENCE:{first}\n#EXTINF:2,\na.ts\n\
             #EXTINF:2,\nb.ts\n#EXTINF:2,\nc.ts\n"
        )
    }

    /// Serves its playlist at any path, fresh for no time.
    fn serve(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let packager = self.clone();
                spawn(move || packager.answer(BufReader::new(stream)));
            }
        });
        address
    }

    fn answer(&self, mut stream: BufReader<TcpStream>) -> Option<()> {
        let mut line = String::new();
        loop {
            line.clear();
            stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            if line == "\r\n" {
                self.asked.fetch_add(1, SeqCst);
                let text = self.playlist();
                let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nContent-Type: \
                            application/vnd.apple.mpegurl\r\nETag: ";
                let (tag, length) = (self.first.load(SeqCst), text.len());
                let answer = format!("{head}\"{tag}\"\r\nContent-Length: {length}\r\n\r\n{text}");
                stream.get_mut().write_all(answer.as_bytes()).ok()?;
            }
        }
    }
}

#[test]
fn a_playlist_does_not_go_back_over_an_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    let packager = Packager::default();
    packager.first.store(20, SeqCst);
    let file = folder.path().join("freshet.toml");
    std::fs::write(&file, "[media]\nahead = 0\n").unwrap();
    let file = file.to_string_lossy();
    let mut node = Node::start(packager.clone().serve(), folder.path(), &["--config", &file]);
    let newest = packager.playlist();
    let got = |node: &Node| {
        let mut stream = TcpStream::connect(node.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET /c/v.m3u8 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(got(&node).ends_with(&newest));
    packager.first.store(18, SeqCst);
    node.upgrade();
    // Until the origin was asked by the new process.
    let before = packager.asked.load(SeqCst);
    while packager.asked.load(SeqCst) == before {
        let text = got(&node);
        assert!(text.ends_with(&newest), "{text}");
    }
    packager.first.store(21, SeqCst);
    let newest = packager.playlist();
    while !got(&node).ends_with(&newest) {}
}
