//! Several indexes that are one to whoever asks.

use crate::fixture::*;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Asker, Groups, Key, Lookup, Object, Purge, Secret, Settings, Ticket, Use};
use freshet_http::message::RequestHead;
use freshet_store::Arena;
use std::collections::HashMap;
use std::sync::Arc;

fn groups(count: usize) -> Arc<Groups> {
    groups_of(count, 16 * MIB)
}

fn groups_of(count: usize, bytes: u64) -> Arc<Groups> {
    let arenas = (0..count).map(|_| Arena::new(bytes).expect("it is enough")).collect();
    Groups::new(arenas, &Secret::from_bytes([1; 16]), &Settings::default()).expect("it is sound")
}

fn look(groups: &Groups, from: usize, key: &Key, request: &RequestHead, at: UnixMillis) -> Lookup {
    groups.lookup_from(from, key, (request, false), Asker::Client, at, &mut |object| {
        by_freshness(object, at)
    })
}

fn ticket(groups: &Groups, from: usize, key: &Key, request: &RequestHead) -> Ticket {
    match look(groups, from, key, request, START) {
        Lookup::Miss { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    }
}

fn hit(groups: &Groups, from: usize, key: &Key) -> Arc<Object> {
    match look(groups, from, key, &RequestHead::default(), START) {
        Lookup::Hit { object, .. } => object,
        other => panic!("{other:?}"),
    }
}

fn store(groups: &Groups, from: usize, key: &Key, bytes: usize) -> Arc<Object> {
    let ticket = ticket(groups, from, key, &RequestHead::default());
    ticket.insert(spec(groups.home(key), head(60), bytes))
}

/// A key at home in this group.
fn key_of(groups: &Groups, group: usize) -> Key {
    let mut keys = (0..).map(|number| groups.key("a", &format!("/{number}")));
    keys.find(|key| groups.home_of(key) == group).expect("each group has keys")
}

/// Serves an object from a group and copies it there where that is due; whether it was.
fn serve(groups: &Arc<Groups>, from: usize, object: &Arc<Object>) -> bool {
    let Some(copying) = groups.copy_for(from, object) else { return false };
    let bytes = copying.original().body().total().expect("it is complete") as usize;
    copying.finish(full_body(groups.of(from), bytes))
}

/// A copy of a new object at home in group 0, for group 1.
fn copied(groups: &Arc<Groups>) -> (Key, Arc<Object>) {
    let key = key_of(groups, 0);
    let object = store(groups, 1, &key, 5000);
    assert!(!serve(groups, 1, &hit(groups, 1, &key)));
    assert!(serve(groups, 1, &hit(groups, 1, &key)));
    (key, object)
}

#[test]
fn each_group_is_home_to_its_part_of_all_keys() {
    for count in [1, 2, 3, 8] {
        let groups = groups(count);
        let mut keys = vec![0_usize; count];
        for number in 0..8000 {
            keys[groups.home_of(&groups.key("a", &format!("/{number}")))] += 1;
        }
        let part = 8000 / count;
        assert!(keys.iter().all(|keys| keys.abs_diff(part) < part / 4), "{keys:?}");
    }
}

#[test]
fn there_is_one_fetch_and_one_object_whichever_group_is_asked() {
    let groups = groups(3);
    let key = key_of(&groups, 2);
    let ticket = ticket(&groups, 0, &key, &RequestHead::default());
    for from in 0..3 {
        let found = look(&groups, from, &key, &RequestHead::default(), START);
        assert!(matches!(found, Lookup::Wait { .. }), "{found:?}");
    }
    let object = ticket.insert(spec(groups.home(&key), head(60), 5000));
    for from in 0..3 {
        assert_eq!(hit(&groups, from, &key).id(), object.id());
    }
    assert_eq!(groups.stats().objects, 1);
    assert!(Arc::ptr_eq(object.body().arena(), groups.of(2).arena()));
}

#[test]
fn what_a_group_asks_for_twice_is_copied_to_its_memory() {
    let groups = groups(2);
    let (key, object) = copied(&groups);
    let copy = hit(&groups, 1, &key);
    assert!(copy.is_copy() && !object.is_copy());
    assert_eq!((copy.original().id(), copy.body().total()), (object.id(), Some(5000)));
    assert_eq!(copy.hits(), object.hits() + 1);
    assert!(Arc::ptr_eq(copy.body().arena(), groups.of(1).arena()));
    assert_eq!(hit(&groups, 0, &key).id(), object.id());
    // It is no object of its own to anybody who lists them.
    assert_eq!(groups.objects_by_worth().len(), 1);
    assert_eq!(groups.page(0, 10).objects.len(), 1);
    assert_eq!(groups.peek(&key).variants.len(), 1);
    // And it is not asked for again.
    assert!(!serve(&groups, 1, &copy));
}

#[test]
fn what_is_used_elsewhere_stays_at_home() {
    let groups = groups_of(2, 4 * MIB);
    let (key, object) = copied(&groups);
    // Twice what the memory of a group takes passes through both.
    for number in 0..3000 {
        store(&groups, 0, &groups.key("b", &format!("/{number}")), 5000);
        if number % 10 == 0 {
            assert_eq!(hit(&groups, 1, &key).original().id(), object.id());
        }
    }
    assert!(groups.stats().counters.evicted > 1000);
    assert!(object.is_indexed() && hit(&groups, 1, &key).is_copy());
    assert!(object.hits() < 10, "{} hits", object.hits());
}

#[test]
fn a_purge_of_any_kind_leaves_no_copy_to_be_found() {
    for how in [Purge::Hard, Purge::Soft(START)] {
        for kind in 0..3 {
            let groups = groups(2);
            let key = key_of(&groups, 0);
            let tag = freshet_cache::tag(b"x");
            let ticket = ticket(&groups, 0, &key, &RequestHead::default());
            let mut spec = spec(groups.home(&key), head(60), 5000);
            spec.tags = [tag].into();
            ticket.insert(spec);
            (0..2).for_each(|_| _ = serve(&groups, 1, &hit(&groups, 1, &key)));
            assert!(hit(&groups, 1, &key).is_copy());
            let before = groups.purge_seq();
            let purged = match kind {
                0 => groups.purge(&key, how),
                1 => groups.purge_tag(tag, how),
                _ => groups.purge_all(how),
            };
            // One number in the order, and one object however many copies there were.
            assert_eq!((purged, groups.purge_seq()), (1, before + 1));
            for from in 0..2 {
                let found = look(&groups, from, &key, &RequestHead::default(), START);
                let Lookup::Miss { ticket, stale, .. } = found else { panic!("{found:?}") };
                assert!(stale.is_none_or(|stale| how != Purge::Hard && !stale.is_copy()));
                drop(ticket);
            }
        }
    }
}

#[test]
fn a_purge_while_a_copy_is_made_wins() {
    let groups = groups(2);
    let key = key_of(&groups, 0);
    store(&groups, 1, &key, 5000);
    assert!(groups.copy_for(1, &hit(&groups, 1, &key)).is_none());
    let copying = groups.copy_for(1, &hit(&groups, 1, &key)).expect("it is the second time");
    groups.purge(&key, Purge::Hard);
    assert!(!copying.finish(full_body(groups.of(1), 5000)));
    drop(copying);
    assert!(groups.stats().objects == 0);
    // And what comes after it is not held up by that.
    store(&groups, 1, &key, 10);
    assert!(!serve(&groups, 1, &hit(&groups, 1, &key)));
    assert!(serve(&groups, 1, &hit(&groups, 1, &key)));
}

#[test]
fn what_comes_newer_takes_the_place_of_copies_and_of_those_being_made() {
    let groups = groups(2);
    let (key, _) = copied(&groups);
    let plain = RequestHead::default();
    // Another variant that the same requests select.
    let gzip = request(&[("Accept-Encoding", "gzip")]);
    let newer = groups.lookup(&key, &gzip, START, &mut |_| Use::Ignore);
    let Lookup::Miss { ticket: turn, .. } = newer else { panic!("{newer:?}") };
    let mut newer = spec(groups.home(&key), head(60), 10);
    newer.variation = variation("Accept-Encoding", &plain);
    let newer = turn.insert(newer);
    assert_eq!(hit(&groups, 1, &key).id(), newer.id());
    // The older one is no more copied, as the newer may be for the same requests.
    let older = groups.peek(&key).variants.pop().expect("there are two");
    assert_ne!(older.id(), newer.id());
    (0..3).for_each(|_| assert!(!serve(&groups, 1, &older)));
    assert!(!serve(&groups, 1, &newer));
    assert!(serve(&groups, 1, &newer));
    assert!(hit(&groups, 1, &key).is_copy());
}

#[test]
fn a_renewed_head_is_that_of_copies_too() {
    let groups = groups(2);
    let (key, object) = copied(&groups);
    let now = after(61);
    let found = look(&groups, 1, &key, &RequestHead::default(), now);
    let Lookup::Miss { ticket, stale: Some(stale), .. } = found else { panic!("{found:?}") };
    assert_eq!(stale.id(), object.id());
    let mut renewed = head(60);
    renewed.freshness.received = now;
    renewed.fields.set("ETag", "\"renewed\"");
    assert!(ticket.refresh(&stale, renewed));
    let found = look(&groups, 1, &key, &RequestHead::default(), now);
    let Lookup::Hit { object, .. } = found else { panic!("{found:?}") };
    assert_eq!(object.head().etag(), Some(&b"\"renewed\""[..]));
    assert!(!object.is_copy());
}

#[test]
fn who_forgets_a_copy_forgets_its_original() {
    let groups = groups(3);
    let (key, object) = copied(&groups);
    let copy = hit(&groups, 1, &key);
    assert!(groups.forget(&copy));
    assert!(!copy.is_indexed() && !object.is_indexed());
    assert_eq!(groups.stats().objects, 0);
}

#[test]
fn a_fence_and_the_end_of_trust_hold_in_all_groups() {
    let groups = groups(2);
    let (key, _) = copied(&groups);
    groups.fence(groups.next_in_order());
    for from in 0..2 {
        let fence = groups.fenced_below(START);
        let mut classify = |object: &Object| match object.born_seq() < fence {
            true => Use::Validate,
            false => Use::Serve,
        };
        let request = RequestHead::default();
        let found =
            groups.lookup_from(from, &key, (&request, false), Asker::Client, START, &mut classify);
        let Lookup::Miss { stale: Some(stale), .. } = found else { panic!("{found:?}") };
        assert!(!stale.is_copy());
    }
    groups.trust_until(START);
    assert!(groups.all().iter().all(|cache| cache.trusts_nothing(START)));
}

#[test]
fn pages_list_each_object_once_in_one_order() {
    let groups = groups_of(3, 32 * MIB);
    let mut keys: Vec<Key> = (0..500).map(|at| groups.key("a", &format!("/{at}"))).collect();
    for key in &keys {
        store(&groups, 0, key, 100);
        (0..2).for_each(|_| _ = serve(&groups, 1, &hit(&groups, 1, key)));
    }
    assert!(groups.stats().objects > 600);
    keys.sort_by_key(Key::hash);
    for count in [1, 7, 100, 1000] {
        let (mut listed, mut from) = (Vec::new(), 0);
        loop {
            let page = groups.page(from, count);
            assert!(page.objects.len() <= count);
            listed.extend(page.objects.iter().map(|object| object.key().hash()));
            match page.next {
                Some(next) => from = next,
                None => break,
            }
        }
        assert!(listed.iter().eq(keys.iter().map(Key::hash).collect::<Vec<_>>().iter()), "{count}");
    }
}

/// A number from a seed, as all of a history comes from one.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Whatever is stored, purged, renewed, evicted and copied in whatever order: a look-up from any group finds
/// what one at home would find, or nothing.
#[test]
fn no_group_finds_what_another_would_not() {
    let mut copies = 0;
    for seed in 0..60 {
        let groups = groups_of(3, 4 * MIB);
        let (mut state, mut versions) = (seed, HashMap::new());
        let mut under_way = Vec::new();
        for step in 0..1500_u64 {
            let key = groups.key("a", &format!("/{}", draw(&mut state, 12)));
            let from = draw(&mut state, 3) as usize;
            match draw(&mut state, 40) {
                0 => _ = groups.purge(&key, Purge::Hard),
                1 => _ = groups.purge(&key, Purge::Soft(START)),
                2 if step % 5 == 0 => _ = groups.purge_all(Purge::Hard),
                3 => {
                    let object = groups.peek(&key).variants.pop();
                    object.iter().for_each(|object| _ = groups.forget(object));
                }
                4 => {
                    // Some of what is being copied comes to an end, late.
                    let done = std::mem::take(&mut under_way);
                    for copying in done {
                        let copying: freshet_cache::Copying = copying;
                        copying.finish(full_body(groups.of(0), 300));
                    }
                }
                5 => groups.all().iter().for_each(|cache| _ = cache.reclaim(200_000)),
                _ => {
                    let classify = &mut |object: &Object| by_freshness(object, START);
                    let request = RequestHead::default();
                    match groups.lookup_from(
                        from,
                        &key,
                        (&request, false),
                        Asker::Client,
                        START,
                        classify,
                    ) {
                        Lookup::Hit { object, .. } => {
                            let newest = versions.get(&key.hash());
                            let shown = object.head().fetch_id;
                            assert_eq!(newest, Some(&shown), "seed {seed}, step {step}");
                            let at_home = groups.peek(&key).variants;
                            assert!(Arc::ptr_eq(&at_home[0], object.original()), "seed {seed}");
                            copies += u64::from(object.is_copy());
                            match groups.copy_for(from, &object) {
                                Some(copying) if from == 0 => under_way.push(copying),
                                Some(copying) => {
                                    copying.finish(full_body(groups.of(from), 300));
                                }
                                None => {}
                            }
                        }
                        Lookup::Miss { ticket, .. } => {
                            let mut head = head(60);
                            head.fetch_id = step;
                            let object = ticket.insert(spec(groups.home(&key), head, 300));
                            assert!(object.is_indexed());
                            versions.insert(key.hash(), step);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        drop(under_way);
        groups.purge_all(Purge::Hard);
        assert_eq!(groups.stats().objects, 0);
    }
    assert!(copies > 3000, "{copies}");
}
