//! One request and its response, whatever the protocol: which it is, when it was due, what became of
//! it; and the thread's state that all its connections share.

use super::check::Checker;
use super::head::{Hit, Signs};
use super::meter::{Completed, Meter};
use super::random::Random;
use super::workload::Values;
use super::{Load, Pace, Shared};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Arrivals that wait for a free connection, per thread; beyond that the oldest are given up.
/// A second of a million requests: whoever is further behind is not measured but buried.
const BACKLOG_MAX: usize = 1_000_000;

/// A place where requests happen one after the other.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) connection: u32,
    pub(super) lane: u32,
}

/// What a lane does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next {
    /// The next request, which was due at this time.
    Request(u64),
    /// Nothing, until it is woken.
    Wait,
}

/// The requests of one lane: its session, and the exchange under way.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) place: Place,
    session: u16,
    /// The next request of the session; its length when it is over.
    position: u16,
    values: Values,
    started: bool,
    /// Whether its next request was sent before and is sent once more: it is of those that were allowed.
    pub(super) is_again: bool,
    pub(super) exchange: Option<Exchange>,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Exchange {
    class: u16,
    pub(super) due: u64,
    /// When it left; 0 while it waits to.
    pub(super) sent: u64,
    first: u64,
    body_bytes: u64,
    status: u16,
    hit: Hit,
    check: Option<Box<Checker>>,
}

impl Exchange {
    /// Whether any byte of the response has come.
    pub(super) fn has_begun(&self) -> bool {
        self.first != 0
    }

    /// Whether somebody wants to see the body.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Notes that it leaves now. In a closed loop its time begins here, as other generators have it.
    fn leave(&mut self, now: u64, is_closed_loop: bool) {
        if self.sent == 0 {
            self.sent = now.max(1);
            if is_closed_loop {
                self.due = self.sent;
            }
        }
    }

    /// Notes that the first byte has come.
    pub(super) fn begin(&mut self, now: u64) {
        if self.first == 0 {
            self.first = now.max(1);
        }
    }

    /// Notes what the head says.
    pub(super) fn head(&mut self, status: u16, signs: Signs) {
        self.status = status;
        self.hit = signs.verdict();
    }

    /// Takes bytes of the body.
    pub(super) fn body(&mut self, bytes: &[u8], meter: &mut Meter) {
        self.skip(bytes.len() as u64, meter);
        if let Some(check) = &mut self.check {
            check.take(bytes);
        }
    }

    /// Counts bytes of the body that nobody looks at.
    pub(super) fn skip(&mut self, bytes: u64, meter: &mut Meter) {
        self.body_bytes += bytes;
        meter.receive(bytes);
    }
}

impl Lane {
    pub(super) fn new(place: Place) -> Self {
        Self {
            place,
            session: 0,
            position: 0,
            values: Values::default(),
            started: false,
            is_again: false,
            exchange: None,
        }
    }

    /// Notes that what was begun leaves now.
    pub(super) fn leave(&mut self, context: &Context) {
        if let Some(exchange) = &mut self.exchange {
            let is_closed_loop = matches!(context.load.pace, Pace::Closed { .. });
            exchange.leave(context.now, is_closed_loop);
        }
    }

    /// Goes back to before the request under way, to send it once more; when it was due.
    pub(super) fn rewind(&mut self) -> Option<u64> {
        let exchange = self.exchange.take()?;
        self.position = self.position.saturating_sub(1);
        self.is_again = true;
        Some(exchange.due)
    }

    /// Gives up what is under way and the rest of its session.
    pub(super) fn abandon(&mut self) -> Option<Exchange> {
        (self.started, self.is_again) = (false, false);
        self.exchange.take()
    }

    /// Gives up a request that took too long, which is counted.
    pub(super) fn time_out(&mut self, context: &mut Context) {
        if let Some(exchange) = self.abandon() {
            let waited = context.now.saturating_sub(exchange.due);
            context.meter.give_up(exchange.class, waited, |errors| &mut errors.timeout);
        }
    }

    fn is_within_session(&self, context: &Context) -> bool {
        self.started
            && context
                .load
                .workload
                .get(self.session)
                .is_some_and(|session| usize::from(self.position) < session.requests.len())
    }
}

/// What the connections of a thread share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) load: Arc<Load>,
    pub(super) shared: Arc<Shared>,
    pub(super) meter: Meter,
    pub(super) random: Random,
    /// Nanoseconds since the load began.
    pub(super) now: u64,
    /// Whether requests are still begun.
    pub(super) issuing: bool,
    /// Lanes that think, and until when.
    pub(super) timers: BinaryHeap<Reverse<(u64, Place)>>,
    /// Lanes that wait for an arrival.
    pub(super) idle: Vec<Place>,
    /// Arrivals that wait for a lane.
    pub(super) backlog: VecDeque<u64>,
    /// The path of the request that begins.
    pub(super) path: Vec<u8>,
    /// Which thread this is.
    pub(super) thread: usize,
    /// Requests since the last one that was checked.
    unchecked: u32,
}

impl Context {
    pub(super) fn new(load: Arc<Load>, shared: Arc<Shared>, thread: usize) -> Self {
        let meter = Meter::new(load.workload.classes().len());
        let random = Random::new(load.seed ^ (thread as u64) << 32).of_run(load.run);
        Self {
            meter,
            random,
            load,
            shared,
            now: 0,
            issuing: true,
            timers: BinaryHeap::new(),
            idle: Vec::new(),
            backlog: VecDeque::new(),
            path: Vec::with_capacity(256),
            thread,
            unchecked: 0,
        }
    }

