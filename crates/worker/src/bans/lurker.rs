//! The lurker: tests objects nobody asks for, so that bans come to an end.

use super::spec::Seen;
use super::{Ban, Bans};
use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Cache, Groups, Object};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long the lurker rests where bans are too young for it.
const REST_MAX: Duration = Duration::from_secs(1);
/// The shortest rest between pieces of its work.
const REST_MIN: Duration = Duration::from_millis(1);
/// Objects tested without a rest.
const BATCH: usize = 256;
/// How often it is looked whether bans may leave the list, where there is nothing to be tested.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Works bans off, as long as the worker is there. For one worker of a node.
pub async fn run(worker: Rc<Worker>) {
    loop {
        let bans = &worker.shared.bans;
        let added = bans.added.notified();
        let settings = worker.snapshot().settings.bans;
        let due = bans.due(settings.lurker_age);
        if bans.is_empty() {
            added.await;
            continue;
        }
        if settings.lurker_sleep.is_zero() {
            // It may be told to work again.
            tokio::time::sleep(REST_MAX).await;
            continue;
        }
        if due.is_empty() {
            let has_work = bans.has_work();
            let soon = settings.lurker_age.clamp(Duration::from_millis(20), REST_MAX);
            tokio::select! {
                () = added => {}
                () = tokio::time::sleep(if has_work { soon } else { TIDY_EVERY }) => {
                    if !has_work && bans.may_leave() {
                        bans.advance(&worker.shared.cache);
                    }
                }
            }
            continue;
        }
        let rest = settings.lurker_sleep.max(REST_MIN);
        let kept_from = settings.behind_max.map_or(0, |most| bans.seq_at(most));
        for part in 0..Cache::PARTS {
            let objects = worker.shared.cache.objects_of_part(part);
            for batch in objects.chunks(BATCH) {
                bans.work_off(&worker.shared.cache, batch, &due, kept_from);
                tokio::time::sleep(rest.min(REST_MAX)).await;
            }
            bans.work_off_left(&worker.shared.cache, part, &due);
        }
        for ban in &due {
            ban.is_done.store(true, Relaxed);
        }
        bans.advance(&worker.shared.cache);
        tokio::time::sleep(rest).await;
    }
}

impl Bans {
    /// Whether there is none, but for the first one, which bans nothing.
    fn is_empty(&self) -> bool {
        self.list.read().unwrap_or_else(PoisonError::into_inner).len() <= 1
    }

    /// Whether the disks let the oldest ban go.
    fn may_leave(&self) -> bool {
        let done = self.done_on_disks();
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.back().is_some_and(|oldest| oldest.number.load(SeqCst) <= done)
    }

    /// Whether there is a ban that may come to an end without requests.
    fn has_work(&self) -> bool {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter().any(|ban| ban.is_for_lurker())
    }

    /// Bans to be worked off.
    fn due(&self, age: Duration) -> Vec<Arc<Ban>> {
        let now = UnixMillis::now();
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.iter()
            .filter(|ban| ban.is_for_lurker() && ban.time.plus(age) <= now)
            .cloned()
            .collect()
    }

    /// The number of the ban that has so many newer ones; 0 where there are not so many.
    fn seq_at(&self, newer: usize) -> u64 {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        list.get(newer).map_or(0, |ban| ban.seq)
    }

    /// Tests objects against bans that are due, newest first; those that were tested last against one before
    /// `kept_from` leave without.
    fn work_off(&self, cache: &Groups, objects: &[Arc<Object>], due: &[Arc<Ban>], kept_from: u64) {
        for object in objects {
            let seen = object.bans_seen();
            if seen < kept_from {
                self.counters.lurker_objects_cut_off.add(1);
                cache.forget(object);
                continue;
            }
            // The oldest first, as those that wait to leave are.
            for ban in due.iter().rev().skip_while(|ban| ban.seq <= seen) {
                let (head, freshness) = (object.head(), object.freshness());
                if self.meets(ban, Seen::of(object, &head, &freshness)) {
                    cache.forget(object);
                    break;
                }
            }
        }
    }

    /// The same with what is remembered of responses that were not kept.
    fn work_off_left(&self, cache: &Groups, part: usize, due: &[Arc<Ban>]) {
        let now = UnixMillis::now();
        for left in cache.left_of_part(part, now) {
            let seen = left.bans_seen();
            let mut later = due.iter().filter(|ban| ban.seq > seen);
            if later.any(|ban| self.meets(ban, Seen::of_left(&left))) {
                cache.forget_left(&left);
            }
        }
    }

    /// Whether the lurker finds a ban to be about this.
    fn meets(&self, ban: &Ban, seen: Seen<'_>) -> bool {
        let Some(spec) = &ban.spec else { return false };
        let (conditions, is_banned) = spec.test(seen, None, ban.time);
        self.counters.lurker_tested.add(1);
        self.counters.lurker_conditions_tested.add(conditions);
        self.counters.lurker_objects_banned.add(is_banned.into());
        is_banned
    }

    /// Notes of each object up to where no ban is left to be tested, and drops the oldest bans that
    /// no object is behind.
    fn advance(&self, cache: &Groups) {
        let bans: Vec<_> = {
            let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
            list.iter().map(|ban| (ban.seq, ban.is_done.load(Relaxed))).collect()
        };
        let newest = bans.first().map_or(0, |(seq, _)| *seq);
        let mut oldest_used = newest;
        let mut passed = |seen: u64| {
            // Oldest first: bans that came after the object was tested last.
            let newer = bans.iter().rev().skip_while(|(seq, _)| *seq <= seen);
            let done = newer.take_while(|(_, is_done)| *is_done).last();
            let seen = done.map_or(seen, |(seq, _)| *seq);
            let used = bans.iter().find(|(seq, _)| *seq <= seen).map_or(0, |(seq, _)| *seq);
            oldest_used = oldest_used.min(used);
            seen
        };
        cache.each_object(&mut |object| object.note_bans_seen(passed(object.bans_seen())));
        let now = UnixMillis::now();
        for left in (0..Cache::PARTS).flat_map(|part| cache.left_of_part(part, now)) {
            left.note_bans_seen(passed(left.bans_seen()));
        }
        let done = self.done_on_disks();
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        while let Some(oldest) = list.back()
            && oldest.seq < oldest_used
            && oldest.number.load(SeqCst) <= done
        {
            // What is still being fetched may be older than this one.
            self.drop_oldest(oldest);
            list.pop_back();
        }
    }
}

impl Ban {
    fn is_for_lurker(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| !spec.needs_request) && !self.is_done.load(Relaxed)
    }
}
