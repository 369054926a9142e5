//! Ranges of bytes (RFC 9110 §14).
//!
//! A `Range` that is not understood is ignored, as the RFC asks: then the whole is sent. One range
//! is by far the usual case and allocates nothing.

use std::io::Write as _;
use std::ops::Range;

/// A request with more ranges than this is answered with the whole: each part costs a head, and
/// many small ones are how slow clients are made expensive (RFC 9110 §17.15).
pub const RANGES_MAX: usize = 32;

/// Ranges closer together than this are sent as one: a part head is about as long.
const GAP_BYTES_MAX: u64 = 80;

/// The last byte of what has no known end, 2^53 − 1: by it clients ask for a representation that still
/// grows, and are answered that they get it as it comes (RFC 8673 §2).
pub const VERY_LARGE: u64 = (1 << 53) - 1;

/// One range as a client asks for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RangeSpec {
    /// From this byte to that one, both included.
    FromTo(u64, u64),
    /// From this byte to the end.
    From(u64),
    /// The last so many bytes.
    Suffix(u64),
}

impl RangeSpec {
    /// The bytes it means of a representation with `total` bytes; `None` where it has none of
    /// them (§14.1.2).
    pub fn resolve(self, total: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::FromTo(first, last) => first..last.saturating_add(1).min(total),
            Self::From(first) => first..total,
            Self::Suffix(len) => total.saturating_sub(len)..total,
        };
        (range.start < range.end).then_some(range)
    }

    /// Appends it as it stands in `Range`, such as `5-9`.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::FromTo(first, last) => write!(out, "{first}-{last}"),
            Self::From(first) => write!(out, "{first}-"),
            Self::Suffix(len) => write!(out, "-{len}"),
        }
        .expect("writing to a vector succeeds");
    }
}

/// What a `Range` field asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RangeRequest {
    /// One range.
    One(RangeSpec),
    /// Several, at most [`RANGES_MAX`].
    Many(Vec<RangeSpec>),
}

/// What is to be sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolved {
    /// 206 with one range.
    One(Range<u64>),
    /// 206 with several ranges, as multipart/byteranges. They do not overlap.
    Many(Vec<Range<u64>>),
    /// 416: no byte of the representation was asked for.
    Unsatisfiable,
}

impl RangeRequest {
    /// Reads the value of a `Range` field. `None` where it is to be ignored: not in bytes, not
    /// valid, or too many.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let at = value.iter().position(|byte| *byte == b'=')?;
        let (unit, set) = (value.get(..at)?, value.get(at + 1..)?);
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let members = set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut specs = members.filter(|member| !member.is_empty()).map(parse_spec);
        let first = specs.next()??;
        let Some(second) = specs.next() else { return Some(Self::One(first)) };
        let mut all = vec![first, second?];
        for spec in specs {
            if all.len() == RANGES_MAX {
                return None;
            }
            all.push(spec?);
        }
        Some(Self::Many(all))
    }

    /// The byte that one range begins with; 0 of several, and of one that is counted from the end.
    pub fn start(&self) -> u64 {
        match self {
            Self::One(RangeSpec::FromTo(first, _) | RangeSpec::From(first)) => *first,
            Self::One(RangeSpec::Suffix(_)) | Self::Many(_) => 0,
        }
    }

    /// The ranges in the order they were asked for.
    pub fn specs(&self) -> &[RangeSpec] {
        match self {
            Self::One(spec) => std::slice::from_ref(spec),
            Self::Many(specs) => specs,
        }
    }

    /// What to send of a representation with `total` bytes. The order of the request is kept
    /// unless ranges overlap or touch; then they are sorted and joined (§15.3.7.2).
    pub fn resolve(&self, total: u64) -> Resolved {
        let specs = match self {
            Self::One(spec) => {
                return spec.resolve(total).map_or(Resolved::Unsatisfiable, Resolved::One);
            }
            Self::Many(specs) => specs,
        };
        let mut ranges: Vec<_> = specs.iter().filter_map(|spec| spec.resolve(total)).collect();
        let close = |a: &Range<u64>, b: &Range<u64>| {
            a.start <= b.end.saturating_add(GAP_BYTES_MAX)
                && b.start <= a.end.saturating_add(GAP_BYTES_MAX)
        };
        let any_close =
            (0..ranges.len()).any(|at| ranges[..at].iter().any(|other| close(other, &ranges[at])));
        if any_close {
            ranges.sort_unstable_by_key(|range| range.start);
            ranges.dedup_by(|next, kept| {
                let joined = close(kept, next);
                if joined {
                    kept.end = kept.end.max(next.end);
                }
                joined
            });
        }
        match ranges.len() {
            0 => Resolved::Unsatisfiable,
            1 => Resolved::One(ranges.swap_remove(0)),
            _ => Resolved::Many(ranges),
        }
    }
}

