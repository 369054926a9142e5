//! rustls' own records over a non-blocking socket: connections to origins.
//!
//! Sealing: a batch of plaintext becomes a few records in rustls' queue and leaves by one `writev`
//! of them; while the socket is full nothing more is sealed. Opening: ciphertext is read into a
//! buffer of the thread, fed through rustls and comes out in the caller's slice. rustls itself
//! would read 4 KiB at a time.
//!
//! An idle session holds rustls' state and its smallest input buffer and nothing of ours.

use crate::limits::{
    BATCH_BYTES_MAX, PIECES_MAX, PIGGYBACK_BYTES_MAX, READ_BYTES_MAX, READ_BYTES_MIN,
};
use crate::socket::{Polled, Socket, Tried};
use crate::tls::handshake::Handshake;
use crate::tls::{HandshakeContext, TlsInfo};
use rustls::Connection;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::task::{Context, Poll, ready};

thread_local! {
    /// Ciphertext between the socket and rustls. Never held across a wait, so one is enough.
    static CIPHERTEXT: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// One TLS connection over its socket.
pub(crate) struct Session {
    connection: Connection,
    socket: Socket,
    context: HandshakeContext,
    input: Input,
    /// The queue holds only session tickets of the handshake, which can wait for company.
    tickets_queued: bool,
}

impl Session {
    /// A session whose handshake has not begun.
    pub(crate) fn new(
        mut connection: Connection,
        socket: Socket,
        context: HandshakeContext,
    ) -> Self {
        connection.set_buffer_limit(Some(BATCH_BYTES_MAX + PIGGYBACK_BYTES_MAX));
        Self { connection, socket, context, input: Input::default(), tickets_queued: false }
    }

    /// Reads plaintext; see [`Stream::read`](crate::stream::Stream::read) for what comes back.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(result) = self.take_plaintext(out) {
                return Poll::Ready(result);
            }
            let mut wire = Polled { socket: &mut self.socket, cx };
            match self.input.advance(&mut self.connection, &mut wire, out) {
                Ok(0) => {}
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Tickets, answers to key updates and alerts leave before a long wait. Where
                    // the socket fails, reading will say so.
                    let _ = self.poll_flush(cx);
                    self.input.shrink(&mut self.connection);
                    return Poll::Pending;
                }
                Err(error) => {
                    let _ = self.poll_flush(cx);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// As [`Session::poll_read`] with `WouldBlock` in place of waiting.
    pub(crate) fn try_read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(result) = self.take_plaintext(out) {
                return result;
            }
            let mut wire = Tried(&self.socket);
            let count = self.input.advance(&mut self.connection, &mut wire, out)?;
            if count > 0 {
                return Ok(count);
            }
        }
    }

    /// Seals a batch from the front of `pieces` and hands it to the socket as far as it goes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.tickets_queued {
            ready!(self.poll_flush(cx))?;
        }
        let (batch, count) = batch_of(pieces);
        let taken = self.connection.writer().write_vectored(&batch[..count])?;
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken)),
        }
    }

    /// Hands everything sealed to the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tickets_queued = false;
        while self.connection.wants_write() {
            let mut wire = Polled { socket: &mut self.socket, cx };
            match self.connection.write_tls(&mut wire) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `close_notify`, then FIN (RFC 8446 §6.1).
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.send_close_notify();
        ready!(self.poll_flush(cx))?;
        self.socket.poll_shutdown(cx)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    pub(crate) fn info(&self) -> TlsInfo {
        match &self.connection {
            Connection::Server(server) => TlsInfo::of_server(server, &self.context),
            Connection::Client(client) => TlsInfo::of(client, None),
        }
    }

    /// Plaintext that is already open, the end included; `None` when more input is needed.
    fn take_plaintext(&mut self, out: &mut [u8]) -> Option<io::Result<usize>> {
        match self.connection.reader().read(out) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            result => Some(result),
        }
    }
}

