//! What requests under way cost of the node's memory.
//!
//! A head, a body that waits for its origin, and the tasks that serve a request are memory that a
//! client can make us keep. Each connection has some of it for nothing; what it uses beyond is
//! counted here over all connections, as a part of the node's memory: cached objects make room for
//! it, up to `limits.requests_bytes_max`. Where that is used up, new requests are refused that would
//! use more, and bodies are not read on until what came of them is taken.

use freshet_base::ledger::Ledger;
use freshet_store::Arena;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a connection uses without being counted: a usual request. Clients that ask for no more are
/// served whatever others use.
pub const CONNECTION_BYTES_FREE: usize = 32 << 10;
/// What requests of one connection may use besides bodies that wait: all streams that it may have
/// with usual heads, or some with long ones or with bodies that a policy has kept.
pub const CONNECTION_REQUESTS_BYTES_MAX: usize = 6 << 20;
/// Tasks and records of a request over HTTP/2, and of its fetch.
pub const REQUEST_BYTES: usize = 16 << 10;
/// A head is there several times while its request is served: as it came, as the origin gets it, on
/// its way there, for the log, for what decides what may be stored, some with room to grow. Measured
/// with heads of 30 KB: 4.6 times over HTTP/2, 6.3 over HTTP/1.
pub const HEAD_FACTOR: usize = 6;

/// Memory is counted in the arena by so much at a time.
const STEP_BYTES: u64 = 256 << 10;

/// What all connections use beyond what each has for nothing.
#[derive(Debug)]
pub struct RequestMemory {
    arena: Arc<Arena>,
    used_bytes: AtomicU64,
    /// What of it was counted in the arena.
    charged_bytes: AtomicU64,
}

impl RequestMemory {
    /// Nothing yet.
    pub fn new(arena: Arc<Arena>) -> Self {
        Self { arena, used_bytes: AtomicU64::new(0), charged_bytes: AtomicU64::new(0) }
    }

    /// Bytes used now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Counts `bytes` more where `limit_bytes` and the arena have room for them.
    fn take(&self, bytes: u64, limit_bytes: u64) -> bool {
        let used = self.used_bytes.fetch_add(bytes, Relaxed) + bytes;
        if used <= limit_bytes && self.charge(used) {
            return true;
        }
        self.give_back(bytes);
        false
    }

    /// Counts what is there already.
    fn take_anyway(&self, bytes: u64) {
        let used = self.used_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.charge(used);
    }

    #[inline]
    fn charge(&self, used: u64) -> bool {
        let mut charged = self.charged_bytes.load(Relaxed);
        while charged < used {
            let more = charged + STEP_BYTES;
            match self.charged_bytes.compare_exchange_weak(charged, more, Relaxed, Relaxed) {
                Ok(_) if self.arena.charge_metadata(STEP_BYTES).is_ok() => charged = more,
                Ok(_) => {
                    self.charged_bytes.give_back(STEP_BYTES, Relaxed);
                    return false;
                }
                Err(now) => charged = now,
            }
        }
        true
    }

    fn give_back(&self, bytes: u64) {
        let used = self.used_bytes.give_back(bytes, Relaxed);
        let mut charged = self.charged_bytes.load(Relaxed);
        // A step more than is used stays, so that one request back and forth costs nothing.
        while charged >= used + 2 * STEP_BYTES {
            let fewer = charged - STEP_BYTES;
            match self.charged_bytes.compare_exchange_weak(charged, fewer, Relaxed, Relaxed) {
                Ok(_) => {
                    self.arena.release_metadata(STEP_BYTES);
                    charged = fewer;
                }
                Err(now) => charged = now,
            }
        }
    }
}

/// What one connection uses.
#[derive(Debug)]
pub struct ConnectionMemory {
    all: Arc<RequestMemory>,
    limit_bytes: u64,
    bytes: Cell<usize>,
    /// What of it are requests without their bodies.
    requests_bytes: Cell<usize>,
}

impl ConnectionMemory {
    /// A connection that uses nothing, where all together may use `limit_bytes`.
    pub fn new(all: &Arc<RequestMemory>, limit_bytes: u64) -> Rc<Self> {
        let (bytes, requests_bytes) = (Cell::new(0), Cell::new(0));
        Rc::new(Self { all: Arc::clone(all), limit_bytes, bytes, requests_bytes })
    }

    /// Charges a request until the charge is dropped; `None` where there is no room for it.
    pub fn request(self: &Rc<Self>, bytes: usize) -> Option<Rc<Charge>> {
        let charge = || Rc::new(Charge { connection: Rc::clone(self), bytes: Cell::new(bytes) });
        self.take(bytes).then(charge)
    }

    /// Counts `bytes` more of requests where there is room for them.
    fn take(&self, bytes: usize) -> bool {
        let requests_bytes = self.requests_bytes.get() + bytes;
        let more = beyond(self.bytes.get() + bytes) - beyond(self.bytes.get());
        let is_within = more == 0 || requests_bytes <= CONNECTION_REQUESTS_BYTES_MAX;
        let has_room = is_within && (more == 0 || self.all.take(more, self.limit_bytes));
        if has_room {
            self.bytes.set(self.bytes.get() + bytes);
            self.requests_bytes.set(requests_bytes);
        }
        has_room
    }

