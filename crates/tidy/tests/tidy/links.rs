//! Links between the project's own documents lead somewhere.

use std::path::{Component, Path, PathBuf};

use freshet_tidy::{SourceFile, expect_none, files, root};

/// The targets of `[text](target)` outside code, with the line they stand in.
fn links(file: &SourceFile) -> Vec<(usize, String)> {
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced {
            continue;
        }
        // Every second piece between back quotes is code.
        for prose in line.split('`').step_by(2) {
            for piece in prose.split("](").skip(1) {
                let target = piece.split([')', ' ']).next().unwrap_or("");
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchor a heading gets: lower case, spaces to dashes, other signs dropped.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

fn anchors(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

/// The path without `.` and `..`, or nothing when it leaves the project.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => clean.pop().then_some(())?,
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    Some(clean)
}

fn problem(file: &SourceFile, target: &str) -> Option<&'static str> {
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&file.path).parent().expect("a file is in a folder");
    let text = if path.is_empty() {
        file.text.clone()
    } else {
        let Some(clean) = normal(&folder.join(path)) else { return Some("leaves the project") };
        let full = root().join(clean);
        if !full.exists() {
            return Some("does not exist");
        }
        std::fs::read_to_string(full).unwrap_or_default()
    };
    let is_found = fragment.is_empty() || anchors(&text).iter().any(|name| name == fragment);
    (!is_found).then_some("has no such heading")
}

#[test]
fn links_between_documents_resolve() {
    let mut places = Vec::new();
    for file in files().iter().filter(|file| file.has_extension("md")) {
        for (number, target) in links(file) {
            let is_outside =
                ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
            if !is_outside && let Some(problem) = problem(file, &target) {
                places.push(format!("{}:{number}: {target} {problem}", file.path));
            }
        }
    }
    expect_none(
        &places,
        "a link that leads nowhere",
        "Correct the path (relative to the document) or the heading after the '#'.",
    );
}

#[test]
fn anchors_are_made_as_the_readers_make_them() {
    assert_eq!(anchor("Crates: why, what else"), "crates-why-what-else");
    let text = "see [a](b.md#c), `[no](x)` and\n```\n[no](y)\n```\n".to_owned();
    let file = SourceFile { path: "a.md".to_owned(), text };
    assert_eq!(links(&file), [(1, "b.md#c".to_owned())]);
}
