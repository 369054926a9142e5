//! Memory of a lower class behind the first. A file on tmpfs stands in for one on a DAX device.
#![allow(clippy::unwrap_used, reason = "tests")]

mod named;
mod support;

use named::{Origin, content};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use support::{PATIENCE, Process, freshet, run, succeed};

const OBJECTS: u64 = 90;

fn start(origin: &Origin, folder: &Path, config: &str) -> (Process, SocketAddr) {
    let file = folder.join("freshet.toml");
    std::fs::write(&file, config).unwrap();
    let mut process = Process::start(
        freshet()
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", "32MiB", "--workers", "2"])
            .args(["--origin", &format!("http://{}", origin.address)])
            .args(["--config", &file.to_string_lossy()])
            .args(["--admin", &format!("unix:{}/admin", folder.display())])
            .env("XDG_RUNTIME_DIR", folder),
    );
    let address = process.wait_for(|line| {
        let rest = line.strip_prefix("listening  http://")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    process.wait_for(|line| line.starts_with("ready").then_some(()));
    (process, address)
}

fn check(address: SocketAddr, target: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200"));
    assert!(bytes[end + 4..] == content(target), "{target}: wrong bytes");
}

fn stats(folder: &Path, json: bool) -> String {
    let admin = format!("unix:{}/admin", folder.display());
    let mut arguments = vec!["stat", "--admin", &admin];
    arguments.extend(json.then_some("--json"));
    succeed(freshet().args(arguments).env("XDG_RUNTIME_DIR", folder))
}

fn figures(folder: &Path) -> serde_json::Value {
    let stats: serde_json::Value = serde_json::from_str(&stats(folder, true)).unwrap();
    stats["lower_memory"].clone()
}

#[test]
fn what_memory_has_no_room_for_is_served_from_the_lower_class() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let origin = Origin::start();
    let config = format!(
        "[lower_memory]\npath = {:?}\nsize = \"128MiB\"\nclass = \"pmem\"\n\
         [[storage]]\npath = \"/700000/\"\nclass = \"pmem\"\n",
        folder.path().join("pmem")
    );
    let (mut process, address) = start(&origin, folder.path(), &config);
    let targets: Vec<String> = (0..OBJECTS).map(|at| format!("/1000000/{at}")).collect();
    targets.iter().for_each(|target| check(address, target));
    assert_eq!(origin.requests.load(SeqCst), OBJECTS);
    // More than the first class has, twice, and nothing is fetched again.
    for _ in 0..2 {
        targets.iter().for_each(|target| check(address, target));
    }
    assert_eq!(origin.requests.load(SeqCst), OBJECTS);
    let lower = figures(folder.path());
    assert!(lower["demoted"].as_u64() > Some(50), "{lower}");
    assert!(lower["hits"].as_u64() > Some(50), "{lower}");
    assert_eq!(lower["evicted"], 0, "{lower}");
    let said = stats(folder.path(), false);
    assert!(said.contains("lower class") && said.lines().all(|line| line.len() <= 80), "{said}");

    // What a rule sends there is there at once.
    check(address, "/700000/named");
    let until = Instant::now() + PATIENCE;
    let held = figures(folder.path())["demoted"].as_u64();
    while figures(folder.path())["demoted"].as_u64() == held && lower["demoted"].as_u64() == held {
        assert!(Instant::now() < until, "it does not move: {}", figures(folder.path()));
    }
    check(address, "/700000/named");
    assert_eq!(origin.requests.load(SeqCst), OBJECTS + 1);
    process.signal(Signal::TERM);
    assert!(support::is_clean(process.end().0));
}

#[test]
fn what_is_no_memory_is_refused_with_a_reason() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = folder.path().join("freshet.toml");
    for (lower, says) in [
        ("path = \"/dev/shm/none/such\"\nsize = \"8MiB\"", "cannot be opened"),
        ("path = \"/dev/shm/freshet-too-large\"\nsize = \"3TB\"", "no room"),
        ("path = \"Cargo.toml\"\nsize = \"8MiB\"", "on a disk"),
        ("numa_node = \"900\"\nsize = \"8MiB\"", "NUMA node 900"),
        ("numa_node = \"one\"\nsize = \"8MiB\"", "lower_memory.numa_node"),
        ("path = \"/dev/shm/a\"", "lower_memory.size"),
    ] {
        std::fs::write(&file, format!("[lower_memory]\n{lower}\n")).unwrap();
        let output = run(freshet()
            .args(["serve", "--origin", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"])
            .args(["--config", &file.to_string_lossy()])
            .env("XDG_RUNTIME_DIR", folder.path()));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{lower}: {said}");
    }
    let _ = std::fs::remove_file("/dev/shm/freshet-too-large");
}
