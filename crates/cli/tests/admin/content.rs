//! Purges, bans and explanations.

use crate::node::{Node, Origin, errors, status};
use crate::support::{run, succeed};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

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
    assert_eq!(explain(&["-H", "Host: another.example"]), "miss");
    let wrong = errors(&run(&mut node.command(&["explain", "/vary"])));
    assert!(
        wrong.contains("`/vary` is not a URL") && wrong.contains("http://localhost"),
        "{wrong}"
    );
}

/// A node before an origin with this in its file.
fn configured(rest: &str) -> (Node, tempfile::TempDir) {
    let (origin, folder) = (Origin::start(), tempfile::tempdir().unwrap());
    let file = folder.path().join("freshet.toml");
    let text = format!("{rest}[[origin]]\nurl = \"http://{}\"\n", origin.address);
    fs::write(&file, text).unwrap();
    let node = Node::with(origin, &["--config", &file.to_string_lossy()]);
    (node, folder)
}

#[test]
fn an_explanation_says_what_comes_next_where_nothing_is_looked_up() {
    let (node, _folder) = configured("[[redirect]]\nfrom = \"/old\"\nto = \"/new\"\n");
    let explain = |path: &str| node.say(&["explain", &node.url(path)]);
    let said = explain("/old");
    assert!(said.contains("next    301, answered here"), "{said}");
    node.say(&["maintenance", "on"]);
    let said = explain("/page");
    assert!(said.contains("next    503: the site is under maintenance"), "{said}");
    node.say(&["maintenance", "off"]);
    let said = explain("/page");
    assert!(said.contains("next    a miss: it is fetched"), "{said}");
}

#[test]
fn an_explanation_names_the_node_of_this_place_that_a_key_is_at_home_at() {
    let nodes = "[cache]\nloop_id = \"one\"\n[[sibling]]\nname = \"one\"\nurl = \"http://127.0.0.1:9\"\n\
                 [[sibling]]\nname = \"two\"\nurl = \"http://127.0.0.1:9\"\n";
    let (node, _folder) = configured(nodes);
    let said: Vec<_> =
        (0..20).map(|at| node.say(&["explain", &node.url(&format!("/{at}"))])).collect();
    let elsewhere = said.iter().filter(|said| said.contains("two is asked, where it is at home"));
    let here = said.iter().filter(|said| said.contains("a miss: it is fetched, and stored"));
    let (elsewhere, here) = (elsewhere.count(), here.count());
    assert!(elsewhere > 2 && here > 2 && elsewhere + here == 20, "{said:?}");
}
