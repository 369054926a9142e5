//! A node in front of a small origin, looked at and told things as operators do.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use support::{Process, freshet, is_clean, run, succeed};

/// Paths of the origin and the fields it answers with.
const PAGES: &[(&str, &str)] = &[
    ("/page", "Cache-Control: max-age=60"),
    ("/news/1", "Cache-Control: max-age=60\r\nSurrogate-Key: news sport"),
    ("/news/2", "Cache-Control: max-age=60\r\nCache-Tag: news"),
    ("/live", "Cache-Control: max-age=60, stale-while-revalidate=60"),
    ("/private", "Cache-Control: no-store"),
    ("/vary", "Cache-Control: max-age=60\r\nVary: Accept-Encoding"),
];

/// An origin that answers each request on a connection of its own. `/held` it answers once it is
/// told to, after having said that it was asked.
struct Origin {
    address: SocketAddr,
    asked: Receiver<()>,
    go_on: Sender<()>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (was_asked, asked) = channel();
        let (go_on, wait) = channel();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(socket);
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let mut field = String::from(" ");
                while field.trim_end() != "" {
                    field.clear();
                    let _ = reader.read_line(&mut field);
                }
                let target = line.split(' ').nth(1).unwrap_or("");
                let path = target.split('?').next().unwrap_or(target);
                if path == "/held" {
                    let _ = was_asked.send(());
                    let _ = wait.recv();
                }
                let known = PAGES.iter().find(|(known, _)| *known == path);
                let (status, fields) = match known {
                    Some((_, fields)) => ("200 OK", *fields),
                    None => ("404 Not Found", "X-Path: unknown"),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: 5\r\nConnection: close\r\n\
                     \r\nhello"
                );
                let _ = reader.into_inner().write_all(answer.as_bytes());
            }
        });
        Self { address, asked, go_on }
    }
}

/// A running node with an origin, and where its parts are.
struct Node {
    process: Process,
    origin: Origin,
    home: tempfile::TempDir,
    clients: SocketAddr,
    admin: SocketAddr,
    token: PathBuf,
}

impl Node {
    fn start() -> Self {
        let origin = Origin::start();
        let url = format!("http://{}", origin.address);
        Self::with(origin, &["--origin", &url])
    }

    fn with(origin: Origin, arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = freshet();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--memory", "64MiB", "--workers", "1"])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", home.path())
            .env_remove("RUNTIME_DIRECTORY");
        let mut process = Process::start(&mut command);
        let mut after =
            |name: &str| process.wait_for(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        let clients = address_in(&after("listening"));
        let admin = address_in(&after("admin"));
        let token = PathBuf::from(after("token"));
        after("try");
        Self { process, origin, home, clients, admin, token }
    }

    /// A command that talks to this node, with the token it finds by itself.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = freshet();
        command
            .args(arguments)
            .args(["--admin", &self.admin.to_string()])
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env_remove("RUNTIME_DIRECTORY");
        command
    }

    /// What such a command prints, which has to fit a terminal.
    fn say(&self, arguments: &[&str]) -> String {
        let text = succeed(&mut self.command(arguments));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.clients)
    }

    /// Asks the node as a client and returns `Cache-Status`.
    fn ask(&self, path: &str) -> String {
        let answer = get(self.clients, path, "");
        let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: freshet; "));
        line.unwrap_or_else(|| panic!("no Cache-Status in {answer}")).to_owned()
    }

    fn ask_admin(&self, path: &str, fields: &str) -> String {
        get(self.admin, path, fields)
    }
}

fn address_in(text: &str) -> SocketAddr {
    let rest = text.split_once("http://").unwrap_or_else(|| panic!("no URL in {text}")).1;
    rest.split('/').next().unwrap().parse().unwrap()
}

/// A request on a connection of its own; the whole answer as text.
fn get(address: SocketAddr, path: &str, fields: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

fn errors(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "it should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_purge_by_url_forgets_what_is_stored() {
    let node = Node::start();
    assert!(node.ask("/page").starts_with("fwd=uri-miss; stored"));
    assert!(node.ask("/page").starts_with("hit"));
    let said = node.say(&["purge", &node.url("/page")]);
    assert!(said.contains("/page: 1 object purged in "), "{said}");
    assert!(node.ask("/page").starts_with("fwd=uri-miss; stored"));
    let said = node.say(&["purge", &node.url("/other")]);
    assert!(said.contains("nothing was stored"), "{said}");
}

#[test]
fn a_purge_by_tag_takes_all_that_has_it() {
    let node = Node::start();
    for path in ["/news/1", "/news/2", "/page"] {
        node.ask(path);
    }
    let said = node.say(&["purge", "--tag", "news", "--json"]);
    let answer: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&answer["purged"], &answer["soft"]), (&2.into(), &false.into()), "{said}");
    assert!(node.ask("/news/2").starts_with("fwd=uri-miss"));
    assert!(node.ask("/page").starts_with("hit"));
    let said = node.say(&["purge", "--all"]);
    assert!(said.starts_with("everything: 2 objects purged in "), "{said}");
}