fn parse_spec(text: &[u8]) -> Option<RangeSpec> {
    let at = text.iter().position(|byte| *byte == b'-')?;
    match (text.get(..at)?, text.get(at + 1..)?) {
        (b"", len) => Some(RangeSpec::Suffix(number(len)?)),
        (first, b"") => Some(RangeSpec::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::FromTo(first, last))
        }
    }
}

/// A `Content-Range` (§14.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContentRange {
    /// From this byte to that one, both included, of `total` where that is known.
    Satisfied {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte; not before the first.
        last: u64,
        /// Length of the representation; after the last byte.
        total: Option<u64>,
    },
    /// No byte of `total`, in a 416.
    Unsatisfied {
        /// Length of the representation.
        total: u64,
    },
}

/// How the length of a part agrees with the range it says it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reconciled {
    /// It does.
    Agrees,
    /// The range claims to reach from somewhere to the end of the representation and the content, which
    /// ended where its own framing said, is shorter: this is the range it can be.
    Shorter(ContentRange),
    /// The content cannot be this range: it may be sent on and not be stored.
    Contradicts,
}

impl ContentRange {
    /// The range `range` of `total` bytes. The range must not be empty.
    pub fn of(range: &Range<u64>, total: u64) -> Self {
        Self::Satisfied {
            first: range.start,
            last: range.end.saturating_sub(1),
            total: Some(total),
        }
    }

    /// The range `range` of what has `total` bytes, where that is known. The range must not be empty.
    pub fn part(range: &Range<u64>, total: Option<u64>) -> Self {
        Self::Satisfied { first: range.start, last: range.end.saturating_sub(1), total }
    }

