//! What readers keep in memory while they are waited for, counted by the network they come from.
//!
//! A response keeps the bytes it is made of where they are, so that a popular object may leave the
//! index while it is being read. Somebody who reads slowly, or not at all, keeps them for as long:
//! three connections could hold all of a node's memory. So a response that has to wait for its
//! client is counted here once, with what it keeps. Where that is more than the client's network, or
//! all clients, may hold, it gets no [`Hold`], and its session has it let go: it goes on from small
//! copies, and what is evicted under it is fetched again or breaks it off.
//!
//! What several responses keep is counted once, so a crowd that reads one object holds that object,
//! however large it is. A client that is never waited for costs nothing here.

use crate::ledger::network::Network;
use freshet_base::counter::SharedCounter;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much may be held, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReaderLimits {
    /// By the clients of all networks.
    pub bytes_max: u64,
    /// By those of one. The first thing a network holds may be larger.
    pub network_bytes_max: u64,
}

impl ReaderLimits {
    /// Percentages of the memory for cached objects.
    pub fn of(memory_bytes: u64, percent: u64, network_percent: u64) -> Self {
        let share = |percent: u64| memory_bytes / 100 * percent.min(100);
        Self { bytes_max: share(percent), network_bytes_max: share(network_percent.min(percent)) }
    }

    /// Limits on what a response cannot go on without: as much again for a network, and half as
    /// much for all.
    fn last_resort(self) -> Self {
        Self {
            bytes_max: self.bytes_max.saturating_add(self.bytes_max / 2),
            network_bytes_max: self.network_bytes_max.saturating_mul(2),
        }
    }
}

/// Something in memory that a response keeps there: bytes that lie together, or a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    /// Tells it from all others that are there now.
    pub id: usize,
    /// Memory it takes.
    pub bytes: u64,
}

/// What is held by whom, over all workers.
#[derive(Debug, Default)]
pub struct ReaderMemory {
    state: Mutex<State>,
    /// Refusals, of all that was asked.
    refused: SharedCounter,
}

/// How much is held now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReaderStats {
    /// Bytes, each counted once.
    pub bytes: u64,
    /// Networks that hold any.
    pub networks: usize,
    /// Times somebody was refused.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    things: HashMap<usize, Thing>,
    networks: HashMap<Network, Holder>,
}

#[derive(Debug)]
struct Thing {
    bytes: u64,
    /// Networks that hold it.
    holders: u32,
}

#[derive(Debug, Default)]
struct Holder {
    bytes: u64,
    /// How many of its responses keep each thing, and what it was counted with.
    things: HashMap<usize, (u32, u64)>,
}

/// The right to keep something; given back when dropped.
#[derive(Debug)]
pub struct Hold {
    holds: Arc<ReaderMemory>,
    network: Network,
    held: Held,
}

impl Hold {
    /// What it is for.
    pub fn held(&self) -> Held {
        self.held
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.state().give_back(self.network, self.held.id);
    }
}

impl ReaderMemory {
    /// Counts what a response of this network keeps; `None` where it is too much.
    pub fn hold(
        self: &Arc<Self>,
        network: Network,
        held: Held,
        limits: ReaderLimits,
    ) -> Option<Hold> {
        let has_room = self.state().take(network, held, limits);
        if !has_room {
            self.refused.add(1);
        }
        has_room.then(|| Hold { holds: Arc::clone(self), network, held })
    }

    /// As [`ReaderMemory::hold`], for what a response has to be ended without.
    pub fn hold_least(
        self: &Arc<Self>,
        network: Network,
        held: Held,
        limits: ReaderLimits,
    ) -> Option<Hold> {
        self.hold(network, held, limits.last_resort())
    }

