//! Redirects, paths, fields and CORS by the rules of a site.

use crate::client::{Client, get, get_with, request};
use crate::harness::{Setup, TestNode, run, until};
use crate::origin::{Origin, Request, fresh, response};

/// An origin that echoes its target and the fields it is asked about.
fn echo() -> Origin {
    Origin::serve(|asked| {
        let token = asked.field("authorization").unwrap_or("-").to_owned();
        let origin = asked.field("origin").unwrap_or("-").to_owned();
        let fields = ["Cache-Control: max-age=60", "X-Powered-By: old", "X-Other: kept"];
        response("200 OK", &fields, format!("{} {token} {origin}", asked.target()))
    })
}

#[test]
fn fields_are_set_added_and_removed_on_both_sides() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and(
                "[[header]]\non = \"request\"\nname = \"Authorization\"\nvalue = \"Basic xyz\"\n\
                 [[header]]\naction = \"remove\"\nname = \"X-Powered-By\"\n\
                 [[header]]\nname = \"X-Frame-Options\"\nvalue = \"DENY\"\npath = \"/app/\"\n\
                 [[header]]\naction = \"add\"\nname = \"X-Other\"\nvalue = \"more\"\n",
            )
            .start();
        for hit in [false, true] {
            let answer = get(&node, "/app/a").await;
            assert_eq!(answer.text(), "/app/a Basic xyz -");
            assert_eq!(answer.field("x-powered-by"), None);
            assert_eq!(answer.field("x-frame-options"), Some("DENY"));
            assert_eq!(answer.cache().contains("hit"), hit, "{}", answer.cache());
        }
        assert_eq!(get(&node, "/b").await.field("x-frame-options"), None);
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn a_field_for_tls_is_not_sent_in_the_clear() {
    run(async {
        let hsts = "Strict-Transport-Security";
        let origin = Origin::serve(move |_| {
            let own = format!("{hsts}: max-age=1");
            response("200 OK", &["Cache-Control: max-age=60", &own], "x")
        });
        let table = |action: &str| {
            format!(
                "[[header]]\nname = \"{hsts}\"\nvalue = \"max-age=60\"\naction = \"{action}\"\n"
            )
        };
        let node = |rules: &str| {
            let forwarded = "[forwarded]\nfrom = [\"127.0.0.0/8\"]\n";
            let led =
                "[[redirect]]\nscheme = \"http\"\nfrom = \"/old\"\nto = \"https://{host}/\"\n";
            Setup::of(&origin).and(rules).and(led).and(forwarded).start()
        };
        let said = async |node: &TestNode, scheme: &str, target: &str| {
            let answer = get_with(node, target, &[&format!("X-Forwarded-Proto: {scheme}")]).await;
            answer.field(hsts).map(str::to_owned)
        };
        let set = node(&table("set"));
        for target in ["/a", "/old"] {
            assert_eq!(said(&set, "http", target).await, None, "{target}");
        }
        assert_eq!(said(&set, "https", "/a").await.as_deref(), Some("max-age=60"));
        // What an origin says is its own.
        let added = node(&table("add"));
        assert_eq!(said(&added, "http", "/a").await.as_deref(), Some("max-age=1"));
    });
}

