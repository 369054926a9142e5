//! HTTP/2 connections: the `h2` crate frames, a task serves each stream.

use super::deadline::Deadline;
use super::finish::Sent;
use super::gathered::gather;
use super::h2_body::H2Body;
use super::h2_head;
use crate::body::RequestBody;
use crate::client::Client;
use crate::delivery::{Chunk, ResponseBody};
use crate::exchange::{Either, Facts, Interim, Request, Response, Working};
use crate::request;
use crate::worker::Worker;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{Method, ResponseHead, Scheme};
use freshet_http::reason::Reason as RequestReason;
use freshet_net::stream::Stream;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Window of each stream and of the connection for uploads: 1 MiB fills a 100 Mbit/s path of 80 ms.
const WINDOW_BYTES: u32 = 1 << 20;
/// A stream's send buffer in `h2`: one piece under way while the next is read.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Streams reset by the client within h2's window before the connection is ended; the defence
/// against rapid reset (CVE-2023-44487).
const RESET_STREAMS_MAX: usize = 64;
/// How often a connection with open streams looks whether it has become idle.
const STREAMS_OPEN_CHECK: Duration = Duration::from_secs(60);

/// Serves the connection until it ends. `first_bytes` were read from it already.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    stream: Stream,
    client: Rc<Client>,
    first_bytes: Vec<u8>,
) {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    let (gathered, sender) = gather(stream, first_bytes);
    let mut builder = h2::server::Builder::new();
    // What Varnish's clients see first is its settings alone: a larger window of the connection
    // would be told right behind them.
    if !snapshot.policy.decides_all() {
        builder.initial_connection_window_size(WINDOW_BYTES);
    }
    let handshake = builder
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_window_size(WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .handshake::<_, Bytes>(gathered);
    let handshake = tokio::time::timeout(limits.request_timeout, sender.after(handshake));
    let Ok(Ok(mut connection)) = handshake.await else { return };
    let mut deadline = Deadline::new();
    let open = Rc::new(Open::default());
    let mut draining = false;
    let mut told_to_go = false;
    loop {
        // While streams are open, each has its own time limits.
        let idle = if open.streams.get() == 0 { limits.idle_timeout } else { STREAMS_OPEN_CHECK };
        let accepted = tokio::select! {
            biased;
            accepted = deadline.within(idle, sender.after(connection.accept())) => accepted,
            () = worker.drained(), if !draining => {
                draining = true;
                connection.graceful_shutdown();
                continue;
            }
            // The time without streams begins.
            () = open.emptied.notified() => continue,
        };
        if !draining && sender.is_worn() {
            draining = true;
            connection.graceful_shutdown();
        }
        match accepted {
            Ok(Some(Ok((request, respond)))) => {
                let (worker, client) = (Rc::clone(&worker), Rc::clone(&client));
                let open = Rc::clone(&open);
                open.streams.set(open.streams.get() + 1);
                tokio::task::spawn_local(async move {
                    stream_task(worker, client, request, respond).await;
                    open.streams.set(open.streams.get() - 1);
                    if open.streams.get() == 0 {
                        open.emptied.notify_one();
                    }
                });
            }
            Ok(Some(Err(error))) => {
                if error.is_go_away() || error.is_library() {
                    worker.stats.h2_goaway.increment();
                }
                return;
            }
            Ok(None) => return,
            Err(_) if open.streams.get() == 0 && told_to_go => {
                worker.stats.timeouts.increment();
                return;
            }
            Err(_) if open.streams.get() == 0 => {
                (draining, told_to_go) = (true, true);
                connection.graceful_shutdown();
            }
            Err(_) => {}
        }
    }
}

/// Streams of one connection that are being served.
#[derive(Default)]
struct Open {
    streams: Cell<usize>,
    emptied: Notify,
}

async fn stream_task(
    worker: Rc<Worker>,
    client: Rc<Client>,
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    let (parts, stream) = request.into_parts();
    let scheme = if client.tls.is_some() { Scheme::Https } else { Scheme::Http };
    let head = match h2_head::request(&parts, scheme, limits, !snapshot.policy.decides_all()) {
        Ok(head) => head,
        Err(refusal) => {
            worker.stats.requests_refused.increment();
            return match refusal {
                h2_head::Refusal::Malformed => respond.send_reset(Reason::PROTOCOL_ERROR),
                h2_head::Refusal::Status(status) => {
                    let _ = respond.send_response(h2_head::empty(status), true);
                }
            };
        }
    };
    let length = head.fields.get_str("content-length").and_then(|text| text.parse().ok());
    if length.is_some_and(|length: u64| length > limits.body_bytes_max) {
        let _ = respond.send_response(h2_head::empty(413), true);
        return;
    }
    let body = (!stream.is_end_stream())
        .then(|| RequestBody::H2(H2Body::new(stream, length, limits.body_bytes_max)));
    let is_head = head.method == Method::Head;
    let mut sent = Sent::begin(&worker, &head, &client, 0);
    let interim = Interim::default();
    let request = Request {
        id: sent.id,
        transcript: Rc::clone(&sent.transcript),
        head,
        body,
        upgrade: false,
        client,
        received: UnixMillis::now(),
        started: Instant::now(),
        interim: interim.clone(),
        nesting: None,
    };
    let response = {
        let work = pin!(request::handle(&worker, request));
        let mut working = Working::new(work, &interim);
        loop {
            let next = tokio::select! {
                biased;
                next = working.next() => next,
                // The client does not want it any more; others may, and then its fetch goes on.
                _ = poll_fn(|cx| respond.poll_reset(cx)) => {
                    let facts = Facts::local(RequestReason::ClientGone);
                    sent.end(&worker, &ResponseHead::default(), &facts, true);
                    return;
                }
            };
            match next {
                Either::Done(response) => break response,
                Either::Interim(head) => {
                    let _ = respond.send_informational(h2_head::response(&head, None));
                }
            }
        }
    };
    let Response { mut head, mut body, length, facts, .. } = response;
    let bodiless = is_head || matches!(head.status, 204 | 304) || length == Some(0);
    let fields = h2_head::response(&head, length.filter(|_| head.status != 204));
    head.fields.clear();
    sent.first_byte(0);
    let result = match respond.send_response(fields, bodiless) {
        Ok(_) if bodiless => Ok(()),
        Ok(mut stream) => {
            let result = send_body(&worker, &mut stream, &mut body, &mut sent).await;
            if result.is_err() {
                stream.send_reset(Reason::INTERNAL_ERROR);
            }
            result
        }
        Err(_) => Err(()),
    };
    sent.end(&worker, &head, &facts, result.is_err());
}

/// Sends the body as the client's windows open.
async fn send_body(
    worker: &Worker,
    stream: &mut SendStream<Bytes>,
    body: &mut ResponseBody,
    sent: &mut Sent,
) -> Result<(), ()> {
    let limit = worker.snapshot().settings.limits.send_timeout;
    let mut deadline = Deadline::new();
    while let Some(piece) = next_piece(stream, body).await? {
        let mut bytes = Bytes::from_owner(piece);
        while !bytes.is_empty() {
            stream.reserve_capacity(bytes.len().min(SEND_BUFFER_BYTES));
            let capacity = if stream.capacity() > 0 {
                stream.capacity()
            } else {
                let waited = deadline.within(limit, poll_fn(|cx| stream.poll_capacity(cx))).await;
                match waited {
                    Ok(Some(Ok(capacity))) => capacity,
                    Ok(_) => return Err(()),
                    Err(_) => {
                        worker.stats.timeouts.increment();
                        return Err(());
                    }
                }
            };
            let part = bytes.split_to(capacity.min(bytes.len()));
            sent.body_bytes += part.len() as u64;
            stream.send_data(part, false).map_err(|_| ())?;
        }
    }
    match body.trailers() {
        Some(trailers) => stream.send_trailers(h2_head::fields(&trailers)).map_err(|_| ()),
        None => stream.send_data(Bytes::new(), true).map_err(|_| ()),
    }
}

/// The next piece of the body, unless the client resets the stream first.
async fn next_piece(
    stream: &mut SendStream<Bytes>,
    body: &mut ResponseBody,
) -> Result<Option<Chunk>, ()> {
    let mut next = pin!(body.next(SEND_BUFFER_BYTES));
    poll_fn(|cx| {
        if let std::task::Poll::Ready(next) = next.as_mut().poll(cx) {
            return std::task::Poll::Ready(next.map_err(|_| ()));
        }
        stream.poll_reset(cx).map(|_| Err(()))
    })
    .await
}
