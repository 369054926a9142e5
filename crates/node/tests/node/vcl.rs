//! Policies in VCL, between real sockets.

use crate::client::{Answer, Client, get, get_with, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, fresh, head, response};
use freshet_net::address::Address;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A node with a policy, and the folder the policy is in.
pub(crate) struct Governed {
    pub(crate) node: TestNode,
    _folder: TempDir,
}

/// The declaration of a backend for a test's origin.
pub(crate) fn backend(name: &str, origin: &Origin) -> String {
    let Address::Tcp(address) = &origin.address else { panic!("the tests' origins are on TCP") };
    format!("backend {name} {{ .host = \"{}\"; .port = \"{}\"; }}\n", address.ip(), address.port())
}

/// A node whose policy is `text`, with `origin` as its backend.
pub(crate) fn governed(origin: &Origin, text: &str) -> Governed {
    governed_with(origin, text, "")
}

/// As [`governed`], with further keys of the listener.
pub(crate) fn governed_over(origin: &Origin, text: &str, listener: &str) -> Governed {
    governed_by(Setup::of(origin), origin, text, listener)
}

/// As [`governed`], with further tables of configuration.
pub(crate) fn governed_with(origin: &Origin, text: &str, rest: &str) -> Governed {
    governed_by(Setup::of(origin).and(rest), origin, text, "")
}

pub(crate) fn governed_by(
    mut setup: Setup,
    origin: &Origin,
    text: &str,
    listener: &str,
) -> Governed {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.vcl");
    let text = format!("vcl 4.1;\n{}{text}", backend("origin", origin));
    std::fs::write(&path, text).unwrap();
    setup.origins = String::new();
    setup.listen = format!("vcl = \"{}\"\n{}{listener}", path.display(), setup.listen);
    Governed { node: setup.start(), _folder: folder }
}

fn has(answer: &Answer, name: &str, value: &str) -> bool {
    answer.field(name) == Some(value)
}

#[test]
fn idle_connections_to_backends_are_kept_as_the_configuration_says() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let governed = governed_with(&origin, "", "[origins]\nkeep_alive = \"7s\"\n");
        let snapshot = governed.node.node.snapshot();
        let origins = snapshot.sites.all()[0].upstreams.board.origins();
        assert_eq!(origins[0].settings.timeouts.idle, std::time::Duration::from_secs(7));
    });
}

#[test]
fn what_a_policy_says_of_requests_and_responses_holds() {
    run(async {
        let origin = Origin::serve(|asked| {
            let seen = asked.field("x-seen").unwrap_or("").to_owned();
            fresh(format!("{} {seen}", asked.target()))
        });
        let governed = governed(
            &origin,
            r#"
            sub vcl_recv {
                set req.http.X-Seen = "by " + req.method;
                set req.url = regsub(req.url, "^/old/", "/new/");
                if (req.url == "/no") { return (synth(403, "Not here")); }
            }
            sub vcl_backend_response { set beresp.ttl = 1h; }
            sub vcl_deliver {
                set resp.http.X-Hits = obj.hits;
                unset resp.http.X-Varnish;
            }
            "#,
        );
        let first = get(&governed.node, "/old/a").await;
        assert_eq!(first.text(), "/new/a by GET");
        assert!(has(&first, "x-hits", "0"), "{:?}", first.head);
        assert_eq!(first.field("x-varnish"), None);
        let second = get(&governed.node, "/old/a").await;
        assert!(has(&second, "x-hits", "1"), "{:?}", second.head);
        assert_eq!(origin.count(), 1);
        let refused = get(&governed.node, "/no").await;
        assert_eq!((refused.status, refused.head.line.contains("Not here")), (403, true));
        assert!(refused.text().contains("Guru Meditation"), "{}", refused.text());
    });
}

