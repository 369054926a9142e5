//! Varnish's own programs, reading from and talking to our `varnishd`.
#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use support::Varnishd;

const OPTIONS: &[&str] = &["-a", "127.0.0.1:0", "-l", "1m", "-T", "127.0.0.1:0", "-i", "tester"];

/// An origin that answers one request.
fn origin() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let _ = socket.read(&mut buffer).unwrap();
        let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nabc";
        socket.write_all(answer.as_bytes()).unwrap();
    });
    (port, thread)
}

fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// A `varnishd` that has answered a miss and a hit.
fn served() -> Varnishd {
    let (port, origin) = origin();
    let mut varnishd = Varnishd::start(OPTIONS);
    let policy = format!(
        "vcl.inline vcl1 \"vcl 4.1; backend s1 {{ .host = \\\"127.0.0.1\\\"; .port = \\\"{port}\\\"; }}\""
    );
    varnishd.ok(&policy);
    varnishd.ok("vcl.use vcl1");
    varnishd.ok("start");
    let address = varnishd.address();
    for _ in 0..2 {
        let answer = get(&address, "/seen");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("abc"), "{answer}");
    }
    origin.join().unwrap();
    varnishd
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn varnishadm_finds_its_way_and_is_answered() {
    let Some(varnishadm) = support::program("varnishadm") else { return };
    let varnishd = served();
    let ask = |words: &[&str]| {
        output(Command::new(&varnishadm).arg("-n").arg(varnishd.name()).args(words))
    };
    assert!(ask(&["status"]).contains("Child in state running"));
    assert!(ask(&["vcl.list"]).contains("vcl1"));
    assert!(ask(&["param.set", "default_ttl", "3"]).trim().is_empty());
    assert!(ask(&["param.show", "default_ttl"]).contains("3.000 [seconds]"));
    assert!(ask(&["backend.list"]).contains("vcl1.s1"));
    assert!(varnishd.end().success());
}

#[test]
fn varnishstat_shows_the_counters() {
    let Some(varnishstat) = support::program("varnishstat") else { return };
    let varnishd = served();
    let ask = |words: &[&str]| {
        output(Command::new(&varnishstat).arg("-n").arg(varnishd.name()).args(words))
    };
    // Counters are a moment behind.
    let started = std::time::Instant::now();
    while !ask(&["-1", "-f", "MAIN.cache_hit"]).contains(" 1 ") {
        assert!(started.elapsed() < support::PATIENCE, "{}", ask(&["-1"]));
    }
    let all: serde_json::Value = serde_json::from_str(&ask(&["-j"])).unwrap();
    let counter = |name: &str| all["counters"][name]["value"].as_u64();
    assert_eq!(counter("MAIN.client_req"), Some(2));
    assert_eq!(counter("MAIN.cache_miss"), Some(1));
    assert_eq!(counter("VBE.vcl1.s1.req"), Some(1));
    assert_eq!(counter("MGT.child_start"), Some(1));
    assert!(all["counters"]["SMA.s0.g_bytes"]["description"].is_string());
    assert!(varnishd.end().success());
}

#[test]
fn varnishlog_and_varnishncsa_show_requests() {
    let (Some(varnishlog), Some(varnishncsa)) =
        (support::program("varnishlog"), support::program("varnishncsa"))
    else {
        return;
    };
    let varnishd = served();
    let started = std::time::Instant::now();
    let lines = loop {
        let mut command = Command::new(&varnishncsa);
        command.arg("-n").arg(varnishd.name()).args(["-d", "-F", "%m %U %s %b"]);
        let lines = output(&mut command);
        if lines.lines().count() == 2 {
            break lines;
        }
        assert!(started.elapsed() < support::PATIENCE, "{lines}");
    };
    assert_eq!(lines, "GET /seen 200 3\nGET /seen 200 3\n");
    let grouped = output(
        Command::new(&varnishlog).arg("-n").arg(varnishd.name()).args(["-d", "-g", "request"]),
    );
    assert!(grouped.contains("<< Request"), "{grouped}");
    assert!(grouped.contains("<< BeReq"), "{grouped}");
    assert!(grouped.contains("ReqURL         /seen"), "{grouped}");
    assert!(varnishd.end().success());
}
