//! DNS over TCP (RFC 7766): where an answer was cut short, or does not fit a datagram, it is asked for again so.

use super::question::{Question, REFUSED, SERVER_FAILURE, Wrong};
use super::{PATIENCE, Resolved};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Connections at a time; others wait to be taken.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take for its next question, or for taking a reply.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// Answers whoever connects.
pub(super) async fn serve(
    listener: &TcpListener,
    upstream: Option<SocketAddr>,
    resolve: &impl Fn(&str, bool) -> Option<Resolved>,
) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((client, _)) => connections.push(connection(client, upstream, resolve)),
                Err(_) => sleep(REFUSAL_PAUSE).await,
            },
            // What went wrong with one is between it and its client.
            Some(_) = connections.next() => {}
        }
    }
}

/// Answers questions of one client, one after the other, until it leaves or is silent.
async fn connection(
    mut client: TcpStream,
    upstream: Option<SocketAddr>,
    resolve: &impl Fn(&str, bool) -> Option<Resolved>,
) -> io::Result<()> {
    loop {
        let message = timeout(SILENCE_MAX, receive(&mut client)).await??;
        let question = match Question::read(&message) {
            Ok(question) => question,
            Err(Wrong::NoQuery) => return Ok(()),
            Err(Wrong::Answered(reply)) => {
                timeout(SILENCE_MAX, send(&mut client, &reply)).await??;
                continue;
            }
        };
        let reply = match (question.answer(&message, resolve), upstream) {
            (Some(reply), _) => reply,
            (None, None) => question.reply(&message, REFUSED, None),
            (None, Some(upstream)) => match timeout(PATIENCE, ask(upstream, &message)).await {
                Ok(Ok(reply)) if question.is_answered(&message, &reply) => reply,
                _ => question.reply(&message, SERVER_FAILURE, None),
            },
        };
        timeout(SILENCE_MAX, send(&mut client, &reply)).await??;
    }
}

async fn ask(upstream: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    send(&mut stream, message).await?;
    receive(&mut stream).await
}

/// The next message: two bytes of its length, and so many (RFC 1035 §4.2.2).
async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    // At once: some resolvers want length and message in one segment.
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(message);
    stream.write_all(&bytes).await
}