#[test]
fn a_policy_changes_how_its_clients_connection_sends() {
    run(async {
        let origin = Origin::serve(|_| fresh("body"));
        let text = r#"
            import std;
            import tcp;
            sub vcl_deliver {
                std.set_ip_tos(32);
                tcp.set_socket_pace(4096);
                set resp.http.Known = tcp.congestion_algorithm("reno");
                set resp.http.Unknown = tcp.congestion_algorithm("slartibartfast");
                set resp.http.Near = tcp.get_estimated_rtt() < 1000.0;
            }
        "#;
        let governed = governed(&origin, text);
        let mut client = Client::to(&governed.node).await;
        for _ in 0..2 {
            let answer = client.get("/").await;
            assert_eq!((answer.status, &*answer.body), (200, &b"body"[..]));
            assert!(has(&answer, "known", "0") && has(&answer, "unknown", "-1"), "{answer:?}");
            assert!(has(&answer, "near", "true"), "{answer:?}");
        }
    });
}

#[test]
fn a_method_that_a_policy_changes_says_nothing_of_how_a_response_is_framed() {
    run(async {
        let origin = Origin::serve(|asked| match asked.method() {
            "HEAD" => head("200 OK", &[], Some(4)),
            _ => response("200 OK", &[], "body"),
        });
        let text = r#"
            sub vcl_recv {
                if (req.url == "/page") { set req.method = "HEAD"; return (synth(200)); }
                if (req.url == "/pass") { set req.method = "HEAD"; return (pass); }
                if (req.url == "/kept") { set req.method = "HEAD"; return (hash); }
                if (req.url == "/asked") { return (pass); }
                if (req.url == "/got") { set req.method = "GET"; return (hash); }
            }
            sub vcl_backend_fetch {
                if (bereq.url == "/asked") { set bereq.method = "HEAD"; }
            }
            sub vcl_synth { synthetic("page"); return (deliver); }
        "#;
        let governed = governed(&origin, text);
        // All on one connection: what is framed wrongly is waited for, or taken for the next response.
        let mut client = Client::to(&governed.node).await;
        let content = [
            ("/page", "page"),
            ("/pass", ""),
            ("/kept", "body"),
            ("/kept", "body"),
            ("/asked", ""),
        ];
        for (target, content) in content {
            let answer = client.get(target).await;
            assert_eq!((answer.status, &*answer.body), (200, content.as_bytes()), "{target}");
        }
        let answer = client.request("HEAD", "/got", &[]).await;
        assert_eq!((answer.status, &*answer.body), (200, &b""[..]));
        assert_eq!(client.get("/got").await.body, b"body");
    });
}

#[test]
fn the_builtin_text_passes_cookies_and_does_not_keep_what_sets_them() {
    run(async {
        let origin = Origin::serve(|asked| match asked.target() {
            "/sets" => response("200 OK", &["Set-Cookie: a=b", "Cache-Control: max-age=60"], "x"),
            _ => fresh("y"),
        });
        let governed = governed(&origin, "");
        for _ in 0..2 {
            get_with(&governed.node, "/a", &["Cookie: a=b"]).await;
            get(&governed.node, "/sets").await;
        }
        assert_eq!(origin.count(), 4);
        get(&governed.node, "/a").await;
        get(&governed.node, "/a").await;
        assert_eq!(origin.count(), 5);
    });
}

