//! What `ARCHITECTURE.md` says that never is, or only: each such sentence is held by a test, which is named here.

use freshet_tidy::{expect_none, files, root};

/// Tests of this crate.
const TIDY: &str = "crates/tidy/tests/tidy/";

/// A sentence by its beginning, and what holds it: the ends of files' paths, and tests in them.
const HELD: [(&str, &[(&str, &str)]); 17] = [
    ("Tasks never move between workers", &[("seams.rs", "nobody_knows_more_than_the_seams_allow")]),
    ("Arrows point down only", &[("layers.rs", "every_arrow_between_crates_points_down")]),
    (
        "A crate has 12,000 lines of product code at most, and at most nine modules of a folder can only",
        &[
            ("rooms.rs", "no_room_is_larger_than_a_person_can_know"),
            ("rooms.rs", "no_knot_of_modules_is_larger_than_a_person_unties"),
        ],
    ),
    ("what it never knows", &[("layers.rs", "every_arrow_between_crates_points_down")]),
    (
        "requests and fetches but their tasks; it never waits",
        &[("seams.rs", "nobody_knows_more_than_the_seams_allow")],
    ),
    (
        "`unsafe` is in `net`, `store` and `device` only",
        &[("safety.rs", "every_crate_forbids_unsafe_code_but_those_that_need_it")],
    ),
    (
        "A policy answers and does nothing else: it never waits",
        &[("seams.rs", "nobody_knows_more_than_the_seams_allow")],
    ),
    (
        "A client that leaves ends it only if it was a pass",
        &[
            (
                "crates/node/tests/node/h2.rs",
                "a_client_that_cancels_within_a_body_leaves_the_fill_alone",
            ),
            ("crates/node/tests/node/h2.rs", "a_pass_whose_client_cancels_ends_at_the_origin"),
        ],
    ),
    (
        "What a body lacks is asked for as its policy says, and joins it only by",
        &[
            ("crates/node/tests/node/splice.rs", "what_is_not_surely_the_same_is_never_continued"),
            (
                "crates/node/tests/node/splice.rs",
                "every_byte_of_a_response_comes_from_one_origins_one_representation",
            ),
        ],
    ),
    (
        "A manifest is read once for each version that comes, never for a request",
        &[
            (
                "crates/node/tests/node/media/kept.rs",
                "playlists_that_are_packed_here_are_read_all_the_same",
            ),
            ("crates/node/tests/node/media/kept.rs", "bodies_pass_as_they_are_whatever_they_are"),
        ],
    ),
    (
        "What it says only shortens what an origin allows",
        &[
            (
                "crates/channels/src/tests.rs",
                "a_channel_gives_a_lifetime_only_where_its_origin_says_nothing_of_that",
            ),
            (
                "crates/channels/src/tests.rs",
                "what_an_origin_says_against_sharing_counts_unless_a_site_overrides_it",
            ),
        ],
    ),
    (
        "A fetch asks all keepers as one and knows none; a body knows a source, and never",
        &[
            ("seams.rs", "nobody_knows_more_than_the_seams_allow"),
            ("layers.rs", "every_arrow_between_crates_points_down"),
        ],
    ),
    (
        "A key is fetched and stored in one group of workers; a copy in another is used only while",
        &[
            (
                "crates/cache/tests/cache/groups.rs",
                "a_purge_of_any_kind_leaves_no_copy_to_be_found",
            ),
            ("crates/node/tests/node/groups.rs", "what_is_renewed_or_grows_stale_is_so_in_copies"),
        ],
    ),
    (
        "Bytes below a body's watermark never change",
        &[("crates/store/src/races.rs", "readers_see_what_was_published_while_more_is_written")],
    ),
    (
        "A byte from a disk is checked before anyone sees it, and a disk is never waited for",
        &[
            ("crates/disk/src/tests/engine.rs", "a_bad_range_costs_its_own_objects_only"),
            ("crates/disk/src/tests/health.rs", "a_suspect_disk_is_not_waited_for_long"),
        ],
    ),
    (
        "A node tries a configuration of its fleet only when its disk says so",
        &[(
            "crates/fleet/tests/config/main.rs",
            "a_version_goes_no_further_than_its_health_is_confirmed_and_nobody_stays_on_a_bad_one",
        )],
    ),
    (
        "The line of the edge router is a bridge; its programs only take packets out of it",
        &[
            ("crates/router/tests/kernel/untouched.rs", "signals_of_tunnels_go_on_as_they_came"),
            (
                "crates/router/tests/kernel/equality.rs",
                "broken_frames_are_to_the_kernel_what_they_are_to_the_model",
            ),
        ],
    ),
];

/// The sentences of a page, with the cells of its tables.
fn sentences(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        let line = line.trim();
        let begins = line.is_empty() || line.starts_with(['-', '|', '#']);
        if begins {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().expect("there is one");
        block.push_str(line.trim_start_matches(['-', '#']).trim_start());
        block.push(' ');
    }
    let parts = blocks.iter().flat_map(|block| block.split(" | "));
    let sentences = parts.flat_map(|part| part.split(". "));
    sentences.map(|one| one.trim_matches(['|', ' ', '.']).to_owned()).collect()
}

fn claims(sentence: &str) -> bool {
    let mut words = sentence.split(|sign: char| !sign.is_alphabetic());
    words.any(|word| matches!(word, "never" | "Never" | "only" | "Only"))
}

#[test]
fn what_never_is_or_only_is_held_by_a_test() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there");
    let all = sentences(&text);
    let is_held = |sentence: &&String| HELD.iter().any(|(begin, _)| sentence.starts_with(begin));
    let claimed = all.iter().filter(|sentence| claims(sentence));
    let mut places: Vec<String> = claimed.filter(|one| !is_held(one)).cloned().collect();
    let is_gone = |begin: &&str| !all.iter().any(|one| claims(one) && one.starts_with(begin));
    let gone = HELD.iter().map(|(begin, _)| *begin).filter(is_gone);
    places.extend(gone.map(|begin| format!("it does not say any more: {begin}")));
    let files = files();
    for (begin, tests) in HELD {
        for (path, name) in tests {
            let is_own = !path.contains('/');
            let path = if is_own { format!("{TIDY}{path}") } else { (*path).to_owned() };
            let test = format!("fn {name}(");
            let is_there = files.iter().any(|file| file.path == path && file.text.contains(&test));
            if !is_there {
                places.push(format!("{begin}: no {name} in {path}"));
            }
        }
    }
    expect_none(
        &places,
        "a sentence with `never` or `only` in ARCHITECTURE.md that no test holds",
        "Write the test and name it in HELD, or do not say it.",
    );
}

#[test]
fn sentences_are_found_in_lists_and_tables() {
    let found = sentences("# A\n\nOne. Two\ngoes on.\n- Three.\n  Four.\n\n| a | b. c |\n");
    let found: Vec<_> = found.iter().map(String::as_str).filter(|one| !one.is_empty()).collect();
    assert_eq!(found, ["A", "One", "Two goes on", "Three", "Four", "a", "b", "c"]);
    assert!(claims("it never is") && claims("Only so") && !claims("lonely nevertheless"));
}
