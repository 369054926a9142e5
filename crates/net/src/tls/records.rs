//! Records of our own over a non-blocking socket, with keys that rustls agreed on.
//!
//! Sealing: a batch of plaintext is sealed from where it lies into a buffer of the thread, which
//! stays in the processor's cache, and leaves by one `write`. What the socket does not take is
//! copied out and belongs to the connection until it is sent; nothing more is sealed meanwhile.
//! So sealed bytes are sent whole, in order and once, whoever drops which future when, and no
//! connection holds a buffer while it has nothing to send.
//!
//! Opening: ciphertext is read into another buffer of the thread, decrypted there and copied to the
//! caller's slice. What is left over, a part of a record as a rule, is kept in a copy of its size.
//!
//! rustls is asked once more for each change of keys and for nothing else.

use crate::limits::{
    BATCH_BYTES_MAX, BATCH_BYTES_MIN, PIECES_MAX, PIGGYBACK_BYTES_MAX, READ_BYTES_MAX,
    READ_BYTES_MIN, RECORDS_PER_KEY_MAX,
};
use crate::socket::{Polled, Socket, Tried};
use crate::tls::{TlsInfo, traffic_key};
use freshet_wire::tls::{
    AlertLevel, Cipher, ContentType, Event, FRAGMENT_BYTES_MAX, HEADER_BYTES,
    KEY_UPDATE_NOT_REQUESTED, OVERHEAD_BYTES_MAX, Opener, PLAINTEXT_BYTES_MAX, SealError, Sealer,
    TrafficKey, Version, Violation, alert_message, description,
};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{ExtractedSecrets, ProtocolVersion};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice, Read};
use std::task::{Context, Poll, ready};

/// A batch with the most records it can have and what may leave in front of it.
const SEALED_BYTES: usize = PIGGYBACK_BYTES_MAX
    + BATCH_BYTES_MAX
    + PLAINTEXT_BYTES_MAX
    + (PIECES_MAX + 8) * OVERHEAD_BYTES_MAX;

/// What one read brings behind a part of a record.
const CIPHERTEXT_BYTES: usize = HEADER_BYTES + FRAGMENT_BYTES_MAX + READ_BYTES_MAX;

thread_local! {
    /// Records between the cipher and the socket. Never held across a wait, so one is enough.
    static SEALED: RefCell<Box<[u8]>> = RefCell::new(vec![0; SEALED_BYTES].into());
    /// Records between the socket and the cipher; likewise.
    static CIPHERTEXT: RefCell<Box<[u8]>> = RefCell::new(vec![0; CIPHERTEXT_BYTES].into());
}

/// The server's side of one TLS connection after its handshake.
pub(crate) struct Records {
    socket: Socket,
    sealer: Sealer,
    opener: Opener,
    /// Where the next keys come from. TLS 1.2 has none.
    next_keys: Option<KernelConnection<ServerConnectionData>>,
    records_per_key_max: u64,
    info: TlsInfo,
    unsent: Unsent,
    /// Plaintext that may be sealed at once; less while the socket does not take it all.
    batch_bytes: usize,
    input: Input,
    reading: Reading,
    is_write_closed: bool,
}

/// Whether there is more to read.
#[derive(Clone, Copy)]
enum Reading {
    Open,
    /// The peer said that this is all.
    Ended,
    Failed(Failure),
}

/// Why a connection is over.
#[derive(Clone, Copy)]
enum Failure {
    Violation(Violation),
    /// FIN without `close_notify`: something may be missing (RFC 8446 §6.1).
    Truncated,
    /// No next key, or none that works.
    Keys,
}

/// Records that are sealed and not with the kernel yet.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    start: usize,
    /// Data that a writer waits for. Without it these are tickets, answers and alerts, which wait
    /// for company until a read has to wait.
    has_data: bool,
    /// A key update among them. More requests for one are answered by it.
    has_key_update: bool,
}

/// What was read and not given to the caller yet.
#[derive(Default)]
struct Input {
    opened: Vec<u8>,
    opened_start: usize,
    sealed: Vec<u8>,
}

