//! What rules mean, said slowly: one after the other, field by field.
//!
//! The compiled sets and the program in the kernel are held against this.

use super::{Direction, ENTRIES_MAX, Filter, Profile, Rule, Subject};

/// A rule's filter in one direction, as both classifiers count them: the lowest place wins.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The filter, reversed where it looks for answers of a flow.
    pub filter: Filter,
    /// Whether it is reversed.
    pub is_reversed: bool,
    /// Which limiter its packets pass, 0 being none.
    pub limiter: u8,
}

/// The filters of active rules for one direction, the one that goes first in front.
#[must_use]
pub fn entries(rules: &[Rule], direction: Direction) -> Vec<Entry<'_>> {
    let mut active: Vec<&Rule> = rules.iter().filter(|rule| rule.is_active).collect();
    active.sort_by_key(|rule| rule.priority);
    let mut entries = Vec::new();
    for rule in active {
        let is_reversed = rule.is_flow && direction == Direction::Downlink;
        for filter in &rule.filters {
            let filter = if is_reversed { filter.reversed() } else { filter.clone() };
            // What is too much is not made more.
            let parts = if entries.len() > ENTRIES_MAX { &[][..] } else { &rule.parts };
            for part in parts {
                let limiter = part.limiter;
                let both = both_ways(&part.filter).filter_map(|one| filter.and(&one));
                entries.extend(both.map(|filter| Entry { rule, filter, is_reversed, limiter }));
            }
            entries.push(Entry { rule, filter, is_reversed, limiter: rule.limiter });
        }
    }
    entries
}

/// A filter of what goes its way, and that of what goes the other, where these differ.
fn both_ways(filter: &Filter) -> impl Iterator<Item = Filter> {
    let reversed = filter.reversed();
    let other = (reversed != *filter).then_some(reversed);
    [filter.clone()].into_iter().chain(other)
}

/// The first of `entries` that matches.
#[must_use]
pub fn first_match(
    entries: &[Entry<'_>],
    direction: Direction,
    subject: &Subject,
    profile: &Profile,
) -> Option<usize> {
    entries.iter().position(|entry| matches(&entry.filter, direction, subject, profile))
}

/// Whether one filter matches.
#[must_use]
pub fn matches(
    filter: &Filter,
    direction: Direction,
    subject: &Subject,
    profile: &Profile,
) -> bool {
    let has_address = |side: usize| {
        let ranges = &filter.addresses[side];
        ranges.is_empty() || ranges.iter().any(|range| range.contains(subject.addresses[side]))
    };
    let has_port = |side: usize| {
        let ranges = &filter.ports[side];
        let port = subject.ports.map(|ports| ports[side]);
        ranges.is_empty()
            || port.is_some_and(|port| ranges.iter().any(|range| range.contains(&port)))
    };
    has_address(0)
        && has_address(1)
        && has_port(0)
        && has_port(1)
        && (filter.protocols.is_empty() || filter.protocols.contains(&subject.protocol))
        && has_class(filter, subject.version, subject.traffic_class)
        && has_profile(filter, direction, profile)
}

/// Whether DSCP and traffic class agree. Either speaks of one IP version, so that a filter with one
/// of them alone leaves the packets of the other version out.
pub(super) fn has_class(filter: &Filter, version: u8, traffic_class: u8) -> bool {
    match (filter.dscp, filter.traffic_class) {
        (None, None) => true,
        (dscp, _) if version == 4 => dscp == Some(traffic_class >> 2),
        (_, class) => class == Some(traffic_class),
    }
}

/// Whether the client's tags, tunnel and network agree.
pub(super) fn has_profile(filter: &Filter, direction: Direction, profile: &Profile) -> bool {
    let has_tag =
        filter.tags.is_empty() || filter.tags.iter().any(|tag| profile.tags.contains(tag));
    // Base station and core are source and target of a tunnel from the client.
    let ends = profile.tunnel.map(|[access, core]| match direction {
        Direction::Uplink => [access, core],
        Direction::Downlink => [core, access],
    });
    let has_end = |side: usize| {
        let ranges = &filter.tunnels[side];
        ranges.is_empty()
            || ends.is_some_and(|ends| ranges.iter().any(|range| range.contains(ends[side])))
    };
    let is_in = filter.network.is_none_or(|network| network == profile.network);
    has_tag && has_end(0) && has_end(1) && is_in
}
