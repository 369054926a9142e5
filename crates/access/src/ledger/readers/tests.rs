use super::*;
use freshet_config::limits::Prefixes;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const LIMITS: ReaderLimits = ReaderLimits { bytes_max: 1000, network_bytes_max: 300 };

/// Of a response that ends without a place, whoever else does for it.
const INSISTING: (Loss, Loss) = (Loss::Ends, Loss::Ends);

fn network(last: u8) -> Network {
    Network::of(Some([192, 0, 2, last].into()), Prefixes { v4: 32, v6: 56 })
}

#[test]
fn what_is_held_twice_counts_once() {
    let holds = Arc::new(ReaderMemory::default());
    let thing = Held { id: 1, bytes: 200 };
    let taken: Vec<_> =
        (0..100).map(|at| holds.hold(network(at % 10), thing, Loss::Ends, LIMITS)).collect();
    assert!(taken.iter().all(Option::is_some));
    assert_eq!((holds.stats().bytes, holds.stats().networks), (200, 10));
    drop(taken);
    assert_eq!(holds.stats(), ReaderStats::default());
}

#[test]
fn a_network_over_its_share_is_refused_and_others_are_not() {
    let holds = Arc::new(ReaderMemory::default());
    let hold = |last, id, bytes| holds.hold(network(last), Held { id, bytes }, Loss::Ends, LIMITS);
    let _first = hold(1, 1, 200);
    assert!(hold(1, 2, 200).is_none());
    assert!(hold(1, 3, 100).is_some());
    assert!(hold(2, 2, 200).is_some());
    assert_eq!(holds.stats().refused, 1);
}

#[test]
fn the_first_may_be_larger_than_the_share_and_not_than_all() {
    let holds = Arc::new(ReaderMemory::default());
    let hold = |last, id, bytes| holds.hold(network(last), Held { id, bytes }, Loss::Ends, LIMITS);
    let first = hold(1, 1, 900);
    assert!(first.is_some() && hold(1, 2, 1).is_none() && hold(2, 2, 101).is_none());
    drop(first);
    assert!(hold(1, 1, 1001).is_none());
}

/// Everything that is kept once, of two networks, until all is held.
fn full(holds: &Arc<ReaderMemory>) -> Vec<Hold> {
    let held = |network_last, id| {
        let limits = ReaderLimits { network_bytes_max: 600, ..LIMITS };
        holds
            .hold(network(network_last), Held { id, bytes: 100 }, Loss::Ends, limits)
            .expect("room")
    };
    (0..10).map(|id| held(u8::from(id >= 4), id)).collect()
}

fn lost(holds: &[Hold]) -> Vec<usize> {
    holds.iter().filter(|hold| hold.is_lost()).map(|hold| hold.held.id).collect()
}

#[test]
fn whoever_has_waited_longest_of_the_fullest_network_goes_first() {
    let holds = Arc::new(ReaderMemory::default());
    let mut old = full(&holds);
    // Network 1 holds 600: its first one has just taken something.
    old[4].renew();
    let new = Held { id: 100, bytes: 150 };
    assert!(holds.hold(network(2), new, Loss::Ends, LIMITS).is_none());
    let new = holds.hold_instead(network(2), new, INSISTING, LIMITS).expect("a place");
    assert_eq!(lost(&old), [5, 6]);
    assert_eq!((holds.stats().bytes, holds.stats().displaced), (950, 2));
    drop((old, new));
    assert_eq!(holds.stats().bytes, 0);
}

#[test]
fn a_full_network_makes_room_among_its_own() {
    let holds = Arc::new(ReaderMemory::default());
    let old = full(&holds);
    let new = Held { id: 100, bytes: 100 };
    // Network 0 holds 400 and may hold 300 now.
    let _new = holds.hold_instead(network(0), new, INSISTING, LIMITS).expect("a place");
    assert_eq!(lost(&old), [0, 1]);
}

#[test]
fn what_one_alone_keeps_goes_before_what_a_crowd_keeps_and_that_goes_whole() {
    let holds = Arc::new(ReaderMemory::default());
    let hold =
        |last, id| holds.hold(network(last), Held { id, bytes: 300 }, Loss::Ends, LIMITS).unwrap();
    let old = [hold(1, 1), hold(2, 1), hold(2, 1), hold(3, 3), hold(4, 4)];
    let new =
        |last, id| holds.hold_instead(network(last), Held { id, bytes: 300 }, INSISTING, LIMITS);
    let _first = new(5, 5).expect("a place");
    assert_eq!(lost(&old), [4]);
    assert!(holds.stats().bytes <= 1000);
    drop(old);
    let crowd = [hold(1, 1), hold(2, 1), hold(2, 1)];
    let insists = holds.hold_instead(network(6), Held { id: 6, bytes: 800 }, INSISTING, LIMITS);
    assert!(insists.is_some() && crowd.iter().all(Hold::is_lost));
}

