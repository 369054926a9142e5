//! What a fetch was of, as its records tell: which origin, how many bytes, and whether its response is
//! kept.

use freshet_node::transcript::Tag;

/// Bytes of fetches from one origin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) request_head_bytes: u64,
    pub(crate) request_body_bytes: u64,
    pub(crate) response_head_bytes: u64,
    pub(crate) response_body_bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Self) {
        self.request_head_bytes += other.request_head_bytes;
        self.request_body_bytes += other.request_body_bytes;
        self.response_head_bytes += other.response_head_bytes;
        self.response_body_bytes += other.response_body_bytes;
    }

    /// What a `BereqAcct` record says: of the request head, body and both, of the response the same.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (request_head_bytes, request_body_bytes, _) = (next()?, next()?, next()?);
        Some(Self {
            request_head_bytes,
            request_body_bytes,
            response_head_bytes: next()?,
            response_body_bytes: next()?,
        })
    }
}

/// Places of what is in the storage that is not for long.
const UNCACHEABLE: usize = 0;
const SHORT: usize = 1;

/// The records of one fetch, as far as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Fetch<'a> {
    policy: &'a [u8],
    origin: &'a [u8],
    traffic: Traffic,
    is_pass: bool,
    is_transient: bool,
}

impl<'a> Fetch<'a> {
    pub(crate) fn note(&mut self, tag: Tag, text: &'a [u8]) {
        match tag {
            Tag::Begin => self.is_pass = text.ends_with(b" pass"),
            Tag::VCL_use => self.policy = text,
            Tag::TTL => self.is_pass |= text.ends_with(b" uncacheable"),
            Tag::Storage => self.is_transient = text.ends_with(b" Transient"),
            Tag::BackendOpen => {
                self.origin = text.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            }
            Tag::BereqAcct => {
                if let Some(traffic) = Traffic::parse(text) {
                    self.traffic.add(traffic);
                }
            }
            _ => {}
        }
    }

    /// Which origin was asked, by `policy.name`, and the bytes of that.
    pub(crate) fn traffic(&self) -> Option<(String, Traffic)> {
        let (policy, origin) = (std::str::from_utf8(self.policy), std::str::from_utf8(self.origin));
        let origin = origin.ok().filter(|origin| !origin.is_empty())?;
        Some((format!("{}.{origin}", policy.ok()?), self.traffic))
    }

    /// Which of the two kinds its response is, if it is one that is not kept for long: what nobody
    /// else may have, and what is older in a moment.
    pub(crate) fn transient(&self) -> Option<usize> {
        self.is_transient.then_some(if self.is_pass { UNCACHEABLE } else { SHORT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(records: &[(Tag, &'static str)]) -> Fetch<'static> {
        let mut fetch = Fetch::default();
        for (tag, text) in records {
            fetch.note(*tag, text.as_bytes());
        }
        fetch
    }

    #[test]
    fn bytes_are_those_of_the_origin_that_was_asked() {
        let asked = fetch(&[
            (Tag::Begin, "bereq 1001 fetch"),
            (Tag::VCL_use, "vcl1"),
            (Tag::BackendOpen, "23 s1 127.0.0.1 80 127.0.0.1 51798 connect"),
            (Tag::Storage, "malloc s0"),
            (Tag::BereqAcct, "107 4 111 38 5 43"),
        ]);
        let traffic = Traffic {
            request_head_bytes: 107,
            request_body_bytes: 4,
            response_head_bytes: 38,
            response_body_bytes: 5,
        };
        assert_eq!(asked.traffic(), Some(("vcl1.s1".to_owned(), traffic)));
        assert_eq!(asked.transient(), None);
        assert_eq!(fetch(&[(Tag::VCL_use, "vcl1")]).traffic(), None);
    }

    #[test]
    fn what_is_not_kept_for_long_is_passed_or_short() {
        let transient = (Tag::Storage, "malloc Transient");
        assert_eq!(
            fetch(&[(Tag::Begin, "bereq 1 pass"), transient]).transient(),
            Some(UNCACHEABLE)
        );
        let said = (Tag::TTL, "VCL 120 10 0 1795475182 uncacheable");
        assert_eq!(
            fetch(&[(Tag::Begin, "bereq 1 fetch"), said, transient]).transient(),
            Some(UNCACHEABLE)
        );
        assert_eq!(fetch(&[(Tag::Begin, "bereq 1 fetch"), transient]).transient(), Some(SHORT));
    }
}
