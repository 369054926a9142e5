//! Who is let in at all, and what the others are told.

use crate::client::{Answer, Client, get, get_with, request};
use crate::harness::{Setup, TestNode, proxied, run};
use crate::origin::{Origin, Request, fresh, response};
use crate::vcl::governed_with;
use tempfile::TempDir;

/// `password`, by `htpasswd -nbB`.
pub(crate) const ANNA: &str = "anna:$2y$05$Ys9uZZy6fI4aT0ZWcKvyw.xufnZP3zcSfxN4VmSv0nATalPsUDkdq\n";
pub(crate) const RIGHT: &str = "Authorization: Basic YW5uYTpwYXNzd29yZA==";
const WRONG: &str = "Authorization: Basic YW5uYTpQYXNzd29yZA==";

fn file(folder: &TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

async fn from(node: &TestNode, address: &str, target: &str) -> Answer {
    let mut client = Client::to(node).await;
    client.send(proxied(address)).await;
    client.get(target).await
}

#[test]
fn a_network_is_let_in_by_the_first_rule_that_fits_however_its_path_is_spelt() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let rules = "[[access]]\npath = \"/admin/\"\nallow = [\"192.0.2.0/24\"]\n\
                     deny = [\"192.0.2.66/32\"]\n[[access]]\npath = \"/open/\"\n\
                     [[access]]\ndeny = [\"203.0.113.0/24\"]";
        let node = Setup::of(&origin).behind_proxy().and(rules).start();
        for (address, target, status) in [
            ("192.0.2.7", "/admin/x", 200),
            ("192.0.2.66", "/admin/x", 403),
            ("198.51.100.1", "/admin/x", 403),
            ("198.51.100.1", "/adm%69n/x", 403),
            ("198.51.100.1", "/open/../admin/x", 403),
            ("198.51.100.1", "/%61dmin/%252e%252e/", 403),
            ("198.51.100.1", "/%61dmin//../x", 403),
            ("198.51.100.1", "/open/..;/admin/x", 403),
            ("203.0.113.9", "/open/x%20y;z=1", 200),
            ("203.0.113.9", "/open/../x", 403),
            ("198.51.100.1", "/open/x", 200),
            ("203.0.113.9", "/open/x", 200),
            ("203.0.113.9", "/x", 403),
            ("198.51.100.1", "/x", 200),
        ] {
            let answer = from(&node, address, target).await;
            assert_eq!(answer.status, status, "{address} {target}");
            let is_denied = answer.cache().ends_with("detail=network-denied");
            assert_eq!(is_denied, status == 403, "{}", answer.cache());
        }
        assert_eq!(node.count("requests_denied"), 9);
        // What a client says of itself is not believed.
        let mut client = Client::to(&node).await;
        client.send(proxied("198.51.100.1")).await;
        let answer = client.get_with("/admin/x", &["X-Forwarded-For: 192.0.2.7"]).await;
        assert_eq!(answer.status, 403);
    });
}

#[test]
fn a_password_lets_in_and_stays_here() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            fresh(asked.field("authorization").unwrap_or("nothing"))
        });
        let folder = TempDir::new().unwrap();
        let users = file(&folder, "people", ANNA);
        let rules = format!(
            "[[access]]\npath = \"/told/\"\nusers = \"{users}\"\nforward = true\n\
             [[access]]\nusers = \"{users}\"\nrealm = \"Back office\""
        );
        let node = Setup::of(&origin).and(&rules).start();
        let none = get(&node, "/a").await;
        let challenge = "Basic realm=\"Back office\", charset=\"UTF-8\"";
        assert_eq!((none.status, none.field("www-authenticate")), (401, Some(challenge)));
        assert!(none.cache().ends_with("detail=password-missing"), "{}", none.cache());
        let wrong = get_with(&node, "/a", &[WRONG]).await;
        assert_eq!((wrong.status, wrong.field("www-authenticate")), (401, Some(challenge)));
        assert!(wrong.cache().ends_with("detail=password-wrong"), "{}", wrong.cache());
        assert_eq!(origin.count(), 0);
        for cached in [false, true] {
            let answer = get_with(&node, "/a", &[RIGHT]).await;
            assert_eq!((answer.status, answer.text()), (200, "nothing".into()));
            assert_eq!(answer.cache().contains("; hit"), cached, "{}", answer.cache());
        }
        // It is kept, and still for nobody without a password.
        assert_eq!(get(&node, "/a").await.status, 401);
        assert_eq!(node.count("requests_without_password"), 3);
        let told = get_with(&node, "/told/a", &[RIGHT]).await;
        assert_eq!(told.text(), RIGHT.split_once(": ").unwrap().1);
        // A browser asks before it knows a password.
        let fields = ["Origin: https://a.example", "Access-Control-Request-Method: GET"];
        assert_eq!(request(&node, "OPTIONS", "/a", &fields).await.status, 200);
    });
}

