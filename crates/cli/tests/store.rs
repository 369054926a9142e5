//! What is on disk outlives the process, however that ends.
#![allow(clippy::unwrap_used, reason = "tests")]

mod erasing;
mod faulty;
mod named;
mod support;

use faulty::Faulty;
use freshet_device::file::FileDevice;
use freshet_disk::superblock::Superblock;
use named::{Origin, content};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use support::{PATIENCE, Process, freshet, succeed};

struct Node {
    process: Process,
    address: SocketAddr,
    runtime: PathBuf,
    /// Of the admin interface.
    token: String,
}

impl Node {
    fn start(origin: &Origin, folder: &Path, store: &str) -> Self {
        Self::start_with(origin, folder, &["--store", store])
    }

    fn start_with(origin: &Origin, folder: &Path, more: &[&str]) -> Self {
        let url = format!("http://{}", origin.address);
        let from = if more.contains(&"--vcl") { vec![] } else { vec!["--origin", &url] };
        Self::start_alone(folder, &[&from[..], more].concat())
    }

    /// A node whose origins are in its configuration.
    fn start_alone(folder: &Path, more: &[&str]) -> Self {
        let runtime = folder.join("run");
        std::fs::create_dir_all(&runtime).unwrap();
        let mut process = Process::start(
            freshet()
                .args(["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB", "--workers", "2"])
                .args(more)
                .args([
                    "--admin",
                    &format!("unix:{}/admin", runtime.display()),
                    "--set",
                    "drain=1s",
                ])
                .env("XDG_RUNTIME_DIR", &runtime)
                .env("FRESHET_LOG", "info"),
        );
        let address = process.wait_for(|line| {
            let rest = line.strip_prefix("listening  http://")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        let token: PathBuf = process.wait_for(|line| {
            let rest = line.strip_prefix("token      ")?;
            Some(rest.trim().into())
        });
        process.wait_for(|line| line.starts_with("ready").then_some(()));
        let token = std::fs::read_to_string(token).unwrap().trim().to_owned();
        Self { process, address, runtime, token }
    }

    /// Ends it without order.
    fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.end();
    }

    /// Status, head and body of a response.
    fn get(&self, target: &str, more: &str) -> (u16, String, Vec<u8>) {
        self.get_from("a.test", target, more)
    }

    /// The same, of a host.
    fn get_from(&self, host: &str, target: &str, more: &str) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let method = if more == "PURGE" { "PURGE" } else { "GET" };
        let more = if more == "PURGE" { "" } else { more };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        (status, head, bytes.split_off(end + 4))
    }

    /// Asks the admin interface; what it answers.
    fn ask(&self, request: &str, body: &str) -> Value {
        serde_json::from_str(&self.ask_for_text(request, body)).unwrap()
    }

    /// The same where the answer is no JSON.
    fn ask_for_text(&self, request: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.runtime.join("admin")).unwrap();
        let text = format!(
            "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_off(answer.find("\r\n\r\n").unwrap())
    }

    /// Waits until the disk has written what it was given.
    fn written(&self, records: u64) {
        let of = |store: &Value| store["records"].as_u64().unwrap();
        self.wait_for(|stores| stores.iter().map(of).sum::<u64>() >= records);
    }

    fn wait_for_health(&self) {
        self.wait_for(|stores| stores.iter().all(|store| store["health"] == "healthy"));
    }

    /// What is said of the disks.
    fn stores(&self) -> Vec<Value> {
        let list = succeed(
            freshet()
                .args(["store", "list", "--json", "--admin"])
                .arg(format!("unix:{}/admin", self.runtime.display()))
                .env("XDG_RUNTIME_DIR", &self.runtime),
        );
        serde_json::from_str(&list).unwrap()
    }

    /// Waits until this is true of the disks.
    fn wait_for(&self, is_so: impl Fn(&[Value]) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let stores = self.stores();
            if is_so(&stores) {
                return;
            }
            assert!(Instant::now() < until, "{stores:?}");
            std::thread::yield_now();
        }
    }
}

