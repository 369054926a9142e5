//! A node that gets its configuration from its fleet: what its [`Agent`] decides, done.

use super::link::{FleetError, Link};
use crate::config::{
    Action, Agent, Bundle, ConfigState, Counts, Folder, Memory, Release, Secret, Seen, Unfetched,
    Version,
};
use futures_util::StreamExt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Time between two looks at the group's document. A change is told besides, and what was told may be
/// lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time between two counts.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// What a node does with a configuration. Called from threads that may wait.
pub trait Configures: Send + Sync + 'static {
    /// Takes a version in as a reload does, over nothing but the node's own file where there is none.
    ///
    /// # Errors
    /// Why it does not, for an operator.
    fn apply(&self, version: Option<&Version>) -> Result<(), String>;

    /// What was counted since the start.
    fn counts(&self) -> Counts;

    /// How the node's configuration is from now on, as its fleet hears it too.
    fn said(&self, _state: &ConfigState) {}
}

/// How a node gets its configuration.
#[derive(Clone, Debug)]
pub struct ConfigSettings {
    /// Keeps what it gets.
    pub folder: Folder,
    /// Whose it gets.
    pub group: String,
    /// What it may be chosen by.
    pub labels: Vec<String>,
    /// What bundles are sealed with.
    pub secret: Option<Secret>,
    /// Whether this process took over from one that runs: what that one tries is not to blame.
    pub takes_over: bool,
}

/// What a node says of it; nothing where it does not get it from its fleet.
pub(super) type Said = watch::Sender<Option<ConfigState>>;

pub(super) struct Configuring {
    settings: ConfigSettings,
    does: Arc<dyn Configures>,
    node: String,
    link: Link,
    agent: Agent,
    begun: Instant,
    said: Said,
}

