//! Requests for news of a low-latency playlist, which a packager holds back until there is some
//! (draft-pantos-hls-rfc8216bis §6.2.5).

use freshet_cache::Key;
use freshet_media::{Edge, has};
use std::borrow::Cow;
use std::sync::Arc;

/// What a request for a playlist says in its query.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Directives {
    /// `_HLS_msn`: the answer is to have this segment,
    pub sequence: Option<u64>,
    /// `_HLS_part`: or this part of it.
    pub part: Option<u32>,
    /// `_HLS_skip`: what it may leave out.
    pub skip: Skip,
    /// No version is what is asked for: a number that is none, one that is there twice, or a part without
    /// its segment.
    pub(crate) is_wrong: bool,
}

/// What a version of a playlist may leave out, as its player knows it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Skip {
    /// Nothing.
    #[default]
    Nothing,
    /// Segments: `YES`.
    Segments,
    /// Segments and date ranges, which `YES` alone does not allow: `v2`.
    DateRanges,
}

impl Skip {
    /// Of how many kinds versions are.
    pub const KINDS: usize = 3;

    /// Which of these it is.
    pub fn kind(self) -> usize {
        self as usize
    }
}

/// What can be said of a request for a playlist without asking its origin.
#[derive(Clone, Debug, PartialEq)]
pub enum Reload {
    /// Nothing.
    Unknown,
    /// This version has what is asked for.
    Has(Known),
    /// What is asked for is too far away from this version to be waited for.
    TooFar(Known),
    /// What is asked for is no version of this playlist.
    Wrong(Known),
}

/// A version that is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its key in the cache.
    pub key: Arc<Key>,
    /// What its client asked for, directives included.
    pub target: Arc<str>,
}

impl Directives {
    /// Those of a target.
    pub fn of(target: &str) -> Self {
        let mut out = Self::default();
        let Some((_, query)) = target.split_once('?') else { return out };
        if !query.contains("_HLS_") {
            return out;
        }
        for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
            match name {
                "_HLS_msn" => {
                    out.is_wrong |= out.sequence.is_some();
                    out.sequence = integer(value);
                    out.is_wrong |= out.sequence.is_none();
                }
                "_HLS_part" => {
                    out.is_wrong |= out.part.is_some();
                    out.part = integer(value).and_then(|part| part.try_into().ok());
                    out.is_wrong |= out.part.is_none();
                }
                "_HLS_skip" => {
                    out.skip = match value {
                        "YES" => Skip::Segments,
                        "v2" => Skip::DateRanges,
                        _ => Skip::Nothing,
                    };
                }
                _ => {}
            }
        }
        out.is_wrong |= out.part.is_some() && out.sequence.is_none();
        out
    }

    /// Whether they ask for a version at all.
    pub fn are_there(self) -> bool {
        self.sequence.is_some() || self.is_wrong
    }

    /// Whether a playlist that has come to `edge` is the answer.
    pub(crate) fn are_met(self, edge: Edge, last_parts: u32) -> bool {
        self.sequence.is_some_and(|sequence| has(edge, last_parts, sequence, self.part))
    }
}

/// A decimal integer: digits alone (draft-pantos-hls-rfc8216bis §4.2).
fn integer(value: &str) -> Option<u64> {
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

/// A target without the directives: that of the playlist itself.
pub fn without(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    if !query.contains("_HLS_") {
        return Cow::Borrowed(target);
    }
    let is_directive = |parameter: &&str| {
        ["_HLS_msn=", "_HLS_part=", "_HLS_skip="].iter().any(|name| parameter.starts_with(name))
    };
    let rest: Vec<_> = query.split('&').filter(|parameter| !is_directive(parameter)).collect();
    if rest.is_empty() {
        return Cow::Borrowed(path);
    }
    Cow::Owned(format!("{path}?{}", rest.join("&")))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn directives_are_read_and_taken_off() {
        let target = "/a.m3u8?t=1&_HLS_part=2&_HLS_msn=7&_HLS_skip=YES";
        let want = Directives {
            sequence: Some(7),
            part: Some(2),
            skip: Skip::Segments,
            ..Directives::default()
        };
        assert_eq!(Directives::of(target), want);
        assert_eq!(Directives::of("/a.m3u8?_HLS_skip=v2").skip, Skip::DateRanges);
        assert_eq!(without(target), "/a.m3u8?t=1");
        assert_eq!(without("/a.m3u8?_HLS_msn=7"), "/a.m3u8");
        assert_eq!(without("/a.m3u8?x"), "/a.m3u8?x");
        assert_eq!(Directives::of("/a?_HLS_msn&_HLS_skip=NO"), Directives::default());
        assert_eq!(Directives::of("/a"), Directives::default());
    }

    #[test]
    fn what_names_no_version_is_wrong() {
        for query in [
            "_HLS_msn=x",
            "_HLS_msn=",
            "_HLS_msn=+7",
            "_HLS_msn=-1",
            "_HLS_msn=7.0",
            "_HLS_msn=18446744073709551616",
            "_HLS_msn=%37",
            "_HLS_msn=7&_HLS_msn=8",
            "_HLS_msn=x&_HLS_msn=8",
            "_HLS_msn=7&_HLS_part=a",
            "_HLS_msn=7&_HLS_part=1&_HLS_part=1",
            "_HLS_msn=7&_HLS_part=4294967296",
            "_HLS_part=1",
        ] {
            let directives = Directives::of(&format!("/a?{query}"));
            assert!(directives.is_wrong && directives.are_there(), "{query}");
        }
        assert!(!Directives::of("/a?_HLS_msn=007&_HLS_part=0").is_wrong);
    }
}