#[test]
fn a_soft_purge_serves_the_old_while_it_is_refreshed() {
    let node = Node::start();
    node.ask("/live");
    let said = node.say(&["purge", "--soft", &node.url("/live")]);
    assert!(said.contains("1 object made stale"), "{said}");
    let said = node.say(&["explain", &node.url("/live")]);
    assert!(said.contains("a soft purge"), "{said}");
    assert!(said.contains("a hit; one request refreshes it behind (hit-stale)"), "{said}");
    let status = node.ask("/live");
    assert!(status.starts_with("hit") && status.contains("detail=hit-stale"), "{status}");
}

#[test]
fn an_explanation_names_the_field_that_decided_and_the_cure() {
    let node = Node::start();
    let explain = |path: &str| node.say(&["explain", &node.url(path)]);
    let said = explain("/private");
    assert!(said.starts_with("not stored: nobody asked for it lately\n"), "{said}");
    node.ask("/private?CMCD=bl%3D2000");
    let said = explain("/private?CMCD=bl%3D3000");
    let verdict =
        "not stored: the origin sent \"Cache-Control: no-store\" (RFC 9111 §5.2.2.5)\nkey ";
    assert!(said.starts_with(verdict), "{said}");
    assert!(said.contains("/private (CMCD left out)\n"), "{said}");
    assert!(said.contains("\nfetched once without being stored\n"), "{said}");
    assert!(said.contains("CDN-Cache-Control: max-age=6"), "{said}");
    node.ask("/page");
    let said = explain("/page");
    assert!(said.starts_with("stored and fresh\n"), "{said}");
    assert!(said.contains("\nlife    60 s by \"Cache-Control: max-age=60\"; age "), "{said}");
    assert!(said.contains("\nnext    a hit (hit)\n"), "{said}");
}

#[test]
fn an_explanation_is_for_the_request_it_is_given() {
    let node = Node::start();
    node.ask("/vary");
    let url = node.url("/vary");
    let explain = |more: &[&str]| {
        let arguments = [&["explain", &url, "--json"], more].concat();
        let answer: Value = serde_json::from_str(&succeed(&mut node.command(&arguments))).unwrap();
        answer["next"].as_str().unwrap().to_owned()
    };
    assert_eq!(explain(&[]), "hit");
    assert_eq!(explain(&["-H", "Accept-Encoding: br"]), "vary-mismatch");
    assert_eq!(explain(&["--method", "POST"]), "pass-method");
    let wrong = errors(&run(&mut node.command(&["explain", "/vary"])));
    assert!(
        wrong.contains("`/vary` is not a URL") && wrong.contains("http://localhost"),
        "{wrong}"
    );
}

