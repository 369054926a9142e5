//! What is wrong with the fields of a head that is refused, in Varnish's words.

use freshet_http::fields::is_token_byte;
use std::fmt::Write as _;

/// Bytes of a line that are shown.
const SHOWN_BYTES_MAX: usize = 20;

/// The first thing wrong with the lines behind the first one of a head; `None` where nothing is, or
/// where the line has not come to its end.
pub(super) fn wrong_with_fields(head: &[u8]) -> Option<String> {
    let head = head.trim_ascii_start();
    let first_end = head.iter().position(|byte| *byte == b'\n')?;
    let mut rest = head.get(first_end + 1..)?;
    while !rest.is_empty() && line_end_bytes(rest) == 0 {
        let (line, taken) = match unfolded(rest) {
            Ok(line) => line?,
            Err(byte) => return Some(format!("Header has ctrl char 0x{byte:02x}")),
        };
        if let Some(wrong) = wrong_with_line(&line) {
            return Some(wrong);
        }
        rest = rest.get(taken..)?;
    }
    None
}

/// A line with those that go on with it, and how many bytes that is; the byte that no line has.
fn unfolded(rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, u8> {
    let (mut line, mut at) = (Vec::new(), 0);
    while let Some((byte, after)) = rest.get(at..).and_then(<[u8]>::split_first) {
        if (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t' {
            line.push(*byte);
            at += 1;
            continue;
        }
        match line_end_bytes(rest.get(at..).unwrap_or(after)) {
            0 => return Err(*byte),
            bytes => at += bytes,
        }
        if !rest.get(at).is_some_and(|next| matches!(next, b' ' | b'\t')) {
            return Ok(Some((line, at)));
        }
    }
    Ok(None)
}

fn wrong_with_line(line: &[u8]) -> Option<String> {
    let shown = |what: &str| {
        let mut out = what.to_owned();
        let shown = line.get(..SHOWN_BYTES_MAX).unwrap_or(line);
        let _ = write!(out, "{}", String::from_utf8_lossy(shown));
        out
    };
    match line.first() {
        Some(b' ' | b'\t') => return Some(shown("1st header has white space: ")),
        Some(b':') => return Some(shown("Missing header name: ")),
        _ => {}
    }
    let line = line.trim_ascii_end();
    let colon = line.iter().position(|byte| *byte == b':');
    let name = line.get(..colon.unwrap_or(line.len())).unwrap_or(line);
    if let Some(byte) = name.iter().find(|byte| !is_token_byte(**byte)) {
        return Some(format!("Illegal char 0x{byte:02x} in header name"));
    }
    colon.is_none().then(|| shown("Header without ':' "))
}

/// Bytes of the line end that this begins with.
fn line_end_bytes(text: &[u8]) -> usize {
    match text {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_of_the_first_line_that_is() {
        let of = |fields: &str| wrong_with_fields(format!("GET / HTTP/1.1\r\n{fields}").as_bytes());
        let said = |fields: &str| of(fields).unwrap_or_default();
        assert_eq!(said(" Host: foo\r\n\r\n"), "1st header has white space:  Host: foo");
        assert_eq!(said("\rHost: foo\r\n\r\n"), "Header has ctrl char 0x0d");
        assert_eq!(said("A: b\u{1}c\r\n\r\n"), "Header has ctrl char 0x01");
        assert_eq!(said("A: b\r\r\n\r\n"), "Header has ctrl char 0x0d");
        assert_eq!(said("A: b\r\n: c\r\n\r\n"), "Missing header name: : c");
        assert_eq!(said("A b: c\r\n\r\n"), "Illegal char 0x20 in header name");
        let long = "Header without ':' abcdefghijklmnopqrst";
        assert_eq!(said("A: b\r\nabcdefghijklmnopqrstuvwxyz\r\n\r\n"), long);
        assert_eq!(of("A: b\r\n c\n\td: e\r\nF: g\r\n\r\n h"), None);
        assert_eq!(of("A b"), None, "it has no end yet");
        assert_eq!(wrong_with_fields(b"\r\nGET / HTTP/1.1\r\nA: b\r\n\r\n"), None);
        assert_eq!(wrong_with_fields(b"GET"), None);
    }
}