#[test]
fn restarts_retries_and_failures_take_their_ways() {
    run(async {
        let origin = Origin::serve(|asked| {
            let tries = asked.field("x-try").unwrap_or("none");
            match (asked.target(), tries) {
                ("/flaky", "0") => response("500 Oops", &[], "bad"),
                _ => fresh(format!("{} {tries}", asked.target())),
            }
        });
        let governed = governed(
            &origin,
            r#"
            import std;
            sub vcl_recv {
                if (req.url == "/again" && req.restarts == 0) { return (restart); }
                if (req.url == "/again") { set req.http.X-Try = req.restarts; }
                if (req.url == "/broken") { set req.http.a = std.integer("x"); }
                if (req.url == "/loop") { return (restart); }
            }
            sub vcl_backend_fetch {
                if (bereq.url == "/flaky") { set bereq.http.X-Try = bereq.retries; }
                if (bereq.url == "/never") { return (abandon); }
                if (bereq.url == "/made") { return (error(410, "Made")); }
            }
            sub vcl_backend_response {
                if (beresp.status >= 500 && bereq.retries < 2) { return (retry); }
            }
            sub vcl_backend_error {
                set beresp.http.X-From = "backend_error";
                if (beresp.status == 410) {
                    set beresp.body = "made of " + beresp.reason;
                    return (deliver);
                }
            }
            "#,
        );
        let node = &governed.node;
        assert_eq!(get(node, "/again").await.text(), "/again 1");
        assert_eq!(get(node, "/flaky").await.text(), "/flaky 1");
        let broken = get(node, "/broken").await;
        assert_eq!((broken.status, broken.head.line.contains("VCL failed")), (503, true));
        assert_eq!(get(node, "/loop").await.status, 503);
        assert_eq!(get(node, "/never").await.status, 503);
        let made = get(node, "/made").await;
        assert_eq!((made.status, made.text()), (410, "made of Made".into()));
        assert!(has(&made, "x-from", "backend_error"), "{:?}", made.head);
    });
}

#[test]
fn a_backend_is_chosen_by_request_and_one_that_is_none_fails() {
    run(async {
        let one = Origin::serve(|_| fresh("one"));
        let two = Origin::serve(|_| fresh("two"));
        let text = format!(
            "{}backend nobody none;
            import directors;
            sub vcl_init {{
                new both = directors.round_robin();
                both.add_backend(origin);
                both.add_backend(two);
            }}
            sub vcl_recv {{
                if (req.url == \"/two\") {{ set req.backend_hint = two; }}
                if (req.url == \"/none\") {{ set req.backend_hint = nobody; }}
                if (req.url ~ \"^/both\") {{ set req.backend_hint = both.backend(); }}
            }}",
            backend("two", &two)
        );
        let governed = governed(&one, &text);
        let node = &governed.node;
        assert_eq!(get(node, "/one").await.text(), "one");
        assert_eq!(get(node, "/two").await.text(), "two");
        let none = get(node, "/none").await;
        assert_eq!(none.status, 503);
        assert!(none.head.line.contains("Backend fetch failed"), "{}", none.head.line);
        let turns = [get(node, "/both1").await.text(), get(node, "/both2").await.text()];
        assert!(turns.contains(&"one".into()) && turns.contains(&"two".into()), "{turns:?}");
    });
}

#[test]
fn objects_leave_by_key_and_by_tag() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["xkey: news sport"], "x"));
        let governed = governed(
            &origin,
            r#"
            import purge;
            import xkey;
            acl here { "127.0.0.0"/8; }
            sub vcl_recv {
                if (req.method == "PURGE") {
                    if (client.ip !~ here) { return (synth(405)); }
                    return (purge);
                }
                if (req.method == "BAN") {
                    set req.http.N = xkey.purge(req.http.xkey-purge);
                    return (synth(200, req.http.N));
                }
                if (req.http.X-Refresh) { set req.http.X-Was = "asked"; }
            }
            sub vcl_hit { if (req.http.X-Refresh) { purge.hard(); } }
            "#,
        );
        let node = &governed.node;
        let fetched = async |expected: usize| {
            get(node, "/a").await;
            assert_eq!(origin.count(), expected);
        };
        fetched(1).await;
        fetched(1).await;
        assert_eq!(request(node, "PURGE", "/a", &[]).await.status, 200);
        fetched(2).await;
        let answer = request(node, "BAN", "/", &["xkey-purge: sport"]).await;
        assert!(answer.head.line.contains(" 1"), "{}", answer.head.line);
        fetched(3).await;
        get_with(node, "/a", &["X-Refresh: 1"]).await;
        fetched(4).await;
    });
}

