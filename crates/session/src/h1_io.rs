//! The socket side of an HTTP/1 connection: bytes in, bytes out, shared by the session and the
//! request body that is read while the session works.

use super::deadline::{Deadline, Expired};
use freshet_net::stream::Stream;
use freshet_store::{Lease, lend};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Bytes read from a socket at a time. A head fits; a larger upload takes several reads.
const READ_BYTES: usize = 16 << 10;
/// Parts sent by one call: a head, pieces of a body, the end of a chunk.
pub(super) const PARTS_MAX: usize = 8;
/// After this many bytes a sender lets the worker's other connections run.
pub(super) const TURN_BYTES: usize = 512 << 10;

thread_local! {
    /// Where all connections of a worker read to; what arrived is copied to its connection, so an
    /// idle one holds no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// A connection. Borrowed only within a poll, never across one.
pub(super) struct Io {
    stream: Stream,
    input: Vec<u8>,
    start: usize,
    ended: bool,
    /// Bytes of [`CONTINUE`] already sent.
    continue_sent: usize,
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A handle to the connection.
#[derive(Clone)]
pub(super) struct SharedIo(Rc<RefCell<Io>>);

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum Broken {
    /// The socket failed or the peer vanished.
    Io,
    /// A time limit passed.
    Timeout,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

impl From<Expired> for Broken {
    fn from(_: Expired) -> Self {
        Self::Timeout
    }
}

impl SharedIo {
    pub(super) fn new(stream: Stream, first_bytes: Vec<u8>) -> Self {
        Self(Rc::new(RefCell::new(Io {
            stream,
            input: first_bytes,
            start: 0,
            ended: false,
            continue_sent: 0,
        })))
    }

    /// Reads more. `Ok(false)` at the end.
    pub(super) fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let io = &mut *self.0.borrow_mut();
        if io.ended {
            return Poll::Ready(Ok(false));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let count = ready!(io.stream.poll_read(cx, scratch))?;
            io.ended = count == 0;
            if io.start == io.input.len() {
                io.input.clear();
                io.start = 0;
            }
            io.input.extend_from_slice(&scratch[..count]);
            Poll::Ready(Ok(count > 0))
        })
    }

    /// Looks at what was read and not consumed.
    pub(super) fn with_input<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        let io = self.0.borrow();
        look(&io.input[io.start..])
    }

    /// Removes bytes from the front of what was read, and the buffer with the last one.
    pub(super) fn consume(&self, bytes: usize) {
        let io = &mut *self.0.borrow_mut();
        io.start += bytes;
        debug_assert!(io.start <= io.input.len());
        if io.start == io.input.len() {
            io.input = Vec::new();
            io.start = 0;
        } else if io.start > READ_BYTES {
            io.input.drain(..io.start);
            io.start = 0;
        }
    }

    /// Whether nothing read waits to be consumed.
    pub(super) fn input_is_empty(&self) -> bool {
        self.with_input(<[u8]>::is_empty)
    }

    /// Sends `parts` whole, in order, in as few calls as the socket takes them. The limit is on
    /// the time without progress.
    pub(super) async fn send(
        &self,
        parts: &[&[u8]],
        deadline: &mut Deadline,
        limit: Duration,
    ) -> Result<(), Broken> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        let mut turn = 0;
        while sent < total {
            let taken =
                deadline.within(limit, poll_fn(|cx| self.poll_send(cx, parts, sent))).await??;
            sent += taken;
            turn += taken;
            if turn >= TURN_BYTES {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
        deadline.within(limit, poll_fn(|cx| self.poll_flush(cx))).await??;
        Ok(())
    }

    /// Whether bytes may go by reference: in the clear they leave as they are.
    pub(super) fn is_clear(&self) -> bool {
        !self.0.borrow().stream.is_tls()
    }

    /// Whether this should be the connection's last response; see [`Stream::is_worn`].
    pub(super) fn is_worn(&self) -> bool {
        self.0.borrow().stream.is_worn()
    }

    /// Sends from the front of `head` and `lease` behind their first `skip` bytes. Of the lease the
    /// kernel gets references instead of a copy where it can. `more` says that other bytes follow at
    /// once.
    pub(super) fn poll_lend(
        &self,
        cx: &mut Context<'_>,
        head: &[u8],
        lease: &Lease,
        skip: usize,
        more: bool,
    ) -> Poll<io::Result<usize>> {
        if let Some(rest) = head.get(skip..).filter(|rest| !rest.is_empty()) {
            return self.0.borrow_mut().stream.poll_write_more(cx, rest);
        }
        let rest = lease.slice(skip - head.len()..lease.len());
        let lend = |socket: BorrowedFd<'_>| lend::send(&rest, socket, more);
        let lent = ready!(self.0.borrow_mut().stream.poll_write_with(cx, lend));
        match lent {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.poll_send(cx, &[&rest], 0)
            }
            lent => Poll::Ready(lent),
        }
    }

    /// Waits until what was taken is with the kernel.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().stream.poll_flush(cx)
    }

    /// Waits until the client has closed its side, or the connection broke. What it sends before
    /// that is read and kept, up to a buffer of it: the next request of one that does not wait.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.with_input(<[u8]>::len) >= READ_BYTES {
                return Poll::Pending;
            }
            if !ready!(self.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Tells a client that waits with its body to send it (RFC 9110 §10.1.1). An error shows in
    /// the read that follows.
    pub(super) fn poll_send_continue(&self, cx: &mut Context<'_>) -> Poll<()> {
        let io = &mut *self.0.borrow_mut();
        while io.continue_sent < CONTINUE.len() {
            match ready!(io.stream.poll_write(cx, &CONTINUE[io.continue_sent..])) {
                Ok(count) if count > 0 => io.continue_sent += count,
                _ => break,
            }
        }
        io.continue_sent = 0;
        io.stream.poll_flush(cx).map(|_| ())
    }

    /// Sends from the front of `parts` behind their first `skip` bytes; how many.
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
        mut skip: usize,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        let mut count = 0;
        for part in parts {
            let start = skip.min(part.len());
            skip -= start;
            if start < part.len() && count < slices.len() {
                slices[count] = IoSlice::new(&part[start..]);
                count += 1;
            }
        }
        match ready!(self.0.borrow_mut().stream.poll_write_pieces(cx, &slices[..count])) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            result => Poll::Ready(result),
        }
    }

    /// The stream and what was read of it, once nobody else holds the connection.
    pub(super) fn into_stream(self) -> Option<(Stream, Vec<u8>)> {
        let io = Rc::into_inner(self.0)?.into_inner();
        Some((io.stream, io.input[io.start..].to_vec()))
    }

    /// Ends the connection, reading on a little so that the last response is not lost to a reset.
    pub(super) async fn close(self, linger: Duration) {
        if let Some((stream, _)) = self.into_stream() {
            stream.close(linger).await;
        }
    }
}
