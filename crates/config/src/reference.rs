//! The reference page of `freshet.toml`, or of another program's file, written from its table of keys.

use super::keys::{Key, Keys, Kind, NODE};
use std::fmt::Write as _;

/// The page as Markdown, the text of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# freshet.toml\n\nEvery key with its default. A key that is left out has its default; an \
         unknown or wrong one is\nan error that names its line. Sizes are written `256MB` or \
         `4GiB`, times `250ms`, `10s`, `7d`. Check a file\nwith `freshet check freshet.toml`. \
         Keys with \"yes\" under site may also stand in a `[[site]]`, as `[site.cache]` or\n\
         `[[site.origin]]`, and hold for that site then; [sites.md](sites.md) shows how.\n",
    );
    out.push_str(&tables(&NODE));
    out
}

/// A table for each table of a file.
pub fn tables(keys: &Keys) -> String {
    let (mut out, mut section) = (String::new(), None);
    let (head, rule) =
        if keys.has_sites { ("| default | site |", "|---|---|") } else { ("| default |", "|---|") };
    for key in keys.list {
        let (table, name) = split(key);
        if section != Some(table) {
            section = Some(table);
            let heading = match (table, key.path.contains("[]")) {
                ("", _) => "Top level".to_owned(),
                (table, true) => format!("`[[{table}]]`, any number of times"),
                (table, false) => format!("`[{table}]`"),
            };
            let _ = write!(out, "\n## {heading}\n\n| key | value {head} |\n|---|---{rule}---|\n");
        }
        let default =
            if key.default.is_empty() { "–".to_owned() } else { format!("`{}`", key.default) };
        let help = key.whole_help().replace('|', "\\|");
        let site = match (keys.has_sites, key.is_per_site) {
            (true, true) => " yes |",
            (true, false) => "  |",
            (false, _) => "",
        };
        let _ = writeln!(out, "| `{name}` | {} | {default} |{site} {help} |", kind(key.kind));
    }
    out
}

fn split(key: &Key) -> (&'static str, &'static str) {
    match key.path.split_once("[].").or_else(|| key.path.split_once('.')) {
        Some((table, name)) => (table, name),
        None => ("", key.path),
    }
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true, false".to_owned(),
        Kind::Count { min, max } => format!("{min} to {max}"),
        Kind::Size => "size".to_owned(),
        Kind::Span => "time".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Choice(words) => {
            words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::TextList => "list".to_owned(),
        Kind::File | Kind::SecretFile => "file".to_owned(),
        Kind::SecretFiles => "files".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::keys::KEYS;

    #[test]
    fn paths_are_unique() {
        let mut paths: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
    }

    /// The page in the repository is the one this code writes; `UPDATE_DOCS=1` writes it anew.
    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let want = super::markdown();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &want).unwrap();
        }
        let have = std::fs::read_to_string(path).unwrap_or_default();
        assert!(have == want, "docs/configuration.md is old: run the tests with UPDATE_DOCS=1");
    }
}
