//! What goes with an object's body besides its bytes: how long it is of use, whose memory it is in, and how
//! far it has come.

use crate::shares::Loan;
use freshet_base::clock::UnixMillis;
use freshet_cache::Object;
use freshet_channels::Reached;
use freshet_store::Body;
use freshet_telemetry::transcript::{Scribe, Tag};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What goes with an object's body: how long the object is kept beyond its grace, what a share of
/// the memory lends for it, and how far it has come where it is a channel's manifest.
pub struct Upkeep {
    keep_ms: AtomicU64,
    /// When the object leaves at the latest, whatever lifetimes it was given since, until it is confirmed.
    latest: AtomicU64,
    loan: Option<Arc<Loan>>,
    reached: OnceLock<Reached>,
    /// Who is told of its end, and by which number it is known.
    watcher: Option<(Arc<dyn Scribe>, u64)>,
}

impl Upkeep {
    /// The upkeep of what fetch `id` brings.
    pub fn new(
        keep: Duration,
        loan: Option<Arc<Loan>>,
        scribe: Option<&Arc<dyn Scribe>>,
        id: u64,
    ) -> Self {
        let watcher = scribe.map(|scribe| (Arc::clone(scribe), id));
        let reached = OnceLock::new();
        let latest = AtomicU64::new(u64::MAX);
        let new = Self { keep_ms: AtomicU64::new(0), latest, loan, reached, watcher };
        new.set_keep(keep);
        new
    }

    /// Keeps it for this long beyond its grace from now on.
    pub fn set_keep(&self, keep: Duration) {
        self.keep_ms.store(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The same of one that was confirmed, which leaves by what it says now.
    pub fn renew(&self, keep: Duration) {
        self.set_keep(keep);
        self.latest.store(u64::MAX, Relaxed);
    }

    /// Has the object leave at this time at the latest.
    pub fn limit(&self, latest: UnixMillis) {
        self.latest.fetch_min(latest.0, Relaxed);
    }

    /// When the object leaves at the latest.
    pub fn latest(&self) -> UnixMillis {
        UnixMillis(self.latest.load(Relaxed))
    }

    /// Says how far it has come, which is said once.
    pub fn note_reached(&self, reached: Reached) {
        let _ = self.reached.set(reached);
    }

    /// How far it has come, where it is a channel's manifest.
    pub fn reached(&self) -> Option<Reached> {
        self.reached.get().copied()
    }

    /// What a share of the memory lends for it.
    pub fn loan(&self) -> Option<&Loan> {
        self.loan.as_deref()
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        if let Some((scribe, id)) = &self.watcher {
            scribe.note(Tag::ExpKill, &format!("EXP_Expired x={id} t=-1"));
        }
    }
}

/// The upkeep of a body, where a policy has set one.
#[inline]
pub fn upkeep_of(body: &Body) -> Option<&Upkeep> {
    body.attached::<Upkeep>()
}

/// How long an object is kept beyond its grace.
pub fn keep_of(object: &Object) -> Duration {
    let Some(upkeep) = upkeep_of(object.body()) else { return Duration::ZERO };
    let keep = Duration::from_millis(upkeep.keep_ms.load(Relaxed));
    upkeep.reached().map_or(keep, |reached| keep.max(reached.keep_min))
}
