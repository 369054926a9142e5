//! Entries as they come, and as they are read.

use super::asked::{Stored, Which};
use super::link::{FleetError, Link};
use crate::entry::{Change, Entry, EntryError, decode, place};
use crate::limits::READ_MAX;
use crate::signature::Saying;
use async_nats::{HeaderMap, Message};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::future::ready;

/// How many entries are asked for at once: as many are on the way while the first comes.
const READ_AT_ONCE: usize = 64;

impl Link {
    /// Up to [`READ_MAX`] entries from `from` on.
    pub(super) async fn entries(&self, from: u64) -> Result<Vec<Entry<Vec<Change>>>, FleetError> {
        let name = self.stream_name();
        let last = self.info(&name).await?.state.last;
        stream::iter((from..=last).take(READ_MAX))
            .map(|number| self.stored(&name, Which::Number(number)))
            .buffered(READ_AT_ONCE)
            .map_err(FleetError::from)
            .try_take_while(|stored| ready(Ok(stored.is_some())))
            .try_filter_map(|stored| ready(Ok(stored.map(|stored| self.read_entry(&stored)))))
            .try_collect()
            .await
    }

    /// The entry in a republished message; `None` where that is not one.
    pub(super) fn pushed(&self, message: &Message) -> Option<Entry<Vec<Change>>> {
        let headers: &HeaderMap = message.headers.as_ref()?;
        let sequence = headers.get(async_nats::header::NATS_SEQUENCE)?.as_str().parse().ok()?;
        // What a server delivers for somebody else keeps the subject that it was stored under.
        let is_pushed = message.subject.as_str() == self.subject("pushed");
        is_pushed.then(|| self.entry(sequence, &message.payload))
    }

    /// What is under another subject came into the log as an answer of the servers, which may be sent anywhere: it has its number,
    /// and nobody has said it.
    fn read_entry(&self, stored: &Stored) -> Entry<Vec<Change>> {
        if stored.subject == self.subject("log") {
            return self.entry(stored.number, &stored.payload);
        }
        tracing::error!(
            sequence = stored.number,
            subject = stored.subject,
            "the log has what is no entry"
        );
        let place = place(stored.number, &stored.payload);
        Entry { place, before: None, changes: Vec::new() }
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
