//! Sessions turn a connection's bytes into requests and responses into bytes. They know no
//! caching.
//!
//! A connection is accepted, and its client let in or not, before it is known which protocol it speaks. Each
//! protocol hands its requests to [`freshet_request::handle`] and sends what that answers with.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | connections as they come | `accept` |
//! | HTTP/1.1 | `h1` and its neighbours |
//! | HTTP/2 and HTTP/3 | `h2`, `h3`, and `streams` for what they have alike |
//! | what a response holds while its client is slow | `keeping` |
//! | what is told at its end | `finish` |
#![forbid(unsafe_code)]

mod accept;
mod bogus;
mod deadline;
mod finish;
mod h1;
mod h1_body;
mod h1_io;
mod h1_send;
mod h2;
mod h3;
mod keeping;
mod leaving;
mod pace;
mod patience;
mod refusal;
mod request_line;
mod streams;
mod tunnel;

pub use self::accept::{Port, accept};
pub use self::h3::{Passed, QuicPort, serve_port};

use self::refusal::{Asked, Refusal};
use freshet_access::client::{Client, End};
use freshet_net::stream::Stream;
use freshet_net::tls::ALPN_HTTP_2;
use freshet_wire::h2::PREFACE;
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// What was read of a connection before its protocol was known.
struct First {
    bytes: Vec<u8>,
    /// When the first of them came, or would have.
    begun: Instant,
}

/// Serves a connection in the protocol it speaks: what ALPN agreed on under TLS; in the clear
/// HTTP/1 unless the first bytes are HTTP/2's preface.
pub(crate) async fn serve(worker: Rc<Worker>, mut stream: Stream, client: Rc<Client>) {
    if stream.is_tls() {
        let first = First { bytes: Vec::new(), begun: Instant::now() };
        return match stream.alpn() {
            Some(ALPN_HTTP_2) => h2::serve(worker, stream, client, first).await,
            _ => h1::serve(worker, stream, client, first).await,
        };
    }
    let first = tokio::select! {
        biased;
        first = first_bytes(&worker, &mut stream) => first,
        () = worker.drain_grace() => None,
    };
    match first {
        Some((_, true)) if !worker.snapshot().manners.takes_http2 => {
            client.end.set(End::Http2Refused);
            stream.close(Duration::ZERO).await;
        }
        Some((first, true)) => h2::serve(worker, stream, client, first).await,
        Some((first, false)) if is_neither(&first.bytes) => {
            Refusal::NOT_HTTP.note(&worker, &client, Asked::Bytes(&first.bytes));
            stream.close(Duration::ZERO).await;
        }
        Some((first, false)) => h1::serve(worker, stream, client, first).await,
        None => stream.close(Duration::ZERO).await,
    }
}

/// Reads until it is clear whether the preface comes; `None` where nothing more does.
async fn first_bytes(worker: &Worker, stream: &mut Stream) -> Option<(First, bool)> {
    let first = First { bytes: Vec::new(), begun: Instant::now() };
    begins_http2(worker, stream, first).await
}

/// The same behind what was read already.
async fn begins_http2(
    worker: &Worker,
    stream: &mut Stream,
    mut first: First,
) -> Option<(First, bool)> {
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    loop {
        let known = first.bytes.len().min(PREFACE.len());
        let alike = first.bytes[..known] == PREFACE[..known];
        if !alike || known == PREFACE.len() {
            return Some((first, alike));
        }
        let limit = match first.bytes.len() {
            0 => limits.idle_timeout,
            _ => limits.request_timeout.saturating_sub(first.begun.elapsed()),
        };
        // On the heap: an array would be part of every connection's task for all its life.
        let mut buffer = vec![0; 4096];
        let Ok(read) = tokio::time::timeout(limit, stream.read(&mut buffer)).await else {
            let has_begun = !first.bytes.is_empty();
            worker.stats.timeouts.add(u64::from(has_begun));
            return None;
        };
        let count = read.ok()?;
        if count == 0 {
            return Some((first, false));
        }
        if first.bytes.is_empty() {
            first.begun = Instant::now();
        }
        first.bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Whether the first line names a protocol that is not HTTP. Its sender would not understand an
/// HTTP/1 error, so it gets none (RFC 9113 §3.4 allows that for an invalid preface).
fn is_neither(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return false };
    let mut words = bytes[..end].split(|byte| *byte == b' ');
    let version = words.nth(2);
    words.next().is_none()
        && version.is_some_and(|version| !version.is_empty() && !version.starts_with(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::is_neither;

    #[test]
    fn only_a_line_of_another_protocol_is_neither() {
        assert!(is_neither(b"INVALID CONNECTION PREFACE\r\n\r\n"));
        for http in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"GET / HTTP/9.9\r\n",
            b"GET / \r\n\r\n",
            b"GET /",
            b"",
        ] {
            assert!(!is_neither(http), "{http:?}");
        }
    }
}