#[test]
fn what_is_hit_for_pass_is_passed() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.field("x-pass").unwrap_or("no")));
        let governed = governed(
            &origin,
            r#"
            sub vcl_backend_fetch { set bereq.http.X-Pass = bereq.is_hitpass; }
            sub vcl_backend_response { return (pass(100s)); }
            "#,
        );
        let texts =
            [get(&governed.node, "/a").await.text(), get(&governed.node, "/a").await.text()];
        assert_eq!(texts, ["false", "true"]);
        assert_eq!(get(&governed.node, "/b").await.text(), "false");
    });
}

#[test]
fn a_connection_goes_on_behind_synthetic_responses() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let governed = governed(
            &origin,
            "sub vcl_recv { return (synth(700, \"x\")); } sub vcl_synth { if (resp.status == 700) { set resp.status = 301; set resp.http.Location = \"https://\" + req.http.host + req.url; return (deliver); } }",
        );
        let mut client = Client::to(&governed.node).await;
        for target in ["/a", "/b"] {
            let answer = client.get(target).await;
            assert_eq!(answer.status, 301);
            let place = format!("https://example.test{target}");
            assert_eq!(answer.field("location"), Some(&*place));
        }
    });
}

#[test]
fn bans_take_what_is_older_and_spare_what_comes_after() {
    run(async {
        let origin = Origin::serve(|asked| {
            let fields = ["Cache-Control: max-age=60", "X-Kind: news"];
            response("200 OK", &fields, asked.target())
        });
        let governed = governed(
            &origin,
            r#"
            import std;
            sub vcl_recv {
                if (req.method == "BAN") {
                    if (std.ban(req.http.ban)) { return (synth(200, "Banned")); }
                    return (synth(400, std.ban_error()));
                }
            }
            "#,
        );
        let node = &governed.node;
        let ban = async |text: &str| request(node, "BAN", "/", &[&format!("ban: {text}")]).await;
        get(node, "/a").await;
        get(node, "/b").await;
        assert_eq!(origin.count(), 2);
        assert_eq!(ban("req.url == /a && obj.http.x-kind ~ ^ne").await.status, 200);
        for _ in 0..2 {
            get(node, "/a").await;
            get(node, "/b").await;
        }
        assert_eq!(origin.count(), 3);
        assert_eq!(ban("obj.http.x-kind == news").await.status, 200);
        assert_eq!(ban("obj.status != 200").await.status, 200);
        get(node, "/a").await;
        get(node, "/b").await;
        assert_eq!(origin.count(), 5);
        let wrong = ban("req.url").await;
        assert_eq!((wrong.status, wrong.head.line.contains("comparison")), (400, true));
    });
}

#[test]
fn a_body_that_is_kept_can_be_sent_again() {
    run(async {
        let origin = Origin::scripted();
        let governed = governed(
            &origin,
            r#"
            import std;
            sub vcl_recv {
                if (!std.cache_req_body(1KB)) { return (synth(413)); }
                return (pass);
            }
            sub vcl_backend_response {
                if (beresp.status == 500 && bereq.retries == 0) { return (retry); }
            }
            sub vcl_deliver { if (req.restarts == 0) { return (restart); } }
            "#,
        );
        let (mut client, mut origin) = (Client::to(&governed.node).await, origin);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
        for status in ["500 Oops", "200 OK", "200 OK"] {
            let mut asked = origin.next().await;
            assert_eq!(asked.whole_body().await, b"hello");
            asked.send(response(status, &[], "done"));
        }
        assert_eq!(client.answer("POST").await.text(), "done");
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n";
        client.send([head.as_bytes(), &[b'x'; 1025]].concat()).await;
        assert_eq!(client.answer("POST").await.status, 413);
    });
}

