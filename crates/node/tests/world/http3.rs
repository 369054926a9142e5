//! HTTP/3 as the world's clients speak it: quinn's QUIC, with frames of their own.

use crate::entity::SITES;
use crate::message::{Ended, Head, Words};
use freshet_net::simulation::{Datagrams, Network};
use freshet_wire::h3::frame::{self, kind, write_head};
use freshet_wire::h3::{Code, qpack};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, ConnectionId, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, ReadError, StreamId, VarInt,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::RootCertStore;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tempfile::TempDir;
use tokio::task::spawn_local;
use tokio::time::{Sleep, sleep_until};

/// Longest datagram that is read.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// The certificate of all nodes of a world, and who trusts it.
pub(crate) struct Trust {
    files: TempDir,
    client: Arc<QuicClientConfig>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    pub(crate) fn new() -> Self {
        // The signatures of this kind all have the same length, so that worlds are the same twice.
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("there is chance");
        let names = SITES.map(String::from).to_vec();
        let certificate = CertificateParams::new(names).and_then(|names| names.self_signed(&key));
        let certificate = certificate.expect("names are well-formed");
        let files = tempfile::tempdir().expect("there is room for files");
        let write = |name, text| fs::write(files.path().join(name), text);
        let written = write("cert.pem", certificate.pem());
        written.and_then(|()| write("key.pem", key.serialize_pem())).expect("there is room");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("it is one");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("it is there")
            .with_root_certificates(roots);
        let mut tls = tls.with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        // What is remembered of sessions would be of one world's clients to another's.
        tls.resumption = rustls::client::Resumption::disabled();
        let client = QuicClientConfig::try_from(tls).expect("it has what QUIC needs");
        Self { files, client: Arc::new(client) }
    }

    /// What a node's configuration says of it.
    pub(crate) fn configured(&self, address: SocketAddr) -> String {
        let file = |name| self.files.path().join(name).display().to_string();
        let (cert, key) = (file("cert.pem"), file("key.pem"));
        format!(
            "[[listen]]\naddress = \"{address}\"\ntls = true\n\
             [[certificate]]\ncert = \"{cert}\"\nkey = \"{key}\"\n"
        )
    }
}

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The connection ended before there was one, as it may.
    Ended,
    /// It was lost, or the stream was reset, for this reason.
    Lost(String),
}

/// A connection to a node. Clones are streams of the same.
#[derive(Clone, Debug)]
pub(crate) struct Client(Rc<RefCell<State>>);

#[derive(Debug)]
struct State {
    socket: Datagrams,
    to: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    streams: BTreeMap<StreamId, Stream>,
    /// Why it is over; nothing in there where it ended as it may.
    over: Option<Option<String>>,
    /// Who sends and receives for all, and who waits for the connection.
    driver: Option<Waker>,
    waiting: Vec<Waker>,
}

/// What came on a stream, and what is still to be written to it.
#[derive(Debug, Default)]
struct Stream {
    came: Vec<u8>,
    writing: Vec<u8>,
    has_ended: bool,
    reset: Option<u64>,
    reader: Option<Waker>,
}

impl Client {
    /// Shakes hands; none where that fails.
    pub(crate) async fn begin(
        network: &Network,
        trust: &Trust,
        (from, to): (IpAddr, SocketAddr),
        seed: u64,
    ) -> Option<Self> {
        let mut config = ClientConfig::new(Arc::clone(&trust.client) as _);
        config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&seed.to_ne_bytes())));
        let mut chance = [0; 32];
        chance[..8].copy_from_slice(&seed.to_ne_bytes());
        let settings = Arc::new(EndpointConfig::default());
        let mut endpoint = Endpoint::new(settings, None, true, Some(chance));
        let (handle, connection) = endpoint.connect(now(), config, to, SITES[0]).ok()?;
        let socket = network.bind(SocketAddr::new(from, 0)).ok()?;
        let client = Self(Rc::new(RefCell::new(State {
            socket,
            to,
            endpoint,
            handle,
            connection,
            streams: BTreeMap::new(),
            over: None,
            driver: None,
            waiting: Vec::new(),
        })));
        spawn_local(drive(Rc::clone(&client.0)));
        let is_there = poll_fn(|cx| client.0.borrow_mut().poll_established(cx)).await;
        is_there.then_some(())?;
        // A control stream with settings that say nothing.
        let mut state = client.0.borrow_mut();
        state.open(Dir::Uni, vec![0, kind::SETTINGS as u8, 0])?;
        drop(state);
        Some(client)
    }

    /// Whether it takes another request.
    pub(crate) fn is_there(&self) -> bool {
        self.0.borrow().over.is_none()
    }

    /// Asks, and takes at most `bytes_max` of the body.
    ///
    /// # Errors
    /// No head came.
    pub(crate) async fn ask(
        self,
        words: &Words,
        bytes_max: u64,
    ) -> Result<(Head, Vec<u8>, Ended), Failed> {
        let mut request = Some(written(words));
        let stream = poll_fn(|cx| self.0.borrow_mut().poll_open(cx, &mut request)).await;
        let Some(stream) = stream else { return Err(self.0.borrow().failed(None)) };
        let mut response = Response::default();
        let ended =
            poll_fn(|cx| self.0.borrow_mut().poll_read(cx, stream, &mut response, bytes_max));
        let ended = ended.await;
        let state = &mut *self.0.borrow_mut();
        state.leave(stream);
        let Some(head) = response.head else {
            let reset = state.streams.remove(&stream).and_then(|stream| stream.reset);
            return Err(state.failed(reset));
        };
        state.streams.remove(&stream);
        let has_body = words.method != "HEAD" && !matches!(head.status(), 204 | 304);
        let promised = head.number("content-length").filter(|_| has_body);
        // What is not as long as it says is malformed (RFC 9114 §4.1.2).
        let is_as_long = promised.is_none_or(|bytes| bytes == response.body.len() as u64);
        let ended = if is_as_long { ended } else { Ended::Broken };
        Ok((head, response.body, ended))
    }
}

