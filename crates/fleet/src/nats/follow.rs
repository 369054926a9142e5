//! A node that follows the log: a thread of its own with a runtime of its own, so that no worker ever
//! waits for it; and one more that carries entries out, which waits for disks.

use super::configure::{ConfigSettings, Configures, Configuring};
use super::link::{FleetError, Link, LinkSettings, Report, is_name};
use super::renew::{Belongs, Renewing};
use super::upgrade::{Asked, Upgrades, Upgrading, process};
use crate::config::ConfigState;
use crate::entry::{Change, Entry, Place};
use crate::freshness::HeardNonces;
use crate::identity::StatementKey;
use crate::limits::REFUSED_TOLD_MAX;
use crate::member::{Action, Answer, Fence, Member, Settings};
use async_nats::Message;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

/// Time between two reports of a node.
pub(super) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What a node does with what the log says. Called from threads of the follower.
pub trait Acts: Send + Sync + 'static {
    /// How far the log was carried out by what the node's disks have; `None` where they do not know.
    fn restored(&self) -> Option<Place>;

    /// Carries changes out. Returns when they are on all disks, and the disks know of `place`.
    fn apply(&self, changes: &[Change], place: Place);

    /// Puts the fence up or down.
    fn fence(&self, fence: Fence);

    /// How long the fence may be down without a further word: it is to go up by itself then, since a process
    /// that was stopped goes on with its requests before this follower has a turn.
    fn lease(&self, until: UnixMillis) {
        let _ = until;
    }

    /// Uses nothing stored until now without validating it once, and goes on from `place`. `has_lost`
    /// says that the log lost what it had accepted.
    fn distrust(&self, place: Place, has_lost: bool);

    /// Whether these changes are about anything that the node may have: not where all are about sites that it
    /// does not have.
    fn is_meant(&self, changes: &[Change]) -> bool {
        let _ = changes;
        true
    }

    /// How much of what its processors can do the node did since this was asked before, percent.
    fn load_percent(&self) -> Option<u8> {
        None
    }
}

/// Who follows what.
#[derive(Clone, Debug, Default)]
pub struct NodeSettings {
    /// The servers and the fleet.
    pub link: LinkSettings,
    /// The node's name in the fleet.
    pub node: String,
    /// Its version, for reports.
    pub version: String,
}

/// What a node does for its fleet.
pub struct Does {
    /// With the log.
    pub acts: Arc<dyn Acts>,
    /// With the configuration, where it gets it from the fleet.
    pub config: Option<(ConfigSettings, Arc<dyn Configures>)>,
    /// To be upgraded, where it can be.
    pub upgrades: Option<Arc<dyn Upgrades>>,
    /// With the certificate that the fleet's issuer gave it, where it did.
    pub belongs: Option<Arc<dyn Belongs>>,
}

/// A running follower; it ends when it is dropped, and the fence goes up.
pub struct Follower {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What comes back from tasks and from the thread that carries out.
enum Event {
    Answered {
        question: u64,
        answer: Answer,
    },
    /// The log does not answer, for this reason.
    Unanswered {
        why: String,
    },
    Read {
        reading: u64,
        entries: Vec<Entry<Vec<Change>>>,
    },
    Applied {
        turn: u64,
    },
}

/// What is to be carried out.
struct Order {
    turn: u64,
    what: What,
}

enum What {
    Entry(Entry<Vec<Change>>),
    Distrust { at: Place, has_lost: bool },
}

impl Follower {
    /// Begins to follow. A server that is away is waited for, with the fence up.
    ///
    /// # Errors
    /// Names and files that cannot be used, and threads that cannot be had.
    pub fn start(settings: NodeSettings, acts: Arc<dyn Acts>) -> Result<Self, FleetError> {
        Self::start_with(settings, Does { acts, config: None, upgrades: None, belongs: None })
    }

