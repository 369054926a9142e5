//! A client that says whatever a test wants it to say: its packets are made by hand, its handshake is
//! that of rustls. Nothing is lost between it and the server, which speaks HTTP/3.

use crate::world::{client_tls, tls};
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_quic::ecn::Counts;
use freshet_quic::frame::{Frame, write_crypto_head, write_stream_head};
use freshet_quic::keys::{initial_keys, open_head, open_payload, seal};
use freshet_quic::packet::{Kind, Protected, TAG_BYTES, write_head, write_length};
use freshet_quic::parameters::{Local, Names};
use freshet_quic::varint::{Reader, write_varint};
use freshet_quic::{Accept, Algorithm, Batch, Config, Connection, Ecn, Id, Route, Version};
use freshet_wire::h1::Limits;
use freshet_wire::h3::limits::BLOCKED_STREAMS_MAX;
use freshet_wire::h3::{self, Event};
use rustls::Side;
use rustls::quic::{ClientConnection, KeyChange, Keys};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A packet that is not as any client's would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odd {
    pub(crate) kind: Kind,
    /// Bits of the first byte that are turned.
    pub(crate) bits: u8,
    /// Who says that it is the sender.
    pub(crate) sender: Id,
    /// Bytes of the datagram, at least.
    pub(crate) bytes: usize,
}

impl Odd {
    pub(crate) fn of(kind: Kind) -> Self {
        let bytes = if kind == Kind::Initial { 1200 } else { 0 };
        Self { kind, bits: 0, sender: own(), bytes }
    }
}

/// What came from the server outside streams.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Why it ended the connection: whether in words of HTTP/3, and the code.
    pub(crate) closed: Option<(bool, u64)>,
    /// Answers to challenges: where they came, the bytes, and the datagram's bytes.
    pub(crate) responses: Vec<(SocketAddr, [u8; 8], usize)>,
    /// Challenges.
    pub(crate) challenges: Vec<(SocketAddr, [u8; 8], usize)>,
    /// Streams that it ended before their time or wants no more of, with the codes.
    pub(crate) resets: BTreeMap<u64, u64>,
    pub(crate) stops: BTreeMap<u64, u64>,
    pub(crate) limits: usize,
    /// Datagrams that were marked, acknowledgements, and what was said last of marks that the server saw.
    pub(crate) marked: u64,
    pub(crate) acks: usize,
    pub(crate) counts: Option<Counts>,
    /// Bytes of streams, as they came in order.
    pub(crate) bytes: BTreeMap<u64, Vec<u8>>,
    /// Datagrams, and for whom the last ones with a short head were.
    pub(crate) datagrams: usize,
    pub(crate) receivers: Vec<(SocketAddr, Id)>,
}

pub(crate) struct Raw {
    pub(crate) now: Duration,
    pub(crate) server: h3::Connection<Vec<u8>>,
    pub(crate) heard: Heard,
    pub(crate) address: SocketAddr,
    /// The version of its packets: another once the server has answered in that.
    pub(crate) version: Version,
    tls: ClientConnection,
    /// Initial, handshake, data.
    keys: [Option<Keys>; 3],
    numbers: [u64; 3],
    /// Numbers that came and are not acknowledged.
    came: [Vec<u64>; 3],
    crypto: [u64; 3],
    /// Whom packets are for: the id of the first ones, then the server's.
    pub(crate) receiver: Id,
    pub(crate) requests: usize,
    /// Fields of the answers.
    pub(crate) answer: Fields,
    is_established: bool,
    /// Whether it acknowledges what comes, from where it is then.
    pub(crate) acknowledges: bool,
    /// Ids that the server gave.
    given: u32,
    /// Whether nothing reaches it.
    pub(crate) is_deaf: bool,
    /// How its datagrams are marked.
    pub(crate) ecn: Ecn,
    /// How marked datagrams of the server arrive, and what came so.
    pub(crate) sees: Ecn,
    pub(crate) saw: Counts,
    /// The number that comes next of packets with data.
    next: u64,
}

pub(crate) fn own() -> Id {
    Id::new(&[5; 8]).unwrap()
}

/// Whom its first packets are for.
fn original() -> Id {
    Id::new(&[8; 8]).unwrap()
}

