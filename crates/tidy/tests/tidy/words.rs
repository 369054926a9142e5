//! Words that do not belong into the project.

use freshet_tidy::{SourceFile, expect_none, files};

/// This folder has to spell what it looks for.
const OWN_TESTS: &str = "crates/tidy/tests/";

/// Words for work that is not done. The tree says what is; what is to come is planned elsewhere.
const UNDONE: [&str; 5] = ["TODO", "FIXME", "XXX", "todo!", "unimplemented!"];

/// Places that exist only where somebody worked on the project.
const WORKPLACE: [&str; 4] = ["/work/", "../shared", ".library", "contracts.md"];

/// Ways to keep code or tests that nothing runs.
const ASLEEP: [&str; 3] = ["allow(dead_code)", "allow(unused", "#[ignore]"];

fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Where the phrase stands in a line with no letter or digit against it on either side. The sides
/// of a phrase that itself ends in a sign are free.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let guards_start = phrase.starts_with(is_part_of_word);
    let guards_end = phrase.ends_with(is_part_of_word);
    line.match_indices(phrase).any(|(start, found)| {
        let before = line[..start].chars().next_back();
        let after = line[start + found.len()..].chars().next();
        let continues_before = guards_start && before.is_some_and(is_part_of_word);
        let continues_after = guards_end && after.is_some_and(is_part_of_word);
        !continues_before && !continues_after
    })
}

/// Whether a line refers to an issue by number without saying whose: "issue 12", " #12". With its
/// repository, `owner/name#12`, the reference can be followed and is fine.
fn has_bare_issue_number(line: &str) -> bool {
    let lower = line.to_lowercase();
    let starts_with_digit = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let worded = ["issue ", "issues "].iter().any(|word| {
        lower.match_indices(word).any(|(start, found)| {
            let rest = &lower[start + found.len()..];
            starts_with_digit(rest.strip_prefix('#').unwrap_or(rest))
        })
    });
    let bare = line.match_indices(" #").any(|(start, found)| {
        // "PKCS #8" is a standard: a name in capitals says whose number it is.
        let name = line[..start].split(|before: char| !before.is_alphanumeric()).next_back();
        let is_named =
            name.is_some_and(|name| name.len() > 1 && !name.contains(char::is_lowercase));
        let number: String =
            line[start + found.len()..].chars().take_while(char::is_ascii_alphanumeric).collect();
        !is_named && !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
    });
    worded || bare
}

fn written_files() -> impl Iterator<Item = SourceFile> {
    let is_data =
        |file: &SourceFile| file.has_extension("lock") || file.name() == "package-lock.json";
    files().into_iter().filter(move |file| !file.path.starts_with(OWN_TESTS) && !is_data(file))
}

fn places(is_offending: impl Fn(&SourceFile, &str) -> bool) -> Vec<String> {
    written_files()
        .flat_map(|file| {
            let found: Vec<String> = file
                .lines()
                .filter(|(_, line)| is_offending(&file, line))
                .map(|(number, line)| format!("{}:{number}: {}", file.path, line.trim()))
                .collect();
            found
        })
        .collect()
}

#[test]
fn nothing_is_left_for_later() {
    let found = places(|_, line| UNDONE.iter().any(|word| has_phrase(line, word)));
    expect_none(
        &found,
        "a note about work that is not done",
        "Do it, or leave it out and say in the documentation what is not there.",
    );
}

#[test]
fn nothing_is_put_to_sleep() {
    let found = places(|file, line| {
        file.has_extension("rs") && ASLEEP.iter().any(|phrase| line.contains(phrase))
    });
    expect_none(
        &found,
        "code or tests that nothing runs",
        "Delete it or use it. A test that needs something from outside returns early without it and \
         says so; one that must be started by hand has `#[ignore = \"why\"]`.",
    );
}

#[test]
fn no_workplace_is_named() {
    let found = places(|_, line| WORKPLACE.iter().any(|path| line.contains(path)));
    expect_none(
        &found,
        "a path of somebody's workplace",
        "Take it as an argument or an environment variable, or write the path within the project.",
    );
}

#[test]
fn no_issue_number_stands_alone() {
    let found = places(|file, line| {
        (file.has_extension("rs") || file.has_extension("md")) && has_bare_issue_number(line)
    });
    expect_none(
        &found,
        "a bare issue number",
        "Say what it was about in words, so that the text stands alone; for another project's issue \
         write owner/name and the number.",
    );
}

#[test]
fn the_searches_find_what_they_should() {
    assert!(has_phrase("// TODO: later", "TODO") && !has_phrase("AUTODOC", "TODO"));
    assert!(has_phrase("    todo!()", "todo!") && !has_phrase("let todos = 1;", "TODO"));
    assert!(has_bare_issue_number("fixed in #12") && has_bare_issue_number("see issue 7"));
    assert!(!has_bare_issue_number("PKCS #8, PKCS #1 or SEC 1") && has_bare_issue_number("In #8"));
    assert!(!has_bare_issue_number("hyperium/h2#902") && !has_bare_issue_number("colour #123abc"));
}
