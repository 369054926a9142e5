//! Requests that wait for a fetch another request makes.
//!
//! A `Pending` stands for one exclusive fetch. Waiters are futures that leave their waker in it;
//! whoever ends the fetch sets the outcome once and wakes them all. Outcome and wakers are under
//! one lock, so a waiter either sees the outcome or is woken by it, from whatever thread.

use crate::selector::Selector;
use freshet_http::proxy_status::ProxyError;
use freshet_http::reason::Reason;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why a fetch gave no response, shared by all that waited for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// Status to answer with, 500 to 599 as a rule.
    pub status: u16,
    /// Error type for `Proxy-Status` (RFC 9209 §2.3), where one fits.
    pub error: Option<ProxyError>,
    /// Why, as logs and pages have it.
    pub reason: Reason,
    /// What happened, for logs.
    pub detail: Box<str>,
}

/// How waiting ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WaitOutcome {
    /// Look up again: there may be an object now, or the turn to fetch.
    TryAgain,
    /// The fetch failed. Looking up again would fetch again.
    Failed(Arc<Failure>),
}

/// One exclusive fetch under way.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Which requests wait for this fetch: all, until the rule of the resource is known.
    pub(crate) selector: Selector,
    /// The selector's.
    pub(crate) hash: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<WaitOutcome>,
    /// One place per waiter; a place has no waker until its waiter was polled.
    places: Vec<Place>,
    free: Vec<usize>,
}

#[derive(Debug)]
enum Place {
    Free,
    Taken(Option<Waker>),
}

impl Pending {
    pub(crate) fn new(selector: Selector) -> Self {
        Self { hash: selector.hash(), selector, state: Mutex::default() }
    }

    /// Adds a waiter; `None` where `waiters_max` wait already.
    pub(crate) fn wait(self: &Arc<Self>, waiters_max: usize) -> Option<Waiter> {
        let mut state = self.lock();
        if state.places.len() - state.free.len() >= waiters_max {
            return None;
        }
        let place = if let Some(place) = state.free.pop() {
            state.places[place] = Place::Taken(None);
            place
        } else {
            state.places.push(Place::Taken(None));
            state.places.len() - 1
        };
        drop(state);
        Some(Waiter { pending: Arc::clone(self), place })
    }

    /// Ends the fetch: all waiters, present and later, get `outcome`. Only the first call counts.
    /// Wakes outside the lock; the caller holds no lock either.
    pub(crate) fn finish(&self, outcome: WaitOutcome) {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(outcome);
        let wakers: Vec<Waker> = state.places.iter_mut().filter_map(Place::take_waker).collect();
        drop(state);
        for waker in wakers {
            waker.wake();
        }
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        let state = self.lock();
        state.places.len() - state.free.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics under this lock; a waker's clone that does leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Free => None,
            Self::Taken(waker) => waker.take(),
        }
    }
}

/// Waits for the fetch another request makes. May be polled on any thread, and dropped at any
/// time: its waker goes with it. Reading the outcome again after it was ready gives it again.
#[derive(Debug)]
pub struct Waiter {
    pending: Arc<Pending>,
    place: usize,
}

impl Future for Waiter {
    type Output = WaitOutcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WaitOutcome> {
        let mut state = self.pending.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        let place = &mut state.places[self.place];
        let before = match place {
            Place::Taken(Some(waker)) if waker.will_wake(cx.waker()) => None,
            _ => Some(std::mem::replace(place, Place::Taken(Some(cx.waker().clone())))),
        };
        drop(state);
        // An old waker may be the last reference to a task; it goes after the lock.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.pending.lock();
        let before = std::mem::replace(&mut state.places[self.place], Place::Free);
        state.free.push(self.place);
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn poll(waiter: &mut Waiter, count: &Arc<Count>) -> Poll<WaitOutcome> {
        Pin::new(waiter).poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
    }

    #[test]
    fn the_end_wakes_every_waiter_once() {
        let pending = Arc::new(Pending::new(Selector::default()));
        let count = Arc::new(Count::default());
        let mut waiters: Vec<Waiter> =
            (0..3).map(|_| pending.wait(10).expect("there is room")).collect();
        for waiter in &mut waiters {
            assert!(poll(waiter, &count).is_pending());
            assert!(poll(waiter, &count).is_pending());
        }
        pending.finish(WaitOutcome::TryAgain);
        pending.finish(WaitOutcome::TryAgain);
        assert_eq!(count.0.load(SeqCst), 3);
        for waiter in &mut waiters {
            assert_eq!(poll(waiter, &count), Poll::Ready(WaitOutcome::TryAgain));
        }
    }

    #[test]
    fn a_waiter_first_polled_after_the_end_is_ready() {
        let pending = Arc::new(Pending::new(Selector::default()));
        let mut waiter = pending.wait(1).expect("there is room");
        let failure = Failure {
            status: 502,
            error: None,
            reason: Reason::OriginRefused,
            detail: "no".into(),
        };
        pending.finish(WaitOutcome::Failed(Arc::new(failure.clone())));
        let outcome = poll(&mut waiter, &Arc::default());
        assert_eq!(outcome, Poll::Ready(WaitOutcome::Failed(Arc::new(failure))));
    }

    #[test]
    fn a_dropped_waiter_leaves_no_waker_and_makes_room() {
        let pending = Arc::new(Pending::new(Selector::default()));
        let count = Arc::new(Count::default());
        let mut first = pending.wait(1).expect("there is room");
        assert!(pending.wait(1).is_none());
        assert!(poll(&mut first, &count).is_pending());
        assert_eq!(Arc::strong_count(&count), 2);
        drop(first);
        assert_eq!((Arc::strong_count(&count), pending.waiters()), (1, 0));
        assert!(pending.wait(1).is_some());
        pending.finish(WaitOutcome::TryAgain);
        assert_eq!(count.0.load(SeqCst), 0);
    }

    #[test]
    fn only_the_last_waker_of_a_waiter_is_woken() {
        let pending = Arc::new(Pending::new(Selector::default()));
        let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut waiter = pending.wait(1).expect("there is room");
        assert!(poll(&mut waiter, &old).is_pending());
        assert!(poll(&mut waiter, &new).is_pending());
        pending.finish(WaitOutcome::TryAgain);
        assert_eq!((old.0.load(SeqCst), new.0.load(SeqCst)), (0, 1));
    }
}
