//! A worker: one thread pinned to a core, with connections, origin pool and counters of its own.
//! Workers share the cache, the arena and the configuration.

use crate::applied::Applied;
use crate::bans::Bans;
use crate::calls::Calls;
use crate::certificates::RefusedNames;
use crate::client::{Client, End, Link};
use crate::decisions::Decisions;
use crate::exemplars::Exemplars;
use crate::expiry::Expiry;
use crate::handover::{Giving, Taking};
use crate::ids::{Ids, Share};
use crate::keepers::Keepers;
use crate::layout::Layout;
use crate::ledger::network::Network;
use crate::ledger::readers::ReaderMemory;
use crate::ledger::requests::{ConnectionMemory, RequestMemory};
use crate::limiter::Limiter;
use crate::log::{AccessLog, LogBuffer, Record};
use crate::media::{Channels, Films, Sessions};
use crate::session;
pub(crate) use crate::session::QuicPort;
use crate::site_stats::SiteCounters;
use crate::sites::SiteRef;
use crate::snapshot::Snapshot;
use crate::stats::WorkerStats;
use crate::transcript::{Scribe, Side, Tag, Transcript};
use crate::versions::Versions;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_base::log_limit::LogLimit;
use freshet_cache::Groups;
use freshet_disk::Disks;
use freshet_limits::Held;
use freshet_net::address::{Address, PeerAddress};
use freshet_net::controls::Controls;
use freshet_net::error::NetError;
use freshet_net::listener::Listener;
use freshet_net::proxy::{self, Tlvs};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::ALPN_ACME_TLS;
use freshet_net::tls::certificate::CertificateStore;
use freshet_net::tls::server;
use freshet_net::trust::TrustedPeers;
use freshet_origin::Origin;
use freshet_origin::health::Transition;
use freshet_origin::pool::Pool;
use freshet_origin::probe::{self, ProbeFailure, Probed};
use freshet_origin::probe_history::Step;
use freshet_store::Arena;
use freshet_tokens::Used;
use rustls::ServerConfig;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, spawn_local};

/// How often a worker hands its log over, however little there is.
const TICK: Duration = Duration::from_millis(250);
/// How long the kernel may keep a connection that is refused for want of room.
const REFUSE_LINGER: Duration = Duration::from_millis(10);
/// How long a connection without request stays once the node drains. A request that was sent
/// before its client could know is still answered, with the word that the connection ends. Two
/// seconds are a few round trips of the slowest paths, and a client that is busy sends its next
/// request within.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// How often the log says that a connection without its PROXY header was refused.
const PROXY_REFUSAL_EVERY: Duration = Duration::from_secs(10);

/// What all workers share.
pub struct Shared {
    /// What proves to clients and authorities that names are this node's, where a listener has TLS.
    pub certificates: Option<Arc<CertificateStore>>,
    /// Where workers and memory are.
    pub layout: Layout,
    /// Indexes of objects and memory of bodies.
    pub cache: Arc<Groups>,
    /// Disks, if there are any.
    pub disks: Option<Arc<Disks>>,
    /// What keeps responses besides that memory.
    pub(crate) keepers: Keepers,
    /// What requests under way hold, in each group.
    pub requests: Box<[Arc<RequestMemory>]>,
    /// Client connections now open, over all workers.
    pub connections: AtomicUsize,
    /// Told when the last of them has closed.
    pub all_closed: Notify,
    /// Counters of each worker.
    pub stats: Vec<Arc<WorkerStats>>,
    /// Access log.
    pub log: Arc<AccessLog>,
    /// What was not stored, and why.
    pub decisions: Decisions,
    /// When connections that were refused for their PROXY header were last logged.
    pub(crate) proxy_refusals: LogLimit,
    /// What manifests say of what goes on.
    pub channels: Channels,
    /// What comes next in films that are watched.
    pub films: Films,
    /// How players say they are doing.
    pub sessions: Sessions,
    /// Numbers for connections, requests and fetches.
    pub ids: Ids,
    /// Bans.
    pub bans: Bans,
    /// Purges that policies carried out by themselves, with the module `purge`.
    pub policy_purges: SharedCounter,
    /// What responses keep in memory that wait for their clients.
    pub readers: Arc<ReaderMemory>,
    /// When objects leave that policies want to leave.
    pub expiry: Expiry,
    /// Who takes transcripts, if somebody does.
    pub scribe: Option<Arc<dyn Scribe>>,
    /// Traced requests, as examples.
    pub exemplars: Exemplars,
    /// What clients may take.
    pub limiter: Limiter,
    /// Tokens for one use that had it.
    pub used_tokens: Used,
    /// What comes of requests, by what services say of them.
    pub calls: Calls,
    /// How far purges that nodes have in one order are carried out here.
    pub applied: Applied,
    /// What is on a disk, and was fetched or validated before this number in the order of the disks, may be
    /// something that was purged elsewhere.
    pub disks_doubted_below: AtomicU64,
    /// Which versions of a configuration that others send it runs.
    pub versions: Versions,
    /// Whose certificates are refused.
    pub refused_certificates: RefusedNames,
    /// What is coming from the process before, where there was one.
    pub(crate) taking: OnceLock<Arc<Taking>>,
    /// What goes to the process that takes over, while one does.
    pub(crate) giving: Mutex<Option<Arc<Giving>>>,
}