/// The keys of first packets.
fn first_keys(version: Version) -> Option<Keys> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    initial_keys(&provider, version, original().as_bytes(), Side::Client)
}

/// Parameters that are in order, but for those in `changes`, which are left out where there is none.
pub(crate) fn parameters(changes: &[(u64, Option<&[u8]>)]) -> Vec<u8> {
    let mut all: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
    for (key, value) in
        [(1, 30_000), (4, 1 << 20), (5, 1 << 18), (6, 1 << 18), (7, 1 << 18), (9, 8)]
    {
        let mut out = Vec::new();
        write_varint(value, &mut out);
        all.insert(key, Some(out));
    }
    all.insert(0x0f, Some(own().as_bytes().to_vec()));
    for (key, value) in changes {
        all.insert(*key, value.map(<[u8]>::to_vec));
    }
    let mut out = Vec::new();
    for (key, value) in all {
        let Some(value) = value else { continue };
        write_varint(key, &mut out);
        write_varint(value.len() as u64, &mut out);
        out.extend(value);
    }
    out
}

impl Raw {
    /// A client of which nothing was sent yet.
    pub(crate) fn new(parameters: Vec<u8>, protocols: &[&[u8]]) -> Self {
        Self::of(parameters, protocols, client_tls(), &tls().0)
    }

    pub(crate) fn of(
        parameters: Vec<u8>,
        protocols: &[&[u8]],
        config: rustls::ClientConfig,
        server_tls: &Arc<rustls::ServerConfig>,
    ) -> Self {
        let versions = (Version::V1, Version::V1);
        Self::speaking(versions, parameters, protocols, config, server_tls)
    }

    /// One whose packets are of one version at first, and its keys of TLS of another from then on.
    pub(crate) fn speaking(
        (version, later): (Version, Version),
        parameters: Vec<u8>,
        protocols: &[&[u8]],
        config: rustls::ClientConfig,
        server_tls: &Arc<rustls::ServerConfig>,
    ) -> Self {
        let local =
            h3::Local { limits: Limits::default(), blocked_streams_max: BLOCKED_STREAMS_MAX };
        Self::built((version, later), parameters, protocols, config, server_tls, local)
    }

    /// The same with what the server says of HTTP/3.
    pub(crate) fn built(
        (version, later): (Version, Version),
        parameters: Vec<u8>,
        protocols: &[&[u8]],
        mut config: rustls::ClientConfig,
        server_tls: &Arc<rustls::ServerConfig>,
        h3: h3::Local,
    ) -> Self {
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = "localhost".try_into().unwrap();
        let tls = ClientConnection::new(Arc::new(config), later.tls(), name, parameters).unwrap();
        let original = original();
        let names =
            Names { original, own: Id::new(&[9; 8]).unwrap(), retry: None, reset_token: [7; 16] };
        let address = SocketAddr::from(([198, 51, 100, 7], 4000));
        let accept = Accept {
            version,
            names,
            receiver: original,
            client: own(),
            route: Route::from(address),
            is_validated: false,
            seed: 1,
        };
        let local = Local { streams_max: 10, ..Local::default() };
        let config = Config { tls: Arc::clone(server_tls), local, congestion: Algorithm::Cubic };
        let now = Duration::from_secs(1);
        let server = Connection::new(&config, &accept, now).unwrap();
        Self {
            now,
            server: h3::Connection::new(server, h3),
            heard: Heard::default(),
            address,
            version,
            tls,
            keys: [first_keys(version), None, None],
            numbers: [0; 3],
            came: Default::default(),
            crypto: [0; 3],
            receiver: original,
            requests: 0,
            answer: Fields::new(),
            is_established: false,
            acknowledges: true,
            given: 0,
            is_deaf: false,
            ecn: Ecn::NotEct,
            sees: Ecn::NotEct,
            saw: Counts::default(),
            next: 0,
        }
    }

    /// After the handshake, with control stream and settings.
    pub(crate) fn connected() -> Self {
        let mut raw = Self::established();
        raw.stream(2, 0, &[0, 4, 0], false);
        raw
    }

