//! One connection of a load: socket, TLS, protocol, and making it again when it has gone.
//!
//! HTTP/1.1 and HTTP/2 are over TCP, which is here; [`Http3`] has QUIC and its datagrams. When a connection is made,
//! what waits for it, what is counted as lost and what is asked again is the same for all.

use super::Fault;
use super::h1::{Close, Http1};
use super::h2::Http2;
use super::h3::{Http3, Quic};
use super::lane::{Context, Lane, Next, Place};
use super::tls::Tls;
use super::{Load, Pace, READ_BYTES, SKIP_BYTES};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustls::ClientConfig;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Reads of one connection before others have their turn: 8 of 256 KiB.
const TURN_READS: u32 = 8;

/// Pause after a failed connection, doubled up to [`RETRY_NS_MAX`].
const RETRY_NS_MIN: u64 = 10_000_000;

/// Connections of a thread that are being made at a time: so few that the handshakes of thousands do
/// not wait for each other until they time out.
const CONNECTING_MAX: usize = 256;

/// Longest pause between attempts to connect.
const RETRY_NS_MAX: u64 = 1_000_000_000;

/// How a connection stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Closed,
    Connecting,
    Handshaking,
    Open,
}

/// Which protocol it speaks.
#[derive(Debug)]
enum Protocol {
    Http1(Http1),
    Http2(Http2),
    Http3(Box<Http3>),
}

/// What the connections of a thread use in turn.
#[derive(Debug)]
pub(super) struct Workbench {
    pub(super) epoll: OwnedFd,
    /// What is received.
    pub(super) received: Box<[u8]>,
    /// Room for what is not looked at: never touched, so it costs no memory.
    pub(super) skipped: Box<[u8]>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) quic: Option<Quic>,
    /// Connections with more to read.
    pub(super) again: Vec<u32>,
    /// Connections with something to send. Sending waits until all that has come is read: a server
    /// that gets requests one by one answers them one by one, and each answer wakes somebody.
    pub(super) to_send: Vec<u32>,
    /// Connections being made, handshakes included.
    pub(super) connecting: usize,
    /// Connections that wait until fewer are being made.
    pub(super) waiting: VecDeque<u32>,
    /// When time matters to connections of QUIC.
    pub(super) alarms: BinaryHeap<Reverse<(u64, u32)>>,
    /// Connections that are tried again, and when.
    pub(super) retries: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A connection of a load.
#[derive(Debug)]
pub(super) struct Connection {
    number: u32,
    phase: Phase,
    socket: Option<OwnedFd>,
    tls: Option<Box<Tls>>,
    protocol: Protocol,
    /// What the protocol wants to send under TLS.
    plain: Vec<u8>,
    /// What is to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Whether it is in [`Workbench::to_send`].
    is_queued: bool,
    /// Lanes to begin when it is open, and when their request was due.
    deferred: Vec<(u32, u64)>,
    /// Whether it is to be made as soon as that is allowed.
    pub(super) wants_open: bool,
    retry_at: u64,
    failures: u32,
    opened_at: u64,
    /// How long the peer took to accept it, in nanoseconds: a round trip.
    round_trip: u64,
    /// Whether it has answered: if so, its end may only mean that the peer was tired of it.
    has_answered: bool,
}

impl Connection {
    pub(super) fn new(number: u32, load: &Load) -> Self {
        let protocol = match load.protocol {
            super::Protocol::Http1 => Protocol::Http1(Http1::new(number)),
            super::Protocol::Http2 => Protocol::Http2(Http2::new(number, load.lanes())),
            super::Protocol::Http3 => Protocol::Http3(Box::new(Http3::new(number, load.lanes()))),
        };
        Self {
            number,
            phase: Phase::Closed,
            socket: None,
            tls: None,
            protocol,
            plain: Vec::new(),
            out: Vec::new(),
            sent: 0,
            is_queued: false,
            deferred: Vec::new(),
            wants_open: false,
            retry_at: 0,
            failures: 0,
            opened_at: 0,
            round_trip: 0,
            has_answered: false,
        }
    }

