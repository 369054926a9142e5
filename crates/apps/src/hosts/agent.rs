//! A host that runs: it hears what it is to run, does that one thing at a time for each app, and says how apps are.

use super::PackagesFile;
use super::kept::{Kept, Work};
use super::lease::{Lease, Moment};
use super::packages::Packages;
use super::{Act, NatsFile, Order, Orders, Outcome, SHELF, orders_key, report_key};
use crate::disk::said;
use crate::oci::{Devices, Oci};
use crate::{Driver, Health, Spec, Trouble};
use freshet_fleet::nats::{FleetError, Link, LinkSettings, Shelf, is_name};
use freshet_fleet::signature::Saying;
use freshet_package::Trust;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

/// How often a report is sent and orders are read, where nothing says so: what is told may be lost.
const TALK_EVERY: Duration = Duration::from_secs(1);
/// How often is looked what there is to do, where nothing says so.
const TURN: Duration = Duration::from_millis(100);
/// How often an app that runs is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The configuration of a host.
#[derive(Debug)]
pub struct HostConfig {
    name: String,
    state: PathBuf,
    trust: Trust,
    devices: Devices,
    nats: LinkSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    state: PathBuf,
    packages: PackagesFile,
    #[serde(default)]
    accelerators: Devices,
    nats: NatsFile,
}

impl HostConfig {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        if !is_name(&file.name) {
            return Err(format!("name: `{}` must be letters, digits, `-` and `_`", file.name));
        }
        if file.nats.replicas.is_some() {
            return Err("nats.replicas: the platform says that".to_owned());
        }
        file.accelerators.check()?;
        let (nats, trust) = (file.nats.settings("nats")?, file.packages.trust()?);
        Ok(Self { name: file.name, state: file.state, trust, devices: file.accelerators, nats })
    }
}

/// Serves until what `over` waits for happens. Apps run on then. Calls `turned` each time it has looked whether apps
/// may be run and what there is to do for them, some ten times a second.
///
/// # Errors
/// What is wrong with the configuration, or what this machine refused.
pub fn run(
    config: HostConfig,
    turned: impl Fn(),
    over: impl Future<Output = ()>,
) -> Result<(), String> {
    let state = std::path::absolute(&config.state)
        .map_err(|error| format!("state: {}: {error}", config.state.display()))?;
    let say = |error: std::io::Error| said(&state, &error);
    let apps = state.join("apps");
    let driver = Oci::open(&apps, config.devices)?;
    let packages = Packages::open(state.join("packages"), config.trust).map_err(say)?;
    let kept = Mutex::new(Kept::open(&state)?);
    let lease = Mutex::new(Lease::open(&state));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(say)?;
    runtime.block_on(async {
        let link = Link::connect(&config.nats, true).await.map_err(|error| error.to_string())?;
        let agent = Arc::new(Agent {
            name: config.name,
            shelf: link.shelf(SHELF),
            apps,
            driver: Arc::new(driver),
            packages,
            kept,
            lease,
            news: Notify::new(),
            orders: Notify::new(),
        });
        tokio::select! {
            () = agent.talk() => {}
            () = Arc::clone(&agent).work(&turned) => {}
            () = over => {}
        }
        Ok(())
    })
}

struct Agent {
    name: String,
    shelf: Shelf,
    /// Where apps' files are.
    apps: PathBuf,
    driver: Arc<Oci>,
    packages: Packages,
    kept: Mutex<Kept>,
    lease: Mutex<Lease>,
    /// There is something to report.
    news: Notify,
    /// There is something to do.
    orders: Notify,
}

impl Agent {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether apps may not be run now. Where the time is not known, they may not.
    fn is_over(&self) -> bool {
        let lease_ms = self.kept().lease_ms();
        match Moment::now() {
            Ok(now) => self.lease().is_over(lease_ms, &now),
            Err(_) => lease_ms.is_some(),
        }
    }

