//! The channels that are known, and what belongs to them, for who asks at any time.
//!
//! | file | |
//! |---|---|
//! | `channel` | one channel, and what it says of something that belongs to it |
//! | `table` | all of them, and what they name, within bounds |
//! | `ended` | what is remembered of those that have ended |
//! | `front` | how far qualities of DASH are followed |
//! | `explain` | what is known, for people |

mod channel;
mod ended;
mod explain;
mod front;
mod table;

pub use channel::{About, Belongs, Facts, Noted, Version};
pub use ended::Last;
pub use front::Coming;

use super::directives::{Directives, Reload, without};
use super::doubts::Doubts;
use super::limits::{TARGETS_OF_START, VARIABLES_BYTES_MAX};
use super::standing::{Place, Reached};
use super::text_of;
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_media::Manifest;
use freshet_media::hls::Variables;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use table::Table;

/// What goes on, by its playlists and manifests.
#[derive(Default)]
pub struct Channels {
    table: Mutex<Table>,
    /// How many there are, to be asked before any work, how many keys, and how many that have ended.
    count: AtomicUsize,
    key_count: AtomicUsize,
    ended_count: AtomicUsize,
    /// Names that packagers have given to something else, or may have.
    doubts: Doubts,
}

impl Channels {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Takes over what a version says.
    pub fn note(&self, version: &Version<'_>) -> Noted {
        let mut table = self.table();
        let noted = table.note(version);
        self.count.store(table.by_key.len(), Relaxed);
        // What it names from now on may have meant something else before, too.
        if let Some(channel) = table.by_key.get(&version.id.hash())
            && channel.doubted_below > 0
        {
            let new = noted.new.iter().filter_map(|at| version.names.get(*at)).map(Key::hash);
            channel.doubt(new, &self.doubts);
        }
        noted
    }

    /// Forgets a channel that has ended; what was its own is as the configuration says from now on.
    pub fn end(&self, last: Last<'_>) {
        let mut table = self.table();
        table.end(last);
        self.count.store(table.by_key.len(), Relaxed);
        self.ended_count.store(table.ended.count(), Relaxed);
    }

    /// Whether the playlist `id` has ended.
    pub fn has_ended(&self, id: &Key) -> bool {
        self.ended_count.load(Relaxed) > 0 && self.table().ended.has(id.hash())
    }

    /// Whether no playlist is known, of what goes on or has ended.
    #[inline]
    pub fn have_none(&self) -> bool {
        self.count() == 0 && self.ended_count.load(Relaxed) == 0
    }

