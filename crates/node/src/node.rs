//! A node as a whole: its start, reload, drain and hand-over.

use crate::asking::Asking;
use crate::configured;
use crate::fixed::Fixed;
use crate::preflight::{InForce, Prepared, no_address, no_http3, no_log, no_store};
use crate::quic_ports::{self, Lines};
use crate::run::{self, Command};
use crate::tickets::Tickets;
use freshet_access::certificates::RefusedNames;
use freshet_access::ledger::requests::RequestMemory;
use freshet_access::limiter::Limiter;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_base::log_limit::LogLimit;
use freshet_cache::{Cache, CacheError, Groups, Secret};
use freshet_channels::{Channels, Films, Sessions};
use freshet_config::listeners::{Http3, Listener as ListenerSettings};
use freshet_config::settings::memory_ahead_bytes;
use freshet_config::{Mistake, Settings};
use freshet_disk::Disks;
use freshet_net::NetError;
use freshet_net::address::Address;
use freshet_net::handover::Inherited;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::quic::secrets::Secrets;
use freshet_net::tls::certificate::CertificateStore;
use freshet_net::tls::client_auth::{AsksClients, ClientAuth};
use freshet_net::tls::early::EarlySessions;
use freshet_net::tls::server::{MinVersion, ServerOptions, server_config};
use freshet_net::tls::ticket::TicketKeys;
use freshet_net::tls::ticket_files::TicketFiles;
use freshet_net::tls::{ALPN_ACME_TLS, ALPN_HTTP_1_1, ALPN_HTTP_2, ALPN_HTTP_3};
use freshet_net::topology::pin_current_thread;
use freshet_net::trust::TrustedPeers;
use freshet_session::{Port, QuicPort};
use freshet_site::snapshot::{Draft, Snapshot};
use freshet_store::{Arena, Idle, StoreError, use_huge_pages};
use freshet_telemetry::calls::Calls;
use freshet_telemetry::decisions::Decisions;
use freshet_telemetry::exemplars::Exemplars;
use freshet_telemetry::log::{AccessLog, Opened};
use freshet_telemetry::stats::{Sums, WorkerStats};
use freshet_telemetry::transcript::Scribe;
use freshet_tokens::Used;
use freshet_worker::applied::Applied;
use freshet_worker::bans::Bans;
use freshet_worker::disk::DiskKeeper;
use freshet_worker::expiry::Expiry;
use freshet_worker::group_purges::GroupPurges;
use freshet_worker::handover::{self, Giving};
use freshet_worker::ids::Ids;
use freshet_worker::keepers::{Keeper, Keepers};
use freshet_worker::layout::{Layout, Seat};
use freshet_worker::lower::{LowerKeeper, Mover};
use freshet_worker::versions::Versions;
use freshet_worker::worker::{self, Shared};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use thiserror::Error;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Why a node could not start or reload.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The configuration: all that is wrong with it.
    #[error("{}", lines(.0))]
    Config(Vec<Mistake>),
    /// Listeners.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Memory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A thread.
    #[error("a worker could not be started: {0}")]
    LocalThread(io::Error),
}

/// A running node.
pub struct Node {
    /// What its workers share.
    pub shared: Arc<Shared>,
    /// When it started.
    pub started: UnixMillis,
    /// What no reload changes.
    fixed: Fixed,
    snapshot: Mutex<Snapshot>,
    workers: Mutex<Vec<Handle>>,
    listeners: Mutex<Vec<(Address, Listener)>>,
    certificates: Option<Arc<CertificateStore>>,
    /// Which names clients are asked for certificates.
    asking: Arc<Asking>,
    /// Followed as long as the node is there.
    #[expect(dead_code, reason = "it is there to be dropped")]
    ticket_files: Option<Arc<TicketFiles>>,
    /// Of memory of a lower class.
    movers: Vec<Mover>,
    /// Who sees to memory while there is nothing else to do, until the node stops.
    idle: Mutex<Vec<Idle>>,
    /// Ports of HTTP/3.
    quic: Vec<quic_ports::Served>,
    draining: AtomicBool,
    /// Held by a reload: what two of them have read must not come into force in the other order.
    reloading: Mutex<()>,
}

