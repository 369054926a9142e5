//! What is in no key reaches no origin that is asked for the cache.

use crate::client::{Client, HOST, get, get_with, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, fresh, head, response};

/// Everything a client can say that is not in the key, a line each.
const UNKEYED: &[&str] = &[
    "X-Forwarded-Host: evil.example",
    "X-Forwarded-Server: evil.example",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Scheme: nothttps",
    "X-Forwarded-Proto: gopher",
    "X-Forwarded-Prefix: /evil",
    "X-Forwarded-For: 192.0.2.66",
    "X_Forwarded_Host: evil.example",
    "Forwarded: host=evil.example;for=192.0.2.66",
    "X-Host: evil.example",
    "X-HTTP-Host-Override: evil.example",
    "X-Original-Host: evil.example",
    "X-Original-URL: /evil",
    "X-Rewrite-URL: /evil",
    "X-HTTP-Method-Override: DELETE",
    "X-HTTP-Method: DELETE",
    "X-Method-Override: DELETE",
    "X-Real-IP: 192.0.2.66",
    "True-Client-IP: 192.0.2.66",
    "CF-Connecting-IP: 192.0.2.66",
    "CF-Visitor: {\"scheme\":\"http\"}",
    "Front-End-Https: on",
    "Proxy: http://evil.example",
    "Proxy-Authorization: Basic evil",
    "Proxy-Connection: keep-alive",
    "CMCD-Request: sid=\"secret\"",
    "CMCD-Object: br=1",
    "CMCD-Status: bs",
    "CMCD-Session: sid=\"secret\"",
    "Surrogate-Capability: evil=\"ESI/1.0\"",
    "Content-Type: application/json",
    "Content-Encoding: gzip",
    "Content-Language: xx",
    "Expect: 100-continue",
    "If-Match: \"evil\"",
    "If-None-Match: \"evil\"",
    "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "If-Schedule-Tag-Match: \"evil\"",
    "If: (<evil>)",
    "Max-Forwards: 0",
    "A-IM: feed",
    "TE: trailers",
    "Trailer: Evil",
    "Upgrade: evil",
    "HTTP2-Settings: evil",
    "Sec-WebSocket-Key: evil",
    "Connection: Upgrade, HTTP2-Settings, TE",
    "Keep-Alive: timeout=1",
    "Translate: f",
    "X-Custom-IP-Authorization: 127.0.0.1",
];

/// What an origin was asked, but for what the node says of itself.
fn asked(request: &Request) -> (String, Vec<(String, String)>, Vec<u8>) {
    let own = ["via", "cdn-loop", "x-forwarded-for", "x-forwarded-proto"];
    let fields = request
        .head
        .fields
        .iter()
        .filter(|(name, _)| !own.contains(&name.to_ascii_lowercase().as_str()));
    (request.head.line.clone(), fields.cloned().collect(), request.body.clone())
}

#[test]
fn nothing_that_is_not_in_the_key_reaches_the_origin() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let named = format!("{HOST}:{}", node.address().port());
        let mut client = Client::to(&node).await;
        client.send(format!("GET /plain?a=1&b=2 HTTP/1.1\r\nHost: {named}\r\n\r\n")).await;
        assert_eq!(client.answer("GET").await.status, 200);
        // Each alone, so that none hides another, in a target and a host of other spellings.
        for (number, line) in UNKEYED.iter().enumerate() {
            let number = number + 1;
            let mut client = Client::to(&node).await;
            let text = format!(
                "GET http://{named}/plain?a=1&CMCD=sid%3D{number};a=evil&b=2 HTTP/1.1\r\n\
                 Host: {named}\r\nContent-Length: 4\r\n{line}\r\n\r\nevil"
            );
            let _ = node.node.shared.purge(
                &node.node.shared.cache.key(&named, "/plain?a=1&b=2"),
                freshet_cache::Purge::Hard,
            );
            client.send(text).await;
            assert!(client.answer("GET").await.status < 500, "{line}");
        }
        let requests = origin.requests();
        assert_eq!(requests.len(), UNKEYED.len() + 1);
        let plain = asked(&requests[0]);
        for (request, line) in requests[1..].iter().zip(UNKEYED) {
            assert_eq!(asked(request), plain, "{line}");
            assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"), "{line}");
            assert_eq!(request.field("x-forwarded-proto"), Some("http"), "{line}");
        }
        assert_eq!(plain.1, [("Host".to_owned(), named)]);
    });
}

