//! Small readings of text: percent-encoding, queries, base64.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::borrow::Cow;

/// base64 as tokens have it: the alphabet for URLs, with padding or without, and no bits left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes of base64 for URLs; `None` where it is not.
pub(crate) fn base64_url(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// The same of what may have no padding (RFC 7515 §2).
pub(crate) fn base64_url_bare(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// Percent-encoding taken off; `None` where it is broken.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
            out.push((digit(at + 1)? * 16 + digit(at + 2)?) as u8);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    Some(Cow::Owned(out))
}

/// The values of a parameter of a query, as they were sent.
pub(crate) fn query_values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    query.split('&').filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Whether a text is as a pattern says, with `*` for any bytes and `?` for any one. O(pattern × text) at
/// worst.
pub(crate) fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut of) = (0, 0);
    // The last star, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(at) {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((star_at, stood_for)) = star else { return false };
                star = Some((star_at, stood_for + 1));
                (at, of) = (stood_for + 1, star_at + 1);
            }
        }
    }
    pattern.iter().skip(of).all(|byte| *byte == b'*')
}

/// Bytes written in hexadecimal; `None` where they are not.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_strict_about_what_is_left_over() {
        assert_eq!(base64_url("_-8"), Some(vec![0xff, 0xef]));
        assert_eq!(base64_url("_-8="), Some(vec![0xff, 0xef]));
        for text in ["_-9", "_", "+/8", "_-8==", "_ -8"] {
            assert_eq!(base64_url(text), None, "{text}");
        }
        assert_eq!(base64_url_bare("_-8"), Some(vec![0xff, 0xef]));
        for text in ["_-8=", "_-9", "+/8"] {
            assert_eq!(base64_url_bare(text), None, "{text}");
        }
    }

    /// The same by its definition.
    fn is_like_slowly(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| is_like_slowly(rest, &text[at..])),
            ([b'?', rest @ ..], [_, left @ ..]) => is_like_slowly(rest, left),
            ([one, rest @ ..], [byte, left @ ..]) => one == byte && is_like_slowly(rest, left),
            _ => false,
        }
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_is_met_as_its_definition_says(
            pattern in "[ab?*]{0,9}",
            text in "[ab]{0,9}",
        ) {
            let slowly = is_like_slowly(pattern.as_bytes(), text.as_bytes());
            proptest::prop_assert_eq!(is_like(&pattern, &text), slowly);
        }
    }

    #[test]
    fn encodings_are_whole_or_refused() {
        assert_eq!(decode("a%20%C3%a9").unwrap().as_ref(), "a é".as_bytes());
        for text in ["%", "%2", "%2g", "a%"] {
            assert_eq!(decode(text), None);
        }
        assert_eq!(hex("00fF"), Some(vec![0, 255]));
        assert_eq!((hex("0"), hex("0x")), (None, None));
    }
}
