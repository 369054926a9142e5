//! Making a log, publishing into it, and waiting until all have what was published.

use super::link::{FleetError, Link, Report, failed};
use super::states::Said;
use crate::entry::{Change, Place, encode, place};
use crate::identity::Disbelief;
use crate::member::Settings;
use crate::signature::Saying;
use crate::tally::{Outcome, Tally};
use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, Republish, StorageType};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often an entry is tried to be published behind those of others.
const TRIES_MAX: usize = 50;
/// Time between two questions where the log ends, while nodes say that it goes on behind what was published.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// How much a log keeps, on how many servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// Servers that have it.
    pub replicas: usize,
    /// Entries kept. A node that was away for more of them validates what it has stored.
    pub entries_max: u32,
}

impl Default for Retention {
    /// One server, and a million entries: a day of eleven a second.
    fn default() -> Self {
        Self { replicas: 1, entries_max: 1_000_000 }
    }
}

impl Link {
    /// Makes the log and the list of nodes, where they are not there yet.
    ///
    /// # Errors
    /// The servers refuse, as they do without JetStream.
    pub async fn init(&self, retention: Retention) -> Result<(), FleetError> {
        let log = Config {
            name: self.stream_name(),
            subjects: vec![self.subject("log")],
            storage: StorageType::File,
            num_replicas: retention.replicas,
            max_messages: i64::from(retention.entries_max),
            republish: Some(Republish {
                source: self.subject("log"),
                destination: self.subject("pushed"),
                headers_only: false,
            }),
            deny_delete: true,
            ..Config::default()
        };
        self.context.get_or_create_stream(log).await.map_err(failed)?;
        let list = Config {
            name: self.list_name(),
            subjects: vec![self.subject("node.*")],
            storage: StorageType::File,
            num_replicas: retention.replicas,
            max_messages_per_subject: 1,
            ..Config::default()
        };
        self.context.get_or_create_stream(list).await.map_err(failed)?;
        self.init_removed(retention).await?;
        self.init_config(retention).await
    }

    /// What each node says of itself within `limit`, or as soon as all have.
    ///
    /// # Errors
    /// There is no such fleet, or no answer.
    pub async fn reports(&self, limit: Duration) -> Result<Reports, FleetError> {
        let nodes = self.nodes().await?;
        let mut missing = nodes.clone();
        let mut states = self.states().await?;
        states.call().await?;
        let (mut out, until) = (Reports::default(), Instant::now() + limit);
        while !missing.is_empty() {
            let Ok(said) = timeout_at(until, states.next()).await else { break };
            match said {
                // One that was removed may go on saying how it is.
                Said::Report(report) if nodes.contains(&report.node) => {
                    missing.retain(|name| *name != report.node);
                    out.reports.retain(|known| known.node != report.node);
                    out.reports.push(*report);
                }
                Said::Disbelieved { node, why } if nodes.contains(&node) => {
                    out.disbelieved.insert(node, why);
                }
                _ => {}
            }
        }
        out.disbelieved.retain(|node, _| missing.contains(node));
        out.reports.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(out)
    }
}

/// What nodes say of themselves.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// One of each node that is believed, in the order of their names.
    pub reports: Vec<Report>,
    /// Nodes in whose name something was said that is not believed, and nothing that is.
    pub disbelieved: BTreeMap<String, Disbelief>,
}

/// What came of a publication.
#[derive(Clone, Debug)]
pub struct Waited {
    /// Where the log has it.
    pub place: Place,
    /// What waiting has come to.
    pub outcome: Outcome,
    /// Nodes that were waited for in vain, in whose name something was said that is not believed.
    pub disbelieved: BTreeMap<String, Disbelief>,
}

/// Publishes changes as one entry, behind all others. When it returns, the log has it on disk.
///
/// # Errors
/// The entry is none, the servers refuse, or it is not known whether they took it.
pub async fn publish(link: &Link, changes: &[Change]) -> Result<Place, FleetError> {
    for _ in 0..TRIES_MAX {
        let last = link.ask().await?.last;
        let bytes = link.signed(Saying::Entry, encode(last.digest, changes)?);
        let place = place(last.sequence + 1, &bytes);
        let message =
            PublishMessage::build().payload(bytes.into()).expected_last_sequence(last.sequence);
        let unsent = |error: PublishError| match error.kind() {
            PublishErrorKind::StreamNotFound => link.no_fleet(),
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                FleetError::Unknown(error.to_string())
            }
            _ => refused(&error),
        };
        let sent = link.context.send_publish(link.subject("log"), message).await.map_err(unsent)?;
        match sent.await {
            Ok(_) => return Ok(place),
            // Somebody else was quicker.
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {}
            Err(error) => return Err(unsent(error)),
        }
    }
    Err(FleetError::Contended)
}

/// What the servers say of what they do not take.
pub(super) fn refused(error: &PublishError) -> FleetError {
    use jetstream::ErrorCode;
    let told = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    let is_full = told.is_some_and(|told| {
        [
            ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
            ErrorCode::INSUFFICIENT_RESOURCES,
            ErrorCode::STORAGE_RESOURCES_EXCEEDED,
            ErrorCode::STREAM_STORE_FAILED,
        ]
        .contains(&told.error_code())
    });
    match told.filter(|_| is_full) {
        Some(told) => FleetError::Full(told.to_string()),
        None => FleetError::Server(error.to_string()),
    }
}

/// Publishes, and waits until all nodes of the fleet have carried it out, or those that have not are
/// fenced, or `limit` is over.
///
/// # Errors
/// As [`publish`]; then nothing is known of nodes.
pub async fn wait(link: &Link, changes: &[Change], limit: Duration) -> Result<Waited, FleetError> {
    // Nobody is called at first: each node says of itself that it has carried the entry out, and to have all of them say
    // at the same time where they were before it would cost as much again.
    let (nodes, mut states) = tokio::try_join!(link.nodes(), link.states())?;
    let place = publish(link, changes).await?;
    states.expect(place.digest.into());
    let begun = Instant::now();
    let now_ms = || super::millis(begun.elapsed());
    let mut tally = Tally::new(place.sequence, nodes, Settings::default().lease_ms, 0);
    let fenced = begun + Duration::from_millis(tally.fenced_ms());
    let until = fenced.min(begun + limit);
    let mut asked = begun - ASK_EVERY;
    let mut disbelieved = BTreeMap::<String, _>::new();
    loop {
        let outcome = tally.outcome(now_ms());
        if !matches!(outcome, Outcome::Waiting(_)) || Instant::now() >= until {
            disbelieved.retain(|node, _| outcome.lacks(node));
            return Ok(Waited { place, outcome, disbelieved });
        }
        if tally.is_doubtful() && asked.elapsed() >= ASK_EVERY {
            asked = Instant::now();
            if let Ok(Ok(answer)) = timeout_at(until, link.ask()).await {
                tally.ends_at(answer.last.sequence);
            }
            continue;
        }
        let wakes = if tally.is_doubtful() { until.min(asked + ASK_EVERY) } else { until };
        match timeout_at(wakes, states.next()).await {
            Ok(Said::Report(report)) => {
                tally.refused(&report.node, &report.refused);
                tally.not_meant(&report.node, &report.not_meant);
                tally.applied(&report.node, report.sequence);
            }
            Ok(Said::Disbelieved { node, why }) => drop(disbelieved.insert(node, why)),
            Err(_) => {}
        }
    }
}
