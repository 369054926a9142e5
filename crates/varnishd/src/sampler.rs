//! The counters in shared memory, brought up to date many times a second.

use crate::counters::{MAIN, ORIGIN, STORAGE, UNDER_WAY, XKEY};
use crate::journal::{Journal, Kind};
use crate::shm::Directory;
use crate::shm::counters::Group;
use crate::traffic::Traffic;
use freshet_node::answer_bodies::AnswerBody;
use freshet_node::node::Node;
use freshet_node::shares::Shares;
use freshet_node::transcript::Tag;
use freshet_origin::Origin;
use freshet_origin::error::FailureKind;
use freshet_origin::probe_history::Step;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How old a value in shared memory may be. People look every second; tests wait for values.
const PERIOD: Duration = Duration::from_millis(25);

/// Varnish's names of what is under way. It has two pools of threads, of which the first one does all here.
const POOLS: [(&str, Option<Kind>); 5] = [
    ("busyobj", Some(Kind::Fetch)),
    ("req0", Some(Kind::Request)),
    ("sess0", Some(Kind::Connection)),
    ("req1", None),
    ("sess1", None),
];

/// What a counter says of one origin.
type OfOrigin = fn(&Origin) -> u64;

/// What all origins count together, those included whose policies are gone.
const OF_ORIGINS: [(&str, OfOrigin); 9] = [
    ("backend_conn", |origin| origin.stats.connects.value()),
    ("backend_reuse", |origin| origin.stats.reuses.value()),
    ("backend_retry", |origin| origin.stats.retries.value()),
    ("backend_req", |origin| origin.stats.sent.value()),
    ("backend_fail", opens_failed),
    ("backend_busy", |origin| origin.stats.failures(FailureKind::ConnectionLimit)),
    ("backend_unhealthy", |origin| origin.stats.refrained.value()),
    ("backend_wait", |origin| origin.stats.waits.value()),
    ("backend_wait_fail", |origin| origin.stats.waits_in_vain.value()),
];

/// What is counted besides the node's own figures; the manager keeps it up to date.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Origins of the policies that are ready, by `policy.name`.
    pub(crate) origins: Vec<(String, Arc<Origin>)>,
    /// Policies that are ready until then only.
    pub(crate) cooling: Vec<(String, Instant)>,
    /// Policies loaded.
    pub(crate) policies: u64,
    /// Whether one of them uses `xkey`.
    pub(crate) has_keys: bool,
    /// From one sign of life in the log to the next; none where it is zero.
    pub(crate) ping_every: Duration,
}

impl Facts {
    /// Forgets the origins of policies that were out of use for long enough.
    fn cool(&mut self) {
        let now = Instant::now();
        let Self { origins, cooling, .. } = self;
        cooling.retain(|(policy, until)| {
            let is_over = *until <= now;
            if is_over {
                origins.retain(|(name, _)| name.split('.').next() != Some(policy));
            }
            !is_over
        });
    }
}