    /// Has a lane begin its next request, which was due at `due`, connecting first where needed.
    pub(super) fn wake(
        &mut self,
        lane: u32,
        due: u64,
        context: &mut Context,
        bench: &mut Workbench,
    ) {
        if self.phase == Phase::Open {
            self.start(lane, due, context);
            self.queue(bench);
        } else {
            self.deferred.push((lane, due));
            self.wants_open |= self.phase == Phase::Closed;
            self.open(context, bench);
        }
    }

    /// Begins to connect, if that is wanted, due and allowed.
    pub(super) fn open(&mut self, context: &mut Context, bench: &mut Workbench) {
        if !self.wants_open || self.phase != Phase::Closed {
            return;
        }
        if context.now < self.retry_at {
            return bench.retries.push(Reverse((self.retry_at, self.number)));
        }
        if bench.connecting >= CONNECTING_MAX {
            return bench.waiting.push_back(self.number);
        }
        self.wants_open = false;
        self.opened_at = context.now;
        if matches!(self.protocol, Protocol::Http3(_)) {
            return self.begin_quic(context, bench);
        }
        match self.connect(context.load.target.address, &bench.epoll) {
            Ok(socket) => {
                self.socket = Some(socket);
                self.phase = Phase::Connecting;
                bench.connecting += 1;
            }
            Err(error) => self.lose(Fault::Connect(error), context, bench),
        }
    }

    fn begin_quic(&mut self, context: &mut Context, bench: &mut Workbench) {
        let (Protocol::Http3(http), Some(quic)) = (&mut self.protocol, &bench.quic) else { return };
        let Some(name) = &context.load.target.tls else { return };
        let to = (context.load.target.address, name);
        (self.phase, bench.connecting) = (Phase::Handshaking, bench.connecting + 1);
        match http.open(to, quic, context.instant(), &bench.epoll) {
            Ok(()) => self.queue(bench),
            Err(fault) => self.lose(fault, context, bench),
        }
    }

    fn lanes(&self) -> &[Lane] {
        match &self.protocol {
            Protocol::Http1(http) => std::slice::from_ref(&http.lane),
            Protocol::Http2(http) => &http.lanes,
            Protocol::Http3(http) => &http.lanes,
        }
    }

    fn lanes_mut(&mut self) -> &mut [Lane] {
        match &mut self.protocol {
            Protocol::Http1(http) => std::slice::from_mut(&mut http.lane),
            Protocol::Http2(http) => &mut http.lanes,
            Protocol::Http3(http) => &mut http.lanes,
        }
    }

