//! Does what there is to do for app instances: one thing at a time for each, on threads that may wait, and
//! what came of it is decided and journalled before the next.

use super::Shared;
use crate::life::{Found, Step, Task, Work};
use crate::runtime::{Driver, Health};
use freshet_base::clock::UnixMillis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

/// How often is looked what there is to do, where nothing says so.
const TURN: Duration = Duration::from_millis(20);
/// As well, where no operation is under way.
const IDLE_TURN: Duration = Duration::from_millis(250);
/// How often an app that runs is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a row at which an app took no connection, after which it counts as ended.
const SILENT_MAX: u32 = 5;

/// Looks at apps that run, by instance.
#[derive(Default)]
struct Looked {
    at: Option<Instant>,
    silent: u32,
}

impl Shared {
    /// Does what there is to do, for as long as the platform runs.
    pub(super) async fn live(self: Arc<Self>) {
        let Some(driver) = &self.driver else { return std::future::pending().await };
        let mut under_way = JoinSet::new();
        let mut busy = BTreeSet::new();
        let mut looked: BTreeMap<String, Looked> = BTreeMap::new();
        let mut over = None;
        loop {
            if let Some(Ok((work, found))) = over.take() {
                let is_waiting = matches!(found, Ok(Seen::Found(Found::NotYet)));
                let found = judge(&work, found, &mut looked);
                self.conclude(&work, &found).await;
                busy.remove(&work.instance);
                if is_waiting {
                    sleep(TURN).await;
                }
            }
            let works = self.read().works(UnixMillis::now().0);
            let is_idle = works.iter().all(|work| work.task == Task::Look);
            for work in works {
                if busy.contains(&work.instance) || !is_due(&work, &mut looked) {
                    continue;
                }
                busy.insert(work.instance.clone());
                let driver = Arc::clone(driver);
                let shared = Arc::clone(&self);
                under_way.spawn(async move {
                    let is_drained = shared.is_drained(&work).await;
                    let for_driver = work.clone();
                    let done = spawn_blocking(move || act(&*driver, &for_driver, is_drained));
                    (work, done.await.unwrap_or_else(|_| Err("the driver panicked".to_owned())))
                });
            }
            let wait = if is_idle && under_way.is_empty() { IDLE_TURN } else { TURN };
            tokio::select! {
                () = self.begun.notified() => {}
                () = sleep(wait) => {}
                Some(done) = under_way.join_next() => over = Some(done),
            }
        }
    }

    /// Whether an app that is to end may: it has said so or had its time, and no connection is kept with it any
    /// more that began with it.
    async fn is_drained(&self, work: &Work) -> bool {
        if work.task != Task::Step(Step::Drain) {
            return false;
        }
        let has_ended = self.read().is_drained(&work.instance);
        has_ended && (work.is_forced || self.router.is_quiet(&work.instance, work.since_ms).await)
    }

    /// Writes down what came of something; what cannot be is done again.
    async fn conclude(&self, work: &Work, found: &Result<Found, String>) {
        let _changing = self.changing.lock().await;
        let decision = self.read().worked(work, found, UnixMillis::now().0);
        if decision.is_reading() {
            return;
        }
        let Err(problem) = self.carry_out(decision).await else { return };
        let why = Err(problem.detail);
        let decision = self.read().worked(work, &why, UnixMillis::now().0);
        if let Err(problem) = self.carry_out(decision).await {
            tracing::error!(instance = work.instance, why = problem.detail, "is not written down");
        }
    }
}

/// What a look means, after those before.
fn judge(
    work: &Work,
    found: Result<Seen, String>,
    looked: &mut BTreeMap<String, Looked>,
) -> Result<Found, String> {
    match found? {
        Seen::Found(found) => Ok(found),
        Seen::Health(health) => {
            let one = looked.entry(work.instance.clone()).or_default();
            one.silent = if health == Health::Silent { one.silent + 1 } else { 0 };
            match health {
                Health::Up => Ok(Found::Done),
                Health::Silent if work.is_starting || one.silent < SILENT_MAX => Ok(Found::NotYet),
                Health::Silent => {
                    one.silent = 0;
                    Err("it takes no connections any more".to_owned())
                }
                Health::Gone => Err("its process is over".to_owned()),
            }
        }
    }
}

/// Whether it is time for it.
fn is_due(work: &Work, looked: &mut BTreeMap<String, Looked>) -> bool {
    if work.task != Task::Look {
        looked.remove(&work.instance);
        return true;
    }
    let one = looked.entry(work.instance.clone()).or_default();
    let is_due = one.at.is_none_or(|at| at.elapsed() >= LOOK);
    if is_due {
        one.at = Some(Instant::now());
    }
    is_due
}

/// What a driver has to say.
enum Seen {
    Found(Found),
    Health(Health),
}

fn act(driver: &dyn Driver, work: &Work, is_drained: bool) -> Result<Seen, String> {
    let spec = &work.spec;
    let done = |is_done: bool| if is_done { Found::Done } else { Found::NotYet };
    let found = match work.task {
        Task::Look => {
            if let Err(why) = driver.shape(spec) {
                tracing::warn!(instance = work.instance, why, "is not held to what it may send");
            }
            return driver.health(spec).map(Seen::Health);
        }
        Task::Restart => {
            driver.stop(spec, true)?;
            driver.start(spec).map(|()| Found::Done)
        }
        Task::Step(Step::Unpack) => driver.unpack(spec).map(Found::Ports),
        Task::Step(Step::Link) => driver.link(spec).map(|()| Found::Done),
        Task::Step(Step::Start) => driver.start(spec).map(|()| Found::Done),
        Task::Step(Step::Answer) => match driver.shape(spec).and_then(|()| driver.health(spec))? {
            Health::Up => Ok(Found::Done),
            Health::Silent => Ok(Found::NotYet),
            Health::Gone => Err(format!("the app ended at once: {}", driver.last_words(spec))),
        },
        Task::Step(Step::Leave) => Ok(Found::Done),
        Task::Step(Step::Drain) => Ok(done(is_drained)),
        Task::Step(Step::Stop) => driver.stop(spec, work.is_forced).map(done),
        Task::Step(Step::Unlink) => driver.unlink(spec).map(|()| Found::Done),
        Task::Step(Step::Clear) => driver.clear(spec).map(|()| Found::Done),
    };
    found.map(Seen::Found)
}
