//! Access by token, on real sockets.

use crate::client::{Client, get, get_with, request};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, response};
use freshet_base::clock::UnixMillis;
use freshet_http::message::RequestHead;
use freshet_http::reason::Reason;
use freshet_node::node::Node;
use freshet_node::preview;
use std::fs;
use std::path::Path;

/// An origin that echoes what it gets of a token.
fn echo() -> Origin {
    Origin::serve(|asked| {
        let field = |name| asked.field(name).unwrap_or("-").to_owned();
        let body = format!("{} {} {}", asked.target(), field("authorization"), field("cookie"));
        response("200 OK", &["Cache-Control: max-age=60"], body)
    })
}

/// A file in a folder, as a configuration names it.
fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

// RFC 7515, appendix A.1: it has expired, so that it tells one reason from another.
const EXPIRED: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEz\
    MDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r\
    _wW1gFWFOEjXk";
const KEY: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;
/// How long ago that was, and some years.
const LEEWAY: &str = "leeway = \"36500d\"\n";
/// The example of nginx's documentation, for clients at 127.0.0.1.
const LINK: &str = "md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";

#[test]
fn a_signed_link_lets_in_and_is_in_no_key_and_at_no_origin() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "secret\n");
        let origin = echo();
        let node = Setup::of(&origin)
            .and(&format!(
                "[[token]]\npath = \"/s/\"\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n"
            ))
            .start();
        let answer = get(&node, &format!("/s/link?a=b&{LINK}")).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "/s/link?a=b - -"));
        // The order of its parameters is no other object.
        let again = get(&node, "/s/link?expires=2147483647&a=b&md5=_e4Nc3iduzkWRm01TBBNYw").await;
        assert!(again.cache().contains("hit"), "{}", again.cache());
        for target in [
            "/s/link".into(),
            format!("/s/other?{LINK}"),
            format!("/s/link?{LINK}&expires=2147483648"),
            format!("//s/link?{LINK}"),
            format!("/x/../s/link?{LINK}"),
            "/x/%2e%2e/s/secret".into(),
            "/%73/secret".into(),
            "//s/secret".into(),
            "/s;x/secret".into(),
            "/public/..;/s/secret".into(),
        ] {
            let answer = get(&node, &target).await;
            assert_eq!((answer.status, answer.field("www-authenticate")), (403, None), "{target}");
        }
        assert_eq!(get(&node, "/free;x=1").await.status, 200);
        assert_eq!(origin.count(), 2);
        assert_eq!(node.count("requests_without_token"), 10);
    });
}

#[test]
fn a_bearer_token_lets_in_and_others_are_told_why_not() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "jwt.json", KEY);
        let origin = echo();
        let token = |more: &str| {
            let text = format!("[[token]]\nkind = \"jwt\"\nkeys = [\"{key}\"]\n{more}");
            Setup::of(&origin).and(&text).start()
        };
        let bearer = format!("Authorization: Bearer {EXPIRED}");
        let node = token(LEEWAY);
        let answer = get_with(&node, "/a", &[&bearer]).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "/a - -"));
        // What is stored is for those who have a token only.
        let none = get(&node, "/a").await;
        assert_eq!((none.status, none.field("www-authenticate")), (401, Some("Bearer")));
        assert!(none.cache().ends_with("detail=token-missing"), "{}", none.cache());
        let wrong = get_with(&node, "/a", &[&bearer.replace("dBj", "dBk")]).await;
        assert_eq!(wrong.field("www-authenticate"), Some("Bearer error=\"invalid_token\""));
        assert!(wrong.cache().ends_with("detail=token-wrong"), "{}", wrong.cache());
        let expired = get_with(&token(""), "/a", &[&bearer]).await;
        assert!(expired.cache().ends_with("detail=token-expired"), "{}", expired.cache());
        let other = token(&format!("{LEEWAY}issuers = [\"ann\"]\n"));
        assert_eq!(get_with(&other, "/a", &[&bearer]).await.status, 401);
        // With a cookie instead, and with all of it given on.
        let cookie = token(&format!("{LEEWAY}cookie = \"session\"\nforward = true\n"));
        let fields = [&*format!("Cookie: a=b; session={EXPIRED}")];
        let text = get_with(&cookie, "/b", &fields).await.text();
        assert_eq!(text, format!("/b - a=b; session={EXPIRED}"));
        // What an origin made of a token is not for who has another.
        let again = get_with(&cookie, "/b", &fields).await;
        assert!(!again.cache().contains("hit"), "{}", again.cache());
        let taken = token(&format!("{LEEWAY}cookie = \"session\"\n"));
        assert_eq!(get_with(&taken, "/c", &fields).await.text(), "/c - a=b");
    });
}

