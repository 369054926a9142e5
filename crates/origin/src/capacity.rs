//! How many connections an origin may have over all workers, and who waits for one.
//!
//! A [`Permit`] belongs to a connection, not to an exchange: the limit protects the origin, which
//! pays for idle connections too. So that idle ones of one worker do not starve another, pools
//! ask [`Capacity::is_short`] before they keep a connection, and a pool that has to wait rings the
//! bells of all others, which then close an idle one.

use crate::definition::Origin;
use crate::line::{Claim, Line};
use freshet_base::ledger::Ledger;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, oneshot};

/// The limit on connections to one origin.
#[derive(Debug)]
pub(crate) struct Capacity {
    permits: Arc<Permits>,
    waiting: AtomicUsize,
    /// Whether the last that wanted a connection got none.
    was_refused: AtomicBool,
    /// One bell for each worker's pool that ever connected to this origin.
    bells: Mutex<Vec<Weak<Notify>>>,
}

#[derive(Debug)]
struct Permits(Mutex<Places>);

#[derive(Debug)]
struct Places {
    free: u32,
    /// Who waits for one, which there is only where none is free.
    line: Line<oneshot::Sender<Permit>>,
}

/// The right to have one connection; `None` where it was passed on.
#[derive(Debug)]
pub(crate) struct Permit(Option<Arc<Permits>>);

/// Somebody waits for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Origin>);

impl Capacity {
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            permits: Arc::new(Permits(Mutex::new(Places {
                free: connections_max,
                line: Line::default(),
            }))),
            waiting: AtomicUsize::new(0),
            was_refused: AtomicBool::new(false),
            bells: Mutex::default(),
        }
    }

    /// A permit where one is free; then nobody waits for it.
    pub(crate) fn try_permit(&self) -> Option<Permit> {
        self.take(&mut self.permits.lock())
    }

    fn take(&self, places: &mut Places) -> Option<Permit> {
        places.free = places.free.checked_sub(1)?;
        Some(Permit(Some(Arc::clone(&self.permits))))
    }

    /// Waits for a permit, in turn with all others that wait.
    pub(crate) async fn permit(&self, claim: Claim) -> Permit {
        let receiver = {
            let mut places = self.permits.lock();
            if let Some(permit) = self.take(&mut places) {
                return permit;
            }
            let (sender, receiver) = oneshot::channel();
            places.line.retain(|waiter| !waiter.is_closed());
            places.line.join(claim, sender);
            receiver
        };
        receiver.await.expect("it is dropped with the receiver only")
    }

    /// Whether every permit is out.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.lock().free == 0
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
        self.was_refused.load(Relaxed) && self.is_full()
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

impl Permits {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(of) = self.0.take() else { return };
        loop {
            let mut places = of.lock();
            let Some(next) = places.line.pop() else {
                places.free += 1;
                return;
            };
            // Nobody is woken under the lock.
            drop(places);
            match next.send(Self(Some(Arc::clone(&of)))) {
                Ok(()) => return,
                // Who waited is gone, and what it was sent is no permit any more.
                Err(mut back) => drop(back.0.take()),
            }
        }
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
        let (_second, ()) = tokio::join!(capacity.permit(Claim::default()), async { drop(first) });
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

    #[tokio::test]
    async fn what_is_urgent_gets_a_permit_before_others_and_who_has_gone_gets_none() {
        let capacity = Capacity::new(1);
        let first = capacity.try_permit();
        let order = Mutex::new(Vec::new());
        let wait = async |name: &'static str, is_urgent| {
            let permit = capacity.permit(Claim { site: 1, is_urgent }).await;
            order.lock().unwrap().push(name);
            drop(permit);
        };
        let gone = wait("gone", false);
        {
            let mut gone = std::pin::pin!(gone);
            let waker = std::task::Waker::noop();
            let mut context = std::task::Context::from_waker(waker);
            assert!(Future::poll(gone.as_mut(), &mut context).is_pending());
        }
        let all = async {
            tokio::join!(wait("usual", false), wait("later", false), wait("urgent", true))
        };
        tokio::join!(all, async { drop(first) });
        assert_eq!(*order.lock().unwrap(), ["urgent", "usual", "later"]);
        assert!(!capacity.is_full());
    }

    #[test]
    fn each_permit_is_given_once() {
        let capacity = Arc::new(Capacity::new(3));
        let held = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (capacity, held) = (Arc::clone(&capacity), Arc::clone(&held));
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(async {
                        for turn in 0..500 {
                            let claim = Claim { site: turn % 2, is_urgent: turn % 3 == 0 };
                            let permit = capacity.permit(claim).await;
                            assert!(held.fetch_add(1, SeqCst) < 3);
                            tokio::task::yield_now().await;
                            held.fetch_sub(1, SeqCst);
                            drop(permit);
                        }
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let all: Vec<_> = std::iter::from_fn(|| capacity.try_permit()).collect();
        assert_eq!(all.len(), 3);
    }
}
