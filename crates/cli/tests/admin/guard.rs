//! Who may do what, and how long they may take.

use crate::node::{Node, Origin, errors, status};
use crate::support::{PATIENCE, run, succeed};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn changes_need_the_token() {
    let node = Node::start();
    assert_eq!(fs::metadata(&node.token).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(node.token.starts_with(node.home.path().join("freshet")));
    for fields in ["", "Authorization: Bearer wrong\r\n", "Authorization: Basic eDp5\r\n"] {
        let answer = node.ask_admin("/v1/stats", fields);
        assert_eq!(status(&answer), "401", "{fields}");
        assert!(answer.contains("www-authenticate: Bearer") && answer.contains("\"help\""));
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
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "the longest waiting lost its place");
}

#[test]
fn a_request_that_does_not_end_is_given_up() {
    let node = Node::start();
    let mut socket = TcpStream::connect(node.admin).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
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
