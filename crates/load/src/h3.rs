//! HTTP/3 on one connection (RFC 9114): as many requests at a time as there are lanes, over QUIC of quinn-proto
//! and a UDP socket of its own, as each client has one.
//!
//! What arrives together is acknowledged together. The timers of QUIC are alarms of the thread.

use super::Fault;
use super::connection::Workbench;
use super::h1::Close;
use super::http3::{Client, Failure, News, Part};
use super::lane::{Context, Lane, Next, Place};
use bytes::BytesMut;
use freshet_net::quic::port::UdpPort;
use freshet_quic::{Ecn, Route};
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint,
    EndpointConfig, Transmit,
};
use rustix::event::epoll;
use rustix::io::Errno;
use rustls_pki_types::ServerName;
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// Reads of one connection before others have their turn, each of up to 64 KB.
const TURN_READS: u32 = 16;

/// Codes of QUIC that are alerts of TLS (RFC 9001 §4.8).
const ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// How connections of a thread are made.
#[derive(Clone, Debug)]
pub(super) struct Quic {
    client: ClientConfig,
    endpoint: Arc<EndpointConfig>,
}

impl Quic {
    pub(super) fn new(client: ClientConfig) -> Self {
        Self { client, endpoint: Arc::default() }
    }
}

/// The client's end of a connection.
pub(super) struct Http3 {
    pub(super) lanes: Vec<Lane>,
    number: u32,
    carrier: Option<Carrier>,
    /// Lanes that want to begin when the peer allows it.
    waiting: Vec<(u32, u64)>,
    /// No more requests on this one.
    closing: bool,
    /// The alarm of the thread that is this connection's; the others are of earlier times.
    alarm_ns: u64,
}

/// What carries requests.
struct Carrier {
    port: UdpPort,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    client: Client,
    /// Where datagrams are written.
    out: Vec<u8>,
}

/// What has come of what arrived.
pub(super) struct Served {
    /// The handshake is over.
    pub(super) is_connected: bool,
    /// A part of a response came.
    pub(super) has_answered: bool,
    /// Whether it is to be closed.
    pub(super) close: Close,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http3").field("lanes", &self.lanes).finish_non_exhaustive()
    }
}

impl Http3 {
    pub(super) fn new(connection: u32, lanes: usize) -> Self {
        let lane = |lane| Lane::new(Place { connection, lane });
        Self {
            lanes: (0..lanes as u32).map(lane).collect(),
            number: connection,
            carrier: None,
            waiting: Vec::new(),
            closing: false,
            alarm_ns: u64::MAX,
        }
    }

