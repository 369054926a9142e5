//! Smaller policies that show the same difference, and policies with one token changed.

use super::compare;
use crate::draw::Draw;
use std::path::Path;

/// Leaves out lines as long as the difference stays of its kind.
pub(crate) fn shrunk(text: &str, kind: &str, folder: &Path) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut size = lines.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        while at < lines.len() {
            let end = (at + size).min(lines.len());
            let fewer: Vec<&str> = [&lines[..at], &lines[end..]].concat();
            let differs = compare(&format!("{}\n", fewer.join("\n")), folder).flatten();
            if differs.as_deref() == Some(kind) {
                lines = fewer;
            } else {
                at = end;
            }
        }
        if size == 1 {
            return lines.join("\n");
        }
        size = size.div_ceil(2);
    }
}

/// The policies of a folder.
pub(crate) fn corpus(folder: &str) -> Vec<String> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}

/// One policy of a corpus as it is, or with a token left out, doubled or swapped with another.
pub(crate) fn mutated(corpus: &[String], seed: u64) -> String {
    let text = &corpus[(seed % corpus.len() as u64) as usize];
    if seed < corpus.len() as u64 {
        return text.clone();
    }
    let mut draw = Draw::seeded(seed);
    let mut tokens = tokens(text);
    let words: Vec<usize> = (0..tokens.len()).filter(|at| !tokens[*at].trim().is_empty()).collect();
    if words.is_empty() {
        return text.clone();
    }
    let at = words[draw.below(words.len())];
    match draw.below(3) {
        0 => tokens[at] = "",
        1 => tokens.insert(at, tokens[at]),
        _ => tokens.swap(at, words[draw.below(words.len())]),
    }
    tokens.concat()
}

/// A text in pieces: words, strings, white space and single signs.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find(['"', '\n']).map_or(rest.len(), |at| at + 2)
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(len);
        out.push(token);
        rest = after;
    }
    out
}
