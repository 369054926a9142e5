//! What is left of a site on a disk that it was erased from.

use crate::Node;
use crate::named::{Origin, content};
use crate::support::{PATIENCE, freshet, run, succeed};
use serde_json::Value;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

const SITES: [&str; 2] = ["one", "two"];
const OBJECTS: usize = 60;

/// A node of two sites with a disk.
fn start(origin: &Origin, folder: &Path, store: &str) -> Node {
    let config = folder.join("sites.toml");
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.test\"]\n\
             [[site.origin]]\nurl = \"http://{}\"\n",
            origin.address
        )
    };
    std::fs::write(&config, SITES.map(site).concat()).unwrap();
    Node::start_alone(folder, &["--store", store, "--config", &config.to_string_lossy()])
}

fn targets(site: &str) -> Vec<String> {
    (0..OBJECTS).map(|at| format!("/{}/{site}-{at}", 900 + at % 20 * 15_000)).collect()
}

/// Asks for all of a site; each byte is as it was.
fn check_all(node: &Node, site: &str) {
    for target in targets(site) {
        let (status, head, body) = node.get_from(&format!("{site}.test"), &target, "");
        assert_eq!(status, 200, "{head}");
        assert!(body == content(&target), "{target}: wrong bytes");
    }
}

/// How often eight bytes of a site's bodies, at any of them, or the name of one of its objects is found in
/// the file of a disk.
fn found(path: &Path, site: &str) -> usize {
    let words: HashSet<u64> = targets(site)
        .iter()
        .flat_map(|target| {
            let bytes = content(target);
            let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            words.collect::<Vec<_>>()
        })
        .collect();
    let name = format!("/{site}-");
    let file = File::open(path).unwrap();
    let (len, step) = (file.metadata().unwrap().len(), 1 << 20);
    let mut count = 0;
    for at in (0..len).step_by(step) {
        // What begins in a part may end in the next.
        let mut part = vec![0; (step as u64 + 16).min(len - at) as usize];
        file.read_exact_at(&mut part, at).unwrap();
        if part.iter().all(|byte| *byte == 0) {
            continue;
        }
        let is_word =
            |eight: &&[u8]| words.contains(&u64::from_le_bytes((**eight).try_into().unwrap()));
        count += part.windows(8).filter(is_word).count();
        count += part.windows(name.len()).filter(|text| *text == name.as_bytes()).count();
    }
    count
}

fn erase(node: &Node, more: &[&str]) -> std::process::Output {
    run(freshet()
        .args(["store", "erase", "--admin"])
        .arg(format!("unix:{}/admin", node.runtime.display()))
        .args(more)
        .env("XDG_RUNTIME_DIR", &node.runtime))
}

#[test]
fn nothing_of_a_site_that_was_erased_is_on_the_disk_and_another_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = format!("{}:128MiB", path.display());
    let origin = Origin::start();
    let mut node = start(&origin, folder.path(), &store);
    for site in SITES {
        check_all(&node, site);
    }
    node.written(2 * OBJECTS as u64);
    assert!(
        found(&path, "one") > 100_000 && found(&path, "two") > 100_000,
        "the test would see it"
    );
    let said = erase(&node, &["--site", "one"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success() && text.contains("one: nothing of it is left"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80 || line.contains("store")),
        "{text}"
    );
    assert_eq!(found(&path, "one"), 0);
    let account = node.ask("GET /v1/erase", "");
    assert_eq!((&account["state"], &account["site"]), (&"done".into(), &"one".into()));
    assert!(account["stores"][0]["overwritten_bytes"].as_u64().unwrap() > 8_000_000, "{account}");
    node.kill();

    let fetched = origin.requests.load(SeqCst);
    let node = start(&origin, folder.path(), &store);
    check_all(&node, "two");
    assert_eq!(origin.requests.load(SeqCst), fetched, "the disk has all of the other site");
    check_all(&node, "one");
    assert_eq!(
        origin.requests.load(SeqCst),
        fetched + OBJECTS as u64,
        "what was erased is fetched"
    );
    let account = node.ask("GET /v1/erase", "");
    assert_eq!(account["state"], "done", "the proof outlives the process");
    let said = erase(&node, &["--site", "three"]);
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("no site `three`"));
}

#[test]
fn an_erasure_goes_on_after_a_kill_and_a_second_is_refused_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // Long enough for it not to be over before it is looked at.
    let store = format!("{}:2GiB", path.display());
    let origin = Origin::start();
    let mut node = start(&origin, folder.path(), &store);
    check_all(&node, "one");
    node.written(OBJECTS as u64);
    assert!(found(&path, "one") > 100_000, "the test would see it");
    let begun = node.ask("POST /v1/erase", "{}");
    let is_begun = begun["durable"] == true && begun["begun"] == true;
    assert!(is_begun && begun["erasure"]["state"] == "running", "{begun}");
    let refused = erase(&node, &["--site", "two"]);
    assert!(!refused.status.success());
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("another erasure is under way: of everything"), "{why}");
    let segments = |account: &Value| account["stores"][0]["segments_done"].as_u64().unwrap();
    let until = Instant::now() + PATIENCE;
    while segments(&node.ask("GET /v1/erase", "")) == 0 {
        assert!(Instant::now() < until);
    }
    assert_eq!(node.ask("GET /v1/erase", "")["state"], "running");
    node.kill();

    let node = start(&origin, folder.path(), &store);
    let said = erase(&node, &["--follow", "--json"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let account: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&account["state"], &account["site"]), (&"done".into(), &Value::Null));
    assert_eq!(found(&path, "one"), 0);
    // Now another may begin.
    let said = succeed(
        freshet()
            .args(["store", "erase", "--site", "two", "--admin"])
            .arg(format!("unix:{}/admin", node.runtime.display()))
            .env("XDG_RUNTIME_DIR", &node.runtime),
    );
    assert!(said.contains("two: nothing of it is left"), "{said}");
}