    /// How much is held now.
    pub fn stats(&self) -> ReaderStats {
        let state = self.state();
        ReaderStats {
            bytes: state.bytes,
            networks: state.networks.len(),
            refused: self.refused.value(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, network: Network, held: Held, limits: ReaderLimits) -> bool {
        let Held { id, bytes } = held;
        let known = self.things.get(&id).map_or(0, |thing| thing.bytes);
        let holder = self.networks.get(&network);
        let (holder_bytes, holder_known) = holder.map_or((0, 0), |holder| {
            (holder.bytes, holder.things.get(&id).map_or(0, |(_, counted)| *counted))
        });
        // What is filled meanwhile is larger each time it is asked about.
        let more = bytes.saturating_sub(known);
        let holder_more = bytes.saturating_sub(holder_known);
        let is_first = holder_bytes == holder_known;
        let fits_network = is_first || holder_bytes + holder_more <= limits.network_bytes_max;
        if self.bytes + more > limits.bytes_max || !(fits_network || holder_more == 0) {
            return false;
        }
        self.bytes += more;
        let thing = self.things.entry(id).or_insert(Thing { bytes: 0, holders: 0 });
        thing.bytes += more;
        let holder = self.networks.entry(network).or_default();
        holder.bytes += holder_more;
        let (responses, counted) = holder.things.entry(id).or_insert((0, 0));
        thing.holders += u32::from(*responses == 0);
        *responses += 1;
        *counted += holder_more;
        true
    }

    fn give_back(&mut self, network: Network, id: usize) {
        let Some(holder) = self.networks.get_mut(&network) else { return };
        let Some((responses, counted)) = holder.things.get_mut(&id) else { return };
        *responses -= 1;
        if *responses > 0 {
            return;
        }
        holder.bytes -= *counted;
        holder.things.remove(&id);
        if holder.things.is_empty() {
            self.networks.remove(&network);
        }
        let Some(thing) = self.things.get_mut(&id) else { return };
        thing.holders -= 1;
        if thing.holders == 0 {
            self.bytes -= thing.bytes;
            self.things.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::network::Prefixes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LIMITS: ReaderLimits = ReaderLimits { bytes_max: 1000, network_bytes_max: 300 };

    fn network(last: u8) -> Network {
        Network::of(Some([192, 0, 2, last].into()), Prefixes { v4: 32, v6: 56 })
    }

    #[test]
    fn what_is_held_twice_counts_once() {
        let holds = Arc::new(ReaderMemory::default());
        let thing = Held { id: 1, bytes: 200 };
        let taken: Vec<_> =
            (0..100).map(|at| holds.hold(network(at % 10), thing, LIMITS)).collect();
        assert!(taken.iter().all(Option::is_some));
        assert_eq!((holds.stats().bytes, holds.stats().networks), (200, 10));
        drop(taken);
        assert_eq!(holds.stats(), ReaderStats::default());
    }

    #[test]
    fn a_network_over_its_share_is_refused_and_others_are_not() {
        let holds = Arc::new(ReaderMemory::default());
        let hold = |last, id, bytes| holds.hold(network(last), Held { id, bytes }, LIMITS);
        let _first = hold(1, 1, 200);
        assert!(hold(1, 2, 200).is_none());
        assert!(hold(1, 3, 100).is_some());
        assert!(hold(2, 2, 200).is_some());
        assert_eq!(holds.stats().refused, 1);
        let least = holds.hold_least(network(1), Held { id: 2, bytes: 200 }, LIMITS);
        assert!(least.is_some());
    }

    #[test]
    fn the_first_may_be_larger_than_the_share_and_not_than_all() {
        let holds = Arc::new(ReaderMemory::default());
        let hold = |last, id, bytes| holds.hold(network(last), Held { id, bytes }, LIMITS);
        let first = hold(1, 1, 900);
        assert!(first.is_some() && hold(1, 2, 1).is_none() && hold(2, 2, 101).is_none());
        drop(first);
        assert!(hold(1, 1, 1001).is_none());
    }

    proptest! {
        /// Against a list of what is held: sums are right after every step, limits are kept, and
        /// nothing is left at the end.
        #[test]
        fn sums_are_what_is_held(
            steps in prop::collection::vec((0_u8..4, 0_usize..6, 1_u64..400, 0_usize..8), 1..200),
        ) {
            let holds = Arc::new(ReaderMemory::default());
            let mut held: Vec<Hold> = Vec::new();
            for (last, id, bytes, drops) in steps {
                for _ in 0..drops.min(held.len()) / 2 {
                    held.remove(drops % held.len());
                }
                held.extend(holds.hold(network(last), Held { id, bytes }, LIMITS));
                // Each thing with the most anybody said of it since it was held by nobody: at least
                // what those say who hold it now.
                let mut least: BTreeMap<usize, u64> = BTreeMap::new();
                for hold in &held {
                    let most = least.entry(hold.held.id).or_default();
                    *most = (*most).max(hold.held.bytes);
                }
                let stats = holds.stats();
                prop_assert!(stats.bytes >= least.values().sum::<u64>());
                prop_assert!(stats.bytes <= LIMITS.bytes_max);
                let mut networks: Vec<_> = held.iter().map(|hold| hold.network).collect();
                networks.sort_unstable();
                networks.dedup();
                prop_assert_eq!(stats.networks, networks.len());
                let state = holds.state();
                prop_assert_eq!(state.bytes, state.things.values().map(|thing| thing.bytes).sum::<u64>());
                for holder in state.networks.values() {
                    prop_assert_eq!(holder.bytes, holder.things.values().map(|(_, bytes)| bytes).sum::<u64>());
                    prop_assert!(holder.bytes <= LIMITS.network_bytes_max || holder.things.len() == 1);
                }
            }
            held.clear();
            prop_assert_eq!(ReaderStats { refused: 0, ..holds.stats() }, ReaderStats::default());
        }
    }
}
