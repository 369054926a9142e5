//! Variants of one resource.

use crate::client::{Answer, Client, get, get_with};
use crate::harness::{Setup, TestNode, proxied, run};
use crate::origin::{Origin, Request, head, response};

fn varying(vary: &'static str, by: &'static str) -> Origin {
    Origin::serve(move |asked| {
        let value = asked.field(by).unwrap_or("none").to_owned();
        response("200 OK", &["Cache-Control: max-age=60", vary], value)
    })
}

#[test]
fn each_variant_is_fetched_once() {
    run(async {
        let origin = varying("Vary: X-Kind", "x-kind");
        let node = TestNode::before(&origin);
        for _ in 0..3 {
            for kind in ["a", "b", "c"] {
                let answer = get_with(&node, "/v", &[&format!("X-Kind: {kind}")]).await;
                assert_eq!(answer.text(), kind);
            }
            assert_eq!(get(&node, "/v").await.text(), "none");
        }
        assert_eq!((origin.count(), node.variants("/v")), (4, 4));
    });
}

#[test]
fn encodings_that_mean_the_same_share_a_variant() {
    run(async {
        let origin = varying("Vary: Accept-Encoding", "accept-encoding");
        let node = TestNode::before(&origin);
        let first = get_with(&node, "/v", &["Accept-Encoding: gzip, br"]).await;
        for same in ["br, gzip", "GZIP,BR", "gzip , br"] {
            let field = format!("Accept-Encoding: {same}");
            assert_eq!(get_with(&node, "/v", &[&field]).await.body, first.body, "{same}");
        }
        assert_eq!(origin.count(), 1);
    });
}

#[test]
fn a_response_that_varies_by_everything_is_not_kept() {
    run(async {
        let origin = varying("Vary: *", "x-kind");
        let node = TestNode::before(&origin);
        for _ in 0..3 {
            let answer = get(&node, "/v").await;
            assert!(answer.cache().contains("detail=vary-any"), "{}", answer.cache());
        }
        assert_eq!((origin.count(), node.variants("/v")), (3, 0));
    });
}

#[test]
fn two_fields_make_four_variants() {
    run(async {
        let origin = Origin::serve(|asked| {
            let body = format!("{:?}{:?}", asked.field("x-a"), asked.field("x-b"));
            response("200 OK", &["Cache-Control: max-age=60", "Vary: X-A", "Vary: X-B"], body)
        });
        let node = TestNode::before(&origin);
        let mut bodies = Vec::new();
        for round in 0..2 {
            for a in ["1", "2"] {
                for b in ["1", "2"] {
                    let fields = [format!("X-A: {a}"), format!("X-B: {b}")];
                    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                    let answer = get_with(&node, "/v", &fields).await;
                    assert_eq!(answer.cache().contains("; hit"), round == 1);
                    bodies.push(answer.text());
                }
            }
        }
        assert_eq!(bodies[..4], bodies[4..]);
        assert_eq!(origin.count(), 4);
    });
}

#[test]
fn another_host_is_another_resource() {
    run(async {
        let origin = varying("X-Nothing: 1", "host");
        let node = TestNode::before(&origin);
        for host in ["example.test", "other.test", "EXAMPLE.test"] {
            let target = format!("http://{host}/v");
            let answer = get_with(&node, &target, &[]).await;
            let wanted = if host.starts_with("other") { "other.test" } else { "example.test" };
            assert_eq!(answer.text(), wanted, "{host}");
        }
        assert_eq!(origin.count(), 2);
    });
}

/// An origin that says it varies by the field its path names, and answers with what that was.
fn varying_by_path() -> Origin {
    Origin::serve(|asked: &Request| {
        let name = asked.target().trim_matches('/').to_owned();
        let value = asked.field(&name).unwrap_or("none").to_owned();
        response("200 OK", &["Cache-Control: max-age=60", &format!("Vary: {name}")], value)
    })
}

async fn from(node: &TestNode, address: &str, target: &str, fields: &[&str]) -> Answer {
    let mut client = Client::to(node).await;
    client.send(proxied(address)).await;
    client.get_with(target, fields).await
}

#[test]
fn what_the_node_says_of_a_client_selects_where_an_origin_varies_by_it() {
    run(async {
        let origin = varying_by_path();
        let rules = "[[header]]\non = \"request\"\nname = \"X-Real-IP\"\nvalue = \"{client}\"\n\
             [[header]]\non = \"request\"\nname = \"X-Edge\"\nvalue = \"here\"";
        let node = Setup::of(&origin).behind_proxy().and(rules).start();
        let (one, other) = ("192.0.2.1", "192.0.2.2");
        for name in ["x-forwarded-for", "x-real-ip"] {
            let target = format!("/{name}");
            // What a client says of itself is in the place of nothing.
            let lie = format!("{name}: {one}");
            assert_eq!(from(&node, one, &target, &[]).await.text(), one);
            assert_eq!(from(&node, other, &target, &[&lie]).await.text(), other);
            for (address, fields) in [(one, vec![]), (one, vec![&*lie]), (other, vec![&*lie])] {
                let again = from(&node, address, &target, &fields).await;
                assert!(again.cache().contains("; hit"), "{name}: {}", again.cache());
                assert_eq!(again.text(), address);
            }
            assert_eq!(node.variants(&target), 2, "{name}");
        }
        for (name, value) in [("x-forwarded-proto", "http"), ("x-edge", "here")] {
            let target = format!("/{name}");
            assert_eq!(from(&node, one, &target, &[]).await.text(), value);
            let again = from(&node, other, &target, &[&format!("{name}: else")]).await;
            assert!(again.cache().contains("; hit"), "{name}: {}", again.cache());
            assert_eq!((again.text().as_str(), node.variants(&target)), (value, 1));
        }
    });
}

