//! The platform as a server: real sockets, and a router that is one for the tests.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod full;
mod packages;
#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../../../../tests/small_disk.rs"]
mod small_disk;
mod support;
mod wireless;

use freshet_platform::limits::BODY_BYTES_MAX;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use support::{Running, TestRouter, read_request};

const RULE: &str = "/mec_app_support/v1/applications/camera/traffic_rules/video";

#[test]
fn a_rule_is_answered_when_the_router_has_it() {
    let router = TestRouter::start();
    let running = Running::start(&router.config());
    let token = running.token("camera");
    let mut rule = support::rule();
    rule["state"] = "ACTIVE".into();
    let answer = running.ask("PUT", RULE, &token, &rule.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    // Before the client was told.
    let sets = router.sets();
    assert_eq!(sets.last().unwrap()[0]["state"], "ACTIVE");
    assert_eq!(sets.last().unwrap()[0]["trafficRuleId"], "camera/video");
    router.refuse(true);
    rule["state"] = "INACTIVE".into();
    let answer = running.ask("PUT", RULE, &token, &rule.to_string());
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("rules[0].dstInterface"), "{}", answer.body);
    let read = running.ask("GET", RULE, &token, "");
    assert_eq!(read.json()["state"], "ACTIVE");
}

#[test]
fn a_monitor_with_a_token_is_told_what_was_counted() {
    let more = "[client.monitor]\nscopes = [\"mec_platform:metrics\"]\n\
        secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n\
        [service.detector]\navailability = 99.5\nlatency = \"50ms\"\nlatency_share = 99.0\n";
    let running = Running::start(more);
    let (camera, monitor) = (running.token("camera"), running.token("monitor"));
    for _ in 0..3 {
        running.ask("GET", RULE, &camera, "");
    }
    running.ask("GET", "/made/up", &camera, "");
    let path = "/mec_platform/v1/metrics";
    assert_eq!(running.ask("GET", path, &camera, "").status, 403);
    let text = running.ask("GET", path, &monitor, "").body;
    for line in [
        "freshet_mec_calls_total{interface=\"mec_app_support\",method=\"GET\",status=\"200\"} 3",
        "freshet_mec_calls_total{interface=\"none\",method=\"GET\",status=\"404\"} 1",
        "freshet_mec_calls_total{interface=\"mec_platform\",method=\"GET\",status=\"403\"} 1",
        "freshet_mec_apps{state=\"STARTING\"} 1",
        "freshet_mec_promised_ratio{service=\"detector\",promise=\"no error\"} 0.995",
        "freshet_mec_promised_ratio{service=\"detector\",promise=\"first byte within 50 ms\"} 0.99",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn operators_have_a_page() {
    let running = Running::start("");
    for (path, begins) in [
        ("/console", "<!doctype html>"),
        ("/console/page.js", "\"use strict\";"),
        ("/console/page.css", ":root {"),
    ] {
        let answer = running.ask("GET", path, "", "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.starts_with(begins), "{path}");
        assert!(answer.head.contains("frame-ancestors 'none'"), "{path}: {}", answer.head);
    }
    assert_eq!(running.ask("POST", "/console", "", "").status, 401);
    assert_eq!(running.ask("GET", "/console/other", "", "").status, 401);
}

#[test]
fn a_router_that_was_started_anew_gets_the_rules_again() {
    let router = TestRouter::start();
    let running = Running::start(&router.config());
    let token = running.token("camera");
    let mut rule = support::rule();
    rule["state"] = "ACTIVE".into();
    assert_eq!(running.ask("PUT", RULE, &token, &rule.to_string()).status, 200);
    let before = router.sets().len();
    router.forget();
    assert!(support::until(|| router.sets().len() > before));
    assert_eq!(router.sets().last().unwrap()[0]["state"], "ACTIVE");
}

#[test]
fn a_tag_is_answered_when_the_router_has_it() {
    let router = TestRouter::start();
    let config = format!("{}\n[tag.gold]\nclients = [\"10.45.0.2\"]\n", router.config());
    let running = Running::start(&config);
    let token = running.token("camera");
    let tags = json!({"ueIdentityTags": [{"ueIdentityTag": "gold", "state": 1}]});
    let place = "/ui/v1/camera/ue_identity_tag_info";
    assert_eq!(running.ask("PUT", place, &token, &tags.to_string()).status, 200);
    assert_eq!(router.tags().last().unwrap(), &json!(["10.45.0.2", ["gold"]]));
    let before = router.tags().len();
    router.forget();
    assert!(support::until(|| router.tags().len() > before));
    assert_eq!(router.tags().last().unwrap(), &json!(["10.45.0.2", ["gold"]]));
}

#[test]
fn without_a_router_no_rule_is_in_force() {
    let running = Running::start("");
    let token = running.token("camera");
    let mut rule = support::rule();
    rule["state"] = "ACTIVE".into();
    assert_eq!(running.ask("PUT", RULE, &token, &rule.to_string()).status, 503);
    assert_eq!(running.ask("GET", RULE, &token, "").json()["state"], "INACTIVE");
}

#[test]
fn a_notification_is_delivered_once_and_tried_again_where_it_is_not_taken() {
    let running = Running::start("");
    let token = running.token("camera");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let callback = format!("http://{}/events", listener.local_addr().unwrap());
    let subscription = json!({
        "subscriptionType": "SerAvailabilityNotificationSubscription", "callbackReference": callback,
    });
    let place = "/mec_service_mgmt/v1/applications/camera/subscriptions";
    assert_eq!(running.ask("POST", place, &token, &subscription.to_string()).status, 201);
    let service = json!({
        "serName": "detector", "version": "1", "state": "ACTIVE", "transportId": "rest", "serializer": "JSON",
    });
    let services = "/mec_service_mgmt/v1/applications/camera/services";
    assert_eq!(running.ask("POST", services, &token, &service.to_string()).status, 201);
    let take = |status: &str| {
        let (mut stream, _) = listener.accept().unwrap();
        let request = read_request(&mut stream);
        // At once: who has seen the status hangs up.
        let answer = format!(
            "HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).unwrap();
        request
    };
    let first = take("500 Internal Server Error");
    assert!(
        first.starts_with("POST /events HTTP/1.1\r\n") && first.contains("\"ADDED\""),
        "{first}"
    );
    assert_eq!(take("302 Found"), first);
    // What goes before an answer is none.
    assert_eq!(take("103 Early Hints\r\n\r\nHTTP/1.1 204 No Content"), first);
    assert!(support::until(|| running.notified().delivered == 1));
    assert_eq!(running.notified().given_up, 0);
}

#[test]
fn names_of_rules_are_answered_and_others_are_passed_on() {
    let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[dns]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\n",
        upstream.local_addr().unwrap()
    );
    let running = Running::start(&config);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let resolver = running.resolver.unwrap();
    use freshet_router::dns::{self, Kind};
    let mut bytes = [0; 1500];
    client.send_to(&dns::question(7, "www.example.com", Kind::A), resolver).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    let answer = dns::answer(&bytes[..count], 7, "www.example.com", Kind::A).unwrap();
    assert_eq!((answer.addresses, answer.ttl_s), (vec!["10.99.0.2".parse().unwrap()], 30));
    let question = dns::question(8, "other.example.com", Kind::A);
    client.send_to(&question, resolver).unwrap();
    upstream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (count, from) = upstream.recv_from(&mut bytes).unwrap();
    assert_eq!(bytes[2..count], question[2..]);
    let mut reply = bytes[..count].to_vec();
    reply[2] |= 0x80;
    // Of another question, or no answer at all: not taken for the answer.
    let mut other = reply.clone();
    other[13] ^= 1;
    upstream.send_to(&other, from).unwrap();
    upstream.send_to(&bytes[..count], from).unwrap();
    upstream.send_to(&reply, from).unwrap();
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!((&bytes[..2], &bytes[3..count]), (&[0, 8][..], &reply[3..]));
    // A long answer, as clients may allow, is not cut.
    client.send_to(&question, resolver).unwrap();
    let (count, from) = upstream.recv_from(&mut bytes).unwrap();
    let mut long = bytes[..count].to_vec();
    long[2] |= 0x80;
    long.resize(4_000, 7);
    upstream.send_to(&long, from).unwrap();
    let mut bytes = [0; 8_192];
    let count = client.recv(&mut bytes).unwrap();
    assert_eq!(bytes[2..count], long[2..]);
}

/// Asks over a connection, and gives the reply.
fn ask_by_stream(stream: &mut TcpStream, question: &[u8]) -> Vec<u8> {
    let length = u16::try_from(question.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], question].concat()).unwrap();
    receive_by_stream(stream)
}

fn receive_by_stream(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    message
}

#[test]
fn names_are_answered_over_connections_too() {
    use freshet_router::dns::{self, Kind};
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[dns]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\n",
        upstream.local_addr().unwrap()
    );
    let running = Running::start(&config);
    let mut client = TcpStream::connect(running.resolver.unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let reply = ask_by_stream(&mut client, &dns::question(7, "www.example.com", Kind::A));
    let answer = dns::answer(&reply, 7, "www.example.com", Kind::A).unwrap();
    assert_eq!(answer.addresses, ["10.99.0.2".parse::<std::net::IpAddr>().unwrap()]);
    // Another's name, over the same connection, with an answer that fits no datagram.
    let question = dns::question(8, "other.example.com", Kind::A);
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = upstream.accept().unwrap();
        let mut long = receive_by_stream(&mut stream);
        long[2] |= 0x80;
        long.resize(60_000, 7);
        stream.write_all(&60_000_u16.to_be_bytes()).and_then(|()| stream.write_all(&long)).unwrap();
        (upstream, long)
    });
    let reply = ask_by_stream(&mut client, &question);
    let (upstream, long) = answering.join().unwrap();
    assert!(reply == long);
    // Nobody is there to ask.
    drop(upstream);
    let reply = ask_by_stream(&mut client, &question);
    assert_eq!((&reply[..2], reply[3] & 0x0f), (&[0, 8][..], 2));
}

