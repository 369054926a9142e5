//! What hosts are told and have said.

use super::Fleet;
use crate::hosts::{
    Act, DOCUMENT_BYTES_MAX, Order, Orders, Outcome, Report, SHELF, Standing, orders_key,
    report_key,
};
use crate::{Health, Package, Spec, Trouble};
use freshet_base::clock::UnixMillis;
use freshet_fleet::nats::{FleetError, Link, Shelf};
use freshet_fleet::signature::Saying;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// How often reports are read, where nothing says so: what is told may be lost.
const READ_EVERY: Duration = Duration::from_secs(1);
/// A host that says nothing for so long is not asked to do anything.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How many reports in a row the last of a lease may have been late.
const LEASES: u32 = 2;

#[derive(Debug)]
pub(super) struct View {
    shelf: Shelf,
    fleet: Fleet,
    /// Hosts of the configuration, and those that apps are on.
    said: Mutex<BTreeMap<String, Said>>,
    /// What each host is told, and its revision; held while that is changed.
    told: tokio::sync::Mutex<BTreeMap<String, (Orders, u64)>>,
    /// Orders whose failure was told: who asks for the same again wants it done again.
    failed: Mutex<BTreeMap<String, u64>>,
    /// Another report came.
    news: watch::Sender<u64>,
}

/// What a host says.
#[derive(Clone, Debug)]
struct Said {
    report: Report,
    revision: u64,
    /// When this report was seen first; counted from there, a lease is over later than for the host.
    since: Instant,
    /// When the servers said last that there is no later one.
    read: Instant,
}

impl Said {
    fn silence(&self) -> Duration {
        self.read.saturating_duration_since(self.since)
    }

    /// Whether the host has ended its apps by now, or will hear before it runs any that it has them no more.
    fn is_lost(&self) -> bool {
        let lease = self.report.lease_ms.map(Duration::from_millis);
        lease.is_some_and(|lease| self.silence() >= lease * LEASES)
    }
}