/// A node with an empty memory, whose disk has `targets`.
fn restarted(origin: &Origin, folder: &Path, store: &str, targets: &[String]) -> Node {
    let mut node = Node::start(origin, folder, store);
    check_all(&node, targets);
    node.written(targets.len() as u64);
    node.kill();
    Node::start(origin, folder, store)
}

fn check_all(node: &Node, targets: &[String]) {
    for target in targets {
        let (status, head, body) = node.get(target, "");
        assert_eq!(status, 200, "{head}");
        assert!(body == content(target), "{target}: wrong bytes");
    }
}

#[test]
fn what_was_cached_is_served_after_a_kill_without_the_origin() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // As good as none.
    std::fs::File::create(&path).unwrap();
    let store = format!("{}:256MiB", path.display());
    let origin = Origin::start();
    // Small ones, one of several records, and one that is larger than memory keeps.
    let mut targets: Vec<String> = (0..20).map(|at| format!("/{}/{at}", 100 + at * 4000)).collect();
    targets.extend(["/1000000/a".into(), "/5000000/b".into(), "/20000000/c".into()]);
    let records = 20 + 1 + 5 + 20;
    let mut node = Node::start(&origin, folder.path(), &store);
    check_all(&node, &targets);
    node.written(records);
    let fetched = origin.requests.load(SeqCst);
    assert_eq!(node.get("/4100/1", "PURGE").0, 200);
    node.kill();

    let mut node = Node::start(&origin, folder.path(), &store);
    let kept: Vec<String> = targets.iter().filter(|one| *one != "/4100/1").cloned().collect();
    check_all(&node, &kept);
    let (status, head, body) = node.get("/5000000/b", "Range: bytes=3000000-3000099\r\n");
    assert_eq!((status, &body[..]), (206, &content("/5000000/b")[3_000_000..3_000_100]), "{head}");
    let (status, _, body) = node.get("/20000000/c", "Range: bytes=19999990-\r\n");
    assert_eq!((status, &body[..]), (206, &content("/20000000/c")[19_999_990..]));
    assert_eq!(origin.requests.load(SeqCst), fetched, "the disk has everything");
    check_all(&node, &["/4100/1".into()]);
    assert_eq!(origin.requests.load(SeqCst), fetched + 1, "what was purged is fetched");

    // In order this time; and a store in use is no one else's.
    let path = folder.path().join("store").display().to_string();
    let refused = support::run(freshet().args(["store", "check", &path]));
    assert!(!refused.status.success());
    node.process.signal(Signal::TERM);
    assert!(support::is_clean(node.process.end().0));
    let said = succeed(freshet().args(["store", "check", &path]));
    assert!(said.contains("in order"), "{said}");
    let said: Value =
        serde_json::from_str(&succeed(freshet().args(["store", "check", "--json", &path])))
            .unwrap();
    assert_eq!((&said[0]["good"], &said[0]["stopped_in_order"]), (&true.into(), &true.into()));
    let node = Node::start(&origin, folder.path(), &store);
    check_all(&node, &targets);
    assert_eq!(origin.requests.load(SeqCst), fetched + 1);
}