/// A change that is asked for under a condition is never made without it.
#[test]
fn a_condition_holds_in_whatever_lines_it_comes() {
    let running = Running::start("");
    let token = running.token("camera");
    let rule = support::rule().to_string();
    let put = |condition: &str| {
        let lines = format!("Authorization: Bearer {token}\r\n{condition}");
        running.ask_with("PUT", RULE, &lines, &rule).status
    };
    let etag = || {
        let head = running.ask("GET", RULE, &token, "").head;
        head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned()
    };
    assert_eq!(put("If-Match: \"old\"\r\nIf-Match: \"older\"\r\n"), 412);
    assert_eq!(put("If-Match: \"älter\"\r\n"), 412);
    assert_eq!(put(&format!("If-Match: \"old\"\r\nIf-Match: {}\r\n", etag())), 200);
    assert_eq!(put(&format!("If-Match: {}\r\n", etag())), 200);
}

#[test]
fn what_clients_may_cost_has_an_end() {
    let running = Running::start("");
    let token = running.token("camera");
    let services = "/mec_service_mgmt/v1/applications/camera/services";
    let huge = " ".repeat(BODY_BYTES_MAX + 1);
    assert_eq!(running.ask("POST", services, &token, &huge).status, 413);
    // A body without an end ends the connection, and nothing else.
    let mut stream = TcpStream::connect(running.address).unwrap();
    write!(stream, "POST {services} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    while stream.write_all(chunk.as_bytes()).is_ok() {}
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(running.ask("GET", services, &token, "").status, 200);
}

#[test]
fn a_head_is_that_of_the_answer_to_get() {
    let running = Running::start("");
    let token = running.token("camera");
    for (target, token) in [(RULE, token.as_str()), (RULE, ""), ("/", ""), ("/console", "")] {
        let [get, head] = ["GET", "HEAD"].map(|method| running.ask(method, target, token, ""));
        let fields = |head: &str| -> Vec<String> {
            let lines = head.lines().map(str::to_ascii_lowercase);
            lines.filter(|line| !line.starts_with("date:")).collect()
        };
        assert!(!get.body.is_empty() && head.body.is_empty(), "{target}");
        assert_eq!(fields(&get.head), fields(&head.head), "{target}");
    }
}

/// RFC 9112 §3.2: what is asked for has one host.
#[test]
fn a_request_without_one_host_is_refused() {
    let running = Running::start("");
    for (version, lines, status) in [
        ("1.1", "", 400),
        ("1.1", "Host: a\r\nHost: a\r\n", 400),
        ("1.1", "Host: a b\r\n", 400),
        ("1.1", "Host: user@a\r\n", 400),
        ("1.1", "Host: a/b\r\n", 400),
        ("1.0", "Host: a b\r\n", 400),
        ("1.0", "", 200),
        ("1.1", "Host: a\r\n", 200),
        ("1.1", "Host: [::1]:8080\r\n", 200),
    ] {
        for target in ["/", "/console"] {
            let mut stream = TcpStream::connect(running.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            write!(stream, "GET {target} HTTP/{version}\r\n{lines}Connection: close\r\n\r\n")
                .unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let got = text.split(' ').nth(1).and_then(|status| status.parse().ok());
            assert_eq!(got, Some(status), "{target} {version} {lines:?}: {text}");
        }
    }
}

#[test]
fn a_body_that_is_coded_is_refused_for_that() {
    let running = Running::start("");
    let line = format!("Authorization: Bearer {}\r\n", running.token("camera"));
    let body = support::rule().to_string();
    for (coding, status) in [("gzip", 415), ("identity, br", 415), ("Identity", 200), ("", 200)] {
        let lines = format!("{line}Content-Encoding: {coding}\r\n");
        let answer = running.ask_with("PUT", RULE, &lines, &body);
        assert_eq!(answer.status, status, "{coding}: {}", answer.body);
        let says = answer.head.to_ascii_lowercase().contains("accept-encoding: identity");
        assert_eq!(says, status == 415, "{}", answer.head);
    }
}

#[test]
fn a_second_platform_on_one_state_is_refused() {
    let running = Running::start("");
    let config = support::config(running.folder.path(), "");
    let refused = freshet_mec::serve::bind(freshet_mec::serve::read(&config).unwrap()).unwrap_err();
    assert!(refused.contains("another process has it"), "{refused}");
}
