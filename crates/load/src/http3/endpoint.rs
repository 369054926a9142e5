//! All connections of a load, on one socket.

use super::connection::{Client, Failure, News};
use super::{Figures, Load};
use super::{SPEAKS_EVERY, quic_config};
use crate::error::LabError;
use bytes::BytesMut;
use freshet_net::limits::UDP_READ_BYTES_MAX;
use freshet_net::quic::port::UdpPort;
use freshet_quic::{Ecn, Route};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, Transmit,
};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Reads of the socket before connections have their turn.
const READS_PER_TURN: usize = 16;
/// How often it is looked whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long requests under way are waited for.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Runs a load until its time is over or `stop` is set; `answered` counts as it goes on.
///
/// # Errors
/// [`LabError`]: what is wrong with the authority's file or with this machine. What a server does
/// wrong is counted.
pub fn run(load: &Load, stop: &AtomicBool, answered: &AtomicU64) -> Result<Figures, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| LabError::LocalTls(error.to_string()))?;
    runtime.block_on(async { World::new(load, answered)?.run(stop).await })
}

struct World<'a> {
    load: &'a Load,
    answered: &'a AtomicU64,
    socket: UdpPort,
    endpoint: Endpoint,
    config: ClientConfig,
    name: String,
    clients: HashMap<ConnectionHandle, Client>,
    timers: BTreeSet<(Instant, ConnectionHandle)>,
    due: HashMap<ConnectionHandle, Instant>,
    touched: BTreeSet<ConnectionHandle>,
    /// Numbers of requests to be asked again.
    again: VecDeque<u64>,
    next: u64,
    figures: Figures,
    out: Vec<u8>,
    /// Whether no new requests begin.
    is_ending: bool,
    /// When clients go elsewhere next.
    moves_at: Option<Instant>,
}

impl<'a> World<'a> {
    fn new(load: &'a Load, answered: &'a AtomicU64) -> Result<Self, LabError> {
        let local = |error: &dyn std::fmt::Display| LabError::LocalTls(error.to_string());
        let moves = load.moves.as_ref();
        let speaks_every = moves.filter(|moves| moves.is_unnoticed).map(|_| SPEAKS_EVERY);
        let config = quic_config(&load.tls, speaks_every)?;
        let from = moves.and_then(|moves| moves.from.first()).copied();
        let socket = UdpPort::connect(from, load.target.address).map_err(|error| local(&error))?;
        let name = match &load.target.tls {
            Some(name) => name.to_str().into_owned(),
            None => return Err(local(&"HTTP/3 is over TLS: the URL begins with https://")),
        };
        Ok(Self {
            load,
            answered,
            socket,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            config,
            name,
            clients: HashMap::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            touched: BTreeSet::new(),
            again: VecDeque::new(),
            next: 0,
            figures: Figures::new(),
            out: Vec::new(),
            is_ending: false,
            moves_at: moves.and_then(|moves| Some(Instant::now() + *moves.stays.first()?)),
        })
    }

