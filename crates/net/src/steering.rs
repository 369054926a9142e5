//! Keeping connections on the NUMA node of the network queue they came through.
//!
//! Sockets of one address that belong to workers are a group of the kernel's (`SO_REUSEPORT`), and a
//! program chooses among them by the processor that received the packet: one of a worker on the same
//! node, any of these as likely as another. So the queue, the socket, the worker and the bytes it
//! sends are on one node.

use crate::listener::Listener;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Instructions a program may have (`BPF_MAXINSNS`).
const STEPS_MAX: usize = 4096;
/// A number no socket has: the kernel then chooses by the addresses, as without a program.
const NONE: u32 = u32::MAX;

const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ABOVE: u16 = 0x25;
const MODULO: u16 = 0x94;
const RETURN: u16 = 0x06;
/// `SKF_AD_OFF + SKF_AD_CPU`: the processor this runs on, which is the one that received the packet.
const PROCESSOR: u32 = (-0x1000 + 36_i32).cast_unsigned();
/// `SKF_AD_OFF + SKF_AD_RANDOM`: a random number.
const RANDOM: u32 = (-0x1000 + 56_i32).cast_unsigned();

/// Has the kernel give each connection to a socket on the node of the processor that received it.
/// `sockets` has the node of each socket's worker, in the order in which they were bound, and
/// `node_of` that of each processor of the machine. What comes through processors of other nodes is
/// spread over all.
///
/// # Errors
/// The kernel does not know such programs, or the machine is too large for one.
pub fn attach(
    listener: &Listener,
    sockets: &[usize],
    node_of: &BTreeMap<usize, usize>,
) -> io::Result<()> {
    attach_program(listener.as_fd(), &program(sockets, node_of))
}

/// Takes such a program away again, as that of a process before; where there is none, nothing happens.
pub fn detach(listener: &Listener) {
    let none: c_int = 0;
    let _ =
        set_raw_option(listener.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &none);
}

/// Has a classic BPF program choose among the sockets of a group, which count in the order in which they
/// were bound.
pub(crate) fn attach_program(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    if program.len() > STEPS_MAX {
        return Err(io::Error::other(format!("{} steps are too many", program.len())));
    }
    let told = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set_raw_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &told)
}

/// Sets an option whose value is a plain structure of the kernel's.
pub(crate) fn set_raw_option<T>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads `len` bytes of a value
    // that lives as long as the call. What a `sock_fprog` points to does so too, as its caller holds
    // the array.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// First where each processor leads to, then for each node the choice among its sockets.
fn program(sockets: &[usize], node_of: &BTreeMap<usize, usize>) -> Vec<libc::sock_filter> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut of_nodes: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (socket, node) in (0..).zip(sockets) {
        of_nodes.entry(*node).or_default().push(socket);
    }
    let ranges = ranges(node_of);
    let mut begins = BTreeMap::new();
    // Two steps for each range, one before them and one behind.
    let mut next = 2 + 2 * ranges.len();
    for (node, own) in &of_nodes {
        begins.insert(*node, next);
        next += steps_of_choice(own.len());
    }
    let mut all = vec![step(LOAD_WORD, 0, 0, PROCESSOR)];
    for (last, node) in ranges {
        all.push(step(JUMP_IF_ABOVE, 1, 0, last as u32));
        all.push(match begins.get(&node) {
            Some(begin) => step(JUMP, 0, 0, (begin - all.len() - 1) as u32),
            None => step(RETURN, 0, 0, NONE),
        });
    }
    all.push(step(RETURN, 0, 0, NONE));
    for own in of_nodes.values() {
        let count = own.len() as u32;
        all.push(step(LOAD_WORD, 0, 0, RANDOM));
        all.push(step(MODULO, 0, 0, count));
        for (turn, socket) in (0..).zip(own) {
            all.push(step(JUMP_IF_EQUAL, 0, 1, turn));
            all.push(step(RETURN, 0, 0, *socket));
        }
        all.push(step(RETURN, 0, 0, NONE));
    }
    all
}

fn steps_of_choice(sockets: usize) -> usize {
    3 + 2 * sockets
}