    /// As [`Follower::start`], for a node that gets its configuration from the fleet or can be upgraded by
    /// it besides.
    ///
    /// # Errors
    /// As there, and what the node knew of its configuration, if it cannot be read.
    pub fn start_with(settings: NodeSettings, does: Does) -> Result<Self, FleetError> {
        let acts = Arc::clone(&does.acts);
        if !is_name(&settings.node) {
            return Err(FleetError::ConfigName(settings.node));
        }
        acts.fence(Fence::Raised);
        let (stop, stopped) = oneshot::channel();
        let (started, outcome) = mpsc::sync_channel(1);
        let thread = Builder::new().name("fleet".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(FleetError::LocalThread(error)))),
            };
            runtime.block_on(async move {
                let (events, received) = unbounded_channel();
                let begun = Following::begin(settings, does, events).await;
                let Begun { following, mut configuring, upgrading, mut renewing } = match begun {
                    Ok(begun) => begun,
                    Err(error) => return drop(started.send(Err(error))),
                };
                let _ = started.send(Ok(()));
                let configured = async {
                    match &mut configuring {
                        Some(configuring) => configuring.run().await,
                        None => std::future::pending().await,
                    }
                };
                let upgraded = async {
                    match &upgrading {
                        Some(upgrading) => upgrading.run().await,
                        None => std::future::pending().await,
                    }
                };
                let renewed = async {
                    match &mut renewing {
                        Some(renewing) => renewing.run().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = following.run(received) => {}
                    () = configured => {}
                    () = upgraded => {}
                    () = renewed => {}
                    _ = stopped => {}
                }
                if let Some(configuring) = &mut configuring {
                    configuring.end().await;
                }
            });
            acts.fence(Fence::Raised);
        });
        let thread = Some(thread.map_err(FleetError::LocalThread)?);
        let stopped = || FleetError::LocalThread(std::io::Error::other("it ended at once"));
        outcome.recv().map_err(|_| stopped())??;
        Ok(Self { stop: Some(stop), thread })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Carries orders out one after the other, until nobody gives any.
fn carry_out(ordered: &mpsc::Receiver<Order>, acts: &dyn Acts, applied: &UnboundedSender<Event>) {
    for Order { turn, what } in ordered {
        match what {
            What::Entry(entry) => acts.apply(&entry.changes, entry.place),
            What::Distrust { at, has_lost } => acts.distrust(at, has_lost),
        }
        let _ = applied.send(Event::Applied { turn });
    }
}

struct Following {
    member: Member<Vec<Change>>,
    begun: Instant,
    settings: NodeSettings,
    link: Link,
    acts: Arc<dyn Acts>,
    events: UnboundedSender<Event>,
    orders: mpsc::Sender<Order>,
    /// What reports are signed with.
    key: watch::Receiver<Option<StatementKey>>,
    /// The number of the last report.
    number: u64,
    /// What reports name, to show when they were made.
    nonces: HeardNonces,
    /// How the node's configuration is, for reports.
    config: watch::Receiver<Option<ConfigState>>,
    upgrades: Option<Arc<dyn Upgrades>>,
    /// How the node stands to being upgraded, for reports.
    asked: watch::Receiver<Asked>,
    /// Entries that are not believed, the last [`REFUSED_TOLD_MAX`].
    refused: VecDeque<u64>,
    /// Entries that are about sites of other nodes only, as many.
    not_meant: VecDeque<u64>,
    /// Whether people were told why the log does not answer, since it last did.
    is_told: bool,
    /// Whether the list of nodes has this one, as far as it was told since the log is as it is.
    is_listed: bool,
}

/// What runs beside each other.
struct Begun {
    following: Following,
    configuring: Option<Configuring>,
    upgrading: Option<Upgrading>,
    renewing: Option<Renewing>,
}