    /// Begins the handshake; its first datagrams leave with the next [`transmit`](Self::transmit).
    pub(super) fn open(
        &mut self,
        (address, name): (SocketAddr, &ServerName<'static>),
        quic: &Quic,
        now: Instant,
        poll: &OwnedFd,
    ) -> Result<(), Fault> {
        let refused = |error: std::io::Error| {
            Fault::Connect(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let port = UdpPort::connect(None, address).map_err(refused)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(u64::from(self.number));
        epoll::add(poll, &port, data, events).map_err(Fault::Connect)?;
        let mut endpoint = Endpoint::new(Arc::clone(&quic.endpoint), None, true, None);
        let (handle, connection) = endpoint
            .connect(now, quic.client.clone(), address, &name.to_str())
            .map_err(|_| Fault::Connect(Errno::INVAL))?;
        let client = Client::new(connection);
        self.carrier = Some(Carrier { port, endpoint, handle, client, out: Vec::new() });
        Ok(())
    }

    /// Forgets the connection, once the peer is told; what waits for a stream goes into `waiting`.
    pub(super) fn reset(&mut self, waiting: &mut Vec<(u32, u64)>) {
        waiting.append(&mut self.waiting);
        (self.carrier, self.closing, self.alarm_ns) = (None, false, u64::MAX);
    }

    /// Sends the next request of `lane`, or remembers it for when the peer allows it.
    pub(super) fn start(&mut self, lane: u32, due: u64, context: &mut Context) {
        let (Some(carrier), Some(place)) = (&mut self.carrier, self.lanes.get_mut(lane as usize))
        else {
            return;
        };
        let may_ask = !self.closing && carrier.client.may_ask();
        let Some(stream) = may_ask.then(|| carrier.client.open()).flatten() else {
            return self.waiting.push((lane, due));
        };
        if !context.begin(place, due) {
            return;
        }
        // Templates are of visible ASCII.
        let path = std::str::from_utf8(&context.path).unwrap_or("/");
        let authority = &context.load.target.authority;
        carrier.client.ask_on(stream, u64::from(lane), authority, path, context.instant());
    }

    /// Takes datagrams that are there; true when there may be more.
    pub(super) fn receive(
        &mut self,
        context: &mut Context,
        buffer: &mut [u8],
    ) -> Result<bool, Fault> {
        let now = context.instant();
        let Some(carrier) = &mut self.carrier else { return Ok(false) };
        for _ in 0..TURN_READS {
            let received = match carrier.port.try_receive(buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    return Err(Fault::Connect(error));
                }
            };
            let bytes = buffer.get(..received.bytes).unwrap_or_default();
            for datagram in bytes.chunks(received.segment_bytes) {
                context.meter.datagrams += 1;
                context.meter.datagram_bytes += datagram.len() as u64;
                carrier.take(now, received.route.remote, received.ecn, datagram);
            }
        }
        Ok(true)
    }

    /// Does what follows from what arrived, or from the time.
    pub(super) fn serve(&mut self, context: &mut Context) -> Result<Served, Fault> {
        let Self { lanes, carrier, waiting, closing, .. } = self;
        let mut served = Served { is_connected: false, has_answered: false, close: Close::No };
        let Some(carrier) = carrier else { return Ok(served) };
        carrier.client.exchange_events(&mut carrier.endpoint, carrier.handle);
        let mut fault = None;
        let mut free = Vec::new();
        carrier.client.poll(|news| match news {
            News::Connected => served.is_connected = true,
            News::Part(number, part) => {
                served.has_answered = true;
                let exchange = lanes.get_mut(number as usize).and_then(|l| l.exchange.as_mut());
                let Some(exchange) = exchange else { return };
                match part {
                    Part::Head { status, signs, bytes } => {
                        context.meter.head_bytes += bytes as u64;
                        exchange.begin(context.now);
                        exchange.head(status, signs);
                    }
                    Part::Body(bytes) => exchange.body(bytes, &mut context.meter),
                }
            }
            News::Answered { number, .. } => {
                let Some(lane) = lanes.get_mut(number as usize) else { return };
                context.complete(lane);
                *closing |= context.wants_close(lane);
                free.push(number);
            }
            News::Again(number) => {
                let due = lanes.get_mut(number as usize).and_then(Lane::rewind);
                waiting.extend(due.map(|due| (number as u32, due)));
                context.meter.asked_again += 1;
            }
            News::Failed(Failure::Reset { number, .. }) => {
                lanes.get_mut(number as usize).map(Lane::abandon);
                context.meter.fault(|errors| &mut errors.closed);
                free.push(number);
            }
            // Those who lost their connection are told apart by whoever makes it again.
            News::Failed(Failure::Request(_)) => {}
            News::Failed(Failure::Rule(why)) => fault = Some(Fault::Protocol(why)),
            News::Failed(Failure::Handshake(why)) => fault = Some(of_handshake(&why)),
            News::Failed(Failure::Connection(why)) => {
                fault.get_or_insert(match why {
                    ConnectionError::TransportError(_) => {
                        Fault::Protocol("a rule of QUIC was broken")
                    }
                    _ => Fault::Closed,
                });
            }
        });
        *closing |= carrier.client.is_told_to_go();
        if let Some(fault) = fault {
            return Err(fault);
        }
        for number in free {
            self.go_on(number as usize, context);
        }
        if !served.is_connected {
            self.start_waiting(context);
        }
        let is_over = self.closing && self.lanes.iter().all(|lane| lane.exchange.is_none());
        served.close = if is_over { Close::ThenWait } else { Close::No };
        Ok(served)
    }

    fn go_on(&mut self, index: usize, context: &mut Context) {
        let Some(lane) = self.lanes.get(index) else { return };
        if let Next::Request(due) = context.next(lane) {
            self.start(index as u32, due, context);
        }
    }

    fn start_waiting(&mut self, context: &mut Context) {
        if context.issuing && !self.closing {
            for (lane, due) in std::mem::take(&mut self.waiting) {
                self.start(lane, due, context);
            }
        }
    }

    /// Gives up what has been under way since before `limit`.
    pub(super) fn time_out(&mut self, limit: u64, context: &mut Context) {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if lane.exchange.as_ref().is_some_and(|exchange| (1..limit).contains(&exchange.sent)) {
                lane.time_out(context);
                if let Some(carrier) = &mut self.carrier {
                    carrier.client.cancel(index as u64);
                }
                self.go_on(index, context);
            }
        }
    }

    /// Whether an alarm that was set for `at` means anything still; if so, time has passed for the connection.
    pub(super) fn alarm(&mut self, at: u64, context: &Context) -> bool {
        let is_due = self.alarm_ns == at;
        if is_due {
            self.alarm_ns = u64::MAX;
            if let Some(carrier) = &mut self.carrier {
                carrier.client.quic.handle_timeout(context.instant());
            }
        }
        is_due
    }

    /// Sends what there is to send, and sets the alarm for what comes next.
    pub(super) fn transmit(&mut self, context: &mut Context, bench: &mut Workbench) {
        let Some(carrier) = &mut self.carrier else { return };
        context.meter.datagrams_sent += carrier.transmit(context.instant());
        let due = carrier.client.quic.poll_timeout().map(|due| {
            let since = due.saturating_duration_since(context.shared.begun);
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1)
        });
        // One that is set too early finds nothing to do; setting each anew would cost more.
        if let Some(due) = due.filter(|due| *due < self.alarm_ns) {
            self.alarm_ns = due;
            bench.alarms.push(Reverse((due, self.number)));
        }
    }
}