impl Handshake for Session {
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(self, cx)
    }

    /// Here rustls' own small reads do: a flight is one or two of them.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut wire = Polled { socket: &mut self.socket, cx };
        match self.connection.read_tls(&mut wire) {
            Ok(count) => Poll::Ready(Ok(count > 0)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn step(&mut self) -> Result<(), rustls::Error> {
        self.context.during(|| self.connection.process_new_packets()).map(|_| ())
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn finish(&mut self) -> bool {
        let version = self.connection.protocol_version();
        self.input.grown = true;
        self.tickets_queued = matches!(self.connection, Connection::Server(_))
            && version == Some(rustls::ProtocolVersion::TLSv1_3);
        self.tickets_queued
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Ciphertext on its way into rustls.
#[derive(Default)]
struct Input {
    /// What was read but has no room behind a full slice of the caller; nearly always empty.
    unopened: Vec<u8>,
    /// rustls' buffer may be larger than its smallest size.
    grown: bool,
    /// The peer broke the protocol; rustls keeps the error.
    broken: bool,
}

impl Input {
    /// Takes one portion of ciphertext, left over or from `wire`, and opens it into `out`. Returns
    /// the plaintext bytes in `out`; 0 asks to look at the connection again.
    fn advance(
        &mut self,
        connection: &mut Connection,
        wire: &mut dyn Read,
        out: &mut [u8],
    ) -> io::Result<usize> {
        if self.broken {
            return connection.process_new_packets().map(|_| 0).map_err(invalid);
        }
        if !self.unopened.is_empty() {
            let left_over = std::mem::take(&mut self.unopened);
            return self.open(connection, &left_over, out);
        }
        CIPHERTEXT.with_borrow_mut(|buffer| {
            let bytes = out.len().clamp(READ_BYTES_MIN, READ_BYTES_MAX);
            match wire.read(&mut buffer[..bytes])? {
                0 => connection.read_tls(&mut io::empty()).map(|_| 0),
                count => self.open(connection, &buffer[..count], out),
            }
        })
    }

    fn open(
        &mut self,
        connection: &mut Connection,
        mut input: &[u8],
        out: &mut [u8],
    ) -> io::Result<usize> {
        let mut filled = 0;
        while !input.is_empty() {
            if connection.read_tls(&mut input)? == 0 {
                // After close_notify nothing counts (RFC 8446 §6.1).
                break;
            }
            self.grown = true;
            let processed = connection.process_new_packets();
            while filled < out.len() {
                match connection.reader().read(&mut out[filled..]) {
                    Ok(count) if count > 0 => filled += count,
                    _ => break,
                }
            }
            if let Err(error) = processed {
                // What was opened before the violation is genuine; the error is for the next read.
                self.broken = true;
                return if filled > 0 { Ok(filled) } else { Err(invalid(error)) };
            }
            if filled == out.len() {
                self.unopened.extend_from_slice(input);
                break;
            }
        }
        Ok(filled)
    }

    /// Brings rustls' buffer back to its smallest size. It shrinks when a read begins while the
    /// buffer is empty, so begin one that has nothing.
    fn shrink(&mut self, connection: &mut Connection) {
        if self.grown {
            self.grown = false;
            let _ = connection.read_tls(&mut Nothing);
        }
    }
}

/// A reader that has nothing yet.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// The first [`BATCH_BYTES_MAX`] of `pieces` and how many pieces that is.
fn batch_of<'a>(pieces: &'a [IoSlice<'_>]) -> ([IoSlice<'a>; PIECES_MAX], usize) {
    let mut batch = [IoSlice::new(&[]); PIECES_MAX];
    let mut room = BATCH_BYTES_MAX;
    let mut count = 0;
    for (to, from) in batch.iter_mut().zip(pieces) {
        if room == 0 {
            break;
        }
        let part = &from[..from.len().min(room)];
        *to = IoSlice::new(part);
        room -= part.len();
        count += 1;
    }
    (batch, count)
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
