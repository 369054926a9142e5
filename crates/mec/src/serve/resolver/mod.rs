//! The resolver of the edge: names of active DNS rules are answered here, others by an upstream.
//!
//! By UDP, which is what a client asks first, and by TCP for what does not fit. A client that asks over an encrypted
//! channel elsewhere does not pass here.

mod question;
mod stream;

use crate::platform::Resolved;
use question::{HEAD_BYTES, Question, REFUSED};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, UdpSocket as StdSocket};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UdpSocket};

/// Longest message either way: the longest there is.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Questions that wait for the upstream at a time; others are dropped.
const QUESTIONS_MAX: usize = 4096;
/// How long the upstream may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Its sockets.
#[derive(Debug)]
pub(super) struct Resolver {
    socket: StdSocket,
    listener: StdListener,
    /// Where others' names are asked for, and the socket towards it.
    upstream: Option<(SocketAddr, StdSocket)>,
}

/// A question that waits.
struct Waiting {
    client: SocketAddr,
    id: [u8; 2],
    asked: Vec<u8>,
    since: Instant,
}

impl Resolver {
    /// Binds `listen`, by UDP and TCP, and a socket towards `upstream`.
    pub(super) fn bind(listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<Self, String> {
        let say = |error: std::io::Error| format!("dns: {error}");
        let bound = |address: SocketAddr| {
            let socket = StdSocket::bind(address).map_err(say)?;
            socket.set_nonblocking(true).map_err(say)?;
            Ok::<_, String>(socket)
        };
        let upstream = upstream.map(|upstream| {
            let any: IpAddr =
                if upstream.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
            let socket = bound((any, 0).into())?;
            socket.connect(upstream).map_err(say)?;
            Ok::<_, String>((upstream, socket))
        });
        let listener = StdListener::bind(listen).map_err(say)?;
        listener.set_nonblocking(true).map_err(say)?;
        // Where 0 is asked for, the kernel has chosen.
        let socket = bound(listener.local_addr().map_err(say)?)?;
        Ok(Self { socket, listener, upstream: upstream.transpose()? })
    }

    /// Where it is asked.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Answers until its sockets fail. `resolve` gives what a rule says of a name.
    pub(super) async fn run(self, resolve: impl Fn(&str, bool) -> Option<Resolved>) {
        let (address, upstream) = self.upstream.unzip();
        let made = || {
            let upstream = upstream.map(UdpSocket::from_std).transpose()?;
            Ok::<_, std::io::Error>((
                UdpSocket::from_std(self.socket)?,
                TcpListener::from_std(self.listener)?,
                upstream,
            ))
        };
        let (socket, listener, upstream) = match made() {
            Ok(made) => made,
            Err(error) => return tracing::error!(%error, "the resolver ends"),
        };
        tokio::join!(
            datagrams(&socket, upstream.as_ref(), &resolve),
            stream::serve(&listener, address, &resolve),
        );
    }
}

/// Answers what comes by UDP.
async fn datagrams(
    socket: &UdpSocket,
    upstream: Option<&UdpSocket>,
    resolve: &impl Fn(&str, bool) -> Option<Resolved>,
) {
    let mut waiting: HashMap<[u8; 2], Waiting> = HashMap::new();
    let mut next_id = 0_u16;
    let (mut asked, mut answered) = (vec![0; MESSAGE_BYTES_MAX], vec![0; MESSAGE_BYTES_MAX]);
    loop {
        tokio::select! {
            received = socket.recv_from(&mut asked) => {
                let Ok((count, client)) = received else { continue };
                let message = &asked[..count];
                let Some(question) = Question::read(message) else { continue };
                let reply = match (question.answer(message, resolve), upstream) {
                    (Some(reply), _) => reply,
                    (None, None) => question.reply(message, REFUSED, None),
                    (None, Some(upstream)) => {
                        waiting.retain(|_, one| one.since.elapsed() < PATIENCE);
                        if waiting.len() >= QUESTIONS_MAX {
                            continue;
                        }
                        // Unguessable from outside, and unlike those that wait.
                        next_id = next_id.wrapping_add(random_step());
                        while waiting.contains_key(&next_id.to_be_bytes()) {
                            next_id = next_id.wrapping_add(1);
                        }
                        let mut forwarded = message.to_vec();
                        let id = [message[0], message[1]];
                        forwarded[..2].copy_from_slice(&next_id.to_be_bytes());
                        let asked = forwarded[HEAD_BYTES..question.end].to_ascii_lowercase();
                        let one = Waiting { client, id, asked, since: Instant::now() };
                        waiting.insert(next_id.to_be_bytes(), one);
                        let _ = upstream.send(&forwarded).await;
                        continue;
                    }
                };
                let _ = socket.send_to(&reply, client).await;
            }
            received = from(upstream, &mut answered) => {
                let Ok(count) = received else { continue };
                let message = &mut answered[..count];
                let Some((id, one)) = message.first_chunk().and_then(|id| waiting.get_key_value(id)) else { continue };
                // Only the answer to this very question.
                let end = HEAD_BYTES + one.asked.len();
                let is_it = message.get(HEAD_BYTES..end).is_some_and(|asked| asked.eq_ignore_ascii_case(&one.asked));
                if is_it {
                    let (id, client) = (*id, one.client);
                    message[..2].copy_from_slice(&one.id);
                    waiting.remove(&id);
                    let _ = socket.send_to(message, client).await;
                }
            }
        }
    }
}

async fn from(upstream: Option<&UdpSocket>, into: &mut [u8]) -> std::io::Result<usize> {
    match upstream {
        Some(upstream) => upstream.recv(into).await,
        None => std::future::pending().await,
    }
}

fn random_step() -> u16 {
    let mut bytes = [0; 2];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    u16::from_be_bytes(bytes)
}