impl Carrier {
    fn take(&mut self, now: Instant, from: SocketAddr, ecn: Ecn, datagram: &[u8]) {
        self.out.clear();
        let (ecn, bytes) = (EcnCodepoint::from_bits(ecn as u8), BytesMut::from(datagram));
        match self.endpoint.handle(now, from, None, ecn, bytes, &mut self.out) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.client.quic.handle_event(event),
            Some(DatagramEvent::Response(Transmit { destination, size, .. })) => {
                let bytes = self.out.get(..size).unwrap_or_default();
                self.port.try_send(Route::from(destination), Ecn::NotEct, bytes, size);
            }
            _ => {}
        }
    }

    /// Sends what there is; how many datagrams that were.
    fn transmit(&mut self, now: Instant) -> u64 {
        let port = &self.port;
        let send = |to, ecn, bytes: &[u8], size| port.try_send(to, ecn, bytes, size);
        self.client.transmit(now, &mut self.out, send)
    }
}

impl Drop for Carrier {
    /// A server is not left with connections that nobody has any more.
    fn drop(&mut self) {
        if !self.client.is_over {
            let now = Instant::now();
            self.client.close(now);
            self.transmit(now);
        }
    }
}

/// Why there is no connection.
fn of_handshake(why: &ConnectionError) -> Fault {
    let code = match why {
        ConnectionError::TransportError(error) => u64::from(error.code),
        ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
        ConnectionError::TimedOut => return Fault::Connect(Errno::TIMEDOUT),
        _ => 0,
    };
    if ALERTS.contains(&code) { Fault::Tls } else { Fault::Connect(Errno::CONNREFUSED) }
}
