//! HTTP/3 connections: a task for each UDP port sorts datagrams to them, a task for each connection
//! sends, and a task serves each stream.
//!
//! The port's task takes all datagrams that are there before any connection answers one, so that a
//! connection that got several says all it has to say at once.

mod multiplexed;
mod served;
mod shift;
mod unacknowledged;

use crate::accept::Open;
use freshet_base::clock::UnixMillis;
use freshet_net::limits::{ACCEPT_PAUSE, UDP_READ_BYTES_MAX};
use freshet_net::quic::port::{Received, Refusals, UdpPort};
use freshet_net::quic::relay::Relay;
use freshet_net::quic::resets::ClientTokens;
use freshet_net::quic::secrets::Secrets;
use freshet_net::quic::sorting::{Answer, Sorted, Sorting};
use freshet_net::quic::steering::Steering;
use freshet_net::socket::canonical;
use freshet_net::tls::HandshakeContext;
use freshet_net::tls::early::EarlySessions;
use freshet_quic::error::code;
use freshet_quic::parameters::Local;
use freshet_quic::{Accept, Algorithm, Config, Ecn, Id, Refused, Route};
use freshet_wire::h1::Limits;
use freshet_wire::h3::limits::BLOCK_FACTOR;
use freshet_worker::worker::Worker;
use rustls::ServerConfig;
use served::Handle;
use shift::{News, Shift};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// Reads of a port before its connections have their turn.
const READS_PER_TURN: usize = 16;
/// Datagrams from other workers before that.
const PASSED_PER_TURN: usize = 64;

/// Bytes that a client may send on all streams ahead of who takes them. What comes out of order within
/// it is memory that no ledger knows of, so it is a small window: 10 MB a second at 50 ms.
const CONNECTION_WINDOW_BYTES: u64 = 512 << 10;
/// The same on one stream.
const STREAM_WINDOW_BYTES: u64 = 256 << 10;

/// How often a datagram may be passed on: to the worker that its id leads to, and from there to the
/// one that has the line to the process before.
const PASSES_MAX: u8 = 2;

/// A datagram that came to another worker.
pub struct Passed {
    route: Route,
    ecn: Ecn,
    datagram: Vec<u8>,
    passes: u8,
}

/// Where a worker takes HTTP/3.
pub struct QuicPort {
    /// What logs and policies call it.
    pub name: Arc<str>,
    /// The socket.
    pub udp: UdpPort,
    /// Certificates, and the protocol.
    pub tls: Arc<ServerConfig>,
    /// Whether certificates of clients are verified there.
    pub verifies_clients: bool,
    /// Sessions that clients may begin with early data.
    pub early: Option<EarlySessions>,
    /// Who decides how much is sent to them.
    pub congestion: Algorithm,
    /// Which worker's it is.
    pub steering: Steering,
    /// What all workers' ports share.
    pub secrets: Arc<Secrets>,
    /// The same of what clients say of connections that they know nothing of.
    pub tokens: Arc<ClientTokens>,
    /// Datagrams for this worker that came to others.
    pub passed: Receiver<Passed>,
    /// Ways to the others, and to this one.
    pub workers: Arc<[Sender<Passed>]>,
    /// The line to the process before, while this one takes over.
    pub elder: Option<Relay>,
    /// How many workers that has.
    pub before: u8,
    /// Lines to processes that are to take over.
    pub heirs: UnboundedReceiver<Relay>,
}

/// A port, to its connections.
struct Port {
    worker: Rc<Worker>,
    name: Arc<str>,
    udp: UdpPort,
    tls: Arc<ServerConfig>,
    verifies_clients: bool,
    early: Option<EarlySessions>,
    congestion: Algorithm,
    sorting: RefCell<Sorting<u64>>,
    connections: RefCell<HashMap<u64, Rc<Handle>>>,
    /// Connections that wait for room in the socket.
    waiting: RefCell<Vec<Rc<Handle>>>,
    workers: Arc<[Sender<Passed>]>,
    shift: RefCell<Shift>,
    /// Times are since then.
    epoch: Instant,
    /// When that was, for what processes share.
    epoch_unix: Duration,
    last: Cell<u64>,
}

