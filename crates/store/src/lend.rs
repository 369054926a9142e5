//! Sending cached bytes without copying them: the kernel gets references to their pages.
//!
//! `vmsplice` puts references to the pages into a pipe and `splice` moves them on into the socket's
//! queue. There and on the way to the peer (for a peer on this machine: until it has read) the
//! kernel reads from our pages, so they must not change; nothing tells when it is done. So a piece
//! that was ever lent does not go back to be written again: when its last share goes, its pages are
//! given to the kernel, which keeps those it still refers to, and the next piece there begins with
//! new ones. That price is paid once for a piece, which is why a piece is lent only from the second
//! time on that somebody wants to send it ([`Lease::is_worth_lending`]).
//!
//! What is in flight when a piece ends is no longer counted by the arena. It is bounded by the
//! sockets' send buffers, as copies in them would be.

use crate::limits::LEND_PIPE_BYTES;
use crate::piece::Lease;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Sends bytes from the front of `lease` on a non-blocking socket and returns how many it took, at
/// least one. `more` says that other bytes follow at once, so the last packet may wait for them.
///
/// Two system calls and no allocation. Each thread has one pipe, which is empty between calls.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when the socket takes nothing now, [`io::ErrorKind::Unsupported`]
/// when this kernel or its limits do not allow lending (send a copy instead), or those of the socket.
pub fn send(lease: &Lease, socket: BorrowedFd<'_>, more: bool) -> io::Result<usize> {
    THREAD_PIPE.with_borrow_mut(|pipe| {
        if matches!(pipe, ThreadPipe::Untried) {
            *pipe = Pipe::new().map_or(ThreadPipe::Refused, ThreadPipe::Open);
        }
        let ThreadPipe::Open(open) = pipe else { return Err(io::ErrorKind::Unsupported.into()) };
        let Ok(filled) = open.fill(lease) else {
            *pipe = ThreadPipe::Refused;
            return Err(io::ErrorKind::Unsupported.into());
        };
        let taken = open.empty_into(socket, filled, more);
        if !matches!(taken, Ok(taken) if taken == filled) {
            // What is left would go to whoever sends next. A new pipe is the cheapest way to lose it.
            *pipe = ThreadPipe::Untried;
        }
        taken
    })
}

enum ThreadPipe {
    Untried,
    Open(Pipe),
    /// Not tried again: what forbids it does not change while the thread runs.
    Refused,
}

thread_local! {
    static THREAD_PIPE: RefCell<ThreadPipe> = const { RefCell::new(ThreadPipe::Untried) };
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> rustix::io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user may have only so many pages in pipes; a small pipe takes more calls and is right.
        fcntl_setpipe_size(&write, LEND_PIPE_BYTES).ok();
        Ok(Self { read, write })
    }

    /// Refers to the first bytes of `lease` in the empty pipe; returns how many, at least one.
    fn fill(&self, lease: &Lease) -> rustix::io::Result<usize> {
        let bytes = lease.lend();
        let part = IoSlice::new(&bytes[..bytes.len().min(LEND_PIPE_BYTES)]);
        // SAFETY: without `GIFT` the kernel only reads the pages. They are mapped, and stay as they
        // are: bytes of a lease never change while their piece lives, and `Lease::lend` has marked
        // the piece so that its pages are given up, not written again, when it ends.
        let filled = unsafe {
            vmsplice(&self.write, &[IoSliceRaw::from_slice(&part)], SpliceFlags::NONBLOCK)
        }?;
        if filled == 0 { Err(rustix::io::Errno::INVAL) } else { Ok(filled) }
    }

    fn empty_into(&self, to: BorrowedFd<'_>, bytes: usize, more: bool) -> io::Result<usize> {
        let flags =
            SpliceFlags::NONBLOCK | if more { SpliceFlags::MORE } else { SpliceFlags::empty() };
        match splice(&self.read, None, to, None, bytes, flags)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            taken => Ok(taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use crate::limits::LEND_BYTES_MIN;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn filled(arena: &Arc<Arena>, len: usize, byte: u8) -> Lease {
        let mut piece = arena.allocate(len).expect("memory is free");
        piece.spare()[..len].fill(byte);
        piece.publish(len)
    }

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("descriptors are free");
        ours.set_nonblocking(true).expect("a socket can be non-blocking");
        (ours, theirs)
    }

    #[test]
    fn a_piece_is_worth_lending_from_the_second_time_on() {
        let arena = Arena::new(8 << 20).expect("address space is free");
        let lease = filled(&arena, LEND_BYTES_MIN, 1);
        assert!(!lease.is_worth_lending());
        assert!(lease.slice(0..LEND_BYTES_MIN).is_worth_lending());
        assert!(!lease.slice(1..LEND_BYTES_MIN).is_worth_lending(), "too few bytes");
        let small = filled(&arena, 1000, 1);
        assert!(!small.is_worth_lending() && !small.is_worth_lending());
    }

    #[test]
    fn all_bytes_arrive_whatever_the_socket_takes_at_once() {
        let arena = Arena::new(8 << 20).expect("address space is free");
        let mut piece = arena.allocate(1 << 20).expect("memory is free");
        for (at, byte) in piece.spare().iter_mut().enumerate() {
            *byte = (at * 7 + at / 4096) as u8;
        }
        let lease = piece.publish(1 << 20);
        // Neither end is at a page, so every reference is to a part of one.
        let lease = lease.slice(13..(1 << 20) - 5);
        let (ours, mut theirs) = pair();
        let mut received = Vec::new();
        let mut sent = 0;
        let mut refused = 0;
        while sent < lease.len() {
            match send(&lease.slice(sent..lease.len()), ours.as_fd(), false) {
                Ok(taken) => sent += taken,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    refused += 1;
                    let mut buffer = vec![0; 10_000];
                    let count = theirs.read(&mut buffer).expect("the other end is open");
                    received.extend_from_slice(&buffer[..count]);
                }
            }
        }
        drop(ours);
        theirs.read_to_end(&mut received).expect("the other end closed");
        assert!(refused > 0, "the socket was never full");
        assert!(received == *lease);
    }

    #[test]
    fn bytes_in_flight_outlive_their_piece_and_the_next_use_of_its_memory() {
        let arena = Arena::new(4 << 20).expect("address space is free");
        for round in 1..=20 {
            let lease = filled(&arena, 128 << 10, round);
            let (ours, mut theirs) = pair();
            let sent = send(&lease, ours.as_fd(), false).expect("a new socket takes some");
            let whole: *const u8 = lease.as_ptr();
            drop(lease);
            let again = filled(&arena, 128 << 10, 0xee);
            assert_eq!(again.as_ptr(), whole, "the same memory is used again");
            drop(ours);
            let mut received = Vec::new();
            theirs.read_to_end(&mut received).expect("the other end closed");
            assert_eq!(received, vec![round; sent]);
            assert!(again.iter().all(|byte| *byte == 0xee));
        }
    }

    #[test]
    fn a_closed_peer_is_an_error_and_leaves_nothing_for_the_next() {
        let arena = Arena::new(8 << 20).expect("address space is free");
        let (ours, theirs) = pair();
        drop(theirs);
        let lost = send(&filled(&arena, 64 << 10, 1), ours.as_fd(), false);
        assert_eq!(lost.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
        let (mut ours, mut theirs) = pair();
        ours.write_all(b"head").expect("a new socket takes some");
        let sent = send(&filled(&arena, 64 << 10, 2), ours.as_fd(), true).expect("so does it now");
        drop(ours);
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).expect("the other end closed");
        assert_eq!(received, [&b"head"[..], &vec![2; sent]].concat());
    }
}
