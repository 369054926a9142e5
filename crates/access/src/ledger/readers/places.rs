//! Who holds what, and whose place is given to another.

use super::{Held, Loss, ReaderLimits};
use crate::ledger::network::Network;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many things are let go for one at most.
const DISPLACED_MAX: usize = 16;
/// How many of those who have waited longest are looked at for one whose place is of use.
const LOOKED_AT_MAX: usize = 64;

/// All places.
#[derive(Debug, Default)]
pub(super) struct Places {
    bytes: u64,
    things: HashMap<usize, Thing>,
    networks: HashMap<Network, Holder>,
    by_bytes: BTreeSet<(u64, Network)>,
    turn_last: u64,
}

#[derive(Debug)]
struct Thing {
    bytes: u64,
    /// The responses that keep it, by network and turn.
    keepers: BTreeSet<(Network, Turn)>,
}

#[derive(Debug, Default)]
struct Holder {
    bytes: u64,
    /// How many of its responses keep each thing, and what it was counted with.
    things: HashMap<usize, (u32, u64)>,
    /// Its responses, by their turns: what each keeps, and where it hears that it has lost it.
    responses: BTreeMap<Turn, (usize, Arc<Seat>)>,
}

/// The order in which places are given to others: who loses least first, and of these who has waited
/// longest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Turn {
    loss: Loss,
    number: u64,
}

impl Turn {
    pub(super) fn loss(self) -> Loss {
        self.loss
    }
}

/// Whose share is used up.
#[derive(Debug)]
pub(super) enum Full {
    Network,
    All,
}

/// Where a response hears that its place went to another.
#[derive(Debug, Default)]
pub(super) struct Seat(Mutex<SeatState>);

#[derive(Debug, Default)]
struct SeatState {
    is_lost: bool,
    waker: Option<Waker>,
}

impl Seat {
    pub(super) fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    pub(super) fn poll_lost(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_lost {
            return Poll::Ready(());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub(super) fn lose(&self) {
        let waker = {
            let mut state = self.state();
            state.is_lost = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, SeatState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn networks(&self) -> usize {
        self.networks.len()
    }

    /// A place for a response that keeps `held`: its turn, and its seat.
    pub(super) fn take(
        &mut self,
        network: Network,
        held: Held,
        loss: Loss,
        limits: ReaderLimits,
    ) -> Result<(Turn, Arc<Seat>), Full> {
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
        if !(fits_network || holder_more == 0) {
            return Err(Full::Network);
        }
        if self.bytes + more > limits.bytes_max {
            return Err(Full::All);
        }
        self.bytes += more;
        self.turn_last += 1;
        let (turn, seat) = (Turn { loss, number: self.turn_last }, Arc::new(Seat::default()));
        let none = || Thing { bytes: 0, keepers: BTreeSet::new() };
        let thing = self.things.entry(id).or_insert_with(none);
        thing.bytes += more;
        thing.keepers.insert((network, turn));
        let holder = self.networks.entry(network).or_default();
        let (responses, counted) = holder.things.entry(id).or_insert((0, 0));
        *responses += 1;
        *counted += holder_more;
        holder.responses.insert(turn, (id, Arc::clone(&seat)));
        self.by_bytes.remove(&(holder.bytes, network));
        holder.bytes += holder_more;
        self.by_bytes.insert((holder.bytes, network));
        Ok((turn, seat))
    }

    /// As [`Places::take`], in the place of those whose seats are put into `lost`.
    pub(super) fn take_instead(
        &mut self,
        network: Network,
        held: Held,
        (loss, loss_max): (Loss, Loss),
        limits: ReaderLimits,
        lost: &mut Vec<Arc<Seat>>,
    ) -> Option<(Turn, Arc<Seat>)> {
        if held.bytes > limits.bytes_max {
            return None;
        }
        for _ in 0..DISPLACED_MAX {
            let (fullest, most) = match self.take(network, held, loss, limits) {
                Ok(taken) => return Some(taken),
                Err(Full::Network) => (network, loss_max),
                Err(Full::All) => (self.by_bytes.last()?.1, Loss::Ends),
            };
            let first = self.first_of(fullest, most)?;
            let keepers = self.things.get(&first)?.keepers.clone();
            lost.extend(keepers.iter().filter_map(|(of, turn)| self.give_back(*of, *turn)));
        }
        self.take(network, held, loss, limits).ok()
    }

    /// What a network is to let go first, of such as lose no more than `loss_max` by it: what is kept by
    /// one that has waited long and by nobody else, so that few notice, or else what the first one keeps.
    fn first_of(&self, network: Network, loss_max: Loss) -> Option<usize> {
        let holder = self.networks.get(&network)?;
        let is_only = |id: &usize| self.things.get(id).is_some_and(|it| it.keepers.len() == 1);
        let responses = holder.responses.iter().take_while(|(turn, _)| turn.loss <= loss_max);
        let mut ids = responses.map(|(_, (id, _))| *id).take(LOOKED_AT_MAX);
        let first = ids.clone().next();
        ids.find(is_only).or(first)
    }

    /// Puts who has this turn behind all others that lose as much as it does now; says its new turn.
    pub(super) fn renew(&mut self, network: Network, turn: Turn, loss: Loss) -> Turn {
        let Some(holder) = self.networks.get_mut(&network) else { return turn };
        let Some(response) = holder.responses.remove(&turn) else { return turn };
        self.turn_last += 1;
        let renewed = Turn { loss, number: self.turn_last };
        if let Some(thing) = self.things.get_mut(&response.0) {
            thing.keepers.remove(&(network, turn));
            thing.keepers.insert((network, renewed));
        }
        holder.responses.insert(renewed, response);
        renewed
    }

    /// Takes a place back, if whoever had this turn still has it.
    pub(super) fn give_back(&mut self, network: Network, turn: Turn) -> Option<Arc<Seat>> {
        let holder = self.networks.get_mut(&network)?;
        let (id, seat) = holder.responses.remove(&turn)?;
        let thing = self.things.get_mut(&id)?;
        thing.keepers.remove(&(network, turn));
        if thing.keepers.is_empty() {
            self.bytes -= thing.bytes;
            self.things.remove(&id);
        }
        let (responses, counted) = holder.things.get_mut(&id)?;
        *responses -= 1;
        if *responses > 0 {
            return Some(seat);
        }
        self.by_bytes.remove(&(holder.bytes, network));
        holder.bytes -= *counted;
        holder.things.remove(&id);
        if holder.things.is_empty() {
            self.networks.remove(&network);
        } else {
            self.by_bytes.insert((holder.bytes, network));
        }
        Some(seat)
    }

    /// Whether all sums are what they are sums of.
    #[cfg(test)]
    pub(super) fn check(&self, limits: ReaderLimits) {
        assert_eq!(self.bytes, self.things.values().map(|thing| thing.bytes).sum::<u64>());
        assert!(self.bytes <= limits.bytes_max);
        assert_eq!(self.by_bytes.len(), self.networks.len());
        for (network, holder) in &self.networks {
            assert!(self.by_bytes.contains(&(holder.bytes, *network)));
            assert_eq!(holder.bytes, holder.things.values().map(|(_, bytes)| bytes).sum::<u64>());
            let responses: u32 = holder.things.values().map(|(responses, _)| responses).sum();
            assert_eq!(responses as usize, holder.responses.len());
            for (turn, (id, _)) in &holder.responses {
                assert!(self.things[id].keepers.contains(&(*network, *turn)));
            }
            assert!(holder.bytes <= limits.network_bytes_max || holder.things.len() == 1);
        }
    }
}