    async fn run(mut self, stop: &AtomicBool) -> Result<Figures, LabError> {
        let began = Instant::now();
        let mut buffer = vec![0; UDP_READ_BYTES_MAX];
        let mut opened = 0;
        loop {
            let now = Instant::now();
            while opened < self.load.connections
                && !self.is_ending
                && now >= self.opens_at(began, opened)
            {
                self.connect(now);
                opened += 1;
            }
            self.serve();
            let now = Instant::now();
            if self.moves_at.is_some_and(|at| now >= at) {
                self.go_elsewhere(now);
            }
            let is_over = now >= began + self.load.duration || stop.load(Relaxed);
            if is_over && !self.is_ending {
                self.is_ending = true;
                self.moves_at = None;
                self.figures.elapsed = now - began;
            }
            let is_quiet = self.clients.values().all(|client| client.asking() == 0);
            let late = began + self.figures.elapsed + END_WITHIN;
            if self.is_ending && (is_quiet || now >= late) {
                break;
            }
            let next = self.timers.first().map_or(now + LOOK_EVERY, |(at, _)| *at);
            let next = next.min(now + LOOK_EVERY).min(self.moves_at.unwrap_or(now + LOOK_EVERY));
            let next = match opened < self.load.connections {
                true => next.min(self.opens_at(began, opened)),
                false => next,
            };
            let sleep = tokio::time::sleep_until(next.into());
            tokio::select! {
                biased;
                () = self.receive(&mut buffer) => {}
                () = sleep => self.look_at_time(),
            }
        }
        let now = Instant::now();
        let open: usize = self.clients.values().map(Client::asking).sum();
        (0..open).for_each(|_| self.figures.fail("no answer came".to_owned()));
        // A port that nobody is at says nothing, and handshakes with it do not end before the load does.
        if opened > 0 && self.figures.handshakes == 0 && self.figures.failed == 0 {
            let address = self.load.target.address;
            let why = format!(
                "no connection was made: does the server speak HTTP/3 at {address}, over UDP?"
            );
            self.figures.fail(why);
        }
        for client in self.clients.values_mut() {
            client.close(now);
        }
        self.touched = self.clients.keys().copied().collect();
        self.transmit_touched();
        Ok(self.figures)
    }