/// What came of a response.
#[derive(Debug, Default)]
struct Response {
    head: Option<Head>,
    body: Vec<u8>,
    /// Bytes of the frame that is under way.
    left: u64,
}

impl Response {
    /// Takes what there is of frames; whether that is well-formed.
    fn take(&mut self, came: &mut Vec<u8>) -> bool {
        loop {
            if self.left > 0 {
                let now = came.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.body.extend(came.drain(..now));
                self.left -= now as u64;
            }
            let Some(frame) = frame::Head::read(came) else { return true };
            match frame.kind {
                kind::DATA => {
                    came.drain(..frame.bytes);
                    self.left = frame.len;
                }
                kind::HEADERS => {
                    let end = frame.bytes + usize::try_from(frame.len).unwrap_or(usize::MAX);
                    let Some(block) = came.get(frame.bytes..end) else { return true };
                    let Some(head) = head_of(block) else { return false };
                    came.drain(..end);
                    // Trailers have no status, interim responses one below 200.
                    if self.head.is_none() && head.status() >= 200 {
                        self.head = Some(head);
                    }
                }
                _ => return false,
            }
        }
    }
}

fn head_of(block: &[u8]) -> Option<Head> {
    let mut head = Head::default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let decoded = qpack::decode(block, |name, value| match name {
        b":status" => head.first = format!("HTTP/3 {}", text(value)),
        _ => head.fields.push((text(name), text(value))),
    });
    decoded.ok().map(|_| head)
}

/// A request, in frames.
fn written(words: &Words) -> Vec<u8> {
    let mut block = Vec::new();
    qpack::begin(&mut block);
    let pseudo = [
        (":method", words.method),
        (":scheme", "https"),
        (":authority", words.host),
        (":path", &*words.target),
    ];
    for (name, value) in pseudo {
        qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
    }
    for (name, value) in &words.fields {
        let name = name.to_ascii_lowercase();
        qpack::encode(name.as_bytes(), value.as_bytes(), false, &mut block);
    }
    let mut out = Vec::new();
    write_head(kind::HEADERS, block.len(), &mut out);
    out.extend_from_slice(&block);
    if !words.body.is_empty() {
        write_head(kind::DATA, words.body.len(), &mut out);
        out.extend_from_slice(words.body.as_bytes());
    }
    out
}

/// Sends and receives for a connection until it is lost, or nobody has it any more.
async fn drive(state: Rc<RefCell<State>>) {
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    let mut timer = Box::pin(sleep_until(tokio::time::Instant::now()));
    poll_fn(|cx| {
        // Who asks has another one.
        let is_wanted = Rc::strong_count(&state) > 1;
        let state = &mut *state.borrow_mut();
        if !is_wanted {
            state.connection.close(now(), VarInt::from_u32(Code::NoError as u32), "".into());
            state.send();
            return Poll::Ready(());
        }
        state.poll(cx, &mut datagram, timer.as_mut())
    })
    .await;
}

