//! Asks a resolver for the addresses of names, again and again as their answers expire, in a thread of
//! its own.

use crate::dns::{self, Answer, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// An answer holds for as long as it says, but not for less or more than this.
const HOLDS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(3600)];
/// How long a question may take, each time it is asked.
const PATIENCE: Duration = Duration::from_secs(1);
const TIMES: u32 = 3;
/// Longest answer over TCP that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 16_384;

/// What became of a question.
#[derive(Debug)]
pub(super) struct Found {
    /// The name.
    pub(super) name: String,
    /// Its addresses, or why they are not known; what was known stays.
    pub(super) addresses: Result<Vec<IpAddr>, String>,
}

/// The thread, as long as this is kept.
#[derive(Debug)]
pub(super) struct Resolver {
    wanted: Sender<BTreeSet<String>>,
    found: Receiver<Found>,
}

impl Resolver {
    pub(super) fn start(server: SocketAddr) -> Self {
        let (wanted, wishes) = channel();
        let (answers, found) = channel();
        std::thread::spawn(move || ask_for_all(server, &wishes, &answers));
        Self { wanted, found }
    }

    /// Asks for these names from now on, and for no others.
    pub(super) fn want(&self, names: BTreeSet<String>) {
        // The thread is there as long as this is.
        let _ = self.wanted.send(names);
    }

    /// What was found since this was last asked.
    pub(super) fn found(&self) -> impl Iterator<Item = Found> {
        self.found.try_iter()
    }
}

fn ask_for_all(server: SocketAddr, wishes: &Receiver<BTreeSet<String>>, answers: &Sender<Found>) {
    let mut due = BTreeMap::<String, Instant>::new();
    loop {
        let next = due.values().min().copied();
        let pause = next.map_or(HOLDS[1], |next| next.saturating_duration_since(Instant::now()));
        match wishes.recv_timeout(pause) {
            Ok(names) => {
                due.retain(|name, _| names.contains(name));
                for name in names {
                    due.entry(name).or_insert_with(Instant::now);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        for (name, at) in due.iter_mut().filter(|(_, at)| **at <= now) {
            let found = both(server, name);
            let holds = found.as_ref().map_or(HOLDS[0], |found| {
                Duration::from_secs(found.ttl_s.into()).clamp(HOLDS[0], HOLDS[1])
            });
            *at = Instant::now() + holds;
            let addresses = found.map(|found| found.addresses).map_err(|error| error.to_string());
            if answers.send(Found { name: name.clone(), addresses }).is_err() {
                return;
            }
        }
    }
}

/// Addresses of both versions.
fn both(server: SocketAddr, name: &str) -> io::Result<Answer> {
    let mut all = ask(server, name, Kind::A)?;
    let more = ask(server, name, Kind::Aaaa)?;
    if !more.addresses.is_empty() {
        all.ttl_s = if all.addresses.is_empty() { more.ttl_s } else { all.ttl_s.min(more.ttl_s) };
        all.addresses.extend(more.addresses);
    }
    all.addresses.sort_unstable();
    all.addresses.dedup();
    Ok(all)
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn ask(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    let mut id = [0; 2];
    File::open("/dev/urandom")?.read_exact(&mut id)?;
    let id = u16::from_ne_bytes(id);
    let question = dns::question(id, name, kind);
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    let mut bytes = [0; 4096];
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..TIMES {
        socket.send(&question)?;
        let asked = Instant::now();
        while let Some(left) = PATIENCE.checked_sub(asked.elapsed()).filter(|left| !left.is_zero())
        {
            socket.set_read_timeout(Some(left))?;
            let length = match socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(error) => {
                    last = error;
                    break;
                }
            };
            match dns::answer(&bytes[..length], id, name, kind) {
                Ok(answer) if answer.is_cut => {
                    return ask_for_more(server, &question, id, name, kind);
                }
                Ok(answer) => return Ok(answer),
                // It may be a late one, or somebody else's: the right one may still come.
                Err(what) => last = wrong(what),
            }
        }
    }
    Err(last)
}

/// Over TCP, for answers that do not fit a datagram (RFC 7766).
fn ask_for_more(
    server: SocketAddr,
    question: &[u8],
    id: u16,
    name: &str,
    kind: Kind,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > ANSWER_BYTES_MAX {
        return Err(wrong("the answer is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    dns::answer(&message, id, name, kind).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The question with an address for an answer, where it is for IPv4.
    fn answered(question: &[u8], last: u8) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2] |= 0x80;
        if message[message.len() - 3] == Kind::A as u8 {
            message[7] = 1;
            message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, last]);
        }
        message
    }

    fn first(resolver: &Resolver) -> Found {
        resolver.found.recv_timeout(Duration::from_secs(20)).expect("it answers")
    }

    #[test]
    fn names_are_asked_for_and_strangers_are_not_believed() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let resolver = Resolver::start(server.local_addr().unwrap());
        resolver.want(["video.example".to_owned()].into());
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = server.recv_from(&mut bytes) {
                // Somebody who guesses, and then the server itself.
                let mut guessed = answered(&bytes[..length], 66);
                guessed[0] ^= 1;
                server.send_to(&guessed, from).unwrap();
                server.send_to(&answered(&bytes[..length], 10), from).unwrap();
            }
        });
        let found = first(&resolver);
        assert_eq!(found.name, "video.example");
        assert_eq!(found.addresses, Ok(vec!["192.0.2.10".parse().unwrap()]));
    }

    #[test]
    fn what_does_not_fit_a_datagram_is_asked_for_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = UdpSocket::bind(address).unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 512];
            while let Ok((length, from)) = server.recv_from(&mut bytes) {
                let mut cut = bytes[..length].to_vec();
                cut[2] |= 0x82;
                server.send_to(&cut, from).unwrap();
            }
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut question).unwrap();
                let answer = answered(&question, 11);
                stream.write_all(&(answer.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        let resolver = Resolver::start(address);
        resolver.want(["video.example".to_owned()].into());
        assert_eq!(first(&resolver).addresses, Ok(vec!["192.0.2.11".parse().unwrap()]));
    }

    #[test]
    fn who_does_not_answer_is_an_error_in_words() {
        // Nobody listens where a socket was.
        let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let resolver = Resolver::start(address);
        resolver.want(["video.example".to_owned()].into());
        assert!(first(&resolver).addresses.is_err());
    }
}
