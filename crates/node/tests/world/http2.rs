//! HTTP/2 as the world's origins and clients speak it, in the clear and from the first byte: an independent
//! peer of the node's own.

use crate::message::{Ended, Head, Words};
use crate::way::Way;
use bytes::Bytes;
use freshet_net::stream::Stream;
use h2::RecvStream;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::sleep;

/// A connection to a node. Clones are streams of the same.
#[derive(Clone, Debug)]
pub(crate) struct Client(SendRequest<Bytes>);

impl Client {
    /// Begins to speak; none where the connection is lost at once.
    pub(crate) async fn begin(stream: Stream) -> Option<Self> {
        let (send, connection) = h2::client::handshake(stream).await.ok()?;
        spawn_local(async move {
            let _ = connection.await;
        });
        Some(Self(send))
    }

    /// Whether it takes another request.
    pub(crate) async fn is_there(&mut self) -> bool {
        poll_fn(|cx| self.0.poll_ready(cx)).await.is_ok()
    }

    /// Asks, and takes at most `bytes_max` of the body.
    ///
    /// # Errors
    /// No head came.
    pub(crate) async fn ask(
        mut self,
        words: &Words,
        bytes_max: u64,
    ) -> Result<(Head, Vec<u8>, Ended), h2::Error> {
        let uri = format!("http://{}{}", words.host, words.target);
        let mut request = Request::builder().method(words.method).uri(uri);
        for (name, value) in &words.fields {
            request = request.header(*name, value);
        }
        let request = request.body(()).expect("it is well-formed");
        poll_fn(|cx| self.0.poll_ready(cx)).await?;
        let (response, mut body) = self.0.send_request(request, words.body.is_empty())?;
        if !words.body.is_empty() {
            body.send_data(Bytes::from_static(words.body.as_bytes()), true)?;
        }
        let (parts, mut stream) = response.await?.into_parts();
        let first = format!("HTTP/2 {}", parts.status.as_u16());
        let head = Head { first, fields: fields_of(&parts.headers) };
        let mut body = Vec::new();
        let ended = match receive(&mut stream, bytes_max, &mut body).await {
            Ok(()) => Ended::Whole,
            Err(_) => Ended::Broken,
        };
        Ok((head, body, ended))
    }
}

fn fields_of(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| (name.as_str().into(), text(value.as_bytes()))).collect()
}

async fn receive(stream: &mut RecvStream, bytes_max: u64, body: &mut Vec<u8>) -> io::Result<()> {
    while let Some(bytes) = stream.data().await {
        let bytes = bytes.map_err(io::Error::other)?;
        body.extend_from_slice(&bytes);
        if body.len() as u64 > bytes_max {
            return Err(io::ErrorKind::Interrupted.into());
        }
        stream.flow_control().release_capacity(bytes.len()).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Serves a connection as long as it lasts: each request in a task of its own, with the way its response goes,
/// as [`Head`]s of HTTP/1.1 say it.
pub(crate) async fn serve<F>(stream: Stream, answer: impl Fn(Head, Way<'static>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (parts, mut body) = request.into_parts();
        let mut fields = fields_of(&parts.headers);
        if let Some(authority) = parts.uri.authority() {
            fields.push(("host".into(), authority.as_str().into()));
        }
        let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
        let head = Head { first: format!("{} {target} HTTP/2", parts.method), fields };
        let answered = answer(head, Way::Http2(Reply { respond, body: None }));
        spawn_local(async move {
            let _ = receive(&mut body, u64::MAX, &mut Vec::new()).await;
            answered.await;
        });
    }
}

/// A stream that a response goes into.
#[derive(Debug)]
pub(crate) struct Reply {
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
}

impl Reply {
    pub(crate) fn head(
        &mut self,
        status: u16,
        fields: &[(&'static str, String)],
        has_body: bool,
    ) -> io::Result<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, value);
        }
        let response = response.body(()).expect("it is well-formed");
        let body = self.respond.send_response(response, !has_body).map_err(io::Error::other)?;
        self.body = has_body.then_some(body);
        Ok(())
    }

    pub(crate) async fn data(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(body) = &mut self.body else { return Err(io::ErrorKind::NotConnected.into()) };
        while !bytes.is_empty() {
            body.reserve_capacity(bytes.len());
            let room = poll_fn(|cx| body.poll_capacity(cx)).await;
            let room = room.ok_or(io::ErrorKind::BrokenPipe)?.map_err(io::Error::other)?;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if !now.is_empty() {
                body.send_data(Bytes::copy_from_slice(now), false).map_err(io::Error::other)?;
            }
            bytes = later;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        match &mut self.body {
            Some(body) => body.send_data(Bytes::new(), true).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Ends the stream in the middle, once what was sent before is under way: it would be dropped otherwise.
    pub(crate) async fn reset(&mut self) {
        sleep(Duration::from_millis(1)).await;
        match &mut self.body {
            Some(body) => body.send_reset(Reason::INTERNAL_ERROR),
            None => self.respond.send_reset(Reason::INTERNAL_ERROR),
        }
    }
}