#[test]
fn the_token_of_a_page_is_in_no_request_for_what_is_in_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "secret\n");
        let origin = Origin::serve(|asked| {
            let from = asked.field("referer").unwrap_or("-").to_owned();
            response("200 OK", &["Cache-Control: no-store"], from)
        });
        let rule = |path: &str, more: &str| {
            format!(
                "[[token]]\npath = \"{path}\"\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n{more}"
            )
        };
        let node = Setup::of(&origin)
            .and(&rule("/s/", ""))
            .and("[[token]]\npath = \"/open/\"\nkind = \"none\"\n")
            .start();
        let referer = format!("Referer: http://example.test/s/link?a=b&{LINK}");
        let without = "http://example.test/s/link?a=b";
        // Of the same rule, of one for everybody, and of none.
        for target in [&*format!("/s/link?{LINK}"), "/open/a.js", "/a.js"] {
            assert_eq!(get_with(&node, target, &[&referer]).await.text(), without, "{target}");
        }
        let other = "Referer: http://example.test/?q=md5&c";
        assert_eq!(get_with(&node, "/a.js", &[other]).await.text(), &other["Referer: ".len()..]);
        // Nor where origins get the token that lets in.
        let node = Setup::of(&origin).and(&rule("/s/", "forward = true\n")).start();
        for target in [&*format!("/s/link?{LINK}"), "/a.js"] {
            assert_eq!(get_with(&node, target, &[&referer]).await.text(), without, "{target}");
        }
    });
}

#[test]
fn who_may_purge_needs_no_token_for_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "secret\n");
        let origin = echo();
        let node = |more: &str| {
            let rule =
                format!("[[token]]\npath = \"/s/\"\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n");
            Setup::of(&origin).and(&format!("{rule}{more}")).start()
        };
        let link = format!("/s/link?a=b&{LINK}");
        let here = node("");
        // By the URL, without a token, with one, and with one that is wrong.
        for target in ["/s/link?a=b", &link, &link.replace("_e4N", "_e4O")] {
            assert_eq!(get(&here, &link).await.status, 200);
            assert_eq!(request(&here, "PURGE", target, &[]).await.status, 200, "{target}");
            assert_eq!(request(&here, "PURGE", target, &[]).await.status, 404, "{target}");
        }
        assert_eq!(get(&here, "/s/link?a=b").await.status, 403);
        // From elsewhere a token lets nobody purge.
        let elsewhere = node("[cache]\npurge_from = [\"192.0.2.0/24\"]\n");
        assert_eq!(get(&elsewhere, &link).await.status, 200);
        assert_eq!(request(&elsewhere, "PURGE", "/s/link?a=b", &[]).await.status, 403);
        assert_eq!(request(&elsewhere, "PURGE", &link, &[]).await.status, 405);
        assert!(get(&elsewhere, &link).await.cache().contains("hit"));
    });
}

#[test]
fn an_origin_that_gets_tokens_gets_the_one_that_let_in() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "key.json", KEY);
        let rule = format!(
            "[[token]]\nkind = \"jwt\"\nkeys = [\"{key}\"]\nheader = \"Authorization\"\ncookie = \"t\"\n\
             parameter = \"t\"\nforward = true\n{LEEWAY}"
        );
        let origin = echo();
        let node = Setup::of(&origin).and(&rule).start();
        let bearer = format!("Authorization: Bearer {EXPIRED}");
        let others = get_with(&node, "/a?b=1&t=x.y.z", &[&bearer, "Cookie: t=x; u=2"]).await;
        assert_eq!((others.status, others.text()), (200, format!("/a?b=1 Bearer {EXPIRED} u=2")));
        let link = format!("/b?t={EXPIRED}");
        let others = get_with(&node, &link, &["Authorization: Bearer x", "Cookie: t=x"]).await;
        assert_eq!((others.status, others.text()), (200, format!("{link} - -")));
        assert_eq!(get_with(&node, "/c?t=x", &["Cookie: t=x"]).await.status, 401);
    });
}