struct Handle {
    /// Taken by the one who waits for it.
    thread: Option<JoinHandle<()>>,
    commands: UnboundedSender<Command>,
}

impl Node {
    /// Starts workers on the configured addresses, taking over those that were inherited.
    ///
    /// # Errors
    /// What is wrong with the configuration or this machine; nothing is left running then.
    pub fn start(settings: Settings, inherited: &mut Inherited) -> Result<Arc<Self>, NodeError> {
        let prepared = Prepared::new(settings, None).map_err(NodeError::Config)?;
        let node = Self::start_with(prepared, inherited, None)?;
        node.open();
        Ok(node)
    }

    /// Starts with what was prepared before, and with somebody who takes transcripts. Clients wait until it is
    /// [opened](Self::open).
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_with(
        prepared: Prepared,
        inherited: &mut Inherited,
        scribe: Option<Arc<dyn Scribe>>,
    ) -> Result<Arc<Self>, NodeError> {
        let (node, ports) = Self::assemble(prepared, inherited, scribe)?;
        for (index, ports) in ports.into_iter().enumerate() {
            let handle = node.start_worker(index, ports).map_err(NodeError::LocalThread)?;
            lock(&node.workers).push(handle);
        }
        Ok(node)
    }

    /// Starts with workers that are tasks of the set this is called in, for a simulated world: when that
    /// is dropped, they are gone as if the process had been killed.
    ///
    /// # Errors
    /// As [`Node::start`].
    #[cfg(feature = "simulation")]
    pub fn start_in_world(settings: Settings) -> Result<Arc<Self>, NodeError> {
        let prepared = Prepared::new(settings, None).map_err(NodeError::Config)?;
        let (node, ports) = Self::assemble(prepared, &mut Inherited::default(), None)?;
        for (index, ports) in ports.into_iter().enumerate() {
            let (commands, received) = unbounded_channel();
            let (shared, snapshot) = (Arc::clone(&node.shared), node.snapshot());
            let certificates = node.certificates.clone();
            tokio::task::spawn_local(run::run(
                shared,
                index,
                snapshot,
                ports,
                certificates,
                received,
            ));
            lock(&node.workers).push(Handle { thread: None, commands });
        }
        node.open();
        Ok(node)
    }

