//! A platform that runs: HTTP for its clients, a resolver for names, the edge router behind it, and
//! notifications on their way.
//!
//! One thread with a runtime of its own. What changes something is done one after the other: decided,
//! handed to the edge router where it is about traffic rules, written to the journal, and answered. A
//! write of the journal holds everything up for as long as the disk takes.

mod answer;
mod changes;
mod config;
mod console;
mod deliver;
mod door;
mod key;
mod live;
mod machine;
mod metrics;
mod observe;
mod packages;
mod resolver;
mod room;
mod router;

pub use config::{Config, read};
pub use router::RouterError;

use crate::limits::{PATIENCE, WATCHERS_MAX};
use aws_lc_rs::rand;
use axum::Router as Axum;
use door::{Door, PlaceOf};
use freshet_apps::Driver;
use freshet_apps::hosts::Hosts;
use freshet_apps::kubernetes::Kubernetes;
use freshet_apps::oci::{Devices, Oci};
use freshet_base::clock::UnixMillis;
use freshet_base::hexadecimal;
use freshet_documents::problem::Problem;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::places::Places;
use freshet_platform::Issuer;
use freshet_platform::Place;
use freshet_platform::limits::DELIVERIES_MAX;
use freshet_platform::notify::{Notice, Notified, Queue};
use freshet_platform::{Answer, Call, Decision, Platform};
use freshet_radio::observed::Stations;
use freshet_radio::simulator::Simulator;
use packages::Packages;
use room::Elsewhere;
use router::Router;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Where a monitor asks.
const METRICS: &str = "/mec_platform/v1/metrics";
/// How often is looked what is due by time.
const TURN: Duration = Duration::from_millis(250);
/// How often the simulator tells what it has, or the edge router what it sees.
const RADIO_TURN: Duration = Duration::from_secs(1);
/// How often the edge router is asked whether it has our rules: it may have been started anew.
const ROUTER_TURN: Duration = Duration::from_secs(2);

/// A platform whose addresses are bound, and that answers nobody yet.
#[derive(Debug)]
pub struct Bound {
    shared: Arc<Shared>,
    listener: Listener,
    resolver: Option<resolver::Resolver>,
}

#[derive(Debug)]
struct Shared {
    platform: RwLock<Platform>,
    /// Held while something is changed.
    changing: tokio::sync::Mutex<()>,
    router: Router,
    queue: Mutex<Queue>,
    /// Something was put into the queue, or is done.
    moved: Notify,
    courier: deliver::Courier,
    simulator: Option<Mutex<Simulator>>,
    /// Base stations whose clients the edge router tells of.
    stations: Option<Stations>,
    packages: Option<Packages>,
    metrics: metrics::Metrics,
    /// What runs apps.
    driver: Option<Arc<dyn Driver>>,
    /// An operation has begun.
    begun: Notify,
    /// Gateways whose clients' certificates are believed.
    gateways: Vec<IpAddr>,
    /// What gateways rest on, and who waits for another version of it.
    version: watch::Sender<String>,
    watchers: Semaphore,
    /// When this process was made, for rates.
    run_since: Instant,
}

/// Whether a platform could begin with a configuration, as far as that can be said where nothing is touched: what
/// other programs refuse, and what was kept, is seen by the start alone.
///
/// # Errors
/// What is wrong with it, with its place.
pub fn check(mut config: Config) -> Result<(), String> {
    let url = url_of(&config, &config.listen)?;
    let issuer = Issuer::new(&Issuer::new_key(), &url, &config.audience);
    let setup = config.setup(&url, issuer.expect("the key is a new one"))?;
    Platform::new(setup).map(drop)
}

/// Where clients reach the platform that listens there.
fn url_of(config: &Config, listens: &Address) -> Result<String, String> {
    match (&config.url, listens) {
        (Some(url), _) => Ok(url.clone()),
        (None, Address::Tcp(address)) => Ok(format!("http://{address}")),
        (None, Address::Unix(_)) => Err("url: must be there, as `listen` is no address".to_owned()),
    }
}

