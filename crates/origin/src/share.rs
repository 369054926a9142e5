//! How many exchanges with an origin one party may have at a time.
//!
//! Without it whoever asks most has all connections: a thousand requests for something slow, and
//! everybody else is refused. A party is a number to this crate, as of a client's network; the
//! `Seat` it takes is for one exchange, to the last byte of its response, however the connection
//! under it goes back to a pool.

use crate::definition::Origin;
use crate::error::OriginError;
use freshet_base::ledger::Ledger;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The least share, in exchanges: a browser's and some more. An origin with no more connections than
/// this is not shared out.
pub const SHARE_MIN: u32 = 16;

/// Who an exchange is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Party {
    /// Tells it from all others.
    pub number: u128,
    /// Most of the origin's connections it may use at a time, in percent.
    pub percent: u8,
}

/// The shares of one origin that are in use.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<u128, Arc<Share>>>);

#[derive(Debug)]
struct Share {
    seats: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The right to one exchange.
#[derive(Debug)]
pub(crate) struct Seat {
    origin: Arc<Origin>,
    number: u128,
    permit: Option<OwnedSemaphorePermit>,
}

impl Seat {
    /// A seat for this party, waited for as long as for a connection; `None` where it needs none.
    pub(crate) async fn take(
        origin: &Arc<Origin>,
        party: Party,
    ) -> Result<Option<Self>, OriginError> {
        let connections_max = origin.settings.connections_max;
        let share_max = share_max(connections_max, party.percent);
        if share_max >= connections_max {
            return Ok(None);
        }
        // It is forgotten with the last of its seats, also of those that were waited for in vain:
        // made first, so that it goes last.
        let mut seat = Self { origin: Arc::clone(origin), number: party.number, permit: None };
        let share = origin.shares.share(party.number, share_max);
        if let Ok(permit) = Arc::clone(&share.seats).try_acquire_owned() {
            seat.permit = Some(permit);
            return Ok(Some(seat));
        }
        let waiting_max = origin.settings.connection_waiters_max;
        let waiting = Waits::new(&share);
        if waiting.before >= waiting_max {
            return Err(OriginError::LocalQueueFull { waiting_max });
        }
        origin.stats.waits.add(1);
        let limit = origin.settings.timeouts.queue;
        match timeout(limit, Arc::clone(&share.seats).acquire_owned()).await {
            Ok(permit) => {
                seat.permit = permit.ok();
                Ok(Some(seat))
            }
            Err(_) => Err(OriginError::LocalShareLimit { share_max, waited: limit }),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut shares = self.origin.shares.lock();
        // Those who wait and those who have one hold it, and take hold under this lock.
        let is_last = shares.get(&self.number).is_some_and(|share| {
            Arc::strong_count(share) == 1 && Arc::strong_count(&share.seats) == 1
        });
        if is_last {
            shares.remove(&self.number);
        }
    }
}

/// Counts one that waits.
struct Waits<'a> {
    share: &'a Share,
    before: usize,
}

impl<'a> Waits<'a> {
    fn new(share: &'a Share) -> Self {
        Self { share, before: share.waiting.fetch_add(1, Relaxed) }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.share.waiting.give_back(1, Relaxed);
    }
}

impl Shares {
    fn share(&self, number: u128, share_max: u32) -> Arc<Share> {
        let make = || {
            let seats = usize::try_from(share_max).unwrap_or(usize::MAX);
            let seats = Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS)));
            Arc::new(Share { seats, waiting: AtomicUsize::new(0) })
        };
        Arc::clone(self.lock().entry(number).or_insert_with(make))
    }

    /// Parties that have a seat or wait for one.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Arc<Share>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exchanges that a party may have of so many.
fn share_max(connections_max: u32, percent: u8) -> u32 {
    let share = u64::from(connections_max) * u64::from(percent.min(100)) / 100;
    u32::try_from(share).unwrap_or(u32::MAX).max(SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::OriginSettings;
    use proptest::prelude::*;
    use std::time::Duration;

    fn origin(connections_max: u32) -> Arc<Origin> {
        let mut settings: OriginSettings = "192.0.2.1".parse().unwrap();
        settings.connections_max = connections_max;
        settings.timeouts.queue = Duration::from_millis(20);
        Origin::new(settings).unwrap()
    }

    fn party(number: u128) -> Party {
        Party { number, percent: 50 }
    }

    #[test]
    fn shares_are_parts_and_never_tiny() {
        assert_eq!(share_max(1024, 50), 512);
        assert_eq!(share_max(20, 50), SHARE_MIN);
        assert_eq!(share_max(u32::MAX, 100), u32::MAX);
    }

    #[tokio::test]
    async fn who_has_its_share_waits_and_others_do_not() {
        let origin = origin(40);
        let mut seats = Vec::new();
        for _ in 0..20 {
            seats.push(Seat::take(&origin, party(1)).await.unwrap());
        }
        let refused = Seat::take(&origin, party(1)).await.unwrap_err();
        let waited = Duration::from_millis(20);
        assert_eq!(refused, OriginError::LocalShareLimit { share_max: 20, waited });
        assert!(refused.not_sent() && refused.status() == 503);
        assert!(Seat::take(&origin, party(2)).await.unwrap().is_some());
        let (next, ()) = tokio::join!(Seat::take(&origin, party(1)), async { drop(seats.pop()) });
        assert!(next.unwrap().is_some());
        drop(seats);
        assert_eq!(origin.shares.len(), 0);
    }

    #[tokio::test]
    async fn few_connections_are_not_shared_out() {
        assert!(Seat::take(&origin(SHARE_MIN), party(1)).await.unwrap().is_none());
    }

    proptest! {
        /// Whatever comes and goes: no party has more than its share, and nothing stays behind.
        #[test]
        fn seats_are_never_more_than_a_share_and_all_come_back(
            steps in prop::collection::vec((0_u128..3, any::<bool>(), 0_usize..40), 1..200),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let origin = origin(40);
                let mut seats: Vec<Seat> = Vec::new();
                for (number, takes, at) in steps {
                    if takes {
                        seats.extend(Seat::take(&origin, party(number)).await.unwrap_or_default());
                    } else if !seats.is_empty() {
                        seats.remove(at % seats.len());
                    }
                    for number in 0..3 {
                        let count = seats.iter().filter(|seat| seat.number == number).count();
                        assert!(count <= 20);
                        let known = origin.shares.lock().get(&number).map(|share| 20 - share.seats.available_permits());
                        assert_eq!(known.unwrap_or(0), count);
                    }
                }
                drop(seats);
                assert_eq!(origin.shares.len(), 0);
            });
        }
    }
}
