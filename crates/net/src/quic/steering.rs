//! Ids that lead to a worker, and the program by which the kernel follows them.
//!
//! The first byte of an id of ours is the worker's number, modulo their count. A client's first
//! packets carry an id of its own choice, which leads to any worker; that one makes the connection,
//! and all later packets come with an id that leads to it, from whatever address.

use super::random;
use crate::steering::attach_program;
use freshet_quic::Id;
use freshet_quic::limits::OWN_ID_BYTES;
use std::io;
use std::os::fd::AsFd;

/// Which worker of how many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Steering {
    /// The worker's number.
    pub worker: u8,
    /// How many there are, at least one.
    pub workers: u8,
}

impl Steering {
    /// For a worker; `None` where there are more than an id can tell apart.
    pub fn new(worker: usize, workers: usize) -> Option<Self> {
        let (worker, workers) = (u8::try_from(worker).ok()?, u8::try_from(workers).ok()?);
        (worker < workers).then_some(Self { worker, workers })
    }

    /// An id that leads to this worker, and that nobody can guess.
    pub fn draw_id(self) -> Id {
        let mut bytes: [u8; OWN_ID_BYTES] = random();
        // Any number that is this worker's, so that not all ids of a worker look alike.
        let turns = (u8::MAX - self.worker) / self.workers;
        let turn = if turns == u8::MAX { bytes[0] } else { bytes[0] % (turns + 1) };
        bytes[0] = turn * self.workers + self.worker;
        Id::new(&bytes).expect("it is short enough")
    }

    /// The worker that a packet for this id is of.
    pub fn worker_of(self, receiver: &[u8]) -> u8 {
        receiver.first().map_or(0, |first| first % self.workers)
    }
}

/// Has the kernel give each datagram to the socket of the group of `port` that its id leads to.
/// Sockets count in the order in which they were bound.
///
/// # Errors
/// The kernel does not know such programs.
pub fn attach(port: &impl AsFd, workers: u8) -> io::Result<()> {
    attach_program(port.as_fd(), &program(workers))
}

/// Classic BPF over the payload of a datagram. Where it is too short for the place that is looked at,
/// the result is 0.
fn program(workers: u8) -> [libc::sock_filter; 7] {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const MODULO: u16 = 0x94;
    const RETURN: u16 = 0x16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD_BYTE, 0, 0, 0),
        // The highest bit is that of a long head, in which the id comes behind the version and its
        // length; in a short one it comes at once.
        step(JUMP_IF_SET, 0, 2, 0x80),
        step(LOAD_BYTE, 0, 0, 6),
        step(JUMP, 0, 0, 1),
        step(LOAD_BYTE, 0, 0, 1),
        step(MODULO, 0, 0, u32::from(workers.max(1))),
        step(RETURN, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::port::UdpPort;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn ids_lead_to_their_worker() {
        for workers in [1, 2, 3, 7, 200, 255] {
            for worker in [0, workers / 2, workers - 1] {
                let steering = Steering::new(worker, workers).unwrap();
                let ids: Vec<Id> = (0..300).map(|_| steering.draw_id()).collect();
                assert!(
                    ids.iter()
                        .all(|id| { usize::from(steering.worker_of(id.as_bytes())) == worker })
                );
                assert_ne!(ids[0], ids[1]);
            }
        }
        assert_eq!((Steering::new(2, 2), Steering::new(0, 300)), (None, None));
    }

    #[test]
    fn the_kernel_follows_ids_from_any_address() {
        const WORKERS: usize = 3;
        let first = UdpPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_address();
        let mut ports = vec![first];
        ports.extend((1..WORKERS).map(|_| UdpPort::bind(address).unwrap()));
        attach(&ports[0], WORKERS as u8).unwrap();
        let sockets: Vec<UdpSocket> = ports
            .iter()
            .map(|port| {
                let socket = UdpSocket::from(port.as_fd().try_clone_to_owned().unwrap());
                socket.set_nonblocking(false).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                socket
            })
            .collect();
        for round in 0..60 {
            let worker = round % WORKERS;
            let id = Steering::new(worker, WORKERS).unwrap().draw_id();
            let head: &[u8] = if round % 2 == 0 { &[0x40] } else { &[0xc0, 0, 0, 0, 1, 8] };
            // Each from another port.
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            let sent = [head, id.as_bytes(), &[round as u8]].concat();
            client.send_to(&sent, address).unwrap();
            let mut got = [0; 64];
            let (count, from) = sockets[worker].recv_from(&mut got).unwrap();
            assert_eq!((&got[..count], from), (&sent[..], client.local_addr().unwrap()));
        }
    }
}
