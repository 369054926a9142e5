//! The cache against a model that keeps everything in lists and looks at all of it each time.

use crate::fixture::*;
use freshet_base::clock::UnixMillis;
use freshet_cache::{
    Cache, Key, Lookup, Marker, MissWhy, Object, ObjectSpec, Purge, StoredHead, Ticket,
    WaitOutcome, Waiter,
};
use freshet_http::message::RequestHead;
use freshet_store::Body;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u8 = 3;
const VALUES: u8 = 3;
const TAGS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Look { key: u8, value: u8 },
    Insert { ticket: prop::sample::Index, varies: bool, seconds: u64, grace: u64, tag: u64 },
    Refresh { ticket: prop::sample::Index, seconds: u64, grace: u64 },
    HitForMiss { ticket: prop::sample::Index, varies: bool, seconds: u64 },
    Drop { ticket: prop::sample::Index },
    Purge { key: u8, soft: bool },
    PurgeTag { tag: u64, soft: bool },
    PurgeAll { soft: bool },
    Forget { object: prop::sample::Index },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        12 => (0..KEYS, 0..VALUES).prop_map(|(key, value)| Step::Look { key, value }),
        6 => (index(), any::<bool>(), 0u64..20, 0u64..20, 0..TAGS).prop_map(
            |(ticket, varies, seconds, grace, tag)| {
                Step::Insert { ticket, varies, seconds, grace, tag }
            }
        ),
        3 => (index(), 0u64..20, 0u64..20).prop_map(|(ticket, seconds, grace)| {
            Step::Refresh { ticket, seconds, grace }
        }),
        1 => (index(), any::<bool>(), 0u64..10).prop_map(|(ticket, varies, seconds)| {
            Step::HitForMiss { ticket, varies, seconds }
        }),
        2 => index().prop_map(|ticket| Step::Drop { ticket }),
        1 => (0..KEYS, any::<bool>()).prop_map(|(key, soft)| Step::Purge { key, soft }),
        1 => (0..TAGS, any::<bool>()).prop_map(|(tag, soft)| Step::PurgeTag { tag, soft }),
        1 => any::<bool>().prop_map(|soft| Step::PurgeAll { soft }),
        1 => index().prop_map(|object| Step::Forget { object }),
        4 => (0u64..10).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// A stored response as the model sees it.
#[derive(Clone, Debug)]
struct Stored {
    id: u64,
    key: u8,
    /// The value of `X-Value` it is for; `None` for any.
    value: Option<u8>,
    received: u64,
    seconds: u64,
    grace: u64,
    tag: u64,
    purged_at: Option<u64>,
}

/// A ticket and what the model knows of it.
struct Turn {
    /// In the order of look-ups.
    number: u64,
    ticket: Ticket,
    key: u8,
    value: u8,
    /// Who waits for it, while it is exclusive and no purge took that away.
    waits_for: Option<Option<u8>>,
    stale: Option<Arc<Object>>,
    /// What was purged since it began.
    purged_key: bool,
    purged_tags: Vec<u64>,
    waiters: Vec<Waiter>,
}

struct World {
    cache: Arc<Cache>,
    now: u64,
    stored: Vec<Stored>,
    objects: Vec<Arc<Object>>,
    turns: Vec<Turn>,
    tickets: u64,
    /// The newest last.
    markers: Vec<Marked>,
}

/// What says that responses were not fit to be shared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Marked {
    key: u8,
    /// As with [`Stored`].
    value: Option<u8>,
    until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Age {
    Fresh,
    Grace,
    Stale,
}

impl Stored {
    fn age(&self, now: u64) -> Age {
        let (lifetime, grace_ends) = match self.purged_at {
            None => (self.seconds, self.seconds + self.grace),
            Some(at) => (0, self.seconds.min(at - self.received) + self.grace),
        };
        match now - self.received {
            age if age < lifetime => Age::Fresh,
            age if self.grace > 0 && age < grace_ends => Age::Grace,
            _ => Age::Stale,
        }
    }
}

impl World {
    fn new() -> Self {
        Self {
            cache: cache(64 * MIB),
            now: 0,
            stored: Vec::new(),
            objects: Vec::new(),
            turns: Vec::new(),
            tickets: 0,
            markers: Vec::new(),
        }
    }

