//! Purges and bans, in memory and wherever else responses are kept.

use crate::expiry::Ending;
use crate::handover::Giving;
use crate::keepers::Purgeable;
use crate::worker::Shared;
use freshet_cache::{Key, Object, Purge};
use freshet_config::bans::BanSettings;
use freshet_site::durability::Durability;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

/// A purge that was carried out in memory and is being made durable.
#[derive(Default)]
#[must_use]
pub struct Purged {
    /// Objects in memory it met; one where the resource was on a disk only.
    pub objects: usize,
    /// What is to be waited for before it is answered.
    pub durability: Durability,
}

impl Shared {
    /// Purges resources as [`Shared::purge`] does, as one that goes by several names.
    pub fn purge_each<'a>(&self, keys: impl IntoIterator<Item = &'a Key>, how: Purge) -> Purged {
        let mut all = Purged::default();
        for key in keys {
            let Purged { objects, durability } = self.purge(key, how);
            all.objects += objects;
            all.durability.add(durability);
        }
        all
    }

    /// Purges all variants of a resource, in memory and wherever else it is kept.
    pub fn purge(&self, key: &Key, how: Purge) -> Purged {
        let (what, was_kept) = (Purgeable::Key(key), self.keepers.may_have(key));
        let durability = self.keepers.evict(&what, how);
        let ends: Vec<_> = match how {
            Purge::Hard => Vec::new(),
            _ => self.cache.peek(key).variants.into_iter().map(Ending::of).collect(),
        };
        let keep = if let Purge::Given(lifetimes) = how { lifetimes.keep } else { None };
        let objects = self.cache.purge(key, how).max(was_kept.into());
        let scribe = self.scribe.as_ref();
        ends.into_iter().for_each(|ending| self.expiry.rearm(ending, keep, scribe));
        self.purged(objects, durability, &what, how)
    }

    /// Purges everything with a tag, in memory and wherever else it is kept.
    pub fn purge_tag(&self, tag: u64, how: Purge) -> Purged {
        self.purge_tags(&[tag], how)
    }

    /// Purges everything that has one of these tags, in memory and wherever else it is kept. It looks at every object
    /// in memory once.
    pub fn purge_tags(&self, tags: &[u64], how: Purge) -> Purged {
        let evict = |tag: &u64| self.keepers.evict(&Purgeable::Tag(*tag), how);
        let evicted: Vec<_> = tags.iter().map(evict).collect();
        let mut all = Purged { objects: self.cache.purge_tags(tags, how), ..Purged::default() };
        self.rearm_purged(how, &|object| object.has_one_of(tags));
        for (tag, durability) in tags.iter().zip(evicted) {
            all.durability.add(self.purged(0, durability, &Purgeable::Tag(*tag), how).durability);
        }
        all
    }

    /// Purges everything, in memory and wherever else it is kept.
    pub fn purge_all(&self, how: Purge) -> Purged {
        let durability = self.keepers.evict(&Purgeable::All, how);
        let objects = self.cache.purge_all(how);
        self.rearm_purged(how, &|_| true);
        self.purged(objects, durability, &Purgeable::All, how)
    }

    /// Has those that were softly purged leave when their time is over, which is earlier now.
    fn rearm_purged(&self, how: Purge, is_it: &dyn Fn(&Object) -> bool) {
        if let Purge::Soft(at) = how {
            self.expiry.rearm_purged(&self.cache, at, is_it, self.scribe.as_ref());
        }
    }

    /// Ends an object in whose place a fetch that was `born` then, in the order of purges on disks, brought something else:
    /// in memory and wherever else it is kept.
    pub fn end(&self, object: &Arc<Object>, born: u64) {
        self.keepers.ended(object.original(), born);
        self.cache.forget(object);
    }

    /// From now on what is stored may be something that was purged elsewhere, in memory and on the disks.
    /// Returns where the fence of the cache is to be at least, for that to be validated before it is used.
    pub fn doubt_stored(&self) -> u64 {
        if let Some(disks) = &self.disks {
            self.disks_doubted_below.fetch_max(disks.born(), SeqCst);
        }
        self.cache.next_in_order()
    }

    /// Tells the process that takes over as well, if one does.
    fn purged(
        &self,
        objects: usize,
        durability: Durability,
        what: &Purgeable<'_>,
        how: Purge,
    ) -> Purged {
        let told = self.giving().and_then(|giving| giving.purge(what, how));
        Purged { objects, durability: durability.and(told) }
    }

    /// Bans what a text says, in memory and on the disks; what has space in it is quoted.
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