    /// Reads the clock.
    pub(super) fn tick(&mut self) {
        self.now = nanoseconds_since(self.shared.begun);
    }

    /// The time of the clock that was read.
    pub(super) fn instant(&self) -> Instant {
        self.shared.begun + Duration::from_nanos(self.now)
    }

    /// Puts the path of the lane's next request into `path`; false when there are no more.
    pub(super) fn begin(&mut self, lane: &mut Lane, due: u64) -> bool {
        let is_again = std::mem::take(&mut lane.is_again);
        if !self.issuing && !is_again {
            return false;
        }
        self.join(lane);
        if !is_again
            && self.load.requests_max.is_some()
            && self.shared.budget.fetch_sub(1, Ordering::Relaxed) <= 0
        {
            self.issuing = false;
            return false;
        }
        let session = self.load.workload.get(lane.session);
        let request = session.and_then(|session| session.requests.get(usize::from(lane.position)));
        let Some(request) = request else { return false };
        lane.position += 1;
        self.path.clear();
        request.write_path(&lane.values, &mut self.random, &mut self.path);
        let class = request.class;
        let check = self.checker();
        lane.exchange = Some(Exchange {
            class,
            due,
            sent: 0,
            first: 0,
            body_bytes: 0,
            status: 0,
            hit: Hit::Unknown,
            check,
        });
        true
    }

    /// Has a lane that is not within a session begin one.
    fn join(&mut self, lane: &mut Lane) {
        if lane.is_within_session(self) {
            return;
        }
        let sequence = match self.load.workload.is_sequential() {
            true => self.shared.sequence.fetch_add(1, Ordering::Relaxed),
            false => 0,
        };
        (lane.session, lane.values) = self.load.workload.choose(&mut self.random, sequence);
        (lane.position, lane.started) = (0, true);
    }

    /// Counts the request of a lane that was due at `due`, and the rest of its session, as never served.
    pub(super) fn leave_unserved(&mut self, lane: &mut Lane, due: u64) {
        match lane.exchange.take() {
            Some(_) => lane.position = lane.position.saturating_sub(1),
            None => self.join(lane),
        }
        let waited_ns = self.now.saturating_sub(due);
        let load = Arc::clone(&self.load);
        let session = load.workload.get(lane.session);
        let owed = session.and_then(|session| session.requests.get(usize::from(lane.position)..));
        for request in owed.unwrap_or_default() {
            self.meter.give_up(request.class, waited_ns, |errors| &mut errors.unserved);
        }
        lane.abandon();
    }

    /// Counts the sessions that never found a connection as never served.
    pub(super) fn leave_backlog(&mut self) {
        while let Some(due) = self.backlog.pop_front() {
            self.drop_arrival(due);
        }
    }

    fn drop_arrival(&mut self, due: u64) {
        let mut nobody = Lane::new(Place { connection: u32::MAX, lane: 0 });
        self.leave_unserved(&mut nobody, due);
    }

    fn checker(&mut self) -> Option<Box<Checker>> {
        let every = self.load.check_one_in;
        if every == 0 {
            return None;
        }
        self.unchecked += 1;
        if self.unchecked < every {
            return None;
        }
        self.unchecked = 0;
        Some(Box::new(Checker::new(&self.path, self.load.known_content.as_deref())))
    }

    /// Counts the response of a lane as complete. The connection may end behind a session.
    pub(super) fn complete(&mut self, lane: &mut Lane) {
        let Some(exchange) = lane.exchange.take() else { return };
        self.meter.complete(&Completed {
            class: exchange.class,
            status: exchange.status,
            hit: exchange.hit,
            body_bytes: exchange.body_bytes,
            first_ns: exchange.first.saturating_sub(exchange.due),
            last_ns: self.now.saturating_sub(exchange.due),
        });
        if let Some(check) = exchange.check
            && exchange.status == 200
        {
            self.meter.checked += 1;
            if !check.is_right(&self.shared.digests) {
                self.meter.fault(|errors| &mut errors.content);
            }
        }
    }

    /// Whether the lane's session is over and wants its connection closed.
    pub(super) fn wants_close(&self, lane: &Lane) -> bool {
        !lane.is_within_session(self)
            && self.load.workload.get(lane.session).is_some_and(|session| session.close)
    }

    /// What a lane that is free does next; where it waits, it is remembered.
    pub(super) fn next(&mut self, lane: &Lane) -> Next {
        let is_spent =
            self.load.requests_max.is_some() && self.shared.budget.load(Ordering::Relaxed) <= 0;
        self.issuing &= !is_spent;
        if !self.issuing {
            return Next::Wait;
        }
        match &self.load.pace {
            Pace::Closed { think: None } => Next::Request(self.now),
            Pace::Closed { think: Some((shortest, longest)) } => {
                let (shortest, longest) = (shortest.as_nanos() as u64, longest.as_nanos() as u64);
                let until = self.now + self.random.between(shortest, longest);
                self.timers.push(Reverse((until, lane.place)));
                Next::Wait
            }
            Pace::Open { .. } if lane.is_within_session(self) => Next::Request(self.now),
            Pace::Open { .. } => match self.backlog.pop_front() {
                Some(due) => Next::Request(due),
                None => {
                    self.idle.push(lane.place);
                    Next::Wait
                }
            },
        }
    }

    /// Takes note of an arrival that found no free lane.
    pub(super) fn queue(&mut self, due: u64) {
        self.meter.late_arrivals += 1;
        self.backlog.push_back(due);
        if self.backlog.len() > BACKLOG_MAX
            && let Some(oldest) = self.backlog.pop_front()
        {
            self.drop_arrival(oldest);
        }
    }
}

pub(super) fn nanoseconds_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
