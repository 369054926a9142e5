//! Who may know whom within the node: each seam of `ARCHITECTURE.md` that a line of code can break.

use freshet_tidy::{code_of, expect_none, files, product_lines};

/// A part of the node, and what it may not name.
struct Seam {
    /// Where: beginnings of paths.
    within: &'static [&'static str],
    /// Except there.
    but: &'static [&'static str],
    /// What.
    never: &'static [&'static str],
    /// What to do instead.
    advice: &'static str,
}

/// What a worker runs.
const WORKERS: &[&str] = &[
    "crates/session/src/",
    "crates/request/src/",
    "crates/fetch/src/",
    "crates/policies/src/",
    "crates/origin/src/",
    "crates/site/src/",
    "crates/worker/src/",
    "crates/node/src/",
];

const SEAMS: [Seam; 7] = [
    Seam {
        within: &["crates/session/src/"],
        but: &[],
        never: &["freshet_cache", "shared.cache", "freshet_fetch", "::keepers", "::disk"],
        advice: "a session turns bytes into requests and replies into bytes and knows no caching",
    },
    Seam {
        within: &["crates/fetch/src/"],
        but: &[],
        never: &["freshet_disk", "DiskKeeper", "place_lower"],
        advice: "a fetch asks `keepers`, and never a disk or another class of memory by itself",
    },
    Seam {
        within: &["crates/policies/src/"],
        but: &[],
        never: &[".await", "async fn", "spawn_local"],
        advice: "a policy answers: it never waits",
    },
    Seam {
        within: &["crates/policies/src/", "crates/policy/src/", "crates/vcl/src/"],
        // What programs of VCL read of their machine, where their files are, and what holds up a test on purpose.
        but: &[
            "crates/policies/src/vcl/barrier.rs",
            "crates/policies/src/vcl/files.rs",
            "crates/policies/src/vcl/host.rs",
            "crates/policies/src/vcl/load.rs",
        ],
        never: &["fs::", "env::", "TcpStream", "UnixStream", "UdpSocket", "thread::"],
        advice: "a policy answers from what it is given; a program in VCL reads of this machine in `host.rs`",
    },
    Seam {
        within: WORKERS,
        but: &[],
        never: &["tokio::spawn(", "task::spawn(", "new_multi_thread"],
        advice: "a task stays with the worker it began on: `spawn_local`",
    },
    Seam {
        within: &["crates/"],
        but: &[
            "crates/cache/src/key.rs",
            // A key's own text comes with a purge, and from the process before.
            "crates/admin/src/purge.rs",
            "crates/worker/src/handover/taking.rs",
            "crates/site/src/sites.rs",
        ],
        never: &["KeyBuilder::new("],
        advice: "a key is a site's: `SiteName` makes it",
    },
    Seam {
        within: &["crates/route/src/decision/"],
        but: &[],
        never: &["tokio", "std::fs", "Instant", "now()", "crate::live", "crate::serve"],
        advice: "where a client is sent is a value: time, health and places are handed in",
    },
];

#[test]
fn nobody_knows_more_than_the_seams_allow() {
    let mut places = Vec::new();
    for file in &files() {
        let is_of = |seam: &&Seam| {
            seam.within.iter().any(|within| file.path.starts_with(within))
                && !seam.but.iter().any(|other| file.path.starts_with(other))
        };
        for seam in SEAMS.iter().filter(is_of) {
            for (number, line) in product_lines(file) {
                let code = code_of(line);
                if let Some(found) = seam.never.iter().find(|word| code.contains(**word)) {
                    places.push(format!("{}:{number}: {found}; {}", file.path, seam.advice));
                }
            }
        }
    }
    expect_none(
        &places,
        "a part of the node knows what it should not",
        "`ARCHITECTURE.md` says who knows whom. Go through the seam, or move it for a reason and say \
         so there.",
    );
}

#[test]
fn every_seam_is_of_files_that_are_there() {
    let all = files();
    for seam in &SEAMS {
        for place in seam.within.iter().chain(seam.but) {
            assert!(all.iter().any(|file| file.path.starts_with(place)), "{place}");
        }
    }
}
