//! What is remembered of a response that was not kept, beside its [`Marker`](crate::marker::Marker): what a
//! rule about responses looks at that ends the marker.

use crate::key::Key;
use crate::ticket::Ticket;
use freshet_base::ledger::Ledger;
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of fields of all that is remembered so; of what comes beyond that, none are. Some ten thousand heads.
const FIELD_BYTES_MAX: usize = 8 << 20;
/// Those that there are now.
static FIELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The head of a response that was not kept.
#[derive(Debug)]
pub struct Left {
    key: Arc<Key>,
    fields: Fields,
    field_bytes: usize,
    status: u16,
    freshness: Freshness,
    keep: Duration,
    /// As of an object: up to where in the order of purges it was tested.
    bans_seen: AtomicU64,
}

impl Left {
    /// Of what was fetched with this ticket, and would have been kept for `keep` beyond its grace.
    pub fn new(
        ticket: &Ticket,
        (status, fields): (u16, &Fields),
        freshness: &Freshness,
        keep: Duration,
    ) -> Arc<Self> {
        let mut kept = fields.clone().compact();
        let mut field_bytes = kept.heap_bytes();
        if FIELD_BYTES.fetch_add(field_bytes, Relaxed) + field_bytes > FIELD_BYTES_MAX {
            FIELD_BYTES.give_back(field_bytes, Relaxed);
            (kept, field_bytes) = (Fields::new(), 0);
        }
        Arc::new(Self {
            key: Arc::clone(ticket.key()),
            fields: kept,
            field_bytes,
            status,
            freshness: freshness.clone(),
            keep,
            bans_seen: AtomicU64::new(ticket.born_seq()),
        })
    }

    /// The resource.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its fields; none where there are too many of all.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// How long it would have been good for.
    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    /// How long it would have been kept beyond its grace.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// The place in the order of purges up to where it was tested by rules that have one.
    pub fn bans_seen(&self) -> u64 {
        self.bans_seen.load(Relaxed)
    }

    /// Notes that it was tested up to there.
    pub fn note_bans_seen(&self, seq: u64) {
        self.bans_seen.fetch_max(seq, Relaxed);
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        FIELD_BYTES.give_back(self.field_bytes, Relaxed);
    }
}