#[test]
fn kept_bodies_are_a_part_of_what_requests_may_hold() {
    run(async {
        let origin = Origin::serve(|_| fresh("never"));
        let policy = "import std; sub vcl_recv { std.cache_req_body(1MB); return (pass); }";
        let limits = "[limits]\nrequests_bytes_max = \"100KB\"";
        let governed = governed_with(&origin, policy, limits);
        let mut client = Client::to(&governed.node).await;
        client.ask("POST", "/", &["Content-Length: 300000"]).await;
        client.send(vec![b'x'; 300_000]).await;
        assert_eq!((client.answer("POST").await.status, origin.count()), (503, 0));
    });
}

#[test]
fn a_fetch_waits_as_long_as_its_policy_says() {
    run(async {
        let mut origin = Origin::scripted();
        let governed =
            governed(&origin, "sub vcl_backend_fetch { set bereq.first_byte_timeout = 50ms; }");
        assert_eq!(get(&governed.node, "/slow").await.status, 503);
        // It may be later than the answer that the origin comes to see it.
        origin.next().await;
    });
}

#[test]
fn a_page_with_includes_knows_where_it_is() {
    run(async {
        let origin = Origin::serve(|asked| match asked.target() {
            "/" => fresh("<p><esi:include src='/in'/></p>"),
            _ => fresh(format!(
                "{} {} {}",
                asked.field("x-level").unwrap_or(""),
                asked.field("x-top").unwrap_or(""),
                asked.field("x-own").unwrap_or("none"),
            )),
        });
        let governed = governed(
            &origin,
            r#"
            sub vcl_recv {
                if (req.esi_level == 0) { set req.http.X-Own = "top"; }
                set req.http.X-Level = req.esi_level;
                set req.http.X-Top = req_top.url;
            }
            sub vcl_backend_response { if (bereq.url == "/") { set beresp.do_esi = true; } }
            "#,
        );
        // The include begins with the request as it came, not as the page's states left it.
        assert_eq!(get(&governed.node, "/").await.text(), "<p>1 / none</p>");
    });
}

/// A policy that has nothing left to write into once it has failed.
const GREEDY: &str = r#"
    sub vcl_recv {
        set req.http.a = "0123456789012345678901234567890123456789012345678901234567890123456789";
        set req.http.a = req.http.a + req.http.a + req.http.a + req.http.a + req.http.a;
        set req.http.a = req.http.a + req.http.a + req.http.a + req.http.a + req.http.a;
        set req.http.b = req.http.a + req.http.a + req.http.a + req.http.a + req.http.a;
        set req.http.c = req.http.b + req.http.b + req.http.b + req.http.b + req.http.b;
        set req.http.d = req.http.c + req.http.b + req.http.b;
        set req.http.e = req.http.b;
        set req.http.f = req.http.a + req.http.a + req.http.a;
        set req.http.g = req.http.a + req.http.a;
    }
    sub vcl_synth {
        set resp.http.X-Said = req.http.a;
        synthetic("our page");
        return (deliver);
    }
"#;

#[test]
fn a_policy_out_of_workspace_is_told_by_its_own_page() {
    run(async {
        let origin = Origin::serve(|_| fresh("page"));
        let governed = governed(&origin, GREEDY);
        let answer = get(&governed.node, "/").await;
        assert_eq!((answer.status, answer.text().as_str()), (503, "our page"));
        assert!(answer.head.line.ends_with("VCL failed"), "{}", answer.head.line);
        assert_eq!(origin.count(), 0);
    });
}

/// Counts the lines that policies' failures write.
struct Lines;

static LINES: AtomicUsize = AtomicUsize::new(0);

/// Whether a line is about the policy that only one test has.
struct IsOurs(bool);