    /// A node without workers, and what each of them is to accept from.
    #[allow(clippy::type_complexity, reason = "taken apart at once")]
    fn assemble(
        prepared: Prepared,
        inherited: &mut Inherited,
        scribe: Option<Arc<dyn Scribe>>,
    ) -> Result<(Arc<Self>, Vec<(Vec<Port>, Vec<QuicPort>)>), NodeError> {
        let Prepared { draft, certificates, format, warnings, state } = prepared;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let settings = Arc::clone(&draft.settings);
        let refuse = |mistake| NodeError::Config(vec![mistake]);
        let layout = Layout::of(&settings);
        let workers = layout.workers.len();
        let tickets = Tickets::open(&settings)?;
        let asking = Arc::new(Asking::default());
        asking.set(&draft.sites);
        let asks = || Some(Arc::clone(&asking) as Arc<dyn AsksClients>);
        let tls = |auth: Option<&ClientAuth>| {
            let config = |store| tls_config(store, &settings, (auth, asks()), tickets.keys("tls"));
            certificates.as_ref().map(config).transpose()
        };
        let anybodys = tls(None)?;
        let arenas = layout.arenas()?;
        let predecessor = inherited.predecessor();
        let takes_over = predecessor.is_some();
        let disks = freshet_worker::disk::open(&settings, takes_over)
            .map_err(|(path, error)| refuse(no_store(&settings, &path, &error)))?;
        let cache = index(&settings, arenas, disks.as_deref())?;
        // A process before may still have as much as it has.
        let ready_bytes = match settings.memory_ahead_bytes {
            u64::MAX if takes_over => memory_ahead_bytes(settings.memory_bytes),
            bytes => bytes,
        };
        let idle = see_to_memory(&cache, ready_bytes);
        let movers = Mover::start(&settings, &cache, takes_over)?;
        let log = AccessLog::start(&settings.log.access, format, Arc::clone(&draft.geo))
            .map_err(|error| refuse(no_log(&settings, &error)))?;
        let bans = Bans::new(disks.clone());
        let shared = Arc::new(Shared {
            certificates: certificates.clone(),
            requests: cache.all().iter().map(request_memory).collect(),
            keepers: keepers(disks.as_ref(), &cache, !movers.is_empty()),
            cache,
            disks,
            connections: AtomicUsize::new(0),
            all_closed: Notify::new(),
            stats: (0..workers).map(|_| Arc::new(WorkerStats::default())).collect(),
            layout,
            log,
            decisions: Decisions::default(),
            channels: Channels::default(),
            films: Films::default(),
            sessions: Sessions::default(),
            proxy_refusals: LogLimit::new(),
            group_purges: GroupPurges::default(),
            policy_purges: SharedCounter::default(),
            ids: Ids::default(),
            bans,
            readers: Arc::default(),
            expiry: Expiry::default(),
            scribe,
            taking: OnceLock::new(),
            giving: Mutex::default(),
            applied: Applied::default(),
            disks_doubted_below: AtomicU64::new(0),
            versions: Versions::default(),
            refused_certificates: RefusedNames::default(),
            limiter: Limiter::new(settings.limits.rate_keys_max),
            used_tokens: Used::default(),
            exemplars: Exemplars::default(),
            calls: Calls::default(),
        });
        if let Some(line) = predecessor {
            handover::take_over(line, &shared, &draft.sites);
        }
        shared.bans.restore_kept(&shared.cache);
        let mut listeners = Vec::new();
        let mut ports: Vec<Vec<Port>> = (0..workers).map(|_| Vec::new()).collect();
        let mut quic: Vec<Vec<QuicPort>> = (0..workers).map(|_| Vec::new()).collect();
        let mut quic_served = Vec::new();
        let secrets = quic_ports::secrets(state.as_deref());
        for (index, listener) in settings.listeners.iter().enumerate() {
            let name = listener.name.clone().unwrap_or_else(|| format!("a{index}")).into();
            let tls = match &listener.client_auth {
                None => anybodys.clone(),
                auth @ Some(_) => tls(auth.as_ref())?,
            };
            let sockets = open(listener, &name, tls.as_ref(), inherited, &mut ports)?;
            let of_workers: Vec<_> = sockets.iter().map(|(worker, it)| (*worker, it)).collect();
            shared.layout.steer(&of_workers);
            let address = &listener.address;
            listeners.extend(sockets.into_iter().map(|(_, socket)| (address.clone(), socket)));
            if let Some(store) = certificates.as_ref().filter(|_| listener.http3 != Http3::Off) {
                let auth = (listener.client_auth.as_ref(), asks());
                let tls = http3_config(store, auth, (tickets.keys("quic"), listener.early_data))?;
                let early = listener.early_data.then(|| EarlySessions::new(asks()));
                let (tls, taken) = ((&tls, early), (&mut *inherited, &secrets));
                let opened = open_http3(listener, &name, tls, taken, &mut ports, &mut quic);
                match (opened, listener.http3) {
                    (Ok(served), _) => quic_served.extend(served),
                    (Err(error), Http3::Required) => {
                        return Err(refuse(no_http3(&error, listener)));
                    }
                    (Err(error), _) => {
                        tracing::warn!(%error, "there is no HTTP/3: the UDP port cannot be had");
                    }
                }
            }
        }
        let own_ports =
            listeners.iter().filter_map(|(_, each)| each.local_address().port()).collect();
        configured::let_act(&draft, &shared);
        let snapshot = draft.on(own_ports, None);
        share_out(&shared, &snapshot);
        let node = Arc::new(Self {
            shared,
            started: UnixMillis::now(),
            fixed: Fixed::of(&settings),
            snapshot: Mutex::new(snapshot),
            workers: Mutex::default(),
            listeners: Mutex::new(listeners),
            certificates,
            asking,
            ticket_files: tickets.into_files(),
            movers,
            idle: Mutex::new(idle),
            quic: quic_served,
            draining: AtomicBool::new(false),
            reloading: Mutex::default(),
        });
        Ok((node, ports.into_iter().zip(quic).collect()))
    }

