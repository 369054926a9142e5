//! What is counted of each site, where a node has several.

use crate::received::{Received, ReceivedSums};
use freshet_base::counter::Counter;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of one site on one worker.
#[derive(Debug, Default)]
pub struct SiteCounters {
    /// Requests answered.
    pub requests: Counter,
    /// Of these, from the cache.
    pub hits: Counter,
    /// Of these, with 500 and above.
    pub errors: Counter,
    /// Bytes of bodies sent.
    pub body_bytes: Counter,
    /// Of these, from the cache.
    pub hit_body_bytes: Counter,
    /// What players say of responses they got.
    pub received: Received,
}

/// The counters of a worker's sites by their names. They stay over a reload.
#[derive(Debug, Default)]
pub struct SiteStats(Mutex<HashMap<Box<str>, Arc<SiteCounters>>>);

/// The sum of a site's counts over all workers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SiteSums {
    /// See [`SiteCounters`].
    pub requests: u64,
    /// See [`SiteCounters`].
    pub hits: u64,
    /// See [`SiteCounters`].
    pub errors: u64,
    /// See [`SiteCounters`].
    pub body_bytes: u64,
    /// See [`SiteCounters`].
    pub hit_body_bytes: u64,
    /// See [`SiteCounters`].
    pub received: ReceivedSums,
}

impl SiteStats {
    /// The counters of the sites of these names, in their order. One without a name is the only one there
    /// is, and has none. What was counted of others is forgotten.
    pub fn of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Box<[Arc<SiteCounters>]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        let named = names.filter(|name| !name.is_empty());
        named
            .map(|name| {
                let counters = before.remove(name).unwrap_or_default();
                known.insert(name.into(), Arc::clone(&counters));
                counters
            })
            .collect()
    }

    /// Adds what was counted of a site.
    pub fn add_to(&self, name: &str, sums: &mut SiteSums) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(name) {
            sums.requests += counters.requests.value();
            sums.hits += counters.hits.value();
            sums.errors += counters.errors.value();
            sums.body_bytes += counters.body_bytes.value();
            sums.hit_body_bytes += counters.hit_body_bytes.value();
            counters.received.add_to(&mut sums.received);
        }
    }
}
