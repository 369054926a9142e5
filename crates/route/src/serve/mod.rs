//! A router that runs: threads that answer, and one that watches nodes.
//!
//! Each worker has listening sockets of its own and a single-threaded runtime; what they share is the
//! [`Routing`] in force, behind one pointer. The first thread asks nodes how they are and serves the
//! admin interface.

mod admin;
mod dns;
mod door;
mod http;
mod metrics;
mod throttle;

use crate::config::{Config, FleetSettings, ListenSettings};
use crate::limits::TICKETS_PERIOD;
use crate::live::{FADE, Routing, Told};
use arc_swap::ArcSwap;
use door::Door;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::server::{ServerOptions, server_config};
use freshet_net::tls::ticket::TicketKeys;
use freshet_net::trust::TrustedPeers;
use freshet_origin::health::Transition;
use freshet_origin::probe::{self, ProbeSettings};
use rustls::ServerConfig;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use throttle::Throttle;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{MissedTickBehavior, interval};

/// What all threads share.
#[derive(Debug)]
struct Shared {
    routing: ArcSwap<Routing>,
    reloads: std::sync::atomic::AtomicU64,
    /// Answers of DNS.
    dns: dns::Codes,
    /// What networks got of them over UDP lately.
    dns_rates: Throttle,
}

/// One address for HTTP, with what its connections need.
struct Entrance {
    listener: Listener,
    tls: Option<Arc<ServerConfig>>,
    trusted: Arc<TrustedPeers>,
}

/// What a worker answers at.
#[derive(Default)]
struct Worker {
    entrances: Vec<Entrance>,
    dns: Vec<dns::Place>,
}

/// A router that runs; dropping it ends it.
pub struct Router {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    dns_addresses: Vec<SocketAddr>,
    admin: Option<Address>,
    /// What was bound, which a reload does not change.
    bound: Fixed,
    /// Certificates of the listeners that have some.
    certificates: Vec<Arc<CertificateStore>>,
    /// How nodes are asked; a new value has the watching begin anew.
    probe: watch::Sender<ProbeSettings>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// What a reload cannot change.
#[derive(Debug, Eq, PartialEq)]
struct Fixed {
    workers: usize,
    listeners: Vec<ListenSettings>,
    dns: Vec<SocketAddr>,
    fleet: Option<FleetSettings>,
    admin: Option<Address>,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        Self {
            workers: config.workers,
            listeners: config.listeners.clone(),
            dns: config.dns.listen.clone(),
            fleet: config.fleet.clone(),
            admin: config.admin.clone(),
        }
    }
}

/// What became of a reload that is in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reloaded {
    /// All of it is.
    Whole,
    /// Addresses, threads and the fleet stay as they are until a restart.
    ButAddresses,
}

