//! A playlist, line by line.

use crate::error::Unreadable;
use crate::limits::{LINES_MAX, WINDOW_MAX};

/// A line that means something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Line<'a> {
    /// `#EXT…`: its name without `#`, and what stands behind the colon.
    Tag(&'a str, &'a str),
    /// A reference.
    Reference(&'a str),
}

/// The lines of a playlist behind `#EXTM3U`. Comments and empty lines are left out.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    at: usize,
    left: usize,
}

/// The lines of a playlist.
///
/// # Errors
/// It is no UTF-8, or does not begin as a playlist does (RFC 8216 §4.3.1.1).
pub fn lines(bytes: &[u8]) -> Result<Lines<'_>, Unreadable> {
    lines_of(std::str::from_utf8(bytes).map_err(|_| Unreadable::OriginNoText)?)
}

/// The same of text.
///
/// # Errors
/// It does not begin as a playlist does.
pub(super) fn lines_of(text: &str) -> Result<Lines<'_>, Unreadable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Lines { text, at: 0, left: LINES_MAX };
    match lines.next() {
        Some(Ok(Line::Tag("EXTM3U", _))) => Ok(lines),
        _ => Err(Unreadable::OriginNoManifest),
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            if self.left == 0 {
                self.at = self.text.len();
                return Some(Err(Unreadable::OriginTooMany));
            }
            self.left -= 1;
            let end = rest.find('\n').unwrap_or(rest.len());
            self.at += end + 1;
            let line = rest.get(..end).unwrap_or_default().trim_ascii_end();
            let Some(comment) = line.strip_prefix('#') else {
                if line.is_empty() {
                    continue;
                }
                return Some(Ok(Line::Reference(line)));
            };
            if comment.starts_with("EXT") {
                let (name, value) = comment.split_once(':').unwrap_or((comment, ""));
                return Some(Ok(Line::Tag(name, value)));
            }
        }
    }
}

/// Seconds in decimal as milliseconds, rounded down; `None` where they are negative, no number, or
/// more than [`WINDOW_MAX`].
pub fn milliseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut digits = fraction.bytes().map(|byte| u64::from(byte - b'0'));
    let mut next = || digits.next().unwrap_or(0);
    let milliseconds = seconds.checked_mul(1000)? + next() * 100 + next() * 10 + next();
    (u128::from(milliseconds) <= WINDOW_MAX.as_millis()).then_some(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_mean_nothing() {
        let text = "#EXTM3U\r\n\r\n# comment\n#EXTINF:2.5,title: x\r\na.ts  \n#EXT-X-ENDLIST";
        let all: Vec<_> = lines(text.as_bytes()).unwrap().map(Result::unwrap).collect();
        assert_eq!(
            all,
            [
                Line::Tag("EXTINF", "2.5,title: x"),
                Line::Reference("a.ts"),
                Line::Tag("EXT-X-ENDLIST", ""),
            ]
        );
    }

    #[test]
    fn what_does_not_begin_as_a_playlist_is_none() {
        for text in ["", "hello", "#EXTM3", "\n\n", "<MPD/>", "a\n#EXTM3U"] {
            assert_eq!(lines(text.as_bytes()).err(), Some(Unreadable::OriginNoManifest), "{text}");
        }
        assert_eq!(lines(b"#EXTM3U\n\xff").err(), Some(Unreadable::OriginNoText));
        assert!(lines("\u{feff}#EXTM3U\n".as_bytes()).is_ok());
    }

    #[test]
    fn a_playlist_without_end_ends_at_the_limit() {
        let text = format!("#EXTM3U\n{}", "\n".repeat(LINES_MAX + 1));
        let last = lines(text.as_bytes()).unwrap().last();
        assert_eq!(last, Some(Err(Unreadable::OriginTooMany)));
    }

    #[test]
    fn seconds_are_decimal_and_bounded() {
        for (text, want) in [
            ("2", Some(2000)),
            ("2.", Some(2000)),
            (".5", Some(500)),
            ("1.0666667", Some(1066)),
            ("0", Some(0)),
            ("-1", None),
            ("nan", None),
            ("", None),
            (".", None),
            ("1e3", None),
            ("999999999", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(milliseconds(text), want, "{text}");
        }
    }
}