    /// After the handshake.
    pub(crate) fn established() -> Self {
        let mut raw = Self::new(parameters(&[]), &[b"h3"]);
        raw.shake_hands();
        assert!(raw.is_established && raw.heard.closed.is_none(), "{:?}", raw.heard);
        raw
    }

    /// One that takes all that comes.
    pub(crate) fn greedy() -> Self {
        Self::greedy_that_sees(Ecn::NotEct)
    }

    /// The same, to which marked datagrams come so.
    pub(crate) fn greedy_that_sees(ecn: Ecn) -> Self {
        let most = 0xffff_ffff_ffff_ffff_u64.to_be_bytes();
        let all = [4, 5, 6, 7].map(|key| (key, Some(&most[..])));
        let mut raw = Self::new(parameters(&all), &[b"h3"]);
        raw.sees = ecn;
        raw.shake_hands();
        raw.stream(2, 0, &[0, 4, 0], false);
        raw
    }

    /// The first message of the handshake.
    pub(crate) fn hello(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(self.tls.write_hs(&mut out).is_none());
        out
    }

    /// Sends a part of the handshake as it is.
    pub(crate) fn say(&mut self, kind: Kind, message: &[u8]) {
        let mut out = Vec::new();
        write_crypto_head(self.crypto[space(kind)], message.len(), &mut out);
        out.extend_from_slice(message);
        self.crypto[space(kind)] += message.len() as u64;
        self.packet(Odd::of(kind), &out);
    }

    pub(crate) fn shake_hands(&mut self) {
        let hello = self.hello();
        self.say(Kind::Initial, &hello);
        self.go_on();
    }

    /// Says what TLS has to say.
    fn go_on(&mut self) {
        loop {
            let mut out = Vec::new();
            let kind = if self.keys[1].is_some() { Kind::Handshake } else { Kind::Initial };
            let change = self.tls.write_hs(&mut out);
            let is_all = change.is_none();
            match change {
                Some(KeyChange::Handshake { keys }) => self.keys[1] = Some(keys),
                Some(KeyChange::OneRtt { keys, .. }) => {
                    self.keys[2] = Some(keys);
                    self.is_established = true;
                }
                None => {}
            }
            if !out.is_empty() {
                self.say(kind, &out);
            }
            if is_all {
                return;
            }
        }
    }

    /// Sends frames with data's keys.
    pub(crate) fn frames(&mut self, frames: &[u8]) {
        self.packet(Odd::of(Kind::OneRtt), frames);
    }

    /// Sends bytes of a stream.
    pub(crate) fn stream(&mut self, stream: u64, offset: u64, bytes: &[u8], ends: bool) {
        let mut out = Vec::new();
        write_stream_head(stream, offset, bytes.len(), ends, &mut out);
        out.extend_from_slice(bytes);
        self.frames(&out);
    }

    /// Sends a packet, in a datagram of its own.
    pub(crate) fn packet(&mut self, odd: Odd, frames: &[u8]) {
        let mut datagram = self.sealed(odd, frames);
        self.bring(&mut datagram);
    }

    /// Leaves numbers of packets with data out.
    pub(crate) fn skip_numbers(&mut self, count: u64) {
        self.numbers[space(Kind::OneRtt)] += count;
    }

    /// Makes a packet.
    pub(crate) fn sealed(&mut self, odd: Odd, frames: &[u8]) -> Vec<u8> {
        let at = space(odd.kind);
        let early = self.tls.zero_rtt_keys();
        let local = match odd.kind {
            Kind::ZeroRtt => early.as_ref(),
            _ => self.keys[at].as_ref().map(|keys| &keys.local),
        };
        let local = local.expect("it has these keys");
        let number = self.numbers[at];
        self.numbers[at] += 1;
        let mut out = Vec::new();
        let ids = (&self.receiver, &odd.sender);
        let length_at = write_head((odd.kind, self.version), ids, false, 4, &mut out);
        out[0] ^= odd.bits;
        out.extend((number as u32).to_be_bytes());
        let payload_at = out.len();
        out.extend_from_slice(frames);
        out.resize((out.len() + TAG_BYTES).max(odd.bytes), 0);
        if let Some(at) = length_at {
            let length = out.len() - payload_at + 4;
            write_length(at, length, &mut out);
        }
        assert!(seal(&*local.packet, &*local.header, (number, 4), payload_at, &mut out));
        out
    }

