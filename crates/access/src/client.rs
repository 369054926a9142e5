//! The client's end of a connection, as far as policies and logs care.

use crate::certificates::{Shown, SiteAuth};
use crate::ledger::network::Network;
use freshet_config::limits::Limits;
use freshet_net::address::PeerAddress;
use freshet_net::controls::Controls;
use freshet_net::proxy::{Header, Tlvs};
use freshet_net::tls::TlsInfo;
use freshet_net::tls::client_auth::ClientCertificate;
use freshet_telemetry::transcript::{Tag, Transcript};
use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Facts that hold for every request of one connection, or of one client of those that a load balancer in
/// front asks for over it.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The connection's number.
    pub id: u64,
    /// Who the client is: the peer, or what a PROXY header says. `None` on a Unix socket.
    pub address: Option<SocketAddr>,
    /// The load balancer that says who it is, where it did with the request.
    pub forwarder: Option<PeerAddress>,
    /// The address it reached.
    pub local_address: Option<SocketAddr>,
    /// The peer itself, whatever a PROXY header says.
    pub peer_address: Option<SocketAddr>,
    /// Our end of the connection itself.
    pub socket_address: Option<SocketAddr>,
    /// The listener's path, on a Unix socket.
    pub path: Option<Box<str>>,
    /// The network its limits are for.
    pub network: Network,
    /// The name of the listener.
    pub listener: Arc<str>,
    /// What responses say of HTTP/3 on the same port, where there is some.
    pub alt_svc: Option<Arc<str>>,
    /// TLS facts, on a TLS listener.
    pub tls: Option<TlsInfo>,
    /// What a PROXY header says of this client beside addresses, where it says anything.
    pub front: Option<Box<Tlvs>>,
    /// The certificate it has shown there, if it did.
    pub shown: Option<Rc<Shown>>,
    /// How it sends, where a policy has a say in that.
    pub controls: Option<Rc<Controls>>,
    /// What all have in common whose requests come over it.
    pub link: Rc<Link>,
}

/// The connection itself.
#[derive(Debug, Default)]
pub struct Link {
    /// What happens to it.
    pub transcript: Transcript,
    /// Timeouts that a policy has set for it.
    pub timeouts: Timeouts,
    /// Why it is about to end.
    pub end: Cell<End>,
    /// Whether it is known to be no recording of one.
    pub presence: Presence,
}

impl Deref for Client {
    type Target = Link;

    #[inline]
    fn deref(&self) -> &Link {
        &self.link
    }
}

/// Whether a client is there, and not a recording of what it once sent as early data (RFC 8446 §8).
#[derive(Debug, Default)]
pub struct Presence {
    known: Cell<Known>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Known {
    /// Its handshake is over, or its data could not come before that.
    #[default]
    There,
    NotYet,
    /// The connection ended before.
    Never,
}

impl Presence {
    /// One that a handshake is still to prove.
    pub fn open() -> Self {
        Self { known: Cell::new(Known::NotYet), changed: Notify::new() }
    }

    /// Whether it is proved.
    #[inline]
    pub fn is_proved(&self) -> bool {
        self.known.get() == Known::There
    }

    /// The handshake is over.
    pub fn prove(&self) {
        self.settle(Known::There);
    }

    /// The connection is over.
    pub fn end(&self) {
        if self.known.get() == Known::NotYet {
            self.settle(Known::Never);
        }
    }

    /// Waits until it is known; whether the client is there.
    pub async fn known(&self) -> bool {
        while self.known.get() == Known::NotYet {
            self.changed.notified().await;
        }
        self.is_proved()
    }

    fn settle(&self, known: Known) {
        self.known.set(known);
        self.changed.notify_waiters();
    }
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum End {
    /// The client has closed it, as far as anybody knows.
    #[default]
    ByClient,
    /// The client said with a request that it is the last one.
    AsAsked,
    /// The client speaks HTTP/1.0, and did not ask for more.
    AsOldOnesDo,
    /// The policy, or the origin, said so with a response.
    AsAnswered,
    /// The client asked for nothing for too long.
    Idle,
    /// What came was no request.
    Malformed,
    /// The head of a request was too large.
    HeadTooLarge,
    /// It began in HTTP/2, which is not spoken here.
    Http2Refused,
    /// The body of a request broke off, or was too long for what it was for.
    BodyBroken,
    /// A response could not be sent to its end.
    Unsent,
    /// A part of something could not.
    PartUnsent,
    /// It became a tunnel, and that is over.
    Tunnelled,
    /// The client may not connect now.
    Refused,
    /// The policy failed.
    PolicyFailed,
}

impl End {
    /// Varnish's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ByClient => "REM_CLOSE",
            Self::AsAsked => "REQ_CLOSE",
            Self::AsOldOnesDo => "REQ_HTTP10",
            Self::AsAnswered => "RESP_CLOSE",
            Self::Idle => "RX_CLOSE_IDLE",
            Self::Malformed => "RX_JUNK",
            Self::HeadTooLarge => "RX_OVERFLOW",
            Self::Http2Refused => "REQ_HTTP20",
            Self::BodyBroken => "RX_BODY",
            Self::Unsent => "TX_ERROR",
            Self::PartUnsent => "RANGE_SHORT",
            Self::Tunnelled => "TX_PIPE",
            Self::Refused => "OVERLOAD",
            Self::PolicyFailed => "VCL_FAILURE",
        }
    }
}

