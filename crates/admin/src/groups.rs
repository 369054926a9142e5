//! What each group of workers has and does, where there are several.

use freshet_cache::Key;
use freshet_node::node::Node;
use freshet_node::stats::WorkerStats;
use serde::Serialize;
use utoipa::ToSchema;

/// Figures of a group.
#[derive(Serialize, ToSchema)]
pub(crate) struct GroupFigures {
    /// Its number.
    pub(crate) group: usize,
    /// Workers.
    pub(crate) workers: usize,
    /// Its part of the memory, bytes.
    pub(crate) memory_limit_bytes: u64,
    /// Of it used by bodies, bytes.
    pub(crate) memory_used_bytes: u64,
    /// Stored responses, copies of what is at home in others too.
    pub(crate) objects: u64,
    /// Connections its workers accepted.
    pub(crate) connections: u64,
    /// Hits of its workers.
    pub(crate) hits: u64,
    /// Of these, from its copies of what is at home in others.
    pub(crate) hits_of_copies: u64,
    /// Of these, from the memory of others.
    pub(crate) hits_of_others: u64,
    /// Copies it made.
    pub(crate) copies: u64,
}

/// The figures of all groups; none where there is one.
pub(crate) fn groups(node: &Node) -> Vec<GroupFigures> {
    let shared = &node.shared;
    let all = shared.cache.all();
    if all.len() == 1 {
        return Vec::new();
    }
    let figures = all.iter().enumerate().map(|(group, cache)| {
        let workers: Vec<&WorkerStats> = (shared.layout.workers.iter().zip(&shared.stats))
            .filter(|(seat, _)| seat.group == group)
            .map(|(_, stats)| &**stats)
            .collect();
        let sum = |value: fn(&WorkerStats) -> u64| -> u64 {
            workers.iter().map(|stats| value(stats)).sum()
        };
        let arena = cache.arena().stats();
        GroupFigures {
            group,
            workers: workers.len(),
            memory_limit_bytes: arena.limit_bytes,
            memory_used_bytes: arena.used_bytes,
            objects: cache.stats().objects,
            connections: sum(|stats| stats.connections_accepted.value()),
            hits: sum(|stats| stats.hits.value()),
            hits_of_copies: sum(|stats| stats.hits_of_copies.value()),
            hits_of_others: sum(|stats| stats.hits_of_others.value()),
            copies: sum(|stats| stats.copies.value()),
        }
    });
    figures.collect()
}

/// In which group a key is at home, and which others have copies; `None` where there is one group.
pub(crate) fn places_of(node: &Node, key: &Key) -> Option<String> {
    let cache = &node.shared.cache;
    let home = (cache.all().len() > 1).then(|| cache.home_of(key))?;
    let copies: Vec<_> = cache.copied_to(key).map(|group| group.to_string()).collect();
    let copied = match copies.len() {
        0 => String::new(),
        _ => format!(", copied to {}", copies.join(", ")),
    };
    Some(format!("at home in {home}{copied}"))
}
