//! A connection's bytes, in the clear or under TLS, server or client side.
//!
//! One concrete type with an enum inside: the loops above never learn how their bytes are
//! protected, and the common arm inlines. Each operation tries first and waits for readiness only
//! after the kernel said that it would block. An idle stream holds no buffer of ours.

use crate::address::PeerAddress;
use crate::limits::{LINGER_BYTES_MAX, PIECES_MAX, TURN_BYTES_MAX};
use crate::socket::Socket;
use crate::tls::TlsInfo;
use crate::tls::records::Records;
use crate::tls::session::Session;
use rustix::net::RecvFlags;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::timeout;

/// A connection. Reads are cancel-safe: dropping the future loses no byte. Bytes that a write call
/// accepted are on their way in order; [`Stream::flush`] waits until the kernel has them.
#[derive(Debug)]
pub struct Stream {
    inner: Inner,
    /// Bytes written since this task last let others run.
    turn_bytes: usize,
}

/// How bytes are protected.
#[derive(Debug)]
enum Inner {
    /// Not at all.
    Clear(Socket),
    /// By rustls.
    Session(Box<Session>),
    /// By our own records, with keys from rustls.
    Records(Box<Records>),
}

impl Stream {
    /// Reads into `out` what is there, waiting for the first byte. `Ok(0)` is the clean end: FIN in
    /// the clear, `close_notify` under TLS. An empty `out` gives `Ok(0)` at once.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when a TLS peer closed without `close_notify`: what was read
    /// may have been cut short (RFC 8446 §6.1). [`io::ErrorKind::InvalidData`] on a TLS violation.
    /// Otherwise those of the socket.
    pub async fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, out)).await
    }

    /// As [`Stream::read`], giving [`io::ErrorKind::WouldBlock`] instead of waiting. It asks the
    /// kernel, not the runtime, so it also sees what arrived a moment ago.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn try_read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.receive_now(out, RecvFlags::empty()),
            Inner::Session(session) => session.try_read(out),
            Inner::Records(records) => records.try_read(out),
        }
    }

    /// As [`Stream::read`], as a poll.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_receive(cx, out),
            Inner::Session(session) => session.poll_read(cx, out),
            Inner::Records(records) => records.poll_read(cx, out),
        }
    }

    /// Takes some bytes of `from` for sending and says how many; under TLS at most
    /// [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX). Pending means that none were taken.
    ///
    /// # Errors
    /// Those of the socket; the stream is dead afterwards.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_write(cx, from),
            Inner::Session(session) => session.poll_write(cx, &[IoSlice::new(from)]),
            Inner::Records(records) => records.poll_write(cx, &[IoSlice::new(from)]),
        }
    }

    /// As [`Stream::poll_write`] for several pieces in a row, which leave in one system call where
    /// they fit. Only the first [`PIECES_MAX`] are looked at.
    ///
    /// # Errors
    /// As [`Stream::poll_write`].
    pub fn poll_write_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_write_pieces(cx, pieces),
            Inner::Session(session) => session.poll_write(cx, pieces),
            Inner::Records(records) => records.poll_write(cx, pieces),
        }
    }

    /// As [`Stream::poll_write`] for bytes that others follow at once, such as the head before a body
    /// that is sent with [`Stream::poll_write_with`]. In the clear the kernel may hold them back to
    /// fill a packet.
    ///
    /// # Errors
    /// As [`Stream::poll_write`].
    pub fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_write_more(cx, from),
            Inner::Session(_) | Inner::Records(_) => self.poll_write(cx, from),
        }
    }

    /// In the clear: runs `write` on the socket when it takes bytes; it does the sending and returns
    /// how many bytes went, or [`io::ErrorKind::WouldBlock`] to wait and be run again. This is the
    /// way of bytes that the kernel takes otherwise than from a slice.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] under TLS, or those of `write`.
    pub fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_write_with(cx, write),
            Inner::Session(_) | Inner::Records(_) => {
                Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
            }
        }
    }

    /// Sends all of `pieces` in order and returns when the kernel has them. A small head and body
    /// under TLS are one record and one system call; large bodies go in batches of
    /// [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX). Lets other tasks run after every
    /// [`TURN_BYTES_MAX`] bytes. Not cancel-safe: a dropped call has sent an unknown part.
    ///
    /// # Errors
    /// As [`Stream::poll_write`].
    pub async fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let mut rest = Rest { pieces, offset: 0 };
        while rest.skip_empty() {
            let (window, count) = rest.window();
            let window = &window[..count];
            let mut waited = false;
            let taken = poll_fn(|cx| {
                let poll = self.poll_write_pieces(cx, window);
                waited |= poll.is_pending();
                poll
            })
            .await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest.advance(taken);
            self.turn_bytes = if waited { 0 } else { self.turn_bytes.saturating_add(taken) };
            if self.turn_bytes >= TURN_BYTES_MAX {
                self.turn_bytes = 0;
                yield_now().await;
            }
        }
        self.flush().await
    }

    /// Sends all of `bytes`; as [`Stream::write_pieces`].
    ///
    /// # Errors
    /// As [`Stream::poll_write`].
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_pieces(&[IoSlice::new(bytes)]).await
    }

    /// Waits until the kernel has everything that was accepted for sending.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// As [`Stream::flush`], as a poll.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Clear(_) => Poll::Ready(Ok(())),
            Inner::Session(session) => session.poll_flush(cx),
            Inner::Records(records) => records.poll_flush(cx),
        }
    }

    /// Ends our direction: what is accepted is sent, then `close_notify` under TLS, then FIN. The
    /// other direction can still be read.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_shutdown(cx)).await
    }

    /// As [`Stream::shutdown`], as a poll.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_shutdown(cx),
            Inner::Session(session) => session.poll_shutdown(cx),
            Inner::Records(records) => records.poll_shutdown(cx),
        }
    }

    /// Ends our direction and reads on for at most `linger` and [`LINGER_BYTES_MAX`] until the peer
    /// has closed too, so that unread bytes do not turn the close into a reset that destroys what
    /// was sent last (RFC 9112 §9.6). Errors do not matter any more and are not reported.
    pub async fn close(mut self, linger: Duration) {
        let closing = async {
            self.shutdown().await?;
            // On the heap: an array would be part of every connection's task for all its life.
            let mut thrown_away = vec![0; 16 << 10];
            let mut bytes = 0;
            while bytes < LINGER_BYTES_MAX {
                match self.read(&mut thrown_away).await? {
                    0 => break,
                    count => bytes += count,
                }
            }
            io::Result::Ok(())
        };
        timeout(linger, closing).await.ok();
    }

    /// Whether an idle connection can carry another exchange: the peer has not closed and sent
    /// nothing it should not have. Costs one system call. Session tickets that arrived meanwhile
    /// are taken in.
    pub fn is_reusable(&mut self) -> bool {
        match &mut self.inner {
            Inner::Clear(socket) => would_block(socket.receive_now(&mut [0], RecvFlags::PEEK)),
            // Whatever comes out is plaintext nobody asked for, or the end.
            Inner::Session(session) => would_block(session.try_read(&mut [0])),
            Inner::Records(records) => would_block(records.try_read(&mut [0])),
        }
    }

    /// Bytes that were accepted for sending, are sealed and wait for the socket to take them; 0 in
    /// the clear and where rustls does the records.
    pub fn unsent_bytes(&self) -> usize {
        match &self.inner {
            Inner::Records(records) => records.unsent_bytes(),
            Inner::Clear(_) | Inner::Session(_) => 0,
        }
    }

    /// Whether the connection should end soon because its keys cannot be replaced: half of what an
    /// AES-GCM key may seal is used up, under TLS 1.2. With the other half a response that has begun
    /// can be finished; after that writes fail.
    pub fn is_worn(&self) -> bool {
        match &self.inner {
            Inner::Records(records) => records.is_worn(),
            Inner::Clear(_) | Inner::Session(_) => false,
        }
    }

    /// Lowers how many records one key seals before it is replaced, from
    /// [`RECORDS_PER_KEY_MAX`](crate::limits::RECORDS_PER_KEY_MAX); at least 3. For those who want
    /// fresh keys more often, and for tests. Nothing in the clear and where rustls does the records.
    pub fn limit_records_per_key(&mut self, records_max: u64) {
        if let Inner::Records(records) = &mut self.inner {
            records.limit_records_per_key(records_max.max(3));
        }
    }

    /// The peer, if the socket is still connected.
    pub fn peer_address(&self) -> Option<PeerAddress> {
        self.socket().peer_address()
    }

    /// This end's IP address and port; none for a Unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket().local_address()
    }

    /// What the handshake agreed on; none in the clear.
    pub fn tls_info(&self) -> Option<TlsInfo> {
        match &self.inner {
            Inner::Clear(_) => None,
            Inner::Session(session) => Some(session.info()),
            Inner::Records(records) => Some(records.info().clone()),
        }
    }

    /// Whether bytes are protected by TLS.
    pub fn is_tls(&self) -> bool {
        !matches!(self.inner, Inner::Clear(_))
    }

    /// The protocol agreed by ALPN (RFC 7301), if any.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.inner {
            Inner::Clear(_) => None,
            Inner::Session(session) => session.alpn(),
            Inner::Records(records) => records.info().alpn.as_deref(),
        }
    }

    /// The socket under the stream.
    pub fn socket(&self) -> &Socket {
        match &self.inner {
            Inner::Clear(socket) => socket,
            Inner::Session(session) => session.socket(),
            Inner::Records(records) => records.socket(),
        }
    }
}

