//! A client of HTTP/3: packets by quinn-proto, frames by hand, so that a test can say anything.

use crate::authority::Authority;
use bytes::{Bytes, BytesMut};
use freshet_wire::h3::frame::{Head, kind, write_head};
use freshet_wire::h3::qpack;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, RandomConnectionIdGenerator, ReadError, Side, StreamId, TransportConfig, VarInt,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::UdpSocket;

/// What came on a stream.
#[derive(Default)]
pub(crate) struct Came {
    bytes: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) reset: Option<u64>,
    /// What was not written yet, and whether that is all.
    writing: Vec<u8>,
    finishes: bool,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    /// Statuses of interim responses.
    pub(crate) interim: Vec<u16>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| &*field.1)
    }
}

pub(crate) struct H3Client {
    socket: UdpSocket,
    to: SocketAddr,
    config: Arc<EndpointConfig>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(crate) connection: Connection,
    pub(crate) streams: BTreeMap<StreamId, Came>,
    /// Why the connection is over.
    pub(crate) lost: Option<String>,
    /// A stream that is open and not used.
    spare: Option<StreamId>,
    /// What it sent before its handshake was over.
    pub(crate) first: Vec<Vec<u8>>,
}

impl H3Client {
    /// A connection, with control stream and settings.
    pub(crate) async fn connect(to: SocketAddr, authority: &Authority) -> Self {
        Self::connect_with(to, authority, |_| {}).await
    }

    /// The same with limits of its own.
    pub(crate) async fn connect_with(
        to: SocketAddr,
        authority: &Authority,
        change: impl FnOnce(&mut TransportConfig),
    ) -> Self {
        Self::connect_from([127, 0, 0, 1], to, authority, change).await
    }

    /// The same of a client at another address of this machine.
    pub(crate) async fn connect_from(
        from: [u8; 4],
        to: SocketAddr,
        authority: &Authority,
        change: impl FnOnce(&mut TransportConfig),
    ) -> Self {
        Self::begin(from, to, authority.client(&["h3"]), "example.test", change).await
    }

    /// The same of a client that asks for a name, and proves what `tls` says.
    pub(crate) async fn connect_as(
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        name: &str,
    ) -> Self {
        Self::begin([127, 0, 0, 1], to, tls, name, |_| {}).await
    }

    async fn begin(
        from: [u8; 4],
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        name: &str,
        change: impl FnOnce(&mut TransportConfig),
    ) -> Self {
        let mut client = Self::start(from, to, tls, name, change).await;
        client.finish_handshake().await;
        client
    }

    /// One that has heard all there is of a handshake, and has not said the last of it.
    pub(crate) async fn start_unfinished(
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        name: &str,
    ) -> Self {
        let mut client = Self::start([127, 0, 0, 1], to, tls, name, |_| {}).await;
        client.step();
        let mut datagram = vec![0; 65_536];
        while client.connection.is_handshaking() {
            let (count, from) = client.socket.recv_from(&mut datagram).await.unwrap();
            client.take(from, &datagram[..count]);
        }
        client
    }

    /// Goes on until the handshake is over, and begins to speak HTTP/3.
    pub(crate) async fn finish_handshake(&mut self) {
        self.until(|client| client.lost.is_some() || !client.connection.is_handshaking()).await;
        assert_eq!(self.lost, None);
        self.open(Dir::Uni, &[0, 4, 0], false);
    }

    /// One of which the handshake is not over, so that all it sends now is early data, as far as it
    /// has a session to continue.
    pub(crate) async fn start_early(
        from: [u8; 4],
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        let mut client = Self::start(from, to, tls, "example.test", |_| {}).await;
        if client.connection.has_0rtt() {
            client.open(Dir::Uni, &[0, 4, 0], false);
        }
        client
    }

    async fn start(
        from: [u8; 4],
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        name: &str,
        change: impl FnOnce(&mut TransportConfig),
    ) -> Self {
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut transport = TransportConfig::default();
        change(&mut transport);
        config.transport_config(Arc::new(transport));
        // Ids of which one that has forgotten them knows nothing.
        let mut of_endpoint = EndpointConfig::default();
        of_endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        let of_endpoint = Arc::new(of_endpoint);
        let mut endpoint = Endpoint::new(Arc::clone(&of_endpoint), None, true, None);
        let (handle, connection) = endpoint.connect(Instant::now(), config, to, name).unwrap();
        let client = Self {
            socket: UdpSocket::bind(SocketAddr::from((from, 0))).await.unwrap(),
            to,
            config: of_endpoint,
            endpoint,
            handle,
            connection,
            streams: BTreeMap::new(),
            lost: None,
            spare: None,
            first: Vec::new(),
        };
        // The first datagram has to leave, and a new socket does not know yet that it may.
        client.socket.writable().await.unwrap();
        client
    }

