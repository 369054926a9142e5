//! What was meant to be a request line, as far as that can be told.

use std::borrow::Cow;

/// Bytes of one that the log has.
const LINE_BYTES_MAX: usize = 1024;

/// The parts of a first line that was refused, or of a head that was: empty where there are none.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct RequestLine<'a> {
    pub(super) method: Cow<'a, str>,
    /// All of the line, where it has no other parts.
    pub(super) target: Cow<'a, str>,
    pub(super) version: Cow<'a, str>,
}

impl<'a> RequestLine<'a> {
    /// The line that begins in `input`, up to its end or as much as came of it.
    pub(super) fn of(input: &'a [u8]) -> Self {
        let begin = input.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
        let input = &input[begin.unwrap_or(input.len())..];
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let is_cut = end > LINE_BYTES_MAX;
        let line = &input[..end.min(LINE_BYTES_MAX)];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_of_method = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
        let method = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        if method.is_empty() || method.len() == line.len() || !method.iter().all(is_of_method) {
            return Self { target: text(line), ..Self::default() };
        }
        let rest = &line[method.len() + 1..];
        let last = rest.iter().rposition(|byte| *byte == b' ');
        let (target, version) = match last {
            Some(at) if !is_cut && rest[at + 1..].starts_with(b"HTTP/") => {
                (&rest[..at], &rest[at + 1..])
            }
            _ => (rest, &[][..]),
        };
        Self { method: text(method), target: text(target), version: text(version) }
    }
}

/// Bytes that are no text are not to hide what stands around them.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_where_there_are_parts() {
        let parts = |input: &[u8]| {
            let RequestLine { method, target, version } = RequestLine::of(input);
            format!("{method}|{target}|{version}")
        };
        assert_eq!(parts(b"GET /a HTTP/1.1\r\nHost: a\r\n"), "GET|/a|HTTP/1.1");
        assert_eq!(parts(b"\r\nGET /a b HTTP/9.9\r\n"), "GET|/a b|HTTP/9.9");
        assert_eq!(parts(b"GET /half"), "GET|/half|");
        assert_eq!(parts(b"GET /\xff HTTP/1.1\n"), "GET|/\u{fffd}|HTTP/1.1");
        assert_eq!(parts(b"\x16\x03\x01\x02"), "|\u{16}\u{3}\u{1}\u{2}|");
        assert_eq!(parts(b"hello\r\n"), "|hello|");
        assert_eq!(parts(b""), "||");
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = format!("GET /{} HTTP/1.1\r\n", "a".repeat(9_000));
        let cut = RequestLine::of(line.as_bytes());
        assert_eq!(
            (&*cut.method, cut.target.len(), &*cut.version),
            ("GET", LINE_BYTES_MAX - 4, "")
        );
    }
}
