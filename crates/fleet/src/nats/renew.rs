//! A node that sees to its own certificate.

use super::identity::renew;
use super::link::{FleetError, Link};
use crate::identity::{Facts, Identity, Removed, StatementKey};
use freshet_base::clock::UnixMillis;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Time between two looks at the clock, which may be put right, and at the file, which may be replaced.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The same where certificates hold for less than hours.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);

/// What a node does with its certificate, and with those of others. Called from threads that may wait.
pub trait Belongs: Send + Sync + 'static {
    /// The machine's folder.
    fn identity(&self) -> &Identity;

    /// There is a later certificate.
    fn renewed(&self);

    /// Takes no certificates of these nodes any more.
    fn refuse(&self, removed: &Removed);
}

/// What the node signs with what it says of itself; nothing where it has nothing to sign with.
pub(super) type KeySender = watch::Sender<Option<StatementKey>>;

/// Asks for a later certificate in time, and hears who was removed.
pub(super) struct Renewing {
    belongs: Arc<dyn Belongs>,
    node: String,
    link: Link,
    key: KeySender,
    removed: Removed,
    /// Whether people were told that there is none, since there last was.
    is_told: bool,
}

impl Renewing {
    /// What the node knew when it last ran holds at once.
    pub(super) fn new(belongs: Arc<dyn Belongs>, node: &str, link: &Link, key: KeySender) -> Self {
        let removed = belongs.identity().known_removed();
        belongs.refuse(&removed);
        let (node, link) = (node.to_owned(), link.clone());
        let out = Self { belongs, node, link, key, removed, is_told: false };
        out.take_key();
        out
    }

    /// Signs from now on with what the folder has, whoever has put it there.
    fn take_key(&self) {
        let key = match self.belongs.identity().statement_key() {
            Ok(key) => key,
            Err(error) => return tracing::error!(%error, "the node cannot sign what it says"),
        };
        let is_its = key.is_of(self.link.fleet(), &self.node);
        let is_new = self.key.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&key);
            *known = Some(key);
            is_new
        });
        if is_new && !is_its {
            tracing::error!(
                node = self.node,
                "the certificate in fleet.identity is for another name: nobody believes what this node says of itself"
            );
        }
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(&mut self) {
        let mut told = self.link.removed_told().await;
        loop {
            self.see_who_was_removed().await;
            let pause = match self.see_to_it().await {
                Ok(facts) => {
                    self.is_told = false;
                    pause(&facts)
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_told, true) {
                        tracing::warn!(%error, "the node has no later certificate yet, and asks again");
                    }
                    self.belongs.identity().facts().map_or(LOOK_EVERY, |facts| pause(&facts))
                }
            };
            self.take_key();
            tokio::select! {
                () = sleep(pause) => {}
                _ = told.next() => {}
            }
        }
    }

    /// Where servers do not answer it stays as it was.
    async fn see_who_was_removed(&mut self) {
        let removed = match self.link.removed().await {
            Ok(removed) if removed != self.removed => removed,
            Ok(_) => return,
            Err(error) => return tracing::debug!(%error, "who was removed is not known"),
        };
        let (belongs, known) = (Arc::clone(&self.belongs), removed.clone());
        let kept = spawn_blocking(move || {
            belongs.refuse(&known);
            belongs.identity().know_removed(&known)
        });
        match kept.await {
            Ok(Ok(())) | Err(_) => self.removed = removed,
            Ok(Err(error)) => tracing::error!(%error, "who was removed is not kept"),
        }
    }

    /// Renews where it is time to. What the certificate says then.
    async fn see_to_it(&self) -> Result<Facts, FleetError> {
        let identity = self.belongs.identity();
        let facts = identity.facts()?;
        if UnixMillis::now() < facts.renewal() {
            return Ok(facts);
        }
        let facts = renew(&self.link, identity).await?;
        tracing::info!(until = %facts.until, "the node's certificate of the fleet was renewed");
        let belongs = Arc::clone(&self.belongs);
        let _ = spawn_blocking(move || belongs.renewed()).await;
        Ok(facts)
    }
}

fn pause(facts: &Facts) -> Duration {
    (facts.until.since(facts.from) / 100).clamp(LOOK_EVERY_MIN, LOOK_EVERY)
}
