//! One thread of a load: its events, timers and arrivals, and the bookkeeping of its processor time.

use super::connection::{Connection, Workbench};
use super::h3::Quic;
use super::lane::{Context, nanoseconds_since};
use super::meter::{Interval, Meter};
use super::random::Random;
use super::{Load, Pace, READ_BYTES, SKIP_BYTES, Shared};
use crate::error::LabError;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use rustls::ClientConfig;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// How often a thread looks at what it is told and at its timeouts, at least.
const TICK_NS: u64 = 50_000_000;

/// How long a thread with a processor of its own looks for events before it sleeps. Whoever answers
/// a sleeper pays for waking it, some microseconds, which a server would seem slower by.
const SPIN_NS: u64 = 20_000;

/// Events taken at a time.
const EVENTS_MAX: usize = 512;

/// What a thread reports once per interval.
#[derive(Debug)]
pub(super) struct Beat {
    /// Which interval since the measuring began.
    pub(super) index: usize,
    pub(super) interval: Interval,
    /// Connections open at its end.
    pub(super) open: usize,
    /// Share of a processor that the thread had, and share for which it waited for one.
    pub(super) busy: f64,
    pub(super) waited: f64,
}

/// What a thread reports at its end.
#[derive(Debug)]
pub(super) struct Report {
    /// Everything within the time that is measured.
    pub(super) meter: Meter,
    /// What became after it of requests that were sent or due within it.
    pub(super) tail: Meter,
    /// Processor time of the measured time, and what was spun besides.
    pub(super) cpu_ns: u64,
    pub(super) spun_ns: u64,
    /// When the measuring began and ended.
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// Kept open, so that the kernel can still be asked about them.
    pub(super) connections: Vec<Connection>,
}

/// Processor time of a thread, what it spun counted by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    at_ns: u64,
    cpu_ns: u64,
    spun_ns: u64,
    waited_ns: u64,
}

impl Usage {
    fn now(at_ns: u64, spun_ns: u64) -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let cpu_ns = cpu_ns.saturating_sub(spun_ns);
        // Time on the run queue; absent where the kernel does not count it.
        let waited_ns = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0);
        Self { at_ns, cpu_ns, spun_ns, waited_ns }
    }

    fn shares_since(&self, before: &Self) -> (f64, f64) {
        let wall = self.at_ns.saturating_sub(before.at_ns).max(1) as f64;
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / wall;
        (share(self.cpu_ns, before.cpu_ns), share(self.waited_ns, before.waited_ns))
    }
}

/// When requests are due that come by the clock.
#[derive(Debug)]
struct Arrivals {
    gap_ns: f64,
    is_random: bool,
    next_ns: f64,
}

impl Arrivals {
    fn advance(&mut self, random: &mut Random) {
        self.next_ns += self.gap_ns * if self.is_random { random.exponential() } else { 1.0 };
    }
}

/// A thread at work.
pub(super) struct Thread {
    context: Context,
    bench: Workbench,
    connections: Vec<Connection>,
    arrivals: Option<Arrivals>,
    sender: Sender<Beat>,
    measuring: bool,
    from_ns: u64,
    usage_from: Usage,
    usage_before: Usage,
    intervals: usize,
    progress: u64,
    /// Whether it has a processor of its own, so that it may spin without taking a server's.
    spins: bool,
    spun_ns: u64,
}