    /// Sends the first datagrams of clients that never say more.
    pub(crate) async fn begin_only(to: SocketAddr, authority: &Authority, count: usize) {
        let tls = Arc::new(QuicClientConfig::try_from(authority.client(&["h3"])).unwrap());
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for _ in 0..count {
            let config = ClientConfig::new(tls.clone());
            let now = Instant::now();
            let (_, mut client) = endpoint.connect(now, config, to, "example.test").unwrap();
            let mut out = Vec::new();
            let sent = client.poll_transmit(now, 1, &mut out).unwrap();
            socket.send_to(&out[..sent.size], to).await.unwrap();
        }
    }

    /// Marks what it sends from now on, as a router that is congested would.
    pub(crate) fn mark_congested(&self) {
        const CONGESTED: u8 = 3;
        rustix::net::sockopt::set_ip_tos(&self.socket, CONGESTED).unwrap();
    }

    /// Opens a stream that begins with these bytes.
    pub(crate) fn open(&mut self, way: Dir, bytes: &[u8], finishes: bool) -> StreamId {
        let spare = self.spare.take_if(|_| way == Dir::Bi);
        let stream = spare.or_else(|| self.connection.streams().open(way));
        let stream = stream.expect("the node allows another");
        let came = Came { writing: bytes.to_vec(), finishes, ..Came::default() };
        self.streams.insert(stream, came);
        stream
    }

    /// Asks for something, with a body if there is one.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> StreamId {
        let mut bytes = head(method, target, fields);
        if let Some(body) = body {
            write_head(kind::DATA, body.len(), &mut bytes);
            bytes.extend_from_slice(body);
        }
        self.open(Dir::Bi, &bytes, true)
    }

    /// Bytes that came on a stream.
    pub(crate) fn came(&self, stream: StreamId) -> usize {
        self.streams[&stream].bytes.len()
    }

    /// Waits for a response.
    pub(crate) async fn answer(&mut self, stream: StreamId) -> Answer {
        self.until(|client| {
            let came = &client.streams[&stream];
            assert_eq!((came.reset, &client.lost), (None, &None));
            came.ended
        })
        .await;
        parse(&self.streams[&stream].bytes)
    }

    pub(crate) async fn get(&mut self, target: &str) -> Answer {
        let stream = self.ask("GET", target, &[], None);
        self.answer(stream).await
    }

    /// The same of another host than the tests'.
    pub(crate) async fn get_of(&mut self, host: &str, target: &str) -> Answer {
        let stream = self.open(Dir::Bi, &head_of(host, "GET", target, &[]), true);
        self.answer(stream).await
    }

    /// Goes on until `is` holds.
    pub(crate) async fn until(&mut self, mut is: impl FnMut(&Self) -> bool) {
        let mut datagram = vec![0; 65_536];
        loop {
            self.step();
            if is(self) {
                return;
            }
            let timeout = self.connection.poll_timeout();
            let sleep = async {
                match timeout {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = self.socket.recv_from(&mut datagram) => {
                    let (count, from) = received.unwrap();
                    self.take(from, &datagram[..count]);
                    while let Ok((count, from)) = self.socket.try_recv_from(&mut datagram) {
                        self.take(from, &datagram[..count]);
                    }
                }
                () = sleep => self.connection.handle_timeout(Instant::now()),
            }
        }
    }

    /// Goes on until something comes.
    pub(crate) async fn hear(&mut self) {
        let mut is_first = true;
        self.until(|client| client.lost.is_some() || !std::mem::take(&mut is_first)).await;
    }

    /// Goes on from another address of this machine.
    pub(crate) async fn move_to(&mut self, from: [u8; 4]) {
        self.socket = UdpSocket::bind(SocketAddr::from((from, 0))).await.unwrap();
        self.socket.writable().await.unwrap();
        self.connection.local_address_changed();
    }

    /// Knows nothing of the connection any more, and says so once to who says something to it.
    pub(crate) async fn forget_and_say_so(&mut self) {
        let mut forgetful = Endpoint::new(Arc::clone(&self.config), None, true, None);
        let mut datagram = vec![0; 65_536];
        loop {
            let (count, from) = self.socket.recv_from(&mut datagram).await.unwrap();
            let (now, bytes) = (Instant::now(), BytesMut::from(&datagram[..count]));
            let mut out = Vec::new();
            if let Some(DatagramEvent::Response(sent)) =
                forgetful.handle(now, from, None, None, bytes, &mut out)
            {
                self.socket.send_to(&out[..sent.size], from).await.unwrap();
                return;
            }
        }
    }

    /// Sends what there is to send, and listens to nobody.
    pub(crate) fn hear_nothing(&mut self) {
        self.step();
    }

    /// Whether the node allows another request.
    pub(crate) fn can_ask(&mut self) -> bool {
        // What is opened for nothing is used by the next request.
        match self.connection.streams().open(Dir::Bi) {
            Some(stream) => {
                self.spare = Some(stream);
                true
            }
            None => false,
        }
    }

    fn take(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut out = Vec::new();
        let bytes = BytesMut::from(datagram);
        let event = self.endpoint.handle(Instant::now(), from, None, None, bytes, &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Reads and writes what can be.
    fn step(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.lost = Some(reason.to_string());
            }
        }
        while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
            self.streams.insert(stream, Came::default());
        }
        for (stream, came) in &mut self.streams {
            let is_ours = stream.initiator() == Side::Client;
            if is_ours {
                let mut half = self.connection.send_stream(*stream);
                while !came.writing.is_empty()
                    && let Ok(count) = half.write(&came.writing)
                {
                    came.writing.drain(..count);
                }
                if came.writing.is_empty() && came.finishes {
                    came.finishes = half.finish().is_err();
                }
            }
            if is_ours && stream.dir() == Dir::Uni {
                continue;
            }
            let mut half = self.connection.recv_stream(*stream);
            let Ok(mut chunks) = half.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => came.bytes.extend_from_slice(&chunk.bytes),
                    Ok(None) => {
                        came.ended = true;
                        break;
                    }
                    Err(ReadError::Blocked) => break,
                    Err(ReadError::Reset(code)) => {
                        came.reset = Some(code.into_inner());
                        break;
                    }
                }
            }
            let _ = chunks.finalize();
        }
        let mut out = Vec::new();
        while let Some(sent) = self.connection.poll_transmit(Instant::now(), 1, &mut out) {
            // A full socket is a way that loses.
            let _ = self.socket.try_send_to(&out[..sent.size], self.to);
            if self.connection.is_handshaking() {
                self.first.push(out[..sent.size].to_vec());
            }
            out.clear();
        }
    }

    /// What came on the node's control stream.
    pub(crate) fn control(&self) -> &[u8] {
        let ours = self
            .streams
            .iter()
            .find(|(stream, _)| stream.dir() == Dir::Uni && stream.initiator() == Side::Server);
        ours.map_or(&[], |(_, came)| &came.bytes)
    }

    /// Ends the connection and lets the node know.
    pub(crate) fn close(&mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0x100), Bytes::new());
        self.step();
    }
}