/// Serves a port for as long as the worker runs; new connections as long as it does not drain.
pub async fn serve_port(worker: Rc<Worker>, port: QuicPort) {
    let QuicPort { name, udp, tls, verifies_clients, steering, secrets, mut passed, .. } = port;
    let QuicPort { workers, elder, before, heirs, early, congestion, tokens, .. } = port;
    let mut sorting = Sorting::new(steering, secrets, tokens);
    if before > 0 {
        sorting.follow(before);
    }
    let port = Rc::new(Port {
        worker,
        name,
        udp,
        tls,
        verifies_clients,
        early,
        congestion,
        sorting: RefCell::new(sorting),
        connections: RefCell::default(),
        waiting: RefCell::default(),
        workers,
        shift: RefCell::new(Shift::new(elder, heirs)),
        epoch: Instant::now(),
        epoch_unix: Duration::from_millis(UnixMillis::now().0),
        last: Cell::new(0),
    });
    let mut buffer = vec![0; UDP_READ_BYTES_MAX];
    let worker = Rc::clone(&port.worker);
    let mut drained = std::pin::pin!(worker.drained());
    let mut is_draining = false;
    loop {
        let turn = poll_fn(|cx| {
            is_draining = is_draining || drained.as_mut().poll(cx).is_ready();
            let told = port.poll_shift(cx, is_draining);
            let flushed = port.poll_flush(cx);
            let read = port.poll_read(cx, &mut buffer);
            let passed = port.poll_passed(cx, &mut passed);
            let others = [passed, told, flushed].iter().any(Poll::is_ready);
            match (read, others) {
                (Poll::Ready(Err(error)), _) => Poll::Ready(Err(error)),
                (Poll::Pending, false) => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            }
        });
        if let Err(error) = turn.await {
            // As want of memory, which passes. The port stays, and so does what is said of it.
            tracing::error!(%error, address = %port.udp.local_address(), "a UDP port failed");
            sleep(ACCEPT_PAUSE).await;
        }
        // Those that were woken have their turn.
        tokio::task::yield_now().await;
    }
}

impl Port {
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Hears of processes that take over, and gives the port to one when this worker drains.
    fn poll_shift(self: &Rc<Self>, cx: &mut Context<'_>, is_draining: bool) -> Poll<()> {
        let mut came = Vec::new();
        let polled = self.shift.borrow_mut().poll(cx, |news| match news {
            News::Begun(ids) => self.sorting.borrow_mut().begun_before(ids),
            News::ElderGone => self.sorting.borrow_mut().follow_nobody(),
            News::Datagrams { route, segment_bytes, bytes } => {
                came.extend(bytes.chunks(segment_bytes).map(|datagram| (route, datagram.to_vec())));
            }
        });
        let now = self.now();
        for (route, mut datagram) in came {
            // The other process does not say how it was marked.
            self.take((route, Ecn::NotEct), &mut datagram, now, 0);
        }
        if is_draining && self.shift.borrow().has_heir() {
            let begun: Vec<Id> =
                self.connections.borrow().values().flat_map(|handle| handle.begun()).collect();
            self.shift.borrow_mut().give(&begun);
        }
        polled
    }

