//! Bodies that are filled side by side, of more than memory: what they may take from what is used.

use crate::fixture::*;
use freshet_cache::{Cache, Object};
use freshet_store::{Arena, Body, BodyReader, BodyWriter, Next};
use proptest::prelude::*;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const LIMIT: u64 = 32 * MIB;
/// As a node has it where nothing else is said; with a quarter some of what is hot may leave.
const SHARE: u64 = LIMIT / 100 * 15;
const HOT: usize = 8;
const HOT_BYTES: usize = 400_000;
/// Fills at a time: more than memory, of any length.
const FILLS_MAX: usize = 60;

#[derive(Clone, Debug)]
enum Step {
    /// A response of this length begins to come; whether it says its length.
    Begin(usize, bool),
    /// So much more of one comes, and is read by its client.
    Go(prop::sample::Index, usize),
    /// One breaks off.
    Break(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..3_000_000, any::<bool>()).prop_map(|(bytes, known)| Step::Begin(bytes, known)),
        6 => (any::<prop::sample::Index>(), 1_usize..2_000_000).prop_map(|(at, bytes)| Step::Go(at, bytes)),
        1 => any::<prop::sample::Index>().prop_map(Step::Break),
    ]
}

struct Fill {
    _object: Option<Arc<Object>>,
    writer: BodyWriter,
    reader: BodyReader,
    left: usize,
}

impl Fill {
    /// As a node does it: what there is no room for passes and is not stored.
    fn begin(cache: &Arc<Cache>, number: usize, bytes: usize, is_known: bool) -> Self {
        let total = is_known.then_some(bytes as u64);
        let body = Body::new(cache.arena(), total);
        let mut writer = body.writer(0, total);
        let (ticket, _, _) = miss(get(cache, &format!("/cold/{number}"), START));
        if !writer.has_room(16 << 10) {
            let passing = Body::transit(cache.arena(), total);
            let (writer, reader) = (passing.writer(0, total), passing.reader(..));
            return Self { _object: None, writer, reader, left: bytes };
        }
        let reader = body.reader(..);
        let object = ticket.insert(spec_of(head(1000), body));
        Self { _object: Some(object), writer, reader, left: bytes }
    }

    /// Moves up to so many bytes through; whether all came.
    fn go(&mut self, mut bytes: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        while bytes > 0 && self.left > 0 {
            let Poll::Ready(room) = self.writer.poll_reserve(&mut cx, bytes) else { break };
            let count = room.expect("somebody reads").len().min(bytes).min(self.left);
            self.writer.commit(count);
            self.left -= count;
            bytes -= count;
            while let Poll::Ready(Next::Data(_)) = self.reader.poll_next(&mut cx, 1 << 20) {}
        }
        self.left == 0
    }
}

fn assert_bounded(arena: &Arena) {
    let stats = arena.stats();
    assert!(stats.committed_bytes + stats.metadata_bytes <= stats.limit_bytes, "{stats:?}");
    // What is not known to be long goes on while twice the share is free.
    assert!(stats.filling_bytes <= LIMIT - 2 * SHARE + 2 * MIB, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What is hot stays, whatever is filled beside it, and nothing stands still.
    #[test]
    fn a_burst_of_fills_leaves_what_is_hot(
        burst in prop::collection::vec((500_000_usize..3_000_000, any::<bool>()), 40..FILLS_MAX),
        first in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let cache = cache(LIMIT);
        cache.arena().set_fill_limit(SHARE);
        for number in 0..HOT {
            store(&cache, &format!("/hot/{number}"), 1000, HOT_BYTES);
        }
        let use_hot = || {
            for number in 0..HOT {
                hit(get(&cache, &format!("/hot/{number}"), START));
            }
        };
        (0..3).for_each(|_| use_hot());
        let mut fills: Vec<Fill> = Vec::new();
        let finish = |fill: Fill| fill.writer.finish().expect("all of it came");
        let burst = burst.into_iter().map(|(bytes, is_known)| Step::Begin(bytes, is_known));
        let first = first.into_iter().map(|at| Step::Go(at, 600_000));
        for (number, step) in burst.chain(first).chain(steps).enumerate() {
            match step {
                Step::Begin(bytes, is_known) if fills.len() < FILLS_MAX => {
                    fills.push(Fill::begin(&cache, number, bytes, is_known));
                }
                Step::Go(at, bytes) if !fills.is_empty() => {
                    let at = at.index(fills.len());
                    if fills[at].go(bytes) {
                        finish(fills.swap_remove(at));
                    }
                }
                Step::Break(at) if !fills.is_empty() => drop(fills.swap_remove(at.index(fills.len()))),
                _ => {}
            }
            assert_bounded(cache.arena());
            use_hot();
        }
        for mut fill in fills {
            prop_assert!(fill.go(usize::MAX), "it stands still");
            finish(fill);
            // Hot is what is used while they come: what all of them bring is several times memory.
            use_hot();
        }
        prop_assert_eq!(cache.arena().stats().filling_bytes, 0);
    }
}

#[test]
fn fills_have_their_share_and_give_it_back() {
    let cache = cache(LIMIT);
    cache.arena().set_fill_limit(LIMIT / 4);
    for round in 0..3_usize {
        let begin = |number: usize| Fill::begin(&cache, round * 100 + number, 1 << 20, true);
        let mut fills: Vec<Fill> = (0..40).map(begin).collect();
        // As many as are within the share, and half as many that only begin.
        let kept = fills.iter().filter(|fill| fill._object.is_some()).count();
        assert_eq!(kept, 12);
        assert_eq!(cache.arena().stats().filling_bytes, 12 * MIB);
        fills.iter_mut().for_each(|fill| assert!(fill.go(usize::MAX)));
        fills.into_iter().for_each(|fill| fill.writer.finish().expect("all of it came"));
        assert_eq!(cache.arena().stats().filling_bytes, 0);
    }
    // What is not known to be long goes on while there is plenty, and passes where there is not.
    let cache = crate::fixture::cache(2 * LIMIT);
    cache.arena().set_fill_limit(LIMIT / 4);
    let mut fills: Vec<Fill> = (0..8).map(|at| Fill::begin(&cache, at, 8 << 20, false)).collect();
    fills.iter_mut().for_each(|fill| assert!(fill.go(usize::MAX)));
    let is_kept = |fill: &&Fill| fill._object.as_ref().is_some_and(|object| object.is_indexed());
    let kept = fills.iter().filter(is_kept).count();
    assert!((5..8).contains(&kept), "{kept}");
    // One that is alone is as long as it likes.
    drop(fills);
    let mut alone = Fill::begin(&cache, 1000, 12 << 20, true);
    assert!(alone.go(usize::MAX) && alone._object.is_some_and(|object| object.is_indexed()));
}