#[test]
fn what_was_banned_or_purged_by_a_policy_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let store = format!("{}:64MiB", folder.path().join("store").display());
    let policy = folder.path().join("policy.vcl");
    let text = format!(
        r#"vcl 4.1;
import purge;
import std;

backend origin {{ .host = "{}"; .port = "{}"; }}
sub vcl_recv {{
    if (req.http.x-do == "ban") {{
        ban("req.url == " + req.url + " && req.http.host == a.test");
        return (synth(200, "Banned"));
    }}
    if (req.http.x-do == "std") {{
        if (std.ban("obj.http.x == y && req.url == " + req.url)) {{ return (synth(200)); }}
    }}
}}
sub forget {{
    if (req.http.x-do == "purge") {{ purge.hard(); return (synth(200, "Purged")); }}
    if (req.http.x-do == "soft") {{ purge.soft(0s, 0s, 1h); return (synth(200, "Purged")); }}
}}
sub vcl_hit {{ call forget; }}
sub vcl_miss {{ call forget; }}
"#,
        origin.address.ip(),
        origin.address.port()
    );
    std::fs::write(&policy, text).unwrap();
    let arguments = ["--vcl", &policy.to_string_lossy(), "--store", &store].map(str::to_owned);
    let start = || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Node::start_with(&origin, folder.path(), &arguments)
    };
    let targets: Vec<String> = (0..6).map(|at| format!("/4000/{at}")).collect();
    let mut node = start();
    check_all(&node, &targets);
    node.written(6);
    // What stays is tested against each ban that comes before it, and counted.
    assert_eq!(node.get("/4000/3", "X-Do: soft\r\n").0, 200);
    assert_eq!(node.get("/4000/0", "X-Do: ban\r\n").0, 200);
    assert_eq!(node.get("/4000/1", "X-Do: purge\r\n").0, 200);
    let ban = r#"{"ban": "obj.status == 200 && obj.http.etag ~ \"/4000/2. *$\""}"#;
    let answer = node.ask("POST /v1/bans", ban);
    assert_eq!(
        (&answer["durable"], answer["bans"].as_array().map(Vec::len)),
        (&true.into(), Some(2))
    );
    node.kill();

    let mut node = start();
    let listed = node.ask("GET /v1/bans", "");
    assert_eq!(listed["bans"], answer["bans"], "with their times");
    let fetched = origin.requests.load(SeqCst);
    check_all(&node, &targets[4..]);
    assert_eq!(origin.requests.load(SeqCst), fetched, "the disk has what was not banned");
    check_all(&node, &targets[..4]);
    assert_eq!(origin.requests.load(SeqCst), fetched + 4, "what was banned or purged is fetched");
    node.written(6);
    node.process.signal(Signal::TERM);
    assert!(support::is_clean(node.process.end().0));

    // What came after them stays, in order or not, and a disk that is purged as the memory is.
    let mut node = start();
    check_all(&node, &targets);
    assert_eq!(origin.requests.load(SeqCst), fetched + 4, "what came after the bans is served");
    node.kill();
    let node = start();
    assert_eq!(node.get("/4000/4", "X-Do: purge\r\n").0, 200);
    check_all(&node, &targets);
    assert_eq!(origin.requests.load(SeqCst), fetched + 5);
}

#[test]
fn who_purges_is_told_that_a_disk_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let path = folder.path().join("store");
    // Without a length none is made where there is none.
    let store = path.to_string_lossy();
    let targets: Vec<String> = (0..3).map(|at| format!("/4000/{at}")).collect();
    let mut node = Node::start(&origin, folder.path(), &format!("{store}:64MiB"));
    check_all(&node, &targets);
    node.written(3);
    node.process.signal(Signal::TERM);
    assert!(support::is_clean(node.process.end().0));
    let fetched = origin.requests.load(SeqCst);

    // A disk of another process is as one that is away.
    let taken = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&taken, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut node = Node::start(&origin, folder.path(), &store);
    let (status, head, _) = node.get("/4000/0", "PURGE");
    assert!((status, head.contains("not durable yet")) == (202, true), "{head}");
    let url = format!("{{\"url\": \"http://{}/4000/0\"}}", "a.test");
    assert_eq!(node.ask("POST /v1/purge", &url)["durable"], false);
    let ban = r#"{"ban": "obj.http.etag ~ /4000/1"}"#;
    assert_eq!(node.ask("POST /v1/bans", ban)["durable"], false);
    // This process knows of both when the disk is back, and has them written to it.
    drop(taken);
    node.wait_for_health();
    assert_eq!(node.ask("POST /v1/purge", &url)["durable"], true);
    node.kill();
    let node = Node::start(&origin, folder.path(), &store);
    check_all(&node, &targets[2..]);
    assert_eq!(origin.requests.load(SeqCst), fetched, "the disk has what was not banned");
    check_all(&node, &targets);
    assert_eq!(origin.requests.load(SeqCst), fetched + 2, "what was banned or purged is fetched");
    drop(node);
    let node = Node::start(&origin, folder.path(), &store);
    assert_eq!(node.get("/4000/2", "PURGE").0, 200, "it was on the disk only");
    assert_eq!(node.get("/4000/2", "PURGE").0, 404);
    drop(node);

    // Without any disk at its start a node does not know under which secret keys are hashed there.
    let away = folder.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    let node = Node::start(&origin, folder.path(), &store);
    assert_eq!(node.get("/4000/0", "PURGE").0, 202);
    std::fs::rename(&away, &path).unwrap();
    node.wait_for(|stores| stores[0]["why"].as_str().unwrap().contains("after a restart"));
}