impl Configuring {
    /// # Errors
    /// What the node knew cannot be read.
    pub(super) fn new(
        settings: ConfigSettings,
        does: Arc<dyn Configures>,
        node: &str,
        link: &Link,
        said: Said,
    ) -> Result<Self, FleetError> {
        let memory = settings.folder.memory().map_err(FleetError::ConfigFile)?;
        let agent = Agent::new(memory, !settings.takes_over);
        let mut out = Self {
            settings,
            does,
            node: node.to_owned(),
            link: link.clone(),
            agent,
            begun: Instant::now(),
            said,
        };
        out.say();
        Ok(out)
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(&mut self) {
        let lacking = "changes of the configuration cannot be heard";
        let what = format!("config.{}", self.settings.group);
        let mut told = self.link.subscribed(&what, LOOK_EVERY, lacking).await;
        let (mut looks, mut counts) = (interval(LOOK_EVERY), interval(COUNT_EVERY));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = looks.tick() => self.look().await,
                Some(_) = told.next() => self.look().await,
                _ = counts.tick() => self.agent.counted(self.does.counts(), self.now_ms()),
            }
            self.act().await;
        }
    }

    /// The process is about to end as it was asked to.
    pub(super) async fn end(&mut self) {
        self.agent.ends();
        self.act().await;
    }

    async fn look(&mut self) {
        match self.link.release(&self.settings.group).await {
            // Where nothing was ever said, nothing is taken away.
            Ok(read) if read.revision == 0 => {}
            Ok(read) if self.is_older(&read.release) => {}
            Ok(read) => self.agent.wants(read.release.target(&self.node), self.now_ms()),
            Err(FleetError::Config(why)) => self.agent.cannot_read(&why),
            Err(error @ FleetError::Signature { .. }) => self.agent.cannot_read(&error.to_string()),
            Err(error) => tracing::debug!(%error, "the group's document cannot be had"),
        }
    }

    /// Whether a document is signed, and older than one that was. Without signatures whoever has the servers
    /// says what is new.
    fn is_older(&mut self, release: &Release) -> bool {
        let seen = Seen { group: self.settings.group.clone(), stamp_ms: release.stamp_ms };
        self.link.signers.are_asked_for() && !self.agent.sees(seen)
    }

    async fn act(&mut self) {
        while let Some(action) = self.agent.next_action() {
            match action {
                Action::Fetch(version) => {
                    let outcome = self.fetch(&version).await;
                    match &outcome {
                        Ok(()) => tracing::info!(%version, "a configuration came from the fleet"),
                        Err(Unfetched::Later(why)) => {
                            tracing::warn!(%version, why, "a configuration cannot be had yet");
                        }
                        Err(Unfetched::Never(why)) => {
                            tracing::error!(%version, why, "the fleet's configuration is refused");
                        }
                    }
                    self.agent.fetched(outcome, self.now_ms());
                }
                Action::Try { memory, version } => {
                    let outcome = match self.remember(memory).await {
                        Ok(()) => self.apply(Some(version.clone())).await,
                        Err(error) => Err(format!("it cannot be remembered: {error}")),
                    };
                    match &outcome {
                        Ok(()) => tracing::info!(%version, "the fleet's configuration is tried"),
                        Err(why) => {
                            tracing::error!(%version, "the fleet's configuration is refused: {why}");
                        }
                    }
                    // The rest has lines of what is sealed; the node's log has it.
                    let first = |why: String| why.lines().next().unwrap_or_default().to_owned();
                    self.agent.tried(outcome.map_err(first), self.now_ms());
                }
                Action::Return { memory, version } => {
                    // What the disk has instead says that a version was tried, which is no lie.
                    self.remember_or_say(memory).await;
                    let outcome = self.apply(version.clone()).await;
                    let version = version.map_or_else(
                        || "the node's own file".to_owned(),
                        |version| version.to_string(),
                    );
                    match &outcome {
                        Ok(()) => tracing::warn!(version, "back to the configuration before"),
                        Err(why) => tracing::error!(version, "the node cannot go back: {why}"),
                    }
                    self.agent.returned(outcome, self.now_ms());
                }
                Action::Remember(memory) => self.remember_or_say(memory).await,
                Action::Report => {}
            }
        }
        self.say();
    }

    async fn fetch(&self, version: &Version) -> Result<(), Unfetched> {
        if self.settings.folder.bundle(version).is_dir() {
            return Ok(());
        }
        let later = |error: &dyn std::fmt::Display| Unfetched::Later(error.to_string());
        let kept = self.link.bundle(&version.bundle).await.map_err(|error| later(&error))?;
        let kept = kept.ok_or_else(|| later(&"the fleet's servers do not have it"))?;
        let (settings, version) = (self.settings.clone(), version.clone());
        let unpacked = spawn_blocking(move || {
            let bundle = Bundle::unpack(&version.bundle, kept, settings.secret.as_ref())
                .map_err(|error| Unfetched::Never(error.to_string()))?;
            let unpacked = settings.folder.unpack(&version, &bundle);
            unpacked.map_err(|error| Unfetched::Later(format!("fleet.config: {error}")))
        });
        unpacked.await.map_err(|error| later(&error))?
    }

    async fn apply(&self, version: Option<Version>) -> Result<(), String> {
        let does = Arc::clone(&self.does);
        let applied = spawn_blocking(move || does.apply(version.as_ref()));
        applied.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn remember(&self, memory: Memory) -> io::Result<()> {
        let folder = self.settings.folder.clone();
        let remembered = spawn_blocking(move || folder.remember(&memory));
        remembered.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    async fn remember_or_say(&self, memory: Memory) {
        if let Err(error) = self.remember(memory).await {
            tracing::error!(%error, "what the node keeps of the fleet's configuration is not on disk");
        }
    }

    fn say(&mut self) {
        let Memory { kept, trying, refused, .. } = self.agent.memory().clone();
        let state = ConfigState {
            group: self.settings.group.clone(),
            labels: self.settings.labels.clone(),
            kept,
            trying,
            refused: refused.into_iter().next(),
            problem: self.agent.problem().map(str::to_owned),
        };
        let is_news = self.said.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&state);
            *known = Some(state.clone());
            is_news
        });
        if is_news {
            self.does.said(&state);
        }
    }

    fn now_ms(&self) -> u64 {
        super::millis(self.begun.elapsed())
    }
}
