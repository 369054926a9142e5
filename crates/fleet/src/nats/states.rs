//! What nodes say of themselves, as far as it is believed: that they have said it, and lately.

use super::link::{FleetError, Link, Report, failed};
use crate::freshness::{Freshness, Moment, Nonce};
use crate::identity::{Disbelief, Removed, Statement, Verifier, unverified};
use async_nats::{Message, Subscriber};
use freshet_base::clock::UnixMillis;
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Time between two calls while what nodes say is listened to: a process that has begun since, and one that has missed the
/// call, name the next.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// What is verified at once where more has come: enough that waking a thread for it costs little beside it.
const BATCH_MAX: usize = 16;

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
    /// What is to be given next.
    ready: VecDeque<Said>,
    begun: Instant,
    next_call: Instant,
}

/// How what is heard is verified: beside this thread, which has more to read meanwhile.
#[derive(Debug)]
struct Verifies {
    by: Arc<Verifier>,
    removed: Arc<Removed>,
    freshness: Freshness,
    under_way: JoinSet<Vec<Verified>>,
    under_way_max: usize,
}

/// What a node has said, and when.
struct Verified {
    node: String,
    moment: Option<Moment>,
    said: Result<Option<Box<Report>>, Disbelief>,
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
            Ok(Some(Verifies {
                by: Arc::clone(by),
                removed: Arc::new(self.removed().await?),
                freshness: Freshness::default(),
                under_way: JoinSet::new(),
                under_way_max: available_parallelism().map_or(1, NonZero::get),
            }))
        };
        let (heard, verifies) = tokio::try_join!(heard, verifies)?;
        let (begun, ready) = (Instant::now(), VecDeque::new());
        let next_call = begun + CALL_EVERY;
        Ok(States { link: self.clone(), heard, verifies, ready, begun, next_call })
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
            self.read_all();
            if let Some(said) = self.ready.pop_front() {
                return said;
            }
            let Self { heard, verifies, next_call, .. } = self;
            let (has_room, calls_at) = match verifies {
                Some(verifies) => (verifies.has_room(), Some(*next_call)),
                None => (true, None),
            };
            let verified = async {
                match verifies {
                    Some(Verifies { under_way, .. }) if !under_way.is_empty() => {
                        under_way.join_next().await
                    }
                    _ => std::future::pending().await,
                }
            };
            let calls = async {
                match calls_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(message) = heard.next(), if has_room => self.read(message),
                Some(verified) = verified => self.take(verified.unwrap_or_default()),
                () = calls => self.call_again().await,
                else => std::future::pending().await,
            }
        }
    }

    /// The next thing that is said, if it is there already.
    pub(super) fn next_now(&mut self) -> Option<Said> {
        self.read_all();
        self.ready.pop_front()
    }

    /// Reads all that has come, as far as there is room to verify it.
    fn read_all(&mut self) {
        loop {
            while let Some(verifies) = &mut self.verifies
                && let Some(verified) = verifies.under_way.try_join_next()
            {
                self.take(verified.unwrap_or_default());
            }
            if self.verifies.as_ref().is_some_and(|verifies| !verifies.has_room()) {
                return;
            }
            match self.heard.next().now_or_never().flatten() {
                Some(message) => self.read(message),
                None => return,
            }
        }
    }

    /// Reads a message and what has come behind it.
    fn read(&mut self, message: Message) {
        let now_ms = super::millis(self.begun.elapsed());
        let Some(verifies) = &mut self.verifies else {
            let report = node(&message).and_then(|node| report(node, unverified(&message.payload)));
            return self.ready.extend(report.map(Said::Report));
        };
        let mut batch = vec![message];
        while batch.len() < BATCH_MAX
            && let Some(message) = self.heard.next().now_or_never().flatten()
        {
            batch.push(message);
        }
        verifies.begin(batch, now_ms);
    }

    /// Takes what was verified, but for what was said before what is known already.
    fn take(&mut self, verified: Vec<Verified>) {
        let Some(Verifies { freshness, .. }) = &mut self.verifies else { return };
        for Verified { node, moment, said } in verified {
            match said {
                Ok(report) => {
                    let is_news = moment.is_some_and(|moment| freshness.took(&node, moment));
                    self.ready.extend(report.filter(|_| is_news).map(Said::Report));
                }
                Err(why) => self.ready.push_back(Said::Disbelieved { node, why }),
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
            verifies.removed = Arc::new(removed);
        }
    }
}

impl Verifies {
    fn has_room(&self) -> bool {
        self.under_way.len() < self.under_way_max
    }

    /// Begins to verify what came at `now_ms`, but for what was said before, which costs least to see.
    fn begin(&mut self, batch: Vec<Message>, now_ms: u64) {
        let when = |message: Message| {
            let moment = match (node(&message), Statement::read(&message.payload)) {
                (Some(node), Ok(said)) => {
                    Some(self.freshness.moment(node, said.number, said.nonces(), now_ms)?)
                }
                _ => None,
            };
            Some((message, moment))
        };
        let new: Vec<_> = batch.into_iter().filter_map(when).collect();
        if new.is_empty() {
            return;
        }
        let (by, removed) = (Arc::clone(&self.by), Arc::clone(&self.removed));
        self.under_way.spawn_blocking(move || {
            let verify = |(message, moment): (Message, _)| {
                let node = node(&message)?;
                let said = Statement::read(&message.payload).and_then(|statement| {
                    by.verify(node, &statement, &removed, UnixMillis::now())?;
                    Ok(report(node, statement.said))
                });
                Some(Verified { node: node.to_owned(), moment, said })
            };
            new.into_iter().filter_map(verify).collect()
        });
    }
}

/// In whose name something is said: servers can keep each to his own.
fn node(message: &Message) -> Option<&str> {
    message.subject.rsplit('.').next()
}

/// What a node says of itself. What is no report, as of a newer version, is nothing.
fn report(node: &str, said: &[u8]) -> Option<Box<Report>> {
    let report = serde_json::from_slice::<Report>(said).ok()?;
    (report.node == node).then(|| Box::new(report))
}