#[test]
fn a_ban_that_one_disk_has_holds_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start();
    let [first, second, away] = ["first", "second", "away"].map(|name| folder.path().join(name));
    let start = |length: &str| {
        let stores = [&first, &second].map(|path| format!("{}{length}", path.display()));
        let [first, second] = &stores;
        Node::start_with(&origin, folder.path(), &["--store", first, "--store", second])
    };
    let end = |mut node: Node, signal| {
        node.process.signal(signal);
        node.process.end();
    };
    let targets: Vec<String> = (0..40).map(|at| format!("/4000/{at}")).collect();
    let node = start(":64MiB");
    check_all(&node, &targets);
    node.written(40);
    end(node, Signal::TERM);
    std::fs::rename(&second, &away).unwrap();
    let node = start("");
    let ban = r#"{"ban": "obj.http.etag ~ [02468].$"}"#;
    assert_eq!(node.ask("POST /v1/bans", ban)["durable"], false);
    end(node, Signal::KILL);
    // The second one learns of it from the first.
    std::fs::rename(&away, &second).unwrap();
    let node = start("");
    node.wait_for_health();
    end(node, Signal::TERM);
    std::fs::rename(&first, &away).unwrap();
    let node = start("");
    let fetched = origin.requests.load(SeqCst);
    let (even, odd): (Vec<_>, Vec<_>) = (0..40).partition(|at| at % 2 == 0);
    let of = |numbers: Vec<usize>| numbers.into_iter().map(|at| targets[at].clone());
    check_all(&node, &of(even).collect::<Vec<_>>());
    assert_eq!(origin.requests.load(SeqCst), fetched + 20, "the second disk serves none of them");
    check_all(&node, &of(odd).collect::<Vec<_>>());
    assert!(origin.requests.load(SeqCst) < fetched + 40, "and what it has of the others");
}

#[test]
fn what_is_no_store_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    let text = path.display().to_string();
    let refused = |because: &str| {
        let node = ["--origin", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"];
        let sized = format!("{text}:40MB");
        let serve = ["serve", "--store", &sized].into_iter().chain(node).collect();
        for arguments in [vec!["store", "format", &text], vec!["store", "check", &text], serve] {
            let output =
                support::run(freshet().args(&arguments).env("XDG_RUNTIME_DIR", folder.path()));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{arguments:?}");
            assert_eq!(said.matches(because).count(), 1, "{said}");
            assert!(said.contains("precious"), "{said}");
        }
    };
    support::write_noise(&path, 100);
    refused("less than a block");
    let precious = support::write_noise(&path, 8 << 20);
    refused("another program");
    assert!(std::fs::read(&path).unwrap() == precious);
    succeed(freshet().args(["store", "format", "--force", &text]));
    assert!(succeed(freshet().args(["store", "check", &text])).contains("good"));
}