    /// Bytes of a body are there.
    pub fn add(&self, bytes: usize) {
        let before = self.bytes.get();
        self.bytes.set(before + bytes);
        match beyond(before + bytes) - beyond(before) {
            0 => {}
            more => self.all.take_anyway(more),
        }
    }

    /// They are not any more.
    pub fn remove(&self, bytes: usize) {
        let after = self.bytes.get() - bytes;
        match beyond(self.bytes.replace(after)) - beyond(after) {
            0 => {}
            fewer => self.all.give_back(fewer),
        }
    }

    /// Whether all together use what they may.
    pub fn is_full(&self) -> bool {
        self.all.used_bytes() >= self.limit_bytes
    }
}

impl Drop for ConnectionMemory {
    fn drop(&mut self) {
        match beyond(self.bytes.get()) {
            0 => {}
            bytes => self.all.give_back(bytes),
        }
    }
}

/// What one request is charged, for as long as it is served or fetched for.
#[derive(Debug)]
pub struct Charge {
    connection: Rc<ConnectionMemory>,
    bytes: Cell<usize>,
}

impl Charge {
    /// The request costs more, where there is room for it.
    #[inline]
    pub fn grow(&self, bytes: usize) -> bool {
        let has_room = self.connection.take(bytes);
        if has_room {
            self.bytes.set(self.bytes.get() + bytes);
        }
        has_room
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let bytes = self.bytes.get();
        self.connection.requests_bytes.set(self.connection.requests_bytes.get() - bytes);
        self.connection.remove(bytes);
    }
}

/// What is counted of what a connection uses.
fn beyond(bytes: usize) -> u64 {
    bytes.saturating_sub(CONNECTION_BYTES_FREE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn memory() -> (Arc<Arena>, Arc<RequestMemory>) {
        let arena = Arena::new(16 << 20).expect("16 MiB are enough");
        (Arc::clone(&arena), Arc::new(RequestMemory::new(arena)))
    }

    #[test]
    fn what_is_small_is_free_and_what_is_large_is_counted_up_to_the_limit() {
        let (arena, all) = memory();
        let before = arena.stats().metadata_bytes;
        let (one, two) =
            (ConnectionMemory::new(&all, 1 << 20), ConnectionMemory::new(&all, 1 << 20));
        let small = one.request(CONNECTION_BYTES_FREE).expect("it is free");
        assert_eq!((all.used_bytes(), arena.stats().metadata_bytes), (0, before));
        let large = one.request(1 << 20).expect("the limit is not passed");
        assert!(all.used_bytes() == 1 << 20 && one.is_full());
        assert!(arena.stats().metadata_bytes >= before + (1 << 20));
        assert!(one.request(1).is_none() && two.request(CONNECTION_BYTES_FREE + 1).is_none());
        assert!(two.request(CONNECTION_BYTES_FREE).is_some());
        drop((small, large));
        assert_eq!(all.used_bytes(), 0);
        assert!(arena.stats().metadata_bytes <= before + 2 * STEP_BYTES);
    }

    #[test]
    fn one_connection_holds_only_so_many_requests() {
        let (_arena, all) = memory();
        let connection = ConnectionMemory::new(&all, u64::MAX);
        let taken: Vec<_> = (0..1000).map_while(|_| connection.request(REQUEST_BYTES)).collect();
        assert_eq!(taken.len(), CONNECTION_REQUESTS_BYTES_MAX / REQUEST_BYTES);
        // A body is bounded by its window.
        connection.add(8 << 20);
        assert!(all.used_bytes() > 8 << 20);
        connection.remove(8 << 20);
        drop((taken, connection));
        assert_eq!(all.used_bytes(), 0);
    }

    proptest! {
        #[test]
        fn all_comes_back(steps in proptest::collection::vec((0_usize..3, 0_usize..300_000), 1..60)) {
            let (arena, all) = memory();
            let before = arena.stats().metadata_bytes;
            let connection = ConnectionMemory::new(&all, 2 << 20);
            let (mut charges, mut bodies) = (Vec::new(), 0);
            for (what, bytes) in steps {
                match what {
                    0 => charges.extend(connection.request(bytes)),
                    1 => {
                        connection.add(bytes);
                        bodies += bytes;
                    }
                    _ => {
                        connection.remove(std::mem::take(&mut bodies));
                        charges.truncate(charges.len() / 2);
                    }
                }
                let sum = bodies + charges.iter().map(|charge| charge.bytes.get()).sum::<usize>();
                prop_assert_eq!(all.used_bytes(), beyond(sum));
            }
            drop((connection, charges));
            prop_assert!(all.used_bytes() <= beyond(bodies));
            prop_assert!(arena.stats().metadata_bytes <= before + beyond(bodies) + 2 * STEP_BYTES);
        }
    }
}
