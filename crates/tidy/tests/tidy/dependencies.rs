//! Every dependency is written down, and some never come in.

use std::{collections::BTreeSet, process::Command};

use freshet_tidy::{SourceFile, crates, expect_none, files, root};

use crate::layers;

/// Where dependencies are written down.
const LIST: &str = "docs/dependencies.md";

/// Crates that must not be linked into the product: a second cryptography or TLS stack, and a map
/// whose guard deadlocks when held over an `.await`.
const BANNED: [&str; 5] = ["dashmap", "native-tls", "openssl", "openssl-sys", "ring"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names in the first column of the tables under a heading: `| `name` | … |`.
fn listed(heading_word: &str) -> BTreeSet<String> {
    let text = read(LIST);
    let mut is_inside = false;
    let mut names = BTreeSet::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            is_inside = heading.contains(heading_word);
        } else if is_inside && let Some(row) = line.strip_prefix("| `") {
            names.extend(row.split('`').next().map(str::to_owned));
        }
    }
    names
}

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Libraries that are called otherwise than their packages.
const CALLED: [(&str, &str); 2] = [("md-5", "md5"), ("rustls-webpki", "webpki")];

/// All that the manifests of the crates name.
fn named() -> BTreeSet<String> {
    crates().into_iter().flat_map(|room| layers::dependencies(&room, &SECTIONS)).collect()
}

/// Direct dependencies on other people's crates.
fn direct() -> BTreeSet<String> {
    named().into_iter().filter(|name| !name.starts_with("freshet-")).collect()
}

fn compare(direct: &BTreeSet<String>, listed: &BTreeSet<String>, section: &str) {
    let places: Vec<String> = direct
        .difference(listed)
        .map(|name| format!("{name} is used and has no line"))
        .chain(listed.difference(direct).map(|name| format!("{name} has a line and is not used")))
        .collect();
    expect_none(
        &places,
        &format!("{LIST}, section {section}, is out of step"),
        "Each direct dependency has one row: why it is here, what else was considered, and whether \
         building, testing or running pulls it in.",
    );
}

#[test]
fn every_crate_we_depend_on_is_written_down() {
    compare(&direct(), &listed("Crates"), "Crates");
}

#[test]
fn what_the_workspace_has_a_version_for_is_in_a_manifest() {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("Cargo.toml is TOML");
    let table = workspace["workspace"]["dependencies"].as_table().expect("it is a table");
    let named = named();
    let places: Vec<_> = table.keys().filter(|name| !named.contains(*name)).cloned().collect();
    expect_none(&places, "a dependency of the workspace that no crate has", "Take it out.");
}

#[test]
fn what_a_manifest_names_its_crate_uses() {
    let all = files();
    let rust = |file: &&SourceFile| file.has_extension("rs");
    let mut places = Vec::new();
    for room in crates() {
        let own = format!("crates/{room}/");
        let mut text = String::new();
        for file in all.iter().filter(rust).filter(|file| file.path.starts_with(&own)) {
            text.push_str(&file.text);
        }
        // Files that it takes from elsewhere.
        for path in
            text.clone().split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next())
        {
            let name = path.rsplit('/').next().unwrap_or(path);
            all.iter()
                .filter(|file| file.name() == name)
                .for_each(|file| text.push_str(&file.text));
        }
        let is_used = |name: &String| {
            let called = CALLED.iter().find(|(package, _)| package == name);
            let called =
                called.map_or_else(|| name.replace('-', "_"), |(_, called)| (*called).into());
            text.contains(&called)
        };
        let names = layers::dependencies(&room, &SECTIONS);
        let unused = names.iter().filter(|name| !is_used(name));
        places.extend(unused.map(|name| format!("crates/{room}: {name}")));
    }
    expect_none(
        &places,
        "a dependency that its crate does not use",
        "Take it out of the manifest.",
    );
}

#[test]
fn every_node_package_is_written_down() {
    let manifest = read("tests/browser/package.json");
    // The one place that lists packages is flat: `"dependencies": { "name": "version", … }`.
    let start = manifest.find("\"dependencies\"").expect("package.json lists its dependencies");
    let block = &manifest[start..];
    let open = block.find('{').expect("it is an object");
    let close = block.find('}').expect("it is an object");
    let names = block[open + 1..close]
        .split(',')
        .filter_map(|pair| pair.split('"').nth(1))
        .map(str::to_owned)
        .collect();
    compare(&names, &listed("Node"), "Node");
}

#[test]
fn the_product_links_one_cryptography_library_and_no_banned_crate() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let tree = String::from_utf8_lossy(&output.stdout);
    let present: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(present.contains("freshet-base"), "cargo tree lists the workspace:\n{tree}");
    let places: Vec<String> =
        BANNED.into_iter().filter(|name| present.contains(name)).map(str::to_owned).collect();
    expect_none(
        &places,
        "a banned crate would be linked into the product",
        "`cargo tree --workspace -e normal,build -i NAME` says who brings it. Turn off the feature \
         that does (most clients have an `aws-lc-rs` feature instead of `ring`). Test builds are free.",
    );
}

#[test]
fn everything_comes_from_the_registry() {
    let lock = read("Cargo.lock");
    let places: Vec<String> = lock
        .lines()
        .filter(|line| line.starts_with("source = ") && !line.contains("\"registry+"))
        .map(str::to_owned)
        .collect();
    expect_none(
        &places,
        "a dependency that does not come from the registry",
        "Use a released version; a fork or a commit cannot be reviewed, mirrored or audited.",
    );
}
