//! A process that dies at any moment of an order, and the one after it.

use crate::authority::Fate;
use crate::support::{Bench, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Requests of one order from nothing, and some more.
const REQUESTS: usize = 14;

/// The process ends while the answer to this request is on its way: the authority has done what it was
/// asked, and nobody heard. All that is left is what is on the disk.
#[test]
fn whenever_a_process_ends_the_next_one_goes_on_and_does_not_order_in_a_loop() {
    for at in 1..=REQUESTS {
        let bench = Bench::new();
        let has_died = Arc::new(AtomicBool::new(false));
        let dies = Arc::clone(&has_died);
        bench.authority.twist(Arc::new(move |number, _, reply| {
            if number == at {
                dies.store(true, SeqCst);
                return Fate::Silence;
            }
            Fate::Answer(reply)
        }));
        let running = bench.start();
        until(|| has_died.load(SeqCst) || bench.has_certificate());
        // As with a kill: what is under way is dropped where it is.
        drop(running);
        let next = Bench::beside(&bench);
        let running = next.start();
        until(|| next.has_certificate());
        drop(running);
        let state = bench.authority.state();
        assert_eq!(state.accounts.len(), 1, "died at request {at}");
        // Only the answer that says where the order is can be lost with it.
        let orders: Vec<_> = state.orders.iter().map(|one| one.status).collect();
        assert!(orders.len() <= 2, "died at request {at}: {orders:?}");
        assert_eq!(
            orders.iter().filter(|status| **status == "valid").count(),
            1,
            "{at}: {orders:?}"
        );
        assert!(state.wrong.is_empty(), "died at request {at}: {:?}", state.wrong);
    }
}

/// One that dies each time just after it has ordered does not order at once again.
#[test]
fn a_process_that_keeps_dying_orders_at_its_pace() {
    let bench = Bench::new();
    bench.authority.twist(Arc::new(|_, what, reply| match what {
        "POST /order" => Fate::Silence,
        _ => Fate::Answer(reply),
    }));
    let mut plan = bench.plan();
    plan.pace.first = std::time::Duration::from_secs(3600);
    plan.pace.max = plan.pace.first;
    let start = || freshet_acme::Manager::open(plan.clone(), &bench.store).unwrap();
    let running = start().start().unwrap();
    until(|| bench.authority.state().orders.len() == 1);
    drop(running);
    let next = start();
    let now_s = freshet_base::clock::UnixMillis::now().seconds();
    let due_s = next.status().names()[0].1.due_s;
    assert!(due_s > now_s + 2000, "{due_s}, now {now_s}");
}