    /// When the connection is opened that comes after so many others.
    fn opens_at(&self, began: Instant, others: usize) -> Instant {
        let interval = self.load.opened_per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
        began + interval.unwrap_or_default() * u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// All clients are at another port from now on, and perhaps at another address.
    fn go_elsewhere(&mut self, now: Instant) {
        let Some(moves) = &self.load.moves else { return };
        self.figures.moves += 1;
        let stays = self.figures.moves as usize % moves.stays.len().max(1);
        self.moves_at = moves.stays.get(stays).map(|stay| now + *stay);
        let turn = self.figures.moves as usize % moves.from.len().max(1);
        match UdpPort::connect(moves.from.get(turn).copied(), self.load.target.address) {
            Ok(socket) => self.socket = socket,
            Err(error) => return self.figures.fail(format!("no other port: {error}")),
        }
        if moves.is_unnoticed {
            return;
        }
        for (handle, client) in &mut self.clients {
            // Before the handshake is over a client stays with its id (RFC 9000 §9).
            if client.is_connected {
                client.quic.local_address_changed();
                self.touched.insert(*handle);
            }
        }
    }

    fn connect(&mut self, now: Instant) {
        let to = self.load.target.address;
        match self.endpoint.connect(now, self.config.clone(), to, &self.name) {
            Ok((handle, quic)) => {
                self.clients.insert(handle, Client::new(quic));
                self.touched.insert(handle);
            }
            Err(error) => self.figures.fail(error.to_string()),
        }
    }

    /// Waits for datagrams, and takes those that are there.
    async fn receive(&mut self, buffer: &mut [u8]) {
        let mut reads = 0;
        poll_fn(|cx| {
            while reads < READS_PER_TURN {
                let Poll::Ready(Ok(received)) = self.socket.poll_receive(cx, buffer) else {
                    return if reads > 0 { Poll::Ready(()) } else { Poll::Pending };
                };
                reads += 1;
                let bytes = buffer.get(..received.bytes).unwrap_or(&[]);
                for datagram in bytes.chunks(received.segment_bytes) {
                    self.take(received.route.remote, received.ecn, datagram);
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn take(&mut self, from: SocketAddr, ecn: Ecn, datagram: &[u8]) {
        self.figures.datagrams.0 += 1;
        let now = Instant::now();
        let bytes = BytesMut::from(datagram);
        self.out.clear();
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        match self.endpoint.handle(now, from, None, ecn, bytes, &mut self.out) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(client) = self.clients.get_mut(&handle) else { return };
                client.quic.handle_event(event);
                client.unanswered += 1;
                self.touched.insert(handle);
                if self.load.ack_every.is_some_and(|every| client.unanswered >= every) {
                    self.transmit(handle, now);
                }
            }
            Some(DatagramEvent::Response(Transmit { destination, size, .. })) => {
                self.socket.send(
                    Route::from(destination),
                    Ecn::NotEct,
                    self.out.get(..size).unwrap_or(&[]),
                    size,
                );
            }
            _ => {}
        }
    }

    fn look_at_time(&mut self) {
        let now = Instant::now();
        while let Some((at, handle)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            self.due.remove(&handle);
            if let Some(client) = self.clients.get_mut(&handle) {
                client.quic.handle_timeout(now);
                self.touched.insert(handle);
            }
        }
    }

    /// Everybody to whom something happened does what can be done.
    fn serve(&mut self) {
        self.look_at_time();
        while let Some(handle) = self.touched.pop_first() {
            let now = Instant::now();
            self.poll(handle, now);
            self.ask(handle, now);
            self.transmit(handle, now);
        }
    }

    fn poll(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        client.exchange_events(&mut self.endpoint, handle);
        let (figures, again) = (&mut self.figures, &mut self.again);
        client.poll(|news| match news {
            News::Connected => figures.handshakes += 1,
            News::Part(..) => {}
            News::Answered { status, .. } if status != 200 => {
                figures.fail(format!("status {status}"));
            }
            News::Answered { began, body_bytes, .. } => {
                figures.requests += 1;
                figures.body_bytes += body_bytes;
                let micros = now.saturating_duration_since(began).as_micros() as u64;
                figures.latency.saturating_record(micros);
                self.answered.fetch_add(1, Relaxed);
            }
            News::Again(number) => {
                figures.again += 1;
                again.push_back(number);
            }
            // What was under way on it has failed already.
            News::Failed(Failure::Connection(_)) => {}
            News::Failed(why) => figures.fail(why.to_string()),
        });
    }

    /// Begins requests, and another connection where this one is used up.
    fn ask(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let most = match self.load.is_idle {
            true => 1,
            false => self.load.requests_per_connection.unwrap_or(u64::MAX),
        };
        while !self.is_ending
            && client.may_ask()
            && client.asked() < most
            && client.asking() < self.load.streams
        {
            let number = self.again.front().copied().unwrap_or(self.next);
            let path = self.load.path.replace("{n}", &(number % self.load.objects).to_string());
            if !client.ask(number, &self.load.target.authority, &path, now) {
                break;
            }
            match self.again.pop_front() {
                Some(_) => {}
                None => self.next += 1,
            }
        }
        let is_used_up = client.asked() >= most && !self.load.is_idle;
        let is_done = client.asking() == 0 && (is_used_up || client.is_told_to_go());
        if is_done && !client.is_over {
            client.close(now);
        }
        if client.is_over {
            // What is left to be said is said first.
            self.transmit(handle, now);
            self.forget(handle);
            if !self.is_ending {
                self.connect(now);
            }
        }
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        self.clients.remove(&handle);
        if let Some(at) = self.due.remove(&handle) {
            self.timers.remove(&(at, handle));
        }
        self.endpoint.handle_event(handle, quinn_proto::EndpointEvent::drained());
    }

    fn transmit_touched(&mut self) {
        while let Some(handle) = self.touched.pop_first() {
            self.transmit(handle, Instant::now());
        }
    }

    fn transmit(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        client.unanswered = 0;
        let socket = &self.socket;
        let send = |to, ecn, bytes: &[u8], size| socket.send(to, ecn, bytes, size);
        self.figures.datagrams.1 += client.transmit(now, &mut self.out, send);
        let due = client.quic.poll_timeout();
        if due != self.due.get(&handle).copied() {
            if let Some(at) = self.due.remove(&handle) {
                self.timers.remove(&(at, handle));
            }
            if let Some(at) = due {
                self.due.insert(handle, at);
                self.timers.insert((at, handle));
            }
        }
    }
}
