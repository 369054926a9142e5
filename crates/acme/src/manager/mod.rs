//! Keeps certificates for the names of a plan.

mod asked;

use crate::certificate::{self, Facts};
use crate::client::Client;
use crate::demand::{Demand, Verdict};
use crate::error::{AcmeError, FailureKind};
use crate::jose::AccountKey;
use crate::limits::ORDER_WITHIN;
use crate::messages::RenewalInfo;
use crate::order::{Work, show};
use crate::plan::Plan;
use crate::schedule::{pause, renewal_s, within};
use crate::state::{Journal, State};
use crate::status::{NameStatus, Status};
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

/// How often a process that does not have the state directory asks for it.
const LOCK_EVERY: Duration = Duration::from_secs(1);
/// Longest sleep: a clock that was set is noticed by then.
const SLEEP_MAX: Duration = Duration::from_secs(600);
/// How often renewal information is asked for, where the authority does not say (RFC 9773 §4.3.2).
const SUGGESTION_EVERY: Duration = Duration::from_secs(6 * 3600);
/// Bounds of what it says.
const SUGGESTION_MIN: Duration = Duration::from_secs(60);
const SUGGESTION_MAX: Duration = Duration::from_secs(86_400);

/// Certificates for the names of a plan, before anything is ordered.
pub struct Manager {
    plan: Plan,
    state: State,
    store: Arc<CertificateStore>,
    status: Arc<Status>,
    entries: BTreeMap<String, Entry>,
    client: Option<Client>,
    /// What clients wait for.
    demand: Arc<Demand>,
    unanswered: LogLimit,
    /// Nothing is asked of the authority before: it could not be reached, or wants to rest.
    hold_until_ms: i64,
}

/// One name.
#[derive(Default)]
struct Entry {
    facts: Option<Facts>,
    due_ms: i64,
    /// When the authority is asked what it suggests.
    suggestion_due_ms: i64,
    failures: u32,
    error: Option<(FailureKind, String)>,
    /// Whether it is here because a client asked for it.
    is_on_demand: bool,
}

enum Command {
    Plan(Box<Plan>),
    Renew(Vec<String>),
    /// Clients wait for a certificate for this name.
    Wanted(String),
    /// What the operator's service says of it.
    Answered(String, Verdict),
    Pause(std::sync::mpsc::SyncSender<()>),
    Resume,
}

/// A manager at work, in a thread of its own. Dropping it ends it; what is under way goes on at the
/// next start.
pub struct Running {
    commands: Option<UnboundedSender<Command>>,
    status: Arc<Status>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// How it goes.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Follows another plan from here on.
    ///
    /// # Errors
    /// What is wrong with it; the old one is followed then.
    pub fn follow(&self, plan: Plan) -> Result<(), AcmeError> {
        plan.check()?;
        self.tell(Command::Plan(Box::new(plan)));
        Ok(())
    }

    /// Renews the certificates for these names now, or all for none. Returns how many of them there
    /// are.
    pub fn renew(&self, names: &[String]) -> usize {
        let known = self.status.names();
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let names: Vec<_> = known.into_iter().map(|(name, _)| name).filter(wanted).collect();
        let count = names.len();
        self.tell(Command::Renew(names));
        count
    }

    /// Does nothing until [`Running::resume`], and returns when nothing is under way: another process
    /// may read the state directory then, and answers what the authority asks.
    pub fn pause(&self) {
        let (done, told) = std::sync::mpsc::sync_channel(1);
        self.tell(Command::Pause(done));
        // A thread that is gone does nothing either.
        let _ = told.recv();
    }