    /// Sends what there was no room for, and has those go on who wait for that.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.udp.poll_flush(cx);
        let refused = self.udp.take_refused();
        if refused != Refusals::default() {
            self.worker.stats.quic_send_waits.add(refused.waits);
            self.worker.stats.quic_unsent.add(refused.lost);
        }
        if polled.is_ready() {
            self.waiting.take().iter().for_each(|handle| handle.go_on());
        }
        polled
    }

    /// Has a connection go on when there is room in the socket.
    fn await_room(&self, handle: &Rc<Handle>) {
        if handle.await_room() {
            self.waiting.borrow_mut().push(Rc::clone(handle));
        }
    }

    /// Takes the datagrams that are there.
    fn poll_read(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<()>> {
        if !self.shift.borrow().is_ours() {
            return Poll::Pending;
        }
        for read in 0..READS_PER_TURN {
            let Received { route, ecn, bytes, segment_bytes } =
                match self.udp.poll_receive(cx, buffer) {
                    Poll::Ready(received) => received?,
                    Poll::Pending if read == 0 => return Poll::Pending,
                    Poll::Pending => return Poll::Ready(Ok(())),
                };
            let now = self.now();
            let arrived = buffer.get_mut(..bytes).unwrap_or_default();
            for datagram in arrived.chunks_mut(segment_bytes) {
                self.take((route, ecn), datagram, now, 0);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the datagrams that came to other workers.
    fn poll_passed(
        self: &Rc<Self>,
        cx: &mut Context<'_>,
        passed: &mut Receiver<Passed>,
    ) -> Poll<()> {
        for taken in 0..PASSED_PER_TURN {
            match passed.poll_recv(cx) {
                Poll::Ready(Some(Passed { route, ecn, mut datagram, passes })) => {
                    self.take((route, ecn), &mut datagram, self.now(), passes);
                }
                Poll::Ready(None) | Poll::Pending if taken == 0 => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }

    /// Takes a datagram, which was passed on so many times.
    fn take(
        self: &Rc<Self>,
        (route, ecn): (Route, Ecn),
        datagram: &mut [u8],
        now: Duration,
        passes: u8,
    ) {
        let is_accepting = !self.worker.is_draining();
        let shared = self.epoch_unix + now;
        let sorted = self.sorting.borrow_mut().sort(route, datagram, is_accepting, shared);
        match sorted {
            Sorted::Of(number) => {
                let handle = self.connections.borrow().get(&number).map(Rc::clone);
                if let Some(handle) = handle {
                    handle.receive(route, ecn, datagram, now);
                }
            }
            Sorted::First(accept) => self.accept(&accept, (route, ecn), datagram, now),
            Sorted::Answer(what, answer) => {
                let stats = &self.worker.stats;
                match what {
                    Answer::Retry => stats.quic_retries.increment(),
                    Answer::Reset => stats.quic_resets.increment(),
                    Answer::Versions => stats.quic_versions_told.increment(),
                }
                self.udp.send(route, Ecn::NotEct, &answer, answer.len());
            }
            Sorted::Elsewhere(worker) => {
                self.worker.stats.quic_passed.increment();
                let passes = passes + 1;
                let way = self.workers.get(usize::from(worker)).filter(|_| passes <= PASSES_MAX);
                let passed = || Passed { route, ecn, datagram: datagram.to_vec(), passes };
                // One that does not keep up loses datagrams, as a full socket does.
                let is_lost = way.is_none_or(|way| way.try_send(passed()).is_err());
                self.worker.stats.quic_dropped.add(u64::from(is_lost));
            }
            Sorted::Before => {
                self.worker.stats.quic_passed.increment();
                let is_lost = !self.shift.borrow().pass(route, datagram);
                self.worker.stats.quic_dropped.add(u64::from(is_lost));
            }
            Sorted::Refused(refused) => {
                self.worker.stats.quic_dropped.increment();
                self.refuse(route, &refused);
            }
            Sorted::Dropped => self.worker.stats.quic_dropped.increment(),
        }
    }

    /// Begins a connection.
    fn accept(
        self: &Rc<Self>,
        accept: &Accept,
        (route, ecn): (Route, Ecn),
        datagram: &mut [u8],
        now: Duration,
    ) {
        let worker = &self.worker;
        let snapshot = worker.snapshot();
        // Before anything is computed for it: a handshake costs more than all else that a client may have.
        if worker.shared.connections.load(Relaxed) >= snapshot.settings.limits.connections_max {
            worker.stats.connections_refused.increment();
            if self.sorting.borrow_mut().may_answer(self.epoch_unix + now) {
                let Accept { version, receiver, client, .. } = *accept;
                let code = code::CONNECTION_REFUSED;
                self.refuse(route, &Refused { version, receiver, client, code });
            }
            return;
        }
        let local = local(&snapshot.h1_limits, &snapshot.settings.limits);
        let tls = match &self.early {
            Some(sessions) => {
                let client = canonical(route.remote).ip();
                sessions.config_for(&self.tls, client, fingerprint(&local, &snapshot.h1_limits))
            }
            None => Arc::clone(&self.tls),
        };
        let config = Config { tls, local, congestion: self.congestion };
        let Ok(mut quic) = freshet_quic::Connection::new(&config, accept, now) else {
            return worker.stats.tls_failed.increment();
        };
        let mut context = HandshakeContext::default();
        context.during(|| quic.receive(route, ecn, datagram, now));
        if quic.statistics().packets_received == 0 {
            // It only looked like one.
            return worker.stats.quic_dropped.increment();
        }
        worker.stats.connections_accepted.increment();
        let open = Open::new(worker);
        let number = self.last.get() + 1;
        self.last.set(number);
        let ids = [accept.receiver, accept.names.own];
        let mut sorting = self.sorting.borrow_mut();
        ids.iter().for_each(|id| sorting.add(*id, number));
        sorting.handshake_began(route.remote);
        drop(sorting);
        let handle = Handle::begin(self, (quic, context), (number, route.remote), ids, open);
        self.connections.borrow_mut().insert(number, Rc::clone(&handle));
        spawn_local(served::serve(Rc::clone(self), handle));
    }

    /// Tells a client that there is no connection for it. One that another process is about to take is not: its next
    /// datagram is for that.
    fn refuse(&self, route: Route, refused: &Refused) {
        let shift = self.shift.borrow();
        if shift.is_ours()
            && !shift.has_heir()
            && let Some(answer) = refused.answer(self.tls.crypto_provider())
        {
            self.worker.stats.quic_refused.increment();
            self.udp.send(route, Ecn::NotEct, &answer, answer.len());
        }
    }

    /// A connection is over.
    fn forget(&self, handle: &Handle) {
        let mut sorting = self.sorting.borrow_mut();
        handle.forget(&mut sorting);
        drop(sorting);
        self.connections.borrow_mut().remove(&handle.number());
    }
}

/// A number for what clients are told of limits, in parameters and settings.
fn fingerprint(local: &Local, heads: &Limits) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Local { data_max, stream_data_max, streams_max, one_way_streams_max, .. } = local;
    (data_max, stream_data_max, streams_max, one_way_streams_max).hash(&mut hasher);
    heads.head_bytes_max.hash(&mut hasher);
    hasher.finish()
}

/// What clients are told.
fn local(heads: &Limits, limits: &freshet_config::limits::Limits) -> Local {
    // A head has to fit, however little of bodies may wait.
    let head_bytes = (heads.head_bytes_max * BLOCK_FACTOR) as u64;
    Local {
        idle_timeout: limits.idle_timeout,
        data_max: CONNECTION_WINDOW_BYTES.max(2 * head_bytes),
        stream_data_max: STREAM_WINDOW_BYTES.max(head_bytes),
        streams_max: u64::from(limits.streams_max),
        ..Local::default()
    }
}
