//! `[[bandwidth]]`: how fast a response is sent at most.

use super::document::{Document, Row};
use super::key::{Key, Kind, per_site};
use super::mistake::Mistake;
use super::values::beginning;
use freshet_http::path;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Most of them in a site: each may be looked at for each request.
const PER_SITE_MAX: usize = 64;

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    per_site(
        "bandwidth[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/downloads/`. The first rule that fits counts.",
    ),
    per_site(
        "bandwidth[].rate",
        Kind::Size,
        "0B",
        "Bytes a second that each response gets at most, as `2MB`.",
    ),
    per_site(
        "bandwidth[].after",
        Kind::Size,
        "0B",
        "How much of each response is sent as fast as it goes before that.",
    ),
];

/// `[[bandwidth]]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BandwidthRule {
    /// What the path begins with.
    pub path: String,
    /// How fast.
    pub pace: Pace,
}

/// How fast a body is sent at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// Bytes a second.
    pub rate: NonZeroU64,
    /// Bytes that go before it holds.
    pub free_bytes: u64,
}

/// The pace of the first rule that is for a target, if one is.
pub fn pace_of(rules: &[BandwidthRule], target: &str) -> Option<Pace> {
    rules.iter().find(|rule| path::begins_with(target, &rule.path)).map(|rule| rule.pace)
}

/// What a document says of them; what is wrong is listed.
pub(super) fn bandwidth(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[BandwidthRule]> {
    let rows = document.rows("bandwidth");
    if rows.len() > PER_SITE_MAX {
        let message = format!("a site has at most {PER_SITE_MAX} of [[bandwidth]]");
        wrong.push(Mistake::error(document.at("bandwidth[].path"), message));
    }
    rows.iter().filter_map(|row| rule(row, wrong)).collect()
}

fn rule(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<BandwidthRule> {
    let path = beginning(row, "bandwidth[].path", "/downloads/", wrong)?;
    let Some(rate) = NonZeroU64::new(row.value("bandwidth[].rate").number()) else {
        let message = "bandwidth.rate is missing: give bytes a second, as `rate = \"2MB\"`";
        let place = row.at("bandwidth[].rate").or(row.at("bandwidth[].path"));
        wrong.push(Mistake::error(place, message));
        return None;
    };
    let free_bytes = row.value("bandwidth[].after").number();
    Some(BandwidthRule { path, pace: Pace { rate, free_bytes } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let text = "[[bandwidth]]\npath = \"/a/\"\nrate = \"1MB\"\nafter = \"10MB\"\n\
                    [[bandwidth]]\nrate = \"2MB\"\n";
        let mut wrong = Vec::new();
        let rules = bandwidth(&Document::parse(text).unwrap(), &mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
        let rate_of = |target| pace_of(&rules, target).map(|pace| pace.rate.get());
        assert_eq!((rate_of("/a/b?c"), rate_of("/b")), (Some(1_000_000), Some(2_000_000)));
        assert_eq!(pace_of(&rules, "/a/").map(|pace| pace.free_bytes), Some(10_000_000));
    }

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        for (text, says) in [
            ("[[bandwidth]]\npath = \"a\"\nrate = \"1MB\"\n", "begins with `/`"),
            ("[[bandwidth]]\nafter = \"1MB\"\n", "bandwidth.rate is missing"),
            ("[[bandwidth]]\nrate = \"0B\"\n", "bandwidth.rate is missing"),
        ] {
            let mut wrong = Vec::new();
            bandwidth(&Document::parse(text).unwrap(), &mut wrong);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{text}: {wrong:?}");
        }
    }
}
