//! Who may use whom: arrows between crates point down only.

use freshet_tidy::{crates, expect_none, root};

/// The floors from the ground up. Rooms on one floor do not know each other.
const FLOORS: [&[&str]; 20] = [
    &["base"],
    &["http", "report", "fleet", "package", "limits", "geo", "documents"],
    &["quic", "store", "tokens", "policy", "radio"],
    &["wire", "device"],
    &["net", "disk"],
    &["origin", "cache", "vcl", "media", "load"],
    &["config", "acme"],
    &["content", "route", "telemetry"],
    &["channels", "access"],
    &["site"],
    &["worker"],
    &["policies", "fetch"],
    &["request"],
    &["session"],
    &["node"],
    &["router"],
    &["apps"],
    &["platform"],
    &["lab", "plan", "admin", "mec", "traces"],
    &["cli", "varnishd"],
];

/// What each room may use. Narrower than the floors where a room has no business below: the sans-I/O
/// rooms never see a socket, the index never sees a connection, an origin never sees an object.
const ALLOWED: [(&str, &[&str]); 47] = [
    ("base", &[]),
    ("report", &[]),
    ("fleet", &["base"]),
    ("package", &[]),
    ("limits", &["base"]),
    ("geo", &["base"]),
    ("tokens", &["http"]),
    ("http", &["base"]),
    ("quic", &["base", "http"]),
    ("wire", &["base", "http", "quic"]),
    ("store", &["base", "http"]),
    ("device", &["base", "store"]),
    ("disk", &["base", "store", "device"]),
    ("net", &["base", "http", "quic", "wire"]),
    ("cache", &["base", "http", "store", "disk"]),
    ("origin", &["base", "http", "wire", "net"]),
    ("load", &["quic", "wire", "net"]),
    ("acme", &["base", "http", "net", "origin"]),
    ("policy", &["base", "http"]),
    ("vcl", &["http", "policy"]),
    ("media", &["base", "http"]),
    ("content", &["http", "cache", "config"]),
    (
        "access",
        &[
            "base",
            "http",
            "limits",
            "geo",
            "store",
            "net",
            "tokens",
            "origin",
            "config",
            "telemetry",
        ],
    ),
    (
        "channels",
        &[
            "base", "http", "wire", "store", "net", "cache", "origin", "vcl", "media", "config",
            "content",
        ],
    ),
    ("telemetry", &["base", "http", "wire", "geo", "cache", "media", "config"]),
    (
        "config",
        &[
            "base", "http", "limits", "geo", "quic", "wire", "store", "device", "disk", "net",
            "cache", "origin", "media",
        ],
    ),
    (
        "site",
        &[
            "base",
            "http",
            "wire",
            "store",
            "device",
            "disk",
            "net",
            "cache",
            "origin",
            "geo",
            "config",
            "content",
            "telemetry",
            "channels",
            "access",
        ],
    ),
    (
        "worker",
        &[
            "base",
            "http",
            "store",
            "device",
            "disk",
            "net",
            "cache",
            "origin",
            "vcl",
            "tokens",
            "config",
            "telemetry",
            "channels",
            "access",
            "site",
        ],
    ),
    (
        "policies",
        &[
            "base",
            "http",
            "net",
            "cache",
            "origin",
            "vcl",
            "media",
            "geo",
            "config",
            "content",
            "telemetry",
            "access",
            "site",
            "worker",
        ],
    ),
    (
        "fetch",
        &[
            "base",
            "http",
            "wire",
            "store",
            "net",
            "cache",
            "origin",
            "media",
            "config",
            "content",
            "telemetry",
            "channels",
            "access",
            "site",
            "worker",
        ],
    ),
    (
        "request",
        &[
            "base",
            "http",
            "wire",
            "store",
            "cache",
            "origin",
            "vcl",
            "media",
            "limits",
            "config",
            "content",
            "telemetry",
            "channels",
            "access",
            "site",
            "worker",
            "fetch",
        ],
    ),
    (
        "session",
        &[
            "base",
            "http",
            "quic",
            "wire",
            "store",
            "net",
            "media",
            "limits",
            "config",
            "telemetry",
            "channels",
            "access",
            "site",
            "worker",
            "request",
        ],
    ),
    (
        "node",
        &[
            "base",
            "quic",
            "wire",
            "store",
            "device",
            "disk",
            "net",
            "cache",
            "origin",
            "vcl",
            "tokens",
            "geo",
            "config",
            "telemetry",
            "channels",
            "access",
            "site",
            "worker",
            "policies",
            "request",
            "session",
            "http",
            "media",
            "limits",
        ],
    ),
    ("lab", &["base", "http", "net", "media", "load", "report", "router"]),
    ("traces", &["base", "http", "origin", "config", "node"]),
    ("plan", &["base", "report"]),
    (
        "admin",
        &[
            "base", "http", "wire", "store", "disk", "net", "cache", "origin", "vcl", "media",
            "limits", "config", "node", "acme",
        ],
    ),
    ("documents", &[]),
    ("radio", &["documents"]),
    ("apps", &["base", "http", "net", "origin", "router", "package", "fleet"]),
    ("platform", &["base", "router", "limits", "documents", "radio", "apps"]),
    (
        "mec",
        &[
            "base",
            "net",
            "router",
            "package",
            "limits",
            "fleet",
            "documents",
            "radio",
            "apps",
            "platform",
        ],
    ),
    ("router", &["base"]),
    ("route", &["base", "net", "origin", "config", "geo", "limits"]),
    (
        "cli",
        &[
            "base", "http", "wire", "store", "device", "disk", "net", "cache", "origin", "vcl",
            "media", "config", "node", "load", "lab", "plan", "admin", "mec", "router", "report",
            "fleet", "acme", "route", "traces", "radio", "apps",
        ],
    ),
    (
        "varnishd",
        &[
            "base", "http", "wire", "store", "disk", "net", "cache", "origin", "vcl", "media",
            "config", "node",
        ],
    ),
    // Reads the others as text only.
    ("tidy", &[]),
];

