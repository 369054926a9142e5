//! The text of a manifest whose bytes may not all be UTF-8.

use std::borrow::Cow;

/// What stands for a byte that is no UTF-8: of the same length, so that places stay, and in no
/// reference that means anything.
pub(crate) const STAND_IN: char = '\u{1a}';

/// The text, with a [`STAND_IN`] for each byte that is no UTF-8. Titles, languages and comments come in
/// other encodings (RFC 8216 §4 wants UTF-8), and players play what else is there.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| STAND_IN));
            }
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_where_bytes_are_no_text() {
        assert!(matches!(text_of("aü".as_bytes()), Cow::Borrowed("aü")));
        assert_eq!(text_of(b"a\xfcb\xe2\x82c\xff"), "a\u{1a}b\u{1a}\u{1a}c\u{1a}");
    }
}
