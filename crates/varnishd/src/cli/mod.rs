//! Varnish's command line interface: lines in, answers with a status and a length out.

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod words;

use serde_json::{Value as Json, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The statuses of answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub(crate) enum Status {
    /// The line cannot be read as words.
    Syntax = 100,
    /// No such command.
    Unknown = 101,
    /// No such form of the command.
    Unimplemented = 102,
    /// Too few words.
    TooFew = 104,
    /// Too many words.
    TooMany = 105,
    /// A word does not fit.
    Parameter = 106,
    /// Not allowed, or not yet.
    Authentication = 107,
    /// Done.
    Ok = 200,
    /// Done, and the answer is cut.
    Truncated = 201,
    /// Cannot be done now.
    Cannot = 300,
    /// The connection ends.
    Close = 500,
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Reply {
    /// Done, with nothing to say.
    pub(crate) fn ok() -> Self {
        Self { status: Status::Ok, text: String::new() }
    }

    /// Done, with this text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { status: Status::Ok, text: text.into() }
    }

    /// Not done.
    pub(crate) fn error(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// JSON as commands give it: a version, the command's words, the time, then `rest`.
    pub(crate) fn json(version: u32, words: &[String], rest: &[Json]) -> Self {
        Self::json_of_texts(
            version,
            words,
            rest.iter().map(|value| match value {
                Json::Object(_) | Json::Array(_) => {
                    serde_json::to_string_pretty(value).unwrap_or_default().replace('\n', "\n  ")
                }
                other => other.to_string(),
            }),
        )
    }

    /// The same with values that are JSON already, for readers that want members in an order.
    pub(crate) fn json_of_texts(
        version: u32,
        words: &[String],
        rest: impl Iterator<Item = String>,
    ) -> Self {
        let words: Vec<_> = words.iter().map(|word| json!(word).to_string()).collect();
        let mut out = format!("[ {version}, [{}], {:.3}", words.join(", "), unix_seconds());
        for value in rest {
            out.push_str(",\n  ");
            out.push_str(&value);
        }
        out.push_str("\n]\n");
        Self::text(out)
    }

    /// As it is sent: status and length in 13 bytes, the text, a line end. A text longer than
    /// `bytes_max` is cut.
    pub(crate) fn encode(&self, bytes_max: usize) -> Vec<u8> {
        let (mut status, mut text) = (self.status, self.text.as_bytes());
        if text.len() > bytes_max {
            text = &text[..bytes_max];
            if status == Status::Ok {
                status = Status::Truncated;
            }
        }
        let mut out = format!("{:<3} {:<8}\n", status as u16, text.len()).into_bytes();
        out.extend_from_slice(text);
        out.push(b'\n');
        out
    }
}

/// Rows as a table: columns by tabs in each line, as wide as their widest, with up to three spaces
/// between them, fewer where the whole is wider than 80.
pub(crate) fn table(text: &str) -> String {
    const WIDTH: usize = 80;
    let is_row = |line: &&str| !line.starts_with(' ');
    // A column counts the tab before it.
    let width = |index: usize, cell: &str| cell.chars().count() + usize::from(index > 0);
    let (mut widths, mut longest) = (Vec::<usize>::new(), 0);
    for line in text.lines().filter(is_row) {
        longest = longest.max(line.chars().count());
        for (index, cell) in line.split('\t').enumerate() {
            let width = width(index, cell);
            match widths.get_mut(index) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let space = (WIDTH.saturating_sub(longest) / widths.len().max(1)).clamp(1, 3);
    let mut out = String::new();
    for line in text.lines() {
        if !is_row(&line) {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut cells = line.split('\t').enumerate().peekable();
        while let Some((index, cell)) = cells.next() {
            out.push_str(cell);
            if cells.peek().is_some() {
                let widest = widths.get(index).copied().unwrap_or(0);
                let fill = widest - cell.chars().count() + space;
                out.extend(std::iter::repeat_n(' ', fill));
            }
        }
        out.push('\n');
    }
    out
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_head_of_13_bytes() {
        assert_eq!(Reply::text("PONG").encode(100), b"200 4       \nPONG\n");
        assert_eq!(Reply::text("PONG").encode(2), b"201 2       \nPO\n");
        assert_eq!(Reply::error(Status::Cannot, "no").encode(9), b"300 2       \nno\n");
    }

    #[test]
    fn tables_have_the_columns_of_varnish() {
        let rows = "active\tauto\twarm\t     1\tvcl1\n";
        assert_eq!(table(rows), "active   auto    warm         1    vcl1\n");
        let rows = "Backend name\tAdmin\tProbe\tHealth\tLast change\n\
                    vcl1.s1\thealthy\t0/0\thealthy\tFri, 20 Nov 2026 12:54:26 GMT\n";
        assert_eq!(
            table(rows),
            "Backend name   Admin      Probe    Health     Last change\n\
             vcl1.s1        healthy    0/0      healthy    Fri, 20 Nov 2026 12:54:26 GMT\n"
        );
    }

    #[test]
    fn json_begins_with_version_words_and_time() {
        let words = ["ping".to_owned(), "-j".to_owned()];
        let Reply { text, .. } = Reply::json(2, &words, &[json!("PONG")]);
        let parsed: Json = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(parsed[1], json!(["ping", "-j"]));
        assert_eq!(parsed[3], json!("PONG"));
    }
}