/// Timeouts of one connection, where they are not the configuration's.
#[derive(Clone, Debug, Default)]
pub struct Timeouts {
    /// Between requests.
    pub idle: Cell<Option<Duration>>,
    /// A client that takes nothing.
    pub send: Cell<Option<Duration>>,
    /// A whole response.
    pub response: Cell<Option<Duration>>,
    /// How long a worker would wait for the next request before it does something else. None waits here: it is
    /// kept for the policies that ask.
    pub linger: Cell<Option<Duration>>,
}

impl Timeouts {
    /// How long the client may take nothing.
    #[inline]
    pub fn to_send(&self, limits: &Limits) -> Duration {
        self.send.get().unwrap_or(limits.send_timeout)
    }

    /// How long a response may take in all.
    #[inline]
    pub fn to_respond(&self, limits: &Limits) -> Option<Duration> {
        self.response.get().or(limits.response_timeout)
    }
}

/// A client's address and the listener it came through, as records show them.
pub struct Endpoint<'a>(&'a Client);

impl Client {
    /// Who has forwarded a request of this client, or sent it: what is said of that to others. `None` on a
    /// Unix socket.
    pub fn sender(&self) -> Option<SocketAddr> {
        match self.forwarder {
            Some(forwarder) => forwarder.socket_address(),
            None => self.address,
        }
    }

    /// Notes what the handshake has brought; `is_verified` is whether the listener has authorities.
    pub fn note_handshake(&mut self, tls: Option<TlsInfo>, is_verified: bool) {
        let shown = tls.as_ref().and_then(|tls| tls.client.as_ref());
        self.shown = shown.map(|shown| Rc::new(Shown::new(shown, is_verified)));
        self.tls = tls;
    }

    /// The certificate it showed, where that proves something to a site with these authorities, or without any
    /// to the listener.
    pub fn certificate_for(&self, auth: Option<&Arc<SiteAuth>>) -> Option<&ClientCertificate> {
        self.shown.as_ref()?.proved_to(auth)
    }

    /// Notes that the connection was opened, and between which addresses.
    pub fn note_opened(&self) {
        let local = self.local_address;
        let port = local.map_or(0, |local| local.port());
        let address = local.map_or_else(|| "0.0.0.0".to_owned(), |local| local.ip().to_string());
        // There is no number of a descriptor to tell: it means nothing to anybody.
        self.transcript.note_time(Tag::SessOpen, |now, out| {
            let _ = write!(out, "{} {address} {port} {now:.6} 0", self.endpoint());
        });
    }

    /// Notes what a PROXY header said.
    pub fn note_proxied(&self, header: &Header) {
        let version = if header.is_binary { 2 } else { 1 };
        let (source, destination) = (header.source, header.destination);
        if let Some(ignored) = header.ignored.filter(|_| !header.local) {
            return self.transcript.note(Tag::ProxyGarbage, format_args!("PROXY2: {ignored}"));
        }
        match source.zip(destination).filter(|_| !header.local) {
            Some((from, to)) => {
                let (from_ip, from_port) = (from.ip().to_canonical(), from.port());
                let (to_ip, to_port) = (to.ip().to_canonical(), to.port());
                self.transcript.note(
                    Tag::Proxy,
                    format_args!("{version} {from_ip} {from_port} {to_ip} {to_port}"),
                );
            }
            None => {
                self.transcript.note(Tag::Proxy, format_args!("{version} local local local local"));
            }
        }
    }

    /// Notes that the connection is over, and why.
    pub fn note_closed(&self) {
        let why = self.end.get().word();
        let age = self.transcript.age_seconds();
        self.transcript.note(Tag::SessClose, format_args!("{why} {age:.3}"));
    }

    /// Address, port and listener.
    pub fn endpoint(&self) -> Endpoint<'_> {
        Endpoint(self)
    }
}

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(client) = self;
        match client.address {
            Some(address) => write!(f, "{} {} {}", address.ip(), address.port(), client.listener),
            None => write!(f, "0.0.0.0 0 {}", client.listener),
        }
    }
}
