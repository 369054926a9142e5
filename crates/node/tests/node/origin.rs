//! An origin on a thread of its own that does what a test tells it, or answers by a function. It
//! keeps every request it got.

use crate::client::Head;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use rustls::ServerConfig;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;

/// A request an origin got.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// Which connection it came over, from 0.
    pub(crate) connection: usize,
    /// Whole for origins that answer by a function.
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.head.line.split(' ').next().unwrap()
    }

    pub(crate) fn target(&self) -> &str {
        self.head.line.split(' ').nth(1).unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    /// First and last byte of a `Range` with both.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

enum Command {
    Send(Vec<u8>),
    Close,
}

/// A request that waits for what the test has the origin do.
pub(crate) struct Asked {
    pub(crate) request: Request,
    body: UnboundedReceiver<Vec<u8>>,
    commands: UnboundedSender<Command>,
    closed: watch::Receiver<bool>,
}

impl Asked {
    /// Sends bytes behind those sent before.
    pub(crate) fn send(&self, bytes: impl Into<Vec<u8>>) {
        let _ = self.commands.send(Command::Send(bytes.into()));
    }

    /// Ends the connection behind what was sent.
    pub(crate) fn close(&self) {
        let _ = self.commands.send(Command::Close);
    }

    /// Waits until the node has ended the connection.
    pub(crate) async fn closed(&mut self) {
        let _ = self.closed.wait_for(|closed| *closed).await;
    }

    /// Whether the node has ended the connection.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// The next bytes of the request's body, as framed; `None` at its end.
    pub(crate) async fn some_body(&mut self) -> Option<Vec<u8>> {
        self.body.recv().await
    }

    /// The rest of the body.
    pub(crate) async fn whole_body(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.body.recv().await {
            whole.extend_from_slice(&bytes);
        }
        whole
    }
}

/// What an origin by function does with a request.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    close: bool,
}

impl From<Vec<u8>> for Reply {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, close: false }
    }
}

/// These bytes, then the end of the connection.
pub(crate) fn then_close(bytes: impl Into<Vec<u8>>) -> Reply {
    Reply { bytes: bytes.into(), close: true }
}

/// A response of this status line (from the number on), with `Content-Length` and these field
/// lines.
pub(crate) fn response(status: &str, fields: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = head(status, fields, Some(body.len() as u64));
    out.extend_from_slice(body);
    out
}

/// A head alone; without `length` there is no framing but what `fields` say.
pub(crate) fn head(status: &str, fields: &[&str], length: Option<u64>) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status}\r\n");
    if let Some(length) = length {
        out.push_str(&format!("Content-Length: {length}\r\n"));
    }
    for field in fields {
        out.push_str(&format!("{field}\r\n"));
    }
    out.push_str("\r\n");
    out.into_bytes()
}

/// A 200 that is fresh for an hour.
pub(crate) fn fresh(body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", &["Cache-Control: max-age=3600"], body)
}

/// The part of `whole` that a request asks for, as a server with this entity tag does it.
pub(crate) fn ranged(request: &Request, whole: &[u8], etag: &str, fields: &[&str]) -> Vec<u8> {
    let tag = format!("ETag: {etag}");
    let mut lines = vec![tag.as_str()];
    lines.extend_from_slice(fields);
    let same = request.field("if-range").is_none_or(|wanted| wanted == etag);
    match request.range().filter(|_| same) {
        None => response("200 OK", &lines, whole),
        Some((first, last)) => {
            let total = whole.len() as u64;
            let last = last.min(total - 1);
            let range = format!("Content-Range: bytes {first}-{last}/{total}");
            lines.push(&range);
            let (first, last) = (usize::try_from(first).unwrap(), usize::try_from(last).unwrap());
            response("206 Partial Content", &lines, &whole[first..=last])
        }
    }
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    connections: usize,
}

/// The origin.
pub(crate) struct Origin {
    pub(crate) address: Address,
    tls: bool,
    asked: UnboundedReceiver<Asked>,
    log: Arc<Mutex<Log>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

type Handler = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

impl Origin {
    /// An origin whose requests wait in [`Origin::next`].
    pub(crate) fn scripted() -> Self {
        Self::start(Address::Tcp(([127, 0, 0, 1], 0).into()), None, None)
    }

    /// An origin that answers by itself.
    pub(crate) fn serve<R: Into<Reply>>(
        handler: impl Fn(&Request) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::serve_at(Address::Tcp(([127, 0, 0, 1], 0).into()), None, handler)
    }

    pub(crate) fn serve_at<R: Into<Reply>>(
        address: Address,
        tls: Option<Arc<ServerConfig>>,
        handler: impl Fn(&Request) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::start(address, tls, Some(Arc::new(move |request| handler(request).into())))
    }