impl Visit for IsOurs {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 |= format!("{value:?}").contains("only-here");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("freshet_policies")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut is_ours = IsOurs(false);
        event.record(&mut is_ours);
        LINES.fetch_add(usize::from(is_ours.0), Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn what_a_policy_changes_late_is_taken_as_it_is_meant() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let governed = governed(
            &origin,
            r#"
            import std;
            sub vcl_backend_response {
                if (bereq.url == "/back") { std.rollback(bereq); }
            }
            sub vcl_deliver {
                if (req.url == "/page") { set req.method = "POST"; }
                set req.ttl = 0s;
                if (req.restarts == 0 && req.url == "/again") { return (restart); }
            }
            "#,
        );
        // Nothing is left of an answer to a request that is another now.
        let back = get(&governed.node, "/back").await;
        assert!(back.head.line.contains("503 Backend fetch failed"), "{:?}", back.head);
        // The method was another when a part was asked for.
        let part = get_with(&governed.node, "/page", &["Range: bytes=0-1"]).await;
        assert_eq!((part.status, part.text()), (206, "/p".into()));
        // No limit on how old a hit may be, and none that is older than nothing.
        let before = origin.count();
        assert_eq!(get(&governed.node, "/again").await.status, 200);
        assert_eq!(origin.count() - before, 1);
    });
}

#[test]
fn what_never_was_fresh_is_not_served_stale_whatever_its_grace() {
    run(async {
        let origin = Origin::serve(|asked| match asked.target() {
            "/failed" => response("503 Service Unavailable", &["Retry-After: 5"], "busy"),
            "/late" => response("200 OK", &["Cache-Control: max-age=5", "Age: 9"], "late"),
            other => response("200 OK", &["Date: Thu, 01 Jan 2015 00:00:00 GMT"], other),
        });
        let governed = governed(
            &origin,
            "sub vcl_backend_response { set beresp.grace = 6h; return (deliver); }
             sub vcl_deliver { set resp.http.X-Hits = obj.hits; set resp.http.X-Esi = resp.do_esi; }
             sub vcl_synth { set resp.http.X-Esi = resp.do_esi; }",
        );
        for (target, hits) in [("/failed", "0"), ("/late", "1")] {
            get(&governed.node, target).await;
            let again = get(&governed.node, target).await;
            assert_eq!(again.field("x-hits"), Some(hits), "{target}");
            assert_eq!(again.field("x-esi"), Some("true"));
        }
        // What says no Last-Modified is as old as it is known here, whatever its Date.
        let since = ["If-Modified-Since: Fri, 02 Jan 2015 00:00:00 GMT"];
        assert_eq!(get_with(&governed.node, "/old", &since).await.status, 200);
    });
}

#[test]
fn parts_of_pages_made_here_are_sent_and_nonsense_is_refused() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let governed = governed(
            &origin,
            r#"
            sub vcl_recv { if (req.url == "/made") { return (synth(200)); } }
            sub vcl_synth { synthetic("a page"); return (deliver); }
            "#,
        );
        for target in ["/made", "/kept"] {
            for (range, status) in [("bytes=0-1", 206), ("0-1", 416), ("bytes=2-1", 416)] {
                let field = format!("Range: {range}");
                let answer = get_with(&governed.node, target, &[&field]).await;
                assert_eq!(answer.status, status, "{target} {range}");
            }
        }
    });
}

#[test]
fn the_page_of_a_failed_fetch_is_uncacheable_where_it_was_for_one() {
    run(async {
        let mut origin = Origin::serve(|asked| fresh(asked.target()));
        let governed = governed(
            &origin,
            r#"
            sub vcl_recv { if (req.url == "/passed") { return (pass); } }
            sub vcl_deliver { set resp.http.X-Uncacheable = obj.uncacheable; }
            "#,
        );
        origin.kill();
        for (target, is_uncacheable) in [("/passed", "true"), ("/missed", "false")] {
            let answer = get(&governed.node, target).await;
            assert_eq!((answer.status, answer.field("x-uncacheable")), (503, Some(is_uncacheable)));
        }
    });
}

