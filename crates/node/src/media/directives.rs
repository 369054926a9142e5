//! Requests for news of a low-latency playlist, which a packager holds back until there is some
//! (draft-pantos-hls-rfc8216bis §6.2.5).

use freshet_cache::Key;
use freshet_media::{Edge, has};
use std::borrow::Cow;
use std::sync::Arc;

/// What a request for a playlist says in its query.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Directives {
    /// `_HLS_msn`: the answer is to have this segment,
    pub(crate) sequence: Option<u64>,
    /// `_HLS_part`: or this part of it.
    pub(crate) part: Option<u32>,
    /// `_HLS_skip`: it may leave out what the player knows.
    pub(crate) skips: bool,
}

/// What can be said of a request for a playlist without asking its origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reload {
    /// Nothing.
    Unknown,
    /// This version has what is asked for.
    Has(Known),
    /// What is asked for is too far away from this version to be waited for.
    TooFar(Known),
}

/// A version that is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) key: Arc<Key>,
    /// What its client asked for, directives included.
    pub(crate) target: Arc<str>,
}

impl Directives {
    /// Those of a target.
    pub(crate) fn of(target: &str) -> Self {
        let mut out = Self::default();
        let Some((_, query)) = target.split_once('?') else { return out };
        if !query.contains("_HLS_") {
            return out;
        }
        for (name, value) in query.split('&').filter_map(|parameter| parameter.split_once('=')) {
            match name {
                "_HLS_msn" => out.sequence = value.parse().ok(),
                "_HLS_part" => out.part = value.parse().ok(),
                "_HLS_skip" => out.skips = matches!(value, "YES" | "v2"),
                _ => {}
            }
        }
        out
    }

    /// Whether a playlist that has come to `edge` is the answer.
    pub(crate) fn are_met(self, edge: Edge, last_parts: u32) -> bool {
        self.sequence.is_some_and(|sequence| has(edge, last_parts, sequence, self.part))
    }
}

/// A target without the directives: that of the playlist itself.
pub(crate) fn without(target: &str) -> Cow<'_, str> {
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
        let want = Directives { sequence: Some(7), part: Some(2), skips: true };
        assert_eq!(Directives::of(target), want);
        assert_eq!(without(target), "/a.m3u8?t=1");
        assert_eq!(without("/a.m3u8?_HLS_msn=7"), "/a.m3u8");
        assert_eq!(without("/a.m3u8?x"), "/a.m3u8?x");
        assert_eq!(Directives::of("/a?_HLS_msn=x&_HLS_msn"), Directives::default());
        assert_eq!(Directives::of("/a"), Directives::default());
    }
}