#[test]
fn what_an_origin_never_hears_makes_no_variants() {
    run(async {
        let origin = varying_by_path();
        let rules = "[cors]\norigins = [\"*\"]\n[[header]]\non = \"request\"\n\
             name = \"Accept-Language\"\naction = \"remove\"";
        let node = Setup::of(&origin).and(rules).start();
        for (name, values) in [
            ("origin", ["https://a.example", "https://b.example"]),
            ("accept-language", ["de", "en"]),
        ] {
            let target = format!("/{name}");
            for value in values {
                let answer = get_with(&node, &target, &[&format!("{name}: {value}")]).await;
                assert_eq!(answer.text(), "none");
            }
            assert_eq!(node.variants(&target), 1, "{name}");
        }
        assert_eq!(origin.count(), 2);
    });
}

#[test]
fn nothing_in_a_field_is_taken_for_nothing() {
    run(async {
        let origin = varying_by_path();
        let node = TestNode::before(&origin);
        for value in [",https://a.example", "https://a.example", "https://a.example,"] {
            let answer = get_with(&node, "/origin", &[&format!("Origin: {value}")]).await;
            assert_eq!(answer.text(), value);
        }
    });
}

#[test]
fn the_order_of_languages_may_say_which_is_liked_best() {
    run(async {
        let origin = varying_by_path();
        let node = TestNode::before(&origin);
        for value in ["de, en", "en, de"] {
            let field = format!("Accept-Language: {value}");
            assert_eq!(get_with(&node, "/accept-language", &[&field]).await.text(), value);
        }
    });
}

#[test]
fn a_validation_that_brings_another_rule_is_for_its_own_request_only() {
    run(async {
        for (before, after) in [
            ("X-Nothing: 1", "Vary: X-Kind"),
            ("Vary: X-Other", "Vary: X-Kind"),
            ("X-Nothing: 1", "Vary: X-Kind, X-Forwarded-Proto"),
        ] {
            let origin = Origin::serve(move |asked| {
                let kind = asked.field("x-kind").unwrap_or("none");
                let tag = format!("ETag: \"{kind}\"");
                let (soon, late) = ("Cache-Control: max-age=1", "Cache-Control: max-age=60");
                match asked.field("if-none-match") {
                    Some(known) if known == &tag[6..] => {
                        head("304 Not Modified", &[&tag, late, after], None)
                    }
                    _ if kind == "a" => response("200 OK", &["Age: 5", &tag, soon, before], kind),
                    _ => response("200 OK", &[&tag, late, after], kind),
                }
            });
            let node = TestNode::before(&origin);
            for _ in 0..2 {
                let answer = get_with(&node, "/v", &["X-Kind: a"]).await;
                assert_eq!(answer.text(), "a", "{after}");
            }
            assert_eq!(node.count("revalidated"), 1);
            assert_eq!(get_with(&node, "/v", &["X-Kind: b"]).await.text(), "b", "{after}");
            assert_eq!(get_with(&node, "/v", &["X-Kind: a"]).await.text(), "a");
        }
    });
}

#[test]
fn a_validation_by_the_same_rule_keeps_what_is_stored() {
    run(async {
        let origin = Origin::serve(|asked| {
            let fields = ["ETag: \"1\"", "Vary: x-kind , X-Other"];
            match asked.field("if-none-match") {
                Some(_) => {
                    let fields =
                        ["ETag: \"1\"", "Vary: X-Other, X-Kind", "Cache-Control: max-age=60"];
                    head("304 Not Modified", &fields, None)
                }
                None => response(
                    "200 OK",
                    &[&fields[..], &["Age: 5", "Cache-Control: max-age=1"]].concat(),
                    "a",
                ),
            }
        });
        let node = TestNode::before(&origin);
        for _ in 0..4 {
            assert_eq!(get_with(&node, "/v", &["X-Kind: a"]).await.text(), "a");
        }
        assert_eq!((origin.count(), node.variants("/v")), (2, 1));
    });
}

#[test]
fn what_varies_by_a_field_that_stays_behind_is_one_for_all() {
    run(async {
        let vary = "Vary: X-Forwarded-Host, Range, Content-Type, X-Hop";
        let origin = Origin::serve(move |_: &Request| {
            response("200 OK", &["Cache-Control: max-age=60", vary], "same")
        });
        let node = TestNode::before(&origin);
        for fields in [
            &["X-Forwarded-Host: a"][..],
            &["X-Forwarded-Host: b"],
            &["Content-Type: a/b"],
            &["Connection: X-Hop", "X-Hop: 1"],
            &[],
        ] {
            assert_eq!(get_with(&node, "/a", fields).await.text(), "same");
        }
        assert_eq!((origin.count(), node.variants("/a")), (1, 1));
    });
}
