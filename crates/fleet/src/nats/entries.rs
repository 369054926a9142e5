//! Entries as they come, and as they are read.

use super::link::{FleetError, Link};
use crate::entry::{Change, Entry, EntryError, decode};
use crate::limits::READ_MAX;
use crate::signature::Saying;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::{HeaderMap, Message};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::timeout;

/// How long the next of the entries that are read may take.
const NEXT_WITHIN: Duration = Duration::from_secs(1);

impl Link {
    /// Up to [`READ_MAX`] entries from `from` on.
    pub(super) async fn entries(&self, from: u64) -> Result<Vec<Entry<Vec<Change>>>, FleetError> {
        let failed = |error: &dyn std::fmt::Display| FleetError::Server(error.to_string());
        let stream = self.stream().await?;
        let consumer = stream.create_consumer(pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ..pull::OrderedConfig::default()
        });
        let consumer = consumer.await.map_err(|error| failed(&error))?;
        let mut messages = consumer.messages().await.map_err(|error| failed(&error))?;
        let mut entries = Vec::new();
        while entries.len() < READ_MAX {
            let Ok(Some(message)) = timeout(NEXT_WITHIN, messages.next()).await else { break };
            let message = message.map_err(|error| failed(&error))?;
            let info = message.info().map_err(|error| failed(&error))?;
            entries.push(self.entry(info.stream_sequence, &message.payload));
            if info.pending == 0 {
                break;
            }
        }
        Ok(entries)
    }

    /// The entry in a republished message; `None` where that is not one.
    pub(super) fn pushed(&self, message: &Message) -> Option<Entry<Vec<Change>>> {
        let headers: &HeaderMap = message.headers.as_ref()?;
        let sequence = headers.get(async_nats::header::NATS_SEQUENCE)?.as_str().parse().ok()?;
        Some(self.entry(sequence, &message.payload))
    }

    fn entry(&self, sequence: u64, bytes: &[u8]) -> Entry<Vec<Change>> {
        let (entry, wrong) = decode(sequence, bytes, |bytes| self.believed(Saying::Entry, bytes));
        match wrong {
            Some(EntryError::Signature(error)) => {
                tracing::error!(%error, sequence, "an entry of the log is not carried out");
            }
            Some(error) => {
                tracing::error!(%error, sequence, "an entry of the log cannot be read; what is stored is distrusted");
            }
            None => {}
        }
        entry
    }
}