#[test]
fn a_password_of_who_needs_none_stays_here_too() {
    run(async {
        let origin = Origin::serve(|asked: &Request| {
            fresh(asked.field("authorization").unwrap_or("nothing"))
        });
        let folder = TempDir::new().unwrap();
        let users = file(&folder, "people", ANNA);
        let rule = |path: &str, more: &str| {
            let here = "allow = [\"127.0.0.0/8\", \"::1/128\"]\nsatisfy = \"any\"";
            format!("[[access]]\npath = \"{path}\"\nusers = \"{users}\"\n{here}\n{more}\n")
        };
        let rules = rule("/told/", "forward = true") + &rule("/", "");
        let node = Setup::of(&origin).and(&rules).start();
        for given in [RIGHT, WRONG, "Authorization: basic x"] {
            let answer = get_with(&node, "/a", &[given]).await;
            assert_eq!((answer.status, answer.text().as_str()), (200, "nothing"), "{given}");
        }
        assert_eq!(origin.count(), 1, "what nobody is asked for is for all");
        let told = get_with(&node, "/told/a", &[WRONG]).await;
        assert_eq!(format!("Authorization: {}", told.text()), WRONG);
        // What is no password is not for the rule.
        let other = "Authorization: Bearer xyz";
        assert_eq!(get_with(&node, "/b", &[other]).await.text(), "Bearer xyz");
    });
}

#[test]
fn who_is_sent_elsewhere_says_nothing_of_who_it_is() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let folder = tempfile::tempdir().unwrap();
        let users = file(&folder, "people", ANNA);
        let key = file(&folder, "link.key", "a long secret");
        let rules = format!(
            "[[access]]\npath = \"/closed/\"\ndeny = [\"127.0.0.0/8\"]\n[[access]]\npath = \"/in/\"\n\
             users = \"{users}\"\n[[token]]\npath = \"/signed/\"\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n\
             [[redirect]]\nfrom = \"/*\"\nto = \"https://{{host}}/{{rest}}\"\nscheme = \"http\""
        );
        let node = Setup::of(&origin).and(&rules).start();
        for (target, status, location) in [
            ("/in/a?b", 301, Some("https://example.test/in/a?b")),
            (
                "/signed/a?md5=x&expires=9",
                301,
                Some("https://example.test/signed/a?md5=x&expires=9"),
            ),
            ("/closed/a", 403, None),
        ] {
            let answer = get(&node, target).await;
            assert_eq!((answer.status, answer.field("location")), (status, location), "{target}");
            assert_eq!(answer.field("www-authenticate"), None, "{target}");
        }
        assert_eq!(origin.count(), 0);
    });
}

#[test]
fn many_with_one_password_are_all_let_in() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let folder = TempDir::new().unwrap();
        let users = file(&folder, "people", ANNA);
        let rules = format!("[[access]]\nusers = \"{users}\"");
        let node = Setup::of(&origin).and(&rules).start();
        let ask = async || get_with(&node, "/", &[RIGHT]).await.status;
        let all = tokio::join!(ask(), ask(), ask(), ask(), ask(), ask(), ask(), ask());
        assert_eq!(all, (200, 200, 200, 200, 200, 200, 200, 200));
    });
}

