//! The page of all metrics, against what a node gives and what pages and queries ask for.
#![allow(clippy::unwrap_used, reason = "tests")]

use freshet_admin::{Metrics, metrics_page};
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_net::handover::Inherited;
use freshet_node::node::Node;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn node() -> Arc<Node> {
    let text = "workers = 1\nmemory = \"32MiB\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
                [[origin]]\nurl = \"http://127.0.0.1:9\"\n";
    let settings = Settings::from_document(&Document::parse(text).unwrap()).unwrap();
    Node::start(settings, &mut Inherited::default()).unwrap()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Families of the page by name and type, in its order.
fn families(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        (name.to_owned(), rest.split('|').nth(1).unwrap().trim().to_owned())
    })
    .collect()
}

/// The page in the repository is the one this code writes; `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_page_in_docs_is_up_to_date() {
    let node = node();
    let path = root().join("docs/metrics.md");
    let want = metrics_page(&node).unwrap();
    node.stop();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &want).unwrap();
    }
    let have = fs::read_to_string(&path).unwrap_or_default();
    assert!(have == want, "docs/metrics.md is old: run the tests with UPDATE_DOCS=1");
}

#[test]
fn a_node_gives_what_the_page_lists_and_leaves_out_what_has_no_value() {
    let node = node();
    let families = families(&metrics_page(&node).unwrap());
    let names: BTreeSet<_> = families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), families.len(), "one is there twice");
    let text = Metrics::new(Arc::clone(&node), None).text().unwrap();
    node.stop();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let listed = families
            .iter()
            .any(|(known, of)| of == kind && known.strip_suffix("_total").unwrap_or(known) == name);
        assert!(listed, "{name} is not on the page");
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} has no value: {text}");
    }
    assert!(names.contains("freshet_store_healthy") && !text.contains("freshet_store_"), "{text}");
}

/// How metrics of the other programs begin, and words of other things.
const OF_OTHERS: [&str; 5] = ["mec_", "route_", "router_", "fleet_", "lab_"];

/// No family may be written in a way that the page does not see: those that pages, the dashboard and the
/// alerts name are there.
#[test]
fn what_pages_and_queries_name_is_listed() {
    let node = node();
    let families = families(&metrics_page(&node).unwrap());
    node.stop();
    let mut known = BTreeSet::new();
    for (name, kind) in families {
        if kind == "histogram" {
            known.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")));
        }
        known.insert(name);
    }
    let mut unknown = BTreeSet::new();
    for folder in ["docs", "packaging/monitoring"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let is_text = |kind: &std::ffi::OsStr| kind == "md" || kind == "json" || kind == "yml";
            // What was mended tells of names that are no more.
            if !path.extension().is_some_and(is_text) || path.ends_with("mended.md") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_*:".contains(c);
            for word in text.split(|c| !is_part(c)) {
                let Some(rest) = word.strip_prefix("freshet_") else { continue };
                // A version behind a package's name, and patterns, are none.
                let is_name = rest.starts_with(|c: char| c.is_ascii_alphabetic())
                    && !word.ends_with(['*', '_'])
                    && !word.contains(':');
                let is_of_others = OF_OTHERS.iter().any(|of| rest.starts_with(of));
                if is_name && !is_of_others && !known.contains(word) {
                    unknown.insert(format!("{}: {word}", path.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "not in docs/metrics.md: {unknown:#?}");
}