    /// Brings the server a datagram, and all its answers here.
    pub(crate) fn bring(&mut self, datagram: &mut [u8]) {
        self.now += Duration::from_millis(1);
        self.server.quic.receive(Route::from(self.address), self.ecn, datagram, self.now);
        self.settle();
    }

    /// Lets time pass; says how often the server had something to do.
    pub(crate) fn pass(&mut self, time: Duration) -> usize {
        let (end, mut steps) = (self.now + time, 0);
        while let Some(at) = self.server.quic.timeout().filter(|at| *at <= end) {
            steps += 1;
            assert!(steps < 20_000, "it goes round in circles");
            self.now = self.now.max(at);
            self.server.quic.on_timeout(self.now);
            self.settle();
        }
        self.now = end;
        steps
    }

    fn settle(&mut self) {
        while let Some(event) = self.server.next_event(self.now) {
            match event {
                Event::Request(stream, _) => {
                    self.requests += 1;
                    let mut head = ResponseHead::new(204);
                    head.fields = self.answer.clone();
                    self.server.respond(stream, &head, None, true);
                }
                Event::Data(stream, bytes) => self.server.take_body(stream, bytes.len() as u64),
                Event::Refused { .. } | Event::End(_) | Event::Reset { .. } => {}
            }
        }
        while self.server.quic.ids_wanted() > 0 {
            self.given += 1;
            let id = [&[100; 4][..], &self.given.to_be_bytes()].concat();
            self.server.quic.add_id(Id::new(&id).unwrap(), [3; 16]);
        }
        let mut batch = Batch::new();
        for turn in 0.. {
            assert!(turn < 1000, "it never stops sending");
            batch.clear();
            let Some(route) = self.server.quic.fill(self.now, &mut batch) else { break };
            let datagrams: Vec<Vec<u8>> = batch.datagrams().map(<[u8]>::to_vec).collect();
            let is_marked = batch.ecn() != Ecn::NotEct;
            for datagram in datagrams {
                if self.is_deaf {
                    break;
                }
                if is_marked {
                    self.heard.marked += 1;
                    match self.sees {
                        Ecn::NotEct => {}
                        Ecn::Ect0 => self.saw.ect0 += 1,
                        Ecn::Ect1 => self.saw.ect1 += 1,
                        Ecn::Ce => self.saw.ce += 1,
                    }
                }
                self.hear(route.remote, datagram);
            }
        }
        self.acknowledge();
    }

    /// Takes data until there is no more, and acknowledges so many datagrams at a time without a look
    /// into them.
    pub(crate) fn drain(&mut self, acknowledges_every: usize) {
        while self.server.quic.unsent_of_all() > 0 {
            if self.take() == 0 {
                self.now += Duration::from_micros(500);
                self.server.quic.on_timeout(self.now);
            }
            while self.acknowledge_oldest(acknowledges_every) {}
        }
    }

    /// Takes a batch, and says how many datagrams it had.
    pub(crate) fn take(&mut self) -> usize {
        let mut batch = Batch::new();
        if self.server.quic.fill(self.now, &mut batch).is_none() {
            return 0;
        }
        let size = batch.segment_bytes();
        let mut bytes = batch.bytes().to_vec();
        let datagrams = bytes.chunks_mut(size);
        let count = datagrams.len();
        for datagram in datagrams {
            let packet = Protected::read(datagram).expect("one of ours");
            let keys = self.keys[2].as_ref().expect("it has these keys");
            let opened = open_head(&*keys.remote.header, datagram, &packet, self.next).unwrap();
            self.next = opened.number + 1;
            self.came[2].push(opened.number);
        }
        count
    }

    /// Acknowledges so many of the datagrams that were taken first; false where there are none.
    pub(crate) fn acknowledge_oldest(&mut self, count: usize) -> bool {
        let rest = self.came[2].split_off(count.min(self.came[2].len()));
        let is_any = !self.came[2].is_empty();
        self.acknowledge();
        self.came[2] = rest;
        is_any
    }

