//! Connections as they come: who may connect, and what is in front of their first request.

use freshet_access::client::{Client, End, Link};
use freshet_access::ledger::network::Network;
use freshet_base::clock::UnixMillis;
use freshet_base::ledger::Ledger;
use freshet_limits::Held;
use freshet_net::address::{Address, PeerAddress};
use freshet_net::controls::Controls;
use freshet_net::error::NetError;
use freshet_net::listener::Listener;
use freshet_net::proxy::{self, Tlvs};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::{ALPN_ACME_TLS, server};
use freshet_net::trust::TrustedPeers;
use freshet_telemetry::transcript::{Side, Tag, Transcript};
use freshet_worker::worker::Worker;
use rustls::ServerConfig;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use tokio::task::spawn_local;

/// How long the kernel may keep a connection that is refused for want of room.
const REFUSE_LINGER: Duration = Duration::from_millis(10);
/// How often the log says that a connection without its PROXY header was refused.
const PROXY_REFUSAL_EVERY: Duration = Duration::from_secs(10);

/// A socket a worker accepts from.
pub struct Port {
    /// What logs and policies call it.
    pub name: Arc<str>,
    /// The socket.
    pub listener: Listener,
    /// TLS, where clients speak it.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whether it verifies their certificates.
    pub verifies_clients: bool,
    /// Who must send a PROXY header first, where one is expected; others are refused.
    pub proxies: Option<Arc<TrustedPeers>>,
    /// What responses say of HTTP/3 on the same port, where there is some.
    pub alt_svc: Option<Arc<str>>,
}

/// Accepts connections until the task is aborted, and serves each in a task of its own.
pub async fn accept(worker: Rc<Worker>, port: Port) {
    let tls = port.tls;
    loop {
        match port.listener.accept().await {
            Ok((socket, peer)) => {
                worker.stats.connections_accepted.increment();
                let open = Open::new(&worker);
                let most = worker.snapshot().settings.limits.connections_max;
                if worker.shared.connections.load(Relaxed) > most {
                    worker.stats.connections_refused.increment();
                    let stream = Stream::from(socket);
                    spawn_local(async move {
                        stream.close(REFUSE_LINGER).await;
                        drop(open);
                    });
                    continue;
                }
                let tls = tls.clone().map(|tls| (tls, port.verifies_clients));
                let proxies = port.proxies.clone();
                let (name, alt_svc) = (Arc::clone(&port.name), port.alt_svc.clone());
                let path = match port.listener.local_address() {
                    Address::Unix(path) => Some(path.to_string_lossy().into()),
                    Address::Tcp(_) => None,
                };
                let worker = Rc::clone(&worker);
                spawn_local(async move {
                    let listener = (name, path, alt_svc);
                    connection(worker, socket, peer, tls, proxies, listener).await;
                    drop(open);
                });
            }
            Err(error) => {
                tracing::error!(%error, "a listener failed");
                return;
            }
        }
    }
}

async fn connection(
    worker: Rc<Worker>,
    socket: Socket,
    peer: PeerAddress,
    tls: Option<(Arc<ServerConfig>, bool)>,
    proxies: Option<Arc<TrustedPeers>>,
    (listener, path, alt_svc): (Arc<str>, Option<Box<str>>, Option<Arc<str>>),
) {
    let limit = worker.snapshot().settings.handshake_timeout;
    let id = worker.next_id();
    let first = if proxies.is_some() { "PROXY" } else { "HTTP/1" };
    let transcript =
        Transcript::begin(worker.shared.scribe.as_ref(), Side::Client, id, "sess", 0, first);
    let mut client = Client {
        id,
        address: peer.socket_address(),
        peer_address: peer.socket_address(),
        local_address: socket.local_address(),
        socket_address: socket.local_address(),
        path,
        forwarder: None,
        tls: None,
        front: None,
        shown: None,
        network: Network::default(),
        listener,
        alt_svc,
        controls: None,
        link: Rc::new(Link { transcript, ..Link::default() }),
    };
    client.note_opened();
    if let Some(proxies) = proxies {
        let conduct = worker.snapshot().manners.proxied;
        match proxy::identify(&socket, peer, &proxies, conduct, limit).await {
            Ok(proxied) => {
                client.note_proxied(&proxied.header);
                client.address = proxied.address.socket_address();
                // What a proxy says of a connection of its own is about no client.
                let said = Some(proxied.header.tlvs).filter(|_| !proxied.header.local);
                client.front = said.filter(|said| *said != Tlvs::default()).map(Box::new);
                if proxied.destination.is_some() {
                    client.local_address = proxied.destination;
                }
            }
            Err(error) => {
                note_unproxied(&worker, &client, &error);
                client.transcript.note(Tag::ProxyGarbage, format_args!("{}", garbage(&error)));
                let too_large = Some(proxy::Error::ClientHeaderTooLarge);
                client.end.set(match error {
                    NetError::ClientProxyHeader { error, .. } if error == too_large => {
                        End::HeadTooLarge
                    }
                    _ => End::Malformed,
                });
                client.note_closed();
                return;
            }
        }
    }
    let prefixes = worker.snapshot().settings.limits.network;
    client.network = Network::of(client.address.map(|address| address.ip()), prefixes);
    let Ok(_held) = admit(&worker, &client) else {
        client.end.set(End::Refused);
        client.note_closed();
        return Stream::from(socket).close(REFUSE_LINGER).await;
    };
    let certificates = worker.shared.certificates.as_ref();
    let stream = match tls {
        None => Stream::from(socket),
        Some((config, verifies)) => {
            match server::accept_waiting(socket, &config, certificates, limit).await {
                Ok(stream) => {
                    worker.stats.tls_handshakes.increment();
                    client.note_handshake(stream.tls_info(), verifies);
                    let agreed = client.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
                    if agreed == Some(ALPN_ACME_TLS) {
                        // The handshake was all an authority wanted (RFC 8737 §3).
                        client.end.set(End::AsAnswered);
                        client.note_closed();
                        return stream.close(REFUSE_LINGER).await;
                    }
                    if client.tls.as_ref().is_some_and(|tls| tls.resumed) {
                        worker.stats.tls_resumed.increment();
                    }
                    stream
                }
                Err(error) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    worker.stats.tls_failed.increment();
                    return;
                }
            }
        }
    };
    if worker.snapshot().sites.controls_connections() {
        client.controls = Controls::of(stream.socket()).ok().map(Rc::new);
    }
    let client = Rc::new(client);
    crate::serve(worker, stream, Rc::clone(&client)).await;
    client.note_closed();
}

