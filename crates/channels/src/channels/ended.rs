//! What is remembered of channels that have ended: nothing waits for news of these any more, and the files
//! that were written on to are whole.

use super::table::Table;
use crate::directives::{Directives, Known, Reload, Skip};
use crate::limits::{ENDED_MAX, ENDED_TARGET_BYTES_MAX};
use crate::recent::Recent;
use freshet_cache::Key;

/// A version of a playlist after which there is none.
pub struct Last<'a> {
    /// The playlist's key, whatever directives the version was asked for with.
    pub id: &'a Key,
    /// Where it is stored, and what it may leave out.
    pub stored: Option<(Known, Skip)>,
    /// Files of which it names parts, and where the last part of each ends.
    pub lengths: Vec<(Key, u64)>,
}

/// The versions by what they leave out, as far as these are stored.
type Stored = [Option<Known>; Skip::KINDS];

/// All of them, within bounds.
pub(super) struct Ended {
    /// Where the last version of a playlist is; `None` where it has begun again.
    versions: Recent<Option<Stored>>,
    /// How long files are.
    lengths: Recent<u64>,
}

impl Default for Ended {
    fn default() -> Self {
        Self { versions: Recent::new(ENDED_MAX), lengths: Recent::new(ENDED_MAX) }
    }
}

impl Ended {
    /// How many playlists there are.
    pub(super) fn count(&self) -> usize {
        self.versions.len()
    }

    /// How long this file has become, at least.
    pub(super) fn length(&self, key: &Key) -> Option<u64> {
        self.lengths.get(key.hash()).copied()
    }

    /// Whether a playlist has ended.
    pub(super) fn has(&self, id: u128) -> bool {
        self.stored(id).is_some()
    }

    /// It begins again.
    pub(super) fn resume(&mut self, id: u128) {
        if self.has(id) {
            self.versions.insert(id, None);
        }
    }

    /// What leaves out less is the answer to who would leave out more, too.
    pub(super) fn reload(&self, id: &Key, asked: Directives) -> Reload {
        let Some(stored) = self.stored(id.hash()) else { return Reload::Unknown };
        let known = stored.iter().take(asked.skip.kind() + 1).flatten().next();
        known.cloned().map_or(Reload::Unknown, Reload::Has)
    }

    fn stored(&self, id: u128) -> Option<&Stored> {
        self.versions.get(id)?.as_ref()
    }
}

impl Table {
    /// Forgets a channel that has ended, but for what is remembered of it. A film that nobody asks for news
    /// of is none.
    pub(super) fn end(&mut self, last: Last<'_>) {
        let Last { id, stored, lengths } = last;
        let was_here = self.by_key.contains_key(&id.hash());
        self.remove(id.hash());
        let is_asked = |known: &Known| Directives::of(&known.target).are_there();
        let is_news = stored.as_ref().is_some_and(|(known, _)| is_asked(known));
        if !was_here && !is_news && !self.ended.has(id.hash()) {
            return;
        }
        let mut versions = self.ended.stored(id.hash()).cloned().unwrap_or_default();
        let is_short = |known: &Known| known.target.len() <= ENDED_TARGET_BYTES_MAX;
        if let Some((known, skip)) = stored.filter(|(known, _)| is_short(known)) {
            versions[skip.kind()] = Some(known);
        }
        self.ended.versions.insert(id.hash(), Some(versions));
        for (key, length) in lengths {
            self.ended.lengths.insert(key.hash(), length);
        }
    }
}
