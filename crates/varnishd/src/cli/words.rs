//! Command lines as words, the way Varnish's CLI splits them.

use thiserror::Error;

/// Words of one command; more are refused.
const WORDS_MAX: usize = 1024;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub(crate) enum WordError {
    /// A quoted word does not end.
    #[error("Missing '\"'")]
    Unclosed,
    /// An escape that is none.
    #[error("Invalid backslash sequence")]
    Escape,
    /// Too many words.
    #[error("Too many words")]
    TooMany,
}

/// Splits at white space; double quotes hold words together, and C's escapes work inside and
/// outside of them.
pub(crate) fn split(line: &str) -> Result<Vec<String>, WordError> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(is_space);
    while !rest.is_empty() {
        if words.len() == WORDS_MAX {
            return Err(WordError::TooMany);
        }
        let (word, after) = one(rest)?;
        words.push(word);
        rest = after.trim_start_matches(is_space);
    }
    Ok(words)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn one(text: &str) -> Result<(String, &str), WordError> {
    let (mut rest, quoted) = match text.strip_prefix('"') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let mut word = Vec::new();
    loop {
        let Some(next) = rest.chars().next() else {
            return if quoted { Err(WordError::Unclosed) } else { Ok((text_of(word), rest)) };
        };
        match next {
            '\\' => {
                let (byte, after) = escape(&rest[1..]).ok_or(WordError::Escape)?;
                word.push(byte);
                rest = after;
                continue;
            }
            '"' if quoted => return Ok((text_of(word), &rest[1..])),
            next if !quoted && is_space(next) => return Ok((text_of(word), rest)),
            _ => {}
        }
        let (piece, after) = rest.split_at(next.len_utf8());
        word.extend_from_slice(piece.as_bytes());
        rest = after;
    }
}

fn text_of(word: Vec<u8>) -> String {
    String::from_utf8(word)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What a backslash before `text` makes, and what follows.
fn escape(text: &str) -> Option<(u8, &str)> {
    let first = text.chars().next()?;
    let simple = match first {
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        '"' => b'"',
        '\\' => b'\\',
        'x' => {
            let digits = text.get(1..3)?;
            return Some((u8::from_str_radix(digits, 16).ok()?, &text[3..]));
        }
        '0'..='3' => {
            let digits = text.get(..3)?;
            return Some((u8::from_str_radix(digits, 8).ok()?, &text[3..]));
        }
        _ => return None,
    };
    Some((simple, &text[1..]))
}

/// A word as it has to be written to be read as one.
pub(crate) fn quote(word: &str) -> String {
    let mut out = String::from("\"");
    for c in word.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_varnish_splits_them() {
        assert_eq!(split(" a  \"b c\"\td ").expect("it is fine"), ["a", "b c", "d"]);
        assert_eq!(split("a\\x41\\101\\n \"\\\"\"").expect("it is fine"), ["aAA\n", "\""]);
        assert_eq!(split("ping \"a"), Err(WordError::Unclosed));
        assert_eq!(split("a\\q"), Err(WordError::Escape));
        assert_eq!(split("").expect("it is fine"), Vec::<String>::new());
        let odd = "a \"b\\c\"\n\tå";
        assert_eq!(split(&quote(odd)).expect("it is fine"), [odd]);
    }
}