#[test]
fn an_origin_that_answers_for_all_is_told_what_the_key_has() {
    run(async {
        let origin = Origin::serve(|asked| {
            let told = asked.field("x-original-uri").unwrap_or("-").to_owned();
            response("200 OK", &["Cache-Control: max-age=60"], told)
        });
        let node = Setup::of(&origin)
            .and(
                "[[cache_rule]]\nquery_drop = [\"utm_*\"]\n\
                 [[path]]\nprefix = \"/p1/\"\nreplace = \"/p/\"\n\
                 [[header]]\non = \"request\"\nname = \"X-Original-URI\"\n\
                 value = \"{method} {path}?{query}\"\n",
            )
            .start();
        for (sent, told) in [
            ("/a?utm_x=%22evil&b=1", "GET /a?b=1"),
            ("/c?CMCD=sid%3D%22alice%22", "GET /c?"),
            ("/p1/d", "GET /p/d?"),
        ] {
            assert_eq!(get(&node, sent).await.text(), told);
        }
        // Whoever was first.
        let mut client = Client::to(&node).await;
        client.ask("HEAD", "/e", &[]).await;
        client.answer("HEAD").await;
        assert_eq!(get(&node, "/e").await.text(), "GET /e?");
        // One client alone gets the answer to what it has sent.
        client.ask("POST", "/p1/a?utm_x=1", &["Content-Length: 0"]).await;
        assert_eq!(client.answer("POST").await.text(), "POST /p1/a?utm_x=1");
    });
}

#[test]
fn a_redirect_that_does_not_fit_is_refused_and_not_left_out() {
    run(async {
        let origin = echo();
        let rule = "[[redirect]]\nfrom = \"/s/*\"\nto = \"https://{host}/s/{rest}\"\n";
        let node = Setup::of(&origin).and(rule).start();
        let of = |bytes: usize| format!("/s/?{}", "x".repeat(bytes - 4));
        assert_eq!(get(&node, &of(8000)).await.status, 301);
        assert_eq!(get(&node, &of(8190)).await.status, 414);
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn paths_are_rewritten_in_the_key_and_at_the_origin() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and(
                "[[path]]\nprefix = \"/static/\"\nreplace = \"/v2/static/\"\n\
                 [[path]]\nprefix = \"/strip/\"\n\
                 [[header]]\nname = \"X-From\"\nvalue = \"static\"\npath = \"/static/\"\n",
            )
            .start();
        let answer = get(&node, "/static/a?b=c").await;
        assert_eq!(answer.text(), "/v2/static/a?b=c - -");
        assert_eq!(answer.field("x-from"), Some("static"));
        assert_eq!(get(&node, "/strip/static/x").await.text(), "/static/x - -");
        // What one way brought serves the other.
        let other = get(&node, "/v2/static/a?b=c").await;
        assert!(other.cache().contains("hit"), "{}", other.cache());
        assert_eq!(other.field("x-from"), None);
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn redirects_go_where_they_say() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and(
                "[[redirect]]\nfrom = \"/old/*\"\nto = \"/new/{rest}\"\nstatus = 308\n\
                 [[redirect]]\nfrom = \"/secure\"\nscheme = \"http\"\nto = \"https://{host}/secure\"\n",
            )
            .start();
        let answer = get(&node, "/old/a/b?c").await;
        assert_eq!((answer.status, answer.field("location")), (308, Some("/new/a/b?c")));
        let answer = get(&node, "/secure").await;
        assert_eq!(answer.status, 301);
        let location = answer.field("location").unwrap();
        assert!(location.starts_with("https://") && location.ends_with("/secure"), "{location}");
        // Who does not say which host it means cannot be sent to it.
        let mut client = Client::to(&node).await;
        client.send("GET /secure HTTP/1.0\r\n\r\n").await;
        let answer = client.answer("GET").await;
        assert_eq!((answer.status, answer.field("location")), (400, None));
        let mut client = Client::to(&node).await;
        client.send("GET /old/a HTTP/1.0\r\n\r\n").await;
        assert_eq!(client.answer("GET").await.field("location"), Some("/new/a"));
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn fields_may_be_for_some_endings_and_statuses() {
    run(async {
        let origin = Origin::serve(|asked| match asked.target() {
            "/gone.css" => response("404 Not Found", &["Cache-Control: no-store"], "gone"),
            _ => response("200 OK", &["Cache-Control: max-age=60"], "here"),
        });
        let node = Setup::of(&origin)
            .and(
                "[[header]]\nsuffixes = [\".css\", \".js\"]\nstatus = [\"2xx\"]\n\
                 name = \"Cache-Control\"\nvalue = \"public, max-age=31536000\"\n",
            )
            .start();
        for (target, says) in [
            ("/a.css", "public, max-age=31536000"),
            ("/a.JS?v=1", "public, max-age=31536000"),
            ("/a.html?f=.css", "max-age=60"),
            ("/gone.css", "no-store"),
        ] {
            let answer = get(&node, target).await;
            assert_eq!(answer.field("cache-control"), Some(says), "{target}");
        }
        let tagged = get_with(&node, "/a.css", &["If-None-Match: *"]).await;
        assert_eq!(tagged.status, 304);
        assert_eq!(tagged.field("cache-control"), Some("public, max-age=31536000"));
    });
}

#[test]
fn fields_of_a_path_are_of_each_way_to_write_it() {
    run(async {
        let origin = echo();
        let rule = "[[header]]\npath = \"/app/\"\nname = \"X-Frame-Options\"\nvalue = \"DENY\"\n";
        let node = Setup::of(&origin).and(rule).start();
        for (target, says) in [
            ("/app/a", Some("DENY")),
            ("/%61pp/a", Some("DENY")),
            ("//app/a", Some("DENY")),
            ("/x/../app/a?b", Some("DENY")),
            ("/x/app/a", None),
            ("/apple", None),
        ] {
            assert_eq!(get(&node, target).await.field("x-frame-options"), says, "{target}");
        }
    });
}

#[test]
fn a_site_may_do_nothing_but_lead_elsewhere() {
    run(async {
        let origin = echo();
        let node = Setup {
            origins: String::new(),
            ..Setup::of(&origin).and("[[redirect]]\nto = \"https://www.example/{rest}\"\n")
        }
        .start();
        let answer = get(&node, "/a?b").await;
        assert_eq!(
            (answer.status, answer.field("location")),
            (301, Some("https://www.example/a?b"))
        );
        // What is too long to be led anywhere is refused, and ends nothing.
        let long = format!("/{}", "a".repeat(8180));
        assert_eq!(get(&node, &long).await.status, 414);
        assert_eq!(get(&node, "/").await.status, 301);
    });
}

#[test]
fn pages_below_a_host_are_answered_as_cors_says() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and("[cors]\norigins = [\"https://*.Example.com\"]\ncredentials = true\n")
            .start();
        for (page, is_allowed) in [("https://a.example.com", true), ("https://example.org", false)]
        {
            let answer = get_with(&node, "/x", &[&format!("Origin: {page}")]).await;
            let allowed = answer.field("access-control-allow-origin");
            assert_eq!(allowed, Some(page).filter(|_| is_allowed));
            assert_eq!(answer.field("vary"), Some("Origin"));
        }
    });
}