#[test]
fn of_alternatives_an_origin_gets_the_one_that_let_in_or_none() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "key.json", KEY);
        let rule =
            |more: &str| format!("[[token]]\nkind = \"jwt\"\nkeys = [\"{key}\"]\n{LEEWAY}{more}");
        let origin = echo();
        let node = Setup::of(&origin)
            .and(&rule("parameter = \"t\"\nforward = true\n"))
            .and(&rule("parameter = \"u\"\n"))
            .start();
        let text = |target: String| {
            let node = &node;
            async move { get(node, &target).await.text() }
        };
        assert_eq!(text(format!("/a?t=x&u={EXPIRED}")).await, "/a - -");
        assert_eq!(
            text(format!("/b?u={EXPIRED}&t={EXPIRED}")).await,
            format!("/b?t={EXPIRED} - -")
        );
        // Also of a question of a browser for a request of a page of another site.
        let asks = ["Origin: https://a.example", "Access-Control-Request-Method: GET"];
        let answer = request(&node, "OPTIONS", &format!("/c?u={EXPIRED}"), &asks).await;
        assert_eq!(answer.text(), "/c - -");
    });
}

#[test]
fn the_first_path_that_fits_decides_and_the_same_path_twice_is_a_choice() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let link = file(folder.path(), "link", "secret");
        let jwt = file(folder.path(), "jwt.json", KEY);
        let origin = echo();
        let node = Setup::of(&origin)
            .and("[[token]]\npath = \"/public/\"\nkind = \"none\"\n")
            .and(&format!("[[token]]\nkind = \"secure-link\"\nkeys = [\"{link}\"]\n"))
            .and(&format!("[[token]]\nkind = \"jwt\"\nkeys = [\"{jwt}\"]\n{LEEWAY}"))
            .and("[cors]\norigins = [\"*\"]\n")
            .start();
        assert_eq!(get(&node, "/public/a").await.status, 200);
        assert_eq!(get(&node, &format!("/s/link?{LINK}")).await.status, 200);
        let bearer = format!("Authorization: Bearer {EXPIRED}");
        assert_eq!(get_with(&node, "/any", &[&bearer]).await.status, 200);
        for target in [
            "/any",
            "/public/../any",
            "/public/%2e%2e/any",
            "/public//../any",
            "/publi",
            "/public/..;/any",
        ] {
            assert!(matches!(get(&node, target).await.status, 401 | 403), "{target}");
        }
        // A token for everything is for no path that can be read in two ways.
        assert_eq!(get_with(&node, "/public/../any", &[&bearer]).await.status, 403);
        let asks = ["Origin: https://a.example", "Access-Control-Request-Method: GET"];
        assert_eq!(request(&node, "OPTIONS", "/any", &asks).await.status, 204);
    });
}

#[test]
fn keys_and_revoked_tokens_are_read_again_with_a_reload() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "other");
        let origin = echo();
        let setup = Setup::of(&origin)
            .and(&format!("[[token]]\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n"));
        let node = setup.start();
        let target = format!("/s/link?{LINK}");
        assert_eq!(get(&node, &target).await.status, 403);
        file(folder.path(), "link", "secret\n");
        node.node.reload(setup.settings()).unwrap();
        // Workers take the new keys one after the other.
        while get(&node, &target).await.status != 200 {}
        // What is broken changes nothing.
        for content in ["", "{", "-----BEGIN PRIVATE KEY-----\n"] {
            file(folder.path(), "link", content);
            let error = node.node.reload(setup.settings()).unwrap_err().to_string();
            assert!(error.contains("token.keys"), "{error}");
            assert_eq!(get(&node, &target).await.status, 200);
        }
        fs::remove_file(folder.path().join("link")).unwrap();
        let error = node.node.reload(setup.settings()).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        assert!(Node::start(setup.settings(), &mut Default::default()).is_err());
    });
}

/// What is known of a GET for a target: how it would be answered, what becomes of its token, and its key.
fn known(node: &TestNode, target: &str) -> (Reason, String, Option<u16>, String) {
    let head = RequestHead {
        authority: crate::client::HOST.into(),
        target: target.into(),
        ..RequestHead::default()
    };
    let snapshot = node.node.snapshot();
    let shown = preview::preview(&node.node.shared, &snapshot, head.clone(), UnixMillis::now());
    let shown = shown.unwrap();
    let key = preview::key_of(&node.node.shared, &snapshot, head, UnixMillis::now()).unwrap();
    assert_eq!(key, shown.key, "purges and explanations are of one key");
    let access = shown.access.unwrap();
    (shown.reason, access.sentence, access.refused, key.to_string())
}