#[test]
fn who_loses_least_goes_first_and_nobody_for_one_that_loses_less() {
    let holds = Arc::new(ReaderMemory::default());
    let hold = |id, loss| holds.hold(network(1), Held { id, bytes: 100 }, loss, LIMITS);
    let mut old = [Loss::Ends, Loss::GoesOn, Loss::MayBreak]
        .into_iter()
        .enumerate()
        .map(|(id, loss)| hold(id, loss).expect("room"))
        .collect::<Vec<_>>();
    let instead =
        |id, losses| holds.hold_instead(network(1), Held { id, bytes: 100 }, losses, LIMITS);
    let first = instead(3, (Loss::MayBreak, Loss::GoesOn)).expect("a place");
    assert_eq!(lost(&old), [1]);
    assert!(instead(4, (Loss::MayBreak, Loss::GoesOn)).is_none());
    // What would have been at risk ends now, as some of it was sent.
    old[2].note_loss(Loss::Ends);
    let _second = instead(5, (Loss::MayBreak, Loss::MayBreak)).expect("a place");
    assert!(first.is_lost() && lost(&old) == [1]);
    drop(first);
    let _third = instead(6, INSISTING).expect("a place");
    let _fourth = instead(7, INSISTING).expect("a place");
    assert_eq!(lost(&old), [0, 1]);
}

#[test]
fn who_loses_a_place_is_woken_once() {
    struct Count(std::sync::atomic::AtomicU32);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let holds = Arc::new(ReaderMemory::default());
    let old = holds.hold(network(1), Held { id: 1, bytes: 900 }, Loss::Ends, LIMITS).unwrap();
    let count = Arc::new(Count(0.into()));
    let waker = Arc::clone(&count).into();
    assert!(old.poll_lost(&Context::from_waker(&waker)).is_pending());
    let _new =
        holds.hold_instead(network(2), Held { id: 2, bytes: 900 }, INSISTING, LIMITS).unwrap();
    assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert!(old.poll_lost(&Context::from_waker(&waker)).is_ready());
}

proptest! {
    /// Against a list of what is held: sums are right after every step, limits are kept, and
    /// nothing is left at the end.
    #[test]
    fn sums_are_what_is_held(
        steps in prop::collection::vec(
            (0_u8..4, 0_usize..6, 1_u64..400, 0_usize..8, any::<bool>()),
            1..200,
        ),
    ) {
        let holds = Arc::new(ReaderMemory::default());
        let mut held: Vec<Hold> = Vec::new();
        for (last, id, bytes, drops, insists) in steps {
            for _ in 0..drops.min(held.len()) / 2 {
                held.remove(drops % held.len());
            }
            let (network, wanted) = (network(last), Held { id, bytes });
            held.extend(match insists {
                true => holds.hold_instead(network, wanted, INSISTING, LIMITS),
                false => holds.hold(network, wanted, Loss::Ends, LIMITS),
            });
            if let Some(hold) = held.get_mut(drops) {
                hold.renew();
            }
            // Who has lost a place gives back nothing, now or later.
            held.retain(|hold| !hold.is_lost() || drops > 2);
            // Each thing with the most anybody said of it since it was held by nobody: at least
            // what those say who hold it now.
            let mut least: BTreeMap<usize, u64> = BTreeMap::new();
            for hold in held.iter().filter(|hold| !hold.is_lost()) {
                let most = least.entry(hold.held.id).or_default();
                *most = (*most).max(hold.held.bytes);
            }
            let stats = holds.stats();
            prop_assert!(stats.bytes >= least.values().sum::<u64>());
            prop_assert!(stats.bytes <= LIMITS.bytes_max);
            let has_place = held.iter().filter(|hold| !hold.is_lost());
            let networks: BTreeSet<_> = has_place.map(|hold| hold.network).collect();
            prop_assert_eq!(stats.networks, networks.len());
            holds.places().check(LIMITS);
        }
        held.clear();
        prop_assert_eq!((holds.stats().bytes, holds.stats().networks), (0, 0));
    }
}