/// Opens what a configuration says. `url` takes the place of the configuration's, for a port that the
/// kernel chose.
///
/// # Errors
/// What is wrong with it, or what this machine refused, with its place.
pub fn bind(mut config: Config) -> Result<Bound, String> {
    for doubt in config.doubts() {
        tracing::warn!(doubt, "the configuration");
    }
    let listener = Listener::bind(&config.listen, &ListenOptions::default())
        .map_err(|error| format!("listen: {error}"))?;
    let url = url_of(&config, listener.local_address())?;
    let key = key::read_or_create(&config.state)?;
    let issuer = Issuer::new(&key, &url, &config.audience).ok_or_else(|| {
        format!("{}: this is no key for ES256", key::path(&config.state).display())
    })?;
    let elsewhere = config.runtime.as_ref().and_then(|runtime| runtime.elsewhere.clone());
    let setup = config.setup(&url, issuer)?;
    let open = |place: &Place| -> Result<Arc<dyn Driver>, String> {
        Ok(match elsewhere {
            None => Arc::new(Oci::open(&place.apps, Devices::default())?),
            Some(Elsewhere::Cluster(cluster)) => Arc::new(Kubernetes::open(*cluster, &place.apps)?),
            Some(Elsewhere::Hosts(fleet)) => Arc::new(Hosts::open(*fleet)?),
        })
    };
    let driver = setup.place.as_ref().map(open).transpose()?;
    let callbacks = setup.callbacks.clone();
    // What is left of packages that were on their way goes before anything is written: it may be what fills the disk.
    let (platform, packages) =
        Platform::open_after(setup, &config.state.join("journal"), |known| {
            let open = |trust| Packages::open(config.state.join("packages"), trust, known);
            config.packages.map(open).transpose()
        })?;
    let resolver =
        config.dns.map(|dns| resolver::Resolver::bind(dns.listen, dns.upstream)).transpose()?;
    let version = platform.gateway_version();
    let shared = Shared {
        platform: RwLock::new(platform),
        changing: tokio::sync::Mutex::default(),
        router: Router::new(config.router),
        queue: Mutex::default(),
        moved: Notify::new(),
        courier: deliver::Courier::new(callbacks),
        packages,
        metrics: metrics::Metrics::new(&config.objectives),
        driver,
        begun: Notify::new(),
        gateways: config.gateways,
        version: watch::channel(version).0,
        watchers: Semaphore::new(WATCHERS_MAX),
        run_since: Instant::now(),
        stations: config.radio,
        simulator: config.simulator.map(|one| Mutex::new(Simulator::new(one.seed, one.clients))),
    };
    Ok(Bound { shared: Arc::new(shared), listener, resolver })
}

impl Bound {
    /// Where it listens, with the port the kernel chose if 0 was asked for.
    pub fn address(&self) -> &Address {
        self.listener.local_address()
    }

    /// Where the resolver is asked, with the port the kernel chose if 0 was asked for.
    pub fn resolver_address(&self) -> Option<std::net::SocketAddr> {
        self.resolver.as_ref()?.address()
    }

    /// What became of notifications, at any time.
    pub fn notified(&self) -> impl Fn() -> Notified + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.queue().notified
    }

    /// Serves until the process ends, or what `over` waits for happens.
    ///
    /// # Errors
    /// When the runtime cannot be made.
    pub fn run(self, over: impl Future<Output = ()>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let Self { shared, listener, resolver } = self;
            let door = Door::new(listener, Places::new(PATIENCE));
            let service = Axum::new().fallback(answer::answer).with_state(Arc::clone(&shared));
            let serve = axum::serve(door, service.into_make_service_with_connect_info::<PlaceOf>());
            let names = Arc::clone(&shared);
            let resolving = async move {
                match resolver {
                    Some(resolver) => {
                        resolver.run(move |name, is_v6| names.read().resolve(name, is_v6)).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = async { serve.await } => {}
                () = resolving => {}
                () = Arc::clone(&shared).deliver() => {}
                () = Arc::clone(&shared).look_after() => {}
                () = Arc::clone(&shared).keep_router() => {}
                () = Arc::clone(&shared).simulate() => {}
                () = Arc::clone(&shared).observe() => {}
                () = Arc::clone(&shared).live() => {}
                () = over => {}
            }
        });
        Ok(())
    }
}

impl Shared {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Platform> {
        self.platform.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, notices: Vec<Notice>) {
        if notices.is_empty() {
            return;
        }
        let mut queue = self.queue();
        notices.into_iter().for_each(|notice| queue.push(notice));
        self.moved.notify_one();
    }

    /// What is decided on a request, whose client is held to its rate.
    fn judge(&self, call: &Call<'_>, fresh: &str, now_ms: u64) -> Result<Decision, Problem> {
        let platform = self.read();
        let who = platform.identify(call, now_ms);
        let run = self.run_since.elapsed();
        platform.throttle(&who, call, run)?;
        let decision = platform.decide_for(&who, call, fresh, now_ms)?;
        platform.note(call, decision.answer(), run);
        Ok(decision)
    }

    /// What becomes of a request.
    async fn decide(&self, call: &Call<'_>) -> Result<Answer, Problem> {
        let (fresh, now_ms) = (fresh(), UnixMillis::now().0);
        let decision = self.judge(call, &fresh, now_ms)?;
        if decision.is_reading() {
            return Ok(decision.answer().clone());
        }
        let _changing = self.changing.lock().await;
        // What it was decided on may be another by now.
        let decision = self.read().decide(call, &fresh, now_ms)?;
        let before = self.packages.as_ref().map(|packages| (packages, self.read().packages()));
        let answer = self.carry_out(decision).await?;
        if let Some((packages, before)) = before {
            before.difference(&self.read().packages()).for_each(|id| packages.remove(id));
        }
        self.begun.notify_one();
        Ok(answer)
    }