/// What `serve` says of a store it cannot use. It must not have served.
fn refused(folder: &Path, stores: &[&str]) -> String {
    let mut command = freshet();
    command.args(["serve", "--origin", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"]);
    for store in stores {
        command.args(["--store", store]);
    }
    let output = support::run(command.env("XDG_RUNTIME_DIR", folder));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked") && !said.contains("listening"), "{said}");
    said
}

#[test]
fn a_store_that_cannot_be_used_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let make = |name: &str| {
        succeed(freshet().args(["store", "format", &format!("{}:16MiB", place(name))]));
        place(name)
    };
    let says = |said: &str, words: &[&str]| {
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    };
    let cut = make("cut");
    std::fs::File::options().write(true).open(&cut).unwrap().set_len(8 << 20).unwrap();
    says(&refused(folder.path(), &[&cut]), &[&cut, "8388608", "16777216", "restore its length"]);

    let newer = make("newer");
    let device = FileDevice::open(Path::new(&newer)).unwrap();
    let superblock = Superblock::read(&device).unwrap();
    Superblock { version: 9, ..superblock }.write(&device).unwrap();
    drop(device);
    says(&refused(folder.path(), &[&newer]), &[&newer, "format 9", "start the newer one"]);

    let (one, other) = (make("one"), make("other"));
    let config = folder.path().join("freshet.toml");
    let stores = [&one, &other, &newer].map(|path| format!("[[store]]\npath = \"{path}\"\n"));
    let text = format!("[[origin]]\nurl = \"http://127.0.0.1:9\"\n{}", stores.concat());
    std::fs::write(&config, text).unwrap();
    let output = support::run(freshet().arg("check").arg(&config));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    says(&said, &[&other, "another set", "--force", &newer, "format 9", "starts without it"]);
    assert!(output.status.success(), "{said}");

    // A start goes on without what is not there, and with what is of another length than is asked for.
    let sized = [(&one, "16MiB"), (&place("no/folder"), "16MiB")];
    let sized =
        sized.map(|(path, size)| format!("[[store]]\npath = \"{path}\"\nsize = \"{size}\"\n"));
    for (size, warns) in [("16MiB", false), ("24MiB", true), ("8MiB", true)] {
        let stores = sized.concat().replacen("16MiB", size, 1);
        std::fs::write(&config, format!("[[origin]]\nurl = \"http://127.0.0.1:9\"\n{stores}"))
            .unwrap();
        let output = support::run(freshet().arg("check").arg(&config));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        says(&said, &["no/folder", "cannot open it", "starts without it"]);
        assert_eq!(said.contains("keeps the 16.8 MB"), warns, "{size}: {said}");
        assert!(output.status.success(), "{said}");
    }

    let damaged = make("damaged");
    let file = std::fs::File::options().write(true).open(&damaged).unwrap();
    for at in [64, (16 << 20) - 4096 + 64] {
        file.write_all_at(&[0xa5; 64], at).unwrap();
    }
    says(&refused(folder.path(), &[&damaged]), &[&damaged, "damaged, in both copies", "--force"]);

    let vast = place("vast");
    let said = refused(folder.path(), &[&format!("{vast}:15TiB")]);
    says(&said, &[&vast]);
    assert!(said.contains("free some") || said.contains("too large"), "{said}");

    let tiny = place("tiny");
    says(&refused(folder.path(), &[&format!("{tiny}:1MB")]), &[&tiny, "4 MiB"]);
}

#[test]
fn a_store_that_was_spoiled_brings_no_crash_and_no_wrong_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = format!("{}:16MiB", path.display());
    let origin = Origin::start();
    let targets: Vec<String> = (0..40).map(|at| format!("/{}/{at}", 100 + at * 5000)).collect();
    let mut node = Node::start(&origin, folder.path(), &store);
    check_all(&node, &targets);
    node.written(40);
    node.process.signal(Signal::TERM);
    node.process.end();
    let whole = std::fs::read(&path).unwrap();
    // The bookkeeping, all of it but the superblock; then every other page of the whole.
    for (first, step) in [(1usize, 1usize), (1, 2)] {
        let mut bytes = whole.clone();
        let pages = bytes.len() / 4096;
        let last = if step == 1 { pages / 8 } else { pages - 1 };
        for page in (first..last).step_by(step) {
            bytes[page * 4096..page * 4096 + 4096].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut node = Node::start(&origin, folder.path(), &store);
        check_all(&node, &targets);
        check_all(&node, &targets);
        node.process.signal(Signal::TERM);
        assert!(support::is_clean(node.process.end().0));
    }
}

#[test]
fn a_disk_that_fails_is_left_and_comes_back_with_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut disk) = Faulty::start(folder.path(), 256 << 20) else { return };
    let origin = Origin::start();
    let targets: Vec<String> = (0..60).map(|at| format!("/100000/{at}")).collect();
    let node = restarted(&origin, folder.path(), &disk.path, &targets);
    let fetched = origin.requests.load(SeqCst);
    check_all(&node, &targets[..5]);
    assert_eq!(origin.requests.load(SeqCst), fetched);
    let id = node.stores()[0]["id"].as_str().unwrap().to_owned();
    disk.tell("errors");
    check_all(&node, &targets[5..15]);
    assert_eq!(origin.requests.load(SeqCst), fetched + 10);
    node.wait_for(|stores| stores[0]["health"] == "offline" && stores[0]["why"].is_string());
    // Which drive it is that is away is asked then.
    assert_eq!(node.stores()[0]["id"], *id);
    let named = format!("freshet_store_info{{store=\"{}\",id=\"{id}\"}} 1", disk.path);
    let metrics = node.ask_for_text("GET /metrics", "");
    assert!(metrics.contains(&named), "{named}: {metrics}");
    check_all(&node, &targets[15..20]);
    disk.tell("good");
    node.wait_for_health();
    check_all(&node, &targets[20..]);
    assert_eq!(origin.requests.load(SeqCst), fetched + 15, "the disk has the rest");
}

