//! The resolver of the edge: names of active DNS rules are answered here, others by an upstream.
//!
//! By UDP, which is what a client asks first, and by TCP for what does not fit. A client that asks over an encrypted
//! channel elsewhere does not pass here.

mod question;
mod stream;

use freshet_platform::Resolved;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use question::{Question, REFUSED, SERVER_FAILURE, Wrong};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, UdpSocket as StdSocket};
use std::time::Duration;
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::timeout;

/// Longest message either way: the longest there is.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Questions that wait for the upstream at a time, each with a socket; others are dropped.
const QUESTIONS_MAX: usize = 256;
/// How long the upstream may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Its sockets.
#[derive(Debug)]
pub(super) struct Resolver {
    socket: StdSocket,
    listener: StdListener,
    /// Where others' names are asked for.
    upstream: Option<SocketAddr>,
}

impl Resolver {
    /// Binds `listen`, by UDP and TCP.
    pub(super) fn bind(listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<Self, String> {
        let say = |error: io::Error| format!("dns: {error}");
        let listener = StdListener::bind(listen).map_err(say)?;
        listener.set_nonblocking(true).map_err(say)?;
        // Where 0 is asked for, the kernel has chosen.
        let socket = StdSocket::bind(listener.local_addr().map_err(say)?).map_err(say)?;
        socket.set_nonblocking(true).map_err(say)?;
        Ok(Self { socket, listener, upstream })
    }

    /// Where it is asked.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Answers until its sockets fail. `resolve` gives what a rule says of a name.
    pub(super) async fn run(self, resolve: impl Fn(&str, bool) -> Option<Resolved>) {
        let made = || {
            let listener = TcpListener::from_std(self.listener)?;
            Ok::<_, io::Error>((UdpSocket::from_std(self.socket)?, listener))
        };
        let (socket, listener) = match made() {
            Ok(made) => made,
            Err(error) => return tracing::error!(%error, "the resolver ends"),
        };
        tokio::join!(
            datagrams(&socket, self.upstream, &resolve),
            stream::serve(&listener, self.upstream, &resolve),
        );
    }
}

/// Answers what comes by UDP.
async fn datagrams(
    socket: &UdpSocket,
    upstream: Option<SocketAddr>,
    resolve: &impl Fn(&str, bool) -> Option<Resolved>,
) {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let mut asking = FuturesUnordered::new();
    loop {
        let (reply, client) = tokio::select! {
            received = socket.recv_from(&mut message) => {
                let Ok((count, client)) = received else { continue };
                let message = &message[..count];
                let question = match Question::read(message) {
                    Ok(question) => question,
                    Err(Wrong::NoQuery) => continue,
                    Err(Wrong::Answered(reply)) => {
                        let _ = socket.send_to(&reply, client).await;
                        continue;
                    }
                };
                let reply = match (question.answer(message, resolve), upstream) {
                    (Some(reply), _) => reply,
                    (None, None) => question.reply(message, REFUSED, None),
                    (None, Some(upstream)) => {
                        if asking.len() < QUESTIONS_MAX {
                            let message = message.to_vec();
                            asking.push(async move { (reply_of(upstream, &question, message).await, client) });
                        }
                        continue;
                    }
                };
                (reply, client)
            }
            Some(answered) = asking.next() => answered,
        };
        let _ = socket.send_to(&reply, client).await;
    }
}

/// What an upstream says to a question, or that it is silent.
async fn reply_of(upstream: SocketAddr, question: &Question, message: Vec<u8>) -> Vec<u8> {
    match timeout(PATIENCE, ask(upstream, question, &message)).await {
        Ok(Ok(reply)) => reply,
        _ => question.reply(&message, SERVER_FAILURE, None),
    }
}

/// Asks from a port of its own, with a number of its own: who cannot see the question cannot answer in
/// the upstream's place (RFC 5452 §9.2).
async fn ask(upstream: SocketAddr, question: &Question, message: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if upstream.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(upstream).await?;
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).map_err(io::Error::other)?;
    let mut asked = message.to_vec();
    asked[..2].copy_from_slice(&id);
    socket.send(&asked).await?;
    let mut answered = vec![0; MESSAGE_BYTES_MAX];
    loop {
        let count = socket.recv(&mut answered).await?;
        let reply = &mut answered[..count];
        if question.is_answered(&asked, reply) {
            reply[..2].copy_from_slice(&message[..2]);
            return Ok(reply.to_vec());
        }
    }
}
