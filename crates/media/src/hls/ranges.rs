//! Byte ranges of segments (RFC 8216 §4.3.2.2).

use std::ops::Range;

/// Where ranges go on that do not say where they begin: behind the one before, of the same resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Onward<'a> {
    reference: &'a str,
    end: u64,
}

impl<'a> Onward<'a> {
    /// The bytes that `n[@o]` means of this reference; `None` where it makes no sense.
    pub(super) fn range(&mut self, reference: &'a str, text: &str) -> Option<Range<u64>> {
        let (length, start) = match text.split_once('@') {
            Some((length, start)) => (length, start.trim().parse().ok()?),
            None if self.reference == reference => (text, self.end),
            None => return None,
        };
        let length: u64 = length.trim().parse().ok().filter(|length| *length > 0)?;
        let end = start.checked_add(length)?;
        *self = Self { reference, end };
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_one_another_in_a_file() {
        let mut onward = Onward::default();
        for (reference, text, want) in [
            ("a", "10", None),
            ("a", "10@5", Some(5..15)),
            ("a", "5", Some(15..20)),
            ("b", "5", None),
            ("a", "1", Some(20..21)),
            ("a", "0", None),
            ("a", "x@1", None),
            ("a", "1@x", None),
            ("a", "2@18446744073709551615", None),
            ("a", "", None),
        ] {
            assert_eq!(onward.range(reference, text), want, "{reference} {text}");
        }
    }
}
