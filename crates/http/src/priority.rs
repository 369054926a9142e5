//! What a client says about the order of responses (RFC 9218).

use crate::structured::{BareItem, Dictionary, Member};

/// Bytes of a `priority` field that are looked at; `u=0, i` and some unknown parameters.
const PRIORITY_BYTES_MAX: usize = 256;

/// The urgency of a response that nothing was said about.
const URGENCY_DEFAULT: u8 = 3;
/// The least urgent.
const URGENCY_MAX: u8 = 7;

/// How urgent a response is, and whether a part of it is of use.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Priority {
    /// 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether it can be used as it arrives, so that it shares with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: URGENCY_DEFAULT, incremental: false }
    }
}

impl Priority {
    /// A step more urgent.
    #[must_use]
    pub fn hastened(self) -> Self {
        Self { urgency: self.urgency.saturating_sub(1), ..self }
    }

    /// What a `priority` field says. What it does not say, or not in the right form, is as if
    /// nothing was said (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Self {
        Self::default().with(value)
    }

    /// This, with what a response's own field says instead (RFC 9218 §8).
    #[must_use]
    pub fn with(mut self, value: &[u8]) -> Self {
        if value.len() > PRIORITY_BYTES_MAX {
            return self;
        }
        let Ok(said) = Dictionary::parse(value) else { return self };
        let item = |key| match said.get(key) {
            Some(Member::Item(item)) => Some(&item.value),
            _ => None,
        };
        if let Some(BareItem::Integer(urgency)) = item("u")
            && let Ok(urgency @ 0..=URGENCY_MAX) = u8::try_from(*urgency)
        {
            self.urgency = urgency;
        }
        if let Some(BareItem::Boolean(incremental)) = item("i") {
            self.incremental = *incremental;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_well_counts_and_the_rest_is_default() {
        for (value, urgency, incremental) in [
            (&b""[..], 3, false),
            (b"u=0", 0, false),
            (b"u=7, i", 7, true),
            (b"i;x=1,u=5;y", 5, true),
            (b"i=?0, u=1, other=\"x\"", 1, false),
            (b"u=8, i", 3, true),
            (b"u=-1", 3, false),
            (b"u=\"1\", i=1", 3, false),
            (b"u=1, u=2", 2, false),
            (b"u=1, =", 3, false),
        ] {
            let want = Priority { urgency, incremental };
            assert_eq!(Priority::parse(value), want, "{}", value.escape_ascii());
        }
        assert_eq!(Priority::parse(&[b' '; PRIORITY_BYTES_MAX + 1]), Priority::default());
    }

    #[test]
    fn a_response_overrides_what_it_names() {
        let asked = Priority { urgency: 1, incremental: true };
        assert_eq!(asked.with(b"u=5"), Priority { urgency: 5, incremental: true });
        assert_eq!(asked.with(b"i=?0"), Priority { urgency: 1, incremental: false });
        assert_eq!(asked.with(b"nonsense("), asked);
    }
}