/// Brings the counters of one child up to date.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Announces the counters and keeps them up to date until it is dropped.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        node: Arc<Node>,
        journal: Arc<Journal>,
        shares: Arc<Shares>,
        facts: Arc<Mutex<Facts>>,
    ) -> io::Result<Self> {
        MAIN.announce(directory)?;
        let main = Group::create(directory, &MAIN, "MAIN")?;
        STORAGE.announce(directory)?;
        let storages = shares
            .iter()
            .map(|share| Group::create(directory, &STORAGE, &format!("SMA.{}", share.name())))
            .collect::<io::Result<Vec<_>>>()?;
        UNDER_WAY.announce(directory)?;
        let under_way = POOLS
            .iter()
            .map(|(name, _)| Group::create(directory, &UNDER_WAY, &format!("MEMPOOL.{name}")))
            .collect::<io::Result<Vec<_>>>()?;
        ORIGIN.announce(directory)?;
        XKEY.announce(directory)?;
        node.shared.cache.count_tags();
        let mut counts = Counts {
            directory: Arc::clone(directory),
            node,
            journal,
            facts,
            started: Instant::now(),
            main,
            shares,
            storages,
            under_way,
            origins: BTreeMap::new(),
            departed: [0; OF_ORIGINS.len()],
            keys: None,
            pinged: Instant::now(),
            rounds: 0,
        };
        counts.sample()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = Builder::new().name("counters".into()).spawn(move || {
            while !told.load(Relaxed) {
                std::thread::park_timeout(PERIOD);
                // Counters that cannot be written must not stop what they are about.
                let _ = counts.sample();
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Counts {
    directory: Arc<Directory>,
    node: Arc<Node>,
    journal: Arc<Journal>,
    facts: Arc<Mutex<Facts>>,
    started: Instant,
    main: Group,
    shares: Arc<Shares>,
    /// Of the shares, in their order.
    storages: Vec<Group>,
    /// As [`POOLS`] has them.
    under_way: Vec<Group>,
    origins: BTreeMap<String, (Group, Arc<Origin>)>,
    /// As [`OF_ORIGINS`] has them, what origins have counted that are not there any more.
    departed: [u64; OF_ORIGINS.len()],
    /// Of `xkey`, from when a policy uses it on.
    keys: Option<Group>,
    /// When the last sign of life was.
    pinged: Instant,
    rounds: u64,
}

impl Counts {
    fn sample(&mut self) -> io::Result<()> {
        self.rounds += 1;
        let facts = Arc::clone(&self.facts);
        let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
        facts.cool();
        self.ping(facts.ping_every);
        self.origins(&facts)?;
        self.storages()?;
        self.under_way()?;
        self.keys(&facts)?;
        self.main(&facts)
    }

    /// Shows in the log, as Varnish does, that all is well.
    fn ping(&mut self, every: Duration) {
        if every.is_zero() || self.pinged.elapsed() < every {
            return;
        }
        self.pinged = Instant::now();
        let pong = format!("PONG {:.0} 1.0", crate::cli::unix_seconds());
        self.journal.note(Tag::CLI, "Rd ping");
        self.journal.note(Tag::CLI, &format!("Wr 200 {} {pong}", pong.len()));
    }

    fn keys(&mut self, facts: &Facts) -> io::Result<()> {
        // Bytes of the structures that the module has in Varnish.
        const KEY_BYTES: u64 = 96;
        const OBJECT_BYTES: u64 = 72;
        const REFERENCE_BYTES: u64 = 56;
        if !facts.has_keys {
            if let Some(group) = self.keys.take() {
                self.directory.remove(&group.segment)?;
            }
            return Ok(());
        }
        let group = match &mut self.keys {
            Some(group) => group,
            none => none.insert(Group::create(&self.directory, &XKEY, "XKEY")?),
        };
        let counts = self.node.shared.cache.tag_counts();
        let bytes = [
            ("g_hashhead_bytes", counts.tags * KEY_BYTES),
            ("g_ochead_bytes", counts.objects * OBJECT_BYTES),
            ("g_oc_bytes", counts.references * REFERENCE_BYTES),
        ];
        group.set("g_keys", counts.tags);
        group.set("g_bytes", bytes.iter().map(|(_, bytes)| bytes).sum());
        for (name, value) in bytes {
            group.set(name, value);
        }
        group.publish()
    }

    fn main(&mut self, facts: &Facts) -> io::Result<()> {
        let sums = self.node.sums();
        let cache = self.node.shared.cache.stats();
        let counts = &cache.counters;
        let (records, turns) = self.journal.written();
        let piped = self.journal.piped_bytes();
        let shared = &self.node.shared;
        let tag = |tag| self.journal.count(tag);
        let origins = distinct(facts.origins.iter().map(|(_, origin)| origin));
        let of_origins = OF_ORIGINS.iter().zip(self.departed).map(|((name, value), departed)| {
            let there = origins.iter().map(|origin| value(origin));
            (*name, departed + there.sum::<u64>())
        });
        let sum = |name: &str| sums.counter(name);
        let bodies = |kind| sums.answer_bodies(kind);
        let (bans, ban_counts) = (&shared.bans.counters, shared.bans.counts());
        let values = [
            ("summs", self.rounds),
            ("uptime", self.started.elapsed().as_secs()),
            ("sess_conn", sum("connections_accepted")),
            ("s_sess", sum("connections_accepted")),
            ("sess_closed", self.journal.closed_with_request()),
            ("sess_closed_err", self.journal.closed_by_errors()),
            ("client_req", sum("requests")),
            ("client_req_400", sum("requests_refused")),
            ("cache_hit", sums.taken[0]),
            ("cache_hit_grace", sums.taken[1]),
            ("cache_hitmiss", tag(Tag::HitMiss)),
            ("cache_hitpass", tag(Tag::HitPass)),
            ("cache_miss", sum("misses")),
            ("busy_sleep", counts.waits),
            ("busy_wakeup", counts.waits),
            ("s_pass", sum("passes")),
            ("n_pipe", sum("pipes").saturating_sub(sum("pipes_ended"))),
            ("pipe_limited", sum("pipes_refused")),
            ("s_fetch", sum("fetches")),
            ("s_bgfetch", counts.refreshes),
            ("s_resp_hdrbytes", sum("head_bytes")),
            ("s_resp_bodybytes", sum("body_bytes").saturating_sub(piped.1)),
            ("s_req_bodybytes", sum("request_body_bytes").saturating_sub(piped.0)),
            ("fetch_failed", sum("fetches_failed")),
            ("fetch_head", bodies(AnswerBody::OfHead)),
            ("fetch_204", bodies(AnswerBody::NoContent)),
            ("fetch_304", bodies(AnswerBody::NotModified)),
            ("fetch_chunked", bodies(AnswerBody::Chunked)),
            ("fetch_length", bodies(AnswerBody::Length)),
            ("fetch_eof", bodies(AnswerBody::UntilClose)),
            ("fetch_bad", bodies(AnswerBody::Bad)),
            ("fetch_none", bodies(AnswerBody::Empty)),
            ("n_object", cache.objects),
            ("n_objectcore", cache.objects),
            ("n_objecthead", cache.keys),
            ("n_lru_nuked", counts.evicted + self.shares.evictions().0),
            ("n_lru_moved", self.shares.evictions().1),
            ("n_lru_limited", self.shares.evictions().2),
            ("n_expired", self.node.shared.expiry.expired.value()),
            ("n_purges", sum("purges") + shared.policy_purges.value()),
            ("n_obj_purged", counts.purged),
            ("n_backend", facts.origins.len() as u64),
            ("n_vcl", facts.policies),
            ("n_vcl_avail", facts.policies),
            ("pools", 1),
            ("threads", shared.stats.len() as u64),
            ("threads_created", shared.stats.len() as u64),
            ("shm_records", records),
            ("shm_writes", records),
            ("shm_cycles", turns),
            ("bans", ban_counts.0),
            ("bans_completed", ban_counts.1),
            ("bans_obj", ban_counts.3),
            ("bans_req", ban_counts.2),
            ("bans_added", 1 + bans.added.value()),
            ("bans_deleted", bans.deleted.value()),
            ("bans_dups", bans.duplicates.value()),
            ("bans_tested", bans.tested.value()),
            ("bans_tests_tested", bans.conditions_tested.value()),
            ("bans_obj_killed", bans.objects_banned.value()),
            ("bans_lurker_tested", bans.lurker_tested.value()),
            ("bans_lurker_tests_tested", bans.lurker_conditions_tested.value()),
            ("bans_lurker_obj_killed", bans.lurker_objects_banned.value()),
            ("bans_lurker_obj_killed_cutoff", bans.lurker_objects_cut_off.value()),
            ("esi_req", sum("esi_requests")),
            ("esi_errors", sum("esi_errors")),
            ("esi_warnings", sum("esi_warnings")),
            ("sess_readahead", sum("requests_pipelined")),
            ("n_gzip", sum("gzips")),
            ("n_gunzip", sum("gunzips")),
            ("n_test_gunzip", sum("gzip_checks")),
            ("losthdr", tag(Tag::LostHeader)),
        ];
        for (name, value) in values.into_iter().chain(of_origins).chain(self.journal.counted()) {
            self.main.set(name, value);
        }
        self.main.publish()
    }

    fn storages(&mut self) -> io::Result<()> {
        for (group, share) in self.storages.iter_mut().zip(self.shares.iter()) {
            let counters = &share.counters;
            let values = [
                ("g_bytes", share.used_bytes()),
                ("g_space", share.free_bytes().unwrap_or(0)),
                ("g_alloc", share.loans()),
                ("c_bytes", counters.lent_bytes.value()),
                ("c_freed", counters.returned_bytes.value()),
                ("c_req", counters.requests.value()),
                ("c_fail", counters.refusals.value()),
            ];
            for (name, value) in values {
                group.set(name, value);
            }
            group.publish()?;
        }
        Ok(())
    }

    fn under_way(&mut self) -> io::Result<()> {
        for (group, (_, kind)) in self.under_way.iter_mut().zip(POOLS) {
            let (begun, ended) = kind.map_or((0, 0), |kind| self.journal.under_way(kind));
            group.set("allocs", begun);
            group.set("frees", ended);
            group.set("live", begun.saturating_sub(ended));
            group.publish()?;
        }
        Ok(())
    }

    fn origins(&mut self, facts: &Facts) -> io::Result<()> {
        let is_there = |name: &str, origin: &Arc<Origin>| {
            facts.origins.iter().any(|(known, there)| known == name && Arc::ptr_eq(there, origin))
        };
        self.journal.retain(|name| facts.origins.iter().any(|(known, _)| known == name));
        let gone = self.origins.extract_if(.., |name, (_, origin)| !is_there(name, origin));
        let gone: Vec<_> = gone.map(|(_, gone)| gone).collect();
        for origin in distinct(gone.iter().map(|(_, origin)| origin)) {
            if facts.origins.iter().any(|(_, there)| Arc::ptr_eq(there, origin)) {
                continue;
            }
            for (sum, (_, value)) in self.departed.iter_mut().zip(OF_ORIGINS) {
                *sum += value(origin);
            }
        }
        for (group, _) in gone {
            self.directory.remove(&group.segment)?;
        }
        for (name, origin) in &facts.origins {
            if !self.origins.contains_key(name) {
                let group = Group::create(&self.directory, &ORIGIN, &format!("VBE.{name}"))?;
                self.origins.insert(name.clone(), (group, Arc::clone(origin)));
            }
            if let Some((group, _)) = self.origins.get_mut(name) {
                fill(group, origin, self.journal.traffic_of(name));
                group.publish()?;
            }
        }
        Ok(())
    }
}

/// Each of them once: policies that declare the same backend share it.
fn distinct<'a>(origins: impl Iterator<Item = &'a Arc<Origin>>) -> Vec<&'a Arc<Origin>> {
    let mut all: Vec<_> = origins.collect();
    all.sort_unstable_by_key(|origin| Arc::as_ptr(origin));
    all.dedup_by(|one, other| Arc::ptr_eq(one, other));
    all
}

fn fill(group: &mut Group, origin: &Origin, traffic: Traffic) {
    let stats = &origin.stats;
    let failed = |kind| stats.failures(kind);
    let connections_failed = connections_failed(origin);
    let happy = origin.health.probes().map_or(0, |(_, history)| history.row(Step::Good));
    let values = [
        ("happy", happy),
        ("bereq_hdrbytes", traffic.request_head_bytes),
        ("bereq_bodybytes", traffic.request_body_bytes),
        ("beresp_hdrbytes", traffic.response_head_bytes),
        ("beresp_bodybytes", traffic.response_body_bytes),
        ("conn", stats.open.value() - stats.idle.value().min(stats.open.value())),
        ("req", stats.sent.value() + stats.tunnels.value()),
        ("unhealthy", stats.refrained.value()),
        ("pipe_hdrbytes", stats.tunnel_head_bytes.value()),
        ("pipe_out", stats.tunnel_bytes_sent.value()),
        ("pipe_in", stats.tunnel_bytes_received.value()),
        ("busy", failed(FailureKind::ConnectionLimit)),
        ("fail", connections_failed),
        ("fail_econnrefused", failed(FailureKind::Refused)),
        ("helddown", failed(FailureKind::HeldDown)),
        ("fail_enetunreach", failed(FailureKind::Unreachable)),
        ("fail_etimedout", failed(FailureKind::ConnectTimeout)),
        ("fail_other", failed(FailureKind::LocalResources) + failed(FailureKind::Name)),
    ];
    for (name, value) in values {
        group.set(name, value);
    }
}

/// Connections that were wanted and not made, tried or not.
fn opens_failed(origin: &Origin) -> u64 {
    connections_failed(origin) + origin.stats.failures(FailureKind::HeldDown)
}

fn connections_failed(origin: &Origin) -> u64 {
    let kinds = [
        FailureKind::Refused,
        FailureKind::Unreachable,
        FailureKind::ConnectTimeout,
        FailureKind::LocalResources,
        FailureKind::Name,
        FailureKind::NameTimeout,
    ];
    kinds.into_iter().map(|kind| origin.stats.failures(kind)).sum()
}