#[test]
fn metrics_are_openmetrics_and_count() {
    let node = Node::start();
    node.ask("/page");
    node.ask("/page");
    let answer = node.ask_admin("/metrics", "");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/openmetrics-text"), "{head}");
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
    has("freshet_build_info{version=\"0.1.0\"} 1");
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
fn changes_need_the_token() {
    let node = Node::start();
    assert_eq!(fs::metadata(&node.token).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(node.token.starts_with(node.home.path().join("freshet")));
    for fields in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic eDp5\r\n"] {
        let answer = node.ask_admin("/v1/stats", fields);
        assert_eq!(status(&answer), "401", "{fields}");
        assert!(answer.contains("www-authenticate: Bearer") && answer.contains("\"hint\""));
    }
    let token = fs::read_to_string(&node.token).unwrap();
    let right = format!("Authorization: Bearer {}\r\n", token.trim());
    assert_eq!(status(&node.ask_admin("/v1/stats", &right)), "200");
    assert_eq!(status(&node.ask_admin("/v1/nothing", &right)), "404");
    let elsewhere = tempfile::tempdir().unwrap();
    let mut command = node.command(&["stat"]);
    command.env("XDG_RUNTIME_DIR", elsewhere.path());
    let said = errors(&run(&mut command));
    assert!(said.contains("wants its token") && said.contains("--token-file"), "{said}");
    let file = node.token.to_str().unwrap();
    assert!(succeed(command.args(["--token-file", file])).starts_with("freshet 0.1.0, up "));
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
fn what_is_banned_is_not_served_any_more() {
    let node = Node::start();
    let token = fs::read_to_string(&node.token).unwrap();
    let ask = |method: &str, body: &str| {
        let mut socket = TcpStream::connect(node.admin).unwrap();
        let request = format!(
            "{method} /v1/bans HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            node.admin,
            token.trim(),
            body.len()
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(!node.ask("/page").starts_with("hit"));
    assert!(node.ask("/page").starts_with("hit"));
    let answer = ask("POST", r#"{"ban": "req.url ~ ^/other"}"#);
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(node.ask("/page").starts_with("hit"), "it is about others");
    let answer = ask("POST", r#"{"ban": "req.url ~ ^/pa && obj.status == 200"}"#);
    assert!(answer.contains("req.url ~ ^/pa && obj.status == 200"), "{answer}");
    assert!(!node.ask("/page").starts_with("hit"));
    assert!(node.ask("/page").starts_with("hit"), "what came after the ban is served");
    let listed = ask("GET", "");
    assert_eq!(listed.matches("needs_request").count(), 2, "{listed}");
    let wrong = ask("POST", r#"{"ban": "req.color == blue"}"#);
    assert!(status(&wrong) == "400" && wrong.contains("req.url ~ ^/news/"), "{wrong}");
}

#[test]
fn slow_connections_do_not_keep_a_health_check_waiting() {
    let node = Node::start();
    // More than there are places, each with a request that never ends; some say nothing at all.
    let slow: Vec<TcpStream> = (0..300)
        .map(|index| {
            let mut socket = TcpStream::connect(node.admin).unwrap();
            if index % 3 > 0 {
                socket.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ").unwrap();
            }
            socket
        })
        .collect();
    let began = Instant::now();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(status(&node.ask_admin(path, "")), "200", "{path}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
    // A request of which a byte comes now and then is not waited for either.
    let mut first = &slow[0];
    first.set_read_timeout(Some(support::PATIENCE)).unwrap();
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "the longest waiting lost its place");
}

#[test]
fn a_request_that_does_not_end_is_given_up() {
    let node = Node::start();
    let mut socket = TcpStream::connect(node.admin).unwrap();
    socket.set_read_timeout(Some(support::PATIENCE)).unwrap();
    let began = Instant::now();
    // The head is whole, the body never is, and each second brings a byte of it.
    socket
        .write_all(b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n")
        .unwrap();
    let mut dripping = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        while dripping.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let _ = socket.read_to_end(&mut Vec::new());
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
}

#[test]
fn a_body_that_is_too_long_is_refused_before_it_is_sent() {
    let node = Node::start();
    let mut socket = TcpStream::connect(node.admin).unwrap();
    socket
        .write_all(b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 413 "), "{line}");
    // One that says nothing of its length, and has no end.
    let mut socket = TcpStream::connect(node.admin).unwrap();
    let head = b"POST /v1/purge HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    socket.write_all(head).unwrap();
    let chunk = [&b"1000\r\n"[..], &[b' '; 0x1000], b"\r\n"].concat();
    let taken = (0..10_000).take_while(|_| socket.write_all(&chunk).is_ok()).count();
    assert!(taken < 10_000, "{taken} chunks were taken");
    assert_eq!(status(&node.ask_admin("/healthz", "")), "200");
}

#[test]
fn names_that_are_not_ours_and_pages_of_other_sites_are_refused() {
    let node = {
        let origin = Origin::start();
        let url = format!("http://{}", origin.address);
        Node::with(origin, &["--origin", &url, "--set", "admin.hosts=cdn.example"])
    };
    let port = node.admin.port();
    let asked = |method: &str, path: &str, fields: &str| {
        let mut socket = TcpStream::connect(node.admin).unwrap();
        write!(socket, "{method} {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        status(&answer).to_owned()
    };
    for path in ["/metrics", "/healthz", "/readyz", "/openapi.json", "/v1/stats", "/nothing"] {
        let host = format!("Host: evil.example:{port}\r\n");
        assert_eq!(asked("GET", path, &host), "421", "{path}");
        assert_eq!(
            asked("GET", &format!("http://evil.example{path}"), "Host: localhost\r\n"),
            "421"
        );
    }
    for host in
        ["localhost", "127.0.0.1:1", "[::1]:6080", "10.0.0.7", "cdn.example", "CDN.example.:1"]
    {
        assert_eq!(asked("GET", "/metrics", &format!("Host: {host}\r\n")), "200", "{host}");
    }
    let token = fs::read_to_string(&node.token).unwrap();
    let with = |fields: &str| {
        let token = token.trim();
        let fields = format!(
            "Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 2\r\n{fields}"
        );
        let mut socket = TcpStream::connect(node.admin).unwrap();
        write!(socket, "POST /v1/purge/all HTTP/1.1\r\n{fields}Connection: close\r\n\r\n{{}}")
            .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        status(&answer).to_owned()
    };
    for fields in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://localhost\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(with(fields), "403", "{fields}");
    }
    for fields in [
        "",
        "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(with(fields), "200", "{fields}");
    }
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
    let pid = support::ready(&mut first);
    let said = String::from_utf8(tell(&["reload"]).stdout).unwrap();
    assert!(said.starts_with(&format!("node edge-1 (process {pid}): the configuration")), "{said}");
    let mut second = Process::start(&mut serve("edge-2"));
    let other = support::ready(&mut second);
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