#[test]
fn what_a_player_says_of_itself_neither_leaks_nor_poisons() {
    run(async {
        // As packagers do it: the query of a playlist goes on to what it lists.
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let node = TestNode::before(&origin);
        let answer = get(&node, "/a.m3u8?cb=good&CMCD=sid%3D%22secret%22;cb=EVIL").await;
        assert_eq!(answer.text(), "/a.m3u8?cb=good");
        let answer = get(&node, "/a.m3u8?cb=good").await;
        assert_eq!((answer.text().as_str(), origin.count()), ("/a.m3u8?cb=good", 1));
        // Nor where an answer is not kept, or the object is refreshed or filled.
        let answer = request(&node, "HEAD", "/b?CMCD=secret", &[]).await;
        assert_eq!(answer.status, 200);
        let answer = get_with(&node, "/c?CMCD=secret", &["Range: bytes=1-2"]).await;
        assert_eq!(answer.text(), "c");
        assert!(!origin.requests().iter().any(|asked| asked.target().contains("CMCD")));
    });
}

#[test]
fn a_pass_forwards_what_its_client_says() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &[], "x"));
        let node = TestNode::before(&origin);
        let fields = ["X-Forwarded-Host: mine.example", "Content-Length: 0"];
        request(&node, "POST", "/a?CMCD=1", &fields).await;
        let asked = origin.requests().remove(0);
        assert_eq!(asked.target(), "/a?CMCD=1");
        assert_eq!(asked.field("x-forwarded-host"), Some("mine.example"));
    });
}

#[test]
fn what_the_configuration_names_goes_on() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = Setup::of(&origin).and("[cache]\nforward = [\"X-Forwarded-Host\"]").start();
        get_with(&node, "/a", &["x-forwarded-host: front.example", "X-Host: evil"]).await;
        let asked = origin.requests().remove(0);
        assert_eq!(asked.field("x-forwarded-host"), Some("front.example"));
        assert_eq!(asked.field("x-host"), None);
    });
}

#[test]
fn an_answer_to_post_is_kept_only_where_a_get_would_bring_it() {
    run(async {
        let origin = Origin::serve(|asked| {
            let same = format!("Content-Location: {}", asked.target());
            let host = asked.field("x-forwarded-host").unwrap_or("good").to_owned();
            response("200 OK", &["Cache-Control: max-age=60", &same], host)
        });
        let node = TestNode::before(&origin);
        let fields = ["X-Forwarded-Host: evil", "Content-Length: 0"];
        assert_eq!(request(&node, "POST", "/a", &fields).await.text(), "evil");
        assert_eq!(get(&node, "/a").await.text(), "good");
        assert_eq!(request(&node, "POST", "/b", &["Content-Length: 0"]).await.text(), "good");
        get(&node, "/b").await;
        assert_eq!(origin.count(), 3);
        // With the port it came to, as clients say it.
        let mut client = Client::to(&node).await;
        let port = node.address().port();
        let line = format!("POST /c HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Length: 0\r\n\r\n");
        client.send(line).await;
        assert_eq!(client.answer("POST").await.text(), "good");
        client.send(format!("GET /c HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n")).await;
        assert_eq!(client.answer("GET").await.text(), "good");
        assert_eq!(origin.count(), 4);
    });
}

