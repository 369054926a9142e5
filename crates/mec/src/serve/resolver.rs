//! The resolver of the edge: names of active DNS rules are answered here, others by an upstream.
//!
//! By UDP, which is what a client asks first. A client that asks over an encrypted channel elsewhere
//! does not pass here.

use crate::platform::Resolved;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;

/// Longest message either way: what fits a datagram of Ethernet.
const MESSAGE_BYTES_MAX: usize = 1500;
/// Questions that wait for the upstream; the oldest makes room.
const QUESTIONS_MAX: usize = 4096;
/// How long the upstream may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Its sockets.
#[derive(Debug)]
pub(super) struct Resolver {
    socket: StdSocket,
    upstream: Option<StdSocket>,
}

/// A question that waits.
struct Waiting {
    client: SocketAddr,
    id: [u8; 2],
    asked: Vec<u8>,
    since: Instant,
}

impl Resolver {
    /// Binds `listen`, and a socket towards `upstream`.
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
            Ok::<_, String>(socket)
        });
        Ok(Self { socket: bound(listen)?, upstream: upstream.transpose()? })
    }

    /// Where it is asked.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Answers until its sockets fail. `resolve` gives what a rule says of a name.
    pub(super) async fn run(self, resolve: impl Fn(&str, bool) -> Option<Resolved>) {
        let made = UdpSocket::from_std(self.socket)
            .and_then(|socket| Ok((socket, self.upstream.map(UdpSocket::from_std).transpose()?)));
        let (socket, upstream) = match made {
            Ok(made) => made,
            Err(error) => return tracing::error!(%error, "the resolver ends"),
        };
        let mut waiting: HashMap<[u8; 2], Waiting> = HashMap::new();
        let mut next_id = 0_u16;
        let (mut asked, mut answered) = ([0; MESSAGE_BYTES_MAX], [0; MESSAGE_BYTES_MAX]);
        loop {
            tokio::select! {
                received = socket.recv_from(&mut asked) => {
                    let Ok((count, client)) = received else { continue };
                    let message = &asked[..count];
                    let Some(question) = Question::read(message) else { continue };
                    let reply = match (question.answer(message, &resolve), &upstream) {
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
                received = from(upstream.as_ref(), &mut answered) => {
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

/// Bytes before the question (RFC 1035 §4.1.1).
const HEAD_BYTES: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;
const INTERNET: u16 = 1;
const NO_ERROR: u8 = 0;
const REFUSED: u8 = 5;

/// The question of a message that has one.
struct Question {
    /// In lower case, without a dot at its end.
    name: String,
    kind: u16,
    class: u16,
    /// Where it ends.
    end: usize,
}

impl Question {
    fn read(message: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = message.first_chunk()?;
        // A standard query with one question.
        if head[2] & 0xf8 != 0 || head[4..6] != [0, 1] {
            return None;
        }
        let (mut at, mut labels) = (HEAD_BYTES, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=63 => {
                    let label = message.get(at..at + length)?;
                    labels.push(String::from_utf8(label.to_ascii_lowercase()).ok()?);
                    at += length;
                }
                // Questions have no pointers.
                _ => return None,
            }
            if at > HEAD_BYTES + 255 {
                return None;
            }
        }
        let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
        Some(Self { name: labels.join("."), kind: word(at)?, class: word(at + 2)?, end: at + 4 })
    }

    /// What a rule says; `None` where none is about the name.
    fn answer(
        &self,
        message: &[u8],
        resolve: &impl Fn(&str, bool) -> Option<Resolved>,
    ) -> Option<Vec<u8>> {
        if self.class != INTERNET {
            return None;
        }
        let resolved = resolve(&self.name, self.kind == AAAA)?;
        // A name that is ours has no other records than these.
        let address = resolved.address.filter(|_| matches!(self.kind, A | AAAA));
        Some(self.reply(message, NO_ERROR, address.map(|address| (address, resolved.ttl_s))))
    }

    fn reply(&self, message: &[u8], code: u8, address: Option<(IpAddr, u32)>) -> Vec<u8> {
        let mut reply = message[..self.end].to_vec();
        // An answer, recursion as it was asked for and available.
        reply[2] = 0x80 | message[2] & 0x01;
        reply[3] = 0x80 | code;
        reply[4..HEAD_BYTES].copy_from_slice(&[0, 1, 0, u8::from(address.is_some()), 0, 0, 0, 0]);
        if let Some((address, ttl_s)) = address {
            let data = match address {
                IpAddr::V4(one) => one.octets().to_vec(),
                IpAddr::V6(one) => one.octets().to_vec(),
            };
            // Its name is that of the question.
            reply.extend([0xc0, HEAD_BYTES as u8]);
            reply.extend(self.kind.to_be_bytes());
            reply.extend(INTERNET.to_be_bytes());
            reply.extend(ttl_s.to_be_bytes());
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_router::dns::{self, Kind};
    use proptest::prelude::*;

    fn rule(name: &str, is_v6: bool) -> Option<Resolved> {
        let address = (!is_v6).then(|| [10, 99, 0, 2].into());
        (name == "www.example.com").then_some(Resolved { address, ttl_s: 30 })
    }

    #[test]
    fn a_name_of_a_rule_is_answered_and_another_is_not() {
        let ask = |name: &str, kind| {
            let message = dns::question(7, name, kind);
            Question::read(&message).unwrap().answer(&message, &rule)
        };
        let reply = ask("WWW.example.com", Kind::A).unwrap();
        let read = dns::answer(&reply, 7, "www.example.com", Kind::A).unwrap();
        assert_eq!(read.addresses, [IpAddr::from([10, 99, 0, 2])]);
        let none = ask("www.example.com", Kind::Aaaa).unwrap();
        assert!(
            dns::answer(&none, 7, "www.example.com", Kind::Aaaa)
                .is_ok_and(|read| read.addresses.is_empty())
        );
        assert_eq!(ask("example.com", Kind::A), None);
    }

    proptest! {
        #[test]
        fn no_message_hurts(message in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(question) = Question::read(&message) {
                let reply = question.reply(&message, REFUSED, None);
                prop_assert!(reply.len() <= message.len());
                let _ = question.answer(&message, &rule);
            }
        }
    }
}
