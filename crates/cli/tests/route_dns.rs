//! A router as resolvers meet it: asked by dig.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Process, freshet, program, succeed};

const TEXT: &str = r#"
workers = 2
[dns]
listen = ["127.0.0.1:0"]
zones = ["cdn.example"]
name_servers = ["ns1.cdn.example"]
contact = "noc@cdn.example"
[admin]
listen = "127.0.0.1:0"
[[region]]
name = "west"
[[region]]
name = "east"
[[node]]
name = "west-1"
region = "west"
host = "west-1.cdn.example"
addresses = [WEST, "2001:db8::1"]
health = "none"
[[node]]
name = "east-1"
region = "east"
host = "east-1.cdn.example"
addresses = ["192.0.2.2"]
health = "none"
[[zone]]
name = "isp"
region = "east"
networks = ["10.0.0.0/8"]
[[record]]
name = "ns1.cdn.example"
value = "203.0.113.53"
[[site]]
hosts = ["video.cdn.example"]
alpn = ["h3", "h2"]
"#;

/// A router, and where it answers DNS.
fn start(west: &str) -> (Process, String, String, tempfile::TempDir) {
    start_with(&TEXT.replace("WEST", west))
}

fn start_with(text: &str) -> (Process, String, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("route.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = freshet();
    command.args(["route", "--config"]).arg(&file).stdout(Stdio::null());
    let mut process = Process::start(&mut command);
    let after = |what: &'static str| {
        move |line: &str| line.split_once(what).map(|(_, rest)| rest.trim().to_owned())
    };
    let address = process.wait_for(after("answers DNS at "));
    let admin = process.wait_for(after("the admin interface is at "));
    (process, address, admin, folder)
}

fn dig(dig: &Path, address: &str, words: &[&str]) -> String {
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new(dig);
    // A machine that is busy answers all the same.
    command.args([&format!("@{host}"), "-p", port, "+norecurse", "+time=30", "+tries=2"]);
    succeed(command.args(words))
}

#[test]
fn dig_is_answered_as_its_network_says() {
    let Some(program) = program("dig") else { return };
    let (_process, address, admin, _folder) = start("\"192.0.2.1\"");
    let ask = |words: &[&str]| dig(&program, &address, words);
    let short = |words: &[&str]| ask(&[words, &["+short"]].concat()).trim().to_owned();
    assert_eq!(short(&["video.cdn.example", "A"]), "192.0.2.1");
    assert_eq!(short(&["video.cdn.example", "AAAA"]), "2001:db8::1");
    assert_eq!(short(&["video.cdn.example", "A", "+subnet=10.1.2.0/24"]), "192.0.2.2");
    let with_scope = ask(&["video.cdn.example", "A", "+subnet=10.1.2.0/24"]);
    assert!(with_scope.contains("CLIENT-SUBNET: 10.1.2.0/24/8"), "{with_scope}");
    assert!(with_scope.contains("flags: qr aa"), "{with_scope}");
    let https = short(&["video.cdn.example", "HTTPS"]);
    let expected = "1 . alpn=\"h3,h2\" ipv4hint=192.0.2.1 ipv6hint=2001:db8::1";
    assert_eq!(https, expected);
    assert_eq!(short(&["west-1.cdn.example", "A", "+tcp"]), "192.0.2.1");
    assert_eq!(short(&["ns1.cdn.example", "A"]), "203.0.113.53");
    assert_eq!(short(&["cdn.example", "NS"]), "ns1.cdn.example.");
    let nothing = ask(&["other.cdn.example", "A"]);
    assert!(nothing.contains("status: NXDOMAIN") && nothing.contains("SOA"), "{nothing}");
    assert!(ask(&["www.example", "A"]).contains("status: REFUSED"));
    assert!(ask(&["video.cdn.example", "A", "+edns=1", "+noednsneg"]).contains("status: BADVERS"));
    if let Some(curl) = support::program("curl") {
        let metrics = succeed(Command::new(curl).args(["-sf", &format!("http://{admin}/metrics")]));
        for line in [
            "freshet_route_dns_answers_total{code=\"nxdomain\"} 1",
            "freshet_route_dns_answers_total{code=\"badvers\"} 1",
            "freshet_route_decisions_total{site=\"video.cdn.example\",outcome=\"sent\"} 5",
        ] {
            assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
        }
    }
}

#[test]
fn a_long_answer_comes_over_tcp() {
    let Some(program) = program("dig") else { return };
    let many: Vec<String> = (0..100).map(|at| format!("\"192.0.2.{at}\"")).collect();
    let (_process, address, _admin, _folder) = start(&many.join(","));
    let ask = |words: &[&str]| dig(&program, &address, words);
    // dig asks again over TCP by itself.
    let whole = ask(&["video.cdn.example", "A", "+short"]);
    assert_eq!(whole.lines().count(), 100);
    let cut = ask(&["video.cdn.example", "A", "+ignore"]);
    assert!(cut.contains("flags: qr aa tc;") && cut.contains("ANSWER: 0"), "{cut}");
    assert_eq!(ask(&["video.cdn.example", "A", "+tcp", "+keepopen", "+short"]), whole);
}

#[test]
fn a_network_that_asks_too_much_is_told_to_come_over_tcp() {
    let Some(program) = program("dig") else { return };
    let text = TEXT.replace("WEST", "\"192.0.2.1\"").replace("[dns]", "[dns]\nrate = 1");
    let (_process, address, admin, _folder) = start_with(&text);
    let ask = |words: &[&str]| dig(&program, &address, words);
    // The first is within its rate whenever the others come; of those, one a second at most is.
    let cut = |_| ask(&["video.cdn.example", "A", "+ignore"]).contains("flags: qr aa tc;");
    assert!((0..200).any(cut));
    assert_eq!(ask(&["video.cdn.example", "A", "+tcp", "+short"]).trim(), "192.0.2.1");
    if let Some(curl) = support::program("curl") {
        let metrics = succeed(Command::new(curl).args(["-sf", &format!("http://{admin}/metrics")]));
        let above = metrics.lines().find(|line| line.starts_with("freshet_route_dns_above_rate"));
        assert!(above.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
    }
}

#[test]
fn who_holds_all_connections_keeps_nobody_from_asking_over_tcp() {
    let text = TEXT.replace("WEST", "\"192.0.2.1\"").replace("workers = 2", "workers = 1");
    let (_process, address, ..) = start_with(&text);
    // More than it has places for, and none says anything.
    let silent: Vec<_> = (0..600).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // Before the time of the silent ones is over.
    let within = Duration::from_secs(5);
    for _ in 0..8 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(within)).unwrap();
        let question = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05video\x03cdn\x07example\x00\x00\x01\x00\x01";
        let length = u16::try_from(question.len()).unwrap();
        stream.write_all(&[&length.to_be_bytes()[..], question].concat()).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[2..], [0, 7]);
    }
    drop(silent);
}
