//! Parts of settings that sites have alike, each kept once: a node of ten thousand sites has a handful of
//! ways to cache.

use super::access::Maintenance;
use super::cache::Cache;
use super::esi::EsiSettings;
use super::log_fields::LogFields;
use super::media::Media;
use super::origins::{Health, OriginTimeouts};
use super::parents::Parents;
use super::rules::Rules;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// What the sites read so far have, by its content.
#[derive(Default)]
pub(super) struct Alike {
    pub(super) cache: Parts<Cache>,
    pub(super) esi: Parts<EsiSettings>,
    pub(super) health: Parts<Health>,
    pub(super) log_fields: Parts<LogFields>,
    pub(super) maintenance: Parts<Maintenance>,
    pub(super) media: Parts<Media>,
    pub(super) origin_timeouts: Parts<OriginTimeouts>,
    pub(super) parents: Parts<Parents>,
    pub(super) rules: Parts<Rules>,
    pub(super) upgrades: Parts<[String]>,
}

/// Parts of one kind, no two of them alike wherever they are written.
pub(super) struct Parts<T: ?Sized>(HashSet<Arc<T>>);

impl<T: ?Sized> Default for Parts<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Eq + Hash + ?Sized> Parts<T> {
    /// The part that is as this one: one that is known, or itself. O(1).
    pub(super) fn of(&mut self, part: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        if let Some(known) = self.0.get(part.borrow()) {
            return Arc::clone(known);
        }
        let part = part.into();
        self.0.insert(Arc::clone(&part));
        part
    }
}