#[test]
fn what_is_stored_is_found_by_urls_with_their_tokens() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "secret\n");
        let jwt = file(folder.path(), "jwt.json", KEY);
        let origin = echo();
        let rules = format!(
            "[[token]]\npath = \"/s/\"\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n\
             [[token]]\nkind = \"jwt\"\nkeys = [\"{jwt}\"]\nparameter = \"t\"\n{LEEWAY}"
        );
        let node = Setup::of(&origin).and(&rules).start();
        let link = format!("/s/link?a=b&{LINK}");
        let bearer = format!("/a?t={EXPIRED}");
        for target in [&link, &bearer] {
            assert_eq!(get(&node, target).await.status, 200);
        }
        let (reason, said, refused, _) = known(&node, &bearer);
        assert_eq!((reason, refused), (Reason::Hit, None));
        assert!(said.ends_with("this request has one that is good"), "{said}");
        // It is good for clients at one address, and nobody knows who will send it.
        let (reason, said, refused, _) = known(&node, &link);
        assert_eq!((reason, refused), (Reason::Hit, None));
        assert!(said.ends_with("depends on who sends it"), "{said}");
        let (reason, said, refused, _) = known(&node, "/a?t=x.y.z");
        assert_eq!((reason, refused), (Reason::Hit, Some(401)));
        assert!(said.ends_with("the token is not well-formed"), "{said}");
        let (reason, said, refused, _) = known(&node, "/a");
        assert_eq!((reason, refused), (Reason::Hit, Some(401)));
        assert!(said.ends_with("the request has no token"), "{said}");
        assert_eq!(known(&node, "//s/link").2, Some(403), "it can be read in two ways");
    });
}

#[test]
fn no_kind_of_token_is_in_a_key() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let secret = file(folder.path(), "secret", "secret\n");
        let hexadecimal = file(folder.path(), "hex", "00112233445566778899aabbccddeeff\n");
        let set = file(folder.path(), "set.json", KEY);
        let public = concat!(env!("CARGO_MANIFEST_DIR"), "/../tokens/tests/keys/rsa.pem");
        let origin = echo();
        for (kind, key, token) in [
            ("secure-link", &*secret, "md5=AAAA&expires=1"),
            ("secure-link-hmac", &*secret, "md5=AAAA&expires=1"),
            ("edge-auth", &*hexadecimal, "hdnts=exp=1~acl=/*~hmac=00"),
            ("cloudfront", public, "Expires=1&Signature=AAAA&Key-Pair-Id=rsa"),
            ("jwt", &*set, "t=x.y.z"),
            ("cat", &*set, "t=AAAA"),
        ] {
            let place = if token.starts_with("t=") { "parameter = \"t\"\n" } else { "" };
            let rule = format!("[[token]]\nkind = \"{kind}\"\nkeys = [\"{key}\"]\n{place}");
            let node = Setup::of(&origin).and(&rule).start();
            let (_, said, _, with) = known(&node, &format!("/a?q=1&{token}"));
            assert_eq!(with, known(&node, "/a?q=1").3, "{kind}: {said}");
        }
    });
}

#[test]
fn a_policy_in_vcl_sees_what_was_let_in_without_its_token() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let key = file(folder.path(), "link", "secret");
        let origin = echo();
        let address = origin.url().replace("http://", "");
        let (host, port) = address.split_once(':').unwrap();
        let vcl = format!(
            "vcl 4.1;\nbackend a {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
             sub vcl_deliver {{ set resp.http.X-Url = req.url; }}\n"
        );
        let vcl = file(folder.path(), "a.vcl", &vcl);
        let mut setup = Setup::of(&origin);
        setup.origins.clear();
        setup.listen = format!("vcl = \"{vcl}\"\n{}", setup.listen);
        let node: TestNode =
            setup.and(&format!("[[token]]\nkind = \"secure-link\"\nkeys = [\"{key}\"]\n")).start();
        let mut client = Client::to(&node).await;
        let answer = client.get(&format!("/s/link?{LINK}")).await;
        assert_eq!((answer.status, answer.field("x-url")), (200, Some("/s/link")));
        assert_eq!(client.get("/s/link").await.status, 403);
    });
}
