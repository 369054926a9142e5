//! The connections of one worker to all its origins.

use crate::buffer::ReadBuffer;
use crate::capacity::{Permit, Waiting};
use crate::connect::{Offer, connect};
use crate::connection::{Connection, Idle};
use crate::definition::{Origin, OriginId};
use crate::error::OriginError;
use crate::http2::sessions::Sessions;
use crate::idle::IdleList;
use crate::line::{Claim, Line};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

/// How often idle connections are looked through for old and dead ones.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Connections passed on within the worker before one is given to the waiters of all workers, so
/// that a busy worker does not keep what another waits for.
const HANDOVERS_IN_A_ROW_MAX: u32 = 16;

/// Read buffers kept for the next exchange; as many as begin at once in a busy worker.
const SPARE_BUFFERS_MAX: usize = 32;

/// Largest read buffer worth keeping: one that held a head of the usual limit.
const SPARE_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A worker's idle connections, last in, first out for each origin. Cheap to clone; a clone is the
/// same pool. Not to be shared between threads.
#[derive(Clone, Debug, Default)]
pub struct Pool(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    slots: RefCell<BTreeMap<OriginId, Slot>>,
    spare: RefCell<Vec<ReadBuffer>>,
    /// Rung when somebody anywhere begins to wait for a connection.
    bell: Arc<Notify>,
}

/// What there is for one origin.
#[derive(Debug)]
struct Slot {
    origin: Arc<Origin>,
    idle: IdleList<Idle>,
    waiters: Line<Waiter>,
    handovers_in_a_row: u32,
    /// Connections that carry many exchanges.
    sessions: Sessions,
}

/// An exchange that waits for a connection.
#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Connection>,
    _mark: Mark,
}