impl Records {
    /// Takes over a connection right after its handshake. `unsent` are bytes of rustls for the
    /// client; `received` is what the client sent behind its last handshake message.
    pub(crate) fn new(
        connection: UnbufferedServerConnection,
        socket: Socket,
        info: TlsInfo,
        unsent: Vec<u8>,
        received: Vec<u8>,
    ) -> Result<Box<Self>, rustls::Error> {
        let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
        let ExtractedSecrets { tx: (tx_sequence, tx), rx: (rx_sequence, rx) } = secrets;
        let (version, next_keys) = match kernel.protocol_version() {
            ProtocolVersion::TLSv1_3 => (Version::Tls13, Some(kernel)),
            _ => (Version::Tls12, None),
        };
        let (tx, rx) = (traffic_key(&tx)?, traffic_key(&rx)?);
        let records_per_key_max = match tx.cipher() {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => RECORDS_PER_KEY_MAX,
            // Its limit is beyond what can be counted (RFC 8446 §5.5).
            Cipher::Chacha20Poly1305 => u64::MAX,
        };
        let refused = |error| rustls::Error::General(format!("taking over: {error}"));
        let sealer = Sealer::new(version, &tx, tx_sequence, records_per_key_max);
        let opener = Opener::new(version, &rx, rx_sequence);
        Ok(Box::new(Self {
            socket,
            sealer: sealer.map_err(refused)?,
            opener: opener.map_err(refused)?,
            next_keys,
            records_per_key_max,
            info,
            unsent: Unsent { bytes: unsent, ..Unsent::default() },
            batch_bytes: BATCH_BYTES_MAX,
            input: Input { sealed: received, ..Input::default() },
            reading: Reading::Open,
            is_write_closed: false,
        }))
    }

