//! What is asked about a stored response whose bytes are others than its origin sent, and what becomes of the
//! answer.

use crate::client::get_with;
use crate::harness::{Setup, run, until};
use crate::origin::{Origin, Request, head, response};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const TEXT: &str = "Content-Type: text/html";
const AGED: [&str; 2] = ["Age: 9", "Cache-Control: max-age=1"];
const LATER: &str = "Cache-Control: max-age=600";

/// An origin that compares the text of a tag, and knows none but its own.
fn exact(asked: &Request) -> Vec<u8> {
    match asked.field("if-none-match") {
        Some("\"x\"") => head("304 Not Modified", &["ETag: \"x\"", LATER], None),
        _ => {
            let text = "all work and no play ".repeat(500);
            response("200 OK", &[TEXT, "ETag: \"x\"", AGED[0], AGED[1]], text)
        }
    }
}

#[test]
fn an_origin_confirms_what_is_packed_here_by_the_tag_it_gave() {
    run(async {
        for (config, coding) in [
            ("gzip = true", "gzip"),
            ("codings = [\"zstd\", \"br\"]", "zstd"),
            ("codings = [\"zstd\", \"br\"]", "br"),
            ("codings = [\"zstd\", \"br\"]", "gzip"),
        ] {
            let origin = Origin::serve(exact);
            let node = Setup::of(&origin).and(&format!("[cache]\n{config}")).start();
            let takes = format!("Accept-Encoding: {coding}");
            let first = get_with(&node, "/", &[&takes]).await;
            for _ in 0..3 {
                let answer = get_with(&node, "/", &[&takes]).await;
                assert_eq!(answer.field("content-encoding"), Some(coding));
                assert_eq!(answer.field("etag"), Some("W/\"x\""), "{config}");
                assert!(answer.body == first.body, "{config}: {coding}");
            }
            assert_eq!((origin.count(), node.count("revalidated")), (2, 1), "{config}: {coding}");
        }
    });
}

#[test]
fn a_tag_that_is_weak_is_confirmed_by_the_strong_one_and_stays_weak() {
    run(async {
        // As nginx does with `gzip on`, whose filter does not see a 304.
        let origin = Origin::serve(|asked: &Request| match asked.field("if-none-match") {
            Some("W/\"x\"") => head("304 Not Modified", &["ETag: \"x\"", LATER], None),
            _ => response("200 OK", &[TEXT, "ETag: W/\"x\"", AGED[0], AGED[1]], "a text"),
        });
        let node = Setup::of(&origin).start();
        for _ in 0..4 {
            let answer = get_with(&node, "/", &[]).await;
            assert_eq!((answer.field("etag"), &*answer.text()), (Some("W/\"x\""), "a text"));
        }
        assert_eq!((origin.count(), node.count("revalidated")), (2, 1));
        // The bytes need not be those that have the strong tag.
        let part = ["Range: bytes=2-", "If-Range: \"x\""];
        assert_eq!(get_with(&node, "/", &part).await.status, 200);
    });
}

#[test]
fn a_stale_coding_is_made_anew_of_another_that_was_fetched_since() {
    run(async {
        let version = Arc::new(AtomicU32::new(1));
        let now = Arc::clone(&version);
        let origin = Origin::serve(move |asked: &Request| {
            let version = now.load(Ordering::Relaxed);
            let tag = format!("\"{version}\"");
            let field = format!("ETag: {tag}");
            let text = format!("version {version} ").repeat(500);
            match asked.field("if-none-match") {
                Some(known) if known == tag => head("304 Not Modified", &[&field, LATER], None),
                _ if version == 1 => response("200 OK", &[TEXT, &field, AGED[0], AGED[1]], text),
                _ => response("200 OK", &[TEXT, &field, LATER], text),
            }
        });
        let node = Setup::of(&origin).and("[cache]\ncodings = [\"zstd\", \"br\"]").start();
        let ask = async |coding: &str| {
            let answer = get_with(&node, "/", &[&format!("Accept-Encoding: {coding}")]).await;
            assert_eq!(answer.field("content-encoding"), Some(coding));
            answer.field("etag").unwrap().to_owned()
        };
        assert_eq!((ask("br").await, ask("zstd").await), ("W/\"1\"".into(), "W/\"1\"".into()));
        assert_eq!(origin.count(), 2);
        version.store(2, Ordering::Relaxed);
        let key = node.node.shared.cache.key(crate::client::HOST, "/");
        let is_kept = |tag: &str| {
            let known = node.node.shared.cache.peek(&key).variants;
            known.iter().any(|one| {
                one.with_head(|head| {
                    head.fields.get_str("etag").is_some_and(|it| it.ends_with(tag))
                })
            })
        };
        for coding in ["br", "zstd", "br", "zstd"] {
            assert_eq!(ask(coding).await, "W/\"2\"", "{coding}");
            // It takes the place of what was there when it is whole, which its client may know before.
            until(|| is_kept("\"2\"")).await;
        }
        assert_eq!((origin.count(), node.variants("/")), (3, 2));
    });
}

#[test]
fn what_one_client_says_of_itself_ends_nothing_that_is_stored() {
    run(async {
        for field in
            ["Authorization: Basic eA==".to_owned(), format!("Cookie: {}", "c".repeat(5_000))]
        {
            let status = if field.starts_with('A') { "200 OK" } else { "404 Not Found" };
            let origin = Origin::serve(move |asked: &Request| match asked.field("if-none-match") {
                Some("\"x\"") => head("304 Not Modified", &["ETag: \"x\"", LATER], None),
                _ => response(status, &[TEXT, "ETag: \"x\"", AGED[0], AGED[1]], "stored"),
            });
            let node = Setup::of(&origin).start();
            for fields in [&[][..], &[&*field], &[]] {
                assert_eq!(get_with(&node, "/", fields).await.text(), "stored");
            }
            let asked = origin.requests();
            let asked: Vec<_> = asked.iter().map(|one| one.field("if-none-match")).collect();
            assert_eq!(asked, [None, Some("\"x\""), Some("\"x\"")], "{field:.20}");
            assert_eq!(node.variants("/"), 1);
        }
    });
}
