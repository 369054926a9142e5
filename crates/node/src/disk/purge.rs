//! Purges, in memory and on the disks.

use crate::handover::Forwarded;
use crate::worker::Shared;
use freshet_cache::{Key, Purge};
use freshet_store::disk::device::Completion;
use freshet_store::disk::purges::Target;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long a purge waits to be durable: longer than a disk may take for a write and a flush before
/// it is left. The purge is applied to such a disk when it comes back.
const DURABLE_MAX: Duration = Duration::from_secs(20);

/// A purge that was carried out in memory and is being made durable.
#[must_use]
pub struct Purged {
    /// Objects in memory it met.
    pub objects: usize,
    durable: Vec<Completion>,
}

impl Shared {
    /// Purges all variants of a resource, in memory and on the disks.
    pub fn purge(&self, key: &Key, how: Purge) -> Purged {
        let durable = self.disks.as_ref().map(|disks| disks.purge_key(key.hash(), soft_ms(how)));
        let objects = self.cache.purge(key, how);
        self.purged(objects, durable, &Forwarded::Key(key), how)
    }

    /// Purges everything with a tag, in memory and on the disks.
    pub fn purge_tag(&self, tag: u64, how: Purge) -> Purged {
        let target = Target::Tag(tag);
        let durable = self.disks.as_ref().map(|disks| disks.purge(target, soft_ms(how)));
        let objects = self.cache.purge_tag(tag, how);
        self.purged(objects, durable, &Forwarded::Tag(tag), how)
    }

    /// Purges everything, in memory and on the disks.
    pub fn purge_all(&self, how: Purge) -> Purged {
        let durable = self.disks.as_ref().map(|disks| disks.purge(Target::All, soft_ms(how)));
        let objects = self.cache.purge_all(how);
        self.purged(objects, durable, &Forwarded::All, how)
    }

    /// Tells the process that takes over as well, if one does.
    fn purged(
        &self,
        objects: usize,
        durable: Option<Vec<Completion>>,
        what: &Forwarded<'_>,
        how: Purge,
    ) -> Purged {
        let mut durable = durable.unwrap_or_default();
        let giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner).clone();
        durable.extend(giving.and_then(|giving| giving.purge(what, how)));
        Purged { objects, durable }
    }
}

impl Purged {
    /// Waits until it holds over a power cut, for a limited time.
    pub async fn durable(self) -> usize {
        let all = async {
            for one in self.durable {
                one.await;
            }
        };
        if tokio::time::timeout(DURABLE_MAX, all).await.is_err() {
            tracing::warn!("a purge is not durable on every disk yet");
        }
        self.objects
    }

    /// The same, on a thread that may block.
    pub fn wait(self) -> usize {
        let until = Instant::now() + DURABLE_MAX;
        for one in self.durable {
            one.wait(until.saturating_duration_since(Instant::now()));
        }
        self.objects
    }
}

fn soft_ms(how: Purge) -> Option<u64> {
    match how {
        Purge::Hard => None,
        Purge::Soft(at) => Some(at.0),
    }
}
