//! How many connections an origin may have over all workers, and who waits for one.
//!
//! A [`Permit`] belongs to a connection, not to an exchange: the limit protects the origin, which
//! pays for idle connections too. So that idle ones of one worker do not starve another, pools
//! ask [`Capacity::is_short`] before they keep a connection, and a pool that has to wait rings the
//! bells of all others, which then close an idle one.

use crate::definition::Origin;
use freshet_base::ledger::Ledger;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The limit on connections to one origin.
#[derive(Debug)]
pub(crate) struct Capacity {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Whether the last that wanted a connection got none.
    was_refused: AtomicBool,
    /// One bell for each worker's pool that ever connected to this origin.
    bells: Mutex<Vec<Weak<Notify>>>,
}

/// The right to have one connection.
#[derive(Debug)]
pub(crate) struct Permit(#[expect(dead_code, reason = "held for its Drop")] OwnedSemaphorePermit);

/// Somebody waits for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Origin>);

impl Capacity {
    pub(crate) fn new(connections_max: u32) -> Self {
        let permits = usize::try_from(connections_max).unwrap_or(usize::MAX);
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            was_refused: AtomicBool::new(false),
            bells: Mutex::default(),
        }
    }

    /// A permit where one is free and nobody waits for it.
    pub(crate) fn try_permit(&self) -> Option<Permit> {
        Arc::clone(&self.permits).try_acquire_owned().ok().map(Permit)
    }

    /// Waits for a permit, in turn with all others that wait.
    pub(crate) async fn permit(&self) -> Permit {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        Permit(permit.expect("this semaphore is never closed"))
    }

    /// Whether every permit is out.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Notes whether one that wanted a connection got it.
    pub(crate) fn note(&self, was_refused: bool) {
        // As a rule it is so already, and then nothing is written that other workers read.
        if self.was_refused.load(Relaxed) != was_refused {
            self.was_refused.store(was_refused, Relaxed);
        }
    }

    /// Whether every permit is out and the last that wanted one was refused.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_full() && self.was_refused.load(Relaxed)
    }

    /// Whether somebody waits for a connection.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting_len() > 0
    }

    /// How many wait for a connection, in all workers.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Rings `bell` from now on whenever somebody begins to wait.
    pub(crate) fn register(&self, bell: &Arc<Notify>) {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Arc::downgrade(bell);
        bells.retain(|bell| bell.strong_count() > 0 && !bell.ptr_eq(&new));
        bells.push(new);
    }
}

impl Waiting {
    /// Marks a wait and rings the other pools.
    pub(crate) fn new(origin: &Arc<Origin>) -> Self {
        let capacity = &origin.capacity;
        capacity.waiting.fetch_add(1, SeqCst);
        for bell in capacity.bells.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(bell) = bell.upgrade() {
                bell.notify_one();
            }
        }
        Self(Arc::clone(origin))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.capacity.waiting.give_back(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_permit_given_back_goes_to_the_one_that_waits() {
        let capacity = Capacity::new(1);
        let first = capacity.try_permit();
        assert!(first.is_some() && capacity.try_permit().is_none());
        let (_second, ()) = tokio::join!(capacity.permit(), async { drop(first) });
        assert!(capacity.try_permit().is_none());
    }

    #[tokio::test]
    async fn waiting_rings_every_registered_bell() {
        let origin = Origin::new("192.0.2.1".parse().unwrap()).unwrap();
        let bell = Arc::new(Notify::new());
        origin.capacity.register(&bell);
        assert!(!origin.capacity.is_short());
        let waiting = Waiting::new(&origin);
        assert!(origin.capacity.is_short());
        bell.notified().await;
        drop(waiting);
        assert!(!origin.capacity.is_short());
    }
}
