//! Policies of folders: in files of their own, in scripts of `varnishtest` and in pages.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Every policy below folders, which have colons between them, with the file it is in; each text
/// once.
pub(crate) fn policies(folders: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in folders.split(':') {
        below(Path::new(folder), &mut found);
    }
    found.sort();
    let mut texts = BTreeSet::new();
    found.retain(|(_, text)| texts.insert(text.clone()));
    found
}

fn below(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let policies = match path.extension().and_then(|extension| extension.to_str()) {
                Some("vcl") => vec![text],
                Some("vtc") => of_script(&text),
                Some("md") => of_page(&text),
                _ => continue,
            };
            let name = path.display().to_string();
            found.extend(policies.into_iter().map(|policy| (name.clone(), policy)));
        }
    }
}

/// What a script loads, its servers as backends.
fn of_script(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("-vcl") {
        let rest = &text[at..];
        let word = rest.split_whitespace().next().unwrap_or("");
        let body = rest[word.len()..].trim_start();
        if !matches!(word, "-vcl" | "-vcl+backend") || !body.starts_with('{') {
            continue;
        }
        let body = &body[1..closing(body) - 1];
        let mut policy = String::new();
        if !body.contains("vcl 4.") {
            policy.push_str("vcl 4.1;\n");
        }
        let servers = text.split("server ").skip(1).filter_map(|rest| rest.split(' ').next());
        let names: BTreeSet<_> = servers.filter(|name| name.starts_with('s')).collect();
        for name in names.iter().filter(|_| word == "-vcl+backend") {
            let _ = writeln!(policy, "backend {name} {{ .host = \"127.0.0.1\"; }}");
        }
        policy.push_str(&filled(body));
        found.push(policy);
    }
    found
}

/// A text of a script with something for its macros.
fn filled(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').unwrap_or((behind, ""));
        out.push_str(before);
        out.push_str(match name.rsplit('_').next() {
            Some("addr") => "127.0.0.1",
            Some("port") => "80",
            _ => "x",
        });
        rest = after;
    }
    out + rest
}

/// The whole policies that a page shows.
fn of_page(text: &str) -> Vec<String> {
    let blocks = text.split("```vcl\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.starts_with("vcl 4")).map(str::to_owned).collect()
}

/// Where what begins with a brace ends.
pub(crate) fn closing(text: &str) -> usize {
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