impl Shared {
    /// What all requests under way hold.
    pub fn requests_bytes(&self) -> u64 {
        self.requests.iter().map(|group| group.used_bytes()).sum()
    }
}

/// What a worker may be told.
pub enum Command {
    /// Use this configuration from now on.
    Reload(Box<Snapshot>),
    /// Accept no more, finish what is open, then end.
    Drain,
    /// End now.
    Stop,
}

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

/// State of one worker, for its tasks.
pub struct Worker {
    /// What all share.
    pub shared: Arc<Shared>,
    /// The group it is of.
    pub group: usize,
    /// This worker's counters.
    pub stats: Arc<WorkerStats>,
    /// This worker's connections to origins.
    pub pool: Pool,
    snapshot: RefCell<Rc<Snapshot>>,
    /// Of the sites of that snapshot, in their order.
    site_counters: RefCell<Box<[Arc<SiteCounters>]>>,
    log: LogBuffer,
    draining: Cell<bool>,
    drain: Notify,
    ids: Share,
    /// Fetches of what nobody has asked for yet that are under way.
    pub(crate) errands: Rc<Cell<u64>>,
    /// The same of those that players hinted at.
    pub(crate) hints: Rc<Cell<u64>>,
    /// Copies of what is in other groups that are being made.
    pub(crate) copies: Rc<Cell<usize>>,
}

impl Worker {
    fn new(shared: Arc<Shared>, index: usize, snapshot: Snapshot) -> Rc<Self> {
        Rc::new(Self {
            stats: Arc::clone(&shared.stats[index]),
            log: LogBuffer::new(Arc::clone(&shared.log)),
            pool: Pool::new(),
            site_counters: RefCell::new(shared.stats[index].sites.of(&snapshot.sites)),
            snapshot: RefCell::new(Rc::new(snapshot)),
            group: shared.layout.workers[index].group,
            shared,
            draining: Cell::new(false),
            drain: Notify::new(),
            ids: Share::default(),
            errands: Rc::default(),
            hints: Rc::default(),
            copies: Rc::default(),
        })
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> Rc<Snapshot> {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Counts for a site, where there are several. What began before a reload that changed the list is
    /// not counted.
    pub(crate) fn count_site(&self, site: &SiteRef, count: impl FnOnce(&SiteCounters)) {
        if let Some(counters) = self.site_counters.borrow().get(site.index())
            && site.is_of(&self.snapshot.borrow())
        {
            count(counters);
        }
    }

    /// What a new connection uses of the memory: nothing yet.
    pub(crate) fn connection_memory(&self) -> Rc<ConnectionMemory> {
        let groups = &self.shared.requests;
        let limit_bytes = self.snapshot.borrow().settings.limits.requests_bytes_max;
        ConnectionMemory::new(&groups[self.group], limit_bytes / groups.len() as u64)
    }

    /// The memory of this worker's group.
    pub(crate) fn own_memory(&self) -> &Arc<Arena> {
        self.shared.cache.of(self.group).arena()
    }

    /// Whether connections are to end after the request they are at.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Waits until connections are to end.
    pub async fn drained(&self) {
        let told = self.drain.notified();
        if !self.draining.get() {
            told.await;
        }
    }

    /// Waits until a connection without request is to end: a grace after [`Worker::drained`].
    pub async fn drain_grace(&self) {
        self.drained().await;
        tokio::time::sleep(DRAIN_GRACE).await;
    }

    /// A number for a connection, request or fetch, unique on this node.
    pub fn next_id(&self) -> u64 {
        self.ids.next(&self.shared.ids)
    }

    /// Adds a line to the access log.
    pub fn log(&self, record: &Record<'_>) {
        self.stats.log_lost.add(self.log.add(record));
    }
}

/// What a worker's tasks run on. It belongs to the thread that makes it.
///
/// # Errors
/// When descriptors or memory are short.
pub fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}

/// Runs a worker until it is told to end.
pub(crate) async fn run(
    shared: Arc<Shared>,
    index: usize,
    snapshot: Snapshot,
    (ports, quic): (Vec<Port>, Vec<QuicPort>),
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let worker = Worker::new(shared, index, snapshot);
    let accepting: Vec<_> =
        ports.into_iter().map(|port| spawn_local(accept(Rc::clone(&worker), port))).collect();
    // These go on while the worker drains: their connections have no sockets of their own.
    for port in quic {
        spawn_local(session::serve_port(Rc::clone(&worker), port));
    }
    spawn_local(tick(Rc::clone(&worker), index == 0));
    if index == 0 {
        spawn_local(crate::bans::lurk(Rc::clone(&worker)));
        spawn_local(crate::expiry::run(Rc::clone(&worker)));
    }
    // Drives of a simulated world end their reads by themselves.
    if cfg!(not(feature = "simulation")) && worker.shared.disks.is_some() {
        spawn_local(crate::disk::drive());
    }
    let pool = worker.pool.clone();
    spawn_local(async move { pool.maintain().await });
    // One worker asks the origins how they are; all see the answer.
    let mut probes = if index == 0 { start_probes(&worker) } else { Vec::new() };
    loop {
        match commands.recv().await {
            Some(Command::Reload(snapshot)) => {
                worker.site_counters.replace(worker.stats.sites.of(&snapshot.sites));
                worker.snapshot.replace(Rc::new(*snapshot));
                if index == 0 {
                    probes.drain(..).for_each(|probe| probe.abort());
                    probes = start_probes(&worker);
                }
            }
            Some(Command::Drain) => {
                accepting.iter().for_each(JoinHandle::abort);
                drain(&worker, &mut commands).await;
                break;
            }
            Some(Command::Stop) | None => break,
        }
    }
    worker.stats.log_lost.add(worker.log.flush());
}

/// Begins to probe each origin, where probes are configured.
fn start_probes(worker: &Worker) -> Vec<JoinHandle<()>> {
    let snapshot = worker.snapshot();
    let sites = snapshot.sites.all().iter();
    sites
        .flat_map(|site| site.upstreams.probes.iter().cloned())
        .map(|(origin, settings)| {
            let scribe = worker.shared.scribe.clone();
            let on_transition = |origin: &Origin, change, why: Option<&ProbeFailure>| {
                let name = &origin.settings.name;
                match (change, why) {
                    (Transition::WentUp, _) => tracing::info!(origin = %name, "an origin is up"),
                    (Transition::WentDown, Some(why)) => {
                        tracing::warn!(origin = %name, %why, "an origin is down");
                    }
                    (Transition::WentDown, None) => {
                        tracing::warn!(origin = %name, "an origin is down")
                    }
                }
            };
            let on_probe = move |origin: &Origin, probed: &Probed<'_>| {
                if let Some(scribe) = &scribe {
                    scribe.note(Tag::Backend_health, &record_of_probe(origin, probed));
                }
            };
            spawn_local(probe::run_telling(origin, settings, on_transition, on_probe))
        })
        .collect()
}