impl From<Socket> for Stream {
    /// A stream in the clear.
    fn from(socket: Socket) -> Self {
        Self { inner: Inner::Clear(socket), turn_bytes: 0 }
    }
}

impl From<Box<Session>> for Stream {
    fn from(session: Box<Session>) -> Self {
        Self { inner: Inner::Session(session), turn_bytes: 0 }
    }
}

impl From<Box<Records>> for Stream {
    fn from(records: Box<Records>) -> Self {
        Self { inner: Inner::Records(records), turn_bytes: 0 }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Clear(socket) => socket.poll_read(cx, out),
            Inner::Session(session) => {
                let count = ready!(session.poll_read(cx, out.initialize_unfilled()))?;
                out.advance(count);
                Poll::Ready(Ok(()))
            }
            Inner::Records(records) => {
                let count = ready!(records.poll_read(cx, out.initialize_unfilled()))?;
                out.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(self.get_mut(), cx, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_pieces(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(self.get_mut(), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_shutdown(self.get_mut(), cx)
    }
}

/// What is left of a list of pieces.
struct Rest<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    /// Bytes of the first piece that are done.
    offset: usize,
}

impl<'a> Rest<'a, '_> {
    /// Moves past empty pieces; false at the end.
    fn skip_empty(&mut self) -> bool {
        while let [first, rest @ ..] = self.pieces {
            if self.offset < first.len() {
                return true;
            }
            self.pieces = rest;
            self.offset = 0;
        }
        false
    }

    /// The next pieces, the first one without what is done, and how many: as much as may go in one
    /// turn, for the socket of a fast peer takes megabytes at once.
    fn window(&self) -> ([IoSlice<'a>; PIECES_MAX], usize) {
        let mut window = [IoSlice::new(&[]); PIECES_MAX];
        let mut offset = self.offset;
        let mut room = TURN_BYTES_MAX;
        let mut count = 0;
        for (to, from) in window.iter_mut().zip(self.pieces) {
            if room == 0 {
                break;
            }
            let from = from.get(offset..).unwrap_or_default();
            let part = &from[..from.len().min(room)];
            *to = IoSlice::new(part);
            room -= part.len();
            offset = 0;
            count += 1;
        }
        (window, count)
    }

    fn advance(&mut self, mut bytes: usize) {
        while let [first, rest @ ..] = self.pieces {
            let left = first.len() - self.offset;
            if bytes < left {
                self.offset += bytes;
                return;
            }
            bytes -= left;
            self.pieces = rest;
            self.offset = 0;
        }
    }
}

fn would_block(result: io::Result<usize>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