fn away(error: FleetError) -> Trouble {
    match error {
        FleetError::Full(_) => Trouble::Lasting(error.to_string()),
        _ => Trouble::Passing(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    pub(super) async fn connect(fleet: Fleet) -> Result<Self, FleetError> {
        let link = Link::connect(&fleet.nats, true).await?;
        Ok(Self {
            shelf: link.shelf(SHELF),
            fleet,
            said: Mutex::default(),
            told: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
            news: watch::channel(0).0,
        })
    }

    /// Reads reports, for ever.
    pub(super) async fn watch(&self) {
        let mut told = self.shelf.told(&report_key("*"), READ_EVERY).await;
        // Of what lasts, the beginning is logged.
        let (mut is_away, mut is_made, mut silent) = (false, false, BTreeSet::new());
        loop {
            match self.look(&mut is_made).await {
                Ok(()) => is_away = false,
                Err(error) => {
                    is_made = false;
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "hosts cannot be heard over the servers of NATS");
                    }
                }
            }
            let now = if is_away { silent.clone() } else { self.away() };
            for host in now.difference(&silent) {
                tracing::warn!(host, "a host says nothing");
            }
            for host in silent.difference(&now) {
                tracing::info!(host, "a host is there");
            }
            silent = now;
            let until = Instant::now() + READ_EVERY;
            // Reports that come meanwhile are read as they do.
            while let Ok(key) = timeout_at(until, told.next()).await {
                if let Some((host, _)) = key.split_once('.')
                    && let Err(error) = self.read(host).await
                {
                    tracing::debug!(host, %error, "a report cannot be read");
                }
            }
        }
    }

    async fn look(&self, is_made: &mut bool) -> Result<(), FleetError> {
        if !*is_made {
            self.shelf.make(self.fleet.replicas).await?;
            *is_made = true;
        }
        let mut hosts = self.fleet.hosts.clone();
        hosts.extend(lock(&self.said).keys().cloned());
        for host in hosts {
            self.read(&host).await?;
        }
        self.tell_lease().await
    }

    /// Reads the last report of a host.
    async fn read(&self, host: &str) -> Result<(), FleetError> {
        let began = Instant::now();
        let Some(document) = self.shelf.read(&report_key(host)).await? else { return Ok(()) };
        let mut said = lock(&self.said);
        if let Some(said) = said.get_mut(host).filter(|one| one.revision == document.revision) {
            said.read = began;
            return Ok(());
        }
        let report = serde_json::from_slice(&document.bytes);
        let report: Report = report.map_err(|error| {
            FleetError::Server(format!("a report of {host} that this version cannot read: {error}"))
        })?;
        let now = Instant::now();
        let one = Said { report, revision: document.revision, since: now, read: now };
        said.insert(host.to_owned(), one);
        self.news.send_modify(|news| *news += 1);
        Ok(())
    }

    /// Has hosts know the lease that is configured.
    async fn tell_lease(&self) -> Result<(), FleetError> {
        let lease_ms = self.lease_ms();
        for host in &self.fleet.hosts {
            let mut told = self.told.lock().await;
            let (orders, _) = self.orders(&mut told, host).await?;
            if orders.lease_ms != lease_ms {
                let mut orders = orders.clone();
                orders.lease_ms = lease_ms;
                orders.last = next(orders.last);
                self.tell(&mut told, host, orders).await?;
            }
        }
        Ok(())
    }

    fn lease_ms(&self) -> Option<u64> {
        self.fleet.move_after_ms.map(|after_ms| after_ms / u64::from(LEASES))
    }

    /// What a host is told, as the servers have it.
    async fn orders<'a>(
        &self,
        told: &'a mut BTreeMap<String, (Orders, u64)>,
        host: &str,
    ) -> Result<&'a (Orders, u64), FleetError> {
        if !told.contains_key(host) {
            let found = match self.shelf.read(&orders_key(host)).await? {
                None => (Orders::default(), 0),
                Some(document) => {
                    let saying = Saying::Orders { host };
                    let said = self.shelf.believed(saying, &document.bytes)?;
                    let orders = serde_json::from_slice(said);
                    let orders = orders.map_err(|error| FleetError::Server(error.to_string()))?;
                    (orders, document.revision)
                }
            };
            told.insert(host.to_owned(), found);
        }
        Ok(&told[host])
    }

    /// Tells a host something else.
    async fn tell(
        &self,
        told: &mut BTreeMap<String, (Orders, u64)>,
        host: &str,
        orders: Orders,
    ) -> Result<(), FleetError> {
        let text = serde_json::to_vec(&orders).expect("orders are plain data");
        let text = self.shelf.signed(Saying::Orders { host }, text);
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(FleetError::Full(format!("{host} has as many apps as it can be told of")));
        }
        // Whether it was written is not known until it is: it is read again otherwise.
        let after = told.remove(host).map_or(0, |(_, revision)| revision);
        let revision = self.shelf.write(&orders_key(host), text, Some(after)).await?;
        told.insert(host.to_owned(), (orders, revision));
        Ok(())
    }

    /// Has a host do something, and waits for a while; nothing where it is not done yet.
    pub(super) async fn order(
        &self,
        spec: &Spec,
        act: Act,
        patience: Duration,
    ) -> Result<Option<Outcome>, Trouble> {
        let number = self.ordered(spec, act).await.map_err(away)?;
        let mut news = self.news.subscribe();
        let done = timeout(patience, async {
            loop {
                if let Some(outcome) = self.outcome(spec, number) {
                    return outcome;
                }
                // It does not end while this is there.
                let _ = news.changed().await;
            }
        });
        match done.await {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Failed(_)) {
                    lock(&self.failed).insert(spec.instance.clone(), number);
                }
                Ok(Some(outcome))
            }
            Err(_) => self.is_heard(&spec.host).map(|()| None),
        }
    }

    /// Sees to it that the last order for an instance is this one; its number.
    async fn ordered(&self, spec: &Spec, act: Act) -> Result<u64, FleetError> {
        let mut told = self.told.lock().await;
        let (orders, _) = self.orders(&mut told, &spec.host).await?;
        let wanted = portable(spec);
        if let Some(order) = orders.apps.get(&spec.instance) {
            let was_told = lock(&self.failed).get(&spec.instance) == Some(&order.number);
            if order.act == act && order.spec == wanted && !was_told {
                return Ok(order.number);
            }
        }
        let mut orders = orders.clone();
        let number = next(orders.last);
        orders.last = number;
        orders.lease_ms = self.lease_ms();
        orders.apps.insert(spec.instance.clone(), Order { number, act, spec: wanted });
        self.tell(&mut told, &spec.host, orders).await?;
        Ok(number)
    }

    /// Has a host know what an instance that runs there may have, and run it where it was not told to.
    pub(super) async fn keep(&self, spec: &Spec) -> Result<(), Trouble> {
        let mut told = self.told.lock().await;
        let (orders, _) = self.orders(&mut told, &spec.host).await.map_err(away)?;
        let wanted = portable(spec);
        if orders.apps.get(&spec.instance).is_some_and(|order| order.spec == wanted) {
            return Ok(());
        }
        if !orders.apps.contains_key(&spec.instance) {
            self.bring(&spec.package).await?;
        }
        let mut orders = orders.clone();
        orders.last = next(orders.last);
        let number = orders.last;
        let order = orders.apps.entry(spec.instance.clone());
        let order =
            order.or_insert_with(|| Order { number, act: Act::Start, spec: wanted.clone() });
        order.spec = wanted;
        self.tell(&mut told, &spec.host, orders).await.map_err(away)
    }

    /// Tells a host of an instance no more.
    pub(super) async fn forget(&self, spec: &Spec) -> Result<(), Trouble> {
        let mut told = self.told.lock().await;
        let (orders, _) = self.orders(&mut told, &spec.host).await.map_err(away)?;
        if !orders.apps.contains_key(&spec.instance) {
            return Ok(());
        }
        let mut orders = orders.clone();
        orders.apps.remove(&spec.instance);
        orders.last = next(orders.last);
        self.tell(&mut told, &spec.host, orders).await.map_err(away)?;
        lock(&self.failed).remove(&spec.instance);
        let sha256 = &spec.package.sha256;
        let is_of = |order: &Order| order.spec.package.sha256 == *sha256;
        if !told.values().any(|(orders, _)| orders.apps.values().any(is_of)) {
            // Who needs it later brings it again.
            let _ = self.shelf.remove_file(sha256).await;
        }
        Ok(())
    }

    /// Whether a host is not told of an instance, and says that it has nothing of it.
    pub(super) async fn is_forgotten(&self, spec: &Spec) -> Result<bool, Trouble> {
        let mut told = self.told.lock().await;
        let (orders, _) = self.orders(&mut told, &spec.host).await.map_err(away)?;
        let is_told = orders.apps.contains_key(&spec.instance);
        Ok(!is_told && (self.is_lost(&spec.host) || self.standing(spec).is_none()))
    }

    /// Takes an instance from a host that is lost; whether it is, and nothing of the instance runs there.
    pub(super) async fn give_up(&self, spec: &Spec) -> Result<bool, Trouble> {
        let host = spec.host.as_str();
        if !self.is_lost(host) {
            return Ok(false);
        }
        self.forget(spec).await?;
        // In this order: a host that comes back says so first, and then reads that it has it no more.
        self.read(host).await.map_err(away)?;
        Ok(self.is_lost(host))
    }

    /// Sees to it that the servers have a package.
    pub(super) async fn bring(&self, package: &Package) -> Result<(), Trouble> {
        let path = package.folder.join(Package::ARCHIVE);
        let say = |error: std::io::Error| Trouble::Lasting(format!("{}: {error}", path.display()));
        let mut file = tokio::fs::File::open(&path).await.map_err(say)?;
        let bytes = file.metadata().await.map_err(say)?.len();
        self.shelf.put_file(&package.sha256, bytes, &mut file).await.map_err(away)
    }

    /// How an instance is that is to run.
    pub(super) async fn health(&self, spec: &Spec) -> Result<Health, Trouble> {
        let is_known = lock(&self.said).contains_key(&spec.host);
        if !is_known {
            self.read(&spec.host).await.map_err(away)?;
        }
        if self.is_lost(&spec.host) || !self.fleet.hosts.contains(&spec.host) {
            return Ok(Health::Lost);
        }
        self.is_heard(&spec.host)?;
        let mut told = self.told.lock().await;
        let (orders, _) = self.orders(&mut told, &spec.host).await.map_err(away)?;
        let number = orders.apps.get(&spec.instance).map(|order| order.number);
        // What is said of an order before says nothing of this one.
        let standing = self.standing(spec).filter(|standing| Some(standing.number) == number);
        Ok(standing.map_or(Health::Coming, |standing| standing.health))
    }

    /// What a host says last of an instance.
    pub(super) fn words(&self, spec: &Spec) -> Option<String> {
        self.standing(spec).map(|standing| standing.words).filter(|words| !words.is_empty())
    }

    /// Hosts of the configuration that say nothing, or never have.
    pub(super) fn away(&self) -> BTreeSet<String> {
        let hosts = self.fleet.hosts.iter();
        hosts.filter(|host| self.is_heard(host).is_err()).cloned().collect()
    }

    fn standing(&self, spec: &Spec) -> Option<Standing> {
        lock(&self.said).get(&spec.host)?.report.apps.get(&spec.instance).cloned()
    }

    fn outcome(&self, spec: &Spec, number: u64) -> Option<Outcome> {
        self.standing(spec).filter(|standing| standing.number == number)?.outcome
    }

    /// Whether a host is there.
    fn is_heard(&self, host: &str) -> Result<(), Trouble> {
        let said = lock(&self.said);
        let passing = |what: String| Err(Trouble::Passing(what));
        match said.get(host) {
            None => passing(format!("the host {host} has never said anything")),
            Some(said) if said.read.elapsed() > SILENCE_MAX => {
                passing("hosts cannot be heard over the servers of NATS".to_owned())
            }
            Some(said) if said.silence() > SILENCE_MAX => {
                passing(format!("the host {host} says nothing for {} s", said.silence().as_secs()))
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether a host has ended its apps: by its lease, or by the word of the operator, whose configuration it is
    /// in no more, where it is silent.
    fn is_lost(&self, host: &str) -> bool {
        let said = lock(&self.said);
        said.get(host).is_some_and(|said| {
            let is_given_up = !self.fleet.hosts.contains(host) && said.silence() > SILENCE_MAX;
            is_given_up || said.is_lost()
        })
    }
}

/// A number after another one, also after one that this process does not know of.
fn next(last: u64) -> u64 {
    UnixMillis::now().0.max(last + 1)
}

/// What of an instance is not of this machine.
fn portable(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    spec.folder = Default::default();
    spec.package.folder = Default::default();
    spec
}
