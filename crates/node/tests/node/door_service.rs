//! `[[access]]` with a service that is asked.

use crate::client::{Client, get, get_with, request};
use crate::harness::{Setup, run};
use crate::origin::{Origin, Reply, Request, fresh, head, refusing, response};
use crate::vcl::governed_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A service that knows `token=good` in the query as a member and has others log in.
fn service() -> Origin {
    Origin::serve(|asked: &Request| {
        let wanted = asked.field("x-forwarded-uri").unwrap_or_default().to_owned();
        let fields = ["X-User: anna", "Remote-User: anna", "X-Other: a"];
        Reply::from(match wanted {
            uri if uri.contains("token=good") => response("204 No Content", &fields, ""),
            uri if uri.contains("token=bad") => response("403 Forbidden", &["X-Why: bad"], "no\n"),
            uri if uri.contains("broken") => response("500 Oops", &fields, "broken"),
            uri if uri.contains("long") => response("403 Forbidden", &[], "x".repeat(100_000)),
            uri if uri.contains("yes") => response("200 OK", &fields, "x".repeat(100_000)),
            _ => response("302 Found", &["Location: https://login.example/"], ""),
        })
    })
}

fn setup(origin: &Origin, service: &str, more: &str) -> Setup {
    Setup::of(origin).and(&format!(
        "[[access]]\npath = \"/open/\"\n[[access]]\nservice = \"{service}/check?a\"\n\
         service_fields = [\"X-User\"]\n{more}"
    ))
}

#[test]
fn a_service_lets_in_or_says_what_the_client_gets() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let service = service();
        let rules = "[[header]]\nname = \"X-Seen\"\nvalue = \"{user}\"";
        let node = setup(&origin, &service.url(), "").and(rules).start();
        for _ in 0..2 {
            let answer = get(&node, "/a?token=good").await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "inside"));
            assert_eq!(answer.field("x-seen"), Some("anna"));
        }
        assert_eq!(origin.count(), 1, "the second was a hit");
        let answer = get(&node, "/a?token=bad").await;
        assert_eq!((answer.status, answer.text().as_str()), (403, "no\n"));
        assert_eq!(
            (answer.field("x-why"), answer.field("cache-control")),
            (Some("bad"), Some("no-store"))
        );
        assert!(answer.cache().ends_with("detail=service-refused"), "{}", answer.cache());
        let answer = get(&node, "/a").await;
        assert_eq!(
            (answer.status, answer.field("location")),
            (302, Some("https://login.example/"))
        );
        assert_eq!(get(&node, "/yes").await.status, 200);
        assert_eq!(service.count(), 5);
        assert_eq!(get(&node, "/open/a").await.status, 200);
        assert_eq!(service.count(), 5, "another rule is for it");
        assert_eq!(node.count("requests_refused_by_service"), 2);
    });
}

#[test]
fn a_service_hears_what_is_asked_and_nobody_speaks_for_it() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let service = service();
        let node = setup(&origin, &service.url(), "").start();
        let lines = [
            "X-User: eve",
            "X_User: eve",
            "X-Forwarded-Uri: /?token=good",
            "X_Forwarded_Uri: /?token=good",
            "X_Forwarded-Client_Cert: Hash=00",
            "X-Forwarded-Method: GET",
            "X-Forwarded-For: 203.0.113.1",
            "Cookie: a=b",
            "Authorization: Bearer x",
            "Range: bytes=0-1",
            "If-None-Match: \"a\"",
            "Accept-Encoding: gzip",
            "Content-Length: 2",
            "Connection: X-Hop",
            "X-Hop: a",
        ];
        let answer = request(&node, "POST", "/up?token=good", &lines).await;
        assert_eq!(answer.status, 408, "its content never came");
        let asked = &service.requests()[0];
        assert_eq!((asked.method(), asked.target()), ("GET", "/check?a"));
        for (name, value) in [
            ("x-forwarded-method", Some("POST")),
            ("x-forwarded-uri", Some("/up?token=good")),
            ("x-forwarded-host", Some("example.test")),
            ("x-forwarded-proto", Some("http")),
            ("x-forwarded-for", Some("127.0.0.1")),
            ("cookie", Some("a=b")),
            ("authorization", Some("Bearer x")),
            ("x-user", None),
            ("x_user", None),
            ("x_forwarded_uri", None),
            ("x_forwarded-client_cert", None),
            ("range", None),
            ("if-none-match", None),
            ("accept-encoding", None),
            ("content-length", None),
            ("x-hop", None),
        ] {
            assert_eq!(asked.field(name), value, "{name}");
        }
    });
}