#[test]
fn a_redirection_leads_to_the_port_a_client_came_to() {
    run(async {
        let origin = Origin::serve(|asked| {
            let place = format!("Location: http://{}/new", asked.field("host").unwrap());
            let elsewhere = "Location: http://other.example/new".to_owned();
            let place = if asked.target() == "/elsewhere" { elsewhere } else { place };
            response("301 Moved Permanently", &[&place, "Cache-Control: max-age=60"], "")
        });
        let node = TestNode::before(&origin);
        let port = node.address().port();
        let here = format!("http://{HOST}:{port}/new");
        for (named, target, place) in [
            (port, "/a", &*here),
            // A hit.
            (port, "/a", &here),
            (port, "/elsewhere", "http://other.example/new"),
            // Who names a port that goes without saying is answered as who does not.
            (80, "/b", "/new"),
        ] {
            let mut client = Client::to(&node).await;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {HOST}:{named}\r\n\r\n")).await;
            assert_eq!(client.answer("GET").await.field("location"), Some(place), "{target}");
        }
        // Who came to the scheme's own port is told what the origin said.
        let place = format!("http://{HOST}/new");
        assert_eq!(get(&node, "/c").await.field("location"), Some(&*place));
        assert_eq!(origin.count(), 4);
    });
}

#[test]
fn an_origin_hears_the_port_and_what_it_writes_of_it_is_for_those_who_name_it() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.field("host").unwrap_or("none")));
        let node = TestNode::before(&origin);
        let port = node.address().port();
        let mut client = Client::to(&node).await;
        let mut says = async |method: &str, host: &str| {
            client.send(format!("{method} /a HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            client.answer(method).await
        };
        let named = format!("{HOST}:{port}");
        for times in 1..3 {
            for _ in 0..2 {
                assert_eq!(says("GET", &named).await.text(), named);
                assert_eq!(says("GET", HOST).await.text(), HOST);
            }
            assert_eq!(origin.count(), 2 * times);
            // What is purged is so at each port of the node, however it is named.
            let host = if times == 1 { HOST } else { &*named };
            assert_eq!(says("PURGE", host).await.status, 200);
        }
        assert_eq!(says("PURGE", &named).await.status, 404);
    });
}

#[test]
fn a_signed_request_goes_on_as_it_came() {
    run(async {
        let origin = Origin::serve(|asked| {
            let is_head = asked.method() == "HEAD";
            let has_condition = asked.field("if-none-match").is_some();
            let status = if has_condition { "304 Not Modified" } else { "200 OK" };
            let body = if is_head || has_condition { "" } else { "signed" };
            response(status, &["ETag: \"1\"", "Cache-Control: max-age=60"], body)
        });
        let node = TestNode::before(&origin);
        let key = "Authorization: AWS4-HMAC-SHA256 Credential=a";
        let condition = "If-None-Match: \"1\"";
        assert_eq!(request(&node, "HEAD", "/a", &[key]).await.status, 200);
        assert_eq!(request(&node, "GET", "/a", &[key, condition]).await.status, 304);
        assert_eq!(request(&node, "GET", "/a", &[key]).await.text(), "signed");
        let asked = origin.requests();
        assert_eq!(asked[0].method(), "HEAD");
        assert_eq!(asked[1].field("if-none-match"), Some("\"1\""));
        assert_eq!((asked[2].method(), asked[2].field("if-none-match")), ("GET", None));
    });
}

#[test]
fn who_validates_what_is_kept_for_nobody_hears_it_from_the_origin() {
    run(async {
        let origin = Origin::serve(|asked| {
            let has_condition = asked.field("if-none-match").is_some();
            let status = if has_condition { "304 Not Modified" } else { "200 OK" };
            let body = if has_condition { "" } else { "private" };
            response(status, &["ETag: \"1\"", "Cache-Control: private"], body)
        });
        let node = TestNode::before(&origin);
        assert_eq!(get(&node, "/a").await.text(), "private");
        let answer = get_with(&node, "/a", &["If-None-Match: \"1\""]).await;
        assert_eq!((answer.status, answer.field("etag")), (304, Some("\"1\"")));
        let answer = get_with(&node, "/a", &["If-None-Match: \"2\""]).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "private"));
        let asked = origin.requests();
        let conditions: Vec<_> = asked.iter().map(|one| one.field("if-none-match")).collect();
        // An origin that confirms what its client does not have is asked for what there is.
        assert_eq!(conditions, [None, Some("\"1\""), Some("\"2\""), None]);
    });
}