    fn key(&self, key: u8) -> Key {
        key_of(&self.cache, key)
    }

    fn head(&self, seconds: u64, grace: u64) -> StoredHead {
        let mut head = graceful(seconds, grace);
        head.freshness.received = after(self.now);
        head
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Look { key, value } => self.look(key, value),
            Step::Insert { ticket, varies, seconds, grace, tag } => {
                let Some(turn) = self.take_turn(ticket) else { return };
                self.insert(turn, varies, seconds, grace, tag);
            }
            Step::Refresh { ticket, seconds, grace } => {
                let Some(turn) = self.take_turn(ticket) else { return };
                self.refresh(turn, seconds, grace);
            }
            Step::HitForMiss { ticket, varies, seconds } => {
                let Some(turn) = self.take_turn(ticket) else { return };
                let (key, value) = (turn.key, varies.then_some(turn.value));
                self.markers.retain(|other| (other.key, other.value) != (key, value));
                self.markers.push(Marked { key, value, until: self.now + seconds });
                let request = request_of(turn.value);
                turn.ticket.hit_for_miss(Marker {
                    variation: varies.then(|| variation("X-Value", &request)).flatten(),
                    until: after(self.now + seconds),
                    ..marker(0)
                });
                all_try_again(turn.waiters);
            }
            Step::Drop { ticket } => {
                let Some(turn) = self.take_turn(ticket) else { return };
                drop(turn.ticket);
                all_try_again(turn.waiters);
            }
            Step::Purge { key, soft } => {
                let how = self.how(soft);
                let found = self.cache.purge(&self.key(key), how);
                assert_eq!(found, self.purge(soft, |stored| stored.key == key));
                self.markers.retain(|marker| soft || marker.key != key);
                self.turns.iter_mut().filter(|turn| turn.key == key).for_each(|turn| {
                    turn.purged_key = true;
                    turn.orphan();
                });
            }
            Step::PurgeTag { tag, soft } => {
                let keys: Vec<u8> =
                    self.stored.iter().filter(|one| one.tag == tag).map(|one| one.key).collect();
                let found = self.cache.purge_tag(tag, self.how(soft));
                assert_eq!(found, self.purge(soft, |stored| stored.tag == tag));
                for turn in &mut self.turns {
                    turn.purged_tags.push(tag);
                    if keys.contains(&turn.key) {
                        turn.orphan();
                    }
                }
            }
            Step::PurgeAll { soft } => {
                let found = self.cache.purge_all(self.how(soft));
                assert_eq!(found, self.purge(soft, |_| true));
                self.turns.iter_mut().for_each(|turn| {
                    turn.purged_key = true;
                    turn.orphan();
                });
            }
            Step::Forget { object } => {
                if self.objects.is_empty() {
                    return;
                }
                let object = &self.objects[object.index(self.objects.len())];
                let before = self.stored.len();
                self.stored.retain(|stored| stored.id != object.id());
                assert_eq!(self.cache.forget(object), self.stored.len() < before);
            }
            Step::Pass { seconds } => self.now += seconds,
        }
    }

    fn how(&self, soft: bool) -> Purge {
        if soft { Purge::Soft(after(self.now)) } else { Purge::Hard }
    }

    fn purge(&mut self, soft: bool, goes: impl Fn(&Stored) -> bool) -> usize {
        let found = self.stored.iter().filter(|stored| goes(stored)).count();
        if soft {
            let now = self.now;
            let matching = self.stored.iter_mut().filter(|stored| goes(stored));
            matching.for_each(|stored| _ = stored.purged_at.get_or_insert(now));
        } else {
            self.stored.retain(|stored| !goes(stored));
        }
        found
    }

    fn take_turn(&mut self, at: prop::sample::Index) -> Option<Turn> {
        if self.turns.is_empty() {
            return None;
        }
        Some(self.turns.swap_remove(at.index(self.turns.len())))
    }

    fn look(&mut self, key: u8, value: u8) {
        let (now, request) = (self.now, request_of(value));
        let lookup = look(&self.cache, &self.key(key), &request, after(now));
        let mut variants = self.stored.iter().rev().filter(|stored| stored.key == key).peekable();
        let newest_varies = variants.peek().map(|newest| newest.value.is_some());
        let found = variants.find(|stored| stored.value.is_none_or(|own| own == value)).cloned();
        let age = found.as_ref().map(|stored| stored.age(now));
        // Several may do where a rule became known or was forgotten meanwhile: the oldest counts.
        let waited_for = |turn: &Turn| {
            turn.key == key
                && turn.waits_for.is_some_and(|wanted| wanted.is_none_or(|own| own == value))
        };
        let pending = (0..self.turns.len())
            .filter(|at| waited_for(&self.turns[*at]))
            .min_by_key(|at| self.turns[*at].number);
        let number = self.tickets;
        self.tickets += 1;
        let is_hit = matches!(age, Some(Age::Fresh | Age::Grace));
        let is_marked = self.markers.iter().any(|marker| {
            let is_for = marker.value.is_none_or(|own| own == value);
            marker.key == key && marker.until > now && is_for
        });
        if !is_hit && !is_marked {
            self.markers.retain(|marker| marker.key != key || marker.until > now);
        }
        let marked_varies = self.markers.iter().rev().find(|marker| marker.key == key);
        let marked_varies = marked_varies.is_some_and(|marker| marker.value.is_some());
        match lookup {
            Lookup::Hit { object, refresh } => {
                let found = found.expect("the model has it too");
                assert_eq!((object.id(), is_hit), (found.id, true));
                assert_eq!(refresh.is_some(), age == Some(Age::Grace) && pending.is_none());
                if let Some(ticket) = refresh {
                    self.turns.push(Turn::new(
                        number,
                        ticket,
                        key,
                        value,
                        Some(found.value),
                        Some(object),
                    ));
                }
            }
            Lookup::HitForMiss { ticket, stale, .. } => {
                assert!(!is_hit && is_marked);
                assert_eq!(stale.as_ref().map(|stale| stale.id()), found.map(|found| found.id));
                self.turns.push(Turn::new(number, ticket, key, value, None, stale));
            }
            Lookup::Wait { waiter, stale } => {
                assert!(!is_hit && !is_marked);
                assert_eq!(stale.map(|stale| stale.id()), found.map(|found| found.id));
                self.turns[pending.expect("the model knows for what")].waiters.push(waiter);
            }
            Lookup::Miss { ticket, stale, why } => {
                assert!(!is_hit && !is_marked && pending.is_none() && ticket.is_exclusive());
                assert_eq!(
                    stale.as_ref().map(|stale| stale.id()),
                    found.as_ref().map(|found| found.id)
                );
                let (expected, waits_for) = match (found, newest_varies) {
                    (Some(found), _) => (MissWhy::Stale, found.value),
                    (None, None) => (MissWhy::UriMiss, marked_varies.then_some(value)),
                    (None, Some(varies)) => (MissWhy::VaryMiss, varies.then_some(value)),
                };
                assert_eq!(why, expected);
                self.turns.push(Turn::new(number, ticket, key, value, Some(waits_for), stale));
            }
            Lookup::Crowded { .. } => panic!("nobody waits that long"),
        }
    }

    fn insert(&mut self, turn: Turn, varies: bool, seconds: u64, grace: u64, tag: u64) {
        let in_time = turn.in_time(tag);
        let request = request_of(turn.value);
        let object = turn.ticket.insert(ObjectSpec {
            head: self.head(seconds, grace),
            body: Body::new(self.cache.arena(), Some(0)),
            variation: if varies { variation("X-Value", &request) } else { None },
            tags: Box::new([tag]),
            objective: None,
        });
        assert_eq!(object.is_indexed(), in_time);
        all_try_again(turn.waiters);
        if !in_time {
            return;
        }
        let value = varies.then_some(turn.value);
        self.markers.retain(|marker| marker.key != turn.key || (varies && marker.value != value));
        self.stored.retain(|stored| stored.key != turn.key || stored.value != value);
        self.stored.push(Stored {
            id: object.id(),
            key: turn.key,
            value,
            received: self.now,
            seconds,
            grace,
            tag,
            purged_at: None,
        });
        self.objects.push(object);
    }

    fn refresh(&mut self, turn: Turn, seconds: u64, grace: u64) {
        let Some(object) = &turn.stale else {
            drop(turn.ticket);
            return all_try_again(turn.waiters);
        };
        let in_time = turn.in_time(object.tags()[0]);
        let (received, head) = (self.now, self.head(seconds, grace));
        let indexed = turn.ticket.refresh(object, head);
        all_try_again(turn.waiters);
        let at = self.stored.iter().position(|stored| stored.id == object.id());
        assert_eq!(indexed, at.is_some());
        let Some(at) = at else { return };
        let stored = &mut self.stored[at];
        stored.seconds = seconds;
        stored.grace = grace;
        if in_time {
            stored.received = received;
            stored.purged_at = None;
            let newest = self.stored.remove(at);
            self.stored.push(newest);
        } else {
            // It is stale since its purge, which may be before the new head came.
            stored.received = received;
            stored.purged_at = stored.purged_at.map(|at| at.max(received));
        }
    }

    fn check(&self) {
        assert_eq!(self.cache.stats().objects, self.stored.len() as u64);
        for key in 0..KEYS {
            let peek = self.cache.peek(&self.key(key));
            let ids: Vec<u64> = peek.variants.iter().map(|object| object.id()).collect();
            let stored = self.stored.iter().rev().filter(|stored| stored.key == key);
            assert_eq!(ids, stored.map(|stored| stored.id).collect::<Vec<_>>());
            let mine = |turn: &&Turn| turn.key == key && turn.waits_for.is_some();
            assert_eq!(peek.fetches, self.turns.iter().filter(mine).count());
            let waiters = self.turns.iter().filter(mine).map(|turn| turn.waiters.len());
            assert_eq!(peek.waiters, waiters.sum::<usize>());
            let until: Vec<_> = peek.markers.iter().map(|marker| marker.until).collect();
            let marked = self.markers.iter().filter(|marker| marker.key == key);
            assert_eq!(until, marked.map(|marker| after(marker.until)).collect::<Vec<_>>());
        }
        for object in &self.objects {
            let known = self.stored.iter().find(|stored| stored.id == object.id());
            assert_eq!(object.is_indexed(), known.is_some());
        }
    }

    fn finish(mut self) {
        for turn in &mut self.turns {
            for waiter in &mut turn.waiters {
                assert!(poll(waiter, &Arc::default()).is_pending());
            }
        }
        for turn in std::mem::take(&mut self.turns) {
            drop(turn.ticket);
            all_try_again(turn.waiters);
        }
        for key in 0..KEYS {
            assert_eq!(self.cache.peek(&self.key(key)).fetches, 0);
        }
    }
}