    /// Has it accept those who connect, and those who did since its start.
    pub fn open(&self) {
        self.tell(|| Command::Open);
    }

    /// Swaps configuration, policy, origins and certificates; requests under way end as they
    /// began. Addresses, workers and memory stay as they are until an upgrade, and redirects to HTTPS wait for the
    /// first listener that has it: those keys that differ from what is in force and wait for one are returned. What
    /// cannot be renewed goes on as it was, a site or the certificates of the top level, and is in [`Snapshot::stayed`].
    ///
    /// # Errors
    /// What is wrong; the configuration in force stays, all of it.
    pub fn reload(&self, mut settings: Settings) -> Result<Vec<&'static str>, NodeError> {
        let _one_at_a_time = lock(&self.reloading);
        let before = self.snapshot();
        let mut waiting = self.fixed.waiting(&settings);
        if self.fixed.hold_back(&mut settings, &before.sites) {
            waiting.push("redirect");
        }
        let in_force = InForce { snapshot: &before, certificates: self.certificates.as_deref() };
        let prepared = Prepared::new(settings, Some(&in_force)).map_err(NodeError::Config)?;
        let Prepared { draft: next, certificates, format, warnings, .. } = prepared;
        // All that can fail comes before the first change.
        let log = Opened::open(&next.settings.log.access)
            .map_err(|error| NodeError::Config(vec![no_log(&next.settings, &error)]))?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if let (Some(present), Some(next)) = (&self.certificates, certificates) {
            present.adopt(&next);
        }
        self.shared.log.reopen(log, format, Arc::clone(&next.geo));
        for key in &waiting {
            tracing::warn!("{key} has changed; that takes effect with an upgrade or a restart");
        }
        self.reload_with(next);
        Ok(waiting)
    }

    /// Opens the access log anew, as after a rotation, and changes nothing else.
    ///
    /// # Errors
    /// When it cannot be opened; what was open stays.
    pub fn reopen_log(&self) -> io::Result<()> {
        let _one_at_a_time = lock(&self.reloading);
        self.shared.log.rotate(Opened::open(&self.snapshot().settings.log.access)?);
        Ok(())
    }

    /// Swaps in sites made before, with their policies and origins.
    pub fn reload_with(&self, next: Draft) {
        let before = self.snapshot();
        configured::let_act(&next, &self.shared);
        let next = next.on(Arc::clone(&before.own_ports), Some(&before));
        limit_fills(&self.shared.cache, &next.settings);
        share_out(&self.shared, &next);
        self.asking.set(&next.sites);
        *lock(&self.snapshot) = next.clone();
        self.tell(|| Command::Reload(Box::new(next.clone())));
    }

    /// Accepts no more and lets what is open finish, for as long as `drain` says.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        lock(&self.idle).clear();
        if let Some(giving) = self.giving() {
            giving.drains();
            if let Some(disks) = &self.shared.disks {
                disks.release();
            }
        }
        self.tell(|| Command::Drain);
        lock(&self.listeners).clear();
    }

    /// Ends at once what [`Node::drain`] has left.
    pub fn stop(&self) {
        if let Some(giving) = self.giving() {
            giving.end();
        }
        lock(&self.idle).clear();
        self.tell(|| Command::Stop);
        lock(&self.listeners).clear();
    }

    /// Waits until all workers have ended, as [`Node::drain`] or [`Node::stop`] told them to, then
    /// for the log. They can be told to stop meanwhile.
    pub fn join(&self) {
        let threads: Vec<_> =
            lock(&self.workers).iter_mut().filter_map(|worker| worker.thread.take()).collect();
        for thread in threads {
            let _ = thread.join();
        }
        if let Some(giving) = self.giving() {
            giving.finish();
        }
        if let Some(disks) = &self.shared.disks {
            disks.stop();
        }
        self.movers.iter().for_each(Mover::stop);
        self.shared.log.stop();
    }

    /// Whether it is about to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone()
    }

    /// The addresses it accepts on, ports filled in.
    pub fn addresses(&self) -> Vec<Address> {
        let mut addresses: Vec<_> =
            lock(&self.listeners).iter().map(|(_, each)| each.local_address().clone()).collect();
        addresses.dedup();
        addresses
    }

    /// The IP addresses among [`Node::addresses`].
    pub fn socket_addresses(&self) -> Vec<SocketAddr> {
        self.addresses()
            .into_iter()
            .filter_map(|address| match address {
                Address::Tcp(address) => Some(address),
                Address::Unix(_) => None,
            })
            .collect()
    }

    /// Whether clients may speak HTTP/3 at this address.
    pub fn has_http3(&self, address: &Address) -> bool {
        matches!(address, Address::Tcp(address) if self.quic.iter().any(|port| port.is_at(*address)))
    }

    /// The certificates it shows, where a listener has TLS.
    pub fn certificates(&self) -> Option<&Arc<CertificateStore>> {
        self.certificates.as_ref()
    }

    /// Sums of all workers' counters.
    pub fn sums(&self) -> Sums {
        Sums::of(self.shared.stats.iter().map(|stats| &**stats))
    }

    /// Lets the process that `command` starts take over the listening sockets, and `more` that
    /// belong to the same program. What it returns has to be dropped once that is started.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn pass_on(
        &self,
        command: &mut std::process::Command,
        more: &[(&Address, &Listener)],
    ) -> io::Result<Lines> {
        let listeners = lock(&self.listeners);
        let mut pairs: Vec<_> = listeners.iter().map(|(address, each)| (address, each)).collect();
        pairs.extend(more);
        freshet_net::handover::pass_on(command, &pairs);
        quic_ports::pass_on(command, &self.quic)
    }

    /// Hands what is in memory over to the process at the other end of `line`, which was just
    /// started: it asks for it. When that process serves, [`Node::drain`] goes on with it, and
    /// [`Node::join`] waits for its end; when it does not, nothing has changed here.
    ///
    /// # Errors
    /// There are no threads or descriptors left.
    pub fn hand_over(&self, line: UnixStream) -> io::Result<()> {
        *lock(&self.shared.giving) = Some(Giving::begin(line, &self.shared)?);
        Ok(())
    }

    /// Goes on alone: the process that was to take over is not there.
    pub fn keep(&self) {
        *lock(&self.shared.giving) = None;
    }

    fn giving(&self) -> Option<Arc<Giving>> {
        lock(&self.shared.giving).clone()
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &*lock(&self.workers) {
            let _ = worker.commands.send(command());
        }
    }

    fn start_worker(&self, index: usize, ports: (Vec<Port>, Vec<QuicPort>)) -> io::Result<Handle> {
        let (commands, received) = unbounded_channel();
        let shared = Arc::clone(&self.shared);
        let (snapshot, certificates) = (self.snapshot(), self.certificates.clone());
        let Seat { cpu, .. } = shared.layout.workers[index];
        let (started, outcome) = std::sync::mpsc::sync_channel(1);
        let thread = Builder::new().name(format!("worker-{index}")).spawn(move || {
            if let Err(error) = pin_current_thread(&[cpu.cpu]) {
                tracing::debug!(%error, "a worker is not pinned");
            }
            let runtime = match worker::runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(()));
            runtime.block_on(run::run(shared, index, snapshot, ports, certificates, received));
        })?;
        // Who says that the node runs must know that its workers do.
        outcome.recv().map_err(io::Error::other)??;
        Ok(Handle { thread: Some(thread), commands })
    }
}

