//! What a node shows of itself.

use crate::node::{Node, Origin, get, status};
use crate::support::{is_clean, succeed};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

#[test]
fn metrics_are_openmetrics_and_count() {
    let node = Node::start();
    node.ask("/page");
    node.ask("/page");
    let answer = node.ask_admin("/metrics", "Accept: application/openmetrics-text\r\n");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/openmetrics-text"), "{head}");
    // Who does not name it gets the form of before, where families are called as their samples are.
    for fields in ["", "Accept: text/plain;version=0.0.4, */*;q=0.1\r\n"] {
        let answer = node.ask_admin("/metrics", fields);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let types: HashSet<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            let is_part = |suffix| name.strip_suffix(suffix).is_some_and(|of| types.contains(of));
            assert!(
                types.contains(name) || ["_sum", "_count", "_bucket"].into_iter().any(is_part),
                "{line}"
            );
        }
        assert!(text.contains("# TYPE freshet_requests_total counter\n"), "{text}");
        assert!(text.contains("\n# HELP freshet_requests_total ") && !text.contains("# EOF"));
    }
    let mut families = HashSet::new();
    let mut series = HashSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(name.split(' ').next().unwrap()), "{line} is there twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(name), "{line} is there twice");
            let family = name.split('{').next().unwrap();
            let is_known =
                |suffix| family.strip_suffix(suffix).is_some_and(|f| families.contains(f));
            assert!(
                ["", "_total", "_sum", "_count", "_bucket"].into_iter().any(is_known),
                "{line}"
            );
        }
    }
    assert!(text.ends_with("# EOF\n"));
    let has = |line: &str| assert!(text.lines().any(|known| known == line), "no {line} in\n{text}");
    has("freshet_requests_total 2");
    has("freshet_hits_total 1");
    has("freshet_cache_objects 1.0");
    has("freshet_cache_lookups_total{result=\"hit\"} 1");
    has("freshet_first_byte_seconds_bucket{le=\"+Inf\",result=\"hit\"} 1");
    has("freshet_responses_total{class=\"2xx\"} 2");
    has(&format!("freshet_origin_requests_total{{origin=\"{}\"}} 1", node.origin.address));
    has(&format!("freshet_origin_up{{origin=\"{}\"}} 1.0", node.origin.address));
    has("freshet_build_info{version=\"0.1.0\"} 1.0");
}