impl Following {
    async fn begin(
        settings: NodeSettings,
        does: Does,
        events: UnboundedSender<Event>,
    ) -> Result<Begun, FleetError> {
        let Does { acts, config, upgrades, belongs } = does;
        if let Some((config, _)) = config.as_ref().filter(|(config, _)| !is_name(&config.group)) {
            return Err(FleetError::ConfigName(config.group.clone()));
        }
        let link = Link::connect(&settings.link, true).await?;
        let (orders, ordered) = mpsc::channel();
        let (doing, applied) = (Arc::clone(&acts), events.clone());
        Builder::new()
            .name("fleet-apply".into())
            .spawn(move || carry_out(&ordered, &*doing, &applied))
            .map_err(FleetError::LocalThread)?;
        let member = Member::new(Settings::default(), acts.restored(), 0);
        let (said, state) = watch::channel(None);
        let configuring = config
            .map(|(config, does)| Configuring::new(config, does, &settings.node, &link, said))
            .transpose()?;
        let (stands, asked) = watch::channel(Asked::default());
        let upgrading = upgrades
            .as_ref()
            .map(|does| Upgrading::new(Arc::clone(does), &settings.node, &link, stands));
        let (takes, key) = watch::channel(None);
        let renewing = belongs.map(|belongs| Renewing::new(belongs, &settings.node, &link, takes));
        let begun = Instant::now();
        let following = Self {
            member,
            begun,
            settings,
            link,
            acts,
            events,
            orders,
            key,
            number: 0,
            nonces: HeardNonces::default(),
            config: state,
            upgrades,
            asked,
            refused: VecDeque::new(),
            not_meant: VecDeque::new(),
            is_told: false,
            is_listed: false,
        };
        Ok(Begun { following, configuring, upgrading, renewing })
    }

    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        let lacking = "the fleet's messages cannot be had";
        let mut pushed = self.link.subscribed("pushed", REPORT_EVERY, lacking).await;
        let mut roll = self.link.subscribed("roll", REPORT_EVERY, lacking).await;
        let mut reports = interval(REPORT_EVERY);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Read first: a stop behind it shortens what is left.
            let wall = UnixMillis::now();
            self.member.tick(self.now_ms());
            let left_ms = self.member.lease_left_ms(self.now_ms());
            self.acts.lease(wall.plus(Duration::from_millis(left_ms)));
            self.act().await;
            let due = self.begun + Duration::from_millis(self.member.deadline_ms());
            tokio::select! {
                () = sleep_until(due) => {}
                Some(message) = pushed.next() => {
                    if let Some(entry) = self.link.pushed(&message) {
                        self.member.pushed(entry, self.now_ms());
                    }
                }
                Some(event) = events.recv() => {
                    let now_ms = self.now_ms();
                    match event {
                        Event::Answered { question, answer } => {
                            self.member.answered(question, answer, now_ms);
                            self.is_told = false;
                            if !std::mem::replace(&mut self.is_listed, true) {
                                self.list();
                            }
                        }
                        Event::Unanswered { why } => {
                            if !std::mem::replace(&mut self.is_told, true) {
                                tracing::warn!(error = why, "the fleet's log does not answer");
                            }
                        }
                        Event::Read { reading, entries } => {
                            self.member.read(reading, entries, now_ms);
                        }
                        Event::Applied { turn } => self.member.applied(turn, now_ms),
                    }
                }
                Some(message) = roll.next() => {
                    let mut called = Some(message);
                    // One answer is for all who have called by now.
                    while let Some(message) = called {
                        self.called(&message);
                        called = roll.next().now_or_never().flatten();
                    }
                    self.report().await;
                }
                Ok(()) = self.config.changed() => self.report().await,
                Ok(()) = self.asked.changed() => self.report().await,
                _ = reports.tick() => self.report().await,
            }
        }
    }

    async fn act(&mut self) {
        let mut confirms = false;
        while let Some(action) = self.member.next_action() {
            match action {
                Action::Ask { question } => self.ask(question),
                Action::Read { from, reading } => self.read(from, reading),
                Action::Apply { entry, turn } => {
                    // No change is what an entry has whose author is not believed.
                    let told = match entry.changes.is_empty() {
                        true => Some(&mut self.refused),
                        false if self.acts.is_meant(&entry.changes) => None,
                        false => Some(&mut self.not_meant),
                    };
                    if let Some(told) = told {
                        told.truncate(REFUSED_TOLD_MAX - 1);
                        told.push_front(entry.place.sequence);
                    }
                    let _ = self.orders.send(Order { turn, what: What::Entry(entry) });
                }
                Action::Fence(fence) => self.acts.fence(fence),
                Action::Distrust { at, has_lost, turn } => {
                    // With the log the list may have been lost.
                    self.is_listed = false;
                    let _ = self.orders.send(Order { turn, what: What::Distrust { at, has_lost } });
                }
                Action::Confirm(place) => {
                    self.nonces.hear(place.digest.into(), self.now_ms());
                    confirms = true;
                }
            }
        }
        if confirms {
            self.report().await;
        }
    }

    /// Asks where the log ends. What goes wrong is no answer: the next question comes in a second.
    fn ask(&self, question: u64) {
        let (link, events) = (self.link.clone(), self.events.clone());
        let (settings, is_told) = (self.settings.link.clone(), self.is_told);
        tokio::spawn(async move {
            let _ = events.send(match link.ask().await {
                Ok(answer) => Event::Answered { question, answer },
                Err(error) => {
                    // That it took too long is all that the client itself knows of a server it cannot have.
                    let trouble = match is_told {
                        false => link.trouble(&settings).await,
                        true => None,
                    };
                    Event::Unanswered { why: trouble.unwrap_or_else(|| error.to_string()) }
                }
            });
        });
    }

    fn read(&self, from: u64, reading: u64) {
        let (link, events) = (self.link.clone(), self.events.clone());
        tokio::spawn(async move {
            let entries = link.entries(from).await.unwrap_or_else(|error| {
                tracing::debug!(%error, from, "entries of the log could not be read");
                Vec::new()
            });
            let _ = events.send(Event::Read { reading, entries });
        });
    }

    /// Says to the fleet that the node belongs to it.
    fn list(&self) {
        let (link, node) = (self.link.clone(), self.settings.node.clone());
        tokio::spawn(async move {
            if let Err(error) = link.set_member(&node, true).await {
                tracing::warn!(%error, "the fleet's list of nodes does not have this one");
            }
        });
    }

    fn called(&mut self, message: &Message) {
        let nonce = std::str::from_utf8(&message.payload).ok().and_then(|text| text.parse().ok());
        if let Some(nonce) = nonce {
            self.nonces.hear(nonce, self.now_ms());
        }
    }

    async fn report(&mut self) {
        let Asked { standing, drained } = self.asked.borrow().clone();
        let report = Report {
            load_percent: self.acts.load_percent(),
            node: self.settings.node.clone(),
            sequence: self.member.place().map_or(0, |place| place.sequence),
            fenced: self.member.fence() == Fence::Raised,
            version: self.settings.version.clone(),
            config: self.config.borrow().clone(),
            process: self.upgrades.as_deref().map(process),
            before: self.upgrades.as_deref().and_then(Upgrades::before),
            standing,
            drained,
            refused: self.refused.iter().copied().collect(),
            not_meant: self.not_meant.iter().copied().collect(),
        };
        let bytes = self.signed(serde_json::to_vec(&report).unwrap_or_default());
        let subject = self.link.subject(&format!("state.{}", self.settings.node));
        // While there is no server nobody waits for it either.
        let _ = timeout(REPORT_EVERY, self.link.client.publish(subject, Bytes::from(bytes))).await;
    }

    /// What is said, signed where there is a key. Numbers go on from the clock, for who has heard the process before.
    fn signed(&mut self, said: Vec<u8>) -> Vec<u8> {
        let Some(key) = &*self.key.borrow() else { return said };
        self.number = UnixMillis::now().0.max(self.number + 1);
        let nonces = self.nonces.named(super::millis(self.begun.elapsed()));
        key.sign(self.link.fleet(), self.number, nonces, &said).unwrap_or_else(|error| {
            tracing::error!(%error, "what the node says is not signed");
            said
        })
    }

    fn now_ms(&self) -> u64 {
        super::millis(self.begun.elapsed())
    }
}
