//! Does what there is to do for app instances: one thing at a time for each, on threads that may wait, and
//! what came of it is decided and journalled before the next.

use super::Shared;
use crate::limits::{END_MS_MAX, FETCH_MS_MAX};
use freshet_apps::limits::AWAY_MS_MAX;
use freshet_apps::{Driver, Health, Trouble};
use freshet_base::clock::UnixMillis;
use freshet_platform::{Found, Step, Task, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
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
    /// It could not be seen to the last time, and that was logged.
    is_unseen: bool,
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
                let found = judge(&work, found, &mut looked);
                let is_waiting = found == Ok(Found::NotYet);
                self.conclude(&work, &found).await;
                busy.remove(&work.instance);
                if is_waiting {
                    sleep(TURN).await;
                }
            }
            self.note_away(driver.away());
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
                    let panicked = |_| Err(Trouble::Lasting("the driver panicked".to_owned()));
                    (work, done.await.unwrap_or_else(panicked))
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

    /// Has nothing placed on hosts that nothing can be run on now.
    fn note_away(&self, away: BTreeSet<String>) {
        if self.read().away() != Some(&away) {
            self.platform.write().unwrap_or_else(PoisonError::into_inner).set_away(away);
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

/// What came of something: of a look, after those before; and what cannot be done now is done later, for a
/// while.
fn judge(
    work: &Work,
    found: Result<Seen, Trouble>,
    looked: &mut BTreeMap<String, Looked>,
) -> Result<Found, String> {
    match found {
        Ok(Seen::Found(found)) => {
            if found != Found::NotYet {
                looked.remove(&work.instance);
            }
            Ok(found)
        }
        Ok(Seen::Health(health)) => {
            let one = looked.entry(work.instance.clone()).or_default();
            one.is_unseen = false;
            one.silent = if health == Health::Silent { one.silent + 1 } else { 0 };
            match health {
                Health::Up => Ok(Found::Done),
                Health::Coming => Ok(Found::NotYet),
                Health::Silent if work.is_starting || one.silent < SILENT_MAX => Ok(Found::NotYet),
                Health::Silent => {
                    one.silent = 0;
                    Err("it takes no connections any more".to_owned())
                }
                Health::Gone => Err("its process is over".to_owned()),
                Health::Lost => Ok(Found::Lost),
            }
        }
        Err(trouble) => {
            let is_later = match work.task {
                // Nobody knows that it is not as it was.
                Task::Look => true,
                Task::Restart => matches!(trouble, Trouble::Passing(_)),
                Task::Step(_) => {
                    matches!(trouble, Trouble::Passing(_)) && work.since_ms < AWAY_MS_MAX
                }
            };
            let why = trouble.why();
            if !is_later {
                return Err(why.to_owned());
            }
            let one = looked.entry(work.instance.clone()).or_default();
            if !std::mem::replace(&mut one.is_unseen, true) {
                tracing::warn!(instance = work.instance, why, "is seen to later");
            }
            Ok(Found::NotYet)
        }
    }
}

/// Whether it is time for it.
fn is_due(work: &Work, looked: &mut BTreeMap<String, Looked>) -> bool {
    let one = looked.entry(work.instance.clone()).or_default();
    if work.task != Task::Look {
        (one.at, one.silent) = (None, 0);
        return true;
    }
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

fn act(driver: &dyn Driver, work: &Work, is_drained: bool) -> Result<Seen, Trouble> {
    let spec = &work.spec;
    let done = |is_done: bool| if is_done { Found::Done } else { Found::NotYet };
    let late = |most_ms: u64, what: &str| {
        Trouble::Lasting(format!("{what} within {} s: {}", most_ms / 1000, driver.last_words(spec)))
    };
    let found = match work.task {
        Task::Look => {
            // Who cannot be asked now is said of by what comes next.
            if let Err(Trouble::Lasting(why)) = driver.shape(spec) {
                tracing::warn!(instance = work.instance, why, "is not held to what it may send");
            }
            return driver.health(spec).map(Seen::Health);
        }
        Task::Restart => match driver.stop(spec, true)? {
            // What comes of it is looked at.
            true => driver.start(spec).map(|_| Found::Done),
            false => Ok(Found::NotYet),
        },
        Task::Step(Step::Unpack) => match driver.unpack(spec)? {
            Some(ports) => Ok(Found::Ports(ports)),
            None if work.since_ms >= FETCH_MS_MAX => {
                Err(late(FETCH_MS_MAX, "its image was not there"))
            }
            None => Ok(Found::NotYet),
        },
        // What is placed is decided by whoever writes it down.
        Task::Step(Step::Place) => Ok(Found::Done),
        Task::Step(Step::Link) => driver.link(spec).map(|()| Found::Done),
        Task::Step(Step::Start) => match driver.start(spec)? {
            false if work.since_ms >= FETCH_MS_MAX => {
                Err(late(FETCH_MS_MAX, "the app did not run"))
            }
            is_done => Ok(done(is_done)),
        },
        Task::Step(Step::Answer) => match driver.shape(spec).and_then(|()| driver.health(spec))? {
            Health::Up => Ok(Found::Done),
            Health::Silent | Health::Coming => Ok(Found::NotYet),
            Health::Gone => {
                Err(Trouble::Lasting(format!("the app ended at once: {}", driver.last_words(spec))))
            }
            Health::Lost => Err(Trouble::Lasting(format!("its host {} is lost", spec.host))),
        },
        Task::Step(Step::Leave) => Ok(Found::Done),
        Task::Step(Step::Drain) => Ok(done(is_drained)),
        Task::Step(Step::Stop) => match driver.stop(spec, work.is_forced)? {
            false if work.since_ms >= END_MS_MAX => Err(late(END_MS_MAX, "the app has not ended")),
            is_done => Ok(done(is_done)),
        },
        Task::Step(Step::Unlink) => driver.unlink(spec).map(|()| Found::Done),
        Task::Step(Step::Clear) => driver.clear(spec).map(|()| Found::Done),
    };
    found.map(Seen::Found)
}