#[test]
fn pages_of_other_origins_are_answered_as_cors_says() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin)
            .and("[cors]\norigins = [\"https://a.example\", \"https://b.example\"]\n")
            .start();
        for page in ["https://a.example", "https://b.example"] {
            let answer = get_with(&node, "/x", &[&format!("Origin: {page}")]).await;
            assert_eq!(answer.text(), "/x - -", "what one page is, the origin does not hear");
            assert_eq!(answer.field("access-control-allow-origin"), Some(page));
            assert_eq!(answer.field("vary"), Some("Origin"));
        }
        assert_eq!(origin.count(), 1);
        let stranger = get_with(&node, "/x", &["Origin: https://evil.example"]).await;
        assert_eq!((stranger.status, stranger.field("access-control-allow-origin")), (200, None));
        let asks = ["Origin: https://a.example", "Access-Control-Request-Method: GET"];
        let preflight = request(&node, "OPTIONS", "/x", &asks).await;
        assert_eq!(preflight.status, 204);
        assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD"));
        assert_eq!(preflight.field("access-control-max-age"), Some("86400"));
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn players_on_pages_of_other_origins_may_say_how_they_are_doing() {
    run(async {
        let origin = echo();
        let node = Setup::of(&origin).and("[cors]\norigins = [\"*\"]\n").start();
        let fields = "cmcd-object,cmcd-request,cmcd-session,cmcd-status";
        let asks = [
            "Origin: https://player.example",
            "Access-Control-Request-Method: GET",
            &format!("Access-Control-Request-Headers: {fields}"),
        ];
        let preflight = request(&node, "OPTIONS", "/a.m4s", &asks).await;
        let allowed = preflight.field("access-control-allow-headers").unwrap();
        assert_eq!(
            (preflight.status, allowed),
            (204, &*format!("Range, {}", fields.replace(',', ", ")))
        );
        assert_eq!(origin.count(), 0);
        // And what they say goes no further.
        let says = ["Origin: https://player.example", "CMCD-Session: sid=\"secret\""];
        assert_eq!(get_with(&node, "/a.m4s?CMCD=sid%3D%22secret%22", &says).await.status, 200);
        let asked = &origin.requests()[0];
        assert_eq!((asked.target(), asked.field("cmcd-session")), ("/a.m4s", None));
    });
}

