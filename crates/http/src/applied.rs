//! `Freshet-Applied`: how far a cache behind this one is in an order of purges that both follow.
//!
//! ```text
//! Freshet-Applied = stream "." sequence [ "." mark ]
//! stream          = 1*64( ALPHA / DIGIT / "-" / "_" )
//! sequence        = 1*20DIGIT
//! mark            = 16HEXDIG
//! ```
//!
//! A cache that has carried a purge out must not be filled again from one that has not yet. So it
//! says with its request which purges it has behind it, and is answered from nothing older. A mark tells
//! two histories apart that have the same numbers.

use std::fmt;
use std::str::FromStr;

/// The name of the field.
pub const NAME: &str = "Freshet-Applied";

/// Longest name of a stream.
pub const STREAM_BYTES_MAX: usize = 64;

/// A place in an order of purges: all up to it are carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Position {
    stream: Box<str>,
    sequence: u64,
    mark: Option<u64>,
}

impl Position {
    /// Behind the purge of this number in the order of this name; `None` where it is no such name.
    pub fn new(stream: &str, sequence: u64) -> Option<Self> {
        let is_name =
            stream.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let is_short = (1..=STREAM_BYTES_MAX).contains(&stream.len());
        (is_name && is_short).then(|| Self { stream: stream.into(), sequence, mark: None })
    }

    /// With a mark of the history up to there.
    #[must_use]
    pub fn marked(self, mark: u64) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// The name of the order.
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The number in it.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The mark of the history up to there, where it has one.
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    /// Reads a field's value; `None` where it is none.
    pub fn parse(value: &[u8]) -> Option<Self> {
        std::str::from_utf8(value).ok()?.parse().ok()
    }
}

impl FromStr for Position {
    type Err = String;

    /// Reads `stream.sequence` and `stream.sequence.mark`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "`{text}` is no place in an order of purges: write the order's name and a number, as \
                 `news.17`"
            )
        };
        let (stream, rest) = text.split_once('.').ok_or_else(refuse)?;
        let (digits, mark) = match rest.split_once('.') {
            Some((digits, mark)) => (digits, Some(mark)),
            None => (rest, None),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let sequence = digits.parse().ok().filter(|_| is_number).ok_or_else(refuse)?;
        let position = Self::new(stream, sequence).ok_or_else(refuse)?;
        let Some(mark) = mark else { return Ok(position) };
        let is_mark = mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mark = u64::from_str_radix(mark, 16).ok().filter(|_| is_mark).ok_or_else(refuse)?;
        Ok(position.marked(mark))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stream, self.sequence)?;
        self.mark.map_or(Ok(()), |mark| write!(f, ".{mark:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_position_is_refused() {
        let long = format!("{}.1", "a".repeat(STREAM_BYTES_MAX + 1));
        let values = [
            "",
            "17",
            ".17",
            "a.",
            "a.-1",
            "a.+1",
            "a.1.x",
            "a.1.",
            "a.1.123",
            "a.1.00000000000000g0",
            "a b.1",
            "a.18446744073709551616",
            &long,
        ];
        for value in values {
            assert_eq!(Position::parse(value.as_bytes()), None, "{value}");
        }
        assert_eq!(Position::parse(b"a\xff.1"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            stream in "[A-Za-z0-9_-]{1,64}", sequence in any::<u64>(), mark in any::<Option<u64>>(),
        ) {
            let position = Position::new(&stream, sequence).expect("a name");
            let position = match mark {
                Some(mark) => position.marked(mark),
                None => position,
            };
            prop_assert_eq!(Position::parse(position.to_string().as_bytes()), Some(position));
        }

        #[test]
        fn nothing_from_the_network_panics(value in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(position) = Position::parse(&value) {
                prop_assert!(position.stream().len() <= STREAM_BYTES_MAX);
            }
        }
    }
}