impl Turn {
    fn new(
        number: u64,
        ticket: Ticket,
        key: u8,
        value: u8,
        waits_for: Option<Option<u8>>,
        stale: Option<Arc<Object>>,
    ) -> Self {
        let (purged_tags, waiters) = (Vec::new(), Vec::new());
        Self {
            number,
            ticket,
            key,
            value,
            waits_for,
            stale,
            purged_key: false,
            purged_tags,
            waiters,
        }
    }

    /// A purge came: nobody waits for it any more.
    fn orphan(&mut self) {
        if self.waits_for.take().is_some() {
            self.purged_key = true;
        }
        all_try_again(std::mem::take(&mut self.waiters));
    }

    fn in_time(&self, tag: u64) -> bool {
        !self.purged_key && !self.purged_tags.contains(&tag)
    }
}

fn all_try_again(waiters: Vec<Waiter>) {
    for mut waiter in waiters {
        assert_eq!(ended(&mut waiter), WaitOutcome::TryAgain);
    }
}

fn key_of(cache: &Cache, number: u8) -> Key {
    key(cache, &format!("/{number}"))
}

fn request_of(value: u8) -> RequestHead {
    request(&[("X-Value", &value.to_string())])
}

#[test]
fn time_of_the_model_is_that_of_the_cache() {
    assert_eq!(after(3), UnixMillis(START.0 + Duration::from_secs(3).as_millis() as u64));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn the_cache_does_what_a_list_would(steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
            world.check();
        }
        world.finish();
    }
}
