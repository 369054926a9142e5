//! The server's side of a handshake, up to where our own records take over.
//!
//! rustls is driven without buffers of its own, because only such a connection gives its keys away
//! together with the means to change them. It is shown one record after the other and asked after
//! each whether the handshake is done: what follows the client's `Finished` in the same segment is
//! under keys that are ours by then.

use crate::limits::{HANDSHAKE_BYTES_MAX, READ_BYTES_MIN};
use crate::socket::Socket;
use crate::tls::certificate::CertificateStore;
use crate::tls::handshake::Handshake;
use crate::tls::mask::{Masked, unmasked};
use crate::tls::on_demand::Settled;
use crate::tls::records::Records;
use crate::tls::{ALPN_ACME_TLS, HandshakeContext, TlsInfo};
use freshet_wire::tls::HEADER_BYTES;
use freshet_wire::tls::hello::{host_name, offers_only};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{InvalidMessage, ProtocolVersion, ServerConfig};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The type of a record with handshake messages (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// A client says hello once, and once more where it is asked to (RFC 8446 §4.1.4).
const HELLOS_MAX: usize = 2;

/// What a client gets that speaks HTTP in the clear where TLS is spoken, as its user has written `http://`
/// for `https://`: an alert would say nothing to it.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 74\r\nConnection: close\r\n\r\n\
    400 Bad Request: this port speaks HTTPS, and the request came without TLS\n";

/// A handshake that is going on.
pub(crate) struct Handoff {
    connection: UnbufferedServerConnection,
    socket: Socket,
    input: Vec<u8>,
    /// Bytes of `input` in records that rustls has seen whole, asked for more after, and not let go
    /// of.
    seen_bytes: usize,
    output: Vec<u8>,
    sent_bytes: usize,
    context: HandshakeContext,
    /// Hellos, at most two, with a name that is none.
    masked: Vec<Masked>,
    /// Asked once, before the first hello is answered.
    certificates: Option<Arc<CertificateStore>>,
    has_begun: bool,
    is_done: bool,
}

/// What rustls wants next.
enum Next {
    Again,
    Input,
    Done,
    Failed(rustls::Error),
}

impl Handoff {
    /// A handshake that has not begun.
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        socket: Socket,
        certificates: Option<Arc<CertificateStore>>,
    ) -> Result<Self, rustls::Error> {
        let mut context = HandshakeContext::default();
        Ok(Self {
            connection: context.during(|| UnbufferedServerConnection::new(config))?,
            socket,
            input: Vec::new(),
            seen_bytes: 0,
            output: Vec::new(),
            sent_bytes: 0,
            context,
            masked: Vec::new(),
            certificates,
            has_begun: false,
            is_done: false,
        })
    }

    /// The connection after its handshake.
    pub(crate) fn into_records(self) -> Result<Box<Records>, rustls::Error> {
        let mut info = TlsInfo::of_server(&self.connection, &self.context);
        info.sni = info.sni.filter(|_| self.masked.is_empty());
        let mut unsent = self.output;
        unsent.drain(..self.sent_bytes);
        Records::new(self.connection, self.socket, info, unsent, self.input)
    }

    /// Bytes of `input` to show rustls: those seen and one record more; and whether that is whole.
    fn window(&self) -> (usize, bool) {
        match self.input[self.seen_bytes..].first_chunk::<HEADER_BYTES>() {
            Some(&[_, _, _, high, low]) => {
                let record = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
                let end = self.seen_bytes + record;
                (end.min(self.input.len()), end <= self.input.len())
            }
            None => (self.input.len(), false),
        }
    }

    /// Masks the name in a hello that is the next record to show, where rustls would refuse it. One
    /// that is spread over several records is not looked at.
    fn mask_name(&mut self, window: usize) {
        let record = &mut self.input[self.seen_bytes..window];
        if let Some((&mut [HANDSHAKE, ..], message)) = record.split_at_mut_checked(HEADER_BYTES)
            && let Some(masked) = Masked::mask(message)
        {
            self.masked.push(masked);
        }
    }

    /// Collects the alert that says why not, with what was on its way before it. As long as rustls
    /// has something to send it does not look at the input, which it has refused.
    fn collect_alert(&mut self) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.output),
                _ => return,
            }
        }
    }
}