    /// Reads the value of a `Content-Range` field; `None` where it is not in bytes or not valid.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(5)?;
        let rest = rest.strip_prefix(b" ").filter(|_| unit.eq_ignore_ascii_case(b"bytes"))?;
        let at = rest.iter().position(|byte| *byte == b'/')?;
        let (range, total) = (rest.get(..at)?, rest.get(at + 1..)?);
        if range == b"*" {
            return Some(Self::Unsatisfied { total: number(total)? });
        }
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (number(range.get(..dash)?)?, number(range.get(dash + 1..)?)?);
        let total = if total == b"*" { None } else { Some(number(total)?) };
        let valid = first <= last && total.is_none_or(|total| last < total);
        valid.then_some(Self::Satisfied { first, last, total })
    }

    /// The field's value.
    pub fn value(self) -> Vec<u8> {
        let mut value = Vec::with_capacity(48);
        self.write(&mut value);
        value
    }

    /// Appends it as it stands in the field, such as `bytes 5-9/20`.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Satisfied { first, last, total: Some(total) } => {
                write!(out, "bytes {first}-{last}/{total}")
            }
            Self::Satisfied { first, last, total: None } => write!(out, "bytes {first}-{last}/*"),
            Self::Unsatisfied { total } => write!(out, "bytes */{total}"),
        }
        .expect("writing to a vector succeeds");
    }

    /// The bytes it means; `None` for [`ContentRange::Unsatisfied`].
    pub fn range(self) -> Option<Range<u64>> {
        match self {
            Self::Satisfied { first, last, .. } => Some(first..last.saturating_add(1)),
            Self::Unsatisfied { .. } => None,
        }
    }

    /// Length of the representation, where it is known.
    pub fn total(self) -> Option<u64> {
        match self {
            Self::Satisfied { total, .. } => total,
            Self::Unsatisfied { total } => Some(total),
        }
    }

    /// Compares it with the length of content that arrived complete.
    pub fn reconcile(self, content_bytes: u64) -> Reconciled {
        let Self::Satisfied { first, last, total } = self else { return Reconciled::Contradicts };
        let claimed = (last - first).saturating_add(1);
        if content_bytes == claimed {
            return Reconciled::Agrees;
        }
        let reaches_end = total == last.checked_add(1);
        // From the first byte on it would be a whole, which a 206 that lacks some is not (RFC 9111 §3.3).
        if first > 0 && reaches_end && (1..claimed).contains(&content_bytes) {
            let end = first + content_bytes;
            return Reconciled::Shorter(Self::Satisfied { first, last: end - 1, total: Some(end) });
        }
        Reconciled::Contradicts
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(value: &str) -> Option<RangeRequest> {
        RangeRequest::parse(value.as_bytes())
    }

    fn resolve(value: &str, total: u64) -> Resolved {
        parse(value).unwrap().resolve(total)
    }

    #[test]
    fn the_three_forms() {
        assert_eq!(resolve("bytes=0-1", 11), Resolved::One(0..2));
        assert_eq!(resolve("Bytes=1-", 11), Resolved::One(1..11));
        assert_eq!(resolve("bytes=-1", 11), Resolved::One(10..11));
        assert_eq!(resolve("bytes=5-99", 11), Resolved::One(5..11));
        assert_eq!(resolve("bytes=-99", 11), Resolved::One(0..11));
    }

    #[test]
    fn what_has_no_byte_is_not_satisfiable() {
        for value in ["bytes=11-", "bytes=11-12", "bytes=-0", "bytes=20-,30-"] {
            assert_eq!(resolve(value, 11), Resolved::Unsatisfiable, "{value}");
        }
        assert_eq!(resolve("bytes=0-", 0), Resolved::Unsatisfiable);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "items=0-1",
            "bytes=1",
            "bytes=2-1",
            "bytes=a-",
            "bytes=-",
            "bytes=--1",
            "bytes=0-1-2",
            "bytes=+1-2",
            "bytes=0 -1",
            "bytes=0-1,x",
            "bytes=18446744073709551616-",
            "bytes 0-1",
        ] {
            assert_eq!(parse(value), None, "{value}");
        }
        let many = vec!["0-1"; RANGES_MAX + 1].join(",");
        assert_eq!(parse(&format!("bytes={many}")), None);
    }

    #[test]
    fn several_ranges_keep_their_order_and_close_ones_are_joined() {
        let total = 10_000;
        assert_eq!(resolve("bytes=5000-5001, 0-1", total), Resolved::Many(vec![5000..5002, 0..2]));
        assert_eq!(resolve("bytes=50-59,0-9,,40-49", total), Resolved::One(0..60));
        assert_eq!(
            resolve("bytes=9000-,0-9,5-20,20000-", total),
            Resolved::Many(vec![0..21, 9000..10_000])
        );
    }

    #[test]
    fn content_ranges_are_read_and_written() {
        for text in ["bytes 4-9/10", "bytes 0-0/*", "bytes */7"] {
            let mut out = Vec::new();
            ContentRange::parse(text.as_bytes()).unwrap().write(&mut out);
            assert_eq!(out, text.as_bytes());
        }
        for text in [
            "bytes 4-10/10",
            "bytes 5-4/10",
            "bytes 4-9",
            "items 4-9/10",
            "bytes=4-9/10",
            "bytes */*",
            "",
            "bytes  4-9/10",
            "abcdefg",
        ] {
            assert_eq!(ContentRange::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_part_that_ends_early_tells_where_the_end_is() {
        let claimed = ContentRange::parse(b"bytes 4-9/10").unwrap();
        assert_eq!(claimed.reconcile(6), Reconciled::Agrees);
        let shorter = ContentRange::parse(b"bytes 4-8/9").unwrap();
        assert_eq!(claimed.reconcile(5), Reconciled::Shorter(shorter));
        assert_eq!(claimed.reconcile(7), Reconciled::Contradicts);
        assert_eq!(claimed.reconcile(0), Reconciled::Contradicts);
        let inside = ContentRange::parse(b"bytes 4-8/10").unwrap();
        assert_eq!(inside.reconcile(4), Reconciled::Contradicts);
        let whole = ContentRange::parse(b"bytes 0-9/10").unwrap();
        assert_eq!(whole.reconcile(10), Reconciled::Agrees);
        assert_eq!(whole.reconcile(5), Reconciled::Contradicts);
    }

    proptest! {
        #[test]
        fn resolved_ranges_lie_inside_do_not_overlap_and_cover_what_was_asked(
            specs in prop::collection::vec((0_u64..400, 0_u64..400, 0_u8..3), 1..12),
            total in 0_u64..300,
        ) {
            let text = specs.iter().map(|(a, b, kind)| match kind {
                0 => format!("{}-{}", a.min(b), a.max(b)),
                1 => format!("{a}-"),
                _ => format!("-{a}"),
            });
            let value = format!("bytes={}", text.collect::<Vec<_>>().join(","));
            let request = RangeRequest::parse(value.as_bytes()).unwrap();
            let ranges = match request.resolve(total) {
                Resolved::Unsatisfiable => vec![],
                Resolved::One(range) => vec![range],
                Resolved::Many(ranges) => ranges,
            };
            for at in 0..total {
                let asked = request.specs().iter()
                    .any(|spec| spec.resolve(total).is_some_and(|range| range.contains(&at)));
                let times = ranges.iter().filter(|range| range.contains(&at)).count();
                prop_assert!(times <= 1);
                prop_assert!(!asked || times == 1);
            }
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= total));
        }
    }
}
