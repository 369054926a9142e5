//! Servers that send without end to clients, through one bottleneck: what arrives in how much time.
//!
//! The client is always quinn-proto's; the server is ours or quinn-proto's too. Every byte is checked.

use crate::world::{Dice, client_tls, tls};
use bytes::BytesMut;
use freshet_quic::packet::{Kind, Protected};
use freshet_quic::parameters::{Local, Names};
use freshet_quic::{
    Accept, Algorithm, Batch, Config, Connection, Ecn, Id, Statistics, StreamEvent, Version,
};
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, ReadError,
    ServerConfig, StreamId, TransportConfig, VarInt,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What is between servers and clients. Requests and acknowledgements do not wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    /// Bytes a second to the clients.
    pub(crate) rate: u64,
    /// The round trip while nothing waits.
    pub(crate) trip: Duration,
    /// Bytes that may wait.
    pub(crate) queue_bytes: u64,
    /// Of a thousand datagrams each way.
    pub(crate) lost: u64,
    /// Of a thousand datagrams to the clients those that come later, by anything up to so much, while others
    /// overtake them.
    pub(crate) late: u64,
    pub(crate) late_by: Duration,
}

/// Who sends.
#[derive(Clone)]
pub(crate) enum Sender {
    Ours(Algorithm),
    Theirs(Arc<dyn ControllerFactory + Send + Sync>),
}

/// Timers of programs are as fine as this.
const TICK: Duration = Duration::from_millis(1);
/// What our server has written ahead.
const AHEAD_BYTES: u64 = 128 << 10;
const PIECE_BYTES: usize = 16 << 10;
/// What is sent repeats after so many bytes: a prime, so that no other length hides a mistake.
const PERIOD: usize = 65_521;

/// A datagram on its way: when it arrives, its number, whose flow it is of, whether it goes to the server, its bytes.
type Flying = (Duration, u64, usize, bool, Vec<u8>);

pub(crate) struct Race {
    pub(crate) now: Duration,
    epoch: Instant,
    pub(crate) way: Bottleneck,
    dice: Dice,
    /// When all that waits is through.
    free: Duration,
    flying: BinaryHeap<Reverse<Flying>>,
    count: u64,
    pub(crate) flows: Vec<Flow>,
}

/// A client and its server.
pub(crate) struct Flow {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    client: quinn_proto::Connection,
    asked: Option<StreamId>,
    address: SocketAddr,
    server: Server,
    /// Bytes that the server has written, and may write in all.
    written: u64,
    pub(crate) supply: u64,
    /// Bytes that arrived.
    pub(crate) received: u64,
}

enum Server {
    Ours {
        config: Config,
        connection: Option<Box<Connection<Vec<u8>>>>,
        stream: Option<u64>,
    },
    Theirs {
        endpoint: Box<Endpoint>,
        connection: Option<(ConnectionHandle, Box<quinn_proto::Connection>)>,
        stream: Option<StreamId>,
    },
}

/// The bytes of a stream from an offset on, at most a piece.
fn piece(offset: u64, len: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut dice = Dice::new(5);
        let period: Vec<u8> = (0..PERIOD).map(|_| dice.below(256) as u8).collect();
        [&period[..], &period[..PIECE_BYTES]].concat()
    });
    let at = (offset % PERIOD as u64) as usize;
    &bytes[at..at + len.min(PIECE_BYTES)]
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(16 << 20));
    transport.receive_window(VarInt::from_u32(32 << 20));
    transport.max_idle_timeout(Some(VarInt::from_u32(60_000).into()));
    transport
}

impl Race {
    pub(crate) fn new(seed: u64, way: Bottleneck) -> Self {
        Self {
            now: Duration::ZERO,
            epoch: Instant::now(),
            way,
            dice: Dice::new(seed + 1),
            free: Duration::ZERO,
            flying: BinaryHeap::new(),
            count: 0,
            flows: Vec::new(),
        }
    }

