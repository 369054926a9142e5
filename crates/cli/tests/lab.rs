//! `freshet lab` as people and scripts run it.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Process, freshet, program, run};

/// The lab's origin by itself, and where it is.
fn origin() -> (Process, String) {
    let mut command = freshet();
    command.args(["lab", "origin", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut origin = Process::start(&mut command);
    let url = origin.wait_for(|line| line.strip_prefix("listening  ").map(str::to_owned));
    (origin, url)
}

/// A node in front of an origin at `address`, and where it is by `scheme`.
fn node(address: &str, home: &Path, scheme: &str) -> (Process, String) {
    let mut command = freshet();
    command.args(["serve", "--origin", &format!("http://{address}"), "--listen", "127.0.0.1:0"]);
    command.args(["--listen-tls", "127.0.0.1:0", "--admin", "off", "--workers", "1"]);
    command.args(["--memory", "256MB"]).env("XDG_RUNTIME_DIR", home);
    let mut node = Process::start(&mut command);
    let url = node.wait_for(|line| {
        let url = line.strip_prefix("listening  ")?.split_whitespace().next()?;
        url.starts_with(scheme).then(|| url.to_owned())
    });
    (node, url)
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A short scenario.
fn lab(folder: &Path, words: &[&str]) -> Command {
    let mut command = freshet();
    command.arg("lab").args(words).arg("--out").arg(folder);
    command.args(["--duration", "700ms", "--warmup", "50ms", "--interval", "100ms"]);
    command
}

fn result(folder: &Path, name: &str) -> Value {
    let file = folder.join(format!("{name}.json"));
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

fn kpi<'a>(result: &'a Value, name: &str) -> &'a Value {
    let kpis = result["kpis"].as_array().unwrap();
    let found = kpis.iter().find(|kpi| kpi["name"].as_str().unwrap().starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} among {kpis:?}"))
}

#[test]
fn a_scenario_writes_its_result_its_report_and_its_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let (_node, url) = node(&at, folder.path(), "http://");
    let output = run(lab(folder.path(), &["vod", &url, "--name", "node", "--with-origin", &at])
        .args(["--objects", "5", "--object", "10KB", "--connections", "2,4", "--runs", "2"])
        .args(["--check", "5"]));
    let (said, shown) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{said}\n{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let found = result(folder.path(), "vod-node");
    assert_eq!(found["steps"].as_array().unwrap().len(), 4, "{found}");
    assert_eq!(found["cut_short"], Value::Null);
    let settings = found["settings"].as_array().unwrap();
    assert!(settings.iter().any(|set| set[0] == "seed" && set[1] == "1"), "{settings:?}");
    assert_eq!(kpi(&found, "byte hit ratio")["value"], 100.0, "{found}");
    assert_eq!(kpi(&found, "byte hit ratio")["verdict"], "pass", "{found}");
    assert_eq!(kpi(&found, "wrong bytes")["verdict"], "pass", "{found}");
    // What was asked for is what was served, to the byte: nothing came from the origin any more.
    for step in found["steps"].as_array().unwrap() {
        assert_eq!(step["measured"]["origin"]["body_bytes"], 0, "{step}");
    }
    let page = std::fs::read_to_string(folder.path().join("vod-node.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("315.4 Gbps"));
    assert!(!page.contains("<script"), "a report is read, not run");

    let json = folder.path().join("vod-node.json");
    let html = folder.path().join("compared.html");
    let output =
        run(freshet().args(["lab", "compare"]).args([&json, &json]).arg("--html").arg(&html));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("same"), "{shown}");
    assert!(html.is_file());
}

#[test]
fn channels_are_loaded_by_known_and_unknown_users() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let (_node, url) = node(&at, folder.path(), "http://");
    let output =
        run(lab(folder.path(), &["channels", &url, "--name", "node", "--with-origin", &at])
            .args(["--channels", "1", "--segments", "1", "--users", "20", "--steps", "2"])
            .args(["--cache", "256MB", "--no-search"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{said}");
    let found = result(folder.path(), "channels-node");
    assert_eq!(found["steps"].as_array().unwrap().len(), 2, "{said} {found}");
    let computed = kpi(&found, "channels by the equation")["value"].as_f64().unwrap();
    assert!((computed - 256e6 / 25e6).abs() < 1e-9, "{computed}");
    for step in found["steps"].as_array().unwrap() {
        let measured = &step["measured"];
        assert!(measured["byte_hit_ratio"].as_f64().is_some(), "{measured}");
        // Each user has a connection of its own.
        assert!(measured["connections_made"].as_u64().unwrap() > 0, "{measured}");
    }
}

#[test]
fn channels_of_errors_do_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody is at its origin's address, so all it has to say is 502.
    let (_node, url) = node(&free_address(), folder.path(), "http://");
    let words = ["channels", &url, "--name", "node", "--channels", "3", "--segments", "1"];
    let output = run(lab(folder.path(), &words).args([
        "--users",
        "20",
        "--steps",
        "1",
        "--no-search",
        "--no-fill",
    ]));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let found = result(folder.path(), "channels-node");
    assert_eq!(kpi(&found, "channels that hold")["value"], Value::Null, "{found}");
    assert_eq!(kpi(&found, "errors, share of requests")["value"], 100.0, "{found}");
}

#[test]
fn other_scenarios_run_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let (_node, url) = node(&at, folder.path(), "http://");
    let file = folder.path().join("own.toml");
    let own = "[variables]\nn = { zipf = 9 }\n[[requests]]\nclass = \"a\"\npath = \"/download/1KB/{n}\"\n\
               [[steps]]\nrate = 50\nconnections = 2\n[[kpi]]\nfigure = \"errors\"\nat_most = 0\n";
    std::fs::write(&file, own).unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&str, &[&str], usize); 6] = [
        (
            "live-linear",
            &[
                "live-linear",
                "--cache",
                "100KB",
                "--object",
                "10KB",
                "--connections",
                "2",
                "--runs",
                "1",
            ],
            1,
        ),
        (
            "sweep",
            &["sweep", "--sizes", "1KB,20KB", "--connections", "2", "--set", "20KB", "--hits", "1"],
            2,
        ),
        (
            "connections",
            &[
                "connections",
                "--min",
                "1",
                "--max",
                "2",
                "--channels",
                "1",
                "--segments",
                "1",
                "--hold",
                "300ms",
            ],
            3,
        ),
        (
            "energy",
            &[
                "energy",
                "--object",
                "10KB",
                "--objects",
                "3",
                "--connections",
                "2",
                "--idle",
                "200ms",
                "--meter-command",
                "echo 50",
            ],
            4,
        ),
        ("run", &["run", file], 1),
        (
            "players",
            &[
                "players",
                "--players",
                "2",
                "--ramp",
                "0s",
                "--channels",
                "1",
                "--titles",
                "1",
                "--segment",
                "400ms",
                "--part",
                "200ms",
                "--stay",
                "300ms",
                "--cmcd",
            ],
            1,
        ),
    ];
    for (name, words, steps) in cases {
        let mut words = words.to_vec();
        words.extend([url.as_str(), "--name", "node", "--with-origin", at.as_str()]);
        let output = run(&mut lab(folder.path(), &words));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{name}: {said}");
        let found = result(folder.path(), &format!("{name}-node"));
        assert_eq!(found["steps"].as_array().unwrap().len(), steps, "{name}: {said} {found}");
        assert_eq!(found["cut_short"], Value::Null, "{name}: {found}");
        let page =
            std::fs::read_to_string(folder.path().join(format!("{name}-node.html"))).unwrap();
        assert!(page.contains("Indicators"), "{name}");
    }
    let energy = result(folder.path(), "energy-node");
    assert!(energy["steps"][1]["measured"]["power"]["watts"].as_f64().is_some(), "{energy}");
}

#[test]
fn a_scenario_over_http3_has_all_figures() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let (_node, url) = node(&at, folder.path(), "https://");
    let words = ["vod", &url, "--name", "node", "--with-origin", &at, "--http3", "--streams", "4"];
    let output = run(lab(folder.path(), &words)
        .args(["--objects", "5", "--object", "300KB", "--connections", "2,12", "--runs", "1"])
        .args(["--check", "1", "--threads", "2"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    let found = result(folder.path(), "vod-node");
    assert_eq!(found["settings"][0][1], "HTTP/3, 4 streams", "{found}");
    assert_eq!(kpi(&found, "wrong bytes")["verdict"], "pass", "{found}");
    let number = |value: &Value| value.as_u64().unwrap();
    for (step, connections) in found["steps"].as_array().unwrap().iter().zip([2, 12]) {
        let measured = &step["measured"];
        assert_eq!(measured["protocol"], "HTTP/3");
        assert_eq!(number(&measured["connections_peak"]), connections, "{measured}");
        let requests = number(&measured["requests"]);
        assert!(requests > 20 && number(&measured["checked"]) >= requests, "{measured}");
        assert_eq!(measured["statuses"][1], requests);
        assert_eq!(number(&measured["classes"][0]["body_bytes"]), requests * 300_000);
        assert_eq!(
            (&measured["hit_source"], &measured["byte_hit_ratio"]),
            (&"origin".into(), &1.0.into())
        );
        assert_eq!(number(&measured["last_byte"]["count"]), requests);
        assert!(number(&measured["head_bytes"]) > requests, "{measured}");
        // Of 300,000 bytes none fit a datagram of more than 1,500, and each has a head.
        let datagrams = number(&measured["quic"]["datagrams_received"]);
        assert!(datagrams >= requests * 200, "{measured}");
        let wire = measured["throughput_bps"].as_f64().unwrap();
        assert!(wire > measured["goodput_bps"].as_f64().unwrap(), "{measured}");
    }
    let page = std::fs::read_to_string(folder.path().join("vod-node.html")).unwrap();
    assert!(page.contains("HTTP/3"), "{page}");
}

#[test]
fn a_scenario_of_ones_own_has_each_protocol_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let (_node, url) = node(&at, folder.path(), "https://");
    let file = folder.path().join("protocols.toml");
    let step = |protocol: &str, streams: u32, more: &str| {
        format!(
            "[[steps]]\nconnections = 4\nprotocol = \"{protocol}\"\nstreams = {streams}\n{more}\n"
        )
    };
    let own = [
        "[[requests]]\nclass = \"a\"\npath = \"/download/30KB/{1-9}\"\n".to_owned(),
        step("http1", 1, ""),
        step("http2", 3, ""),
        step("http3", 3, ""),
        // By the clock, and a connection for each request.
        step("http3", 1, "rate = 60\nclose = true\nname = \"each its own\""),
        "[[kpi]]\nfigure = \"errors\"\nat_most = 0\n".to_owned(),
    ];
    std::fs::write(&file, own.concat()).unwrap();
    let words = ["run", file.to_str().unwrap(), &url, "--name", "node", "--with-origin", &at];
    let output = run(lab(folder.path(), &words).args(["--check", "1"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    let found = result(folder.path(), "run-node");
    let steps = found["steps"].as_array().unwrap();
    let spoken: Vec<_> = steps.iter().map(|step| &step["measured"]["protocol"]).collect();
    assert_eq!(spoken, ["HTTP/1.1", "HTTP/2", "HTTP/3", "HTTP/3"]);
    assert_eq!(steps[2]["name"], "4 connections of HTTP/3");
    for step in steps {
        assert!(step["measured"]["checked"].as_u64().unwrap() > 10, "{step}");
    }
    let last = &steps[3]["measured"];
    let (made, asked) = (last["connections_made"].as_u64(), last["requests"].as_u64());
    assert!(made.unwrap() + 4 >= asked.unwrap() && made.unwrap() > 10, "{last}");
    assert!(last["connecting"]["mean_us"].as_f64().unwrap() > 0.0, "{last}");
}

#[test]
fn redis_servers_are_started_and_gone_afterwards() {
    if program("redis-server").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(freshet()
        .args(["lab", "imdb", "--servers", "2", "--keys", "500"])
        .args(["--duration", "300ms", "--threads", "1", "--connections", "2", "--out"])
        .arg(folder.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{said}");
    let found = result(folder.path(), "imdb-Redis");
    let total = kpi(&found, "DRAM: operations per second, all")["value"].as_f64().unwrap();
    assert!(total > 100.0, "{found}");
    assert_eq!(found["tables"][0]["rows"].as_array().unwrap().len(), 2, "{found}");
    // All keys were there.
    assert_eq!(found["tables"][0]["rows"][0][5], "100.0", "{found}");
}

#[test]
fn an_interrupted_scenario_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (_origin, url) = origin();
    let mut command = freshet();
    command.args(["lab", "vod", &url, "--name", "origin", "--objects", "2", "--object", "1KB"]);
    command.args(["--connections", "1,2", "--runs", "1", "--duration", "10m", "--warmup", "0s"]);
    command.args(["--interval", "50ms", "--no-fill", "--out"]).arg(folder.path());
    let mut lab = Process::start(command.stdout(Stdio::piped()));
    lab.wait_for(|line| line.contains("1 connections").then_some(()));
    lab.signal(Signal::INT);
    let (status, shown) = lab.end();
    assert_eq!(status.code(), Some(2), "{shown}");
    assert!(shown.contains("not complete"), "{shown}");
    let found = result(folder.path(), "vod-origin");
    assert!(found["cut_short"].as_str().unwrap().contains("interrupted"), "{found}");
    assert_eq!(found["steps"].as_array().unwrap().len(), 1, "{found}");
}

#[test]
fn a_load_that_cannot_begin_takes_no_figures_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_origin, url) = origin();
    let mut command = Command::new("prlimit");
    command.args(["--nofile=300:300", "--"]).arg(freshet().get_program());
    command.args(["lab", "vod", &url, "--name", "origin", "--objects", "2", "--object", "1KB"]);
    command.args(["--connections", "2,2000", "--runs", "1", "--duration", "300ms"]);
    let output = run(command.args(["--warmup", "0s", "--no-fill", "--out"]).arg(folder.path()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let found = result(folder.path(), "vod-origin");
    assert!(found["cut_short"].as_str().unwrap().contains("descriptors"), "{found}");
    assert!(found["steps"][0]["measured"]["requests"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn figures_are_shown_where_there_is_no_room_for_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let (_origin, url) = origin();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("vod-origin.json")).unwrap();
    let words = ["vod", &url, "--name", "origin", "--objects", "2", "--object", "1KB"];
    let output =
        run(lab(folder.path(), &words).args(["--connections", "1", "--runs", "1", "--no-fill"]));
    let shown = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("1 connections"), "{shown}");
    assert!(said.contains("vod-origin.json could not be written"), "{said}");
}

#[test]
fn a_peak_that_was_not_held_to_the_end_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (_origin, url) = origin();
    let mut command = freshet();
    command.args(["lab", "connections", &url, "--name", "origin", "--min", "1", "--max", "2"]);
    command.args(["--channels", "1", "--segments", "1", "--hold", "10m", "--duration", "200ms"]);
    command.args(["--warmup", "0s", "--interval", "50ms", "--no-fill", "--out"]).arg(folder.path());
    let mut lab = Process::start(command.stdout(Stdio::piped()));
    lab.wait_for(|line| line.contains("held").then_some(()));
    lab.signal(Signal::INT);
    let (status, shown) = lab.end();
    assert_eq!(status.code(), Some(2), "{shown}");
    let found = result(folder.path(), "connections-origin");
    assert!(found["cut_short"].as_str().unwrap().contains("interrupted"), "{found}");
    let peak = kpi(&found, "peak of simultaneous connections");
    assert_eq!(peak["verdict"], "fail", "{peak}");
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = format!("http://{}", free_address());
    let file = folder.path().join("wrong.toml");
    std::fs::write(
        &file,
        "[[requests]]\nclass = \"a\"\npath = \"/a\"\n[[steps]]\nconnnections = 3\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let nobody = nobody.as_str();
    let secure = &nobody.replace("http://", "https://");
    let cases: [(&[&str], &str); 19] = [
        (&["vod", secure, "--http3", "--connections", "1"], "over UDP"),
        (&["vod", nobody, "--http3"], "HTTP/3 is always over TLS"),
        (&["vod", secure, "--http3", "--tls", "1.2"], "1.3 for HTTP/3"),
        (&["players", secure, "--http3"], "which players speak"),
        (&["vod", nobody, "--ca", "/nope"], "--ca is for https://"),
        (&["players", nobody], "Does the server run"),
        (&["vod", nobody, "--connections", "1"], "Does the server run"),
        (&["vod", "http://192.0.2.7", "--runs", "1"], "--i-own-this-target"),
        (&["vod", "127.0.0.1:8000"], "http://"),
        (&["vod", nobody, "--object", "12 parsecs"], "--object"),
        (&["vod", nobody, "--duration", "soon"], "--duration"),
        (&["vod", nobody, "--runs", "0"], "runs is 0"),
        (&["vod", nobody, "--pid", "4294967294"], "no such process"),
        (&["vod", nobody, "--meter", "/nowhere"], "No such file"),
        // Before anything is asked of the server.
        (&["vod", nobody, "--connections", "1,0"], "connections is 0"),
        (&["vod", nobody, "--duration", "0s"], "duration is 0"),
        (&["vod", nobody, "--cpus", "1000"], "may run on"),
        (&["sweep", nobody, "--sizes", "large"], "sizes with units"),
        (&["run", file, nobody], "connnections"),
    ];
    for (words, wanted) in cases {
        let output = run(freshet().arg("lab").args(words).arg("--out").arg(folder.path()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    let output = run(freshet().args(["lab", "compare", file, file]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no result"), "{said}");
}

#[test]
fn help_says_what_stands_for_the_number_of_an_object() {
    // What reads `{n}` in a help text takes it for the end of a line.
    for scenario in ["vod", "live-linear", "sweep", "energy", "http3"] {
        let output = run(freshet().args(["lab", scenario, "--help"]));
        let text = String::from_utf8_lossy(&output.stdout);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("n in braces"), "{text}");
        assert!(!text.contains("'/\n"), "{text}");
    }
}

#[test]
fn connections_over_http3_are_opened_at_a_rate_and_stay() {
    let home = tempfile::tempdir().unwrap();
    let (_origin, address) = origin();
    let (_node, url) = node(address.trim_start_matches("http://"), home.path(), "https://");
    let mut command = freshet();
    command.args(["lab", "http3", &url, "--path", "/download/1KB/{n}", "--idle", "--json"]);
    // The rest of them would be opened after it is over.
    command.args(["--connections", "12", "--open-per-second", "20", "--duration", "500ms"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let opened = figures["handshakes"].as_u64().unwrap();
    assert!((1..=11).contains(&opened), "{figures}");
    assert_eq!(figures["requests"], figures["handshakes"]);
}

#[test]
fn a_server_that_does_not_speak_http3_fails_the_load() {
    let (_origin, url) = origin();
    let url = url.replace("http://", "https://");
    let output = run(freshet().args(["lab", "http3", &url, "--duration", "300ms", "--json"]));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["failed"], 1, "{figures}");
    assert!(figures["failures"][0].as_str().unwrap().contains("over UDP"), "{figures}");
    for wrong in
        [["--connections", "0"], ["--path", "nope"], ["--ack-every", "0"], ["--move-every", "0s"]]
    {
        let output = run(freshet().args(["lab", "http3", &url]).args(wrong));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(wrong[0]), "{said}");
    }
}

#[test]
fn an_interrupted_load_over_http3_keeps_what_it_has() {
    let home = tempfile::tempdir().unwrap();
    let (_origin, address) = origin();
    let (_node, url) = node(address.trim_start_matches("http://"), home.path(), "https://");
    let mut command = freshet();
    command.args(["lab", "http3", &url, "--path", "/download/1KB/{n}", "--connections", "2"]);
    command.args(["--duration", "10m", "--json"]);
    let mut lab = Process::start(command.stdout(Stdio::piped()));
    lab.wait_for(|line| line.contains("2 connections for").then_some(()));
    lab.signal(Signal::INT);
    let (status, shown) = lab.end();
    assert_eq!(status.code(), Some(2), "{shown}");
    let figures: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(figures["complete"], false, "{figures}");
}

#[test]
fn positions_are_estimated_and_false_ones_found() {
    let position = |seed: &str| {
        let mut command = freshet();
        command.args(["lab", "position", "--traces", "12", "--particles", "200", "--json"]);
        command.args(["--seed", seed]);
        run(&mut command)
    };
    let first = position("5");
    assert!(first.status.success(), "{first:?}");
    let figures: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(figures["accuracy"].as_array().unwrap().len(), 4);
    let objectives = figures["objectives"].as_array().unwrap();
    assert!(objectives.len() == 6 && objectives.iter().all(|one| one["met"] == true), "{figures}");
    assert_eq!(position("5").stdout, first.stdout);
}

#[test]
fn a_command_line_that_is_no_scenario_is_not_an_indicator_that_is_not_met() {
    for words in [&["lab", "vod"][..], &["lab", "vod", "http://127.0.0.1:1", "--objects", "x"]] {
        let output = run(freshet().args(words));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    assert_eq!(run(freshet().args(["lab", "--help"])).status.code(), Some(0));
}