    /// Says how apps are, and hears what is to be run, for ever.
    async fn talk(&self) {
        let mut told = self.shelf.told(&orders_key(&self.name), TALK_EVERY).await;
        // Of what lasts, the beginning is logged.
        let mut is_away = false;
        loop {
            match self.exchange().await {
                Ok(()) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!("the platform is heard again");
                    }
                }
                Err(why) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(why, "the platform cannot be heard");
                    }
                }
            }
            tokio::select! {
                _ = told.next() => {}
                () = self.news.notified() => {}
                () = sleep(TALK_EVERY) => {}
            }
        }
    }

    /// First a report, then what is to be run: who gives an app of this host to another one takes it from the orders
    /// first, and then looks that no report came.
    async fn exchange(&self) -> Result<(), String> {
        let say = |error: FleetError| error.to_string();
        let began = Moment::now().map_err(|error| error.to_string())?;
        if self.kept().is_deaf() {
            self.hear().await?;
        }
        let report = self.kept().report();
        let report = serde_json::to_vec(&report).map_err(|error| error.to_string())?;
        self.shelf.write(&report_key(&self.name), report, None).await.map_err(say)?;
        self.hear().await?;
        let was_over = self.is_over();
        self.lease().renew(began);
        if was_over && !self.is_over() {
            tracing::info!("the lease is held");
        }
        self.orders.notify_one();
        Ok(())
    }

    /// Takes what is to be run.
    async fn hear(&self) -> Result<(), String> {
        let say = |error: FleetError| error.to_string();
        let document = self.shelf.read(&orders_key(&self.name)).await.map_err(say)?;
        // Where nothing was ever said, nothing is taken away.
        if let Some(document) = document {
            let saying = Saying::Orders { host: &self.name };
            let said = self.shelf.believed(saying, &document.bytes).map_err(say)?;
            let orders: Orders = serde_json::from_slice(said)
                .map_err(|error| format!("orders that this version cannot read: {error}"))?;
            orders.apps.values().try_for_each(Order::check)?;
            self.kept().adopt(orders)?;
        }
        Ok(())
    }

    /// Does what there is to do, for ever.
    async fn work(self: Arc<Self>, turned: &impl Fn()) {
        let mut under_way = JoinSet::new();
        let mut busy = BTreeSet::new();
        let mut looked: BTreeMap<String, Instant> = BTreeMap::new();
        let mut was_over = false;
        loop {
            let is_over = self.is_over();
            if is_over && !std::mem::replace(&mut was_over, is_over) {
                tracing::warn!("the lease is over: apps are ended, as others may have them by now");
            }
            was_over = is_over;
            let works = self.kept().works(is_over);
            for work in works {
                let instance = work.spec().instance.clone();
                let is_due = match &work {
                    Work::Look(_) => looked.get(&instance).is_none_or(|at| at.elapsed() >= LOOK),
                    _ => true,
                };
                if !is_due || !busy.insert(instance.clone()) {
                    continue;
                }
                looked.insert(instance.clone(), Instant::now());
                let agent = Arc::clone(&self);
                under_way.spawn(async move {
                    agent.carry_out(work).await;
                    instance
                });
            }
            turned();
            tokio::select! {
                () = self.orders.notified() => {}
                () = sleep(TURN) => {}
                Some(done) = under_way.join_next() => match done {
                    Ok(instance) => drop(busy.remove(&instance)),
                    Err(error) => tracing::error!(%error, "a task of an app"),
                },
            }
        }
    }

    async fn carry_out(&self, work: Work) {
        let spec = self.here(work.spec());
        let instance = spec.instance.clone();
        match work {
            Work::Act(order) => {
                let done = self.act(order.act, spec).await;
                let (outcome, words) = match done {
                    Ok(Some(ports)) => (Some(Outcome::Done(ports)), String::new()),
                    Ok(None) => (None, String::new()),
                    Err(Trouble::Lasting(why)) => (Some(Outcome::Failed(why)), String::new()),
                    Err(Trouble::Passing(why)) => (None, why),
                };
                let is_over = outcome.is_some();
                self.kept().was_done(&order, outcome, words);
                if is_over {
                    self.news.notify_one();
                }
            }
            Work::Look(_) => {
                let seen = self.blocking(spec, |driver, spec| {
                    driver.shape(spec)?;
                    let health = driver.health(spec)?;
                    let is_gone = health == Health::Gone;
                    Ok((health, if is_gone { driver.last_words(spec) } else { String::new() }))
                });
                match seen.await {
                    Ok((health, words)) => self.kept().was_seen(&instance, health, words),
                    Err(trouble) => {
                        tracing::warn!(instance, why = trouble.why(), "an app cannot be looked at");
                    }
                }
            }
            Work::Leave(_) => match self.blocking(spec, leave).await {
                Ok(false) => {}
                Ok(true) => self.has_left(&instance).await,
                Err(trouble) => {
                    tracing::warn!(instance, why = trouble.why(), "an app is not removed yet");
                    sleep(LOOK).await;
                }
            },
            Work::Fence(_) => {
                match self.blocking(spec, |driver, spec| driver.stop(spec, true)).await {
                    Ok(false) => {}
                    Ok(true) => self.kept().was_fenced(&instance),
                    Err(trouble) => {
                        tracing::error!(instance, why = trouble.why(), "an app is not ended yet");
                    }
                }
            }
        }
    }

    async fn has_left(&self, instance: &str) {
        let written = self.kept().has_left(instance);
        match written {
            Ok(()) => {
                let needed = self.kept().packages();
                self.packages.keep_only(&needed).await;
            }
            Err(error) => {
                tracing::warn!(instance, %error, "that an app is removed is not written down")
            }
        }
    }

    /// The instance with its places on this machine.
    fn here(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        spec.folder = self.apps.join(&spec.instance);
        spec.package.folder = self.packages.place(&spec.package.sha256);
        spec
    }

    /// Carries an order out; gives the ports of an image when it is done.
    async fn act(&self, act: Act, spec: Spec) -> Result<Option<Vec<u16>>, Trouble> {
        // A host whose disk is new has what is to run there, too.
        if matches!(act, Act::Unpack | Act::Start) {
            self.packages.have(&self.shelf, &spec.package.sha256).await?;
        }
        let is_done = |is_done: bool| is_done.then(Vec::new);
        self.blocking(spec, move |driver, spec| match act {
            Act::Unpack => driver.unpack(spec),
            Act::Link => driver.link(spec).map(|()| is_done(true)),
            Act::Start => {
                driver.unpack(spec)?;
                driver.start(spec).map(is_done)
            }
            Act::Stop => driver.stop(spec, false).map(is_done),
            Act::End => driver.stop(spec, true).map(is_done),
            Act::Unlink => driver.unlink(spec).map(|()| is_done(true)),
            Act::Clear => driver.clear(spec).map(|()| is_done(true)),
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        spec: Spec,
        act: impl FnOnce(&Oci, &Spec) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let driver = Arc::clone(&self.driver);
        let done = spawn_blocking(move || act(&driver, &spec)).await;
        done.unwrap_or_else(|_| Err(Trouble::Lasting("the driver panicked".to_owned())))
    }
}

/// Ends an app and removes what there is of it; whether nothing is left.
fn leave(driver: &Oci, spec: &Spec) -> Result<bool, Trouble> {
    if !driver.stop(spec, true)? {
        return Ok(false);
    }
    driver.unlink(spec)?;
    driver.clear(spec)?;
    Ok(true)
}
