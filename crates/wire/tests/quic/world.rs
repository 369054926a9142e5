//! A client, a server and what is between them.

use bytes::{Bytes, BytesMut};
use freshet_quic::cipher::with_ciphers;
use freshet_quic::packet::{Kind, Protected};
use freshet_quic::parameters::{Local, Names};
use freshet_quic::{Accept, Algorithm, Batch, Config, Connection, Ecn, Id, StreamEvent, Version};
use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ReadError, StreamId, TransportConfig, VarInt,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// Of a thousand datagrams.
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) changed: u64,
    /// Of those with a mark of their sender, how many get one of a router, and whether a router takes all
    /// marks off.
    pub(crate) congested: u64,
    pub(crate) is_bleached: bool,
}

impl Way {
    pub(crate) const GOOD: Self = Self {
        delay: Duration::from_millis(10),
        jitter: Duration::ZERO,
        lost: 0,
        repeated: 0,
        changed: 0,
        congested: 0,
        is_bleached: false,
    };
}

/// Numbers that a seed decides.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound.max(1)
    }
}

/// A datagram on its way: when it arrives, a number that keeps equals in order, whether it goes to the
/// server, from where it comes, and its mark.
type Flying = Reverse<(Duration, u64, bool, SocketAddr, u8, Vec<u8>)>;

pub(crate) struct World {
    pub(crate) now: Duration,
    epoch: Instant,
    pub(crate) way: Way,
    pub(crate) dice: Dice,
    flying: BinaryHeap<Flying>,
    count: u64,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) client: quinn_proto::Connection,
    pub(crate) client_address: SocketAddr,
    pub(crate) config: Config,
    pub(crate) server: Option<Connection<Vec<u8>>>,
    /// Whether the client is a network's other side from now on.
    pub(crate) is_cut: bool,
    /// Bytes of a datagram that come through, at most.
    pub(crate) most_bytes: usize,
    /// When something else happens, which who runs the world looks at then.
    pub(crate) alarm: Option<Duration>,
    pub(crate) bytes_to_server: u64,
    pub(crate) bytes_to_client: u64,
    /// Requests: what the client still has to send, and what it got.
    pub(crate) asked: BTreeMap<StreamId, Asked>,
    pub(crate) closed: Option<String>,
    served: BTreeMap<u64, Served>,
    /// Pieces in which the server answers.
    pub(crate) piece_bytes: usize,
    /// What the client has sent.
    pub(crate) recorded: Vec<Vec<u8>>,
    /// Whether it is told what happens, as `FRESHET_QUIC_TELL` asks for.
    tells: bool,
}

pub(crate) struct Asked {
    upload: Vec<u8>,
    sent: usize,
    is_finished: bool,
    answer_bytes: usize,
    pub(crate) got: Vec<u8>,
    pub(crate) is_done: bool,
}

#[derive(Default)]
struct Served {
    upload: Vec<u8>,
    /// How much the client wants, and how much of it is written.
    wanted: Option<usize>,
    written: usize,
}

const SERVER: &str = "192.0.2.1:443";

/// The bytes of a stream, which are different on each.
pub(crate) fn pattern(stream: u64, from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| (at as u64 * 31 + stream * 7 + (at as u64 >> 8)) as u8).collect()
}

pub(crate) fn tls() -> &'static (Arc<ServerConfig>, RootCertStore) {
    static TLS: OnceLock<(Arc<ServerConfig>, RootCertStore)> = OnceLock::new();
    TLS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let provider = Arc::new(with_ciphers(provider));
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        server.alpn_protocols = vec![b"h3".to_vec()];
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        (Arc::new(server), roots)
    })
}

/// How clients shake hands; each of these remembers sessions of its own.
pub(crate) fn client_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(tls().1.clone())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls
}

/// Both sides of clients that come again, with early data.
pub(crate) fn early_tls() -> (rustls::ClientConfig, Arc<ServerConfig>) {
    let mut client = client_tls();
    client.enable_early_data = true;
    let mut server = ServerConfig::clone(&tls().0);
    server.session_storage = rustls::server::ServerSessionMemoryCache::new(100);
    server.max_early_data_size = u32::MAX;
    (client, Arc::new(server))
}

/// A window that early data does not fill: the client's handshake would wait behind that for ever, as
/// nothing else acknowledges it.
struct Unlimited;

impl ControllerFactory for Unlimited {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self)
    }
}

