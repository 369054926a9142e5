//! What clients may take of this node, over all workers: the tables behind `[[rate_limit]]`, the
//! count of each network's connections, and the list of blocked networks.

use crate::client::Client;
use crate::ledger::network::Network;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_base::log_limit::LogLimit;
use freshet_base::random;
use freshet_config::limits::Prefixes;
use freshet_config::rate_limits::RateLimit;
use freshet_limits::limits::COUNTS_MAX;
use freshet_limits::{Block, Blocks, Counts, Held, Pools, Prefix, Rates, Secret, Ticks};
use std::hash::{DefaultHasher, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// What keys of connections are of, beside those of limits.
const CONNECTIONS: u64 = u64::MAX;
/// All of the table of rates is swept in this time, well before its points in time come round.
const SWEEP_ROUND: Duration = Duration::from_secs(600);
/// How often the log says that clients are blocked.
const BLOCKED_LOG_EVERY: Duration = Duration::from_secs(10);

/// State of limits, shared by all workers. Its tables are made when a limit first needs them.
pub struct Limiter {
    /// Networks that get nothing.
    pub blocks: Blocks,
    since: Instant,
    secret: Secret,
    keys_max: usize,
    rates: OnceLock<Rates>,
    counts: OnceLock<Arc<Counts>>,
    /// Places at servers that services speak of.
    pub(crate) pools: Arc<Pools>,
    pub(crate) blocked_log: LogLimit,
}

/// A `[[rate_limit]]` of a site in force.
pub struct SiteLimit {
    /// What it says.
    pub settings: RateLimit,
    /// Its name for metrics: behind its site's and a slash, where there are several sites.
    pub label: Box<str>,
    /// Its number, the same as long as its site, its name and its rate are: what was counted by
    /// another rate means nothing by this one.
    pub rule: u64,
    /// Requests it refused, or would have refused on a dry run.
    pub refused: Arc<SharedCounter>,
    /// Networks it blocked.
    pub blocked: Arc<SharedCounter>,
}

impl Limiter {
    /// Nothing yet, for a node that knows so many keys apart.
    pub fn new(keys_max: usize) -> Self {
        Self {
            blocks: Blocks::default(),
            since: Instant::now(),
            secret: Secret::from_bytes(random::secret()),
            keys_max,
            rates: OnceLock::new(),
            counts: OnceLock::new(),
            pools: Arc::default(),
            blocked_log: LogLimit::new(),
        }
    }

    /// The table of rates.
    pub fn rates(&self) -> &Rates {
        self.rates.get_or_init(|| Rates::new(self.keys_max))
    }

    /// The table of what is under way.
    pub fn counts(&self) -> &Arc<Counts> {
        self.counts.get_or_init(|| Counts::new(COUNTS_MAX))
    }

    /// A point in monotonic time.
    pub fn ticks(&self, now: Instant) -> Ticks {
        now.saturating_duration_since(self.since).into()
    }

    /// A key of a limit of a site, or of what belongs to it.
    pub fn key(&self, rule: u64, what: &[u8]) -> u64 {
        self.secret.key(rule, what)
    }

    /// One more connection of a network, unless it has as many as it may.
    pub fn connect(&self, network: Network, most: u32) -> Option<Held> {
        let key = self.secret.key(CONNECTIONS, &network.to_bytes());
        self.counts().enter(key, most)
    }

    /// The block of the whole node for an address.
    #[inline]
    pub fn blocked(&self, address: Option<IpAddr>, site: Option<&str>) -> Option<Block> {
        if self.blocks.is_empty() {
            return None;
        }
        self.blocks.find(address?, site, UnixMillis::now().0)
    }

    /// Forgets what is over, a part of it each time it is called, which is every `interval`.
    pub fn sweep(&self, interval: Duration) {
        if let Some(rates) = self.rates.get() {
            let part = interval.as_secs_f64() / SWEEP_ROUND.as_secs_f64();
            rates.sweep(part, self.ticks(Instant::now()));
        }
    }

    /// Keys that rate limits knew when they were last counted, those they had to forget too early,
    /// and requests that could not be counted as under way.
    pub fn figures(&self) -> (u64, u64, u64) {
        let rates = self.rates.get().map_or((0, 0), |rates| (rates.live(), rates.evicted()));
        (rates.0, rates.1, self.counts.get().map_or(0, |counts| counts.uncounted()))
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        let counts = if self.counts.get().is_some() { COUNTS_MAX * 8 } else { 0 };
        self.rates.get().map_or(0, Rates::bytes) + counts
    }
}

impl SiteLimit {
    /// Those of a site. One that was there before goes on counting.
    pub fn all(site: &str, settings: &[RateLimit], before: Option<&[Self]>) -> Arc<[Self]> {
        let one = |settings: &RateLimit| {
            let label: Box<str> = match site {
                "" => (*settings.name).into(),
                site => format!("{site}/{}", settings.name).into(),
            };
            let known = before.and_then(|all| all.iter().find(|one| one.label == label));
            Self {
                settings: settings.clone(),
                rule: rule_of(&label, settings),
                label,
                refused: known.map(|one| Arc::clone(&one.refused)).unwrap_or_default(),
                blocked: known.map(|one| Arc::clone(&one.blocked)).unwrap_or_default(),
            }
        };
        settings.iter().map(one).collect()
    }
}

/// The operator chooses names, so this needs no secret.
fn rule_of(label: &str, settings: &RateLimit) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(label.as_bytes());
    hasher.write(format!("{:?}", settings.rate).as_bytes());
    hasher.finish()
}

/// The network of a client, as it is blocked.
pub fn network_of(client: &Client, prefixes: Prefixes) -> Option<Prefix> {
    let address = client.address?.ip().to_canonical();
    let length = if address.is_ipv4() { 96 + prefixes.v4 } else { prefixes.v6 };
    Some(Prefix::first(address, length))
}

/// Whether the log is to say now that somebody was blocked, and how often it has kept quiet.
pub fn says_blocked(limiter: &Limiter) -> Option<u64> {
    limiter.blocked_log.admit(UnixMillis::now(), BLOCKED_LOG_EVERY)
}