    /// Goes on.
    pub fn resume(&self) {
        self.tell(Command::Resume);
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Manager {
    /// Reads the state directory: certificates that are there are served by `store` from here on, and
    /// what was being proved still is.
    ///
    /// # Errors
    /// The plan cannot be followed, or the state directory not be used.
    pub fn open(plan: Plan, store: &Arc<CertificateStore>) -> Result<Self, AcmeError> {
        plan.check()?;
        let state = State::open(&plan.state)?;
        let mut manager = Self::new(plan, state, Arc::clone(store), Arc::default());
        manager.read_names();
        manager.show_again();
        Ok(manager)
    }

    /// One that knows of no names.
    fn new(plan: Plan, state: State, store: Arc<CertificateStore>, status: Arc<Status>) -> Self {
        Self {
            plan,
            state,
            store,
            status,
            entries: BTreeMap::new(),
            client: None,
            // Nobody waits before it is at work.
            demand: Arc::new(Demand::new(|_| {})),
            unanswered: LogLimit::new(),
            hold_until_ms: 0,
        }
    }

    /// How it goes.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// There is none left.
    pub fn start(mut self) -> Result<Running, AcmeError> {
        let no_thread = |error: std::io::Error| {
            AcmeError::new(FailureKind::Storage, format!("no thread for certificates: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let (commands, received) = unbounded_channel();
        let status = Arc::clone(&self.status);
        // It is to end when nobody but clients would tell it anything.
        let told = commands.downgrade();
        self.demand = Arc::new(Demand::new(move |name| {
            if let Some(commands) = told.upgrade() {
                let _ = commands.send(Command::Wanted(name));
            }
        }));
        // Before the first client comes.
        self.offer();
        let Self { plan, state, store, entries, demand, .. } = self;
        let kept = Arc::clone(&status);
        let thread = Builder::new().name("acme".into()).spawn(move || {
            // Made here: a client stays in its thread.
            let manager = Self { entries, demand, ..Self::new(plan, state, store, kept) };
            runtime.block_on(manager.run(received));
            // A name server that hangs keeps nobody from ending.
            runtime.shutdown_background();
        });
        let thread = Some(thread.map_err(no_thread)?);
        Ok(Running { commands: Some(commands), status, thread })
    }

    async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        let mut lock: Option<File> = None;
        let mut backlog = VecDeque::new();
        // Names that the operator's service is asked about.
        let mut asking = FuturesUnordered::new();
        let (mut is_paused, mut has_said_waiting) = (false, false);
        loop {
            while let Some(command) = backlog.pop_front() {
                match command {
                    Command::Plan(plan) => self.replace(*plan),
                    Command::Renew(names) => self.make_due(&names),
                    Command::Pause(done) => {
                        // The process that takes over may order.
                        (is_paused, lock) = (true, None);
                        self.demand.release();
                        let _ = done.send(());
                    }
                    Command::Resume => is_paused = false,
                    Command::Wanted(name) if lock.is_some() => {
                        if let Some(service) = self.wanted(&name) {
                            asking.push(async move { (service.ask(&name).await, name) });
                        }
                    }
                    // The process that orders has it sooner.
                    Command::Wanted(name) => self.refuse(&name, LOCK_EVERY),
                    Command::Answered(name, verdict) => self.answered(&name, verdict),
                }
            }
            if lock.is_none() && !is_paused {
                lock = self.state.lock().unwrap_or_else(|error| {
                    tracing::error!(%error, "no certificates are ordered: {}", error.kind.cure());
                    None
                });
                if lock.is_some() {
                    // As the process before has left it.
                    self.read_names();
                } else if !has_said_waiting {
                    has_said_waiting = true;
                    let state = self.plan.state.display();
                    tracing::info!(%state, "another process orders certificates: this one waits");
                }
            }
            let now_ms = now_ms();
            let (next, due_ms) = match &lock {
                Some(_) if !is_paused => self.next(),
                Some(_) => (None, i64::MAX),
                None => (None, now_ms + millis(LOCK_EVERY)),
            };
            if due_ms <= now_ms
                && let Some(next) = next
            {
                let mut doing = std::pin::pin!(self.act(next));
                loop {
                    tokio::select! {
                        biased;
                        command = commands.recv() => match command {
                            None => return,
                            // What is under way goes on where its journal says.
                            Some(command @ Command::Pause(_)) => {
                                backlog.push_back(command);
                                break;
                            }
                            Some(command) => backlog.push_back(command),
                        },
                        Some((verdict, name)) = asking.next() => {
                            backlog.push_back(Command::Answered(name, verdict));
                        }
                        () = &mut doing => break,
                    }
                }
                continue;
            }
            let wait = due_ms.saturating_sub(now_ms).max(1);
            let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(1));
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(command) => backlog.push_back(command),
                },
                Some((verdict, name)) = asking.next() => {
                    backlog.push_back(Command::Answered(name, verdict));
                }
                () = sleep(wait.min(SLEEP_MAX)) => {}
            }
        }
    }

    /// What is to be done next, and when.
    fn next(&self) -> (Option<Next>, i64) {
        let tasks = self.entries.iter().flat_map(|(name, entry)| {
            let order = (entry.due_ms, Next::Order(name.clone()));
            let has_id = entry.facts.as_ref().is_some_and(|facts| facts.renewal_id.is_some());
            let ask = has_id.then(|| (entry.suggestion_due_ms, Next::Ask(name.clone())));
            std::iter::once(order).chain(ask)
        });
        match tasks.min_by_key(|(due_ms, _)| *due_ms) {
            Some((due_ms, next)) => (Some(next), due_ms.max(self.hold_until_ms)),
            None => (None, i64::MAX),
        }
    }

    async fn act(&mut self, next: Next) {
        match next {
            Next::Order(name) => self.order(&name).await,
            Next::Ask(name) => self.ask(&name).await,
        }
        self.publish();
    }

    async fn order(&mut self, name: &str) {
        if !self.may_renew(name).await {
            return;
        }
        self.status.attempts.fetch_add(1, Relaxed);
        let mut journal = self.state.journal(name).ok().flatten().unwrap_or_default();
        let outcome = self.attempt(name, &mut journal).await;
        if let Some(token) = &journal.token {
            self.store.challenges().remove(token, name);
        }
        let now_ms = now_ms();
        match outcome {
            Ok(facts) => {
                self.status.obtained.fetch_add(1, Relaxed);
                let days = (facts.until_s - now_ms / 1000) / 86_400;
                tracing::info!(name, days, "a certificate came and is served");
                let due_ms = renewal_s(facts.from_s, facts.until_s, chance()).saturating_mul(1000);
                let facts = Some(facts);
                let is_on_demand = self.entries.get(name).is_some_and(|entry| entry.is_on_demand);
                let entry = Entry {
                    facts,
                    due_ms,
                    suggestion_due_ms: now_ms,
                    is_on_demand,
                    ..Entry::default()
                };
                self.entries.insert(name.to_owned(), entry);
                self.serve();
                self.demand.provided(name);
            }
            Err(error) => self.failed(name, &mut journal, error, now_ms),
        }
    }

    async fn attempt(&mut self, name: &str, journal: &mut Journal) -> Result<Facts, AcmeError> {
        let before = self.entries.get(name).and_then(|entry| entry.facts.as_ref());
        let replaces = before.and_then(|facts| facts.renewal_id.clone());
        let mut client = match self.client.take() {
            Some(client) => client,
            None => client_of(&self.plan, &self.state)?,
        };
        let (plan, state) = (&self.plan, &self.state);
        let challenges = self.store.challenges();
        let mut work = Work { plan, state, client: &mut client, challenges };
        let outcome = timeout(ORDER_WITHIN, work.obtain(name, journal, replaces.as_deref())).await;
        let outcome = outcome.unwrap_or_else(|_| {
            let message = format!("no end within {} s: it goes on later", ORDER_WITHIN.as_secs());
            Err(AcmeError::new(FailureKind::Server, message))
        });
        if outcome.is_err() {
            client.forget();
        }
        self.client = Some(client);
        outcome
    }

    fn failed(&mut self, name: &str, journal: &mut Journal, error: AcmeError, now_ms: i64) {
        self.status.failed(error.kind);
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.failures = entry.failures.max(journal.failures).saturating_add(1);
        let pace = self.plan.pace;
        let wait = pause(pace, error.kind, entry.failures, error.retry_after, chance());
        entry.due_ms = now_ms.saturating_add(millis(wait));
        entry.error = Some((error.kind, error.message.clone()));
        let is_of_all = matches!(error.kind, FailureKind::Network | FailureKind::Server);
        if is_of_all || error.kind == FailureKind::RateLimited {
            // The others would fare no better now.
            let rest = if is_of_all { wait } else { pace.first };
            self.hold_until_ms = now_ms.saturating_add(millis(rest));
        }
        journal.failures = entry.failures;
        journal.not_before_ms = entry.due_ms;
        journal.error = Some((error.kind.as_str().to_owned(), error.message.clone()));
        is_written(self.state.set_journal(name, journal));
        let (due_ms, is_without) = (entry.due_ms, entry.facts.is_none());
        let again_s = (due_ms - now_ms) / 1000;
        tracing::warn!(name, again_s, kind = error.kind.as_str(), %error,
            "no certificate came: {}", error.kind.cure());
        if is_without {
            self.demand.refused(name, due_ms.unsigned_abs());
            if self.entries.get(name).is_some_and(|entry| entry.is_on_demand) {
                self.let_go(name);
            }
        }
    }

    /// Asks what the authority suggests for a renewal (RFC 9773). Where it says nothing, what was
    /// decided before holds.
    async fn ask(&mut self, name: &str) {
        let now_ms = now_ms();
        let id = self.entries.get(name).and_then(|entry| entry.facts.as_ref()?.renewal_id.clone());
        let client = self.client.take().map_or_else(|| client_of(&self.plan, &self.state), Ok);
        let Ok(mut client) = client else { return };
        let said = suggestion(&mut client, &id.unwrap_or_default()).await;
        self.client = Some(client);
        let floor_ms =
            obtained_ms(&self.state, name).saturating_add(millis(self.plan.pace.between_renewals));
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.suggestion_due_ms = now_ms + millis(SUGGESTION_EVERY);
        match said {
            Ok((window, again)) => {
                if let Some(again) = again {
                    let again = again.clamp(SUGGESTION_MIN, SUGGESTION_MAX);
                    entry.suggestion_due_ms = now_ms + millis(again);
                }
                // A renewal that fails keeps its pauses.
                if let Some(at_s) = window.filter(|_| entry.failures == 0) {
                    let latest_s = entry.facts.as_ref().map_or(at_s, |facts| facts.until_s);
                    entry.due_ms = at_s.min(latest_s).saturating_mul(1000).max(floor_ms);
                }
            }
            Err(error) => tracing::debug!(name, %error, "no suggestion for a renewal"),
        }
    }

    fn replace(&mut self, plan: Plan) {
        let is_other = plan.directory != self.plan.directory
            || plan.ca != self.plan.ca
            || plan.state != self.plan.state;
        if is_other {
            self.client = None;
            self.hold_until_ms = 0;
        }
        if plan.state != self.plan.state {
            let state = plan.state.display();
            tracing::warn!(%state, "acme.state has changed; that takes effect with a restart");
        }
        self.plan = Plan { state: self.plan.state.clone(), ..plan };
        self.read_names();
        self.demand.release();
        self.offer();
    }

    fn make_due(&mut self, names: &[String]) {
        for name in names {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.due_ms = 0;
            }
        }
        self.hold_until_ms = 0;
    }

