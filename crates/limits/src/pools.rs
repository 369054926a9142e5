//! Who may have how many requests under way at a server that takes only so many at once.
//!
//! A pool has places. While there are enough, anybody takes one. Where there are not, each member that
//! wants some has its share by weight, and what a member does not want of its share the others have:
//! max-min fairness (Bertsekas and Gallager, Data Networks, §6.5.2).
//! Nobody waits here, and nobody is interrupted: who comes to a full pool is refused and has its share kept
//! free from then on, so it gets its places as soon as others are done with theirs.

use crate::limits::{MEMBERS_MAX, POOLS_MAX};
use crate::ticks::Ticks;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a member's wishes are remembered: about as long as it may wait before it tries again.
const WISHES: Duration = Duration::from_secs(2);

/// All pools of a node.
#[derive(Debug, Default)]
pub struct Pools(Mutex<HashMap<u64, Pool>>);

/// What somebody wants a place of, and as whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The pool: a number that no other has.
    pub pool: u64,
    /// How many places it has.
    pub places: u32,
    /// The member: a number that no other has.
    pub member: u64,
    /// How many as much as others it is due; one where it is none.
    pub weight: u32,
}

/// A place in a pool, until it is dropped.
#[derive(Debug)]
pub struct Place {
    pools: Arc<Pools>,
    pool: u64,
    member: u64,
}

#[derive(Debug, Default)]
struct Pool {
    under_way: u32,
    members: HashMap<u64, Member>,
}

/// Who has places, or wanted some not long ago.
#[derive(Debug, Default)]
struct Member {
    weight: u32,
    under_way: u32,
    /// The most it wanted at a time, in this window and in the one before.
    wishes: [u32; 2],
    /// When this window began.
    since: Ticks,
}

/// The member that stands for all that are too many.
const OTHERS: u64 = 0;

impl Pools {
    /// The place that is claimed, if it is due now.
    pub fn enter(self: &Arc<Self>, claim: Claim, now: Ticks) -> Option<Place> {
        let mut pools = self.lock();
        if pools.len() >= POOLS_MAX && !pools.contains_key(&claim.pool) {
            pools.retain(|_, pool| pool.under_way > 0);
            if pools.len() >= POOLS_MAX {
                return None;
            }
        }
        let pool = pools.entry(claim.pool).or_default();
        let member = pool.meet(claim.member, claim.weight.max(1), now);
        if !pool.has_place(member, claim.places) {
            return None;
        }
        pool.under_way += 1;
        if let Some(one) = pool.members.get_mut(&member) {
            one.under_way += 1;
        }
        Some(Place { pools: Arc::clone(self), pool: claim.pool, member })
    }

