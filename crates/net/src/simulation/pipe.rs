//! Both ends of a connection in memory.

use freshet_base::splitmix::next;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes under way or unread in one direction at most, as in the buffers of a kernel.
const WINDOW_BYTES: usize = 64 * 1024;

/// What becomes of what is sent in one direction.
#[derive(Debug)]
pub(super) struct Conditions {
    /// How long bytes are under way.
    pub(super) delay: Duration,
    /// How many are taken or given at once at most.
    pub(super) piece_bytes: usize,
    /// After how many of them the connection is reset, where it is.
    pub(super) reset_after: Option<u64>,
    /// For what is drawn.
    pub(super) seed: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    incoming: Arc<Mutex<Way>>,
    outgoing: Arc<Mutex<Way>>,
    local: SocketAddr,
    peer: SocketAddr,
}

/// One direction.
#[derive(Debug)]
struct Way {
    conditions: Conditions,
    /// What is under way or unread, with the time of its arrival.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    sent_bytes: u64,
    /// When the last of it arrives, its end included.
    latest: Instant,
    ends: Option<Instant>,
    /// Both ways are lost.
    is_reset: bool,
    /// Nobody reads any more.
    is_unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    timer: Option<Pin<Box<Sleep>>>,
}

pub(super) fn pair(
    (near, far): (SocketAddr, SocketAddr),
    (there, back): (Conditions, Conditions),
) -> (End, End) {
    let (there, back) = (Way::new(there), Way::new(back));
    let here =
        End { incoming: Arc::clone(&back), outgoing: Arc::clone(&there), local: near, peer: far };
    (here, End { incoming: there, outgoing: back, local: far, peer: near })
}

impl End {
    pub(crate) const fn local_address(&self) -> SocketAddr {
        self.local
    }

    pub(crate) const fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// What has arrived, without waiting.
    pub(crate) fn try_read(&self, into: &mut [u8], stays: bool) -> io::Result<usize> {
        let mut way = lock(&self.incoming);
        let read = way.read(into, stays);
        drop(way);
        read
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.incoming).poll_readable(cx)
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_read(into, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_readable(cx))?;
                }
                read => return Poll::Ready(read),
            }
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut way = lock(&self.outgoing);
        if way.bytes < WINDOW_BYTES || way.is_reset || way.is_unread {
            return Poll::Ready(Ok(()));
        }
        way.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_ready(cx))?;
        let mut way = lock(&self.outgoing);
        if way.is_reset || way.is_unread {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let room = WINDOW_BYTES - way.bytes;
        let taken = way.piece_of(from.len().min(room));
        way.send(&from[..taken]);
        let is_lost = way.conditions.reset_after.is_some_and(|after| way.sent_bytes >= after);
        drop(way);
        if is_lost {
            self.reset();
        }
        Poll::Ready(Ok(taken))
    }

    /// No more comes from here.
    pub(crate) fn shutdown(&self) {
        let mut way = lock(&self.outgoing);
        if way.ends.is_none() {
            let arrives = way.arrival();
            way.ends = Some(arrives);
            wake(way.reader.take());
        }
    }

    fn reset(&self) {
        for way in [&self.incoming, &self.outgoing] {
            let mut way = lock(way);
            way.is_reset = true;
            let now = Instant::now();
            // What has arrived can still be read.
            way.pieces.retain(|(arrives, _)| *arrives <= now);
            way.bytes = way.pieces.iter().map(|(_, piece)| piece.len()).sum();
            wake(way.reader.take());
            wake(way.writer.take());
        }
    }
}

impl Drop for End {
    /// As a kernel does for a process that closes or dies: an end, or a reset where something was left
    /// unread.
    fn drop(&mut self) {
        let has_unread = {
            let mut way = lock(&self.incoming);
            way.is_unread = true;
            wake(way.writer.take());
            way.bytes > 0
        };
        if has_unread {
            self.reset();
        } else {
            self.shutdown();
        }
    }
}

impl Way {
    fn new(conditions: Conditions) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            conditions,
            pieces: VecDeque::new(),
            bytes: 0,
            sent_bytes: 0,
            latest: Instant::now(),
            ends: None,
            is_reset: false,
            is_unread: false,
            reader: None,
            writer: None,
            timer: None,
        }))
    }

    /// A number up to `bytes`, and not 0 where that is not.
    fn piece_of(&mut self, bytes: usize) -> usize {
        let most = bytes.min(self.conditions.piece_bytes.max(1));
        if most == 0 {
            return 0;
        }
        // Mostly all of it: pieces are an exception also in real networks.
        match next(&mut self.conditions.seed) % 4 {
            0 => 1 + (next(&mut self.conditions.seed) % most as u64) as usize,
            _ => most,
        }
    }

    /// When what is sent now arrives, which is behind all else.
    fn arrival(&mut self) -> Instant {
        let delay = self.conditions.delay;
        // Now and then a packet has to be sent again.
        let late = if next(&mut self.conditions.seed).is_multiple_of(32) { 3 } else { 1 };
        self.latest = self.latest.max(Instant::now() + delay * late);
        self.latest
    }

    fn send(&mut self, bytes: &[u8]) {
        let arrives = self.arrival();
        self.bytes += bytes.len();
        self.sent_bytes += bytes.len() as u64;
        self.pieces.push_back((arrives, bytes.to_vec()));
        wake(self.reader.take());
    }

    fn read(&mut self, into: &mut [u8], stays: bool) -> io::Result<usize> {
        let now = Instant::now();
        let has_arrived = self.pieces.front().is_some_and(|(arrives, _)| *arrives <= now);
        if has_arrived {
            let wanted = if stays { into.len() } else { self.piece_of(into.len()) };
            let Some((_, piece)) = self.pieces.front_mut() else { return Ok(0) };
            let count = wanted.min(piece.len());
            into[..count].copy_from_slice(&piece[..count]);
            if !stays {
                piece.drain(..count);
                if piece.is_empty() {
                    self.pieces.pop_front();
                }
                self.bytes -= count;
                wake(self.writer.take());
            }
            return Ok(count);
        }
        match self.ends {
            _ if self.is_reset => Err(io::ErrorKind::ConnectionReset.into()),
            Some(ends) if self.pieces.is_empty() && ends <= now => Ok(0),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.reader = Some(cx.waker().clone());
        let next = self.pieces.front().map(|(arrives, _)| *arrives).or(self.ends);
        match next {
            _ if self.is_reset => Poll::Ready(Ok(())),
            Some(arrives) if arrives <= Instant::now() => Poll::Ready(Ok(())),
            Some(arrives) => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(arrives)));
                timer.as_mut().reset(arrives);
                timer.as_mut().poll(cx).map(Ok)
            }
            None => Poll::Pending,
        }
    }
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