#[test]
fn groups_of_workers_are_told_apart() {
    let origin = Origin::start();
    let url = format!("http://{}", origin.address);
    let node = Node::with_workers(2, origin, &["--origin", &url, "--set", "numa_groups=2"]);
    // Which worker gets a connection is the kernel's choice; the other one copies at its second.
    let explained = (0..1000).find_map(|_| {
        node.ask("/page");
        let said = node.say(&["explain", &node.url("/page")]);
        said.contains(", copied to ").then_some(said)
    });
    let explained = explained.expect("both workers get connections");
    let line = explained.lines().find_map(|line| line.strip_prefix("group   at home in "));
    let (home, copied) = line.unwrap().split_once(", copied to ").unwrap();
    assert!(matches!((home, copied), ("0", "1") | ("1", "0")), "{explained}");
    let stats: Value =
        serde_json::from_str(&succeed(&mut node.command(&["stat", "--json"]))).unwrap();
    let groups = stats["groups"].as_array().unwrap();
    let sum = |name: &str| groups.iter().map(|group| group[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(Some(sum("hits")), stats["counters"]["hits"].as_u64());
    assert_eq!((groups.len(), sum("workers"), sum("objects"), sum("copies")), (2, 2, 2, 1));
    assert_eq!(groups[copied.parse::<usize>().unwrap()]["copies"], 1);
    let said = node.say(&["stat"]);
    assert!(said.contains("\ngroups      0: "), "{said}");
    let metrics = node.ask_admin("/metrics", "");
    let copies = format!("freshet_group_copies_total{{group=\"{copied}\"}} 1");
    assert!(metrics.contains(&copies), "no {copies} in {metrics}");
}

#[test]
fn how_players_are_doing_is_a_line_for_each_kind_of_stream() {
    let node = Node::start();
    let token = fs::read_to_string(&node.token).unwrap();
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let lines = || {
        let answer = node.ask_admin("/v1/players", &bearer);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/x-ndjson"), "{head}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    assert_eq!(lines().len(), 0);
    node.ask("/page?CMCD=br%3D3200%2Csid%3D%22a%22%2Cst%3Dv");
    node.ask("/page?CMCD=bs%2Csid%3D%22b%22%2Cst%3Dl");
    node.ask("/page?CMCD=br%3D1000%2Csid%3D%22c%22%2Cst%3Dv");
    // They are counted behind their answers.
    let lines = loop {
        let lines = lines();
        if lines.iter().map(|line| line["sessions"].as_u64().unwrap()).sum::<u64>() == 3 {
            break lines;
        }
    };
    let [films, live] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&films["stream"], &films["bitrate_kbps"]), (&"vod".into(), &2100.0.into()));
    assert_eq!((&live["starved"], &live["body_bytes"]), (&1.into(), &5.into()));
    assert_eq!(status(&node.ask_admin("/v1/players", "")), "401");
    let answer = node.ask_admin("/v1/players/sessions", &bearer);
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    let each: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut each: Vec<_> =
        each.iter().map(|one| (one["stream"].as_str(), &one["bitrate_kbps"])).collect();
    each.sort_unstable_by_key(|(stream, kbps)| (*stream, kbps.as_u64()));
    let want =
        [(Some("live"), &Value::Null), (Some("vod"), &1000.into()), (Some("vod"), &3200.into())];
    assert_eq!(each, want);
    assert!(!text.contains("\"a\""), "names are hashed");
    let one = node.ask_admin("/v1/players/sessions?count=1", &bearer);
    assert_eq!(one.split_once("\r\n\r\n").unwrap().1.lines().count(), 1);
    assert_eq!(status(&node.ask_admin("/v1/players/sessions?count=x", &bearer)), "400");
    let said = node.say(&["top"]);
    assert!(said.contains("       2      0    2100 ") && said.contains(" vod"), "{said}");
}

#[test]
fn health_follows_origins_and_the_end() {
    let mut node = Node::start();
    assert_eq!(status(&node.ask_admin("/healthz", "")), "200");
    assert_eq!(status(&node.ask_admin("/readyz", "")), "200");
    let name = node.origin.address.to_string();
    let said = node.say(&["origins", &name, "down"]);
    assert!(said.contains("down     down"), "{said}");
    let answer = node.ask_admin("/readyz", "");
    assert_eq!(status(&answer), "503");
    assert!(answer.contains(&format!("no origin is up ({name})")), "{answer}");
    node.say(&["origins", &name, "auto"]);
    assert_eq!(status(&node.ask_admin("/readyz", "")), "200");

    let clients = node.clients;
    let held = std::thread::spawn(move || get(clients, "/held", ""));
    node.origin.asked.recv().unwrap();
    node.process.signal(Signal::TERM);
    node.process.wait_for(|line| line.contains("draining").then_some(()));
    let answer = loop {
        let answer = node.ask_admin("/readyz", "");
        if status(&answer) == "503" {
            break answer;
        }
    };
    assert!(answer.contains("not ready: draining"), "{answer}");
    assert_eq!(status(&node.ask_admin("/healthz", "")), "200");
    node.origin.go_on.send(()).unwrap();
    assert_eq!(status(&held.join().unwrap()), "404", "what was begun is finished");
    let (status, _) = node.process.end();
    assert!(is_clean(status), "{}", node.process.said());
}

#[test]
fn figures_are_shown_once_where_there_is_no_terminal() {
    let node = Node::start();
    node.ask("/page");
    let said = node.say(&["top"]);
    assert!(said.contains("requests      ") && !said.contains('\x1b'), "{said}");
    let said = node.say(&["stat"]);
    assert!(said.contains("cache       1 objects"), "{said}");
    let stats: Value =
        serde_json::from_str(&succeed(&mut node.command(&["stat", "--json"]))).unwrap();
    assert_eq!(stats["counters"]["requests"], 1);
}

#[test]
fn the_log_goes_on_with_what_comes() {
    let node = Node::start();
    let mut command = node.command(&["log", "--follow", "--json"]);
    let mut follower = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for path in ["/page", "/private"] {
        node.ask(path);
        let record: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(record["target"], path);
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    let said = node.say(&["log", "-n", "1"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(" 200 no-store "), "{said}");
}

#[test]
fn the_curve_says_what_other_capacities_would_hit() {
    let origin = Origin::start();
    let url = format!("http://{}", origin.address);
    let disk = tempfile::tempdir().unwrap();
    let store = format!("{}:40MB", disk.path().join("store").display());
    let more = ["--origin", &url, "--store", &store, "--set", "cache.objective=requests"];
    let node = Node::with(origin, &more);
    // One fetch, then hits: a cache of any capacity would have them.
    for at in 0..50 {
        assert_eq!(node.ask("/page").starts_with("hit"), at > 0);
    }
    let token = fs::read_to_string(&node.token).unwrap();
    let fields = format!("Authorization: Bearer {}\r\n", token.trim());
    let body = |path: &str| {
        let answer = node.ask_admin(path, &fields);
        assert_eq!(status(&answer), "200", "{answer}");
        serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let curve = body("/v1/curve?capacity=33554432&capacity=134217728&disk=16777216");
    assert_eq!(curve["capacity_bytes"], 64 << 20, "{curve}");
    assert_eq!(curve["requests_seen"], 50, "{curve}");
    let points = curve["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{curve}");
    for (point, capacity) in points.iter().zip([32u64 << 20, 128 << 20]) {
        assert_eq!(point["capacity_bytes"], capacity, "{curve}");
        let ratio = point["request_hit_ratio"].as_f64().unwrap();
        assert!((ratio - 0.98).abs() < 1e-9, "49 of 50, not {ratio}: {curve}");
    }
    assert_eq!(body("/v1/curve")["points"].as_array().unwrap().len(), 8);
    let disks = &curve["disks"];
    assert_eq!(disks["points"].as_array().unwrap().len(), 1, "{curve}");
    assert_eq!(disks["points"][0]["capacity_bytes"], 16 << 20, "{curve}");
    assert_eq!(disks["points"][0]["request_hit_ratio"], points[0]["request_hit_ratio"], "{curve}");
    let disks = &body("/v1/curve")["disks"];
    let room = disks["capacity_bytes"].as_u64().unwrap();
    assert!((30 << 20..40 << 20).contains(&room), "{disks}");
    assert_eq!(disks["points"][2]["capacity_bytes"], room / 2 * 4, "{disks}");
    assert_eq!(body("/v1/config")["cache"]["objective"], "requests");
    assert_eq!(status(&node.ask_admin("/v1/curve?capacity=x", &fields)), "400");
    assert_eq!(status(&node.ask_admin("/v1/curve", "")), "401");
}

#[test]
fn a_limit_that_bites_is_logged_with_its_key() {
    let origin = Origin::start();
    let url = format!("http://{}", origin.address);
    let mut node = Node::with(origin, &["--origin", &url, "--set", "limits.connections_max=1"]);
    let held = TcpStream::connect(node.clients).unwrap();
    for _ in 0..3 {
        // Closed at once.
        let mut refused = TcpStream::connect(node.clients).unwrap();
        assert!(matches!(refused.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
    let bites = |line: &str| line.contains("limits.connections_max").then(|| line.to_owned());
    let line = node.process.wait_for(bites);
    let wanted = ["WARN", "connections were refused", "cure="];
    assert!(wanted.iter().all(|word| line.contains(*word)), "{line}");
    drop(held);
}

#[test]
fn a_failing_origin_is_logged_with_its_cure_and_when_it_answers_again() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let mut node = Node::with(Origin::start(), &["--origin", &format!("http://{address}")]);
    for _ in 0..3 {
        assert_eq!(status(&get(node.clients, "/page", "")), "502");
    }
    let line =
        node.process.wait_for(|line| line.contains("an origin failed").then(|| line.to_owned()));
    let wanted = [&address.to_string(), "refused the connection", "does it run", "WARN"];
    assert!(wanted.iter().all(|word| line.contains(*word)), "{line}");
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let again = loop {
        if status(&get(node.clients, "/page", "")) == "200" {
            break node
                .process
                .wait_for(|line| line.contains("answers again").then(|| line.to_owned()));
        }
    };
    assert!(again.contains("failures="), "{again}");
    let said = node.process.said_so_far();
    assert_eq!(said.matches("an origin failed").count(), 1, "held back: {said}");
}