    fn start(address: Address, tls: Option<Arc<ServerConfig>>, handler: Option<Handler>) -> Self {
        let (out, asked) = unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let log = Arc::<Mutex<Log>>::default();
        let kept = Arc::clone(&log);
        let is_tls = tls.is_some();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(Default::default())
                .unwrap();
            runtime.block_on(async {
                let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
                tell.send(listener.local_address().clone()).unwrap();
                tokio::select! {
                    () = accept(listener, tls, out, handler, kept) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("the origin has its address");
        Self { address, tls: is_tls, asked, log, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        match &self.address {
            Address::Tcp(address) if self.tls => format!("https://localhost:{}", address.port()),
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Asked {
        self.asked.recv().await.expect("the origin runs")
    }

    /// Whether there is no further request now.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.asked.is_empty()
    }

    /// Requests so far.
    pub(crate) fn count(&self) -> usize {
        self.log.lock().unwrap().requests.len()
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().requests.clone()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    /// Ends it with all its connections; its port refuses from now on.
    pub(crate) fn kill(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the origin did not panic");
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port of loopback that refuses connections: taken and let go just now.
pub(crate) fn refusing() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn accept(
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    asked: UnboundedSender<Asked>,
    handler: Option<Handler>,
    log: Arc<Mutex<Log>>,
) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let number = {
            let mut log = log.lock().unwrap();
            log.connections += 1;
            log.connections - 1
        };
        let place = Place { asked: asked.clone(), handler: handler.clone(), log: Arc::clone(&log) };
        let stream = stream(socket, tls.clone());
        spawn_local(async move {
            if let Some(stream) = stream.await {
                connection(stream, number, place).await;
            }
        });
    }
}

async fn stream(socket: Socket, tls: Option<Arc<ServerConfig>>) -> Option<Stream> {
    let Some(config) = tls else { return Some(Stream::from(socket)) };
    freshet_net::tls::server::accept(socket, &config, Duration::from_secs(30)).await.ok()
}

struct Place {
    asked: UnboundedSender<Asked>,
    handler: Option<Handler>,
    log: Arc<Mutex<Log>>,
}

async fn connection(stream: Stream, number: usize, place: Place) {
    let (mut read, write) = split(stream);
    let (commands, told) = unbounded_channel();
    let (close, closed) = watch::channel(false);
    let gone = Rc::new(Cell::new(false));
    spawn_local(do_as_told(write, told));
    let mut input = Vec::new();
    while let Some(head) = read_head(&mut read, &mut input).await {
        let request = Request { head, connection: number, body: Vec::new() };
        let (more, body) = unbounded_channel();
        let mut asked = Asked {
            request: request.clone(),
            body,
            commands: commands.clone(),
            closed: closed.clone(),
        };
        place.log.lock().unwrap().requests.push(request.clone());
        match place.handler.clone() {
            None => {
                let _ = place.asked.send(asked);
            }
            Some(handler) => {
                let gone = Rc::clone(&gone);
                spawn_local(async move {
                    asked.request.body = asked.whole_body().await;
                    if gone.get() {
                        return;
                    }
                    let reply = handler(&asked.request);
                    asked.send(reply.bytes);
                    if reply.close {
                        asked.close();
                    }
                });
            }
        }
        if !forward_body(&request, &mut read, &mut input, &more).await {
            break;
        }
    }
    gone.set(true);
    let _ = close.send(true);
}

async fn do_as_told(mut write: WriteHalf<Stream>, mut told: UnboundedReceiver<Command>) {
    while let Some(command) = told.recv().await {
        match command {
            Command::Send(bytes) => {
                if write.write_all(&bytes).await.is_err() || write.flush().await.is_err() {
                    return;
                }
            }
            Command::Close => {
                let _ = write.shutdown().await;
                return;
            }
        }
    }
}

async fn fill(read: &mut ReadHalf<Stream>, input: &mut Vec<u8>) -> bool {
    matches!(read.read_buf(input).await, Ok(count) if count > 0)
}

async fn read_head(read: &mut ReadHalf<Stream>, input: &mut Vec<u8>) -> Option<Head> {
    loop {
        if let Some(head) = Head::take(input) {
            return Some(head);
        }
        if !fill(read, input).await {
            return None;
        }
    }
}

/// Hands on the body as it comes; false when the connection has ended.
async fn forward_body(
    request: &Request,
    read: &mut ReadHalf<Stream>,
    input: &mut Vec<u8>,
    more: &UnboundedSender<Vec<u8>>,
) -> bool {
    let mut left = match request.field("content-length") {
        _ if request.field("upgrade").is_some() => usize::MAX,
        Some(length) => length.parse().unwrap(),
        None if request.field("transfer-encoding").is_some() => usize::MAX,
        None => 0,
    };
    let chunked = request.field("transfer-encoding").is_some();
    let mut tail = Vec::new();
    while left > 0 {
        if input.is_empty() && !fill(read, input).await {
            return false;
        }
        let bytes: Vec<u8> = input.drain(..input.len().min(left)).collect();
        left -= bytes.len();
        tail.extend_from_slice(&bytes);
        // A body of one of the tests never has these bytes at the end of a piece but at its own.
        if chunked && tail.ends_with(b"0\r\n\r\n") {
            left = 0;
        }
        let keep = tail.len().saturating_sub(8);
        tail.drain(..keep);
        let _ = more.send(bytes);
    }
    true
}