/// Rooms that do no I/O: time is an argument, there are no sockets and no runtime.
pub(crate) const SANS_IO: [&str; 14] = [
    "tokens",
    "limits",
    "http",
    "quic",
    "wire",
    "policy",
    "vcl",
    "media",
    "cache",
    "content",
    "plan",
    "report",
    "documents",
    "radio",
];

/// Crates that bring sockets, files or a runtime.
const IO_CRATES: [&str; 9] =
    ["tokio", "rustix", "socket2", "mio", "hyper", "h2", "axum", "io-uring", "quinn-udp"];

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

fn manifest(room: &str) -> toml::Table {
    let path = root().join("crates").join(room).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).expect("every room has a manifest");
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in the given sections of a manifest, also in those for one target only.
pub(crate) fn dependencies(room: &str, sections: &[&str]) -> Vec<String> {
    let manifest = manifest(room);
    let targets = manifest.get("target").and_then(toml::Value::as_table).into_iter();
    let tables = targets.flat_map(|by_target| by_target.values()).filter_map(toml::Value::as_table);
    let mut names: Vec<String> = std::iter::once(&manifest)
        .chain(tables)
        .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)?.as_table()))
        .flat_map(|section| section.keys().cloned())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

#[test]
fn every_arrow_between_crates_points_down() {
    let mut places = Vec::new();
    for room in crates() {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == room) else {
            places.push(format!("crates/{room} is not in the table"));
            continue;
        };
        for name in dependencies(&room, &SECTIONS) {
            let Some(used) = name.strip_prefix("freshet-") else { continue };
            if !allowed.contains(&used) {
                places.push(format!("crates/{room}/Cargo.toml: {room} uses {used}"));
            }
        }
    }
    expect_none(
        &places,
        "an arrow between crates that the house does not have",
        "Move the shared part down to a room both may use, or hand it over as an argument or a trait.\n\
         If the house itself should change, change ARCHITECTURE.md and ALLOWED in \
         crates/tidy/tests/tidy/layers.rs together.",
    );
}

#[test]
fn the_table_of_arrows_agrees_with_the_floors() {
    let mut places = Vec::new();
    for (room, allowed) in ALLOWED.iter().filter(|(room, _)| *room != "tidy") {
        let Some(upper) = floor(room) else {
            places.push(format!("{room} is on no floor"));
            continue;
        };
        for used in *allowed {
            let is_below = floor(used).is_some_and(|lower| lower < upper);
            if !is_below {
                places.push(format!("{room} may use {used}, which is not below it"));
            }
        }
    }
    expect_none(&places, "ALLOWED contradicts FLOORS", "Correct one of the two in layers.rs.");
}

#[test]
fn rooms_without_io_pull_in_no_sockets_and_no_runtime() {
    let mut places = Vec::new();
    for room in crates().iter().filter(|room| SANS_IO.contains(&room.as_str())) {
        for name in dependencies(room, &["dependencies", "build-dependencies"]) {
            if IO_CRATES.contains(&name.as_str()) {
                places.push(format!("crates/{room}/Cargo.toml: {name}"));
            }
        }
    }
    expect_none(
        &places,
        "a crate that does no I/O depends on one that does",
        "Return values or events and let the caller read, write and wait; dev-dependencies are free.",
    );
}

#[test]
fn versions_of_dependencies_are_kept_in_one_place() {
    let mut places = Vec::new();
    for room in crates() {
        let manifest = manifest(&room);
        for section in SECTIONS {
            let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for (name, value) in table {
                let inherits = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                if !inherits {
                    places.push(format!("crates/{room}/Cargo.toml: {name}"));
                }
            }
        }
    }
    expect_none(
        &places,
        "a dependency with a version of its own",
        "Put the version into [workspace.dependencies] of the root Cargo.toml and write \
         `name.workspace = true` here.",
    );
}