#[test]
fn what_a_player_says_is_in_the_fields_of_rules() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            let heard = asked.field("x-session").unwrap_or("-").to_owned();
            response("200 OK", &["Cache-Control: max-age=60"], heard)
        });
        let rules = "[[header]]\nname = \"X-Says\"\nvalue = \"{cmcd.sid};{cmcd.rtp};{cmcd.d}\"\n\
             [[header]]\non = \"request\"\nname = \"X-Session\"\nvalue = \"{cmcd.sid}\"\n";
        let node = Setup::of(&origin).and(rules).start();
        let query = get(&node, "/a?CMCD=d%3D4004%2Crtp%3D9000%2Csid%3D%22one%22").await;
        assert_eq!((query.field("x-says"), query.text().as_str()), (Some("one;9000;4004"), "-"));
        let says = ["CMCD-Session: sid=\"two\"", "X-Session: forged"];
        let fields = get_with(&node, "/a", &says).await;
        assert_eq!((fields.field("x-says"), fields.text().as_str()), (Some("two;;"), "-"));
        assert_eq!(get(&node, "/a").await.field("x-says"), None);
        assert_eq!(origin.count(), 1, "it is in no key");
        // An origin hears of it where its response is kept for nobody.
        let posted = [says[0], says[1], "Content-Length: 0"];
        assert_eq!(request(&node, "POST", "/a", &posted).await.text(), "two");
    });
}

#[test]
fn what_a_client_says_of_itself_is_logged_whatever_bytes_are_in_it() {
    run(async {
        let origin = echo();
        for (format, [user_agent, referer]) in [
            ("combined", ["\"bad\u{fffd} one\"", "\"http://\u{fffd}/\""]),
            ("json", ["\"user_agent\":\"bad\u{fffd} one\"", "\"referer\":\"http://\u{fffd}/\""]),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let log =
                format!("[log]\naccess = \"{}\"\nformat = \"{format}\"\n", file.path().display());
            let led = "[[redirect]]\nfrom = \"/\"\nto = \"/new\"\n";
            let node = Setup::of(&origin).and(led).and(&log).start();
            let mut client = Client::to(&node).await;
            let head = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: bad\xff one\r\nReferer: http://\xe9/\r\n\r\n";
            client.send(head).await;
            assert_eq!(client.answer("GET").await.status, 301);
            let text = || std::fs::read_to_string(file.path()).unwrap();
            until(|| text().lines().count() == 1).await;
            assert!(text().contains(user_agent) && text().contains(referer), "{}", text());
        }
    });
}

