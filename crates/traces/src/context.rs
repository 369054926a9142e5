//! Where a transaction is in a trace (W3C Trace Context, <https://www.w3.org/TR/trace-context/>).

use aws_lc_rs::rand;
use std::fmt;

/// A span's place: its trace, itself, and what it is a part of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Context {
    /// The trace, never 0.
    pub trace: u128,
    /// The span, never 0.
    pub span: u64,
    /// The span it is a part of; 0 for the first of a trace.
    pub parent: u64,
    /// Whether it is sampled.
    pub is_sampled: bool,
}

impl Context {
    /// The first span of a new trace.
    pub(crate) fn root() -> Self {
        Self { trace: number(), span: number() as u64 | 1, parent: 0, is_sampled: true }
    }

    /// A span that is a part of this one.
    pub(crate) fn child(&self) -> Self {
        Self { span: number() as u64 | 1, parent: self.span, ..*self }
    }

    /// What a field says; `None` where that is no `traceparent`. Of later versions the part that is
    /// known is read (§3.2.2).
    pub fn parse(field: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(field).ok()?.trim();
        let (version, rest) = text.split_once('-')?;
        let (trace, rest) = rest.split_once('-')?;
        let (span, flags) = rest.split_once('-')?;
        let (flags, more) = flags.split_once('-').map_or((flags, None), |(a, b)| (a, Some(b)));
        let version = hex(version, 2)?;
        if version == 0xff || (version == 0 && more.is_some()) {
            return None;
        }
        let (trace, span) = (hex(trace, 32)?, hex(span, 16)? as u64);
        let is_sampled = hex(flags, 2)? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, span, parent: 0, is_sampled })
    }
}

/// As the field is written.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// Exactly so many digits, small ones (§3.2.2.1).
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

/// A random number that is not 0.
pub(crate) fn number() -> u128 {
    let mut bytes = [0; 16];
    // Where the system has none, all spans are of one trace, and requests are served.
    let _ = rand::fill(&mut bytes);
    u128::from_le_bytes(bytes) | 1 << 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_field_is_what_the_recommendation_says() {
        let field = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = Context::parse(field.as_bytes()).unwrap();
        assert_eq!(context.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), field);
        let unsampled = field.replace("-01", "-00");
        assert!(!Context::parse(unsampled.as_bytes()).unwrap().is_sampled);
        let later = format!("cc{}-more", &field[2..]);
        assert_eq!(Context::parse(later.as_bytes()), Some(context));
        for wrong in [
            "",
            "00",
            &field[1..],
            &field.to_uppercase(),
            &field.replace("00-4", "ff-4"),
            &format!("{field}-more"),
            &field.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &field.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &field.replace("-01", "-1"),
            &field.replace("4bf9", "+bf9"),
        ] {
            assert_eq!(Context::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_a_part_says_of_what() {
        let root = Context::root();
        let child = root.child();
        assert_eq!((child.trace, child.parent), (root.trace, root.span));
        assert!(child.span != root.span && root.parent == 0);
        assert_ne!(Context::root().trace, root.trace);
    }

    proptest! {
        #[test]
        fn any_field_is_read_without_a_panic_and_a_good_one_back(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            trace in 1..u128::MAX,
            span in 1..u64::MAX,
        ) {
            let _ = Context::parse(&bytes);
            let context = Context { trace, span, parent: 0, is_sampled: true };
            prop_assert_eq!(Context::parse(context.to_string().as_bytes()), Some(context));
        }
    }
}
