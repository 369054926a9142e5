//! What a send of cached bytes costs by length: a copy into the socket against references to pages.
//! The peer reads without copying (`MSG_TRUNC`), on another thread. What is shown is CPU time of the
//! sending thread, which on loopback does most of the receiving kernel's work as well.
#![allow(clippy::unwrap_used, reason = "a bench has nobody to tell")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use freshet_store::{Arena, Lease, lend};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, recv};
use rustix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

/// Connections in turn, so that the peer is behind and works on other pages: on one connection the
/// two sides fight for the same reference counts, and a copy costs less.
const CONNECTIONS: usize = 64;

fn connections() -> Vec<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..CONNECTIONS)
        .map(|_| {
            let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            ours.set_nonblocking(true).unwrap();
            ours.set_nodelay(true).unwrap();
            (ours, listener.accept().unwrap().0)
        })
        .unzip();
    thread::spawn(move || {
        let mut unused = [0; 1 << 20];
        let flags = RecvFlags::TRUNC;
        while theirs.iter().all(|peer| matches!(recv(peer, &mut unused, flags), Ok((_, 1..)))) {}
    });
    ours
}

/// Sends all of the lease, waiting as often as the socket is full.
fn send_all(socket: &TcpStream, lease: &Lease, send: impl Fn(&Lease) -> std::io::Result<usize>) {
    let mut sent = 0;
    while sent < lease.len() {
        match send(&lease.slice(sent..lease.len())) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(socket, PollFlags::OUT)], None).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn processor_time(times: u64, mut run: impl FnMut()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    (0..times).for_each(|_| run());
    now() - before
}

fn sends(criterion: &mut Criterion) {
    let arena = Arena::new(128 << 20).unwrap();
    let mut group = criterion.benchmark_group("send");
    for kib in [32, 128, 512, 1024] {
        let len = kib << 10;
        group.throughput(Throughput::Bytes(len as u64));
        let targets: Vec<_> = connections()
            .into_iter()
            .map(|socket| {
                let mut piece = arena.allocate(len).unwrap();
                piece.spare().fill(7);
                (socket, piece.publish(len))
            })
            .collect();
        let mut at = 0;
        let mut one = |send: fn(&Lease, &TcpStream) -> std::io::Result<usize>| {
            at = (at + 1) % CONNECTIONS;
            let (socket, lease) = &targets[at];
            send_all(socket, lease, |part| send(part, socket));
        };
        group.bench_function(BenchmarkId::new("copy", kib), |bencher| {
            bencher.iter_custom(|times| {
                processor_time(times, || one(|part, mut socket| socket.write(part)))
            });
        });
        group.bench_function(BenchmarkId::new("lend", kib), |bencher| {
            bencher.iter_custom(|times| {
                let send =
                    |part: &Lease, socket: &TcpStream| lend::send(part, socket.as_fd(), false);
                processor_time(times, || one(send))
            });
        });
    }
}

criterion_group!(benches, sends);
criterion_main!(benches);
