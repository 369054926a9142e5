//! The files an editor has open, and what can be said of them.

use super::{Item, completed, is_word, meaning};
use crate::{Report, Severity, Source, Span};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Texts by address, and what the Language Server Protocol says of them.
#[derive(Debug, Default)]
pub struct Documents(HashMap<String, String>);

impl Documents {
    /// Takes a text over, which `compile` reads beside what is in its folder; the notification with its mistakes.
    pub fn change(
        &mut self,
        uri: &str,
        text: &str,
        compile: impl FnOnce(Source, Option<&Path>) -> Report,
    ) -> Value {
        self.0.insert(uri.to_owned(), text.to_owned());
        let path = path_of(uri);
        let source = Source { name: path.display().to_string(), text: text.to_owned() };
        published(uri, &mistakes(&compile(source, path.parent()), text))
    }

    /// Forgets a text, and its mistakes.
    pub fn close(&mut self, uri: &str) -> Value {
        self.0.remove(uri);
        published(uri, &[])
    }

    /// What the word at a place means.
    pub fn hover(&self, uri: &str, at: (usize, usize)) -> Value {
        let Some(text) = self.0.get(uri) else { return Value::Null };
        let Some(at) = byte_at(text, at) else { return Value::Null };
        let end = text[at..].find(|c| !is_word(c)).map_or(text.len(), |behind| at + behind);
        match meaning(text, end) {
            Some(meaning) => json!({ "contents": { "kind": "markdown", "value": meaning } }),
            None => Value::Null,
        }
    }

    /// What can stand at a place: names that begin as the word there.
    pub fn completion(&self, uri: &str, at: (usize, usize)) -> Value {
        let text = self.0.get(uri).map_or("", String::as_str);
        let Some(at) = byte_at(text, at) else { return json!([]) };
        let shown = |Item { label, kind, detail }| json!({ "label": label, "kind": kind, "detail": detail });
        completed(text, at).into_iter().map(shown).collect()
    }

    /// The one edit that lays a text out; none where it is or cannot be.
    pub fn format(&self, uri: &str) -> Value {
        let Some(text) = self.0.get(uri) else { return Value::Null };
        let source = Source { name: uri.to_owned(), text: text.clone() };
        match crate::format(source) {
            Ok(laid_out) if laid_out != *text => {
                let end = position(text, text.len());
                let range = json!({ "start": { "line": 0, "character": 0 }, "end": end });
                json!([{ "range": range, "newText": laid_out }])
            }
            _ => json!([]),
        }
    }
}

fn published(uri: &str, diagnostics: &[Value]) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "textDocument/publishDiagnostics",
        "params": { "uri": uri, "diagnostics": diagnostics },
    })
}

/// The mistakes of a report, those in included files at the top.
fn mistakes(report: &Report, text: &str) -> Vec<Value> {
    report
        .diagnostics
        .iter()
        .map(|one| {
            let is_main = one.span.file == 0;
            let mut message = one.message.clone();
            if !is_main {
                let (file, line, _) = report.sources.place(one.span);
                message = format!("{file}:{line}: {message}");
            }
            if let Some(help) = &one.help {
                message = format!("{message}\n{help}");
            }
            let Span { start, end, .. } = if is_main { one.span } else { Span::default() };
            json!({
                "range": {
                    "start": position(text, start as usize),
                    "end": position(text, end as usize),
                },
                "severity": if one.severity == Severity::Error { 1 } else { 2 },
                "source": "freshet",
                "message": message,
            })
        })
        .collect()
}

/// A place as editors count: lines from 0, and units of UTF-16 within a line.
fn position(text: &str, at: usize) -> Value {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let character: usize = before[start..].chars().map(char::len_utf16).sum();
    json!({ "line": line, "character": character })
}

/// The byte of a text at a line and so many units of UTF-16; none where there is no such line.
fn byte_at(text: &str, (line, character): (usize, usize)) -> Option<usize> {
    let start = match line.checked_sub(1) {
        None => 0,
        Some(before) => text.match_indices('\n').nth(before)?.0 + 1,
    };
    let row = text[start..].lines().next().unwrap_or("");
    let mut units = 0;
    for (at, c) in row.char_indices() {
        if units >= character {
            return Some(start + at);
        }
        units += c.len_utf16();
    }
    Some(start + row.len())
}

/// The path of an address; one that is no file's is taken as it is.
fn path_of(uri: &str) -> PathBuf {
    let text = uri.strip_prefix("file://").unwrap_or(uri).as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let hex = text.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%') {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned().into()
}