/// A probe as a record: name, verdict, steps, good ones, how many have to be, of how many, seconds
/// of this one and on average, the answer's first line.
fn record_of_probe(origin: &Origin, probed: &Probed<'_>) -> String {
    let Probed { attempt, is_up, has_changed, window, history } = probed;
    let steps = Step::ALL.map(|(step, mark, _)| if attempt.reached(step) { mark } else { '-' });
    format!(
        "{} {} {} {} {} {} {} {:.6} {:.6} \"{}\"",
        origin.settings.name,
        if *has_changed { "Went" } else { "Still" },
        if *is_up { "healthy" } else { "sick" },
        String::from_iter(steps),
        window.good(),
        window.threshold(),
        window.size(),
        attempt.took.as_secs_f64(),
        history.average_seconds(),
        attempt.answer,
    )
}

/// Lets open connections finish, for as long as configured. Those of all workers: what one of them
/// delivers may still be filled by another.
async fn drain(worker: &Worker, commands: &mut mpsc::UnboundedReceiver<Command>) {
    worker.draining.set(true);
    worker.drain.notify_waiters();
    let limit = worker.snapshot().settings.drain;
    let finished = async {
        loop {
            let mut told = std::pin::pin!(worker.shared.all_closed.notified());
            // Before the count is read: one that closes in between tells us.
            told.as_mut().enable();
            if worker.shared.connections.load(SeqCst) == 0 {
                return;
            }
            told.await;
        }
    };
    let stopped = async { while !matches!(commands.recv().await, Some(Command::Stop) | None) {} };
    tokio::select! {
        () = finished => {}
        () = stopped => {}
        () = tokio::time::sleep(limit) => {}
    }
}

async fn tick(worker: Rc<Worker>, is_first: bool) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        if is_first {
            worker.shared.limiter.sweep(TICK);
        }
        worker.stats.log_lost.add(worker.log.flush());
    }
}

async fn accept(worker: Rc<Worker>, port: Port) {
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
    session::serve(worker, stream, Rc::clone(&client)).await;
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
        if self.0.shared.connections.fetch_sub(1, SeqCst) == 1 {
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
