//! Purges and bans, in memory and on the disks.

use super::Durability;
use crate::bans::BanSettings;
use crate::handover::{Forwarded, Giving};
use crate::worker::Shared;
use freshet_cache::{Key, Purge};
use freshet_store::disk::Pending;
use freshet_store::disk::purges::Target;
use std::sync::{Arc, PoisonError};

/// A purge that was carried out in memory and is being made durable.
#[must_use]
pub struct Purged {
    /// Objects in memory it met; one where the resource was on a disk only.
    pub objects: usize,
    /// What is to be waited for before it is answered.
    pub durability: Durability,
}

impl Shared {
    /// Purges all variants of a resource, in memory and on the disks.
    pub fn purge(&self, key: &Key, how: Purge) -> Purged {
        let was_on_disk = self.disks.as_ref().is_some_and(|disks| disks.may_have(key.hash()));
        let durable = self.disks.as_ref().map(|disks| disks.purge_key(key.hash(), soft_ms(how)));
        let objects = self.cache.purge(key, how).max(was_on_disk.into());
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
        pending: Option<Pending>,
        what: &Forwarded<'_>,
        how: Purge,
    ) -> Purged {
        let told = self.giving().and_then(|giving| giving.purge(what, how));
        let durability = Durability::from(pending.unwrap_or_default()).and(told);
        Purged { objects, durability }
    }

    /// Bans what a text says, as policies write it, in memory and on the disks.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn ban(&self, text: &str, settings: &BanSettings) -> Result<Durability, String> {
        self.bans.add(&self.cache, text, settings).map(|durability| self.banned(durability))
    }

    /// Bans what these words say.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn ban_words(
        &self,
        words: &[String],
        settings: &BanSettings,
    ) -> Result<Durability, String> {
        self.bans.add_words(&self.cache, words, settings).map(|durability| self.banned(durability))
    }

    /// Waits until the process that takes over has it as well, if one does.
    fn banned(&self, durability: Durability) -> Durability {
        durability.and(self.giving().and_then(|giving| giving.bans()))
    }

    fn giving(&self) -> Option<Arc<Giving>> {
        self.giving.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn soft_ms(how: Purge) -> Option<u64> {
    match how {
        Purge::Hard => None,
        Purge::Soft(at) => Some(at.0),
    }
}
