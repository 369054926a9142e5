//! What the head of a response says that came by way of another cache.

use crate::authority::{Authority, secure};
use crate::client::{Client, get, get_with};
use crate::harness::{Setup, run};
use crate::origin::{Origin, fresh, response};
use crate::tiers::{at, edge, parent, table};
use freshet_http::applied::Position;

#[test]
fn the_http_3_of_a_parent_is_none_of_its_edge() {
    run(async {
        let own = ["Cache-Control: max-age=60", "Alt-Svc: h3=\":1\"; ma=86400"];
        let above = Origin::serve(move |asked| match asked.field("if-none-match") {
            Some(_) => response("304 Not Modified", &["ETag: \"1\"", own[0], own[1]], ""),
            None if asked.target() == "/stale" => {
                response("200 OK", &["Cache-Control: max-age=0", "ETag: \"1\"", own[1]], "x")
            }
            None => response("200 OK", &own, "x"),
        });
        let node = edge(&above, "edge", &at("parent", 1, &above.url())).start();
        for target in ["/a", "/a", "/stale", "/stale", "/stale"] {
            let answer = get(&node, target).await;
            assert_eq!((answer.status, answer.field("alt-svc")), (200, None), "{target}");
        }
        // What is for one client only comes from there as well.
        assert_eq!(
            crate::client::request(&node, "OPTIONS", "/a", &[]).await.field("alt-svc"),
            None
        );
        // An origin that is asked by the edge itself speaks for the name that clients ask for.
        let alone = edge(&above, "edge", "").start();
        let said = own[1].strip_prefix("Alt-Svc: ");
        assert_eq!(get(&alone, "/a").await.field("alt-svc"), said);
    });
}

#[test]
fn caches_are_not_told_of_http_3() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let authority = Authority::new();
        let setup = || Setup::of(&origin).encrypted(&authority, "http3 = true\n");
        let config = authority.client(&["http/1.1"]);
        for (cache, loops, is_told) in [
            ("", "Accept: */*", true),
            ("", "CDN-Loop: edge", false),
            ("[cache]\npeers = [\"127.0.0.0/8\"]\n", "Accept: */*", false),
        ] {
            let node = setup().and(cache).start();
            let stream = secure(node.address(), &config, "example.test").await.unwrap();
            let mut client = Client::over(stream);
            for _ in 0..2 {
                let answer = client.get_with("/a", &[loops]).await;
                assert_eq!(answer.field("alt-svc").is_some(), is_told, "{cache}{loops}");
            }
        }
    });
}

#[test]
fn what_a_cache_had_stored_comes_with_an_age_though_that_be_nothing() {
    run(async {
        let origin = Origin::serve(|asked| match asked.field("if-none-match") {
            Some(_) => {
                response("304 Not Modified", &["ETag: \"1\"", "Cache-Control: max-age=60"], "")
            }
            None => fresh("x"),
        });
        let above = parent(&origin, "parent").start();
        let [first, second] =
            ["e1", "e2"].map(|name| edge(&origin, name, &table("parent", &above)).start());
        // The origin was asked just now: nothing is to be said of an age.
        assert_eq!(get(&first, "/a").await.field("age"), None);
        let answer = get(&second, "/a").await;
        assert!(answer.cache().contains("parent; hit"), "{}", answer.cache());
        assert!(answer.head.number("age").is_some());
        // The same where the word for what is stored here comes from what is stored there.
        let above = Origin::serve(|asked| match asked.field("if-none-match") {
            Some(_) => {
                let fields = ["ETag: \"1\"", "Cache-Control: max-age=60", "Age: 0"];
                response("304 Not Modified", &fields, "")
            }
            None => response("200 OK", &["ETag: \"1\"", "Cache-Control: max-age=0"], "x"),
        });
        let node = edge(&origin, "edge", &at("parent", 1, &above.url())).start();
        assert_eq!(get(&node, "/b").await.field("age"), None);
        let answer = get_with(&node, "/b", &[]).await;
        assert!(answer.cache().contains("fwd-status=304"), "{}", answer.cache());
        assert_eq!(answer.field("age"), Some("0"));
    });
}

#[test]
fn a_cache_is_known_also_where_it_says_whose_request_it_is() {
    run(async {
        let origin = Origin::serve(|_| {
            response("200 OK", &["Cache-Control: no-store", "Surrogate-Key: news"], "x")
        });
        let networks = "[forwarded]\nfrom = [\"127.0.0.0/8\"]\n";
        let above = parent(&origin, "parent").and(networks).start();
        let client = "X-Forwarded-For: 203.0.113.9";
        let answer = get_with(&above, "/a", &["CDN-Loop: edge", client]).await;
        assert_eq!(answer.field("surrogate-key"), Some("news"));
        // A balancer in the same network asks for anybody.
        assert_eq!(get_with(&above, "/a", &[client]).await.field("surrogate-key"), None);
        // What the cache has purged is not given to it from what is here.
        above.node.shared.applied.advance(Position::new("test", 1).expect("a name"));
        let fields = ["CDN-Loop: edge", client, "Freshet-Applied: test.2"];
        let answer = get_with(&above, "/b", &fields).await;
        assert!(answer.cache().contains("pass-behind"), "{}", answer.cache());
    });
}

#[test]
fn a_parent_that_keeps_its_edge_out_is_passed_over() {
    run(async {
        let origin = Origin::serve(|_| fresh("from the origin"));
        let denied = "Proxy-Status: parent; error=http_request_denied; details=\"no; no\"";
        let above = Origin::serve(move |asked| match asked.target() {
            "/kept-out" => response("403 Forbidden", &[denied], ""),
            "/misdirected" => response("421 Misdirected Request", &[denied], ""),
            // It is another one's word, or about the client.
            "/handed-on" => response("403 Forbidden", &[denied, "Via: 1.1 parent"], ""),
            _ => response("403 Forbidden", &[], ""),
        });
        let node = edge(&origin, "edge", &at("parent", 1, &above.url())).start();
        for (target, status) in
            [("/kept-out", 200), ("/misdirected", 200), ("/handed-on", 403), ("/closed", 403)]
        {
            assert_eq!(get(&node, target).await.status, status, "{target}");
        }
        // Where there is nobody else, its word is all there is.
        let table = at("parent", 1, &above.url()) + "[parents]\ndirect = false\n";
        let alone = edge(&origin, "edge", &table).start();
        assert_eq!(get(&alone, "/kept-out").await.status, 403);
    });
}

#[test]
fn a_cache_hears_that_it_is_kept_out_itself() {
    run(async {
        let origin = Origin::serve(|_| fresh("x"));
        let (authority, others) = (Authority::new(), Authority::new());
        let mut setup = Setup::of(&origin).encrypted(&authority, "");
        setup.origins = String::new();
        let node = setup
            .and(&format!(
                "[[site]]\nhosts = [\"example.test\"]\nclient_ca = \"{}\"\n[[site.origin]]\nurl = \"{}\"\n",
                others.path("ca.pem").display(),
                origin.url()
            ))
            .start();
        let config = authority.client(&["http/1.1"]);
        for (field, is_told) in [("CDN-Loop: edge", true), ("Accept: */*", false)] {
            let stream = secure(node.address(), &config, "example.test").await.unwrap();
            let answer = Client::over(stream).get_with("/a", &[field]).await;
            let said = answer.field("proxy-status").unwrap_or_default();
            assert_eq!(answer.status, 403);
            assert_eq!(said.contains("error=http_request_denied"), is_told, "{said}");
        }
        assert_eq!(origin.count(), 0);
    });
}