impl Router {
    /// Binds all addresses and begins to serve.
    ///
    /// # Errors
    /// What this machine refused, or what of the configuration cannot be used.
    pub fn start(config: Config) -> Result<Self, String> {
        let bound = Fixed::of(&config);
        let (first, _) = watch::channel(config.probe.clone());
        let workers = match config.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let mut workers: Vec<Worker> = (0..workers).map(|_| Worker::default()).collect();
        let (mut addresses, mut dns_addresses) = (Vec::new(), Vec::new());
        let mut certificates = Vec::new();
        for settings in &config.listeners {
            let store = certificate(settings)?;
            addresses.push(spread(settings, store.as_ref(), &mut workers)?);
            certificates.extend(store);
        }
        for address in &config.dns.listen {
            let mut address = *address;
            for worker in &mut workers {
                let place = dns::Place::bind(address)?;
                // Where the kernel chose a port, the others have the same.
                address = place.address().unwrap_or(address);
                worker.dns.push(place);
            }
            dns_addresses.push(address);
        }
        let admin = config.admin.as_ref().map(|address| bind(address, false)).transpose()?;
        let admin_address = admin.as_ref().map(|listener| listener.local_address().clone());
        let shared = Arc::new(Shared {
            routing: ArcSwap::from_pointee(Routing::new(config, None)?),
            reloads: 0.into(),
            dns: dns::Codes::default(),
            dns_rates: Throttle::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let mut router = Self {
            shared: Arc::clone(&shared),
            addresses,
            dns_addresses,
            admin: admin_address,
            certificates,
            bound,
            probe: first.clone(),
            stop,
            threads: Vec::new(),
        };
        let watching = {
            let (shared, probe, stopped) =
                (Arc::clone(&shared), first.subscribe(), stopped.clone());
            move |runtime: Runtime| {
                LocalSet::new().block_on(&runtime, watch_nodes(shared, probe, admin, stopped));
            }
        };
        router.spawn("watching".to_owned(), watching)?;
        for (number, worker) in workers.into_iter().enumerate() {
            let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
            let serve = move |runtime: Runtime| runtime.block_on(worker.serve(shared, stopped));
            router.spawn(format!("worker {number}"), serve)?;
        }
        Ok(router)
    }

    /// Where clients are redirected from, with the ports the kernel chose where 0 was asked for.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where DNS is answered.
    pub fn dns_addresses(&self) -> &[SocketAddr] {
        &self.dns_addresses
    }

    /// Where the admin interface is.
    pub fn admin(&self) -> Option<&Address> {
        self.admin.as_ref()
    }

    /// Has another configuration in force. Nodes that it has as before keep their health; certificates
    /// are read again from where they were.
    ///
    /// # Errors
    /// What of it cannot be used; the old one stays in force.
    pub fn reload(&self, config: Config) -> Result<Reloaded, String> {
        let reloaded = match Fixed::of(&config) == self.bound {
            true => Reloaded::Whole,
            false => Reloaded::ButAddresses,
        };
        let probe = config.probe.clone();
        let routing = Routing::new(config, Some(&self.shared.routing.load()))?;
        for store in &self.certificates {
            let sources = store.configured().iter().map(|one| one.source().clone()).collect();
            let read =
                CertificateStore::load(sources).map_err(|error| format!("listen: {error}"))?;
            store.adopt(&read);
        }
        self.shared.routing.store(Arc::new(routing));
        self.shared.reloads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.probe.send_replace(probe);
        Ok(reloaded)
    }

    /// Notes what the fleet says of nodes, by name.
    pub fn tell(&self, said: &HashMap<String, Told>) {
        self.shared.routing.load().tell(said);
    }

    fn spawn(
        &mut self,
        name: String,
        body: impl FnOnce(Runtime) + Send + 'static,
    ) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("a runtime: {error}"))?;
        let thread = Builder::new().name(name).spawn(move || body(runtime));
        self.threads.push(thread.map_err(|error| format!("a thread: {error}"))?);
        Ok(())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Worker {
    /// Answers until it is stopped.
    async fn serve(self, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
        let mut answering = JoinSet::new();
        for place in self.dns {
            answering.spawn(place.serve(Arc::clone(&shared)));
        }
        http::serve(shared, self.entrances, stopped).await;
    }
}

/// The certificate of a listener, where it speaks TLS.
fn certificate(settings: &ListenSettings) -> Result<Option<Arc<CertificateStore>>, String> {
    let Some((certificate, key)) = settings.certificate.clone() else { return Ok(None) };
    let source = CertificateSource { certificate, key, ocsp: None, names: Vec::new() };
    CertificateStore::load(vec![source]).map(Some).map_err(|error| format!("listen: {error}"))
}

/// Gives each worker a socket of its own at an address.
fn spread(
    settings: &ListenSettings,
    store: Option<&Arc<CertificateStore>>,
    workers: &mut [Worker],
) -> Result<Address, String> {
    let tls = store.map(|store| {
        let tickets = Some(TicketKeys::random(TICKETS_PERIOD));
        let options = ServerOptions { tickets, ..ServerOptions::default() };
        server_config(Arc::clone(store), &options)
    });
    let tls = tls.transpose().map_err(|error| format!("listen: {error}"))?;
    let trusted = Arc::new(settings.trusted.clone());
    let first = bind(&settings.address, true)?;
    let address = first.local_address().clone();
    let mut first = Some(first);
    for worker in workers {
        let listener = match (first.take(), &address) {
            (Some(first), _) => first,
            (None, Address::Tcp(_)) => bind(&address, true)?,
            // The first worker has it alone.
            (None, Address::Unix(_)) => break,
        };
        worker.entrances.push(Entrance {
            listener,
            tls: tls.clone(),
            trusted: Arc::clone(&trusted),
        });
    }
    Ok(address)
}

fn bind(address: &Address, is_shared: bool) -> Result<Listener, String> {
    let reuse_port = is_shared && matches!(address, Address::Tcp(_));
    let options = ListenOptions { reuse_port, ..ListenOptions::default() };
    Listener::bind(address, &options).map_err(|error| error.to_string())
}

/// Asks nodes how they are, and serves the admin interface.
async fn watch_nodes(
    shared: Arc<Shared>,
    mut settings: watch::Receiver<ProbeSettings>,
    admin: Option<Listener>,
    mut stopped: watch::Receiver<bool>,
) {
    if let Some(listener) = admin {
        tokio::task::spawn_local(admin::serve(Arc::clone(&shared), listener));
    }
    let mut fading = interval(FADE);
    fading.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut probes = ask_all(&shared, &settings.borrow_and_update());
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            _ = fading.tick() => {
                shared.routing.load().fade();
                shared.dns_rates.sweep();
            }
            changed = settings.changed() => {
                if changed.is_err() {
                    return;
                }
                // Those of before are dropped with their set.
                let settings = settings.borrow_and_update().clone();
                probes.abort_all();
                probes = ask_all(&shared, &settings);
            }
        }
    }
}

/// A task for each node that is asked.
fn ask_all(shared: &Shared, settings: &ProbeSettings) -> JoinSet<()> {
    let mut probes = JoinSet::new();
    for live in &shared.routing.load().nodes {
        let Some(origin) = &live.origin else { continue };
        let mut settings = settings.clone();
        // Where it was found before, that stands until it is found otherwise.
        if origin.health.window().is_some() {
            let is_down = origin.health.health(freshet_base::clock::UnixMillis::now())
                == freshet_origin::health::Health::Down;
            settings.initial = Some(if is_down { 0 } else { settings.window });
        }
        probes.spawn_local(probe::run(Arc::clone(origin), settings, |origin, change, why| {
            let node = origin.settings.name.as_str();
            match (change, why) {
                (Transition::WentUp, _) => tracing::info!(node, "up"),
                (Transition::WentDown, Some(why)) => tracing::warn!(node, %why, "down"),
                (Transition::WentDown, None) => tracing::warn!(node, "down"),
            }
        }));
    }
    probes
}
