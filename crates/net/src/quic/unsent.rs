//! What the kernel had no room for: it waits until there is some.

use crate::limits::{SEND_PAUSE, SEND_PAUSES_MAX};
use freshet_quic::{Ecn, Route};
use rustix::io::Errno;
use socket2::Socket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Sleep, sleep};

/// Why the kernel takes no more now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Full {
    /// The buffer of the socket, which says when there is room again.
    Socket,
    /// The queue of a device, which does not.
    Device,
}

impl Full {
    /// Whether an error says so.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::AGAIN => Some(Self::Socket),
            Errno::NOBUFS => Some(Self::Device),
            _ => None,
        }
    }
}

/// Datagrams that wait: one batch at most, as who has more asks first.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) route: Route,
    pub(super) ecn: Ecn,
    pub(super) bytes: Vec<u8>,
    pub(super) segment_bytes: usize,
    room: Room,
    pauses_left: u32,
}

/// What is waited for.
#[derive(Debug)]
enum Room {
    Writable(AsyncFd<Socket>),
    Pause(Pin<Box<Sleep>>),
}

impl Unsent {
    pub(super) fn new(
        (route, ecn): (Route, Ecn),
        bytes: &[u8],
        segment_bytes: usize,
        (full, socket): (Full, &Socket),
    ) -> Self {
        let (bytes, room) = (bytes.to_vec(), Room::of(full, socket));
        Self { route, ecn, bytes, segment_bytes, room, pauses_left: SEND_PAUSES_MAX }
    }

    /// Ready when it may be tried again; false when it was tried for long enough.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match &mut self.room {
            // Before it is tried: what changes meanwhile is not missed.
            Room::Writable(socket) => match ready!(socket.poll_write_ready(cx)) {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return Poll::Ready(false),
            },
            Room::Pause(pause) => {
                ready!(pause.as_mut().poll(cx));
                self.pauses_left = self.pauses_left.saturating_sub(1);
            }
        }
        Poll::Ready(self.pauses_left > 0)
    }

    /// It was tried: so many bytes of it are gone, and there is no room for more.
    pub(super) fn wait(&mut self, gone: usize, full: Full, socket: &Socket) {
        self.bytes.drain(..gone.min(self.bytes.len()));
        // A socket that has just said that it has room, and takes nothing, does not say so again.
        self.room = match (full, &self.room) {
            (Full::Socket, Room::Pause(_)) => Room::of(full, socket),
            _ => Room::of(Full::Device, socket),
        };
    }
}

impl Room {
    /// A socket is only watched while something waits: each datagram that leaves would wake the worker.
    fn of(full: Full, socket: &Socket) -> Self {
        let watched = || {
            let socket = socket.try_clone().ok()?;
            // SAFETY: the `AsyncFd` owns the socket, which stays open and the same while it lives.
            unsafe { AsyncFd::register_with_interest(socket, Interest::WRITABLE) }.ok()
        };
        match (full == Full::Socket).then(watched).flatten() {
            Some(socket) => Self::Writable(socket),
            None => Self::Pause(Box::pin(sleep(SEND_PAUSE))),
        }
    }
}
