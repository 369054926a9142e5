//! Where `unsafe` may be, and that each one says why it holds.

use freshet_tidy::{SourceFile, code_of, crates, expect_none, files};

/// Rooms that may write `unsafe`: sockets and passed descriptors, mapped memory, and the kernel's queue for
/// disks with the blocks it reads into.
const MAY_BE_UNSAFE: [&str; 3] = ["net", "store", "device"];

/// How far above the block its reason may stand: a comment of some lines and a statement that is
/// broken over a few.
const REASON_LINES_MAX: usize = 12;

/// Whether the code of a line has the word, not as part of a longer one.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(start, found)| {
        let before = code[..start].chars().next_back();
        let after = code[start + found.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn is_reason(line: &str) -> bool {
    line.contains("// SAFETY:") || line.contains("/// # Safety") || line.contains("// SAFETY ")
}

fn lacks_reason(file: &SourceFile) -> Vec<usize> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_unsafe = |line: &str| {
        let code = code_of(line);
        has_word(&code, "unsafe") && !code.trim_start().starts_with("#[")
    };
    (0..lines.len())
        .filter(|&index| is_unsafe(lines[index]))
        .filter(|&index| {
            !lines[index.saturating_sub(REASON_LINES_MAX)..=index]
                .iter()
                .any(|line| is_reason(line))
        })
        .map(|index| index + 1)
        .collect()
}

#[test]
fn every_crate_forbids_unsafe_code_but_those_that_need_it() {
    let all = files();
    let mut places = Vec::new();
    for room in crates().iter().filter(|room| !MAY_BE_UNSAFE.contains(&room.as_str())) {
        let source = format!("crates/{room}/src/");
        let is_root = |path: &str| {
            path.strip_prefix(&source).is_some_and(|rest| {
                matches!(rest, "lib.rs" | "main.rs")
                    || rest.strip_prefix("bin/").is_some_and(|name| !name.contains('/'))
            })
        };
        places.extend(
            all.iter()
                .filter(|file| is_root(&file.path))
                .filter(|file| !file.lines().any(|(_, line)| line == "#![forbid(unsafe_code)]"))
                .map(|file| file.path.clone()),
        );
    }
    expect_none(
        &places,
        "a crate root without #![forbid(unsafe_code)]",
        "Add the line. What needs `unsafe` belongs into net, store or disk, behind a safe interface.",
    );
}

#[test]
fn every_unsafe_says_why_it_holds() {
    let places: Vec<String> = files()
        .iter()
        .filter(|file| file.has_extension("rs") && file.room() != Some("tidy"))
        .flat_map(|file| {
            let path = &file.path;
            lacks_reason(file).into_iter().map(move |line| format!("{path}:{line}"))
        })
        .collect();
    expect_none(
        &places,
        "`unsafe` without its reason",
        "Write `// SAFETY: …` directly above it: which rule must hold and why it does here. An \
         `unsafe fn` has a `# Safety` section that says what the caller owes.",
    );
}

#[test]
fn the_search_for_reasons_finds_what_it_should() {
    let of = |text: &str| {
        lacks_reason(&SourceFile { path: "crates/x/src/a.rs".to_owned(), text: text.to_owned() })
    };
    assert_eq!(of("fn a() {\n    unsafe { b() }\n}\n"), [2]);
    assert!(of("// SAFETY: b has no precondition.\nunsafe { b() }\n").is_empty());
    assert!(of("#![forbid(unsafe_code)]\nlet unsafe_count = \"unsafe\"; // unsafe\n").is_empty());
}