#[test]
fn who_may_purge_is_asked_nothing_else_but_has_to_come_from_where_it_may() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("page"));
        let service = Origin::serve(|_: &Request| response("403 Forbidden", &[], "no"));
        let folder = TempDir::new().unwrap();
        let users = file(&folder, "people", ANNA);
        let rules = format!(
            "[[access]]\npath = \"/told/\"\nusers = \"{users}\"\n\
             [[access]]\npath = \"/asked/\"\nservice = \"{}\"\n\
             [[access]]\npath = \"/office/\"\ndeny = [\"127.0.0.0/8\"]\n",
            service.url()
        );
        let purge = "PURGE";
        let here = Setup::of(&origin).and(&rules).start();
        assert_eq!(get_with(&here, "/told/a", &[RIGHT]).await.status, 200);
        let (sites, clear) = (here.node.snapshot(), "/a");
        assert_eq!(get(&here, clear).await.status, 200);
        for (target, status) in
            [("/told/a", 200), ("/told/a", 404), ("/asked/a", 404), ("/office/a", 403)]
        {
            assert_eq!(request(&here, purge, target, &[]).await.status, status, "{target}");
        }
        assert_eq!(get(&here, "/told/a").await.status, 401);
        assert_eq!((get(&here, "/asked/a").await.status, service.count()), (403, 1));
        sites.sites.all()[0].maintenance.set(true);
        assert_eq!(request(&here, purge, clear, &[]).await.status, 200);
        assert_eq!(get(&here, clear).await.status, 503);
        // From elsewhere nothing is purged, and nobody gets past a door so.
        let elsewhere = format!("{rules}[cache]\npurge_from = [\"192.0.2.0/24\"]\n");
        let elsewhere = Setup::of(&origin).and(&elsewhere).start();
        for (target, status) in [("/told/a", 401), ("/asked/a", 403), (clear, 405)] {
            assert_eq!(request(&elsewhere, purge, target, &[]).await.status, status, "{target}");
        }
        elsewhere.node.snapshot().sites.all()[0].maintenance.set(true);
        assert_eq!(request(&elsewhere, purge, clear, &[]).await.status, 503);
    });
}

#[test]
fn a_purge_is_led_nowhere() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("page"));
        let folder = TempDir::new().unwrap();
        let users = file(&folder, "people", ANNA);
        let rules = format!(
            "[[access]]\nusers = \"{users}\"\n[[redirect]]\nscheme = \"http\"\nto = \"https://{{host}}/{{rest}}\"\n"
        );
        let node = Setup::of(&origin).and(&rules).start();
        assert_eq!(get(&node, "/a").await.status, 301);
        let answer = request(&node, "PURGE", "/a", &[]).await;
        assert_eq!((answer.status, answer.field("location")), (404, None));
    });
}

#[test]
fn under_maintenance_only_those_named_are_served() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("open"));
        let folder = TempDir::new().unwrap();
        let page = file(&folder, "soon.html", "<h1>Soon</h1>");
        let rules = format!(
            "[maintenance]\nallow = [\"192.0.2.0/24\"]\nretry_after = \"10m\"\npage = \"{page}\""
        );
        let node = Setup::of(&origin).behind_proxy().and(&rules).start();
        let stranger = async || from(&node, "198.51.100.1", "/").await;
        assert_eq!(stranger().await.text(), "open");
        let site = node.node.snapshot().sites.all()[0].clone();
        site.maintenance.set(true);
        let closed = stranger().await;
        assert_eq!((closed.status, closed.text()), (503, "<h1>Soon</h1>".into()));
        assert_eq!(closed.field("retry-after"), Some("600"));
        assert_eq!(closed.field("content-type"), Some("text/html; charset=utf-8"));
        assert!(closed.cache().ends_with("detail=maintenance"), "{}", closed.cache());
        assert_eq!(from(&node, "192.0.2.1", "/").await.text(), "open");
        site.maintenance.set(false);
        assert_eq!(stranger().await.text(), "open");
        assert_eq!((node.count("requests_maintenance"), origin.count()), (1, 1));
    });
}

