//! Whom a request was let in as: for the log, for rules' values and for policies.

use crate::client::{Client, get, get_with, request};
use crate::harness::{Setup, proxied, run, until};
use crate::origin::{Origin, Request, response};
use crate::vcl::governed_with;
use freshet_geo::writer::{Writer, country};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Tokens of ann's, with the id j1, for 2038 and before.
const TOKENS: &str = include_str!("../../../tokens/tests/jwts.txt");
const KEY: &[u8] = include_bytes!("../../../tokens/tests/keys/rsa.pem");

fn bearer() -> String {
    let line = TOKENS.lines().next().unwrap();
    format!("Authorization: Bearer {}", line.split_once(' ').unwrap().1)
}

fn rules(folder: &Path) -> String {
    let (key, users) = (folder.join("rsa.pem"), folder.join("people"));
    fs::write(&key, KEY).unwrap();
    // `anna` with the password `secret`.
    fs::write(&users, crate::doors::ANNA).unwrap();
    format!(
        "[[token]]\npath = \"/token/\"\nkind = \"jwt\"\nkeys = [\"{}\"]\naudiences = [\"tv\"]\n\
         [[access]]\npath = \"/word/\"\nusers = \"{}\"\n",
        key.display(),
        users.display()
    )
}

/// An origin that says what it was told, and keeps nothing below `/…/own`.
fn echo() -> Origin {
    Origin::serve(|asked: &Request| {
        let field = |name| asked.field(name).unwrap_or("-").to_owned();
        let said = ["x-real-ip", "x-user", "x-country", "x-url"].map(field).join(" ");
        let kept = if asked.target().contains("/own") { "no-store" } else { "max-age=60" };
        response("200 OK", &[&format!("Cache-Control: {kept}")], said)
    })
}

/// RFC 9110 §9.3.3 lets an answer to POST be given to a later GET.
#[test]
fn an_answer_to_post_is_not_kept_where_the_origin_was_told_who_asks() {
    run(async {
        let folder = TempDir::new().unwrap();
        let origin = Origin::serve(|asked: &Request| {
            let same = format!("Content-Location: {}", asked.target());
            let user = asked.field("x-user").unwrap_or("nobody").to_owned();
            response("200 OK", &["Cache-Control: max-age=60", &same], user)
        });
        let rule = "[[header]]\non = \"request\"\nname = \"X-User\"\nvalue = \"{user}\"";
        let node = Setup::of(&origin).and(&rules(folder.path())).and(rule).start();
        let (right, empty) = (crate::doors::RIGHT, "Content-Length: 0");
        assert_eq!(request(&node, "POST", "/word/a", &[right, empty]).await.text(), "anna");
        assert_eq!(get_with(&node, "/word/a", &[right]).await.text(), "nobody");
    });
}

#[test]
fn the_access_log_says_whose_password_or_token_it_was() {
    run(async {
        let folder = TempDir::new().unwrap();
        let rules = rules(folder.path());
        let origin = echo();
        for (format, lines) in [
            ("combined", ["127.0.0.1 - ann [", "127.0.0.1 - anna [", "127.0.0.1 - - ["]),
            ("%u %{token_id}x", ["ann j1", "anna -", "- -"]),
            ("json", ["\"user\":\"ann\",\"token_id\":\"j1\",", "\"user\":\"anna\",", "\"client\""]),
        ] {
            let log = folder.path().join(format!("{}.log", format.len()));
            let text =
                format!("{rules}[log]\naccess = \"{}\"\nformat = \"{format}\"\n", log.display());
            let node = Setup::of(&origin).and(&text).start();
            assert_eq!(get_with(&node, "/token/a", &[&bearer()]).await.status, 200);
            assert_eq!(get_with(&node, "/word/a", &[crate::doors::RIGHT]).await.status, 200);
            assert_eq!(get(&node, "/word/a").await.status, 401);
            let written = || fs::read_to_string(&log).unwrap();
            until(|| written().lines().count() == 3).await;
            // Each worker has lines of its own.
            for has in lines {
                assert!(written().contains(has), "{has} in {}", written());
            }
            let unknown = |line: &&str| !line.contains("ann");
            let last = written().lines().find(unknown).unwrap().to_owned();
            assert!(!last.contains("user\""), "{last}");
        }
    });
}