    /// Whether a response is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.lanes().iter().any(|lane| lane.exchange.is_some() || lane.is_again)
    }

    /// Whether it has requests to send or to wait for.
    pub(super) fn owes(&self) -> bool {
        self.is_busy() || !self.deferred.is_empty()
    }

    /// Counts what it has not brought an answer to as never served.
    pub(super) fn leave_unserved(&mut self, context: &mut Context) {
        // The socket stays: the kernel is still to be asked about it.
        self.forget_exchanges();
        for (number, due) in std::mem::take(&mut self.deferred) {
            if let Some(lane) = self.lanes_mut().get_mut(number as usize) {
                context.leave_unserved(lane, due);
            }
        }
        for lane in self.lanes_mut() {
            if let Some(due) = lane.exchange.as_ref().map(|exchange| exchange.due) {
                context.leave_unserved(lane, due);
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Acts on what epoll says.
    pub(super) fn ready(
        &mut self,
        flags: epoll::EventFlags,
        context: &mut Context,
        bench: &mut Workbench,
    ) {
        if matches!(self.protocol, Protocol::Http3(_)) {
            return self.read_datagrams(context, bench);
        }
        if self.phase == Phase::Connecting {
            context.tick();
            let Some(socket) = &self.socket else { return };
            match net::sockopt::socket_error(socket) {
                Ok(Ok(())) if flags.contains(epoll::EventFlags::OUT) => {
                    self.connected(context, bench);
                }
                Ok(Ok(())) => return,
                Ok(Err(error)) | Err(error) => {
                    return self.lose(Fault::Connect(error), context, bench);
                }
            }
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(context, bench);
        }
        let read = epoll::EventFlags::IN
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::HUP
            | epoll::EventFlags::ERR;
        if flags.intersects(read) {
            let to_the_end = flags.intersects(read & !epoll::EventFlags::IN);
            self.read(to_the_end, context, bench);
        }
    }

    /// Takes datagrams that are there.
    fn read_datagrams(&mut self, context: &mut Context, bench: &mut Workbench) {
        let Protocol::Http3(http) = &mut self.protocol else { return };
        context.tick();
        match http.receive(context, &mut bench.received) {
            Ok(true) => bench.again.push(self.number),
            Ok(false) => {}
            Err(_) if self.phase == Phase::Open => return self.lose(Fault::Closed, context, bench),
            Err(fault) => return self.lose(fault, context, bench),
        }
        self.serve(context, bench);
    }

    /// Has what came, or the time, lead to what it leads to.
    fn serve(&mut self, context: &mut Context, bench: &mut Workbench) {
        let Protocol::Http3(http) = &mut self.protocol else { return };
        let served = match http.serve(context) {
            Ok(served) => served,
            Err(fault) => return self.lose(fault, context, bench),
        };
        self.has_answered |= served.has_answered;
        if served.is_connected {
            self.opened(context, bench);
        }
        match served.close {
            Close::No => self.queue(bench),
            close => self.close(close, context, bench),
        }
    }

    /// It is the time that an alarm was set for.
    pub(super) fn alarm(&mut self, at: u64, context: &mut Context, bench: &mut Workbench) {
        if let Protocol::Http3(http) = &mut self.protocol
            && http.alarm(at, context)
        {
            self.serve(context, bench);
        }
    }

    /// Reads until there is no more for now, or for as long as one turn lasts.
    pub(super) fn read(&mut self, to_the_end: bool, context: &mut Context, bench: &mut Workbench) {
        if matches!(self.protocol, Protocol::Http3(_)) {
            return self.read_datagrams(context, bench);
        }
        for _ in 0..TURN_READS {
            let Some(socket) = &self.socket else { return };
            let skippable = match &self.protocol {
                Protocol::Http1(http) if self.tls.is_none() => http.skippable(),
                _ => 0,
            };
            let (received, wanted, is_skip) = if skippable > 0 {
                let wanted = usize::try_from(skippable).map_or(SKIP_BYTES, |n| n.min(SKIP_BYTES));
                let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
                let received = net::recv(socket, &mut bench.skipped[..wanted], flags);
                (received.map(|(_, count)| count), wanted, true)
            } else {
                let pending = self.tls.as_ref().map_or(0, |tls| tls.pending.len());
                let room = &mut bench.received[pending..];
                let wanted = room.len();
                let received = net::recv(socket, room, RecvFlags::DONTWAIT);
                (received.map(|(_, count)| count), wanted, false)
            };
            let count = match received {
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(error) => return self.lose(of_socket(error), context, bench),
                Ok(0) => return self.end(context, bench),
                Ok(count) => count,
            };
            context.tick();
            let close = if is_skip {
                let Protocol::Http1(http) = &mut self.protocol else { return };
                let out = &mut self.out;
                Ok(http.skip(count as u64, context, out))
            } else {
                self.take(count, context, bench)
            };
            match close {
                Ok(Close::No) => self.queue(bench),
                Ok(close) => return self.close(close, context, bench),
                Err(fault) => return self.lose(fault, context, bench),
            }
            // What was asked for and no more came: with edges, news will be told.
            let is_drained = count < wanted || is_skip && skippable == count as u64;
            if is_drained && !to_the_end {
                return;
            }
        }
        bench.again.push(self.number);
    }

    /// Gives up exchanges that began before `limit`.
    pub(super) fn time_out(&mut self, limit: u64, context: &mut Context, bench: &mut Workbench) {
        match self.phase {
            Phase::Connecting | Phase::Handshaking if self.opened_at < limit => {
                self.lose(Fault::Connect(Errno::TIMEDOUT), context, bench);
            }
            Phase::Open => match &mut self.protocol {
                Protocol::Http1(http) => {
                    if http
                        .lane
                        .exchange
                        .as_ref()
                        .is_some_and(|sent| (1..limit).contains(&sent.sent))
                    {
                        http.lane.time_out(context);
                        let place = http.lane.place;
                        self.go_on(place, context);
                        self.lose(Fault::Closed, context, bench);
                    }
                }
                Protocol::Http2(http) => {
                    let out = if self.tls.is_some() { &mut self.plain } else { &mut self.out };
                    http.time_out(limit, context, out);
                    self.queue(bench);
                }
                Protocol::Http3(http) => {
                    http.time_out(limit, context);
                    self.queue(bench);
                }
            },
            _ => {}
        }
    }

    fn connect(&self, address: SocketAddr, poll: &OwnedFd) -> Result<OwnedFd, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let events = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::from(self.number));
        epoll::add(poll, &socket, data, events)?;
        Ok(socket)
    }

    fn connected(&mut self, context: &mut Context, bench: &mut Workbench) {
        self.round_trip = context.now.saturating_sub(self.opened_at);
        let (Some(config), Some(name)) = (&bench.tls, &context.load.target.tls) else {
            return self.opened(context, bench);
        };
        self.phase = Phase::Handshaking;
        let begun = Tls::new(config, name).and_then(|mut tls| {
            tls.process(&mut [], &mut self.out, |_| Ok(()))?;
            Ok(tls)
        });
        match begun {
            Ok(tls) => {
                self.tls = Some(Box::new(tls));
                self.flush(context, bench);
            }
            Err(fault) => self.lose(fault, context, bench),
        }
    }

    fn opened(&mut self, context: &mut Context, bench: &mut Workbench) {
        self.phase = Phase::Open;
        bench.connecting = bench.connecting.saturating_sub(1);
        self.failures = 0;
        context.meter.connected(context.now.saturating_sub(self.opened_at));
        let is_http2 = self.tls.as_ref().is_some_and(|tls| tls.is_http2());
        if self.tls.is_some() && is_http2 != matches!(self.protocol, Protocol::Http2(_)) {
            return self.lose(
                Fault::Protocol("another version of HTTP than asked for"),
                context,
                bench,
            );
        }
        if let Protocol::Http2(http) = &mut self.protocol {
            http.open(if self.tls.is_some() { &mut self.plain } else { &mut self.out });
        }
        let waits_count = matches!(context.load.pace, Pace::Open { .. });
        for (lane, due) in std::mem::take(&mut self.deferred) {
            // In a closed loop the clock starts with the request, as other generators have it; who
            // arrives by the clock waits for the connection as well.
            let due = if waits_count { due } else { context.now };
            self.start(lane, due, context);
        }
        self.queue(bench);
    }

    fn start(&mut self, lane: u32, due: u64, context: &mut Context) {
        let out = if self.tls.is_some() { &mut self.plain } else { &mut self.out };
        match &mut self.protocol {
            Protocol::Http1(http) => {
                http.start(due, context, out);
            }
            Protocol::Http2(http) => http.start(lane, due, context, out),
            Protocol::Http3(http) => http.start(lane, due, context),
        }
    }

    /// Takes `count` bytes that were received behind those pending.
    fn take(
        &mut self,
        count: usize,
        context: &mut Context,
        bench: &mut Workbench,
    ) -> Result<Close, Fault> {
        let Some(tls) = &mut self.tls else {
            let bytes = bench.received.get(..count).unwrap_or_default();
            self.has_answered = true;
            return match &mut self.protocol {
                Protocol::Http1(http) => http.receive(bytes, context, &mut self.out),
                Protocol::Http2(http) => http.receive(bytes, context, &mut self.out),
                Protocol::Http3(_) => Ok(Close::No),
            };
        };
        let pending = tls.pending.len();
        bench.received[..pending].copy_from_slice(&tls.pending);
        let input = &mut bench.received[..pending + count];
        let (protocol, plain) = (&mut self.protocol, &mut self.plain);
        let mut close = Close::No;
        let has_answered = &mut self.has_answered;
        let progress = tls.process(input, &mut self.out, |content| {
            *has_answered = true;
            let next = match protocol {
                Protocol::Http1(http) => http.receive(content, context, plain)?,
                Protocol::Http2(http) => http.receive(content, context, plain)?,
                Protocol::Http3(_) => Close::No,
            };
            if next != Close::No {
                close = next;
            }
            Ok(())
        })?;
        tls.pending.clear();
        tls.pending.extend_from_slice(&input[progress.used..]);
        if tls.pending.len() > READ_BYTES / 2 {
            return Err(Fault::Tls);
        }
        if self.phase == Phase::Handshaking && progress.is_open {
            self.opened(context, bench);
        }
        if progress.is_closed && close == Close::No {
            let ended = match &mut self.protocol {
                Protocol::Http1(http) => http.end(context, &mut self.plain),
                Protocol::Http2(_) | Protocol::Http3(_) => Err(Fault::Closed),
            };
            return match ended {
                Err(Fault::Closed) if self.was_read(context) => Err(Fault::Dropped),
                ended => ended,
            };
        }
        Ok(close)
    }

    /// Whether a peer that closes had read the request under way: it closed a round trip after that was sent, and
    /// did not refuse it as one does for whom it comes too late.
    fn was_read(&self, context: &Context) -> bool {
        let Protocol::Http1(http) = &self.protocol else { return false };
        let is_refused = self
            .socket
            .as_ref()
            .is_some_and(|socket| !matches!(net::sockopt::socket_error(socket), Ok(Ok(()))));
        let sent = http.lane.exchange.as_ref().map_or(0, |exchange| exchange.sent);
        sent > 0 && context.now.saturating_sub(sent) > self.round_trip && !is_refused
    }

    /// The peer has closed.
    fn end(&mut self, context: &mut Context, bench: &mut Workbench) {
        context.tick();
        let ended = match &mut self.protocol {
            Protocol::Http1(http) => http.end(context, &mut self.out),
            Protocol::Http2(_) | Protocol::Http3(_) => Err(Fault::Closed),
        };
        match ended {
            Ok(close) => self.close(close, context, bench),
            Err(Fault::Closed) if self.was_read(context) => {
                self.lose(Fault::Dropped, context, bench);
            }
            Err(fault) => self.lose(fault, context, bench),
        }
    }

    /// Closes in good order, to be made again when needed.
    fn close(&mut self, close: Close, context: &mut Context, bench: &mut Workbench) {
        self.drop_socket();
        if let Close::ThenRequest(due) = close {
            self.deferred.push((0, due));
        }
        self.wants_open = !self.deferred.is_empty();
        self.open(context, bench);
    }

    /// The connection is lost: counts what was under way, and has its lanes go on.
    fn lose(&mut self, fault: Fault, context: &mut Context, bench: &mut Workbench) {
        let has_answered = std::mem::take(&mut self.has_answered);
        let was_open = self.phase == Phase::Open;
        if matches!(self.phase, Phase::Connecting | Phase::Handshaking) {
            bench.connecting = bench.connecting.saturating_sub(1);
        }
        let fault = match fault {
            // The peer hung up, or sent nonsense, before TLS was there.
            Fault::Closed | Fault::Dropped if self.phase == Phase::Handshaking => Fault::Tls,
            fault => fault,
        };
        self.drop_socket();
        let mut failed = 0;
        let (mut free, mut again, mut asked_again) = (Vec::new(), Vec::new(), 0);
        for lane in self.lanes_mut() {
            let Some(exchange) = &lane.exchange else { continue };
            // A server may close a connection while a request is on its way: it is sent once more. One that
            // had it has thrown it away.
            if has_answered && !exchange.has_begun() && fault == Fault::Closed {
                asked_again += u64::from(exchange.sent > 0);
                again.extend(lane.rewind().map(|due| (lane.place.lane, due)));
                continue;
            }
            lane.abandon();
            failed += 1;
            free.push(lane.place);
        }
        let is_again = !again.is_empty();
        context.meter.asked_again += asked_again;
        self.deferred.append(&mut again);
        count(fault, failed, context);
        if was_open {
            self.retry_at = context.now;
        } else {
            let pause = RETRY_NS_MIN << self.failures.min(7);
            self.failures = self.failures.saturating_add(1);
            self.retry_at = context.now + pause.min(RETRY_NS_MAX);
        }
        for place in free {
            self.go_on(place, context);
        }
        self.wants_open = !self.deferred.is_empty() && (context.issuing || is_again);
        self.open(context, bench);
    }

    /// Has a lane whose exchange was given up begin its next, once the connection is there again.
    fn go_on(&mut self, place: Place, context: &mut Context) {
        if let Some(lane) = self.lanes().get(place.lane as usize)
            && let Next::Request(due) = context.next(lane)
        {
            self.deferred.push((place.lane, due));
        }
    }

    fn drop_socket(&mut self) {
        // Closing the descriptor takes it out of epoll.
        self.socket = None;
        self.tls = None;
        self.plain.clear();
        self.out.clear();
        self.sent = 0;
        self.has_answered = false;
        self.phase = Phase::Closed;
        self.forget_exchanges();
    }

    /// Forgets what the protocol was in the midst of; what waited for a stream waits for a connection.
    fn forget_exchanges(&mut self) {
        match &mut self.protocol {
            Protocol::Http1(http) => http.reset(),
            Protocol::Http2(http) => http.reset(&mut self.deferred),
            Protocol::Http3(http) => http.reset(&mut self.deferred),
        }
    }

    /// Has it send what there is when its turn comes.
    fn queue(&mut self, bench: &mut Workbench) {
        let is_quic = matches!(self.protocol, Protocol::Http3(_));
        if !self.is_queued && (is_quic || !self.plain.is_empty() || !self.out.is_empty()) {
            self.is_queued = true;
            bench.to_send.push(self.number);
        }
    }

    /// Sends what there is to send, as far as the socket takes it.
    pub(super) fn flush(&mut self, context: &mut Context, bench: &mut Workbench) {
        self.is_queued = false;
        if let Protocol::Http3(http) = &mut self.protocol {
            http.lanes.iter_mut().for_each(|lane| lane.leave(context));
            return http.transmit(context, bench);
        }
        if let Some(tls) = &mut self.tls
            && !self.plain.is_empty()
        {
            let sealed = tls.seal(&self.plain, &mut self.out);
            self.plain.clear();
            if let Err(fault) = sealed {
                return self.lose(fault, context, bench);
            }
        }
        if !self.out.is_empty() && self.socket.is_some() {
            self.lanes_mut().iter_mut().for_each(|lane| lane.leave(context));
        }
        let Some(socket) = &self.socket else { return };
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match net::send(socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => return self.lose(of_socket(error), context, bench),
            }
        }
        self.out.clear();
        self.sent = 0;
    }
}

/// What an error of a socket says of its peer.
fn of_socket(error: Errno) -> Fault {
    if error == Errno::CONNRESET { Fault::Dropped } else { Fault::Closed }
}

fn count(fault: Fault, failed: u64, context: &mut Context) {
    match fault {
        Fault::Connect(_) => context.meter.fault(|errors| &mut errors.connect),
        Fault::Tls if failed == 0 => context.meter.fault(|errors| &mut errors.tls),
        Fault::Protocol(why) => {
            context.shared.note_violation(why);
            (0..failed.max(1)).for_each(|_| context.meter.fault(|errors| &mut errors.protocol));
        }
        Fault::Tls | Fault::Closed | Fault::Dropped => {
            (0..failed).for_each(|_| context.meter.fault(|errors| &mut errors.closed));
        }
    }
}