impl State {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        datagram: &mut [u8],
        mut timer: std::pin::Pin<&mut Sleep>,
    ) -> Poll<()> {
        self.driver = Some(cx.waker().clone());
        while let Poll::Ready((from, count)) = self.socket.poll_receive(cx, datagram) {
            let (mut out, bytes) = (Vec::new(), datagram[..count].into());
            let event = self.endpoint.handle(now(), from, None, None, bytes, &mut out);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        loop {
            self.step();
            self.send();
            let Some(at) = self.connection.poll_timeout() else { break };
            timer.as_mut().reset(at.into());
            if timer.as_mut().poll(cx).is_pending() {
                break;
            }
            self.connection.handle_timeout(now());
        }
        if self.over.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes what came, and writes what is to be written.
    fn step(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let mut wakes = false;
        while let Some(event) = self.connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.over = Some(match reason {
                    ConnectionError::ApplicationClosed(close)
                        if close.error_code.into_inner() == Code::NoError as u64 =>
                    {
                        None
                    }
                    other => Some(other.to_string()),
                });
            }
            wakes = true;
        }
        while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
            self.streams.insert(stream, Stream::default());
        }
        for (number, stream) in &mut self.streams {
            if !stream.writing.is_empty() {
                let mut way = self.connection.send_stream(*number);
                while !stream.writing.is_empty()
                    && let Ok(count) = way.write(&stream.writing)
                {
                    stream.writing.drain(..count);
                }
                if stream.writing.is_empty() && number.dir() == Dir::Bi {
                    let _ = way.finish();
                }
            }
            let is_own_way = number.dir() == Dir::Uni && number.initiator().is_client();
            let has_come = !is_own_way && stream.read(self.connection.recv_stream(*number));
            if has_come || self.over.is_some() {
                wakes |= stream.reader.is_some();
                stream.reader.take().into_iter().for_each(Waker::wake);
            }
        }
        if wakes {
            self.waiting.drain(..).for_each(Waker::wake);
        }
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        while let Some(sent) = self.connection.poll_transmit(now(), 1, &mut out) {
            self.socket.send(self.to, &out[..sent.size]);
            out.clear();
        }
    }

    fn poll_established(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.over.is_some() || !self.connection.is_handshaking() {
            return Poll::Ready(self.over.is_none());
        }
        self.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Opens a stream for a request; none where the connection is lost.
    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        request: &mut Option<Vec<u8>>,
    ) -> Poll<Option<StreamId>> {
        if self.over.is_some() {
            return Poll::Ready(None);
        }
        if let Some(written) = request.take() {
            match self.open(Dir::Bi, written.clone()) {
                Some(stream) => return Poll::Ready(Some(stream)),
                None => *request = Some(written),
            }
        }
        self.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    fn open(&mut self, way: Dir, writing: Vec<u8>) -> Option<StreamId> {
        let stream = self.connection.streams().open(way)?;
        self.streams.insert(stream, Stream { writing, ..Stream::default() });
        self.driver.take().into_iter().for_each(Waker::wake);
        Some(stream)
    }

    /// Reads a response to its end, or as much of it as is wanted.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        number: StreamId,
        response: &mut Response,
        bytes_max: u64,
    ) -> Poll<Ended> {
        let Some(stream) = self.streams.get_mut(&number) else { return Poll::Ready(Ended::Broken) };
        let is_well_formed = response.take(&mut stream.came);
        let is_enough = response.body.len() as u64 > bytes_max;
        if !is_well_formed || is_enough || stream.reset.is_some() || self.over.is_some() {
            return Poll::Ready(Ended::Broken);
        }
        if stream.has_ended {
            let is_whole = stream.came.is_empty() && response.left == 0;
            return Poll::Ready(if is_whole { Ended::Whole } else { Ended::Broken });
        }
        stream.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Why there is no response, on a stream that ended so.
    fn failed(&self, reset: Option<u64>) -> Failed {
        match (reset, &self.over) {
            // It may be sent again.
            (Some(code), _) if code == Code::RequestRejected as u64 => Failed::Ended,
            (Some(code), _) => Failed::Lost(format!("reset with {code:#x}")),
            (None, Some(None)) => Failed::Ended,
            (None, Some(Some(why))) => Failed::Lost(why.clone()),
            (None, None) => Failed::Lost("it has no head".into()),
        }
    }

    /// Wants no more of a response.
    fn leave(&mut self, stream: StreamId) {
        let code = VarInt::from_u32(Code::RequestCancelled as u32);
        // It may have ended, and is not there any more then.
        let _ = self.connection.recv_stream(stream).stop(code);
        self.driver.take().into_iter().for_each(Waker::wake);
    }
}

impl Stream {
    /// Takes what came; whether that was anything.
    fn read(&mut self, mut way: quinn_proto::RecvStream<'_>) -> bool {
        if self.has_ended || self.reset.is_some() {
            return false;
        }
        let Ok(mut chunks) = way.read(true) else { return false };
        let before = self.came.len();
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.came.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    self.has_ended = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    self.reset = Some(code.into_inner());
                    break;
                }
            }
        }
        let _ = chunks.finalize();
        self.came.len() > before || self.has_ended || self.reset.is_some()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