    /// What is in the state directory for each name.
    fn read_names(&mut self) {
        let on_demand = match self.plan.on_demand {
            Some(_) => self.state.on_demand().unwrap_or_else(|error| {
                tracing::error!(%error, "what clients have asked for cannot be read");
                Vec::new()
            }),
            None => Vec::new(),
        };
        let read = |name: String, is_on_demand| {
            let entry = Entry { is_on_demand, ..read_entry(&self.state, &name) };
            (name, entry)
        };
        let asked = on_demand.into_iter().map(|name| read(name, true));
        // What is listed is not on demand any more.
        let listed = self.plan.names.iter().map(|name| read(name.clone(), false));
        self.entries =
            asked.chain(listed).filter(|(name, _)| !self.store.has_configured(name)).collect();
        self.serve();
        self.publish();
    }

    /// Serves what there is.
    fn serve(&self) {
        let there = self.entries.iter().filter(|(_, entry)| entry.facts.is_some());
        let sources: Vec<_> = there
            .map(|(name, _)| {
                let path = self.state.certificate_path(name);
                let (certificate, key) = (path.clone(), path);
                CertificateSource { certificate, key, ocsp: None, names: vec![name.clone()] }
            })
            .collect();
        for error in self.store.manage(&sources).err().into_iter().flatten() {
            tracing::error!(%error, "a certificate of the state directory cannot be served");
        }
    }