#[test]
fn an_origin_hears_of_the_user_where_its_response_is_for_nobody_else() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            let user = asked.field("x-user").unwrap_or("nobody").to_owned();
            let with = asked.field("authorization").is_some();
            let same = format!("Content-Location: {}", asked.target());
            let fields = ["Cache-Control: max-age=60", &same];
            response("200 OK", &fields, format!("{user} {with}"))
        });
        let service = service();
        let node = setup(&origin, &service.url(), "").start();
        let lines = ["X-User: eve", "Authorization: Bearer x"];
        let shared = get_with(&node, "/a?token=good", &lines).await;
        assert_eq!(shared.text(), "nobody false");
        let own = request(&node, "DELETE", "/a?token=good", &lines).await;
        assert_eq!(own.text(), "anna false");
        // Where fields become variables, `X_User` is `X-User`.
        let lines = ["X_User: eve", "X_Forwarded_For: 203.0.113.1", "X_Forwarded_Proto: https"];
        for method in ["GET", "DELETE"] {
            let _ = request(&node, method, "/claims?token=good", &lines).await;
            let asked = origin.requests().pop().unwrap();
            for name in ["x_user", "x_forwarded_for", "x_forwarded_proto"] {
                assert_eq!(asked.field(name), None, "{method} {name}");
            }
        }
        // An answer to POST that a GET may be given (RFC 9110 §9.3.3) is none for others either.
        let lines = ["Content-Length: 0"];
        let own = request(&node, "POST", "/b?token=good", &lines).await;
        assert_eq!(own.text(), "anna false");
        assert_eq!(get(&node, "/b?token=good").await.text(), "nobody false");
    });
}

#[test]
fn a_yes_is_remembered_for_what_is_the_same() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let service = service();
        let more = "service_remember = \"1h\"\nservice_by = [\"{client}\", \"Cookie\"]";
        let node = setup(&origin, &service.url(), more).start();
        for (target, cookie, status, asked) in [
            ("/a?token=good", "a", 200, 1),
            ("/b", "a", 200, 1),
            ("/b", "b", 302, 2),
            // A no is not remembered.
            ("/b", "b", 302, 3),
            ("/b?token=good", "b", 200, 4),
            ("/c?token=bad", "b", 200, 4),
        ] {
            let answer = get_with(&node, target, &[&format!("Cookie: {cookie}")]).await;
            assert_eq!((answer.status, service.count()), (status, asked), "{target} {cookie}");
        }
    });
}

#[test]
fn nobody_is_let_in_where_a_service_does_not_answer_as_it_should() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let service = service();
        let node = setup(&origin, &service.url(), "").start();
        assert_eq!(get(&node, "/broken?token=good").await.status, 200);
        for target in ["/broken", "/long"] {
            let answer = get(&node, target).await;
            assert_eq!(answer.status, 503, "{target}");
            assert!(answer.cache().ends_with("detail=service-failed"), "{}", answer.cache());
        }
        assert_eq!(node.count("access_service_failures"), 2);
        let silent = Origin::serve(|_: &Request| Reply::from(head("200 OK", &[], Some(10))));
        let more = "service_timeout = \"50ms\"";
        let away = format!("http://{}", refusing());
        for url in [silent.url(), away] {
            let node = setup(&origin, &url, more).start();
            assert_eq!(get(&node, "/a?token=good").await.status, 503, "{url}");
        }
    });
}

#[test]
fn a_service_that_is_the_node_itself_is_asked_once() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let own = refusing();
        let mut setup = setup(&origin, &format!("http://{own}"), "");
        setup.listen = format!("[[listen]]\naddress = \"{own}\"\n");
        let node = setup.start();
        // Asked about the question, it says that it is asked in a circle.
        assert_eq!(get(&node, "/a?token=good").await.status, 503);
        assert_eq!((node.count("requests"), origin.count()), (2, 0));
    });
}