    /// Another client asks for a body without end.
    pub(crate) fn enter(&mut self, sender: &Sender) -> usize {
        let client_tls = Arc::new(QuicClientConfig::try_from(client_tls()).unwrap());
        let mut config = ClientConfig::new(client_tls);
        config.transport_config(Arc::new(transport()));
        let seed = self.dice.below(256) as u8;
        let endpoint = |server| {
            Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([seed; 32]))
        };
        let mut client = endpoint(None);
        let server = "192.0.2.1:443".parse().unwrap();
        let (handle, connection) =
            client.connect(self.instant(), config, server, "localhost").unwrap();
        let server = match sender {
            Sender::Ours(algorithm) => {
                let local = Local { streams_max: 10, ..Local::default() };
                let config = Config { tls: Arc::clone(&tls().0), local, congestion: *algorithm };
                Server::Ours { config, connection: None, stream: None }
            }
            Sender::Theirs(controller) => {
                let tls = QuicServerConfig::try_from(Arc::clone(&tls().0)).unwrap();
                let mut config = ServerConfig::with_crypto(Arc::new(tls));
                let mut transport = transport();
                transport.congestion_controller_factory(controller.clone());
                config.transport_config(Arc::new(transport));
                let endpoint = Box::new(endpoint(Some(Arc::new(config))));
                Server::Theirs { endpoint, connection: None, stream: None }
            }
        };
        let index = self.flows.len();
        self.flows.push(Flow {
            endpoint: client,
            handle,
            client: connection,
            asked: None,
            address: SocketAddr::from(([198, 51, 100, 7], 4000 + index as u16)),
            server,
            written: 0,
            supply: u64::MAX,
            received: 0,
        });
        self.settle(index);
        index
    }

    /// Lets time pass, and says how many bytes a second arrived at each.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<f64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.received).collect();
        let end = self.now + time;
        (0..self.flows.len()).for_each(|flow| self.settle(flow));
        while self.step(end) {}
        self.now = end;
        let received = self.flows.iter().zip(before).map(|(flow, before)| flow.received - before);
        received.map(|bytes| bytes as f64 / time.as_secs_f64()).collect()
    }

    /// Does what is next; false when nothing is before `end`.
    fn step(&mut self, end: Duration) -> bool {
        let mut next = self.flying.peek().map(|Reverse(flying)| (flying.0, usize::MAX));
        for (index, flow) in self.flows.iter_mut().enumerate() {
            if let Some(at) = flow.wakes(self.epoch)
                && next.is_none_or(|(other, _)| at < other)
            {
                next = Some((at, index));
            }
        }
        let Some((at, index)) = next.filter(|(at, _)| *at <= end) else { return false };
        self.now = self.now.max(at);
        if index == usize::MAX {
            let Some(Reverse((_, _, flow, to_server, bytes))) = self.flying.pop() else {
                return false;
            };
            let (now, instant) = (self.now, self.instant());
            let seed = self.dice.below(u64::MAX);
            if to_server {
                self.flows[flow].reach_server(bytes, now, instant, seed);
            } else {
                self.flows[flow].reach_client(bytes, instant);
            }
            self.settle(flow);
        } else {
            let (now, instant) = (self.now, self.instant());
            self.flows[index].time_out(now, instant);
            self.settle(index);
        }
        true
    }

    fn instant(&self) -> Instant {
        self.epoch + self.now
    }

    /// Both sides of a flow do all they can do now.
    fn settle(&mut self, index: usize) {
        let (now, instant) = (self.now, self.instant());
        self.flows[index].drive_client();
        self.flows[index].serve();
        let (to_server, to_client) = self.flows[index].transmit(now, instant);
        to_server.into_iter().for_each(|datagram| self.send(index, true, datagram));
        to_client.into_iter().for_each(|datagram| self.send(index, false, datagram));
    }

    fn send(&mut self, index: usize, to_server: bool, datagram: Vec<u8>) {
        let way = self.way;
        let mut at = self.now + way.trip / 2;
        if !to_server {
            let waits = self.free.saturating_sub(self.now);
            if waits.as_secs_f64() * way.rate as f64 > way.queue_bytes as f64 {
                return;
            }
            let takes = Duration::from_secs_f64(datagram.len() as f64 / way.rate as f64);
            self.free = self.now + waits + takes;
            at += waits + takes;
        }
        if self.dice.below(1000) < way.lost {
            return;
        }
        if !to_server && way.late > 0 && self.dice.below(1000) < way.late {
            at += Duration::from_micros(self.dice.below(way.late_by.as_micros() as u64 + 1));
        }
        self.count += 1;
        self.flying.push(Reverse((at, self.count, index, to_server, datagram)));
    }
}