impl Handshake for Handoff {
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent_bytes < self.output.len() {
            let sent = ready!(self.socket.poll_write(cx, &self.output[self.sent_bytes..]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent_bytes += sent;
        }
        self.output.clear();
        self.sent_bytes = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let filled = self.input.len();
        if filled >= HANDSHAKE_BYTES_MAX {
            let why = "a handshake message that is too large";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        self.input.resize(filled + READ_BYTES_MIN, 0);
        let result = self.socket.poll_receive(cx, &mut self.input[filled..]);
        let count = if let Poll::Ready(Ok(count)) = result { count } else { 0 };
        self.input.truncate(filled + count);
        result.map_ok(|count| count > 0)
    }

    /// A hello that is spread over several records asks for nothing.
    fn awaited(&mut self) -> Option<Settled> {
        let (end, true) = self.window() else { return None };
        let certificates = self.certificates.take()?;
        let (&[HANDSHAKE, ..], message) = self.input[..end].split_at_checked(HEADER_BYTES)? else {
            return None;
        };
        // An authority that looks for a proof would wait for itself.
        if offers_only(message, ALPN_ACME_TLS) {
            return None;
        }
        let name = std::str::from_utf8(&message[host_name(message)?]).ok()?.to_ascii_lowercase();
        Some(certificates.provider_for(&name)?.provide(&name))
    }

    fn step(&mut self) -> Result<(), rustls::Error> {
        // No record begins with a letter, and every request does.
        let is_http = !self.has_begun && self.input.first().is_some_and(u8::is_ascii_uppercase);
        self.has_begun = true;
        if is_http {
            self.output.extend_from_slice(NOT_TLS);
            return Err(InvalidMessage::InvalidContentType.into());
        }
        let (mut window, mut is_whole) = self.window();
        loop {
            if is_whole && self.masked.len() < HELLOS_MAX {
                self.mask_name(window);
            }
            let (connection, input) = (&mut self.connection, &mut self.input[..window]);
            let masked = &mut self.masked;
            let status = self
                .context
                .during(move || unmasked(masked, move || connection.process_tls_records(input)));
            let UnbufferedStatus { discard, state, .. } = status;
            let next = match state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, &mut self.output);
                    Next::Again
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Next::Again
                }
                Ok(ConnectionState::WriteTraffic(_)) => Next::Done,
                Ok(ConnectionState::BlockedHandshake) => Next::Input,
                Ok(_) => Next::Failed(rustls::Error::HandshakeNotComplete),
                Err(error) => Next::Failed(error),
            };
            self.input.drain(..discard);
            self.seen_bytes = self.seen_bytes.saturating_sub(discard);
            window -= discard;
            match next {
                Next::Again => {}
                Next::Input if is_whole => {
                    self.seen_bytes = window;
                    if self.input.len() == window {
                        return Ok(());
                    }
                    (window, is_whole) = self.window();
                }
                Next::Input => return Ok(()),
                Next::Done => {
                    self.is_done = true;
                    return Ok(());
                }
                Next::Failed(error) => {
                    self.collect_alert();
                    return Err(error);
                }
            }
        }
    }

    fn is_handshaking(&self) -> bool {
        !self.is_done
    }

    fn finish(&mut self) -> bool {
        self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }
}

/// Appends what rustls has to say to `output`.
fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>, output: &mut Vec<u8>) {
    let start = output.len();
    // It tells the size when there is no room.
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        output.resize(start + needed.required_size, 0);
        let encoded = data.encode(&mut output[start..]);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }
}