#[test]
fn requests_are_counted_by_what_the_service_says_of_them() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let service = Origin::serve(|asked: &Request| {
            let uri = asked.field("x-forwarded-uri").unwrap_or_default().to_owned();
            let anna = ["X-Api: faces", "X-Who: anna", "RateLimit-Policy: \"anna\";q=2;w=3600"];
            Reply::from(match uri {
                uri if uri.contains("anna") => response("204 No Content", &anna, ""),
                uri if uri.contains("eve") => {
                    response("403 Forbidden", &["X-Api: faces", "X-Who: eve"], "no\n")
                }
                _ => response("401 Unauthorized", &[], ""),
            })
        });
        let more = "service_counted = [\"X-Api\", \"X-Who\"]\nservice_remember = \"1h\"\n\
                    service_by = [\"{target}\"]";
        let node = setup(&origin, &service.url(), more).start();
        let lie = ["X-Who: root"];
        for (target, status) in
            [("/anna", 200), ("/anna", 200), ("/anna", 429), ("/eve", 403), ("/", 401)]
        {
            let answer = get_with(&node, target, &lie).await;
            assert_eq!(answer.status, status, "{target}");
            assert_eq!(answer.field("x-who"), None, "what is counted by is for the node");
        }
        let calls = node.node.shared.calls.all();
        let said: Vec<_> = calls
            .iter()
            .map(|(labels, call)| {
                let labels: Vec<_> =
                    labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let count = |class: usize| call.statuses[class].value();
                (labels.join(" "), [count(2), count(4)], call.body_bytes.value() >= 3)
            })
            .collect();
        assert_eq!(
            said,
            [
                ("site= access=/ x_api=faces x_who=anna".to_owned(), [2, 1], true),
                ("site= access=/ x_api=faces x_who=eve".to_owned(), [0, 1], true),
            ]
        );
    });
}

#[test]
fn who_takes_all_places_of_a_server_makes_room_for_others() {
    run(async {
        let mut origin = Origin::scripted();
        let service = Origin::serve(|asked: &Request| {
            let uri = asked.field("x-forwarded-uri").unwrap_or_default().to_owned();
            let who = if uri.contains("noisy") { "noisy" } else { "quiet" };
            let share = format!("X-Share: \"api\";places=4;member=\"{who}\"");
            Reply::from(response("204 No Content", &[&share], ""))
        });
        let node = setup(&origin, &service.url(), "service_share = \"X-Share\"").start();
        let (mut clients, mut asked) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let mut client = Client::to(&node).await;
            client.ask("GET", &format!("/noisy/{number}"), &[]).await;
            clients.push(client);
            asked.push(origin.next().await);
        }
        let refused = get(&node, "/quiet/1").await;
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
        asked.remove(0).send(response("200 OK", &["Cache-Control: no-store"], "a"));
        assert_eq!(clients.remove(0).answer("GET").await.status, 200);
        // That place is kept for who was refused, who gets it when it is free.
        assert_eq!(get(&node, "/noisy/5").await.status, 429);
        let quiet = async {
            loop {
                let answer = get(&node, "/quiet/2").await;
                if answer.status == 200 {
                    break;
                }
                assert_eq!(answer.status, 429);
            }
        };
        let answers = async {
            let one = origin.next().await;
            one.send(response("200 OK", &["Cache-Control: no-store"], "b"));
        };
        tokio::join!(quiet, answers);
    });
}

#[test]
fn a_policy_in_vcl_is_asked_after_the_service() {
    run(async {
        let origin =
            Origin::serve(|asked: &Request| fresh(asked.field("x-user").unwrap_or("nobody")));
        let service = service();
        let rest = format!(
            "[[access]]\nservice = \"{}/check\"\nservice_fields = [\"X-User\"]",
            service.url()
        );
        let vcl = "sub vcl_recv { return (pass); } sub vcl_synth { return (restart); }";
        let governed = governed_with(&origin, vcl, &rest);
        assert_eq!(get(&governed.node, "/a?token=good").await.text(), "anna");
        let refused = get(&governed.node, "/a?token=bad").await;
        assert_eq!((refused.status, origin.count()), (403, 1));
    });
}

