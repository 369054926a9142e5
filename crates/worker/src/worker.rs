//! A worker: one thread pinned to a core, with connections, origin pool and counters of its own.
//! Workers share the cache, the arena and the configuration.

use crate::applied::Applied;
use crate::bans::Bans;
use crate::errands::Errands;
use crate::expiry::Expiry;
use crate::farewell::Farewell;
use crate::group_purges::GroupPurges;
use crate::handover::{Giving, Taking};
use crate::ids::{Ids, Share};
use crate::keepers::Keepers;
use crate::layout::Layout;
use crate::versions::Versions;
use freshet_access::certificates::RefusedNames;
use freshet_access::ledger::readers::ReaderMemory;
use freshet_access::ledger::requests::{ConnectionMemory, RequestMemory};
use freshet_access::limiter::Limiter;
use freshet_base::counter::SharedCounter;
use freshet_base::log_limit::LogLimit;
use freshet_cache::Groups;
use freshet_channels::{Channels, Films, Sessions};
use freshet_disk::Disks;
use freshet_net::tls::certificate::CertificateStore;
use freshet_origin::pool::Pool;
use freshet_site::sites::SiteRef;
use freshet_site::snapshot::Snapshot;
use freshet_store::Arena;
use freshet_telemetry::calls::Calls;
use freshet_telemetry::decisions::Decisions;
use freshet_telemetry::exemplars::Exemplars;
use freshet_telemetry::log::{AccessLog, LogBuffer, Record};
use freshet_telemetry::site_stats::SiteCounters;
use freshet_telemetry::stats::WorkerStats;
use freshet_telemetry::transcript::Scribe;
use freshet_tokens::Used;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::Notify;

/// How long a connection without request stays once the node drains. A request that was sent
/// before its client could know is still answered, with the word that the connection ends. Two
/// seconds are a few round trips of the slowest paths, and a client that is busy sends its next
/// request within.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

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
    pub keepers: Keepers,
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
    pub proxy_refusals: LogLimit,
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
    /// Purges of what origins make invalid together.
    pub group_purges: GroupPurges,
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
    pub taking: OnceLock<Arc<Taking>>,
    /// What goes to the process that takes over, while one does.
    pub giving: Mutex<Option<Arc<Giving>>>,
}

impl Shared {
    /// What all requests under way hold.
    pub fn requests_bytes(&self) -> u64 {
        self.requests.iter().map(|group| group.used_bytes()).sum()
    }
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
    /// What connections say that have no socket of their own, when this worker ends.
    pub farewell: Rc<Farewell>,
    ids: Share,
    /// Fetches of what nobody has asked for yet that are under way.
    pub errands: Rc<Errands>,
    /// The same of those that players hinted at.
    pub hints: Rc<Errands>,
    /// Copies of what is in other groups that are being made.
    pub copies: Rc<Errands>,
    /// Words to other nodes of a place that they have still to hear.
    pub words: Rc<Errands>,
}

impl Worker {
    /// The worker of this index, by this configuration.
    pub fn new(shared: Arc<Shared>, index: usize, snapshot: Snapshot) -> Rc<Self> {
        Rc::new(Self {
            stats: Arc::clone(&shared.stats[index]),
            log: LogBuffer::new(Arc::clone(&shared.log)),
            pool: Pool::new(),
            site_counters: RefCell::new(shared.stats[index].sites.of(snapshot.sites.names())),
            snapshot: RefCell::new(Rc::new(snapshot)),
            group: shared.layout.workers[index].group,
            shared,
            draining: Cell::new(false),
            drain: Notify::new(),
            farewell: Rc::default(),
            ids: Share::default(),
            errands: Rc::default(),
            hints: Rc::default(),
            copies: Rc::default(),
            words: Rc::default(),
        })
    }

    /// The configuration in force.
    #[inline]
    pub fn snapshot(&self) -> Rc<Snapshot> {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Goes by another configuration from now on.
    pub fn reload(&self, snapshot: Snapshot) {
        self.site_counters.replace(self.stats.sites.of(snapshot.sites.names()));
        self.snapshot.replace(Rc::new(snapshot));
    }

    /// Has connections end after the request they are at.
    pub fn begin_drain(&self) {
        self.draining.set(true);
        self.drain.notify_waiters();
    }

    /// Counts for a site, where there are several. What began before a reload that changed the list is
    /// not counted.
    #[inline]
    pub fn count_site(&self, site: &SiteRef, count: impl FnOnce(&SiteCounters)) {
        if let Some(counters) = self.site_counters.borrow().get(site.index())
            && site.is_of(&self.snapshot.borrow())
        {
            count(counters);
        }
    }

    /// What a new connection uses of the memory: nothing yet.
    pub fn connection_memory(&self) -> Rc<ConnectionMemory> {
        let groups = &self.shared.requests;
        let limit_bytes = self.snapshot.borrow().settings.limits.requests_bytes_max;
        ConnectionMemory::new(&groups[self.group], limit_bytes / groups.len() as u64)
    }

    /// The memory of this worker's group.
    pub fn own_memory(&self) -> &Arc<Arena> {
        self.shared.cache.of(self.group).arena()
    }

    /// Whether connections are to end after the request they are at.
    #[inline]
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
    #[inline]
    pub fn next_id(&self) -> u64 {
        self.ids.next(&self.shared.ids)
    }

    /// Adds a line to the access log.
    #[inline]
    pub fn log(&self, record: &Record<'_>) {
        self.stats.log_lost.add(self.log.add(record));
    }

    /// Hands over what is in the log's buffer.
    pub fn flush_log(&self) {
        self.stats.log_lost.add(self.log.flush());
    }
}

/// What a worker's tasks run on. It belongs to the thread that makes it.
///
/// # Errors
/// When descriptors or memory are short.
pub fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}