    /// Shows again what was being proved when the process before ended, or gave way to this one.
    fn show_again(&self) {
        let token_of = |name: &String| {
            let journal = self.state.journal(name).ok().flatten()?;
            journal.token.filter(|_| journal.order.is_some())
        };
        let under_way = self.entries.keys().filter_map(|name| Some((name, token_of(name)?)));
        for (name, token) in under_way {
            let shown = client_of(&self.plan, &self.state)
                .and_then(|client| show(&client, self.store.challenges(), name, &token));
            if let Err(error) = shown {
                tracing::warn!(name, %error, "what was being proved cannot be shown again");
            }
        }
    }

    fn publish(&self) {
        let of = |entry: &Entry| NameStatus {
            validity_s: entry.facts.as_ref().map(|facts| (facts.from_s, facts.until_s)),
            due_s: entry.due_ms / 1000,
            failures: entry.failures,
            error: entry.error.clone(),
        };
        self.status.set(self.entries.iter().map(|(name, one)| (name.clone(), of(one))).collect());
    }
}

/// Whether the state directory could be written; the log has why not.
fn is_written(written: Result<(), AcmeError>) -> bool {
    if let Err(error) = &written {
        tracing::error!(%error, "the state directory cannot be written");
    }
    written.is_ok()
}

enum Next {
    Order(String),
    Ask(String),
}

