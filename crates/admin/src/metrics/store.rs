//! Metrics of the index and of memory.

use super::writer::{Row, Writer};
use crate::groups::GroupFigures;
use freshet_cache::LowerStats;
use freshet_node::node::Node;
use std::fmt;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    cache(node, out)?;
    memory(node, out)?;
    groups(node, out)?;
    lower_memory(node, out)
}

fn cache(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let stats = node.shared.cache.stats();
    let counts = &stats.counters;
    out.gauge("freshet_cache_objects", "Stored responses.", stats.objects as f64)?;
    let bytes = stats.bytes as f64;
    out.gauge("freshet_cache_bytes", "Bytes of stored bodies and heads.", bytes)?;
    let results = [
        ("hit", counts.hits),
        ("hit-stale", counts.hits_stale),
        ("miss-uri", counts.misses_uri),
        ("miss-vary", counts.misses_vary),
        ("miss-stale", counts.misses_stale),
        ("miss-request", counts.misses_ignored),
        ("hit-for-miss", counts.hits_for_miss),
        ("wait", counts.waits),
        ("wait-refused", counts.waits_refused),
    ];
    out.counters("freshet_cache_lookups", "Look-ups by what they found.", &["result"], results)?;
    let counters = [
        ("refreshes", "Refreshes begun while a stale response was served.", counts.refreshes),
        ("inserted", "Responses stored.", counts.inserted),
        ("ahead", "Of these, those that nobody had asked for yet.", counts.inserted_ahead),
        (
            "ahead_unused",
            "Of these, those that left before anybody asked for them.",
            counts.left_unasked,
        ),
        ("replaced", "Stored responses replaced by newer ones.", counts.replaced),
        (
            "variants_evicted",
            "Stored responses evicted because their URL has too many variants.",
            counts.variants_evicted,
        ),
        ("validated", "Stored responses the origin confirmed.", counts.validated),
        ("purged", "Stored responses purged.", counts.purged),
        (
            "refused_purged",
            "Responses not stored as they were purged on arrival.",
            counts.refused_purged,
        ),
        ("refused_room", "Responses not stored for want of room.", stats.refused_room),
        ("evicted", "Stored responses evicted to make room.", counts.evicted),
        ("evicted_bytes", "Bytes of evicted responses.", stats.evicted_bytes),
        ("forgotten", "Stored responses that became too large to keep.", counts.forgotten),
    ];
    for (name, help, value) in counters {
        out.counter(&format!("freshet_cache_{name}"), help, value)?;
    }
    Ok(())
}

/// What each group of workers has and does, where there are several.
fn groups(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let groups = crate::groups::groups(node);
    let names: Vec<String> = groups.iter().map(|group| group.group.to_string()).collect();
    let of_all = |value: fn(&GroupFigures) -> u64| {
        names.iter().map(String::as_str).zip(groups.iter().map(value))
    };
    let gauges: [Row<GroupFigures, u64>; 3] = [
        ("memory_limit_bytes", "Memory of a group.", |group| group.memory_limit_bytes),
        ("memory_used_bytes", "Memory of bodies in a group.", |group| group.memory_used_bytes),
        (
            "objects",
            "Stored responses in a group, copies of what is at home in others too.",
            |group| group.objects,
        ),
    ];
    for (name, help, value) in gauges {
        let values = of_all(value).map(|(name, value)| (name, value as f64));
        out.gauges(&format!("freshet_group_{name}"), help, &["group"], values)?;
    }
    let counters: [Row<GroupFigures, u64>; 5] = [
        ("connections", "Connections the workers of a group accepted.", |group| group.connections),
        ("hits", "Hits of the workers of a group.", |group| group.hits),
        (
            "hits_of_copies",
            "Hits of a group from its copies of what is at home in others.",
            |group| group.hits_of_copies,
        ),
        ("hits_of_others", "Hits of a group from the memory of others.", |group| {
            group.hits_of_others
        }),
        ("copies", "Copies a group made.", |group| group.copies),
    ];
    for (name, help, value) in counters {
        out.counters(&format!("freshet_group_{name}"), help, &["group"], of_all(value))?;
    }
    Ok(())
}

const LOWER_GAUGES: [Row<LowerStats, u64>; 3] = [
    ("limit_bytes", "Memory of the lower class.", |stats| stats.limit_bytes),
    ("used_bytes", "Memory of the lower class in use.", |stats| stats.used_bytes),
    ("objects", "Objects in the lower class.", |stats| stats.objects),
];

const LOWER_COUNTERS: [Row<LowerStats, u64>; 7] = [
    ("hits", "Hits answered from the lower class, among all hits.", |stats| stats.hits),
    ("demoted", "Objects that moved to the lower class.", |stats| stats.demoted),
    ("demoted_bytes", "Bytes that moved to the lower class.", |stats| stats.demoted_bytes),
    ("promoted", "Objects that moved back from the lower class.", |stats| stats.promoted),
    ("promoted_bytes", "Bytes that moved back from the lower class.", |stats| stats.promoted_bytes),
    ("evicted", "Objects evicted from the lower class.", |stats| stats.evicted),
    ("refused", "Objects the lower class had no room for.", |stats| stats.refused),
];

fn lower_memory(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let stats = node.shared.cache.lower_stats();
    for (name, help, value) in LOWER_GAUGES {
        let value = stats.as_ref().map(|stats| value(stats) as f64);
        out.gauge(&format!("freshet_lower_memory_{name}"), help, value)?;
    }
    for (name, help, value) in LOWER_COUNTERS {
        out.counter(&format!("freshet_lower_memory_{name}"), help, stats.as_ref().map(value))?;
    }
    Ok(())
}

fn memory(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let stats = node.shared.cache.memory();
    let readers = node.shared.readers.stats();
    let gauges = [
        (
            "limit_bytes",
            "Memory objects may take, all that describes them included.",
            stats.limit_bytes,
        ),
        ("committed_bytes", "Memory for bodies taken from the system.", stats.committed_bytes),
        ("used_bytes", "Memory of bodies.", stats.used_bytes),
        ("free_bytes", "Memory taken from the system and free.", stats.free_bytes),
        ("metadata_bytes", "Memory of heads, keys and tables.", stats.metadata_bytes),
        (
            "pinned_bytes",
            "Memory of bodies that left the cache and are still read.",
            stats.pinned_bytes,
        ),
        (
            "held_bytes",
            "Memory of bodies that responses keep which wait for their clients.",
            readers.bytes,
        ),
        (
            "filling_bytes",
            "Memory of bodies that are being fetched to be kept.",
            stats.filling_bytes,
        ),
        ("waiting", "Fetches that wait for memory.", stats.waiting),
    ];
    for (name, help, value) in gauges {
        out.gauge(&format!("freshet_memory_{name}"), help, value as f64)?;
    }
    let counters = [
        ("waits", "Times a fetch had to wait for memory.", stats.waits),
        ("refusals", "Times there was no memory to be had.", stats.refusals),
        (
            "fills_refused",
            "Times a body to be kept had to pass, as those under way held what they may.",
            stats.fills_refused,
        ),
        (
            "holds_displaced",
            "Times a response lost what it kept in memory to one whose client had waited less.",
            readers.displaced,
        ),
        ("reclaims", "Times eviction was asked for.", stats.reclaim_calls),
        ("reclaimed_bytes", "Memory that eviction freed.", stats.reclaimed_bytes),
    ];
    for (name, help, value) in counters {
        out.counter(&format!("freshet_memory_{name}"), help, value)?;
    }
    Ok(())
}