#[test]
fn a_disk_that_slows_is_suspect_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut disk) = Faulty::start(folder.path(), 256 << 20) else { return };
    let origin = Origin::start();
    let targets: Vec<String> = (0..150).map(|at| format!("/60000/{at}")).collect();
    let node = restarted(&origin, folder.path(), &disk.path, &targets);
    disk.tell("slow 300");
    let mut read = 0;
    while node.stores()[0]["health"] != "suspect" {
        check_all(&node, &targets[read..=read]);
        read += 1;
    }
    let fetched = origin.requests.load(SeqCst);
    check_all(&node, &targets[read..read + 10]);
    assert_eq!(origin.requests.load(SeqCst), fetched + 10, "from elsewhere");
    let store = &node.stores()[0];
    assert!(store["why"].as_str().unwrap().contains("it is slow"), "{store}");
    assert!(store["hedges"].as_u64().unwrap() >= 10, "{store}");
}

#[test]
fn rules_and_stores_say_what_goes_to_which_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = |name: &str| folder.path().join(name);
    let origin = Origin::start();
    let file = folder.path().join("freshet.toml");
    let text = format!(
        "[[store]]\npath = {:?}\nsize = \"64MiB\"\nobject_max = \"100KB\"\n\
         [[store]]\npath = {:?}\nsize = \"64MiB\"\nclass = \"qlc\"\nobject_min = \"100KB\"\n\
         [[storage]]\npath = \"/4000/\"\nclass = \"ram\"\n\
         [[storage]]\npath = \"/300000/\"\nclass = \"qlc\"\n",
        store("small"),
        store("large")
    );
    std::fs::write(&file, text).unwrap();
    let mut node = Node::start_with(&origin, folder.path(), &["--config", &file.to_string_lossy()]);
    // Twice, and in this order: what may go nowhere would be offered again when it is used.
    for _ in 0..2 {
        check_all(&node, &["/4000/live".into(), "/90000/a".into(), "/200000/b".into()]);
    }
    check_all(&node, &["/300000/c".into()]);
    node.process.signal(Signal::TERM);
    assert!(support::is_clean(node.process.end().0));
    for (name, records) in [("small", "  1 records"), ("large", "  2 records")] {
        let said = succeed(freshet().args(["store", "check", &store(name).display().to_string()]));
        assert!(said.contains(records), "{said}");
    }
}