/// Counts a wait at the origin, until either end of it is dropped: the one that waits, or the one
/// that is to serve it.
#[derive(Clone, Debug)]
struct Mark(Rc<RefCell<Option<Waiting>>>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks after idle connections for as long as it is polled: closes those that idled too long,
    /// that their origin closed, and those another worker waits for. A worker runs one of these.
    pub async fn maintain(&self) {
        let mut due = Instant::now() + SWEEP_INTERVAL;
        loop {
            // The bell rings for shortage.
            match timeout_at(due, self.0.bell.notified()).await {
                Ok(()) => self.relieve(),
                Err(_) => {
                    self.sweep();
                    due = Instant::now() + SWEEP_INTERVAL;
                }
            }
        }
    }

    /// Closes idle connections that are too old or dead, or lead to where the origin is no more, once.
    pub fn sweep(&self) {
        let now = Instant::now().into_std();
        let mut slots = self.0.slots.borrow_mut();
        for slot in slots.values_mut() {
            let age_max = slot.origin.settings.timeouts.idle;
            while slot.idle.pop_expired(now, age_max).is_some() {}
            slot.idle.retain(|idle| idle.is_current() && idle.is_alive());
            slot.sessions.retire_elsewhere();
            slot.waiters.retain(|waiter| !waiter.sender.is_closed());
        }
        // Origins that a reload took away leave with their last connection.
        slots.retain(|_, slot| {
            slot.idle.len() > 0 || slot.waiters.len() > 0 || slot.sessions.is_needed()
        });
    }

    /// Closes every idle connection to this origin, as when it is drained.
    pub fn close_idle(&self, origin: OriginId) {
        if let Some(slot) = self.0.slots.borrow_mut().get_mut(&origin) {
            slot.idle = IdleList::default();
            slot.sessions.retire();
        }
    }

    /// Idle connections to this origin.
    pub fn idle_len(&self, origin: OriginId) -> usize {
        let slots = self.0.slots.borrow();
        slots.get(&origin).map_or(0, |slot| slot.idle.len() + slot.sessions.idle_len())
    }

    /// A connection for one exchange: an idle one that is alive unless `fresh`, else a new one,
    /// waiting for room under `connections_max` where there is none, in the order of claims.
    pub(crate) async fn check_out(
        &self,
        origin: &Arc<Origin>,
        fresh: bool,
        claim: Claim,
    ) -> Result<Connection, OriginError> {
        if !fresh && let Some(connection) = self.take_idle(origin.id) {
            origin.capacity.note(false);
            return Ok(self.equip(connection));
        }
        if fresh && origin.capacity.is_full() {
            // An idle connection of our own must not keep the new one away.
            let mut slots = self.0.slots.borrow_mut();
            drop(slots.get_mut(&origin.id).and_then(|slot| slot.idle.pop_oldest()));
        }
        let permit = match origin.capacity.try_permit() {
            Some(permit) => permit,
            None => {
                match self.wait(origin, claim).await.inspect_err(|_| origin.capacity.note(true))? {
                    Turn::Permit(permit) => permit,
                    // Only its place is wanted.
                    Turn::Connection(connection) if fresh => connection.into_permit(),
                    Turn::Connection(connection) => return Ok(self.equip(connection)),
                }
            }
        };
        origin.capacity.note(false);
        let stream = connect(origin, Offer::Http1).await?;
        Ok(self.equip(Connection::new(origin, stream, permit)))
    }

    /// Takes a connection back that is ready for the next request.
    pub(crate) fn check_in(&self, mut connection: Connection) {
        self.keep_buffer(std::mem::take(&mut connection.buffer));
        connection.uses += 1;
        let origin = Arc::clone(&connection.origin);
        origin.capacity.note(false);
        if !origin.is_at(connection.remote.as_ref()) {
            return;
        }
        let mut slots = self.0.slots.borrow_mut();
        let slot = slots.entry(origin.id).or_insert_with(|| self.new_slot(&origin));
        slot.waiters.retain(|waiter| !waiter.sender.is_closed());
        let others_wait = origin.capacity.waiting_len() > slot.waiters.len();
        if !others_wait || slot.handovers_in_a_row < HANDOVERS_IN_A_ROW_MAX {
            while let Some(waiter) = slot.waiters.pop() {
                match waiter.sender.send(connection) {
                    Ok(()) => {
                        slot.handovers_in_a_row += 1;
                        return;
                    }
                    Err(back) => connection = back,
                }
            }
        }
        slot.handovers_in_a_row = 0;
        if origin.capacity.is_short() {
            return;
        }
        let now = Instant::now().into_std();
        drop(slot.idle.push(Idle::new(connection), now, origin.settings.idle_max));
    }

    fn take_idle(&self, origin: OriginId) -> Option<Connection> {
        let mut slots = self.0.slots.borrow_mut();
        let slot = slots.get_mut(&origin)?;
        let now = Instant::now().into_std();
        while slot.idle.pop_expired(now, slot.origin.settings.timeouts.idle).is_some() {}
        while let Some(mut idle) = slot.idle.pop() {
            if idle.is_alive() {
                return Some(idle.wake());
            }
        }
        None
    }

    /// Waits in the worker's queue and in that of all workers, whichever moves first.
    async fn wait(&self, origin: &Arc<Origin>, claim: Claim) -> Result<Turn, OriginError> {
        let settings = &origin.settings;
        let (sender, mut receiver) = oneshot::channel();
        let mark = Mark(Rc::default());
        {
            let mut slots = self.0.slots.borrow_mut();
            let slot = slots.entry(origin.id).or_insert_with(|| self.new_slot(origin));
            slot.waiters.retain(|waiter| !waiter.sender.is_closed());
            if slot.waiters.len() >= settings.connection_waiters_max {
                let waiting_max = settings.connection_waiters_max;
                return Err(OriginError::LocalQueueFull { waiting_max });
            }
            slot.waiters.join(claim, Waiter { sender, _mark: mark.clone() });
        }
        origin.stats.waits.add(1);
        mark.0.replace(Some(Waiting::new(origin)));
        let turn = tokio::select! {
            biased;
            // The sender lives in the pool that this future borrows.
            Ok(connection) = &mut receiver => Turn::Connection(connection),
            permit = origin.capacity.permit(claim) => Turn::Permit(permit),
            () = sleep(settings.timeouts.queue) => {
                origin.stats.waits_in_vain.add(1);
                return Err(OriginError::LocalConnectionLimit {
                    connections_max: settings.connections_max,
                    waited: settings.timeouts.queue,
                });
            }
        };
        Ok(turn)
    }

    /// Gives idle connections up where somebody waits for a place.
    fn relieve(&self) {
        for slot in self.0.slots.borrow_mut().values_mut() {
            let waiting = slot.origin.capacity.waiting_len();
            for _ in 0..waiting {
                drop(slot.idle.pop_oldest());
            }
            // What is in use all the time would never be free for another worker.
            if waiting > slot.waiters.len() + slot.sessions.waiting {
                slot.sessions.retire_oldest();
            }
        }
    }

    fn new_slot(&self, origin: &Arc<Origin>) -> Slot {
        origin.capacity.register(&self.0.bell);
        Slot {
            origin: Arc::clone(origin),
            idle: IdleList::default(),
            waiters: Line::default(),
            handovers_in_a_row: 0,
            sessions: Sessions::default(),
        }
    }

    /// Does something with the connections of HTTP/2 to this origin.
    pub(crate) fn with_sessions<T>(
        &self,
        origin: &Arc<Origin>,
        act: impl FnOnce(&mut Sessions) -> T,
    ) -> T {
        let mut slots = self.0.slots.borrow_mut();
        let slot = slots.entry(origin.id).or_insert_with(|| self.new_slot(origin));
        act(&mut slot.sessions)
    }

    pub(crate) fn equip(&self, mut connection: Connection) -> Connection {
        if connection.buffer.heap_bytes() == 0 {
            connection.buffer = self.0.spare.borrow_mut().pop().unwrap_or_default();
        }
        connection
    }

    fn keep_buffer(&self, mut buffer: ReadBuffer) {
        let mut spare = self.0.spare.borrow_mut();
        let worth = (1..=SPARE_BUFFER_BYTES_MAX).contains(&buffer.heap_bytes());
        if worth && spare.len() < SPARE_BUFFERS_MAX {
            buffer.consume(buffer.len());
            spare.push(buffer);
        }
    }
}

/// What a wait brought.
#[allow(clippy::large_enum_variant, reason = "made and taken apart at once")]
enum Turn {
    Connection(Connection),
    Permit(Permit),
}
