//! Variants of one resource.

use crate::client::{get, get_with};
use crate::harness::{TestNode, run};
use crate::origin::{Origin, response};

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