impl Flow {
    /// What our server has counted; nothing where it is another's.
    pub(crate) fn counted(&self) -> Statistics {
        match &self.server {
            Server::Ours { connection: Some(connection), .. } => connection.statistics(),
            _ => Statistics::default(),
        }
    }

    /// When something is to be done without anything arriving.
    fn wakes(&mut self, epoch: Instant) -> Option<Duration> {
        let client = self.client.poll_timeout().map(|at| at.saturating_duration_since(epoch));
        let server = match &mut self.server {
            Server::Ours { connection, .. } => connection.as_ref().and_then(|it| it.timeout()),
            Server::Theirs { connection, .. } => connection
                .as_mut()
                .and_then(|(_, it)| it.poll_timeout())
                .map(|at| at.saturating_duration_since(epoch)),
        };
        let ticks = |at: Duration| TICK * at.as_nanos().div_ceil(TICK.as_nanos()) as u32;
        [client, server.map(ticks)].into_iter().flatten().min()
    }

    fn time_out(&mut self, now: Duration, instant: Instant) {
        if self.client.poll_timeout().is_some_and(|at| at <= instant) {
            self.client.handle_timeout(instant);
        }
        match &mut self.server {
            Server::Ours { connection: Some(connection), .. }
                if connection.timeout().is_some_and(|at| at <= now) =>
            {
                connection.on_timeout(now);
            }
            Server::Theirs { connection: Some((_, connection)), .. } => {
                let is_due = connection.poll_timeout().is_some_and(|at| at <= instant);
                if is_due {
                    connection.handle_timeout(instant);
                }
            }
            Server::Ours { .. } | Server::Theirs { .. } => {}
        }
    }

    fn reach_client(&mut self, bytes: Vec<u8>, instant: Instant) {
        let from = "192.0.2.1:443".parse().unwrap();
        let bytes = BytesMut::from(&bytes[..]);
        let event = self.endpoint.handle(instant, from, None, None, bytes, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.client.handle_event(event);
        }
    }

