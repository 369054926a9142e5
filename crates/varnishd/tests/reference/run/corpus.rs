//! Policies of a folder, as operators have them, with the origin in the place of their backends.

use std::path::Path;

/// Every `.vcl` below a folder that can be read, by name.
pub(super) fn policies(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    below(Path::new(folder), &mut found);
    found.sort();
    found
}

fn below(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "vcl")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            found.push((path.display().to_string(), retargeted(&text)));
        }
    }
}

/// A policy whose backends are all the origin, whose objects are its own, and which checks nothing.
fn retargeted(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("backend ") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let body = from.find('{').filter(|open| from[..*open].split_whitespace().count() == 2);
        let Some(open) = body.filter(|_| before.ends_with(['\n', ' ', '}', ';']) || out.is_empty())
        else {
            out.push_str("backend ");
            rest = &from["backend ".len()..];
            continue;
        };
        let end = open + closing(&from[open..]);
        out.push_str(&from[..open]);
        out.push_str("{ .host = \"127.0.0.1\"; .port = \"ORIGIN\"; }\n");
        rest = &from[end..];
    }
    out.push_str(rest);
    // In front of what the policy says itself, or it would never be reached.
    let end = out.find("vcl 4").and_then(|at| Some(at + out[at..].find(';')? + 1)).unwrap_or(0);
    out.insert_str(end, "\nsub vcl_hash { hash_data(\"SEED\"); }\n");
    out
}

/// Where what begins with a brace ends.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}