impl Controller for Unlimited {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1 << 30
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self)
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl World {
    pub(crate) fn new(seed: u64, way: Way, local: Local) -> Self {
        Self::of(seed, way, local, client_tls(), &tls().0)
    }

    /// One whose client wants to be acknowledged so.
    pub(crate) fn that_asks(seed: u64, way: Way, local: Local, asks: AckFrequencyConfig) -> Self {
        Self::built(seed, way, local, client_tls(), &tls().0, Some(asks))
    }

    pub(crate) fn of(
        seed: u64,
        way: Way,
        local: Local,
        tls: rustls::ClientConfig,
        server_tls: &Arc<ServerConfig>,
    ) -> Self {
        Self::built(seed, way, local, tls, server_tls, None)
    }

    fn built(
        seed: u64,
        way: Way,
        local: Local,
        tls: rustls::ClientConfig,
        server_tls: &Arc<ServerConfig>,
        asks: Option<AckFrequencyConfig>,
    ) -> Self {
        let mut transport = TransportConfig::default();
        transport.ack_frequency_config(asks);
        // The server's word counts.
        transport.max_idle_timeout(Some(VarInt::from_u32(600_000).into()));
        transport.stream_receive_window(VarInt::from_u32(200_000));
        transport.receive_window(VarInt::from_u32(500_000));
        if tls.enable_early_data {
            transport.congestion_controller_factory(Arc::new(Unlimited));
        }
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        config.transport_config(Arc::new(transport));
        let rng = [seed as u8; 32];
        let mut endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), None, true, Some(rng));
        let epoch = Instant::now();
        let server = SERVER.parse().unwrap();
        let (handle, client) = endpoint.connect(epoch, config, server, "localhost").unwrap();
        Self {
            now: Duration::ZERO,
            epoch,
            way,
            dice: Dice::new(seed),
            flying: BinaryHeap::new(),
            count: 0,
            endpoint,
            handle,
            client,
            client_address: "198.51.100.7:4000".parse().unwrap(),
            config: Config { tls: Arc::clone(server_tls), local, congestion: Algorithm::Cubic },
            server: None,
            is_cut: false,
            most_bytes: usize::MAX,
            alarm: None,
            bytes_to_server: 0,
            bytes_to_client: 0,
            asked: BTreeMap::new(),
            closed: None,
            served: BTreeMap::new(),
            piece_bytes: 10_000,
            recorded: Vec::new(),
            tells: std::env::var_os("FRESHET_QUIC_TELL").is_some(),
        }
    }

    /// Tells what happens, and how the server stands.
    pub(crate) fn tell(&self, what: std::fmt::Arguments<'_>) {
        if self.tells {
            let server = self.server.as_ref().map(|it| (it.bytes_in_flight(), it.timeout()));
            println!("{:?} {what}; in flight, until: {server:?}", self.now);
        }
    }

    /// The client asks on a new stream: sends so many bytes and wants so many.
    pub(crate) fn ask(&mut self, upload_bytes: usize, answer_bytes: usize) -> Option<StreamId> {
        let stream = self.client.streams().open(Dir::Bi)?;
        let mut upload = (upload_bytes as u64).to_be_bytes().to_vec();
        upload.extend((answer_bytes as u64).to_be_bytes());
        upload.extend(pattern(u64::from(VarInt::from(stream)), 0, upload_bytes));
        let asked = Asked {
            upload,
            sent: 0,
            is_finished: false,
            answer_bytes,
            got: Vec::new(),
            is_done: false,
        };
        self.asked.insert(stream, asked);
        Some(stream)
    }

    /// Whether all that was asked for came.
    pub(crate) fn is_done(&self) -> bool {
        self.asked.values().all(|asked| asked.is_done)
    }

    /// Goes on until `until` holds; panics when that takes more than `limit` of virtual time.
    pub(crate) fn run(&mut self, limit: Duration, mut until: impl FnMut(&mut Self) -> bool) {
        let end = self.now + limit;
        let mut steps = 0_u64;
        loop {
            self.settle();
            if until(self) {
                return;
            }
            steps += 1;
            assert!(steps < 3_000_000, "it goes round in circles at {:?}", self.now);
            if !self.step(end) {
                panic!("not over after {limit:?}: {} in flight", self.flying.len());
            }
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while self.step(end) {
            self.settle();
        }
        self.now = end;
    }

    /// Both sides do all they can do now.
    fn settle(&mut self) {
        self.serve();
        self.drive_client();
        self.transmit();
    }

    /// Does what is next; false when nothing is before `end`.
    fn step(&mut self, end: Duration) -> bool {
        let client = self.client.poll_timeout().map(|at| at.saturating_duration_since(self.epoch));
        let server = self.server.as_ref().and_then(Connection::timeout);
        let flying = self.flying.peek().map(|Reverse(flying)| flying.0);
        let all = [client, server, flying, self.alarm];
        let Some(next) = all.into_iter().flatten().min() else { return false };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        if self.alarm.take_if(|at| *at <= self.now).is_some() {
            return true;
        }
        if flying.is_some_and(|at| at <= self.now) {
            let Some(Reverse((_, _, to_server, from, ecn, bytes))) = self.flying.pop() else {
                return true;
            };
            self.tell(format_args!("{} bytes arrive, from the client: {to_server}", bytes.len()));
            match to_server {
                true => self.reach_server(from, Ecn::of_traffic_class(ecn), bytes),
                false if from == self.client_address => self.reach_client(ecn, bytes),
                // It is for where the client was.
                false => {}
            }
            return true;
        }
        if client.is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.instant());
        }
        if let Some(connection) = &mut self.server
            && connection.timeout().is_some_and(|at| at <= self.now)
        {
            connection.on_timeout(self.now);
        }
        self.tell(format_args!("it was time"));
        true
    }

    fn instant(&self) -> Instant {
        self.epoch + self.now
    }

    pub(crate) fn reach_server(&mut self, from: SocketAddr, ecn: Ecn, mut bytes: Vec<u8>) {
        self.bytes_to_server += bytes.len() as u64;
        if self.server.is_none() {
            let Some(packet) =
                Protected::read(&bytes).filter(|packet| packet.kind == Kind::Initial)
            else {
                return;
            };
            let own = Id::new(&[9; 8]).unwrap();
            let names = Names { original: packet.receiver, own, retry: None, reset_token: [7; 16] };
            let accept = Accept {
                version: Version::V1,
                names,
                receiver: packet.receiver,
                client: packet.sender,
                route: from.into(),
                is_validated: false,
                seed: self.dice.below(u64::MAX),
            };
            self.server = Some(Connection::new(&self.config, &accept, self.now).unwrap());
        }
        let connection = self.server.as_mut().unwrap();
        connection.receive(from.into(), ecn, &mut bytes, self.now);
        if connection.statistics().packets_received == 0 {
            // It only looked like a first packet.
            self.server = None;
            return;
        }
        while connection.ids_wanted() > 0 {
            let id: Vec<u8> = (0..8).map(|_| self.dice.below(256) as u8).collect();
            connection.add_id(Id::new(&id).unwrap(), [3; 16]);
        }
        if connection.is_token_wanted() {
            connection.give_token(&[5; 37]);
        }
    }

    fn reach_client(&mut self, ecn: u8, bytes: Vec<u8>) {
        let (now, server) = (self.instant(), SERVER.parse().unwrap());
        let mut out = Vec::new();
        let bytes = BytesMut::from(&bytes[..]);
        let event =
            self.endpoint.handle(now, server, None, EcnCodepoint::from_bits(ecn), bytes, &mut out);
        if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event {
            assert_eq!(handle, self.handle);
            self.client.handle_event(event);
        }
    }

    /// Sends what both sides have to say.
    fn transmit(&mut self) {
        loop {
            let mut out = Vec::new();
            let Some(sent) = self.client.poll_transmit(self.instant(), 4, &mut out) else { break };
            let size = sent.segment_size.unwrap_or(sent.size);
            for datagram in out[..sent.size].chunks(size) {
                self.send(true, sent.ecn.map_or(0, |ecn| ecn as u8), datagram);
            }
        }
        let mut batch = Batch::new();
        while let Some(connection) = &mut self.server {
            batch.clear();
            let Some(route) = connection.fill(self.now, &mut batch) else { break };
            let is_there = route.remote == self.client_address;
            let datagrams: Vec<Vec<u8>> = batch.datagrams().map(<[u8]>::to_vec).collect();
            for datagram in datagrams {
                assert!(datagram.len() <= 1452);
                self.bytes_to_client += datagram.len() as u64;
                if is_there {
                    self.send(false, batch.ecn() as u8, &datagram);
                } else {
                    self.tell(format_args!("{} bytes go to {}", datagram.len(), route.remote));
                }
            }
        }
    }

    fn send(&mut self, to_server: bool, mut ecn: u8, datagram: &[u8]) {
        let way = self.way;
        if way.is_bleached {
            ecn = 0;
        } else if ecn != 0 && way.congested > 0 && self.dice.below(1000) < way.congested {
            ecn = Ecn::Ce as u8;
        }
        if to_server {
            self.recorded.push(datagram.to_vec());
        }
        let to = if to_server { "server" } else { "client" };
        let comes_through = !self.is_cut && datagram.len() <= self.most_bytes;
        if !comes_through || self.dice.below(1000) < way.lost {
            return self.tell(format_args!("{} bytes to the {to} are lost", datagram.len()));
        }
        self.tell(format_args!("{} bytes leave for the {to}", datagram.len()));
        let times = 1 + u64::from(self.dice.below(1000) < way.repeated);
        for _ in 0..times {
            let mut bytes = datagram.to_vec();
            if self.dice.below(1000) < way.changed {
                let at = self.dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.dice.below(8);
            }
            let jitter = Duration::from_micros(self.dice.below(way.jitter.as_micros() as u64 + 1));
            self.count += 1;
            let at = self.now + way.delay + jitter;
            let from = self.client_address;
            self.flying.push(Reverse((at, self.count, to_server, from, ecn, bytes)));
        }
    }

    /// The client writes its requests and reads what comes.
    fn drive_client(&mut self) {
        while let Some(event) = self.client.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.client.handle_event(event);
            }
        }
        while let Some(event) = self.client.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.closed = Some(reason.to_string());
            }
        }
        if self.client.is_handshaking() && !self.client.has_0rtt() {
            return;
        }
        for (stream, asked) in &mut self.asked {
            if !asked.is_finished {
                let mut half = self.client.send_stream(*stream);
                while let Some(rest) =
                    asked.upload.get(asked.sent..).filter(|rest| !rest.is_empty())
                {
                    let piece = Bytes::copy_from_slice(&rest[..rest.len().min(3000)]);
                    let Ok(count) = half.write(&piece) else { break };
                    asked.sent += count;
                }
                if asked.sent == asked.upload.len() {
                    asked.is_finished = half.finish().is_ok();
                }
            }
            let mut half = self.client.recv_stream(*stream);
            let Ok(mut chunks) = half.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => asked.got.extend_from_slice(&chunk.bytes),
                    Ok(None) => {
                        let number = u64::from(VarInt::from(*stream));
                        assert!(asked.got == pattern(number, 0, asked.answer_bytes));
                        asked.is_done = true;
                        break;
                    }
                    Err(ReadError::Blocked) => break,
                    Err(ReadError::Reset(_)) => {
                        asked.is_done = true;
                        break;
                    }
                }
            }
            let _ = chunks.finalize();
        }
    }

    /// The server reads requests and answers them, a few pieces ahead of what is sent.
    fn serve(&mut self) {
        let Some(connection) = &mut self.server else { return };
        while let Some(event) = connection.next_event() {
            match event {
                StreamEvent::Readable(stream) => {
                    let Some((bytes, ends)) = connection.readable(stream) else { continue };
                    let count = bytes.len();
                    let served = self.served.entry(stream).or_default();
                    served.upload.extend_from_slice(bytes);
                    connection.consume(stream, count);
                    connection.take(stream, count as u64);
                    if ends {
                        connection.end_seen(stream);
                        let (head, body) = served.upload.split_at(16);
                        let bytes = u64::from_be_bytes(head[..8].try_into().unwrap());
                        assert!(body == pattern(stream, 0, bytes as usize));
                        let wanted = u64::from_be_bytes(head[8..].try_into().unwrap());
                        served.wanted = Some(wanted as usize);
                    }
                }
                StreamEvent::Reset(stream, _) => connection.reset(stream, 9),
                StreamEvent::Closed(stream) => {
                    self.served.remove(&stream);
                }
                StreamEvent::Stopped(..) | StreamEvent::Writable(_) | StreamEvent::Opened => {}
            }
        }
        for (stream, served) in &mut self.served {
            let Some(wanted) = served.wanted else { continue };
            while served.written < wanted && connection.unsent(*stream) < 50_000 {
                let end = wanted.min(served.written + self.piece_bytes);
                if !connection.write(*stream, pattern(*stream, served.written, end)) {
                    break;
                }
                served.written = end;
            }
            if served.written == wanted {
                connection.finish(*stream);
            }
        }
    }
}
