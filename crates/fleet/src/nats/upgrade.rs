//! The word to hand over to the program that is installed: given by who sees to an upgrade, and obeyed.

use super::follow::REPORT_EVERY;
use super::link::{FleetError, Link, Report};
use crate::config::{Counts, reason};
use crate::signature::Saying;
use crate::upgrade::{Ask, HandOver, NO_PROGRAM, Order, Process, Program, Said, Stage, Standing};
use async_nats::Subscriber;
use futures_util::StreamExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Sleep;

/// Why a node stays that was told to.
const TAKEN_BACK: &str = "the upgrade was taken back before it had handed over";

/// What a node does to be upgraded. Called from threads that may wait.
pub trait Upgrades: Send + Sync + 'static {
    /// The version of the program that is installed, which is not always the one that runs.
    ///
    /// # Errors
    /// There is none that can be run, for an operator.
    fn installed(&self) -> Result<String, String>;

    /// The version of the program that ran before this one, where this process keeps it.
    fn before(&self) -> Option<String>;

    /// Hands over to a program. Once the new process serves, this one follows the fleet no more, and nobody waits
    /// for the answer.
    ///
    /// # Errors
    /// Why the node goes on as before.
    fn hand_over(&self, program: Program) -> Result<(), String>;

    /// What was counted since the start.
    fn counts(&self) -> Counts;

    /// When this process began, in milliseconds since 1970.
    fn began_ms(&self) -> u64;
}

/// What a node says of what it was asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// How it stands to an upgrade; nothing before.
    pub(super) standing: Option<Standing>,
    /// Whether it was told to want no new clients.
    pub(super) drained: bool,
}

/// A node that may be asked.
pub(super) struct Upgrading {
    does: Arc<dyn Upgrades>,
    node: String,
    link: Link,
    stands: watch::Sender<Asked>,
}

impl Upgrading {
    pub(super) fn new(
        does: Arc<dyn Upgrades>,
        node: &str,
        link: &Link,
        stands: watch::Sender<Asked>,
    ) -> Self {
        Self { does, node: node.to_owned(), link: link.clone(), stands }
    }

    /// Obeys one word after the other, until it is dropped.
    pub(super) async fn run(&self) {
        let lacking = "words of upgrading cannot be heard";
        let mut words =
            self.link.subscribed(&format!("upgrade.{}", self.node), REPORT_EVERY, lacking).await;
        while let Some(ask) = self.next(&mut words).await {
            match &ask.order {
                Order::HandOver(how) => self.hand_over(ask.id, how, &mut words).await,
                Order::Stay { .. } => self.stays(ask.id, TAKEN_BACK),
                Order::Drain { drains } => self.drains(*drains),
            }
        }
    }

    fn drains(&self, drains: bool) {
        let is_new = self
            .stands
            .send_if_modified(|asked| std::mem::replace(&mut asked.drained, drains) != drains);
        if is_new {
            tracing::info!(drains, "told by the fleet whether to want new clients");
        }
    }

    /// The next word that is meant for this process.
    async fn next(&self, words: &mut Subscriber) -> Option<Ask> {
        loop {
            let message = words.next().await?;
            let said = self.link.believed(Saying::Upgrade { node: &self.node }, &message.payload);
            let said = said.map_err(|error| error.to_string());
            let read = |said: &[u8]| serde_json::from_slice::<Ask>(said);
            match said.and_then(|said| read(said).map_err(|error| error.to_string())) {
                Ok(ask) if self.is_meant(&ask) => return Some(ask),
                Ok(_) => {}
                Err(error) => tracing::warn!(error, "a word of upgrading is not obeyed"),
            }
        }
    }

    /// Words may come twice, and late: to a process that has come of the one that was meant.
    fn is_meant(&self, ask: &Ask) -> bool {
        let known = self.stands.borrow().standing.as_ref().map(|standing| standing.ask);
        ask.process == self.does.began_ms() && known != Some(ask.id)
    }

    fn stands(&self, ask: u64, stage: Stage) {
        self.stands.send_modify(|asked| asked.standing = Some(Standing { ask, stage }));
    }