/// The client of a plan's account; its key is made where there is none.
fn client_of(plan: &Plan, state: &State) -> Result<Client, AcmeError> {
    let key = match state.account_key(&plan.directory)? {
        Some(bytes) => AccountKey::read(&bytes)?,
        None => {
            let (key, bytes) = AccountKey::generate()?;
            state.set_account_key(&plan.directory, &bytes)?;
            key
        }
    };
    let account = state.account(&plan.directory)?;
    Ok(Client::new(&plan.directory, plan.ca.clone(), key, account))
}

fn read_entry(state: &State, name: &str) -> Entry {
    let journal = state.journal(name).ok().flatten().unwrap_or_default();
    let text = state.certificate(name).ok().flatten();
    // An expired one is served until its successor comes: clients say then what is wrong.
    let facts = text.and_then(|text| match certificate::check(&text, &text, name, i64::MIN) {
        Ok((facts, _)) => Some(facts),
        Err(error) => {
            tracing::warn!(name, %error, "what is in the state directory is not used");
            None
        }
    });
    let due_s = facts.as_ref().map_or(0, |one| renewal_s(one.from_s, one.until_s, chance()));
    let due_ms = due_s.saturating_mul(1000);
    let is_under_way = journal.order.is_some();
    Entry {
        due_ms: if is_under_way {
            journal.not_before_ms
        } else {
            due_ms.max(journal.not_before_ms)
        },
        facts,
        suggestion_due_ms: 0,
        is_on_demand: false,
        failures: journal.failures,
        error: journal.error.and_then(|(kind, message)| {
            let known = FailureKind::ALL.into_iter().find(|known| known.as_str() == kind);
            known.map(|kind| (kind, message))
        }),
    }
}

/// When its file was written, milliseconds of Unix time.
fn obtained_ms(state: &State, name: &str) -> i64 {
    let written = fs::metadata(state.certificate_path(name)).and_then(|found| found.modified());
    let since = written.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, millis)
}

fn now_ms() -> i64 {
    i64::try_from(UnixMillis::now().0).unwrap_or(i64::MAX)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A moment of the window that the authority suggests, where it does, and when to ask again.
async fn suggestion(
    client: &mut Client,
    id: &str,
) -> Result<(Option<i64>, Option<Duration>), AcmeError> {
    let Some(base) = client.directory().await?.renewal_info else { return Ok((None, None)) };
    let answer = client.get(&format!("{}/{id}", base.trim_end_matches('/'))).await?;
    let info: RenewalInfo = answer.json("renewal information")?;
    let window = info.suggested_window;
    Ok((within(&window.start, &window.end, chance()), answer.retry_after))
}

/// From 0 to 1, so that nodes do not all do the same at once.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness everything is in the middle.
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}
