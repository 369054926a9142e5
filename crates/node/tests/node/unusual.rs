//! What a client gets who asks as others do, after one who did not: always what it would have got
//! without the other. The origin reacts to everything that some widespread server reacts to.

use crate::client::{Answer, Client};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, head, response};

/// Requests that an origin may refuse, with content behind the head where there is some.
fn unusual() -> Vec<(Vec<String>, &'static str)> {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    vec![
        (lines(&["Range: bytes=1000000-"]), ""),
        (lines(&["Range: bytes=9-1"]), ""),
        (lines(&["Range: bytes=99999999999999999999-"]), ""),
        (lines(&["Range: bytes=0-0,2-2,9999-"]), ""),
        (lines(&["Range: bytes=0-1", "If-Range: \"other\""]), ""),
        (lines(&["If-Match: \"other\""]), ""),
        (lines(&["If-None-Match: *"]), ""),
        (lines(&["If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT"]), ""),
        (lines(&["If-Modified-Since: nonsense"]), ""),
        (lines(&["X-HTTP-Method-Override: DELETE"]), ""),
        (lines(&["X-Oversized: 1", &format!("Cookie: {}", "c".repeat(9000))]), ""),
        (lines(&[&format!("X-Oversized: {}", "x".repeat(9000))]), ""),
        (lines(&["User-Agent: a\tb"]), ""),
        (lines(&["User-Agent: \u{f6}"]), ""),
        (lines(&["X-Forwarded-Host: evil.example"]), ""),
        (lines(&["X-Forwarded-Scheme: http"]), ""),
        (lines(&["X-Original-URL: /missing"]), ""),
        (lines(&["Authorization: nonsense"]), ""),
        (lines(&["X-Invoke-Status: 500"]), ""),
        (lines(&["Expect: 100-continue", "Content-Length: 1"]), ""),
        (lines(&["Content-Length: 4", "Content-Type: text/evil"]), "evil"),
        (lines(&["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: x"]), ""),
        (lines(&["TE: gzip", "Connection: TE"]), ""),
    ]
}

/// Whether a server that looks at everything finds something unusual about a request.
fn is_unusual(request: &Request) -> bool {
    let own = ["host", "via", "cdn-loop", "x-forwarded-for", "x-forwarded-proto", "connection"];
    let is_odd = |name: &str, value: &str| {
        let name = name.to_ascii_lowercase();
        value.len() > 4000
            || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            || !(own.contains(&name.as_str()) || matches!(&*name, "user-agent" | "cookie"))
    };
    !request.body.is_empty()
        || request.method() != "GET"
        || request.head.fields.iter().any(|(name, value)| is_odd(name, value))
}

/// An origin that answers what is unusual with the status in the target, and wants that kept.
fn reacting() -> Origin {
    Origin::serve(|asked| {
        let fields = ["Cache-Control: public, max-age=3600", "ETag: \"x\""];
        if !is_unusual(asked) {
            return response("200 OK", &fields, "good");
        }
        let status = asked.target().trim_start_matches('/').split('/').next().unwrap_or("500");
        let line = format!("{status} Odd");
        match status {
            "304" => head(&line, &fields, None),
            "416" => {
                response(&line, &[&fields[..], &["Content-Range: bytes */4"]].concat(), "evil")
            }
            _ => response(&line, &fields, "evil"),
        }
    })
}

async fn ask(node: &TestNode, target: &str, lines: &[String], content: &str) -> Answer {
    let mut client = Client::to(node).await;
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    client.ask("GET", target, &lines).await;
    if !content.is_empty() {
        client.send(content).await;
    }
    client.answer("GET").await
}

#[test]
fn no_error_that_an_unusual_request_provoked_is_given_to_others() {
    run(async {
        let origin = reacting();
        let node = Setup::of(&origin).start();
        let unusual = unusual();
        let mut kept_by_others = Vec::new();
        for status in 300..600 {
            // A fifth of all pairs, each time another.
            for (number, (lines, content)) in unusual.iter().enumerate() {
                if !(status + number).is_multiple_of(5) {
                    continue;
                }
                let target = format!("/{status}/{number}");
                ask(&node, &target, lines, content).await;
                let answer = Client::to(&node).await.get(&target).await;
                if (answer.status, answer.text().as_str()) != (200, "good") {
                    kept_by_others.push((status, lines, answer.status));
                }
            }
        }
        assert!(kept_by_others.is_empty(), "{kept_by_others:?}");
        assert!(origin.count() > 300);
    });
}

#[test]
fn errors_that_others_would_get_too_are_kept() {
    run(async {
        let origin = Origin::serve(|asked| {
            let status = asked.target().trim_start_matches('/').to_owned();
            response(&format!("{status} x"), &["Cache-Control: max-age=60"], "x")
        });
        let node = TestNode::before(&origin);
        let statuses = [400, 403, 404, 405, 410, 414, 451, 499, 500, 501, 502, 503, 504, 599];
        for status in statuses {
            for _ in 0..2 {
                let fields = ["User-Agent: Mozilla/5.0".to_owned(), "Accept: */*".to_owned()];
                assert_eq!(ask(&node, &format!("/{status}"), &fields, "").await.status, status);
            }
        }
        assert_eq!(origin.count(), statuses.len());
    });
}

#[test]
fn a_redirect_that_a_range_met_is_kept_as_for_the_whole() {
    run(async {
        let origin = Origin::serve(|asked| {
            let fields = ["Cache-Control: max-age=60", "Location: /b"];
            let text = asked.field("range").unwrap_or("whole").to_owned();
            response("302 Found", &fields, text)
        });
        let node = TestNode::before(&origin);
        let range = ["Range: bytes=0-1".to_owned()];
        let answer = ask(&node, "/a", &range, "").await;
        assert_eq!((answer.status, answer.text().as_str()), (302, "whole"));
        assert_eq!(Client::to(&node).await.get("/a").await.text(), "whole");
        assert_eq!(origin.count(), 2);
    });
}