    fn stays(&self, ask: u64, why: &str) {
        tracing::error!(why, "asked by the fleet to upgrade; this process goes on");
        self.stands(ask, Stage::Stays(reason(why)));
    }

    async fn hand_over(&self, ask: u64, how: &HandOver, words: &mut Subscriber) {
        let (program, drain_ms) = (how.program, how.drain_ms());
        let version = match self.version_of(program).await {
            Ok(version) => version,
            Err(why) => return self.stays(ask, &why),
        };
        if let Some(to) = how.to.as_ref().filter(|to| **to != version) {
            let which = match program {
                Program::Installed => "is installed on its machine",
                Program::Before => "ran before",
            };
            return self.stays(ask, &format!("{version} {which}, not {to}"));
        }
        tracing::info!(version, ?program, drain_ms, "asked by the fleet to upgrade");
        self.stands(ask, Stage::Leaves);
        let leaves = tokio::time::sleep(Duration::from_millis(drain_ms));
        if let Some(stay) = self.told_to_stay(leaves, words).await {
            return self.stays(stay.id, TAKEN_BACK);
        }
        self.stands(ask, Stage::HandsOver);
        let does = Arc::clone(&self.does);
        let handed = spawn_blocking(move || does.hand_over(program)).await;
        if let Err(why) = handed.unwrap_or_else(|error| Err(error.to_string())) {
            self.stays(ask, &why);
        }
    }

    /// The version of a program.
    ///
    /// # Errors
    /// There is none to hand over to, for an operator.
    async fn version_of(&self, program: Program) -> Result<String, String> {
        let does = Arc::clone(&self.does);
        match program {
            Program::Installed => spawn_blocking(move || does.installed())
                .await
                .unwrap_or_else(|error| Err(error.to_string())),
            Program::Before => does.before().ok_or_else(|| NO_PROGRAM.to_owned()),
        }
    }

    /// The word that takes one back, if it comes while the node leaves.
    async fn told_to_stay(&self, leaves: Sleep, words: &mut Subscriber) -> Option<Ask> {
        let mut leaves = pin!(leaves);
        loop {
            tokio::select! {
                () = &mut leaves => return None,
                ask = self.next(words) => match ask {
                    Some(ask) if matches!(ask.order, Order::Stay { .. }) => return Some(ask),
                    Some(_) => {}
                    None => {
                        leaves.await;
                        return None;
                    }
                },
            }
        }
    }
}

impl Link {
    /// Gives a node a word, of upgrading or of draining. It may be lost: what the node reports says whether it has heard it.
    ///
    /// # Errors
    /// No server.
    pub async fn ask_to_upgrade(&self, node: &str, ask: &Ask) -> Result<(), FleetError> {
        let failed = |error: &dyn std::fmt::Display| FleetError::Server(error.to_string());
        let bytes = serde_json::to_vec(ask).map_err(|error| failed(&error))?;
        let bytes = self.signed(Saying::Upgrade { node }, bytes);
        let subject = self.subject(&format!("upgrade.{node}"));
        let sent = self.client.publish(subject, bytes.into()).await;
        sent.map_err(|error| failed(&error))?;
        self.client.flush().await.map_err(|error| failed(&error))
    }
}

impl Report {
    /// What matters of it to an upgrade.
    pub fn said(&self) -> Said<'_> {
        Said {
            node: &self.node,
            version: &self.version,
            is_fenced: self.fenced,
            process: self.process,
            before: self.before.as_deref(),
            standing: self.standing.as_ref(),
        }
    }

    /// Whether the node is about to hand over.
    pub fn hands_over(&self) -> bool {
        let stage = self.standing.as_ref().map(|standing| &standing.stage);
        matches!(stage, Some(Stage::Leaves | Stage::HandsOver))
    }

    /// Whether the node wants no new clients, as it is drained or about to hand over.
    pub fn leaves(&self) -> bool {
        self.drained || self.hands_over()
    }
}

/// Which process this is.
pub(super) fn process(does: &dyn Upgrades) -> Process {
    Process { began_ms: does.began_ms(), counts: does.counts() }
}