#[test]
fn a_policy_in_vcl_knows_what_the_service_says_and_where_it_sends_a_request() {
    run(async {
        let own = Origin::serve(|_: &Request| fresh("own"));
        let told = Origin::serve(|asked: &Request| {
            let is_first = asked.field("x-again").is_none();
            Reply::from(match is_first && asked.target().contains("again") {
                true => response("503 Busy", &[], ""),
                false => response("200 OK", &["Cache-Control: max-age=60"], asked.target()),
            })
        });
        let place = format!("X-Go: {}/api", told.url());
        let service = Origin::serve(move |asked: &Request| {
            let uri = asked.field("x-forwarded-uri").unwrap_or_default();
            let fields = ["Mec-Client: partner", "Mec-Group: press", &place];
            let fields = if uri.contains("nowhere") { &fields[..2] } else { &fields[..] };
            Reply::from(response("204 No Content", fields, ""))
        });
        let rest = format!(
            "[[access]]\npath = \"/in/\"\nservice = \"{}/check\"\nservice_origin = \"X-Go\"\n\
             service_fields = [\"Mec-Client\", \"Mec-Group\"]\n[[access]]\npath = \"/\"\n",
            service.url()
        );
        let vcl = "import access; import mec;
            sub vcl_recv {
                if (req.url ~ \"who\") { return (synth(200, mec.client() + \",\" + mec.group() + \",\" + mec.app())); }
                if (access.backend()) { set req.backend_hint = access.backend(); }
                if (req.http.Upgrade) { return (pipe); }
            }
            sub vcl_backend_response {
                if (beresp.status == 503) { set bereq.http.X-Again = \"1\"; return (retry); }
            }
            sub vcl_deliver { set resp.http.X-Backend = req.backend_hint; }";
        let governed = governed_with(&own, vcl, &rest);
        let node = &governed.node;
        for (path, body, backend) in [
            ("/in/a", "/api/in/a", "told"),
            ("/in/a", "/api/in/a", "told"),
            ("/in/again", "/api/in/again", "told"),
            ("/in/nowhere", "own", "origin"),
            ("/out", "own", "origin"),
        ] {
            let answer = get(node, path).await;
            assert_eq!((answer.status, answer.text()), (200, body.to_owned()), "{path}");
            assert_eq!(answer.field("x-backend"), Some(backend), "{path}");
        }
        assert_eq!((told.count(), own.count()), (3, 2));
        // What a client says itself is no word of the service.
        let answer = get_with(node, "/in/who", &["Mec-App: mine", "Mec-Group: other"]).await;
        assert!(answer.text().contains(">partner,press,<"), "{}", answer.text());
    });
}

/// A service that says yes with these fields, counts what it is asked, and has a version.
fn counted(fields: &'static [&'static str]) -> (Origin, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (asked, version) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
    let (count, now) = (Arc::clone(&asked), Arc::clone(&version));
    let service = Origin::serve(move |request: &Request| {
        if request.target() == "/changes" {
            let tag = format!("\"{}\"", now.load(SeqCst));
            let status = match request.field("if-none-match") == Some(&*tag) {
                true => "304 Not Modified",
                false => "204 No Content",
            };
            assert_eq!(request.field("prefer"), Some("wait=20"));
            return Reply::from(response(status, &[&format!("ETag: {tag}")], ""));
        }
        count.fetch_add(1, SeqCst);
        Reply::from(response("204 No Content", fields, ""))
    });
    (service, asked, version)
}

#[test]
fn a_yes_is_forgotten_when_the_service_says_that_something_has_changed() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let (service, asked, version) = counted(&[]);
        let more = "service_remember = \"1h\"\nservice_by = [\"{path:1}\"]\n\
                    service_changes = \"/changes\"";
        let node = setup(&origin, &service.url(), more).start();
        // The first answer is itself news; from then on one yes is good for all below the segment.
        let begun = std::time::Instant::now();
        let settled = async |least: usize| loop {
            let before = asked.load(SeqCst);
            for target in ["/a/1", "/a/2?x", "/a/3/y"] {
                assert_eq!(get(&node, target).await.status, 200);
            }
            let after = asked.load(SeqCst);
            if before == after && after >= least {
                return after;
            }
            assert!(begun.elapsed().as_secs() < 60, "{after} were asked");
            tokio::task::yield_now().await;
        };
        let first = settled(1).await;
        assert_eq!(get(&node, "/b/1").await.status, 200);
        assert_eq!(get(&node, "/a%2f1").await.status, 200);
        assert_eq!(
            asked.load(SeqCst),
            first + 2,
            "another segment, and what others may read as one"
        );
        version.store(2, SeqCst);
        settled(first + 3).await;
    });
}