#[test]
fn a_selecting_field_that_was_named_away_selects_nothing() {
    run(async {
        let origin = Origin::serve(|asked| {
            let language = asked.field("accept-language").unwrap_or("none").to_owned();
            let fields = ["Cache-Control: max-age=60", "Vary: Accept-Language"];
            response("200 OK", &fields, language)
        });
        let node = TestNode::before(&origin);
        let odd = ["Accept-Language: de", "Connection: Accept-Language"];
        assert_eq!(get_with(&node, "/a", &odd).await.text(), "none");
        assert_eq!(get_with(&node, "/a", &["Accept-Language: de"]).await.text(), "de");
    });
}

#[test]
fn what_varies_by_the_scheme_is_kept_for_one() {
    run(async {
        let origin = Origin::serve(|asked| {
            let scheme = asked.field("x-forwarded-proto").unwrap_or("none").to_owned();
            let fields = ["Cache-Control: max-age=60", "Vary: X-Forwarded-Proto"];
            response("200 OK", &fields, scheme)
        });
        let mut setup = Setup::of(&origin);
        setup.listen.push_str("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n");
        let authority = crate::authority::Authority::new();
        let node = setup.and(&authority.issue("node", &[HOST])).start();
        assert_eq!(get(&node, "/a").await.text(), "http");
        let config = authority.client(&["http/1.1"]);
        let address = node.node.socket_addresses()[1];
        let stream = crate::authority::secure(address, &config, HOST).await.unwrap();
        assert_eq!(Client::over(stream).get("/a").await.text(), "https");
        assert_eq!(get(&node, "/a").await.text(), "http");
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn content_of_a_get_is_no_way_past_the_cache() {
    run(async {
        let origin = Origin::serve(|asked| fresh(format!("{} bytes", asked.body.len())));
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for _ in 0..3 {
            client.ask("GET", "/a", &["Content-Length: 1"]).await;
            client.send("x").await;
            assert_eq!(client.answer("GET").await.text(), "0 bytes");
        }
        // The connection is where the content ends.
        assert_eq!(client.get("/a").await.text(), "0 bytes");
        let mut client = Client::to(&node).await;
        client.ask("GET", "/a", &["Transfer-Encoding: chunked"]).await;
        client.send("4\r\nevil\r\n0\r\n\r\n").await;
        assert_eq!(client.answer("GET").await.text(), "0 bytes");
        assert_eq!((origin.count(), node.count("passes")), (1, 0));
    });
}

#[test]
fn a_wish_for_a_protocol_nobody_allows_is_no_way_past_the_cache() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let node = TestNode::before(&origin);
        let mut client = Client::to(&node).await;
        for protocol in ["websocket", "h2c", "anything/1"] {
            let upgrade = format!("Upgrade: {protocol}");
            let answer = client.get_with("/a", &["Connection: Upgrade", &upgrade]).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "x"));
        }
        assert_eq!((origin.count(), origin.requests()[0].field("upgrade")), (1, None));
    });
}

#[test]
fn only_the_protocols_that_are_allowed_are_asked_for() {
    run(async {
        let mut origin = Origin::scripted();
        let node = Setup::of(&origin).and("[origins]\nupgrades = [\"websocket\"]").start();
        let mut client = Client::to(&node).await;
        client.ask("GET", "/ws", &["Connection: Upgrade", "Upgrade: h2c, WebSocket, x"]).await;
        let asked = origin.next().await;
        assert_eq!(asked.request.field("upgrade"), Some("WebSocket"));
        let fields = ["Connection: Upgrade", "Upgrade: websocket"];
        asked.send(head("101 Switching Protocols", &fields, None));
        assert_eq!(client.answer("GET").await.status, 101);
    });
}

#[test]
fn what_a_post_brings_is_filed_by_what_the_origin_heard() {
    run(async {
        let origin = Origin::serve(|asked| {
            let language = asked.field("accept-language").unwrap_or("none").to_owned();
            let same = format!("Content-Location: {}", asked.target());
            let fields = ["Cache-Control: max-age=60", "Vary: Accept-Language", &same];
            response("200 OK", &fields, language)
        });
        let node = TestNode::before(&origin);
        let odd = ["Accept-Language: de", "Connection: Accept-Language", "Content-Length: 0"];
        assert_eq!(request(&node, "POST", "/a", &odd).await.text(), "none");
        assert_eq!(get_with(&node, "/a", &["Accept-Language: de"]).await.text(), "de");
    });
}