#[test]
fn what_is_unpacked_for_a_client_is_so_without_its_content_too() {
    run(async {
        let origin = Origin::serve(|_| response("200 OK", &["ETag: \"tag\""], "text"));
        let governed = governed(
            &origin,
            "sub vcl_backend_response { set beresp.do_gzip = true; }
             sub vcl_deliver { set resp.http.X-Protocol = resp.proto; }",
        );
        for (taken, encoding) in [("gzip", Some("gzip")), ("br", None)] {
            let fields = [&*format!("Accept-Encoding: {taken}"), "If-None-Match: \"tag\""];
            let answer = get_with(&governed.node, "/", &fields).await;
            assert_eq!((answer.status, answer.field("content-encoding")), (304, encoding));
            assert_eq!(answer.field("x-protocol"), Some("HTTP/1.1"));
        }
    });
}

#[test]
fn conditions_of_what_is_not_kept_are_those_of_what_is() {
    run(async {
        let origin = Origin::serve(|_| {
            let fields = ["Date: Thu, 01 Jan 2015 00:00:00 GMT", "ETag: \"tag\""];
            response("200 OK", &fields, "text")
        });
        let governed = governed(
            &origin,
            "sub vcl_recv { if (req.url == \"/passed\") { return (pass); } return (hash); }",
        );
        for target in ["/kept", "/passed"] {
            for (fields, status) in [
                (&["If-Modified-Since: Fri, 02 Jan 2015 00:00:00 GMT"][..], 200),
                (&["If-None-Match: W/\"tag\""], 304),
                (&["If-None-Match: W/\"tag\"", "Range: bytes=0-1"], 206),
            ] {
                let answer = get_with(&governed.node, target, fields).await;
                assert_eq!(answer.status, status, "{target} {fields:?}");
            }
        }
    });
}

#[test]
fn an_origin_is_not_asked_about_a_tag_that_came_with_a_304_for_other_bytes() {
    run(async {
        let origin = Origin::serve(|asked| match asked.field("if-none-match") {
            // It has been fresh elsewhere, and is not any more.
            None => response("200 OK", &["ETag: \"own\"", "Age: 10"], "text"),
            Some(_) => head("304 Not Modified", &["ETag: \"another\"", "Age: 10"], None),
        });
        let governed = governed(
            &origin,
            "sub vcl_backend_response {
                 set beresp.ttl = 0s; set beresp.grace = 0s; set beresp.keep = 1h;
                 set beresp.http.X-Confirmed = beresp.was_304; return (deliver);
             }",
        );
        for was_304 in ["false", "true", "false"] {
            let answer = get(&governed.node, "/").await;
            assert_eq!((&*answer.text(), answer.field("x-confirmed")), ("text", Some(was_304)));
        }
    });
}

#[test]
fn a_tunnel_leaves_out_what_was_for_one_connection() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.field("a").unwrap_or("none")));
        let governed = governed(&origin, "sub vcl_recv { return (pipe); }");
        let answer = get_with(&governed.node, "/", &["A: x", "Connection: A"]).await;
        assert_eq!(answer.text(), "none");
    });
}

#[test]
fn failures_of_a_policy_do_not_fill_the_log() {
    run(async {
        tracing::subscriber::set_global_default(Lines).unwrap();
        let origin = Origin::serve(|_| fresh("page"));
        let failing = "import std;\nsub vcl_recv { set req.http.only-here = \"x\"; \
                       std.rollback(req); return (fail(\"only-here\")); }";
        let governed = governed(&origin, failing);
        let mut client = Client::to(&governed.node).await;
        for _ in 0..300 {
            let answer = client.get("/").await;
            assert_eq!(answer.status, 503);
            client = Client::to(&governed.node).await;
        }
        let lines = LINES.load(Relaxed);
        assert!((1..30).contains(&lines), "{lines} lines");
    });
}
