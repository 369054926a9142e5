//! What a site does to its requests, where it has several nodes that ask one another.

use crate::client::{get, get_with};
use crate::harness::run;
use crate::origin::{Origin, fresh, response};
use crate::siblings::{homed_at, place_of, place_with, said};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[test]
fn a_path_is_rewritten_once_whichever_node_the_key_is_at_home_at() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let rule = "[[path]]\nprefix = \"/\"\nreplace = \"/v1/\"\n";
        let nodes = place_with(&origin, &["a", "b", "c"], rule);
        for number in 0..30 {
            let target = format!("/{number}?CMCD=br%3D100");
            for node in &nodes {
                assert_eq!(get(node, &target).await.text(), format!("/v1/{number}"));
            }
        }
        // It is the same key at all of them.
        assert_eq!(origin.count(), 30);
        assert!(nodes.iter().all(|node| node.objects() >= 3));
    });
}

#[test]
fn parts_and_news_of_what_is_at_home_elsewhere_have_its_path_as_well() {
    run(async {
        let whole: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let bytes = whole.clone();
        let origin = Origin::serve(move |asked| {
            let fields = ["Cache-Control: max-age=3600"];
            match asked.target() {
                "/v1/a" => crate::origin::ranged(asked, &bytes, "\"1\"", &fields),
                other => fresh(other),
            }
        });
        let rule = "[[path]]\nprefix = \"/\"\nreplace = \"/v1/\"\n";
        let nodes = place_with(&origin, &["a", "b", "c"], rule);
        for node in &nodes {
            for (range, part) in [("bytes=10-19", 10..20), ("bytes=0-49999", 0..50_000)] {
                let answer = get_with(node, "/a", &[&format!("Range: {range}")]).await;
                assert_eq!(answer.status, 206);
                assert!(answer.body == whole[part], "{range}");
            }
            assert!(get(node, "/a").await.body == whole);
        }
    });
}

#[test]
fn what_a_client_was_let_in_for_is_not_asked_of_nodes_that_would_not_let_this_one_in() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("users");
        // The password is `open sesame`.
        std::fs::write(&file, USERS).unwrap();
        let door = format!("[[access]]\npath = \"/closed/\"\nusers = \"{}\"\n", file.display());
        let nodes = place_with(&origin, &["a", "b"], &door);
        // Of what is open, each has its part.
        homed_at(&nodes[1], &nodes[0]).await;
        let mut statuses = BTreeSet::new();
        for number in 0..30 {
            let target = format!("/closed/{number}");
            assert_eq!(get(&nodes[0], &target).await.status, 401);
            let shown = ["Authorization: Basic dTpvcGVuIHNlc2FtZQ=="];
            for node in &nodes {
                let answer = get_with(node, &target, &shown).await;
                statuses.insert((answer.status, answer.text() == target));
            }
            let again = get_with(&nodes[0], &target, &shown).await;
            assert!(said(&again).contains("hit"), "{}", said(&again));
        }
        assert_eq!(statuses, BTreeSet::from([(200, true)]));
    });
}

#[test]
fn maintenance_of_one_node_is_none_of_the_others() {
    run(async {
        let origin = Origin::serve(|asked| fresh(asked.target()));
        let nodes = place_with(&origin, &["a", "b"], "");
        homed_at(&nodes[1], &nodes[0]).await;
        for site in nodes[1].node.snapshot().sites.all() {
            site.maintenance.set(true);
        }
        for number in 0..20 {
            let target = format!("/{number}");
            assert_eq!(get(&nodes[1], &target).await.status, 503);
            assert_eq!(get(&nodes[0], &target).await.text(), target);
        }
    });
}

#[test]
fn fields_are_added_once_and_for_the_client_that_asks() {
    run(async {
        let origin = Origin::serve(|asked| {
            let lines = asked.head.fields.iter();
            let added = lines.filter(|(name, _)| name.eq_ignore_ascii_case("x-added")).count();
            fresh(added.to_string())
        });
        let rules = "[[header]]\non = \"request\"\naction = \"add\"\nname = \"X-Added\"\nvalue = \"1\"\n\
                     [[header]]\naction = \"add\"\nname = \"X-Told\"\nvalue = \"{client}\"\n";
        let nodes = place_with(&origin, &["a", "b"], rules);
        for number in 0..6 {
            let target = format!("/{number}");
            // Often enough that both have a copy, wherever it is at home.
            for _ in 0..10 {
                for node in &nodes {
                    let answer = get(node, &target).await;
                    assert_eq!(answer.text(), "1");
                    let lines = answer.head.fields.iter();
                    let told = lines.filter(|(name, _)| name.eq_ignore_ascii_case("x-told"));
                    assert_eq!(told.count(), 1);
                }
            }
        }
    });
}

#[test]
fn pages_are_put_together_by_the_node_that_is_asked_for_them() {
    run(async {
        let count = AtomicU64::new(0);
        let origin = Origin::serve(move |asked| match asked.target() {
            "/part" => {
                let number = count.fetch_add(1, SeqCst).to_string();
                response("200 OK", &["Cache-Control: no-store"], number)
            }
            _ => {
                let fields = [
                    "Cache-Control: max-age=60",
                    "Content-Type: text/html",
                    "Surrogate-Control: content=\"ESI/1.0\"",
                ];
                response("200 OK", &fields, "<p><esi:include src=\"/part\"/></p>")
            }
        });
        let nodes = place_of(&origin, &["a", "b"], "esi = true\n", "");
        let mut seen = BTreeSet::new();
        // Often enough that both have a copy of the page, wherever it is at home.
        for number in 0..6 {
            let target = format!("/{number}");
            for _ in 0..10 {
                for node in &nodes {
                    let answer = get(node, &target).await;
                    let text = answer.text();
                    assert!(text.starts_with("<p>") && !text.contains("esi"), "{text}");
                    assert_eq!(answer.field("surrogate-control"), None);
                    assert!(seen.insert(text.clone()), "{text} was there before");
                }
            }
        }
    });
}

/// What `mkpasswd -m sha-512` makes for `u`.
const USERS: &str = "u:$6$freshet$eEk2qNcU1A0YBP2cR21FY2t/VUOYiiDdyVmIYDp3CVMdE.qmB3NvLV2pM2dHo7m.ZMuaprlPiTj5weFcT33vD1\n";
