//! What readers keep in memory while they are waited for, counted by the network they come from.
//!
//! A response keeps the bytes it is made of where they are, so that a popular object may leave the
//! index while it is being read. Somebody who reads slowly, or not at all, keeps them for as long:
//! three connections could hold all of a node's memory. So a response that has to wait for its
//! client is counted here once, with what it keeps. Where that is more than the client's network, or
//! all clients, may hold, it gets no [`Hold`], and its session has it let go: it goes on from small
//! copies, and what is evicted under it is fetched again.
//!
//! A response that could not go on like that gets the place of another one instead
//! ([`ReaderMemory::hold_instead`]): of one that can, or else of the client that has taken nothing for
//! the longest time; of its own network where that one is full, or else of the network that holds most.
//! Whoever reads is not cut off for those who do not, and of many responses to one client none ends for
//! another that would only have been at risk.
//!
//! What several responses keep is counted once, so a crowd that reads one object holds that object,
//! however large it is. A client that is never waited for costs nothing here.

mod places;
#[cfg(test)]
mod tests;

use crate::ledger::network::Network;
use freshet_base::counter::SharedCounter;
use places::{Places, Seat, Turn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

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

    /// These, but for a network only this part of what it may hold.
    #[must_use]
    pub fn within_network_percent(self, percent: u64) -> Self {
        Self { network_bytes_max: self.network_bytes_max / 100 * percent.min(100), ..self }
    }

    /// These, but no more than so many bytes.
    #[must_use]
    pub fn within(self, bytes: u64) -> Self {
        Self {
            bytes_max: self.bytes_max.min(bytes),
            network_bytes_max: self.network_bytes_max.min(bytes),
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

/// What becomes of a response that loses its place; who loses least goes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Loss {
    /// It goes on: what is evicted under it is had again.
    GoesOn,
    /// It breaks off where something is evicted under it.
    MayBreak,
    /// It ends.
    Ends,
}

/// What is held by whom, over all workers.
#[derive(Debug, Default)]
pub struct ReaderMemory {
    places: Mutex<Places>,
    /// Refusals, of all that was asked.
    refused: SharedCounter,
    /// Places that were given to others.
    displaced: SharedCounter,
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
    /// Times somebody's place was given to another.
    pub displaced: u64,
}

/// The right to keep something; given back when dropped.
#[derive(Debug)]
pub struct Hold {
    memory: Arc<ReaderMemory>,
    network: Network,
    held: Held,
    /// Its turn among those of its network: who has the lowest goes first.
    turn: Turn,
    seat: Arc<Seat>,
}

impl Hold {
    /// What it is for.
    pub fn held(&self) -> Held {
        self.held
    }

    /// Whether another has its place.
    pub fn is_lost(&self) -> bool {
        self.seat.is_lost()
    }

    /// Ready once another has its place.
    pub fn poll_lost(&self, cx: &Context<'_>) -> Poll<()> {
        self.seat.poll_lost(cx)
    }

    /// Notes that the client took something: of its network all others that lose as much go before it now.
    pub fn renew(&mut self) {
        self.stand(self.turn.loss());
    }

    /// The same of one that would lose more by now. Costs nothing where it would not.
    pub fn note_loss(&mut self, loss: Loss) {
        if loss > self.turn.loss() {
            self.stand(loss);
        }
    }

    fn stand(&mut self, loss: Loss) {
        self.turn = self.memory.places().renew(self.network, self.turn, loss);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.memory.places().give_back(self.network, self.turn);
    }
}

impl ReaderMemory {
    /// Counts what a response of this network keeps; `None` where it is too much.
    pub fn hold(
        self: &Arc<Self>,
        network: Network,
        held: Held,
        loss: Loss,
        limits: ReaderLimits,
    ) -> Option<Hold> {
        let taken = self.places().take(network, held, loss, limits).ok();
        self.held(network, held, taken)
    }

    /// As [`ReaderMemory::hold`], in the place of others where there is no room: of its own network only of
    /// such as lose no more by it than `loss_max`.
    pub fn hold_instead(
        self: &Arc<Self>,
        network: Network,
        held: Held,
        (loss, loss_max): (Loss, Loss),
        limits: ReaderLimits,
    ) -> Option<Hold> {
        let mut lost = Vec::new();
        let losses = (loss, loss_max);
        let taken = self.places().take_instead(network, held, losses, limits, &mut lost);
        self.displaced.add(lost.len() as u64);
        // Not under the lock: who is woken may ask at once.
        lost.iter().for_each(|seat| seat.lose());
        self.held(network, held, taken)
    }

    /// How much is held now.
    pub fn stats(&self) -> ReaderStats {
        let places = self.places();
        ReaderStats {
            bytes: places.bytes(),
            networks: places.networks(),
            refused: self.refused.value(),
            displaced: self.displaced.value(),
        }
    }

    fn held(
        self: &Arc<Self>,
        network: Network,
        held: Held,
        taken: Option<(Turn, Arc<Seat>)>,
    ) -> Option<Hold> {
        let Some((turn, seat)) = taken else {
            self.refused.add(1);
            return None;
        };
        Some(Hold { memory: Arc::clone(self), network, held, turn, seat })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Nothing under this lock panics between two changes that belong together.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