    fn reach_server(&mut self, mut bytes: Vec<u8>, now: Duration, instant: Instant, seed: u64) {
        match &mut self.server {
            Server::Ours { config, connection, .. } => {
                let connection = match connection {
                    Some(connection) => connection,
                    None => {
                        let packet = Protected::read(&bytes);
                        let first = packet.filter(|packet| packet.kind == Kind::Initial);
                        let Some(packet) = first else { return };
                        let own = Id::new(&[9; 8]).unwrap();
                        let original = packet.receiver;
                        let names = Names { original, own, retry: None, reset_token: [7; 16] };
                        let accept = Accept {
                            version: Version::V1,
                            names,
                            receiver: packet.receiver,
                            client: packet.sender,
                            route: self.address.into(),
                            is_validated: false,
                            seed,
                        };
                        let new = Connection::new(config, &accept, now).unwrap();
                        connection.insert(Box::new(new))
                    }
                };
                connection.receive(self.address.into(), Ecn::NotEct, &mut bytes, now);
            }
            Server::Theirs { endpoint, connection, .. } => {
                let bytes = BytesMut::from(&bytes[..]);
                let mut out = Vec::new();
                match endpoint.handle(instant, self.address, None, None, bytes, &mut out) {
                    Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                        let new = endpoint.accept(incoming, instant, &mut out, None);
                        let (handle, new) = new.map_err(|error| error.cause).unwrap();
                        *connection = Some((handle, Box::new(new)));
                    }
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = connection {
                            connection.handle_event(event);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// The client asks once and reads what comes.
    fn drive_client(&mut self) {
        while let Some(event) = self.client.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.client.handle_event(event);
            }
        }
        while let Some(event) = self.client.poll() {
            if let quinn_proto::Event::ConnectionLost { reason } = event {
                panic!("the client is gone: {reason}");
            }
        }
        if self.client.is_handshaking() {
            return;
        }
        let stream = match self.asked {
            Some(stream) => stream,
            None => {
                let Some(stream) = self.client.streams().open(Dir::Bi) else { return };
                self.client.send_stream(stream).write(b"?").unwrap();
                *self.asked.insert(stream)
            }
        };
        let mut half = self.client.recv_stream(stream);
        let Ok(mut chunks) = half.read(true) else { return };
        loop {
            match chunks.next(PIECE_BYTES) {
                Ok(Some(chunk)) => {
                    assert!(chunk.bytes[..] == *piece(self.received, chunk.bytes.len()));
                    self.received += chunk.bytes.len() as u64;
                }
                Err(ReadError::Blocked) => break,
                other => panic!("the body ended: {other:?}"),
            }
        }
        let _ = chunks.finalize();
    }

    /// The server answers as fast as it may.
    fn serve(&mut self) {
        match &mut self.server {
            Server::Ours { connection: Some(connection), stream, .. } => {
                while let Some(event) = connection.next_event() {
                    if let StreamEvent::Readable(number) = event
                        && let Some((bytes, _)) = connection.readable(number)
                    {
                        let count = bytes.len();
                        connection.consume(number, count);
                        connection.take(number, count as u64);
                        *stream = Some(number);
                    }
                }
                while connection.ids_wanted() > 0 {
                    let id = [1 + connection.ids().count() as u8; 8];
                    connection.add_id(Id::new(&id).unwrap(), [3; 16]);
                }
                let Some(stream) = *stream else { return };
                while connection.unsent(stream) < AHEAD_BYTES {
                    let most = (self.supply - self.written).min(PIECE_BYTES as u64) as usize;
                    let bytes = piece(self.written, most);
                    if most == 0 || !connection.write(stream, bytes.to_vec()) {
                        break;
                    }
                    self.written += bytes.len() as u64;
                }
            }
            Server::Theirs { endpoint, connection: Some((handle, connection)), stream } => {
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = endpoint.handle_event(*handle, event) {
                        connection.handle_event(event);
                    }
                }
                while connection.poll().is_some() {}
                if stream.is_none() {
                    *stream = connection.streams().accept(Dir::Bi);
                }
                let Some(stream) = *stream else { return };
                let mut half = connection.send_stream(stream);
                loop {
                    let most = (self.supply - self.written).min(PIECE_BYTES as u64) as usize;
                    match half.write(piece(self.written, most)) {
                        Ok(count) if count > 0 => self.written += count as u64,
                        _ => break,
                    }
                }
            }
            _ => {}
        }
    }

    /// What both sides have to say.
    fn transmit(&mut self, now: Duration, instant: Instant) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let polled = |connection: &mut quinn_proto::Connection| {
            let mut datagrams = Vec::new();
            loop {
                let mut out = Vec::new();
                let Some(sent) = connection.poll_transmit(instant, 10, &mut out) else {
                    return datagrams;
                };
                let size = sent.segment_size.unwrap_or(sent.size);
                datagrams.extend(out[..sent.size].chunks(size).map(<[u8]>::to_vec));
            }
        };
        let to_server = polled(&mut self.client);
        let mut to_client = Vec::new();
        match &mut self.server {
            Server::Ours { connection: Some(connection), .. } => {
                let mut batch = Batch::new();
                while connection.fill(now, &mut batch).is_some() {
                    to_client.extend(batch.datagrams().map(<[u8]>::to_vec));
                    batch.clear();
                }
            }
            Server::Theirs { connection: Some((_, connection)), .. } => {
                to_client = polled(connection);
            }
            _ => {}
        }
        (to_server, to_client)
    }
}