#[test]
fn fields_of_what_is_refused_are_as_rules_have_them() {
    run(async {
        let origin = echo();
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("people");
        std::fs::write(&users, crate::doors::ANNA).unwrap();
        let rules = format!(
            "[[rate_limit]]\npath = \"/limited/\"\nrate = \"1/h\"\n\
             [[access]]\npath = \"/in/\"\nusers = \"{}\"\n\
             [[redirect]]\nfrom = \"/old\"\nto = \"/new\"\n\
             [[header]]\nname = \"Retry-After\"\nvalue = \"99\"\nstatus = [\"429\"]\n\
             [[header]]\nname = \"Cache-Status\"\naction = \"remove\"\n\
             [[header]]\nname = \"RateLimit\"\naction = \"remove\"\n\
             [[header]]\nname = \"WWW-Authenticate\"\nvalue = \"Basic realm=mine\"\nstatus = [\"401\"]\n",
            users.display()
        );
        let node = Setup::of(&origin).and(&rules).start();
        assert_eq!(get(&node, "/limited/a").await.status, 200);
        let limited = get(&node, "/limited/a").await;
        assert_eq!((limited.status, limited.field("retry-after")), (429, Some("99")));
        let is_retry = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("retry-after");
        assert_eq!(limited.head.fields.iter().filter(is_retry).count(), 1);
        assert_eq!((limited.field("ratelimit"), limited.field("cache-status")), (None, None));
        assert!(limited.field("ratelimit-policy").is_some(), "no rule is about it");
        let unknown = get(&node, "/in/a").await;
        let challenge = unknown.field("www-authenticate");
        assert_eq!((unknown.status, challenge), (401, Some("Basic realm=mine")));
        assert_eq!(unknown.field("cache-status"), None);
        let led = get(&node, "/old").await;
        assert_eq!((led.status, led.field("cache-status")), (301, None));
    });
}

#[test]
fn the_host_that_was_asked_is_a_field_of_the_log() {
    run(async {
        let origin = echo();
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = format!(
            "[log]\naccess = \"{}\"\nformat = \"%{{Host}}i %{{X-None}}i %s\"\n",
            file.path().display()
        );
        let node = Setup::of(&origin).and(&log).start();
        let mut client = Client::to(&node).await;
        client.send(b"GET / HTTP/1.1\r\nHost: Shop.example:8080\r\n\r\n").await;
        assert_eq!(client.answer("GET").await.status, 200);
        let text = || std::fs::read_to_string(file.path()).unwrap();
        until(|| !text().is_empty()).await;
        assert!(text().eq_ignore_ascii_case("shop.example:8080 - 200\n"), "{}", text());
    });
}

#[test]
fn no_path_leads_out_of_what_a_site_is_given_of_its_origin() {
    run(async {
        let origin = Origin::serve(|asked: &Request| fresh(asked.target()));
        let url = format!("{}/tenant1", origin.url());
        let below = |more: &str| {
            let mut setup = Setup::of(&origin).and(more);
            setup.origins = format!("[[origin]]\nname = \"only\"\nurl = \"{url}\"\n");
            setup.start()
        };
        let node = below("");
        assert_eq!(get(&node, "/a/../b;c").await.text(), "/tenant1/a/../b;c");
        for target in
            ["/../tenant2/a", "/%2e%2e/tenant2/a", "/a/..;/../../tenant2", "/..%2ftenant2"]
        {
            for method in ["GET", "DELETE"] {
                assert_eq!(request(&node, method, target, &[]).await.status, 400, "{target}");
            }
        }
        assert_eq!(origin.count(), 1);
        let rule = "[[path]]\nprefix = \"/in/\"\nreplace = \"/tenant1/\"";
        let node = Setup::of(&origin).and(rule).start();
        assert_eq!(get(&node, "/in/a/../b").await.text(), "/tenant1/a/../b");
        assert_eq!(get(&node, "/in/../tenant2/a").await.status, 400);
        assert_eq!(origin.count(), 2);
    });
}