#[test]
fn errors_have_the_pages_of_the_site() {
    run(async {
        let origin = Origin::serve(|asked: &Request| match asked.target() {
            "/lost" => response("404 Not Found", &["Cache-Control: max-age=60"], "not here"),
            "/in" => {
                let fields = [
                    "WWW-Authenticate: Basic realm=\"x\"",
                    "Content-Encoding: br",
                    "Content-Language: de",
                    "ETag: \"1\"",
                    "Set-Cookie: a=b",
                    "Vary: Cookie",
                ];
                response("401 Unauthorized", &fields, "sign in")
            }
            "/busy" => response("429 Too Many Requests", &["Retry-After: 3600"], "wait"),
            "/only" => response("405 Method Not Allowed", &["Allow: GET"], "no"),
            "/late" => response("503 Service Unavailable", &["Retry-After: 7"], "down"),
            _ => b"nonsense\r\n\r\n".to_vec(),
        });
        let folder = TempDir::new().unwrap();
        let own = file(&folder, "own.txt", "of this site");
        let lost = file(&folder, "lost.html", "<p>lost</p>");
        let rules = format!(
            "[[error_page]]\nstatus = [\"4xx\"]\nfile = \"{lost}\"\norigin = true\n\
             [[error_page]]\nstatus = [\"5xx\"]\nfile = \"{own}\""
        );
        let node = Setup::of(&origin).and(&rules).start();
        for _ in 0..2 {
            let answer = get(&node, "/lost").await;
            assert_eq!((answer.status, answer.text()), (404, "<p>lost</p>".into()));
            assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
        }
        assert_eq!(origin.count(), 1, "it is kept as it came");
        let head = request(&node, "HEAD", "/lost", &[]).await;
        assert_eq!((head.status, head.field("content-length")), (404, Some("11")));
        // All else that the origin says is for the client, but for what was about its body.
        for (target, status, field, value) in [
            ("/in", 401, "www-authenticate", "Basic realm=\"x\""),
            ("/busy", 429, "retry-after", "3600"),
            ("/only", 405, "allow", "GET"),
        ] {
            let answer = get(&node, target).await;
            assert_eq!((answer.status, answer.text()), (status, "<p>lost</p>".into()));
            let said =
                answer.head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(field));
            assert_eq!(said.map(|(_, value)| &**value).collect::<Vec<_>>(), [value]);
        }
        let answer = get(&node, "/in").await;
        for (field, value) in [
            ("set-cookie", Some("a=b")),
            ("vary", Some("Cookie")),
            ("content-encoding", None),
            ("content-language", None),
            ("etag", None),
        ] {
            assert_eq!(answer.field(field), value, "{field}");
        }
        assert_eq!(get(&node, "/late").await.text(), "down", "it is the origin's own");
        let broken = get(&node, "/broken").await;
        assert_eq!((broken.status, broken.text()), (502, "of this site".into()));
        assert!(broken.field("proxy-status").is_some());
    });
}

#[test]
fn what_cannot_be_read_is_refused_with_its_file() {
    let folder = TempDir::new().unwrap();
    let plain = file(&folder, "people", "anna:password\n");
    for (rules, says) in [
        (format!("[[access]]\nusers = \"{plain}\""), "line 1"),
        ("[[access]]\nusers = \"/nowhere/people\"".into(), "/nowhere/people"),
        ("[maintenance]\npage = \"/nowhere/soon.html\"".into(), "/nowhere/soon.html"),
        (format!("[[error_page]]\nfile = \"{plain}\""), ".html"),
    ] {
        let settings = Setup::url("http://127.0.0.1:1").and(&rules).settings();
        let wrong = freshet_node::preflight::Prepared::new(settings, None).err().unwrap();
        assert!(wrong.iter().any(|mistake| mistake.message.contains(says)), "{rules}: {wrong:?}");
    }
}

#[test]
fn a_policy_cannot_begin_again_what_was_refused() {
    run(async {
        let origin = Origin::serve(|_: &Request| fresh("inside"));
        let rules = "[[access]]\npath = \"/admin/\"\ndeny = [\"127.0.0.0/8\"]\n";
        let policy = "sub vcl_synth { if (req.restarts == 0) { return (restart); } }";
        let governed = governed_with(&origin, policy, rules);
        assert_eq!(get(&governed.node, "/admin/").await.status, 403);
        assert_eq!((get(&governed.node, "/").await.status, origin.count()), (200, 1));
    });
}