/// Whether a client may connect: that it is not blocked, and how its connection counts.
pub(crate) fn admit(worker: &Worker, client: &Client) -> Result<Option<Held>, Refused> {
    let limiter = &worker.shared.limiter;
    if limiter.blocked(client.address.map(|address| address.ip()), None).is_some() {
        worker.stats.connections_blocked.increment();
        return Err(Refused);
    }
    let snapshot = worker.snapshot();
    let settings = &snapshot.settings;
    let Some(most) = settings.limits.connections_network_max else { return Ok(None) };
    // The clients of a balancer are told apart by their requests, which count for them.
    if settings.forwarded.believes(client.address.map(|address| address.ip())) {
        return Ok(None);
    }
    let held = limiter.connect(client.network, most);
    if held.is_none() {
        worker.stats.connections_network_refused.increment();
    }
    held.map(Some).ok_or(Refused)
}

/// That a connection was refused.
pub(crate) struct Refused;

/// Counts a connection whose PROXY header is missing, wrong or from a peer that may send none, and
/// logs it now and then: an operator who forgot a proxy sees nothing else of it.
fn note_unproxied(worker: &Worker, client: &Client, error: &NetError) {
    let counter = match error {
        NetError::ClientProxyUntrusted { .. } => &worker.stats.proxy_untrusted,
        _ => &worker.stats.proxy_header_errors,
    };
    counter.increment();
    let limit = &worker.shared.proxy_refusals;
    let Some(held_back) = limit.admit(UnixMillis::now(), PROXY_REFUSAL_EVERY) else { return };
    let (listener, peer) = (&*client.listener, client.peer_address.map(|peer| peer.ip()));
    let peer = peer.map_or_else(|| "unix:".to_owned(), |ip| ip.to_string());
    let cure = match error {
        NetError::ClientProxyUntrusted { .. } => {
            "if it is a proxy of yours, add its network to `proxy_from` of this [[listen]]"
        }
        _ => "does it send PROXY protocol headers? this [[listen]] has `proxy_protocol`",
    };
    tracing::warn!(%peer, listener, held_back, %error, "a connection was refused: {cure}");
}

/// Counts a connection as long as it lives.
pub(crate) struct Open(Rc<Worker>);

impl Open {
    pub(crate) fn new(worker: &Rc<Worker>) -> Self {
        worker.shared.connections.fetch_add(1, SeqCst);
        Self(Rc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.stats.connections_closed.increment();
        if self.0.shared.connections.give_back(1, SeqCst) == 0 {
            self.0.shared.all_closed.notify_waiters();
        }
    }
}

/// What is wrong with a PROXY header, in the words that Varnish's log has for it where it has any.
fn garbage(error: &NetError) -> Cow<'static, str> {
    use proxy::Error;
    let NetError::ClientProxyHeader { error: Some(why), version_and_command, .. } = error else {
        return error.to_string().into();
    };
    let words = match (why, version_and_command) {
        (Error::ClientFieldsTooFew, _) => "PROXY1: Too few fields",
        (Error::ClientFieldsTooMany, _) => "PROXY1: Too many fields",
        (Error::ClientFamilyUnknown, _) => "PROXY1: Wrong TCP[46] field",
        (Error::ClientSourceInvalid, _) => "PROXY1: Cannot resolve source address",
        (Error::ClientDestinationInvalid, _) => "PROXY1: Cannot resolve destination address",
        (Error::ClientChecksum, _) => "PROXY2: CRC error",
        (Error::ClientTlvTooLong, _) => "PROXY2: TLV Length Error",
        (Error::ClientTlvTruncated, _) => "PROXY2: TLV Dribble bytes",
        (Error::ClientVersionUnsupported, Some(byte)) => {
            let (version, command) = (byte >> 4, byte & 0x0f);
            return match version {
                2 => format!("PROXY2: bad command ({command})").into(),
                _ => format!("PROXY2: bad version ({version})").into(),
            };
        }
        _ => return error.to_string().into(),
    };
    words.into()
}