    /// How many places of a pool are taken.
    pub fn under_way(&self, pool: u64) -> u32 {
        self.lock().get(&pool).map_or(0, |pool| pool.under_way)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Pool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Notes that a member wants one more, forgets those that want nothing, and returns whom it counts as.
    fn meet(&mut self, member: u64, weight: u32, now: Ticks) -> u64 {
        let window = Ticks::from(WISHES);
        for one in self.members.values_mut() {
            let windows = now.0.saturating_sub(one.since.0) / window.0;
            if windows > 0 {
                let before = if windows == 1 { one.wishes[0] } else { 0 };
                one.wishes = [one.under_way, before.max(one.under_way)];
                one.since = now;
            }
        }
        self.members.retain(|_, one| one.wishes != [0, 0]);
        let is_known = self.members.contains_key(&member);
        let member = if is_known || self.members.len() < MEMBERS_MAX { member } else { OTHERS };
        let one = self
            .members
            .entry(member)
            .or_insert_with(|| Member { since: now, ..Member::default() });
        one.weight = weight;
        one.wishes[0] = one.wishes[0].max(one.under_way + 1);
        member
    }

    /// Whether a member may have one more of so many places.
    fn has_place(&self, member: u64, places: u32) -> bool {
        if self.under_way >= places {
            return false;
        }
        let level = self.level(places);
        let due = |one: &Member| (level * f64::from(one.weight)) as u32;
        let Some(own) = self.members.get(&member) else { return false };
        // A share may be less than one place; who has it gets one where there is one.
        if own.under_way < due(own).max(1) {
            return true;
        }
        let others = self.members.iter().filter(|(key, _)| **key != member);
        let kept_free: u32 = others
            .map(|(_, one)| due(one).max(1).min(one.wish()).saturating_sub(one.under_way))
            .sum();
        self.under_way + kept_free < places
    }

    /// How many places there are for a weight of one, when each has as many as it wants or this: what some
    /// do not want of their share is the others'.
    fn level(&self, places: u32) -> f64 {
        let per_weight = |one: &Member| f64::from(one.wish()) / f64::from(one.weight);
        let mut members: Vec<&Member> = self.members.values().collect();
        members.sort_unstable_by(|one, other| per_weight(one).total_cmp(&per_weight(other)));
        let mut left = f64::from(places);
        let mut weights: f64 = members.iter().map(|one| f64::from(one.weight)).sum();
        for one in members {
            let level = left / weights;
            if per_weight(one) > level {
                return level;
            }
            left -= f64::from(one.wish());
            weights -= f64::from(one.weight);
        }
        f64::INFINITY
    }
}

impl Member {
    fn wish(&self) -> u32 {
        self.wishes[0].max(self.wishes[1])
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut pools = self.pools.lock();
        let Some(pool) = pools.get_mut(&self.pool) else { return };
        pool.under_way -= 1;
        if let Some(one) = pool.members.get_mut(&self.member) {
            one.under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn enter(
        pools: &Arc<Pools>,
        (pool, places): (u64, u32),
        (member, weight): (u64, u32),
        ms: u64,
    ) -> Option<Place> {
        pools.enter(Claim { pool, places, member, weight }, at_ms(ms))
    }

    fn at_ms(ms: u64) -> Ticks {
        Duration::from_millis(ms).into()
    }

    /// Clients that keep so many requests of 50 to 150 ms under way, or try to, each ms; each one's mean number
    /// under way over the last two of four seconds.
    fn served(places: u32, clients: &[(u32, u32)]) -> Vec<f64> {
        let pools = Arc::new(Pools::default());
        let mut under_way: Vec<Vec<(u64, Place)>> = clients.iter().map(|_| Vec::new()).collect();
        let (mut sums, mut end) = (vec![0; clients.len()], 0);
        for ms in 0..4_000 {
            // Whose turn is first changes.
            for step in 0..clients.len() {
                let at = (step + ms as usize) % clients.len();
                let (weight, wanted) = clients[at];
                let own = &mut under_way[at];
                own.retain(|(end, _)| *end > ms);
                while (own.len() as u32) < wanted {
                    let Some(place) = enter(&pools, (1, places), (at as u64 + 1, weight), ms)
                    else {
                        break;
                    };
                    end = (end * 37 + 11) % 101;
                    own.push((ms + 50 + end, place));
                }
                if ms >= 2_000 {
                    sums[at] += own.len();
                }
            }
        }
        let total = pools.under_way(1);
        drop(under_way);
        assert_eq!((total <= places, pools.under_way(1)), (true, 0));
        sums.into_iter().map(|sum| sum as f64 / 2_000.0).collect()
    }

    /// What is fair, by filling up: all get more at the same rate until they have what they want.
    fn fair(places: u32, clients: &[(u32, u32)]) -> Vec<f64> {
        let mut given = vec![0.0; clients.len()];
        let mut left = f64::from(places);
        while left > 1e-9 {
            let open = |at: usize| given[at] + 1e-9 < f64::from(clients[at].1);
            let weights: f64 =
                (0..clients.len()).filter(|at| open(*at)).map(|at| f64::from(clients[at].0)).sum();
            if weights == 0.0 {
                break;
            }
            let of_one = (0..clients.len())
                .filter(|at| open(*at))
                .map(|at| (f64::from(clients[at].1) - given[at]) / f64::from(clients[at].0));
            let step = of_one.fold(left / weights, f64::min);
            for at in (0..clients.len()).filter(|at| open(*at)).collect::<Vec<_>>() {
                given[at] += step * f64::from(clients[at].0);
            }
            left -= step * weights;
        }
        given
    }

    #[test]
    fn one_alone_has_all_and_a_noisy_one_takes_nothing_from_a_quiet_one() {
        assert_eq!(served(20, &[(1, 100)]), [20.0]);
        let [noisy, quiet] = served(20, &[(1, 100), (1, 4)])[..] else { panic!() };
        assert!(quiet > 3.9 && noisy > 15.5, "{noisy} {quiet}");
        let [one, three] = served(20, &[(1, 100), (3, 100)])[..] else { panic!() };
        assert!((one - 5.0).abs() < 0.5 && (three - 15.0).abs() < 0.5, "{one} {three}");
    }

    #[test]
    fn who_comes_to_a_full_pool_gets_its_share_as_others_are_done() {
        let pools = Arc::new(Pools::default());
        let enter = |member, ms| enter(&pools, (1, 4), (member, 1), ms);
        let mut noisy: Vec<Place> =
            (0..4).map(|_| enter(7, 0).expect("nobody else is there")).collect();
        assert!(enter(8, 1).is_none(), "it is full");
        noisy.pop();
        assert!(enter(7, 2).is_none(), "that place is kept for the other");
        let quiet = enter(8, 3).expect("its place");
        noisy.pop();
        // It wants no more, so that nobody goes without for it.
        assert!(enter(7, 4).is_some());
        drop(quiet);
        // And is forgotten when it has wanted nothing for a while.
        let all: Vec<_> =
            (0..2).map(|_| enter(7, 10_000).expect("nobody else wants any")).collect();
        assert_eq!((all.len(), pools.under_way(1)), (2, 4));
    }

    #[test]
    fn members_and_pools_are_bounded() {
        let pools = Arc::new(Pools::default());
        let members = MEMBERS_MAX as u64 + 100;
        let all: Vec<_> =
            (1..=members).map(|one| enter(&pools, (1, 10_000), (one, 1), 0)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(pools.lock()[&1].members.len() <= MEMBERS_MAX + 1);
        drop(all);
        let many = POOLS_MAX as u64 + 10;
        (0..many).for_each(|pool| drop(enter(&pools, (pool, 1), (1, 1), 1)));
        assert!(pools.lock().len() <= POOLS_MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn all_get_what_is_fair(
            places in 8u32..60,
            clients in prop::collection::vec((1u32..4, 1u32..80), 1..6),
        ) {
            let (got, due) = (served(places, &clients), fair(places, &clients));
            for (at, (got, due)) in got.iter().zip(&due).enumerate() {
                // Places are whole, and so are shares.
                prop_assert!(*got > due - 1.0 - due / 10.0, "{at} of {clients:?} in {places}: {got} of {due}");
            }
        }
    }
}
