//! Sessions turn a connection's bytes into requests and responses into bytes. They know no
//! caching.

mod deadline;
mod finish;
pub(crate) mod h1;
pub(crate) mod h1_body;
mod h1_io;
pub(crate) mod h2;
pub(crate) mod h2_body;
mod h2_head;
mod prefixed;
pub(crate) mod tunnel;

use crate::client::Client;
use crate::worker::Worker;
use freshet_net::stream::Stream;
use freshet_net::tls::ALPN_HTTP_2;
use std::rc::Rc;
use std::time::Duration;

/// What an HTTP/2 client with prior knowledge sends first (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection in the protocol it speaks: what ALPN agreed on under TLS; in the clear
/// HTTP/1 unless the first bytes are HTTP/2's preface.
pub(crate) async fn serve(worker: Rc<Worker>, mut stream: Stream, client: Rc<Client>) {
    if stream.is_tls() {
        return match stream.alpn() {
            Some(ALPN_HTTP_2) => h2::serve(worker, stream, client, Vec::new()).await,
            _ => h1::serve(worker, stream, client, Vec::new()).await,
        };
    }
    let limit = worker.snapshot().settings.limits.idle_timeout;
    match tokio::time::timeout(limit, first_bytes(&mut stream)).await {
        Ok(Ok((bytes, true))) => h2::serve(worker, stream, client, bytes).await,
        Ok(Ok((bytes, false))) => h1::serve(worker, stream, client, bytes).await,
        Ok(Err(_)) | Err(_) => stream.close(Duration::ZERO).await,
    }
}

/// Reads until it is clear whether the preface comes.
async fn first_bytes(stream: &mut Stream) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await?;
        bytes.extend_from_slice(&buffer[..count]);
        let known = bytes.len().min(PREFACE.len());
        let alike = bytes[..known] == PREFACE[..known];
        if !alike || known == PREFACE.len() || count == 0 {
            return Ok((bytes, alike && known == PREFACE.len()));
        }
    }
}