/// The last processor of each run of processors on one node, and that node.
fn ranges(node_of: &BTreeMap<usize, usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (cpu, node) in node_of {
        match ranges.last_mut() {
            Some((last, of)) if of == node => *last = *cpu,
            _ => ranges.push((*cpu, *node)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::listener::ListenOptions;
    use crate::topology::{Topology, pin_current_thread};
    use rustix::net::{SocketFlags, accept_with};
    use std::net::TcpStream;

    /// What a program makes of a processor and a random number.
    fn run(program: &[libc::sock_filter], cpu: u32, random: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                LOAD_WORD if step.k == PROCESSOR => value = cpu,
                LOAD_WORD if step.k == RANDOM => value = random,
                MODULO => value %= step.k,
                JUMP => at += step.k as usize,
                JUMP_IF_EQUAL => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                JUMP_IF_ABOVE => at += usize::from(if value > step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                _ => panic!("{step:?}"),
            }
        }
    }

    #[test]
    fn each_processor_leads_to_the_sockets_of_its_node() {
        // Workers take turns among nodes; processors lie as they do on machines of both kinds.
        for interleaved in [false, true] {
            let node = |cpu: usize| if interleaved { cpu % 2 } else { cpu / 64 };
            let node_of = (0..128).map(|cpu| (cpu, node(cpu))).collect();
            let sockets: Vec<usize> = (0..100).map(|worker| worker % 2).collect();
            let program = program(&sockets, &node_of);
            assert!(program.len() <= STEPS_MAX);
            for cpu in 0..128 {
                let chosen: Vec<u32> = (0..50).map(|turn| run(&program, cpu, turn)).collect();
                let own = (0..100).filter(|at| sockets[*at as usize] == node(cpu as usize));
                assert!(own.eq(chosen));
            }
            assert_eq!(run(&program, 128, 0), NONE);
        }
    }

    #[test]
    fn a_node_without_sockets_and_a_machine_that_is_too_large_are_left_to_the_kernel() {
        let node_of = BTreeMap::from([(0, 0), (1, 1), (2, 2), (3, 0)]);
        let program = program(&[0, 2], &node_of);
        let chosen: Vec<u32> = (0..5).map(|cpu| run(&program, cpu, 7)).collect();
        assert_eq!(chosen, [0, NONE, 1, 0, NONE]);
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &ListenOptions::default());
        let alternating = (0..8192).map(|cpu| (cpu, cpu % 2)).collect();
        assert!(attach(&listener.unwrap(), &[0, 1], &alternating).is_err());
    }

    #[test]
    fn the_kernel_gives_connections_to_sockets_of_their_node() {
        let cpus = Topology::read().worker_cpus(None);
        let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
        let first = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = first.local_address().clone();
        let mut sockets = vec![first];
        sockets.extend((1..4).map(|_| Listener::bind(&address, &options).unwrap()));
        // As if each processor were a node, and the first two sockets of the first of them.
        let nodes = cpus.iter().enumerate().map(|(node, cpu)| (cpu.cpu, node));
        attach(&sockets[0], &[0, 0, 1, 1], &nodes.collect()).unwrap();
        let Address::Tcp(address) = address else { panic!("{address}") };
        for (node, cpu) in cpus.iter().enumerate().take(2) {
            let cpu = cpu.cpu;
            let clients = std::thread::spawn(move || {
                pin_current_thread(&[cpu]).unwrap();
                (0..40).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
            });
            let _open = clients.join().unwrap();
            let waiting: Vec<usize> = sockets.iter().map(waiting).collect();
            assert_eq!(waiting.iter().sum::<usize>(), 40, "{waiting:?}");
            let own = &waiting[2 * node..2 * node + 2];
            assert!(own.iter().all(|count| *count > 0), "{waiting:?}");
            assert_eq!(own.iter().sum::<usize>(), 40, "{waiting:?}");
        }
    }

    /// Accepts what waits at a socket.
    fn waiting(socket: &Listener) -> usize {
        let accepted = || accept_with(socket.as_fd(), SocketFlags::CLOEXEC);
        std::iter::from_fn(|| accepted().ok()).count()
    }
}