impl Thread {
    /// Makes the connections of thread `number`, none of them open yet.
    pub(super) fn new(
        load: &Arc<Load>,
        shared: &Arc<Shared>,
        number: usize,
        (tls, quic): (Option<Arc<ClientConfig>>, Option<Quic>),
        sender: Sender<Beat>,
    ) -> Result<Self, LabError> {
        let no_thread = |error: rustix::io::Errno| LabError::LocalThread(error.kind());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_thread)?;
        let bench = Workbench {
            epoll,
            received: vec![0; READ_BYTES].into(),
            skipped: vec![0; SKIP_BYTES].into(),
            tls,
            quic,
            again: Vec::new(),
            to_send: Vec::new(),
            connecting: 0,
            waiting: VecDeque::new(),
            alarms: BinaryHeap::new(),
            retries: BinaryHeap::new(),
        };
        let count = load.connections_of(number);
        let connections = (0..count as u32).map(|n| Connection::new(n, load)).collect();
        let arrivals = match load.pace {
            Pace::Closed { .. } => None,
            Pace::Open { per_second, is_random } => {
                let gap_ns = load.threads as f64 * 1e9 / per_second;
                // Threads take turns, so that together they are as even as one.
                let next_ns = gap_ns * number as f64 / load.threads as f64;
                Some(Arrivals { gap_ns, is_random, next_ns })
            }
        };
        Ok(Self {
            context: Context::new(Arc::clone(load), Arc::clone(shared), number),
            bench,
            connections,
            arrivals,
            sender,
            measuring: false,
            from_ns: 0,
            usage_from: Usage::default(),
            usage_before: Usage::default(),
            intervals: 0,
            progress: 0,
            spins: load.cpus.len() >= load.threads,
            spun_ns: 0,
        })
    }

    /// Loads until the time is over, then waits for what is under way.
    pub(super) fn run(mut self) -> Report {
        self.begin();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut next_tick = 0;
        loop {
            let mut left_ns = self.left_ns(next_tick);
            events.clear();
            if self.spins {
                left_ns = self.spin(&mut events, left_ns);
            }
            if events.is_empty()
                && let Err(error) = wait(&self.bench.epoll, &mut events, left_ns)
            {
                tracing::error!(%error, "a thread of a load cannot wait for events");
                break;
            }
            for event in &events {
                let (number, flags) = (event.data.u64() as usize, event.flags);
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.ready(flags, &mut self.context, &mut self.bench);
                }
            }
            self.context.tick();
            self.go_on();
            self.send();
            if self.context.now >= next_tick {
                next_tick = self.context.now + TICK_NS;
                self.tick();
            }
            if !self.measuring && self.context.now >= self.context.shared.from() {
                self.start_measuring();
            }
            if self.measuring {
                self.beat();
                let is_over = self.context.now >= self.context.shared.until();
                let is_spent = !self.context.issuing && !self.is_busy();
                if is_over || is_spent {
                    break;
                }
            }
            if self.context.shared.is_stopped() {
                break;
            }
        }
        self.finish(&mut events)
    }

    /// Looks for events a little longer before it sleeps, and says how long it may sleep then.
    fn spin(&mut self, events: &mut Vec<epoll::Event>, left_ns: u64) -> u64 {
        self.context.tick();
        let begun_ns = self.context.now;
        let mut spun_ns = 0;
        while spun_ns < left_ns.min(SPIN_NS)
            && events.is_empty()
            && wait(&self.bench.epoll, events, 0).is_ok()
        {
            self.context.tick();
            spun_ns = self.context.now - begun_ns;
        }
        self.spun_ns += spun_ns;
        left_ns - spun_ns.min(left_ns)
    }

    /// Has every lane begin, or wait for the clock.
    fn begin(&mut self) {
        self.context.tick();
        let (lanes, closes) = {
            let load = &self.context.load;
            (load.lanes() as u32, load.workload.closes())
        };
        let is_open_loop = self.arrivals.is_some();
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            if is_open_loop {
                for lane in 0..lanes {
                    let place = super::lane::Place { connection: number as u32, lane };
                    self.context.idle.push(place);
                }
                connection.wants_open = !closes;
                connection.open(&mut self.context, &mut self.bench);
            } else {
                for lane in 0..lanes {
                    connection.wake(lane, 0, &mut self.context, &mut self.bench);
                }
            }
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.next_ns += self.context.now as f64;
        }
    }

    /// Nanoseconds for which there is nothing to do but for events.
    fn left_ns(&self, next_tick: u64) -> u64 {
        let mut until = next_tick;
        if let Some(Reverse((at, _))) = self.context.timers.peek() {
            until = until.min(*at);
        }
        if let Some(Reverse((at, _))) = self.bench.retries.peek() {
            until = until.min(*at);
        }
        if let Some(Reverse((at, _))) = self.bench.alarms.peek() {
            until = until.min(*at);
        }
        if let Some(arrivals) = self.arrivals.as_ref().filter(|_| self.context.issuing) {
            until = until.min(arrivals.next_ns as u64);
        }
        let waits = !self.bench.again.is_empty() || !self.bench.to_send.is_empty();
        if waits { 0 } else { until.saturating_sub(self.context.now) }
    }

    /// Does what is due: connections with more to read, to open, lanes that thought, arrivals.
    fn go_on(&mut self) {
        self.look_at_alarms();
        let (context, bench) = (&mut self.context, &mut self.bench);
        for number in std::mem::take(&mut bench.again) {
            if let Some(connection) = self.connections.get_mut(number as usize) {
                connection.read(false, context, bench);
            }
        }
        while let Some(Reverse((at, number))) = bench.retries.peek().copied()
            && at <= context.now
        {
            bench.retries.pop();
            if let Some(connection) = self.connections.get_mut(number as usize) {
                connection.open(context, bench);
            }
        }
        for _ in 0..bench.waiting.len() {
            let Some(number) = bench.waiting.pop_front() else { break };
            if let Some(connection) = self.connections.get_mut(number as usize) {
                connection.open(context, bench);
            }
        }
        while let Some(Reverse((at, place))) = context.timers.peek().copied()
            && at <= context.now
        {
            context.timers.pop();
            if let Some(connection) = self.connections.get_mut(place.connection as usize) {
                connection.wake(place.lane, at, context, bench);
            }
        }
        let Some(arrivals) = &mut self.arrivals else { return };
        while context.issuing && arrivals.next_ns <= context.now as f64 {
            let due = arrivals.next_ns as u64;
            context.meter.arrivals += 1;
            arrivals.advance(&mut context.random);
            match context.idle.pop() {
                None => context.queue(due),
                Some(place) => {
                    if let Some(connection) = self.connections.get_mut(place.connection as usize) {
                        connection.wake(place.lane, due, context, bench);
                    }
                }
            }
        }
    }

    /// Has connections act for which it is time.
    fn look_at_alarms(&mut self) {
        while let Some(Reverse((at, number))) = self.bench.alarms.peek().copied()
            && at <= self.context.now
        {
            self.bench.alarms.pop();
            if let Some(connection) = self.connections.get_mut(number as usize) {
                connection.alarm(at, &mut self.context, &mut self.bench);
            }
        }
    }

    /// Sends what has gathered.
    fn send(&mut self) {
        self.context.tick();
        let mut numbers = std::mem::take(&mut self.bench.to_send);
        for number in numbers.drain(..) {
            if let Some(connection) = self.connections.get_mut(number as usize) {
                connection.flush(&mut self.context, &mut self.bench);
            }
        }
        // Its room is used again; what was added meanwhile has its turn at the next call.
        numbers.append(&mut self.bench.to_send);
        self.bench.to_send = numbers;
    }

    /// What is looked at now and then.
    fn tick(&mut self) {
        let limit = self.context.load.timeout.as_nanos() as u64;
        if let Some(limit) = self.context.now.checked_sub(limit) {
            for connection in &mut self.connections {
                connection.time_out(limit, &mut self.context, &mut self.bench);
            }
        }
        let open = self.connections.iter().filter(|connection| connection.is_open()).count();
        let shared = &self.context.shared;
        if !self.measuring {
            shared.set_open(self.context.thread, open);
        }
        let progress = self.context.meter.received_bytes + self.context.meter.head_bytes;
        if progress != self.progress {
            self.progress = progress;
            shared.answered_ns.fetch_max(self.context.now, Ordering::Relaxed);
        }
        let refused = self.context.meter.errors.connect + self.context.meter.errors.tls;
        shared.refused.fetch_max(refused, Ordering::Relaxed);
    }

    fn start_measuring(&mut self) {
        let classes = self.context.load.workload.classes().len();
        if !self.context.load.counts_all() {
            self.context.meter = Meter::new(classes);
        }
        self.measuring = true;
        self.from_ns = self.context.now;
        self.usage_from = Usage::now(self.context.now, self.spun_ns);
        self.usage_before = self.usage_from;
    }

    /// Reports an interval that is over.
    fn beat(&mut self) {
        let length = self.context.load.interval.as_nanos() as u64;
        let due = self.from_ns + length * (self.intervals as u64 + 1);
        if self.context.now >= due {
            self.report_interval();
        }
    }

    fn report_interval(&mut self) {
        let usage = Usage::now(self.context.now, self.spun_ns);
        let (busy, waited) = usage.shares_since(&self.usage_before);
        self.usage_before = usage;
        let interval = std::mem::replace(&mut self.context.meter.interval, Interval::new());
        let open = self.connections.iter().filter(|connection| connection.is_open()).count();
        let index = self.intervals;
        self.intervals += 1;
        // Nobody listens any more when the load was given up.
        let _ = self.sender.send(Beat { index, interval, open, busy, waited });
    }

    fn is_busy(&self) -> bool {
        self.connections.iter().any(Connection::is_busy)
    }

    /// Whether requests that were due are still to be sent or answered.
    fn owes(&self) -> bool {
        !self.context.backlog.is_empty() || self.connections.iter().any(Connection::owes)
    }

    /// Ends the measuring and waits for responses under way, so that what the origin counted and what
    /// was received here can be compared. What was due by the clock is still sent; what has no answer then
    /// counts as never served.
    fn finish(mut self, events: &mut Vec<epoll::Event>) -> Report {
        let until_ns = self.context.now;
        let usage = Usage::now(until_ns, self.spun_ns);
        self.context.shared.closed.fetch_add(1, Ordering::Relaxed);
        if self.measuring && self.context.meter.interval.requests > 0 {
            self.report_interval();
        }
        let is_open_loop = self.arrivals.take().is_some();
        self.context.issuing &= is_open_loop;
        if !self.context.issuing {
            self.context.timers.clear();
            self.bench.retries.clear();
        }
        let tail = Meter::new(self.context.load.workload.classes().len());
        let meter = std::mem::replace(&mut self.context.meter, tail);
        let drain_until = until_ns + self.context.load.drain.as_nanos() as u64;
        let mut next_tick = until_ns + TICK_NS;
        while self.context.now < drain_until && !self.context.shared.is_stopped() {
            let is_done = if self.context.issuing { !self.owes() } else { !self.is_busy() };
            if is_done {
                break;
            }
            if wait(&self.bench.epoll, events, self.left_ns(next_tick)).is_err() {
                break;
            }
            self.context.tick();
            if self.context.issuing {
                self.go_on();
            } else {
                self.look_at_alarms();
            }
            if self.context.now >= next_tick {
                next_tick = self.context.now + TICK_NS;
                self.tick();
            }
            for event in events.iter() {
                let (number, flags) = (event.data.u64() as usize, event.flags);
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.ready(flags, &mut self.context, &mut self.bench);
                }
            }
            for number in std::mem::take(&mut self.bench.again) {
                if let Some(connection) = self.connections.get_mut(number as usize) {
                    connection.read(false, &mut self.context, &mut self.bench);
                }
            }
            self.send();
        }
        if is_open_loop && !self.context.shared.is_interrupted() {
            for connection in &mut self.connections {
                connection.leave_unserved(&mut self.context);
            }
            self.context.leave_backlog();
        }
        Report {
            meter,
            tail: self.context.meter,
            cpu_ns: usage.cpu_ns.saturating_sub(self.usage_from.cpu_ns),
            spun_ns: usage.spun_ns - self.usage_from.spun_ns,
            from_ns: self.from_ns,
            until_ns,
            connections: self.connections,
        }
    }
}

/// Waits for events, at most so long.
fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, left_ns: u64) -> rustix::io::Result<()> {
    let timeout = Timespec {
        tv_sec: (left_ns / 1_000_000_000) as i64,
        tv_nsec: (left_ns % 1_000_000_000) as i64,
    };
    events.clear();
    match epoll::wait(epoll, spare_capacity(events), Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The clock of a load, for whoever watches it.
pub(super) fn clock(shared: &Shared) -> u64 {
    nanoseconds_since(shared.begun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_wakes_within_the_millisecond() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut events = Vec::with_capacity(1);
        // The quickest of many: others may have the processor at any one of them.
        let quickest = (0..50)
            .map(|_| {
                let begun = Instant::now();
                wait(&epoll, &mut events, 100_000).unwrap();
                begun.elapsed()
            })
            .min();
        assert!(quickest.is_some_and(|waited| waited < Duration::from_micros(900)), "{quickest:?}");
        assert!(quickest.is_some_and(|waited| waited >= Duration::from_micros(100)));
    }
}
