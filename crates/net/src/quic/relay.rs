//! The line between the two processes that have a UDP port in common while one takes over from the
//! other (an upgrade).
//!
//! A port is read by one process at a time. The old one reads it until it drains; then it tells over
//! this line which handshakes it has begun, and that the port is the new one's. From then on the new
//! one reads, and passes back what is for none of its connections, so that those of the old one go on
//! to their end. Both send through the port by themselves. The secrets for tokens come first, so that
//! what one process asked of a client the other believes.
//!
//! The end of a process is the end of the line: the other has the port alone then. A pair of Unix
//! sockets that keep messages apart (`SOCK_SEQPACKET`); what does not fit is lost, as on any way.

use super::secrets::SECRET_BYTES;
use super::watched::Watched;
use crate::limits::UDP_READ_BYTES_MAX;
use freshet_quic::{ID_BYTES_MAX, Id, Route};
use socket2::{Domain, Socket, Type};
use std::io::{self, IoSlice, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

/// One end of a line. It may be made on any thread; the runtime that first polls it keeps it.
#[derive(Debug)]
pub struct Relay {
    watched: Watched,
    socket: Socket,
}

/// What is said over a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word<'a> {
    /// What tokens are made with.
    Secrets(&'a [u8; SECRET_BYTES]),
    /// Datagrams for these ids belong to handshakes that the sender has begun.
    Begun(&'a [Id]),
    /// The port is the receiver's to read.
    Yours,
    /// Datagrams for the receiver, each of `segment_bytes` but the last.
    Datagrams {
        /// The way they came.
        route: Route,
        /// Bytes of each.
        segment_bytes: usize,
        /// All of them.
        bytes: &'a [u8],
    },
}

/// A word that came.
#[derive(Debug, Eq, PartialEq)]
pub enum Heard {
    /// See [`Word::Secrets`].
    Secrets([u8; SECRET_BYTES]),
    /// See [`Word::Begun`].
    Begun(Vec<Id>),
    /// See [`Word::Yours`].
    Yours,
    /// See [`Word::Datagrams`]; they are in the buffer from [`DATAGRAMS_AT`] on.
    Datagrams {
        /// The way they came.
        route: Route,
        /// Bytes of each but the last.
        segment_bytes: usize,
        /// Bytes of all.
        bytes: usize,
    },
    /// Something else, of a program of another version.
    Unknown,
}

/// Where in a buffer datagrams begin.
pub const DATAGRAMS_AT: usize = 64;
/// Bytes of a buffer for what is heard.
pub const BUFFER_BYTES: usize = DATAGRAMS_AT + UDP_READ_BYTES_MAX;
/// Ids in one word.
pub const IDS_MAX: usize = 1000;

const SECRETS: u8 = 1;
const BEGUN: u8 = 2;
const YOURS: u8 = 3;
const DATAGRAMS: u8 = 4;

impl Relay {
    /// A line: an end for this process and one for the next.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        theirs.set_nonblocking(true)?;
        Ok((Self::from_socket(ours)?, theirs.into()))
    }

    /// The end that this process was started with.
    ///
    /// # Errors
    /// It is no socket.
    pub fn inherited(end: OwnedFd) -> io::Result<Self> {
        Self::from_socket(end.into())
    }

    fn from_socket(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // As much as the kernel gives: it is the queue between two processes.
        let _ = socket.set_send_buffer_size(crate::limits::UDP_BUFFER_BYTES);
        Ok(Self { watched: Watched::default(), socket })
    }

    /// Says a word; false when it is lost.
    pub fn say(&self, word: Word<'_>) -> bool {
        let mut head = Vec::with_capacity(DATAGRAMS_AT);
        let mut body: &[u8] = &[];
        match word {
            Word::Secrets(secrets) => {
                head.push(SECRETS);
                body = secrets;
            }
            Word::Begun(ids) => {
                head.push(BEGUN);
                for id in ids.iter().take(IDS_MAX) {
                    head.push(id.as_bytes().len() as u8);
                    head.extend_from_slice(id.as_bytes());
                }
            }
            Word::Yours => head.push(YOURS),
            Word::Datagrams { route, segment_bytes, bytes } => {
                head.push(DATAGRAMS);
                head.extend_from_slice(&(segment_bytes as u32).to_be_bytes());
                write_ip(Some(route.remote.ip()), &mut head);
                head.extend_from_slice(&route.remote.port().to_be_bytes());
                let (flow, scope) = match route.remote {
                    SocketAddr::V4(_) => (0, 0),
                    SocketAddr::V6(v6) => (v6.flowinfo(), v6.scope_id()),
                };
                head.extend_from_slice(&flow.to_be_bytes());
                head.extend_from_slice(&scope.to_be_bytes());
                write_ip(route.local, &mut head);
                head.resize(DATAGRAMS_AT, 0);
                body = bytes;
            }
        }
        let len = head.len() + body.len();
        let sent = self.socket.send_vectored(&[IoSlice::new(&head), IoSlice::new(body)]);
        sent.is_ok_and(|sent| sent == len)
    }

    /// Hears a word; `None` when the other end is gone. `buffer` has [`BUFFER_BYTES`].
    pub fn poll_hear(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Option<Heard>> {
        let Ok(registered) = self.watched.get(&self.socket) else { return Poll::Ready(None) };
        loop {
            let Ok(mut guard) = ready!(registered.poll_read_ready(cx)) else {
                return Poll::Ready(None);
            };
            if let Ok(read) = guard.try_io(|_| (&self.socket).read(buffer)) {
                return Poll::Ready(heard(read, buffer));
            }
        }
    }

    /// Hears what was said already, where no runtime is; `None` where that is nothing.
    pub fn heard_already(&self) -> Option<Heard> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let read = (&self.socket).read(&mut buffer);
        heard(read, &buffer)
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn heard(read: io::Result<usize>, buffer: &[u8]) -> Option<Heard> {
    let len = read.ok().filter(|len| *len > 0)?;
    Some(parse(buffer.get(..len)?).unwrap_or(Heard::Unknown))
}

fn parse(message: &[u8]) -> Option<Heard> {
    let (kind, mut rest) = message.split_first()?;
    match *kind {
        SECRETS => rest.try_into().ok().map(Heard::Secrets),
        BEGUN => {
            let mut ids = Vec::new();
            while let Some((len, after)) = rest.split_first() {
                let (id, after) = after.split_at_checked(usize::from(*len))?;
                ids.push(Id::new(id)?);
                rest = after;
            }
            Some(Heard::Begun(ids))
        }
        YOURS => Some(Heard::Yours),
        DATAGRAMS => {
            let bytes = message.len().checked_sub(DATAGRAMS_AT)?;
            let segment_bytes = u32::from_be_bytes(take(&mut rest)?) as usize;
            let ip = read_ip(&mut rest)??;
            let port = u16::from_be_bytes(take(&mut rest)?);
            let (flow, scope) =
                (u32::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
            let mut remote = SocketAddr::new(ip, port);
            if let SocketAddr::V6(v6) = &mut remote {
                v6.set_flowinfo(flow);
                v6.set_scope_id(scope);
            }
            let route = Route { remote, local: read_ip(&mut rest)? };
            (segment_bytes > 0).then_some(Heard::Datagrams { route, segment_bytes, bytes })
        }
        _ => None,
    }
}

fn write_ip(ip: Option<IpAddr>, out: &mut Vec<u8>) {
    match ip {
        None => out.push(0),
        Some(IpAddr::V4(ip)) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

fn read_ip(rest: &mut &[u8]) -> Option<Option<IpAddr>> {
    match take::<1>(rest)? {
        [0] => Some(None),
        [4] => Some(Some(IpAddr::from(take::<4>(rest)?))),
        [6] => Some(Some(IpAddr::from(take::<16>(rest)?))),
        _ => None,
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

const _: () = assert!(IDS_MAX * (1 + ID_BYTES_MAX) < BUFFER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn what_is_said_is_heard_until_the_other_end_is_gone() {
        let (ours, theirs) = Relay::pair().unwrap();
        let theirs = Relay::inherited(theirs).unwrap();
        assert_eq!(theirs.heard_already(), None);
        let mut buffer = vec![0; BUFFER_BYTES];
        let id = |byte: u8, len: usize| Id::new(&vec![byte; len]).unwrap();
        let ids = [id(1, 8), id(2, 20), id(3, 0)];
        let secrets = [7; SECRET_BYTES];
        for word in [Word::Secrets(&secrets), Word::Begun(&ids), Word::Begun(&[]), Word::Yours] {
            assert!(ours.say(word));
            let heard = poll_fn(|cx| theirs.poll_hear(cx, &mut buffer)).await.unwrap();
            let is_it = match word {
                Word::Secrets(secrets) => heard == Heard::Secrets(*secrets),
                Word::Begun(ids) => heard == Heard::Begun(ids.to_vec()),
                _ => heard == Heard::Yours,
            };
            assert!(is_it, "{word:?}: {heard:?}");
        }
        let many: Vec<u8> = (0..60_000_u32).map(|at| at as u8).collect();
        for (remote, local) in [
            ("192.0.2.1:443", None),
            ("192.0.2.1:443", Some("198.51.100.7")),
            ("[fe80::1%7]:4433", Some("fe80::2")),
        ] {
            let route = Route {
                remote: remote.parse().unwrap(),
                local: local.map(|local| local.parse().unwrap()),
            };
            let word = Word::Datagrams { route, segment_bytes: 1200, bytes: &many };
            assert!(theirs.say(word));
            let heard = poll_fn(|cx| ours.poll_hear(cx, &mut buffer)).await.unwrap();
            assert_eq!(heard, Heard::Datagrams { route, segment_bytes: 1200, bytes: many.len() });
            assert!(buffer[DATAGRAMS_AT..][..many.len()] == many);
        }
        drop(theirs);
        assert_eq!(poll_fn(|cx| ours.poll_hear(cx, &mut buffer)).await, None);
        assert!(!ours.say(Word::Yours));
    }

    #[test]
    fn what_is_malformed_is_no_word() {
        for message in [
            &[0][..],
            &[9],
            &[SECRETS, 1],
            &[BEGUN, 3, 1],
            &[BEGUN, 21, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            &[[DATAGRAMS, 0, 0, 0, 0].as_slice(), &[4; DATAGRAMS_AT]].concat(),
            &[DATAGRAMS],
        ] {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }
}