    /// Whether nothing is known that anything could belong to.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && self.key_count.load(Relaxed) == 0
    }

    /// Takes over what a manifest says segments are deciphered with.
    pub fn note_keys(&self, keys: impl Iterator<Item = Key>) {
        let keys: Vec<_> = keys.map(|key| key.hash()).collect();
        if keys.is_empty() {
            return;
        }
        let mut table = self.table();
        keys.into_iter().for_each(|key| table.keys.insert(key, ()));
        self.key_count.store(table.keys.len(), Relaxed);
    }

    /// What becomes of a version that has come for this key of the cache, with how far the one before is.
    pub fn place(
        &self,
        key: &Key,
        manifest: &Manifest,
        before: Option<Reached>,
        now: UnixMillis,
    ) -> Place {
        let aside = self.table().aside.get(key.hash()).copied();
        let place = Place::of(manifest, before, aside, now);
        if let Some(aside) = place.puts_aside(manifest, before) {
            self.table().aside.insert(key.hash(), aside);
        }
        place
    }

    /// How far players were given the playlist of this key of the cache, of one that is kept for nobody.
    pub fn reached(&self, key: &Key) -> Option<Reached> {
        self.table().reached.get(key.hash()).copied()
    }

    /// They were given it as far as this.
    pub fn note_reached(&self, key: &Key, reached: Reached) {
        self.table().reached.insert(key.hash(), reached);
    }

    /// Takes over what a multivariant playlist says of the bits a second of others.
    pub fn note_bitrates(&self, playlists: impl Iterator<Item = (Key, u64)>) {
        let playlists: Vec<_> = playlists.collect();
        if playlists.is_empty() {
            return;
        }
        let mut table = self.table();
        playlists.iter().for_each(|(key, bits)| table.bitrates.insert(key.hash(), *bits));
    }

    /// Takes over what a multivariant playlist defines for those it names.
    pub fn note_variables(&self, playlists: impl Iterator<Item = Key>, variables: &Variables) {
        if variables.is_empty() || variables.bytes() > VARIABLES_BYTES_MAX {
            return;
        }
        let playlists: Vec<_> = playlists.map(|key| key.hash()).collect();
        let variables = Arc::new(variables.clone());
        let mut table = self.table();
        playlists.iter().for_each(|key| table.variables.insert(*key, Arc::clone(&variables)));
    }

    /// What the playlist `id` may import.
    pub fn variables_of(&self, id: &Key) -> Option<Arc<Variables>> {
        self.table().variables.get(id.hash()).cloned()
    }

    /// The channel something belongs to.
    pub fn of(&self, key: &Key, now: UnixMillis) -> Option<Belongs> {
        if self.is_empty() { None } else { self.table().of(key, now) }
    }

    /// The channel that what a request asks for belongs to, by the keys of targets. A query that a player adds to
    /// what is named, as for a token, does not make it nobody's.
    pub fn of_request(
        &self,
        target: &str,
        now: UnixMillis,
        key_of: impl Fn(&str) -> Key,
    ) -> Option<Belongs> {
        if self.is_empty() {
            return None;
        }
        let of = |target: &str| self.of(&key_of(target), now);
        let found = of(&without(target));
        match (found, target.split_once('?')) {
            (None | Some(Belongs::Beside(_)), Some((path, _))) => {
                of(path).filter(Belongs::is_named).or(found)
            }
            _ => found,
        }
    }

    /// The target of the segment behind the one with this key, where a template stands for both.
    pub fn next_of(&self, key: &Key) -> Option<String> {
        if self.count() == 0 { None } else { self.table().next_of(key) }
    }

    /// Where the last part of this ends that a playlist names, where it names it by parts.
    pub fn named_end(&self, key: &Key) -> Option<u64> {
        let table = self.table();
        let named = table.named.get(&key.hash()).map(|named| named.parts_end);
        named.filter(|end| *end > 0).or_else(|| table.ended.length(key))
    }

    /// A player has asked for the segment `key`, which a template stands for. The template's text, where
    /// it is to be followed from now on: until [`forget_front`](Self::forget_front).
    pub fn note_front(&self, key: &Key) -> Option<Box<str>> {
        if self.count() == 0 { None } else { self.table().note_front(key) }
    }

    /// What comes next in the quality of this template, while its channel goes on.
    pub fn coming(&self, template: &str) -> Option<Coming> {
        self.table().coming(template)
    }

    /// This segment of it was fetched ahead.
    pub fn advance(&self, template: &str, value: u64) {
        if let Some(front) =
            self.table().followed.get_mut(template).filter(|front| front.value < value)
        {
            (front.value, front.is_asked) = (value, false);
        }
    }

    /// It is followed no more.
    pub fn forget_front(&self, template: &str) {
        self.table().followed.remove(template);
    }

    /// What can be said of a request for the playlist `id`.
    pub fn reload(&self, id: &Key, asked: Directives, now: UnixMillis) -> Reload {
        if self.have_none() { Reload::Unknown } else { self.table().reload(id, asked, now) }
    }

    /// How long who asks for the playlist `id` waits for its origin where there is an old one.
    pub fn patience_of(&self, id: &Key) -> Option<Duration> {
        let target = self.table().by_key.get(&id.hash())?.about.target;
        Some(target / 2).filter(|patience| !patience.is_zero())
    }

    /// Has what is stored from before the place `below` in the order of purges be looked at anew: of these
    /// names, and of all that the playlist `all` names.
    pub fn doubt(&self, names: &[u128], all: Option<&Key>, below: u64) {
        names.iter().for_each(|name| self.doubts.doubt(*name, below));
        let mut table = self.table();
        if let Some(channel) = all.and_then(|id| table.by_key.get_mut(&id.hash())) {
            channel.doubted_below = below;
            channel.doubt(channel.names.iter().map(|(_, name)| *name), &self.doubts);
        }
    }

    /// Whether anything has ever been.
    #[inline]
    pub fn doubt_any(&self) -> bool {
        self.doubts.are_any()
    }

    /// From where in the order of purges on what is stored of this is what its channel means; later than that
    /// for some others. It takes no lock.
    pub fn doubted_below(&self, key: &Key) -> u64 {
        self.doubts.below(key.hash(), text_of(key))
    }

    /// Until when a player may begin with what is stored of the playlist or manifest `key`, where it is
    /// a channel's.
    pub fn begins_until(&self, key: &Key, now: UnixMillis) -> Option<UnixMillis> {
        match self.of(key, now)? {
            Belongs::Manifest(about) => Some(about.read.plus(about.target * TARGETS_OF_START)),
            Belongs::Named(..) | Belongs::Beside(_) | Belongs::Key => None,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod unit {
    use super::*;
    use freshet_cache::Secret;

    #[test]
    fn who_asks_whether_a_name_is_doubted_does_not_wait_for_what_is_read() {
        let channels = Channels::default();
        let key = Secret::from_bytes([1; 16]).key("tv", "/1.m4s");
        assert!(!channels.doubt_any());
        channels.doubt(&[key.hash()], None, 7);
        // As long as it is held nobody else gets it.
        let _held = channels.table();
        assert!(channels.doubt_any());
        assert_eq!(channels.doubted_below(&key), 7);
    }
}
