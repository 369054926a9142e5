//! Origins that follow a script, over real loopback sockets.

use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead};
use freshet_origin::request_body::{BodyFailure, BodyProvider};
use freshet_origin::response_body::OriginBody;
use freshet_origin::{Origin, OriginError, OriginResponse, OriginSettings, exchange, pool::Pool};
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The server's end of a connection.
pub(crate) struct Peer(pub(crate) TcpStream);

impl Peer {
    pub(crate) async fn accept(listener: &TcpListener) -> Self {
        Self(listener.accept().await.expect("a connection").0)
    }

    /// The next request head, up to its empty line; `None` when the peer closed.
    pub(crate) async fn head(&mut self) -> Option<String> {
        self.until("\r\n\r\n").await
    }

    /// Everything up to `end`, that included.
    pub(crate) async fn until(&mut self, end: &str) -> Option<String> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end.as_bytes()) {
            match self.0.read_u8().await {
                Ok(byte) => bytes.push(byte),
                Err(_) if bytes.is_empty() => return None,
                Err(error) => panic!("after {:?}: {error}", String::from_utf8_lossy(&bytes)),
            }
        }
        Some(String::from_utf8(bytes).expect("tests speak ASCII"))
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("the peer reads");
    }

    /// Answers the next request.
    pub(crate) async fn answer(&mut self, text: &str) -> String {
        let head = self.head().await.expect("a request");
        self.send(text).await;
        head
    }

    /// Waits until the other end closes, in whatever way.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
    }
}

/// Runs `script` with a listener; await the handle to hear of failed assertions.
pub(crate) async fn serve<F, T>(
    script: impl FnOnce(TcpListener) -> F,
) -> (SocketAddr, JoinHandle<T>)
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("it is bound");
    (address, tokio::spawn(script(listener)))
}

/// An origin that gives one answer to one request, then waits for the close.
pub(crate) async fn serve_once(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
    serve(|listener| async move {
        let mut peer = Peer::accept(&listener).await;
        let head = peer.answer(answer).await;
        peer.closed().await;
        head
    })
    .await
}

/// An origin that gives one answer to one request and closes.
pub(crate) async fn serve_and_close(answer: &'static str) -> Arc<Origin> {
    let (address, _) = serve(|listener| async move {
        Peer::accept(&listener).await.answer(answer).await;
    })
    .await;
    origin(address)
}

pub(crate) fn settings(address: SocketAddr) -> OriginSettings {
    format!("http://{address}").parse().expect("an address is an origin")
}

pub(crate) fn origin(address: SocketAddr) -> Arc<Origin> {
    Origin::new(settings(address)).expect("usable settings")
}

pub(crate) fn request(method: &str, target: &str) -> RequestHead {
    RequestHead {
        method: Method::from_name(method),
        authority: "tv.example".into(),
        target: target.into(),
        ..RequestHead::default()
    }
}

pub(crate) async fn get(pool: &Pool, origin: &Arc<Origin>) -> Result<OriginResponse, OriginError> {
    let response = exchange(pool, origin, &request("GET", "/"), None, &mut |_| {}).await;
    response.map(released)
}

/// A response whose connection is free where it has no body.
fn released(mut response: OriginResponse) -> OriginResponse {
    response.body.release();
    response
}

pub(crate) async fn send(
    pool: &Pool,
    origin: &Arc<Origin>,
    method: &str,
    body: impl BodyProvider + 'static,
) -> Result<OriginResponse, OriginError> {
    let body: Box<dyn BodyProvider> = Box::new(body);
    exchange(pool, origin, &request(method, "/"), Some(body), &mut |_| {}).await.map(released)
}

/// The whole body as text, read in small steps.
pub(crate) async fn text(body: &mut OriginBody) -> Result<String, OriginError> {
    let (mut out, mut part) = (Vec::new(), [0; 7]);
    loop {
        match body.read(&mut part).await? {
            0 => return Ok(String::from_utf8(out).expect("tests speak ASCII")),
            count => out.extend_from_slice(&part[..count]),
        }
    }
}

/// Runs what has tasks that stay on their thread, as connections of HTTP/2 are.
pub(crate) async fn local<F: Future>(test: F) -> F::Output {
    tokio::task::LocalSet::new().run_until(test).await
}

/// A body of prepared pieces, of known length or chunked; then its end, a failure, or silence.
pub(crate) struct Pieces {
    pub(crate) length: Option<u64>,
    pub(crate) pieces: VecDeque<Bytes>,
    pub(crate) end: End,
    pub(crate) trailers: Option<Fields>,
}

pub(crate) enum End {
    Clean,
    Fails,
    Hangs,
}

impl Pieces {
    pub(crate) fn chunked(pieces: &[&'static str], end: End) -> Self {
        let pieces = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect();
        Self { length: None, pieces, end, trailers: None }
    }
}

impl BodyProvider for Pieces {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyFailure>> {
        match (self.pieces.pop_front(), &self.end) {
            (Some(piece), _) => Poll::Ready(Ok(Some(piece))),
            (None, End::Clean) => Poll::Ready(Ok(None)),
            (None, End::Fails) => {
                Poll::Ready(Err(BodyFailure { reason: "the client left".into() }))
            }
            (None, End::Hangs) => Poll::Pending,
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}