    /// Reads plaintext; see [`Stream::read`](crate::stream::Stream::read) for what comes back.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let result = self.read_with(out, |socket, into| Polled { socket, cx }.read(into));
        if !matches!(result, Ok(count) if count > 0) && !self.unsent.has_data {
            // Tickets, answers to key updates and alerts leave before a long wait. Where the socket
            // fails, reading will say so. Data is its writer's, who is the one to be woken.
            let _ = self.poll_flush(cx);
        }
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            result => Poll::Ready(result),
        }
    }

    /// As [`Records::poll_read`] with `WouldBlock` in place of waiting.
    pub(crate) fn try_read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read_with(out, |socket, into| Tried(socket).read(into))
    }

    /// Seals a batch from the front of `pieces` and hands it to the socket as far as it goes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.unsent.has_data || self.unsent.len() > PIGGYBACK_BYTES_MAX {
            ready!(self.poll_flush(cx))?;
        }
        if self.is_write_closed {
            return Poll::Ready(Err(self.closed()));
        }
        if self.sealer.is_exhausted() && self.next_keys.is_none() {
            self.seal_alert(AlertLevel::Warning, description::CLOSE_NOTIFY);
            let _ = self.poll_flush(cx);
            return Poll::Ready(Err(self.unsealable(SealError::Exhausted)));
        }
        // What is sealed before the socket has room would only wait for it.
        ready!(self.socket.poll_write_ready(cx))?;
        SEALED.with_borrow_mut(|sealed| {
            let mut filled = self.unsent.move_to(sealed);
            let taken = self.seal(pieces, sealed, &mut filled)?;
            let records = &sealed[..filled];
            // A batch is a little longer than what the kernel sends at once. Its end goes with the
            // next one instead of on a way of its own.
            let is_last = pieces.iter().map(|piece| piece.len()).sum::<usize>() == taken;
            let written = if is_last {
                self.socket.poll_write(cx, records)
            } else {
                self.socket.poll_write_more(cx, records)
            };
            match written {
                Poll::Ready(Ok(sent)) if sent == filled => {
                    self.batch_bytes = (2 * self.batch_bytes).min(BATCH_BYTES_MAX);
                }
                Poll::Ready(Err(error)) => {
                    self.is_write_closed = true;
                    return Poll::Ready(Err(error));
                }
                some => {
                    let sent = if let Poll::Ready(Ok(sent)) = some { sent } else { 0 };
                    self.batch_bytes = BATCH_BYTES_MIN;
                    self.unsent.add(&sealed[sent..filled]);
                    self.unsent.has_data = true;
                }
            }
            Poll::Ready(Ok(taken))
        })
    }

    /// Hands everything sealed to the socket.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            match ready!(self.socket.poll_write(cx, self.unsent.rest())) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(sent) => self.unsent.consume(sent),
                Err(error) => {
                    self.is_write_closed = true;
                    self.unsent = Unsent::default();
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `close_notify`, then FIN (RFC 8446 §6.1).
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_write_closed {
            self.seal_alert(AlertLevel::Warning, description::CLOSE_NOTIFY);
            self.is_write_closed = true;
        }
        ready!(self.poll_flush(cx))?;
        self.socket.poll_shutdown(cx)
    }

    /// Lowers how many records each key seals.
    pub(crate) fn limit_records_per_key(&mut self, records_max: u64) {
        self.records_per_key_max = self.records_per_key_max.min(records_max);
        self.sealer.limit_records(records_max);
    }

    /// Whether half of what the only key of a TLS 1.2 connection may seal is used up.
    pub(crate) fn is_worn(&self) -> bool {
        self.next_keys.is_none() && self.sealer.records_left() <= self.records_per_key_max / 2
    }

    /// Bytes that are sealed and not with the kernel.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn info(&self) -> &TlsInfo {
        &self.info
    }

    /// Gives what is there, or what `receive` brings.
    fn read_with(
        &mut self,
        out: &mut [u8],
        mut receive: impl FnMut(&mut Socket, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        match self.input.give_opened(out) {
            0 => {}
            count => return Ok(count),
        }
        CIPHERTEXT.with_borrow_mut(|buffer| {
            let mut filled = self.input.move_sealed_to(buffer);
            loop {
                let (used, given) = self.open(&mut buffer[..filled], out);
                if given > 0 {
                    self.input.sealed.extend_from_slice(&buffer[used..filled]);
                    return Ok(given);
                }
                buffer.copy_within(used..filled, 0);
                filled -= used;
                match self.reading {
                    Reading::Open => {}
                    Reading::Ended => return Ok(0),
                    Reading::Failed(failure) => return Err(failure.into()),
                }
                let more = (out.len() + OVERHEAD_BYTES_MAX).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
                match receive(&mut self.socket, &mut buffer[filled..filled + more]) {
                    Ok(0) => self.reading = Reading::Failed(Failure::Truncated),
                    Ok(count) => filled += count,
                    Err(error) => {
                        self.input.sealed.extend_from_slice(&buffer[..filled]);
                        return Err(error);
                    }
                }
            }
        })
    }

    /// Opens records from the front of `input` into `out`, as many as fit whole, and at least one.
    /// Returns the bytes of `input` that are done and of `out` that are filled.
    fn open(&mut self, input: &mut [u8], out: &mut [u8]) -> (usize, usize) {
        let (mut used, mut given) = (0, 0);
        while let Reading::Open = self.reading {
            let input = &mut input[used..];
            let room = out.len() - given;
            match self.opener.record_bytes(input) {
                Ok(Some(bytes)) if given > 0 && bytes > room => break,
                _ => {}
            }
            let opened = match self.opener.open(input) {
                Ok(Some(opened)) => opened,
                Ok(None) => break,
                Err(violation) => {
                    // What was opened before is genuine; the error is for the next read.
                    self.fail(violation);
                    break;
                }
            };
            match opened.event {
                Event::Data(place) => {
                    let plain = &input[place];
                    let count = plain.len().min(room);
                    out[given..given + count].copy_from_slice(&plain[..count]);
                    given += count;
                    self.input.opened.extend_from_slice(&plain[count..]);
                }
                Event::Nothing => {}
                Event::KeyUpdate { answer } => self.peer_changed_key(answer),
                Event::Renegotiation => {
                    self.seal_alert(AlertLevel::Warning, description::NO_RENEGOTIATION);
                }
                Event::CloseNotify => self.reading = Reading::Ended,
            }
            used += opened.record_bytes;
            if given == out.len() {
                break;
            }
        }
        (used, given)
    }

    /// Seals a batch behind the `filled` bytes of `out`, changing keys where one has sealed enough.
    fn seal(
        &mut self,
        pieces: &[IoSlice<'_>],
        out: &mut [u8],
        filled: &mut usize,
    ) -> io::Result<usize> {
        if self.sealer.is_exhausted() {
            *filled += self.change_own_key(&mut out[*filled..])?;
        }
        let sealed = self.sealer.seal_pieces(pieces, self.batch_bytes, &mut out[*filled..]);
        let sealed = sealed.map_err(|error| self.unsealable(error))?;
        *filled += sealed.wire_bytes;
        Ok(sealed.taken_bytes)
    }

    /// Seals a key update and takes the next key. Returns the bytes sealed.
    fn change_own_key(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(next_keys) = &mut self.next_keys else {
            return Err(self.unsealable(SealError::Exhausted));
        };
        let next = next_keys.update_tx_secret().and_then(|(_, secret)| traffic_key(&secret));
        let sealed = self.sealer.seal(ContentType::Handshake, &KEY_UPDATE_NOT_REQUESTED, out);
        let changed = sealed.ok().zip(next.ok()).and_then(|(bytes, next)| {
            self.sealer.change_key(&next, self.records_per_key_max).ok().map(|()| bytes)
        });
        changed.ok_or_else(|| self.unsealable(SealError::Failed))
    }

    /// The peer's next record is under its next key; with `answer` ours shall change too.
    fn peer_changed_key(&mut self, answer: bool) {
        let next = self.next_keys.as_mut().and_then(|keys| {
            let (_, secret) = keys.update_rx_secret().ok()?;
            traffic_key(&secret).ok()
        });
        let changed = next.is_some_and(|key: TrafficKey| self.opener.change_key(&key).is_ok());
        if !changed {
            return self.end(Failure::Keys, Some(description::INTERNAL_ERROR));
        }
        if answer && !self.unsent.has_key_update && !self.is_write_closed {
            let mut record = [0; OVERHEAD_BYTES_MAX + KEY_UPDATE_NOT_REQUESTED.len()];
            if let Ok(bytes) = self.change_own_key(&mut record) {
                self.unsent.add(&record[..bytes]);
                self.unsent.has_key_update = true;
            }
        }
    }

    fn fail(&mut self, violation: Violation) {
        self.end(Failure::Violation(violation), violation.alert());
    }

    /// Ends both directions, ours with a fatal alert.
    fn end(&mut self, failure: Failure, alert: Option<u8>) {
        self.reading = Reading::Failed(failure);
        if let Some(description) = alert.filter(|_| !self.is_write_closed) {
            self.seal_alert(AlertLevel::Fatal, description);
        }
        self.is_write_closed = true;
    }

    fn seal_alert(&mut self, level: AlertLevel, description: u8) {
        if self.is_write_closed {
            return;
        }
        let alert = alert_message(level, description);
        let mut record = [0; OVERHEAD_BYTES_MAX + 2];
        // A key that seals no alert any more leaves nothing but to close without one.
        if let Ok(bytes) = self.sealer.seal(ContentType::Alert, &alert, &mut record) {
            self.unsent.add(&record[..bytes]);
        }
    }

    /// The error of a connection that can seal nothing more.
    fn unsealable(&mut self, error: SealError) -> io::Error {
        self.is_write_closed = true;
        io::Error::other(error)
    }

    /// The error of a write after the end.
    fn closed(&self) -> io::Error {
        match self.reading {
            Reading::Failed(failure) => failure.into(),
            _ => io::ErrorKind::BrokenPipe.into(),
        }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("socket", &self.socket)
            .field("sealer", &self.sealer)
            .field("opener", &self.opener)
            .finish_non_exhaustive()
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Violation(violation) => Self::new(io::ErrorKind::InvalidData, violation),
            Failure::Truncated => {
                let why = "the peer closed without close_notify";
                Self::new(io::ErrorKind::UnexpectedEof, why)
            }
            Failure::Keys => Self::other("no next key"),
        }
    }
}