/// Binds one address for each worker: with `SO_REUSEPORT`, the kernel spreads connections over
/// them. A Unix socket is one queue all workers accept from.
///
/// Every inherited socket of the address gets a worker, also where the process before had more of
/// them: connections wait in the queue of a socket, and closing it would reset them.
///
/// Returns them in the order in which they were bound, each with its worker.
fn open(
    setting: &ListenerSettings,
    name: &Arc<str>,
    tls: Option<&Arc<ServerConfig>>,
    inherited: &mut Inherited,
    ports: &mut [Vec<Port>],
) -> Result<Vec<(usize, Listener)>, NodeError> {
    let options = ListenOptions { reuse_port: ports.len() > 1, ..ListenOptions::default() };
    let proxies = setting
        .proxy_protocol
        .then(|| Arc::new(TrustedPeers { networks: setting.proxy_from.clone() }));
    let mut sockets = Vec::new();
    let mut add = |ports: &mut [Vec<Port>], worker: usize, listener: Listener| {
        sockets.push((worker, listener.try_clone()?));
        ports[worker].push(Port {
            name: Arc::clone(name),
            listener,
            tls: tls.filter(|_| setting.tls).cloned(),
            verifies_clients: setting.client_auth.is_some(),
            proxies: proxies.clone(),
            alt_svc: None,
        });
        Ok::<(), NodeError>(())
    };
    let mut first: Option<Listener> = None;
    for worker in 0..ports.len() {
        // The first says which port it is where 0 was configured, maybe more than once.
        let wanted = first.as_ref().map_or(&setting.address, Listener::local_address);
        let listener = match (inherited.take(wanted), &first) {
            (Some(listener), _) => listener,
            // To share a port is for workers of one node: another one of the same user would take half
            // of the connections unseen.
            (None, None) => Listener::examine(&setting.address)
                .and_then(|()| Listener::bind(&setting.address, &options))
                .map_err(|error| NodeError::Config(vec![no_address(&error, setting.place)]))?,
            (None, Some(first)) => match first.local_address() {
                address @ Address::Tcp(_) => {
                    Listener::bind(address, &options).or_else(|_| first.try_clone())?
                }
                Address::Unix(_) => first.try_clone()?,
            },
        };
        if first.is_none() {
            first = Some(listener.try_clone()?);
        }
        add(ports, worker, listener)?;
    }
    let Some(first) = first else { return Ok(sockets) };
    let mut workers = (0..ports.len()).cycle();
    while let Some(listener) = inherited.take(first.local_address()) {
        let worker = workers.next().expect("there is a worker: it has the first listener");
        add(ports, worker, listener)?;
    }
    Ok(sockets)
}