/// A HEADERS frame of a request.
pub(crate) fn head(method: &str, target: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    head_of(crate::client::HOST, method, target, fields)
}

fn head_of(host: &str, method: &str, target: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", host), (":path", target)];
    fields_frame(&[&pseudo[..], fields].concat())
}

/// A HEADERS frame.
pub(crate) fn fields_frame(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    qpack::begin(&mut block);
    for (name, value) in fields {
        qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
    }
    let mut out = Vec::new();
    write_head(kind::HEADERS, block.len(), &mut out);
    out.extend_from_slice(&block);
    out
}

fn parse(mut bytes: &[u8]) -> Answer {
    let mut answer = Answer {
        status: 0,
        fields: Vec::new(),
        interim: Vec::new(),
        body: Vec::new(),
        trailers: Vec::new(),
    };
    while let Some(head) = Head::read(bytes) {
        let end = head.bytes + usize::try_from(head.len).unwrap();
        let payload = &bytes[head.bytes..end];
        bytes = &bytes[end..];
        if head.kind == kind::DATA {
            answer.body.extend_from_slice(payload);
            continue;
        }
        assert_eq!(head.kind, kind::HEADERS);
        let mut fields = Vec::new();
        qpack::decode(payload, |name, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.push((text(name), text(value)));
        })
        .unwrap();
        let status = fields.iter().find(|field| field.0 == ":status");
        match status.map(|field| field.1.parse::<u16>().unwrap()) {
            Some(status) if status < 200 => answer.interim.push(status),
            Some(status) => (answer.status, answer.fields) = (status, fields),
            None => answer.trailers = fields,
        }
    }
    assert!(bytes.is_empty(), "a frame is cut off");
    answer
}