    /// Does what was decided, while nothing else is changed.
    async fn carry_out(&self, decision: Decision) -> Result<Answer, Problem> {
        let path = self.read().packet_path_after(&decision);
        if let Some(path) = path {
            self.router.set(&path).await.map_err(|error| error.problem())?;
        }
        let done = {
            let mut platform = self.platform.write().unwrap_or_else(PoisonError::into_inner);
            let done = platform.commit(decision, UnixMillis::now().0);
            let version = platform.gateway_version();
            self.version.send_if_modified(|known| {
                *known != version && {
                    *known = version;
                    true
                }
            });
            done
        };
        match done {
            Ok((answer, notices)) => {
                self.push(notices);
                Ok(answer)
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot be written");
                // The packet path goes back to what was promised before.
                let path = self.read().packet_path();
                if let Err(error) = self.router.set(&path).await {
                    tracing::error!(%error, "and the edge router has rules that nobody was promised");
                }
                Err(Problem::new(
                    503,
                    "this cannot be written down; the platform's own log says more",
                ))
            }
        }
    }

    /// Does what is due by time.
    async fn look_after(self: Arc<Self>) {
        let mut turns = interval(TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            turns.tick().await;
            let _changing = self.changing.lock().await;
            let due = self.read().due(UnixMillis::now().0);
            if !due.is_reading()
                && let Err(problem) = self.carry_out(due).await
            {
                tracing::warn!(why = problem.detail, "what is due could not be done");
            }
        }
    }

    /// Has the simulator tell what its radio network does.
    async fn simulate(self: Arc<Self>) {
        let Some(simulator) = &self.simulator else { return std::future::pending().await };
        let mut turns = interval(RADIO_TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            turns.tick().await;
            let (radio, others) = {
                let mut simulator = simulator.lock().unwrap_or_else(PoisonError::into_inner);
                (simulator.report(UnixMillis::now().0), simulator.others())
            };
            let _changing = self.changing.lock().await;
            let reports =
                others.into_iter().map(|(feed, report)| self.read().report_of(feed, report));
            let decisions: Vec<_> =
                std::iter::once(self.read().report(radio)).chain(reports).collect();
            for decision in decisions {
                let decision = decision.expect("what the simulator tells is right, and tested");
                if let Err(problem) = self.carry_out(decision).await {
                    tracing::warn!(why = problem.detail, "the simulator's report is lost");
                }
            }
        }
    }

    /// Sees to it that the edge router has the rules.
    async fn keep_router(self: Arc<Self>) {
        // Of what lasts, the beginning is logged.
        let mut failed = false;
        loop {
            if !self.router.has_ours().await {
                let _changing = self.changing.lock().await;
                let path = self.read().packet_path();
                self.router.forget();
                match self.router.set(&path).await {
                    Ok(()) => {
                        failed = false;
                        tracing::info!("the edge router has the traffic rules");
                    }
                    Err(error) if !failed => {
                        failed = true;
                        tracing::warn!(%error, "the edge router has not the traffic rules");
                    }
                    Err(_) => {}
                }
            }
            sleep(ROUTER_TURN).await;
        }
    }

    /// Delivers notifications.
    async fn deliver(self: Arc<Self>) {
        let mut under_way = tokio::task::JoinSet::new();
        loop {
            let now_ms = UnixMillis::now().0;
            let next =
                if under_way.len() < DELIVERIES_MAX { self.queue().next(now_ms) } else { None };
            if let Some(notice) = next {
                let shared = Arc::clone(&self);
                under_way.spawn(async move {
                    let taken = shared.courier.deliver(&notice).await;
                    if let Err(why) = &taken {
                        tracing::debug!(subscription = notice.subscription, why, "not delivered");
                    }
                    shared.queue().done(&notice, taken.is_ok(), UnixMillis::now().0);
                    shared.moved.notify_one();
                });
                continue;
            }
            let wait = self.queue().due_ms().map_or(TURN, |due_ms| {
                Duration::from_millis(due_ms.saturating_sub(now_ms)).min(TURN)
            });
            tokio::select! {
                () = self.moved.notified() => {}
                () = sleep(wait) => {}
            }
            while under_way.try_join_next().is_some() {}
        }
    }
}

/// A name unlike any other: 128 random bits.
fn fresh() -> String {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).expect("the system has randomness");
    hexadecimal::encode(&bytes)
}
