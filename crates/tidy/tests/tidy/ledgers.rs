//! Counts of what is held neither wrap nor stop at zero in silence: one that would is a bug that is seen.
//!
//! Where they are, `overflow-checks` make arithmetic an assertion in release builds, and what several threads
//! write is given back through `freshet_base::ledger`. A clamp there says why it is none.

use freshet_tidy::{code_of, expect_none, files, product_lines, root};

/// Where what is held is counted: beginnings of paths.
const LEDGERS: [&str; 24] = [
    "crates/access/src/ledger/",
    "crates/cache/src/census.rs",
    "crates/cache/src/eviction/fifo.rs",
    "crates/cache/src/left.rs",
    "crates/cache/src/lower.rs",
    "crates/cache/src/object.rs",
    "crates/cache/src/share.rs",
    "crates/disk/src/drive/queue.rs",
    "crates/disk/src/index.rs",
    "crates/disk/src/table.rs",
    "crates/disk/src/volume.rs",
    "crates/disk/src/writer.rs",
    "crates/limits/src/counts.rs",
    "crates/limits/src/pools.rs",
    "crates/quic/src/connection/handshake.rs",
    "crates/quic/src/connection/recovery.rs",
    "crates/quic/src/receive.rs",
    "crates/quic/src/send.rs",
    "crates/quic/src/sent.rs",
    "crates/site/src/shares.rs",
    "crates/store/src/arena/",
    "crates/store/src/body/state.rs",
    "crates/wire/src/h2/window.rs",
    "crates/worker/src/farewell.rs",
];

/// Subtractions that never fail.
const CLAMPS: [&str; 2] = ["saturating_sub", "wrapping_sub"];

/// Clamps in ledgers: the file, what the line has, and why it is no bug that is hidden.
const CLAMPED: [(&str, &str, &str); 22] = [
    ("access/src/ledger/", "CONNECTION_BYTES_FREE", "what is beyond a limit, if anything"),
    ("access/src/ledger/", "bytes.saturating_sub(known)", "how much more, if it is more"),
    ("access/src/ledger/", "bytes.saturating_sub(holder_known)", "how much more, if it is more"),
    ("cache/src/eviction/fifo.rs", "self.epoch", "a clock that goes round"),
    ("cache/src/object.rs", "self.body.held_bytes()", "others fill and read the body meanwhile"),
    ("disk/src/volume.rs", "read_errors", "two counters that others write meanwhile"),
    ("disk/src/volume.rs", "info.live_units", "lengths in the index are rounded up"),
    ("limits/src/pools.rs", "now.0", "a clock of another thread may be ahead"),
    ("limits/src/pools.rs", "due(one)", "what is not used of a share, if anything"),
    ("quic/src/connection/recovery.rs", "now.saturating_sub", "a time that may be before"),
    ("quic/src/connection/recovery.rs", "gone.sent", "a time that may be before"),
    ("quic/src/receive.rs", "self.start.saturating_sub(offset)", "what came again, if anything"),
    ("quic/src/send.rs", "at.wrapping_sub(1)", "the place before the first is none"),
    ("quic/src/sent.rs", "number.saturating_sub(self.first)", "a number of the peer's"),
    ("site/src/shares.rs", "self.limit_bytes?", "a limit may be lowered below what is used"),
    ("store/src/arena/state.rs", "total_bytes", "what is lacking, if anything"),
    ("store/src/arena/fills.rs", "committed_bytes", "a limit may be lowered below what is used"),
    ("store/src/arena/fills.rs", "wanted_bytes", "how much more, if it is more"),
    ("store/src/arena/fills.rs", "self.taken_bytes", "how much more, if it is more"),
    ("store/src/arena/fills.rs", "self.kept_bytes", "how much less, if it is less"),
    ("store/src/body/state.rs", "writer.position", "an origin may send more than it told"),
    ("store/src/body/state.rs", "self.total", "an origin may send more than it told"),
];

/// Who takes from an atomic number otherwise than through `freshet_base::ledger`, and why.
const TAKES_OTHERWISE: [(&str, &str); 3] = [
    ("crates/base/src/ledger.rs", "it is what does so for all"),
    ("crates/limits/src/counts.rs", "a part of a word, and what is left of it is asserted there"),
    ("crates/load/src/lane.rs", "a budget with a sign"),
];

#[test]
fn what_is_held_is_not_clamped() {
    let mut places = Vec::new();
    let mut met = [false; CLAMPED.len()];
    for file in &files() {
        if !LEDGERS.iter().any(|ledger| file.path.starts_with(ledger)) {
            continue;
        }
        for (number, line) in product_lines(file) {
            let code = code_of(line);
            if !CLAMPS.iter().any(|clamp| code.contains(clamp)) {
                continue;
            }
            let is_known = |(path, part, _): &(&str, &str, &str)| {
                file.path["crates/".len()..].starts_with(path) && code.contains(part)
            };
            match CLAMPED.iter().position(is_known) {
                Some(at) => met[at] = true,
                None => places.push(format!("{}:{number}: {}", file.path, code.trim())),
            }
        }
    }
    let unmet = CLAMPED.iter().zip(met).filter(|(_, met)| !met);
    places.extend(unmet.map(|((path, part, _), _)| format!("{path}: nothing has {part} any more")));
    expect_none(
        &places,
        "what is held is clamped",
        "Subtract, so that it is seen when more leaves than came; where a peer, a clock or another thread \
         may have it so, CLAMPED in crates/tidy/tests/tidy/ledgers.rs says why.",
    );
}

#[test]
fn what_threads_hold_together_is_given_back_in_one_way() {
    let mut places = Vec::new();
    for file in &files() {
        if TAKES_OTHERWISE.iter().any(|(path, _)| *path == file.path) {
            continue;
        }
        for (number, line) in product_lines(file) {
            if code_of(line).contains(".fetch_sub(") {
                places.push(format!("{}:{number}", file.path));
            }
        }
    }
    expect_none(
        &places,
        "an atomic number that wraps in silence",
        "`freshet_base::ledger::Ledger::give_back` takes from it and says when there was less.",
    );
}

#[test]
fn where_ledgers_are_arithmetic_is_an_assertion() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let manifest: toml::Table = text.parse().expect("Cargo.toml is TOML");
    let packages = &manifest["profile"]["release"]["package"];
    let is_checked = |room: &String| {
        let package = packages.get(format!("freshet-{room}"));
        package.and_then(|package| package.get("overflow-checks")?.as_bool()) == Some(true)
    };
    let of = |path: &str| path["crates/".len()..].split('/').next().unwrap_or("").to_owned();
    let rooms: std::collections::BTreeSet<_> = LEDGERS.iter().map(|path| of(path)).collect();
    let places: Vec<String> = rooms.into_iter().filter(|room| !is_checked(room)).collect();
    expect_none(
        &places,
        "a crate with ledgers whose arithmetic wraps in release builds",
        "Give it `overflow-checks = true` in `[profile.release.package]`.",
    );
}