    fn hear(&mut self, to: SocketAddr, mut datagram: Vec<u8>) {
        let len = datagram.len();
        self.heard.datagrams += 1;
        let mut rest = &mut datagram[..];
        while let Some(packet) = Protected::read(rest) {
            let (bytes, after) = rest.split_at_mut(packet.end);
            rest = after;
            let at = space(packet.kind);
            if let Some(version) = packet.version.filter(|version| *version != self.version) {
                self.version = version;
                self.keys[0] = first_keys(version);
            }
            let Some(keys) = &self.keys[at] else { continue };
            if at < 2 {
                self.receiver = packet.sender;
            } else {
                self.heard.receivers.push((to, packet.receiver));
            }
            let expected = if at == 2 { self.next } else { 0 };
            let opened = open_head(&*keys.remote.header, bytes, &packet, expected).unwrap();
            // What is under keys of an update is not of interest here.
            let Some(payload) = open_payload(&*keys.remote.packet, bytes, opened, packet.end)
            else {
                continue;
            };
            if at == 2 {
                self.next = opened.number + 1;
            }
            self.came[at].push(opened.number);
            let payload = bytes[payload].to_vec();
            self.read(to, len, &payload);
        }
    }

    fn read(&mut self, to: SocketAddr, datagram_bytes: usize, payload: &[u8]) {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            match Frame::read(&mut reader).expect("the server's frames can be read") {
                // Nothing is lost and all is in order.
                Frame::Crypto { bytes, .. } if self.tls.read_hs(bytes).is_ok() => self.go_on(),
                Frame::ConnectionClose { is_application, code } => {
                    self.heard.closed = Some((is_application, code));
                }
                Frame::PathResponse(bytes) => {
                    self.heard.responses.push((to, bytes, datagram_bytes));
                }
                Frame::PathChallenge(bytes) => {
                    self.heard.challenges.push((to, bytes, datagram_bytes));
                }
                Frame::ResetStream { stream, code, .. } => {
                    self.heard.resets.insert(stream, code);
                }
                Frame::StopSending { stream, code } => {
                    self.heard.stops.insert(stream, code);
                }
                Frame::Ack(ack) => {
                    self.heard.acks += 1;
                    self.heard.counts = ack.counts;
                }
                Frame::MaxData(_) | Frame::MaxStreamData { .. } => self.heard.limits += 1,
                Frame::Stream { stream, offset, bytes, .. } => {
                    let heard = self.heard.bytes.entry(stream).or_default();
                    if heard.len() as u64 == offset {
                        heard.extend_from_slice(bytes);
                    }
                }
                _ => {}
            }
        }
    }

    /// Acknowledges what came.
    fn acknowledge(&mut self) {
        for kind in [Kind::Initial, Kind::Handshake, Kind::OneRtt] {
            let came = std::mem::take(&mut self.came[space(kind)]);
            let is_told = kind == Kind::OneRtt && self.saw != Counts::default();
            let tells = is_told.then_some(self.saw);
            let Some(frame) = ack(&came, tells).filter(|_| self.acknowledges) else { continue };
            if self.heard.closed.is_none() && self.keys[space(kind)].is_some() {
                let mut datagram = self.sealed(Odd::of(kind), &frame);
                let route = Route::from(self.address);
                self.server.quic.receive(route, self.ecn, &mut datagram, self.now);
            }
        }
    }
}

/// An ACK frame of packets in order; none for none.
fn ack(numbers: &[u64], counts: Option<Counts>) -> Option<Vec<u8>> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == *number => *end = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let (first, last) = ranges.pop()?;
    let mut out = vec![if counts.is_some() { 0x03 } else { 0x02 }];
    for value in [last, 0, ranges.len() as u64, last - first] {
        write_varint(value, &mut out);
    }
    let mut low = first;
    for (start, end) in ranges.into_iter().rev() {
        write_varint(low - end - 2, &mut out);
        write_varint(end - start, &mut out);
        low = start;
    }
    if let Some(Counts { ect0, ect1, ce }) = counts {
        [ect0, ect1, ce].into_iter().for_each(|count| write_varint(count, &mut out));
    }
    Some(out)
}

fn space(kind: Kind) -> usize {
    match kind {
        Kind::Initial => 0,
        Kind::Handshake => 1,
        _ => 2,
    }
}