impl Unsent {
    fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    fn len(&self) -> usize {
        self.rest().len()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Forgets what was sent, and the memory with the last of it.
    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Moves everything to the front of `out` and returns how much that is.
    fn move_to(&mut self, out: &mut [u8]) -> usize {
        let bytes = self.len();
        if bytes > 0 {
            out[..bytes].copy_from_slice(self.rest());
            *self = Self::default();
        }
        bytes
    }
}

impl Input {
    /// Gives plaintext that had no room before.
    fn give_opened(&mut self, out: &mut [u8]) -> usize {
        let rest = &self.opened[self.opened_start..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.opened_start += count;
        if count > 0 && self.opened_start == self.opened.len() {
            self.opened = Vec::new();
            self.opened_start = 0;
        }
        count
    }

    /// Moves the ciphertext kept to the front of `buffer` and returns how much that is.
    fn move_sealed_to(&mut self, buffer: &mut [u8]) -> usize {
        let sealed = std::mem::take(&mut self.sealed);
        buffer[..sealed.len()].copy_from_slice(&sealed);
        sealed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_traffic_is_small() {
        // Beside it there are two keys of some 600 bytes each and the secrets the next come from.
        assert!(size_of::<Records>() <= 1024, "{} bytes", size_of::<Records>());
        assert_eq!(Unsent::default().bytes.capacity() + Input::default().sealed.capacity(), 0);
    }
}
