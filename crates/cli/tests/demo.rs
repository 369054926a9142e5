//! `freshet demo` as people and scripts run it.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Process, freshet, is_clean, run, succeed};

/// A demonstration on free ports, with files of its own.
fn demo(home: &tempfile::TempDir) -> Command {
    let mut command = freshet();
    command.args(["demo", "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0", "--viewers", "12"]);
    command.env("XDG_RUNTIME_DIR", home.path()).env("TMPDIR", home.path());
    command
}

fn url_of(line: &str, name: &str) -> Option<String> {
    line.trim_start()
        .strip_prefix(name)?
        .trim_start()
        .starts_with("http")
        .then(|| line.split_whitespace().last().unwrap().to_owned())
}

#[test]
fn viewers_are_served_from_the_cache_without_errors_and_in_time() {
    let home = tempfile::tempdir().unwrap();
    let output = run(demo(&home).args(["--seconds", "8", "--json"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| summary[name].as_f64().unwrap_or_else(|| panic!("{name}: {summary}"));
    assert!(number("seconds") >= 8.0, "{summary}");
    assert_eq!(number("viewers"), 12.0, "{summary}");
    assert_eq!(number("errors"), 0.0, "{summary}");
    assert_eq!(number("late"), 0.0, "{summary}");
    assert!(number("hits") > 0.0, "{summary}");
    // Two tracks, and three segments before anyone may pause.
    assert!(number("segments") >= 12.0 * 2.0 * 3.0, "{summary}");
    assert!(number("byte_hit_ratio") > 0.1, "{summary}");
    assert!(number("request_hit_ratio") > 0.1, "{summary}");
    assert!(number("ttfb_p50_ms") > 0.0 && number("ttfb_p50_ms") <= number("ttfb_p99_ms"));
    // A line each second, without colours, and nothing left behind.
    let lines =
        said.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    assert!(lines.filter(|line| line.split_whitespace().count() == 10).count() >= 7, "{said}");
    assert!(!said.contains('\x1b'), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let left: Vec<_> = walk(home.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn its_hit_ratios_are_those_that_stat_shows() {
    let home = tempfile::tempdir().unwrap();
    let mut process = Process::start(demo(&home).args(["--json"]).stdout(Stdio::piped()));
    process.wait_for(|line| line.trim_start().starts_with("5 ").then_some(()));
    let mut stat = freshet();
    stat.arg("stat").env("XDG_RUNTIME_DIR", home.path()).env("TMPDIR", home.path());
    let stat = succeed(&mut stat);
    process.signal(Signal::INT);
    let (_, text) = process.end();
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert!(summary["requests"].as_u64() > Some(50), "{summary}");
    // "hits        50.0 % of requests, 50.0 % of body bytes"
    let line = stat.lines().find_map(|line| line.strip_prefix("hits ")).unwrap();
    let shown: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for (name, shown) in ["request_hit_ratio", "byte_hit_ratio"].iter().zip(&shown) {
        let said = summary[name].as_f64().unwrap() * 100.0;
        // Some requests came between the two.
        assert!((said - shown).abs() < 5.0, "{name}: {said:.1} and {shown:.1}");
    }
    assert_eq!(shown.len(), 2, "{line}");
}

/// Files below a directory.
fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn an_interrupt_ends_it_within_two_seconds_with_a_summary() {
    let home = tempfile::tempdir().unwrap();
    let mut command = demo(&home);
    let mut process = Process::start(command.args(["--json"]).stdout(Stdio::piped()));
    let page = process.wait_for(|line| url_of(line, "page"));
    assert!(page.starts_with("http://127.0.0.1:"), "{page}");
    // The first line of figures: viewers are at work.
    process.wait_for(|line| line.trim_start().starts_with("1 ").then_some(()));
    let told = Instant::now();
    process.signal(Signal::INT);
    let (status, text) = process.end();
    let took = told.elapsed();
    assert!(is_clean(status), "{status}: {}", process.said());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert!(summary["requests"].as_u64().unwrap() > 0, "{summary}");
    assert!(process.said().contains("byte hit ratio"));
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--listen-tls", "--admin"] {
        let mut command = freshet();
        command.arg("demo").env("XDG_RUNTIME_DIR", home.path()).env("TMPDIR", home.path());
        for other in ["--listen", "--listen-tls", "--admin"] {
            command.args([other, if other == flag { &address } else { "127.0.0.1:0" }]);
        }
        let output = run(&mut command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{address} is in use")), "{said}");
        assert!(said.contains(&format!("with {flag},")), "{said}");
    }
}

#[test]
fn flags_out_of_bounds_are_named() {
    for (flag, value) in [("--segment", "31"), ("--seconds", "-1"), ("--memory", "1KB")] {
        let home = tempfile::tempdir().unwrap();
        let output = run(demo(&home).arg(format!("{flag}={value}")));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flag}: {said}");
        assert!(said.contains(flag.trim_start_matches('-')), "{flag}: {said}");
    }
}
