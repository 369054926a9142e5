//! What nodes say of themselves, as far as it is believed: that they have said it, and lately.

use super::link::{FleetError, Link, Report, failed};
use crate::freshness::{Freshness, Nonce};
use crate::identity::{Disbelief, Removed, Statement, Verifier, unverified};
use async_nats::{Message, Subscriber};
use freshet_base::clock::UnixMillis;
use futures_util::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time between two calls while what nodes say is listened to: a process that has begun since, and one that has missed the
/// call, name the next.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// Something that was said in the name of a node.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// By it.
    Report(Box<Report>),
    /// By who knows whom.
    Disbelieved { node: String, why: Disbelief },
}

/// What nodes say from now on: each second, with each entry, and when they are called.
#[derive(Debug)]
pub(super) struct States {
    link: Link,
    heard: Subscriber,
    verifies: Option<Verifies>,
    begun: Instant,
    next_call: Instant,
}

#[derive(Debug)]
struct Verifies {
    by: Arc<Verifier>,
    removed: Removed,
    freshness: Freshness,
}

impl Link {
    /// Begins to listen. Nobody is called before [`CALL_EVERY`] has passed, and where all that is said is believed not then.
    pub(super) async fn states(&self) -> Result<States, FleetError> {
        let heard = async {
            let heard = self.client.subscribe(self.subject("state.*")).await.map_err(failed)?;
            self.client.flush().await.map_err(failed)?;
            Ok::<_, FleetError>(heard)
        };
        let verifies = async {
            let Some(by) = &self.verifier else { return Ok(None) };
            let (by, removed) = (Arc::clone(by), self.removed().await?);
            Ok(Some(Verifies { by, removed, freshness: Freshness::default() }))
        };
        let (heard, verifies) = tokio::try_join!(heard, verifies)?;
        let begun = Instant::now();
        Ok(States { link: self.clone(), heard, verifies, begun, next_call: begun + CALL_EVERY })
    }
}

impl States {
    /// Has all nodes say at once how they are.
    pub(super) async fn call(&mut self) -> Result<(), FleetError> {
        self.next_call = Instant::now() + CALL_EVERY;
        let nonce = Nonce::random().map_err(|_| FleetError::LocalRandom)?;
        self.expect(nonce);
        let Link { client, .. } = &self.link;
        let called = client.publish(self.link.subject("roll"), nonce.to_string().into()).await;
        called.map_err(failed)?;
        client.flush().await.map_err(failed)
    }

    /// What names this nonce, which was sent now, is said lately.
    pub(super) fn expect(&mut self, nonce: Nonce) {
        let now_ms = super::millis(self.begun.elapsed());
        if let Some(verifies) = &mut self.verifies {
            verifies.freshness.sends(nonce, now_ms);
        }
    }

    /// The next thing that is said.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            let calls = async {
                match self.verifies.is_some() {
                    true => sleep_until(self.next_call).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(message) = self.heard.next() => {
                    if let Some(said) = self.read(&message) {
                        return said;
                    }
                }
                () = calls => self.call_again().await,
                else => std::future::pending().await,
            }
        }
    }

    /// The next thing that is said, if it is there already.
    pub(super) fn next_now(&mut self) -> Option<Said> {
        loop {
            let message = self.heard.next().now_or_never()??;
            if let Some(said) = self.read(&message) {
                return Some(said);
            }
        }
    }

    /// Where servers are away it comes later.
    async fn call_again(&mut self) {
        if let Err(error) = self.call().await {
            tracing::debug!(%error, "nodes cannot be called");
        }
        if let Some(verifies) = &mut self.verifies
            && let Ok(removed) = self.link.removed().await
        {
            verifies.removed = removed;
        }
    }

    /// What a node says under its own name, so that servers can keep each to that. What is no report, as of a newer
    /// version, is nothing, and so is what was said before.
    fn read(&mut self, message: &Message) -> Option<Said> {
        let node = message.subject.rsplit('.').next()?;
        let now_ms = super::millis(self.begun.elapsed());
        let said = match &mut self.verifies {
            None => Ok(unverified(&message.payload)),
            Some(verifies) => verifies.believed(node, &message.payload, now_ms),
        };
        match said {
            Ok(said) => {
                let report = serde_json::from_slice::<Report>(said).ok()?;
                (report.node == node).then(|| Said::Report(Box::new(report)))
            }
            Err(Disbelief::Old) => None,
            Err(why) => Some(Said::Disbelieved { node: node.to_owned(), why }),
        }
    }
}

impl Verifies {
    fn believed<'a>(
        &mut self,
        node: &str,
        bytes: &'a [u8],
        now_ms: u64,
    ) -> Result<&'a [u8], Disbelief> {
        let statement = Statement::read(bytes)?;
        let moment = self.freshness.moment(node, statement.number, statement.nonces(), now_ms);
        // First, as it costs least.
        let moment = moment.ok_or(Disbelief::Old)?;
        self.by.verify(node, &statement, &self.removed, UnixMillis::now())?;
        self.freshness.took(node, moment);
        Ok(statement.said)
    }
}