const VALUES: &str = "[[header]]\non = \"request\"\nname = \"X-Real-IP\"\nvalue = \"{client}\"\n\
     [[header]]\non = \"request\"\nname = \"X-User\"\nvalue = \"{user}/{token_id}\"\n\
     [[header]]\non = \"request\"\nname = \"X-Country\"\nvalue = \"{country}\"\n\
     [[header]]\non = \"request\"\nname = \"X-Url\"\nvalue = \"{scheme}://{host}{path}?{query}\"\n\
     [[header]]\nname = \"X-Cache\"\nvalue = \"{hit} for {user} from {country}, {reason}\"\n\
     [[header]]\nname = \"X-Who\"\nvalue = \"{user}\"\n\
     [[path]]\nprefix = \"/token/old/\"\nreplace = \"/token/\"\n";

#[test]
fn rules_values_are_what_the_request_has() {
    run(async {
        let folder = TempDir::new().unwrap();
        let geo = folder.path().join("country");
        let places = Writer::new("Country").with("192.0.2.0/24", &country("EU", "AT"));
        fs::write(&geo, places.bytes()).unwrap();
        let text =
            format!("{}{VALUES}[geo]\ncountry = \"{}\"\n", rules(folder.path()), geo.display());
        let origin = echo();
        let node = Setup::of(&origin).behind_proxy().and(&text).start();
        let ask = async |target: &str, fields: &[&str]| {
            let mut client = Client::to(&node).await;
            client.send(proxied("192.0.2.7")).await;
            client.request("GET", target, fields).await
        };
        // What a client claims in the place of the node is not told.
        let claims = ["X-User: root", "X-Country: XX", "X-Real-IP: 10.0.0.1"];
        let token = bearer();
        let with = |more: &'static str| [&claims[..], &[&*token, more]].concat();
        // What is kept for all is asked for in nobody's name.
        let kept = ask("/token/a?b=c", &with("X: y")).await;
        assert_eq!(kept.text(), "192.0.2.7 - - http://example.test/token/a?b=c");
        assert_eq!(kept.field("x-cache"), Some("miss for ann from AT, miss"));
        let hit = ask("/token/a?b=c", &with("X: y")).await;
        assert_eq!(hit.field("x-cache"), Some("hit for ann from AT, hit"), "{kept:?} {hit:?}");
        // A path rule changes the key and the origin's target; the client sent another.
        let old = ask("/token/old/a?b=c", &with("X: y")).await;
        assert_eq!(old.field("x-cache"), Some("hit for ann from AT, hit"), "{old:?}");
        // What is for one client only is.
        let mut client = Client::to(&node).await;
        client.send(proxied("192.0.2.7")).await;
        let own = client.request("POST", "/token/own", &with("Content-Length: 0")).await;
        assert_eq!(own.text(), "192.0.2.7 ann/j1 AT http://example.test/token/own?");
        // Where there is nobody and no place, there is no field.
        let mut client = Client::to(&node).await;
        client.send(proxied("203.0.113.7")).await;
        let free =
            client.request("POST", "/own", &[&claims[..], &["Content-Length: 0"]].concat()).await;
        assert_eq!(free.text(), "203.0.113.7 - - http://example.test/own?");
        assert_eq!(free.field("x-who"), None);
    });
}

#[test]
fn a_policy_knows_who_was_let_in() {
    run(async {
        let folder = TempDir::new().unwrap();
        let text = r#"
            import access;
            sub vcl_recv { if (req.url == "/out") { return (pass); } }
            sub vcl_backend_fetch { set bereq.http.X-User = access.user() + "," + access.claim("iss"); }
            sub vcl_deliver {
                set resp.http.Who = access.user() + "/" + access.token_id() + "/" + access.claim("aud");
                if (!access.has_token()) { set resp.http.Who = "nobody by token: " + access.user(); }
            }
        "#;
        let origin = echo();
        let governed = governed_with(&origin, text, &rules(folder.path()));
        let node = &governed.node;
        let answer = get_with(node, "/token/a", &[&bearer()]).await;
        assert_eq!(answer.field("who"), Some("ann/j1/tv,www"));
        assert_eq!(answer.text(), "- ann,joe - -");
        let answer = get_with(node, "/word/a", &[crate::doors::RIGHT]).await;
        assert_eq!(answer.field("who"), Some("nobody by token: anna"));
        let answer = request(node, "GET", "/other", &[]).await;
        assert_eq!(answer.field("who"), Some("nobody by token:"));
    });
}