#[test]
fn a_request_goes_where_the_service_says() {
    run(async {
        let own = Origin::serve(|_: &Request| fresh("own"));
        let place = |name: &'static str| {
            Origin::serve(move |asked: &Request| {
                response(
                    "200 OK",
                    &["Cache-Control: no-store"],
                    format!("{name} {}", asked.target()),
                )
            })
        };
        let (one, two) = (place("one"), place("two"));
        let said = format!("X-Go: {}/api, {}", one.url(), two.url());
        let service = Origin::serve(move |asked: &Request| {
            let is_elsewhere =
                asked.field("x-forwarded-uri").is_some_and(|uri| uri.starts_with("/own"));
            let is_wrong =
                asked.field("x-forwarded-uri").is_some_and(|uri| uri.starts_with("/wrong"));
            Reply::from(match (is_elsewhere, is_wrong) {
                (true, _) => response("204 No Content", &[], ""),
                (_, true) => response("204 No Content", &["X-Go: ftp://x"], ""),
                _ => response("204 No Content", &[&said], ""),
            })
        });
        let more = "service_origin = \"X-Go\"\nservice_strip = 1";
        let node = setup(&own, &service.url(), more).start();
        let mut found = Vec::new();
        for _ in 0..2 {
            found.push(get(&node, "/a/faces?x=1").await.text());
        }
        found.sort();
        assert_eq!(found, ["one /api/faces?x=1", "two /faces?x=1"]);
        // Names with an encoding are left out as well, and what may be another path goes nowhere.
        for target in ["/%61/faces", "/a%20b/faces", "/caf%C3%A9/faces"] {
            let text = get(&node, target).await.text();
            assert!(["one /api/faces", "two /faces"].contains(&&*text), "{target}: {text}");
        }
        for target in ["/a;b/faces", "/a%2Fb/faces", "/a/../faces"] {
            assert_eq!(get(&node, target).await.status, 400, "{target}");
        }
        assert_eq!(get(&node, "/own/faces").await.text(), "own");
        assert_eq!(get(&node, "/wrong/faces").await.status, 503);
        assert_eq!(own.count(), 1);
        // Who cannot be reached is not all there is.
        drop(one);
        for _ in 0..3 {
            assert_eq!(get(&node, "/a/faces").await.text(), "two /faces");
        }
    });
}

#[test]
fn a_yes_that_is_remembered_counts_as_often_as_it_is_used() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let (service, asked, _) = counted(&["RateLimit-Policy: \"anna\";q=3;w=3600"]);
        let more = "service_remember = \"1h\"\nservice_by = [\"{path:1}\"]";
        let node = setup(&origin, &service.url(), more).start();
        for target in ["/a/1", "/a/2", "/b/1"] {
            assert_eq!(get(&node, target).await.status, 200, "{target}");
        }
        let refused = get(&node, "/a/1").await;
        assert_eq!((refused.status, asked.load(SeqCst)), (429, 2));
        assert!(refused.field("retry-after").unwrap().parse::<u64>().unwrap() > 1000);
        assert_eq!(node.count("requests_limited"), 1);
    });
}

#[test]
fn an_answer_says_how_long_it_is_remembered_and_when_to_come_again() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let more = "service_remember = \"1h\"\nservice_by = [\"{path}\"]";
        let (service, asked, _) = counted(&["Cache-Control: private, no-store"]);
        let node = setup(&origin, &service.url(), more).start();
        for _ in 0..2 {
            assert_eq!(get(&node, "/a").await.status, 200);
        }
        assert_eq!(asked.load(SeqCst), 2);
        let later = Origin::serve(|_: &Request| {
            Reply::from(response("503 Service Unavailable", &["Retry-After: 7"], "later\n"))
        });
        let node = setup(&origin, &later.url(), more).start();
        let answer = get(&node, "/a").await;
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("7")));
        assert_eq!((answer.text().as_str(), node.count("access_service_failures")), ("later\n", 0));
    });
}

#[test]
fn a_client_says_nothing_in_the_name_of_a_service_that_is_not_asked() {
    run(async {
        let origin =
            Origin::serve(|asked: &Request| fresh(asked.field("x-user").unwrap_or("nobody")));
        let service = service();
        let url = service.url();
        let rule = format!("[[access]]\nservice = \"{url}/check\"\nservice_fields = [\"X-User\"]");
        let near = "allow = [\"127.0.0.0/8\", \"::1\"]\nsatisfy = \"any\"";
        let near = Setup::of(&origin).and(&format!("{rule}\npath = \"/near/\"\n{near}")).start();
        let preflight = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];
        for (method, target, fields) in [
            ("GET", "/near/a", &[][..]),
            ("DELETE", "/near/a", &[]),
            ("GET", "/elsewhere", &[]),
            ("OPTIONS", "/near/b", &preflight),
        ] {
            let fields = [fields, &["X-User: eve", "x_user: eve"]].concat();
            let answer = request(&near, method, target, &fields).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "nobody"), "{method}");
        }
        assert_eq!(service.count(), 0);
    });
}

#[test]
fn what_a_service_says_cannot_be_named_away() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            let (user, hop) = (asked.field("x-user"), asked.field("x-hop"));
            fresh(format!("{} {}", user.unwrap_or("nobody"), hop.unwrap_or("none")))
        });
        let service = service();
        let node = setup(&origin, &service.url(), "").start();
        let fields = ["Connection: x-user, X-Hop", "X-Hop: a"];
        assert_eq!(request(&node, "DELETE", "/a?token=good", &fields).await.text(), "anna none");
    });
}