/// Binds the UDP ports beside a listener's TCP ports, which say so from then on.
fn open_http3(
    listener: &ListenerSettings,
    name: &Arc<str>,
    (tls, early): (&Arc<ServerConfig>, Option<EarlySessions>),
    taken: (&mut Inherited, &Arc<Secrets>),
    ports: &mut [Vec<Port>],
    quic: &mut [Vec<QuicPort>],
) -> Result<Vec<quic_ports::Served>, NetError> {
    let of_listener = |port: &&mut Port| Arc::ptr_eq(&port.name, name);
    let mut own: Vec<&mut Port> = ports.iter_mut().flatten().filter(of_listener).collect();
    let address = own.first().map(|port| port.listener.local_address().clone());
    let Some(Address::Tcp(address)) = address else { return Ok(Vec::new()) };
    let verifies = own.iter().any(|port| port.verifies_clients);
    let early = early.filter(|_| tls.max_early_data_size > 0);
    let served = quic_ports::open(name, address, tls, taken, quic)?;
    let of_listener = |port: &&mut QuicPort| Arc::ptr_eq(&port.name, name);
    for port in quic.iter_mut().flatten().filter(of_listener) {
        port.verifies_clients = verifies;
        port.early.clone_from(&early);
        port.congestion = listener.congestion;
    }
    let alt_svc = quic_ports::advertisement(listener.http3_port.unwrap_or_else(|| address.port()));
    own.iter_mut().for_each(|port| port.alt_svc = Some(Arc::clone(&alt_svc)));
    Ok(served)
}

