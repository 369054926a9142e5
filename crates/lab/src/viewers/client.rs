//! One viewer's HTTP client: a keep-alive connection, made again when it has gone.

use super::Target;
use super::boxes::Boxes;
use super::meter::Meter;
use super::words::Fields;
use bytes::Bytes;
use freshet_media::Unreadable;
use freshet_media::limits::MANIFEST_BYTES_MAX;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a connection, with its handshake, may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a response may take as a whole; the longest segments here last half as long.
const RESPONSE_MAX: Duration = Duration::from_secs(60);

/// Why a viewer did not get what it asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// No connection, or no handshake.
    Connect,
    /// Another status than 200.
    Status(u16),
    /// A response that ended early, broke HTTP or took too long.
    Transfer,
    /// A manifest that makes no sense.
    Manifest,
}

impl From<Unreadable> for Fault {
    fn from(_: Unreadable) -> Self {
        Self::Manifest
    }
}

/// The client of one viewer.
#[derive(Debug)]
pub(super) struct Client {
    target: Arc<Target>,
    meter: Arc<Meter>,
    connection: Option<SendRequest<Nothing>>,
    /// What it says of its player with each request.
    words: Fields,
}

impl Client {
    pub(super) fn new(target: Arc<Target>, meter: Arc<Meter>) -> Self {
        Self { target, meter, connection: None, words: Fields::new() }
    }

    /// Says this with each request from now on.
    pub(super) fn say(&mut self, words: Fields) {
        self.words = words;
    }

    /// Host and port as requests name them.
    pub(super) fn authority(&self) -> &str {
        &self.target.authority
    }

    /// Fetches a manifest.
    pub(super) async fn manifest(&mut self, path: &str) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        self.fetch(path, |piece| {
            bytes.extend_from_slice(piece);
            if bytes.len() > MANIFEST_BYTES_MAX { Err(Fault::Manifest) } else { Ok(()) }
        })
        .await?;
        Ok(bytes)
    }

    /// Fetches something only to have fetched it; how many bytes it had.
    pub(super) async fn discard(&mut self, path: &str) -> Result<u64, Fault> {
        self.chunks(path, |_| {}).await
    }

    /// The same, and tells how many chunks of media have come whole, as they do.
    pub(super) async fn chunks(
        &mut self,
        path: &str,
        mut came: impl FnMut(u32),
    ) -> Result<u64, Fault> {
        let (mut bytes, mut boxes) = (0, Boxes::default());
        self.fetch(path, |piece| {
            bytes += piece.len() as u64;
            came(boxes.add(piece));
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    async fn fetch(
        &mut self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut has_begun = false;
        let fetched = timeout(RESPONSE_MAX, self.exchange(path, &mut take, &mut has_begun)).await;
        let fetched = fetched.unwrap_or(Err(Fault::Transfer));
        if !has_begun {
            self.meter.unanswered.add(1);
        }
        // After a status the connection is still in step, after anything else it is not.
        if fetched.is_err_and(|fault| !matches!(fault, Fault::Status(_))) {
            self.connection = None;
        }
        fetched
    }

    async fn exchange(
        &mut self,
        path: &str,
        take: &mut impl FnMut(&[u8]) -> Result<(), Fault>,
        has_begun: &mut bool,
    ) -> Result<(), Fault> {
        let was_open = self.connection.is_some();
        let mut sent = Instant::now();
        let response = match self.send(path).await {
            // The other side may close a connection between two requests; that is no fault.
            Err(Fault::Transfer) if was_open => {
                self.connection = None;
                sent = Instant::now();
                self.send(path).await?
            }
            other => other?,
        };
        *has_begun = true;
        self.meter.record_first_byte(sent.elapsed());
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(piece) = frame.map_err(|_| Fault::Transfer)?.into_data() else { continue };
            self.meter.body_bytes.add(piece.len() as u64);
            if status == StatusCode::OK {
                take(&piece)?;
            }
        }
        if status == StatusCode::OK { Ok(()) } else { Err(Fault::Status(status.as_u16())) }
    }

    async fn send(&mut self, path: &str) -> Result<Response<Incoming>, Fault> {
        let mut request = Request::get(path)
            .header(header::HOST, &self.target.authority)
            .header(header::USER_AGENT, "freshet-lab");
        for (name, value) in &self.words {
            request = request.header(*name, value);
        }
        let request = request.body(Nothing).map_err(|_| Fault::Manifest)?;
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.target, &self.meter).await?),
        };
        connection.ready().await.map_err(|_| Fault::Transfer)?;
        connection.send_request(request).await.map_err(|_| Fault::Transfer)
    }
}

async fn connect(target: &Target, meter: &Meter) -> Result<SendRequest<Nothing>, Fault> {
    let socket = Socket::connect(&target.address, CONNECT_MAX).await.map_err(|error| {
        tracing::debug!(%error, "a viewer cannot connect");
        Fault::Connect
    })?;
    let stream: Stream = match &target.tls {
        None => socket.into(),
        Some(tls) => tls::client::connect(socket, &tls.config, &tls.server_name, CONNECT_MAX)
            .await
            .map_err(|error| {
                tracing::debug!(%error, "a viewer's handshake failed");
                Fault::Connect
            })?,
    };

    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|_| Fault::Connect)?;
    meter.connections.add(1);
    // It ends when the sender is dropped; what it has to say, the sender says as well.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The body of a GET.
#[derive(Debug)]
struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(0)
    }
}
