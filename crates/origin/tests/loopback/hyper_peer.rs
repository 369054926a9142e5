//! hyper's server as the origin: HTTP/1 and HTTP/2 that others wrote.

use crate::support::*;
use bytes::Bytes;
use freshet_http::fields::Fields;
use freshet_origin::request_body::WholeBody;
use freshet_origin::{HttpVersion, Origin, OriginSettings, exchange, pool::Pool};
use freshet_wire::h1::Framing;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A tokio socket as hyper wants it.
struct Socket(TcpStream);

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 1024];
        let len = out.remaining().min(bytes.len());
        let mut part = ReadBuf::new(&mut bytes[..len]);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut part))?;
        out.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Data and trailers of a response; its length is declared where `sized`.
struct Reply {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
    sized: bool,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match &self.data {
            Some(data) if self.sized => hyper::body::SizeHint::with_exact(data.len() as u64),
            _ => hyper::body::SizeHint::default(),
        }
    }
}

/// Echoes a body with the request's own trailers behind it; `/sized` declares the length.
async fn echo(request: Request<Incoming>) -> Result<Response<Reply>, Infallible> {
    let sized = request.uri().path() == "/sized";
    let method = request.method().clone();
    let host = match request.uri().authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).expect("a host"),
        None => request.headers()["host"].clone(),
    };
    let mut body = request.into_body();
    let (mut data, mut trailers) = (Vec::new(), None);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.expect("a sound request body").into_data() {
            Ok(piece) => data.extend_from_slice(&piece),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    let reply = Reply { data: Some(data.into()), trailers, sized };
    let response = Response::builder().header("X-Host", host).header("X-Method", method.as_str());
    Ok(response.header("Trailer", "sum").body(reply).expect("a sound response"))
}

/// Runs hyper's streams.
#[derive(Clone)]
struct Tasks;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, stream: F) {
        tokio::spawn(stream);
    }
}

#[tokio::test]
async fn a_foreign_server_of_http2_and_this_client_understand_each_other() {
    let (address, server) = serve(|listener| async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        // Windows that a body passes many times.
        hyper::server::conn::http2::Builder::new(Tasks)
            .initial_stream_window_size(10_000)
            .initial_connection_window_size(20_000)
            .max_frame_size(16_384)
            .serve_connection(Socket(socket), service_fn(echo))
            .await
    })
    .await;
    local(async move {
        let http2 = OriginSettings { http: HttpVersion::Http2, ..settings(address) };
        let (pool, origin) = (Pool::new(), Origin::new(http2).unwrap());
        let exchanges = (0..20).map(|index| {
            let (pool, origin) = (pool.clone(), origin.clone());
            tokio::task::spawn_local(async move {
                let large = index.to_string().repeat(1 + index * 40_000);
                let body = WholeBody::new(large.clone());
                let sized = request("POST", "/sized");
                let asked =
                    exchange(&pool, &origin, &sized, Some(Box::new(body)), &mut |_| {}).await;
                let mut response = asked.unwrap();
                assert_eq!(response.framing, Framing::Length(large.len() as u64));
                assert_eq!(response.head.fields.get("x-host"), Some(&b"tv.example"[..]));
                let mut read = Vec::new();
                let mut part = vec![0; 30_000];
                while let Ok(count @ 1..) = response.body.read(&mut part).await {
                    read.extend_from_slice(&part[..count]);
                }
                assert!(response.body.is_ended() && read == large.as_bytes(), "{index}");
            })
        });
        for exchange in exchanges.collect::<Vec<_>>() {
            exchange.await.unwrap();
        }
        let mut pieces = Pieces::chunked(&["one ", "two ", "three"], End::Clean);
        pieces.trailers = Some([("Sum", "13")].into_iter().collect::<Fields>());
        let mut open = request("PROPFIND", "/");
        open.fields.append("Trailer", "sum");
        open.fields.append("TE", "trailers");
        open.fields.append("Connection", "TE");
        let mut response =
            exchange(&pool, &origin, &open, Some(Box::new(pieces)), &mut |_| {}).await.unwrap();
        assert_eq!(response.head.fields.get("x-method"), Some(&b"PROPFIND"[..]));
        assert_eq!(response.framing, Framing::Chunked);
        assert_eq!(text(&mut response.body).await.unwrap(), "one two three");
        assert_eq!(response.body.trailers().and_then(|all| all.get("sum")), Some(&b"13"[..]));

        let head = request("HEAD", "/sized");
        let response = exchange(&pool, &origin, &head, None, &mut |_| {}).await.unwrap();
        assert_eq!((response.head.status, response.framing), (200, Framing::None));
        assert_eq!((origin.stats.connects.value(), origin.stats.reuses.value()), (1, 21));
        assert_eq!(origin.stats.in_flight.value(), 0);
        drop((response, pool));
        server.await.unwrap().unwrap();
        assert_eq!((origin.stats.open.value(), origin.stats.idle.value()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_foreign_server_and_this_client_understand_each_other() {
    let (address, server) = serve(|listener| async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(Socket(socket), service_fn(echo));
        connection.await
    })
    .await;
    let (pool, origin) = (Pool::new(), origin(address));

    let large = "x".repeat(300_000);
    let body = WholeBody::new(large.clone());
    let sized = request("POST", "/sized");
    let mut response =
        exchange(&pool, &origin, &sized, Some(Box::new(body)), &mut |_| {}).await.unwrap();
    assert_eq!(response.framing, Framing::Length(300_000));
    assert_eq!(response.head.fields.get("x-host"), Some(&b"tv.example"[..]));
    assert!(text(&mut response.body).await.unwrap() == large);

    let mut pieces = Pieces::chunked(&["one ", "two ", "three"], End::Clean);
    pieces.trailers = Some([("Sum", "13")].into_iter().collect::<Fields>());
    let mut chunked = request("PROPFIND", "/");
    // hyper keeps trailers only from those who say that they may come.
    chunked.fields.append("Trailer", "sum");
    chunked.fields.append("TE", "trailers");
    let mut response =
        exchange(&pool, &origin, &chunked, Some(Box::new(pieces)), &mut |_| {}).await.unwrap();
    assert_eq!(response.head.fields.get("x-method"), Some(&b"PROPFIND"[..]));
    assert_eq!(response.framing, Framing::Chunked);
    assert_eq!(text(&mut response.body).await.unwrap(), "one two three");
    assert_eq!(response.body.trailers().and_then(|fields| fields.get("sum")), Some(&b"13"[..]));

    let bodiless = request("HEAD", "/sized");
    let response = exchange(&pool, &origin, &bodiless, None, &mut |_| {}).await.unwrap();
    assert_eq!((response.head.status, response.framing), (200, Framing::None));
    assert_eq!((origin.stats.connects.value(), origin.stats.reuses.value()), (1, 2));
    drop((response, pool));
    server.await.unwrap().unwrap();
}