fn lines(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The index of what is stored, over all groups of workers.
fn index(
    settings: &Settings,
    arenas: Vec<Arc<Arena>>,
    disks: Option<&Disks>,
) -> Result<Arc<Groups>, CacheError> {
    // Keys are found again by the secret they were written under.
    let secret = disks.map_or_else(Secret::random, |disks| Secret::from_bytes(disks.secret()));
    let kept = freshet_cache::Settings {
        object_bytes_max: Some(settings.site.cache.object_bytes_max),
        objective: settings.site.cache.objective,
        disk_bytes: disks.map_or(0, |disks| disks.log_bytes()),
        disk_lifetime_min: settings.site.store_ttl_min,
        disk_tactic: disks.map(|disks| disks.chosen_tactic()).unwrap_or_default(),
        ..freshet_cache::Settings::default()
    };
    let cache = Groups::new(arenas, &secret, &kept)?;
    limit_fills(&cache, settings);
    if settings.fleet.is_some() {
        // Until the fleet's log has said that nothing was missed.
        cache.fence(u64::MAX);
    }
    Ok(cache)
}

fn limit_fills(cache: &Groups, settings: &Settings) {
    for arena in cache.all().iter().map(|group| group.arena()) {
        arena.set_fill_limit(arena.limit_bytes() / 100 * settings.limits.fills_percent);
    }
}

/// Has sites kept to what they may have of the memory and of the disks.
fn share_out(shared: &Shared, snapshot: &Snapshot) {
    shared.cache.set_shares(&snapshot.sites.shares());
    if let Some(disks) = &shared.disks {
        disks.set_shares(&snapshot.sites.disk_shares());
    }
}

fn request_memory(group: &Arc<Cache>) -> Arc<RequestMemory> {
    Arc::new(RequestMemory::new(Arc::clone(group.arena())))
}

/// Has memory taken from the kernel before it is needed, so many bytes of all groups, and what describes objects in
/// huge pages. Without a thread for it a node is slower and right.
fn see_to_memory(cache: &Groups, ready_bytes: u64) -> Vec<Idle> {
    let part = ready_bytes / cache.all().len() as u64;
    let arenas = cache.all().iter().filter(|_| part > 0).map(|group| group.arena());
    let ahead = arenas.filter_map(|arena| arena.keep_ready(part).ok());
    ahead.chain(use_huge_pages().ok()).collect()
}

/// What keeps responses besides the memory they arrive in.
fn keepers(disks: Option<&Arc<Disks>>, cache: &Arc<Groups>, has_lower: bool) -> Keepers {
    let disks = disks.map(|disks| Box::new(DiskKeeper(Arc::clone(disks))) as Box<dyn Keeper>);
    let lower = has_lower.then(|| Box::new(LowerKeeper(Arc::clone(cache))) as Box<dyn Keeper>);
    Keepers::new(disks.into_iter().chain(lower))
}

fn tls_config(
    store: &Arc<CertificateStore>,
    settings: &Settings,
    (client_auth, asks): (Option<&ClientAuth>, Option<Arc<dyn AsksClients>>),
    tickets: Arc<TicketKeys>,
) -> Result<Arc<ServerConfig>, NodeError> {
    let mut protocols = vec![ALPN_HTTP_2, ALPN_HTTP_1_1];
    protocols.extend(settings.acme.as_ref().map(|_| ALPN_ACME_TLS));
    Ok(server_config(
        Arc::clone(store),
        &ServerOptions {
            alpn: protocols.into_iter().map(Into::into).collect(),
            tickets: Some(tickets),
            min_version: if settings.tls13_only { MinVersion::Tls13 } else { MinVersion::Tls12 },
            client_auth: client_auth.cloned(),
            asks,
            takes_early_data: false,
        },
    )?)
}

/// The same certificates for HTTP/3, which is over TLS 1.3 alone.
fn http3_config(
    store: &Arc<CertificateStore>,
    (client_auth, asks): (Option<&ClientAuth>, Option<Arc<dyn AsksClients>>),
    (tickets, takes_early_data): (Arc<TicketKeys>, bool),
) -> Result<Arc<ServerConfig>, NodeError> {
    Ok(server_config(
        Arc::clone(store),
        &ServerOptions {
            alpn: vec![ALPN_HTTP_3.into()],
            tickets: Some(tickets),
            min_version: MinVersion::Tls13,
            client_auth: client_auth.cloned(),
            asks,
            takes_early_data,
        },
    )?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
