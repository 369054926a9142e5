//! All channels, and what they name, within bounds.

use super::channel::{About, Belongs, Channel, Named, Newest, Noted, Version};
use super::ended::Ended;
use super::front::Front;
use crate::directives::{Directives, Reload, Skip};
use crate::limits::{
    BITRATES_MAX, BYTES_MAX, CHANNEL_BYTES, CHANNELS_MAX, INIT_LIFETIME, KEYS_MAX, LISTED_NEW_MAX,
    NAME_BYTES, NAMES_MAX, SEGMENTS_AHEAD_MAX, TARGETS_OF_PARTS, VARIABLES_MAX,
};
use crate::recent::Recent;
use crate::standing::Reached;
use crate::{folders, text_of};
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_media::hls::Variables;
use freshet_media::mpd::{self, Series};
use freshet_media::{Kind, Name, Progress};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Table {
    pub(super) by_key: HashMap<u128, Channel>,
    /// What a playlist names, by the key of that.
    pub(super) named: HashMap<u128, Named>,
    /// Channels with something in a folder: a playlist, or what a template stands for.
    pub(super) folders: HashMap<Box<str>, HashSet<u128>>,
    /// How far qualities of DASH are followed, by their templates.
    pub(super) followed: HashMap<Box<str>, Front>,
    /// Bits a second of playlists, as those say that name them.
    pub(super) bitrates: Recent<u64>,
    /// What playlists may import, as those define that name them.
    pub(super) variables: Recent<Arc<Variables>>,
    /// What segments are deciphered with, of films too.
    pub(super) keys: Recent<()>,
    /// How far playlists were that are kept for nobody, by keys of the cache.
    pub(super) reached: Recent<Reached>,
    /// How far versions were that were put aside last, by the same keys.
    pub(super) aside: Recent<Progress>,
    pub(super) ended: Ended,
    pub(super) bytes: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            named: HashMap::new(),
            folders: HashMap::new(),
            followed: HashMap::new(),
            bitrates: Recent::new(BITRATES_MAX),
            variables: Recent::new(VARIABLES_MAX),
            keys: Recent::new(KEYS_MAX),
            reached: Recent::new(CHANNELS_MAX),
            aside: Recent::new(CHANNELS_MAX),
            ended: Ended::default(),
            bytes: 0,
        }
    }
}

impl Table {
    pub(super) fn note(&mut self, version: &Version<'_>) -> Noted {
        let (id, manifest) = (version.id.hash(), version.manifest);
        if version.begins_again {
            self.remove(id);
            self.ended.resume(id);
        }
        let about = version.about();
        let text = String::from_utf8_lossy(version.id.text()).into_owned();
        let is_known = self.by_key.contains_key(&id);
        let mut channel = match self.take(id) {
            Some(known) => Channel { about, can_block: manifest.can_block, ..known },
            None => Channel {
                text: text.clone().into(),
                about,
                can_block: manifest.can_block,
                begun_again: version.begins_again.then_some(version.now),
                doubted_below: 0,
                discontinuity: 0,
                newest: [const { None }; Skip::KINDS],
                names: VecDeque::new(),
                templates: Vec::new(),
                series: HashMap::new(),
                folders: Vec::new(),
                bytes: 0,
            },
        };
        channel.newer(version);
        let mut doubted = Vec::new();
        if channel.breaks_off(version) && is_known {
            // What comes behind it may be of another packager, or of one that was started again.
            let both = manifest.names.iter().zip(&version.names);
            doubted.extend(both.filter(|(name, _)| name.kind.is_init()).map(|(_, key)| key.hash()));
        }
        let (new, reused) = self.name(id, &mut channel, version, &mut doubted);
        channel.templates =
            version.templates.iter().map(|key| text_of(key).into()).collect::<Vec<Box<str>>>();
        let listed = match channel.begun_again {
            Some(_) => newly_listed(&channel, version),
            None => Vec::new(),
        };
        let series = version.series.iter();
        channel.series =
            series.map(|(key, series)| (text_of(key).into(), series.clone())).collect();
        channel.folders = folders_of(&text, &channel.templates, &version.names);
        let is_doubted = version.begins_again || version.has_stood;
        let noted = Noted { new, reused, listed, doubted, is_doubted };
        self.put(id, channel);
        self.make_room(id);
        noted
    }

    /// Registers what a version names that was not named before, and says where that is in it; and what of
    /// it may have been named before the packager started again. `doubted`: names that come again while
    /// numbers go on are added to it.
    fn name(
        &mut self,
        id: u128,
        channel: &mut Channel,
        version: &Version<'_>,
        doubted: &mut Vec<u128>,
    ) -> (Vec<usize>, Vec<usize>) {
        let (manifest, now) = (version.manifest, version.now);
        let (mut added, mut reused) = (Vec::new(), Vec::new());
        while let Some((_, name)) = channel.names.pop_front_if(|(until, _)| *until <= now) {
            match self.named.get(&name).filter(|known| known.channel == id) {
                // A file of which later segments are parts.
                Some(known) if known.until > now => channel.names.push_back((known.until, name)),
                Some(_) => drop(self.named.remove(&name)),
                None => {}
            }
        }
        let first = match manifest.progress {
            Some(Progress::Playlist { first, .. }) => Some(first),
            _ => None,
        };
        let end_ms = manifest.names.iter().map(Name::end_ms).max().unwrap_or(0);
        let old = manifest.names.len().saturating_sub(NAMES_MAX);
        let both = manifest.names.iter().zip(&version.names).enumerate();
        for (at, (name, key)) in both.skip(old) {
            let ms = Duration::from_millis;
            let span = match name.kind {
                Kind::Key => continue,
                // A sibling, a later version, or what changes this one into that.
                Kind::Playlist => manifest.window,
                // RFC 8216 §6.2.2: as long as the longest playlist it was in, and its own length.
                Kind::Segment => ms(name.before_ms) + ms(name.duration_ms) * 2 + manifest.window,
                Kind::Part | Kind::Hint => manifest.target * TARGETS_OF_PARTS,
                Kind::Init | Kind::InitElsewhere => INIT_LIFETIME.max(manifest.window),
            };
            let (class, kind) = (version.class, name.kind);
            let until = now.plus(span);
            let newest_at = UnixMillis(now.0.saturating_sub(end_ms - name.end_ms()));
            let sequence = name.sequence;
            let duration_ms = u32::try_from(name.duration_ms).unwrap_or(u32::MAX);
            let parts_end = name.range.as_ref().map_or(0, |range| range.end);
            let new = Named {
                channel: id,
                class,
                kind,
                until,
                newest_at,
                sequence,
                duration_ms,
                parts_end,
            };
            let hash = key.hash();
            let owner = self.named.get(&hash).map(|known| known.channel).filter(|of| *of != id);
            let is_left =
                owner.is_some_and(|owner| channel.has_begun_after(self.by_key.get(&owner)));
            match self.named.get_mut(&hash) {
                // Another playlist of the same, as each player's own, that has not been read since the
                // packager started again.
                Some(known) if is_left => {
                    *known = new;
                    channel.names.push_back((until, hash));
                    added.push(at);
                    reused.push(at);
                }
                // A further part of the same file.
                Some(known) if known.channel == id && known.parts_end < parts_end => {
                    *known = Named { until: known.until.max(until), ..new };
                    added.push(at);
                }
                // It is what has a later number now (against RFC 8216 §6.2.2). What is listed several
                // times is the same each time.
                Some(known)
                    if known.channel == id
                        && name.kind == Kind::Segment
                        && known.sequence.is_some()
                        && known.sequence < sequence
                        && first.is_some() =>
                {
                    if known.sequence < first {
                        doubted.push(hash);
                    }
                    *known = Named { until: known.until.max(until), ..new };
                }
                // What it is named for stays: the window moved as time did.
                Some(known) if known.channel == id && !name.kind.is_init() => {
                    known.class = version.class;
                }
                Some(known) if known.channel == id && known.parts_end > parts_end => {}
                Some(known) if known.channel == id => *known = new,
                Some(known) => {
                    known.class = known.class.max(new.class);
                    known.until = known.until.min(new.until);
                }
                None => {
                    self.named.insert(hash, new);
                    channel.names.push_back((new.until, hash));
                    added.push(at);
                    if channel.begun_again.is_some() {
                        reused.push(at);
                    }
                }
            }
        }
        (added, reused)
    }

    pub(super) fn of(&self, key: &Key, now: UnixMillis) -> Option<Belongs> {
        if self.keys.get(key.hash()).is_some() {
            return Some(Belongs::Key);
        }
        let bandwidth = |channel: u128| self.bitrates.get(channel).copied().unwrap_or(0);
        if let Some(channel) = self.by_key.get(&key.hash()) {
            let about = About { bandwidth: bandwidth(key.hash()), ..channel.about };
            return Some(Belongs::Manifest(about));
        }
        if let Some(named) = self.named.get(&key.hash())
            && let Some(channel) = self.by_key.get(&named.channel)
        {
            let about = About {
                class: named.class,
                bandwidth: bandwidth(named.channel),
                sequence: named.sequence,
                duration_ms: named.duration_ms.into(),
                behind: named.behind(channel.about.window, now),
                ..channel.about
            };
            return Some(Belongs::Named(about, named.kind, named.until));
        }
        let text = text_of(key);
        let mut beside = None;
        for channels in folders(text).filter_map(|folder| self.folders.get(folder)) {
            let channels = channels.iter().filter_map(|id| self.by_key.get(id));
            for channel in channels {
                let mut templates = channel.templates.iter();
                if let Some(template) = templates.find(|template| mpd::matches(template, text)) {
                    let series = channel.series.get(template);
                    let value = series.and_then(|_| mpd::value(template, text));
                    let later =
                        series.zip(value).and_then(|(of, value)| of.sequel.later(value, now));
                    let later = u32::try_from(later.unwrap_or(0)).unwrap_or(u32::MAX);
                    let about = About {
                        bandwidth: series.map_or(0, |series| series.bandwidth),
                        sequence: value
                            .filter(|_| series.is_some_and(|of| of.sequel.is_numbered())),
                        behind: channel.about.target.saturating_mul(later),
                        ..channel.about
                    };
                    let span = about.window + about.target * 2;
                    return Some(Belongs::Named(about, Kind::Segment, now.plus(span)));
                }
                beside.get_or_insert(channel.about);
            }
        }
        beside.map(Belongs::Beside)
    }

    pub(super) fn reload(&self, id: &Key, asked: Directives, now: UnixMillis) -> Reload {
        let Some(channel) = self.by_key.get(&id.hash()) else {
            return self.ended.reload(id, asked);
        };
        // A version from before may be far behind by now.
        let is_new = |newest: &&Newest| now.since(newest.read) <= channel.about.target;
        let newest = channel.newest[asked.skip.kind()].as_ref().filter(is_new);
        let furthest = || {
            let known = channel.newest.iter().flatten().filter(is_new);
            known.max_by_key(|newest| newest.edge).filter(|_| channel.can_block)
        };
        if asked.is_wrong {
            let known = furthest().map(|newest| newest.known.clone());
            return known.map_or(Reload::Unknown, Reload::Wrong);
        }
        if let Some(newest) = newest.filter(|newest| asked.are_met(newest.edge, newest.last_parts))
        {
            return Reload::Has(newest.known.clone());
        }
        let far = furthest().filter(|newest| {
            // What has come since it was read.
            let since = now.since(newest.read).as_millis() / newest.segment_min.as_millis().max(1);
            let since = u64::try_from(since).unwrap_or(u64::MAX);
            let most =
                newest.edge.sequence.saturating_add(SEGMENTS_AHEAD_MAX).saturating_add(since);
            asked.sequence.is_some_and(|sequence| sequence > most)
        });
        far.map_or(Reload::Unknown, |newest| Reload::TooFar(newest.known.clone()))
    }

    /// Takes a channel out, with its names left.
    fn take(&mut self, id: u128) -> Option<Channel> {
        let channel = self.by_key.remove(&id)?;
        self.bytes -= channel.bytes;
        for folder in &channel.folders {
            if let Some(channels) = self.folders.get_mut(folder) {
                channels.remove(&id);
                if channels.is_empty() {
                    self.folders.remove(folder);
                }
            }
        }
        Some(channel)
    }

    fn put(&mut self, id: u128, mut channel: Channel) {
        let texts = channel
            .templates
            .iter()
            .chain(&channel.folders)
            .chain(channel.series.keys())
            .map(|text| text.len() + 32);
        channel.bytes = CHANNEL_BYTES
            + channel.text.len()
            + channel.names.len() * NAME_BYTES
            + channel.series.values().map(series_bytes).sum::<usize>()
            + 2 * texts.sum::<usize>();
        self.bytes += channel.bytes;
        for folder in &channel.folders {
            self.folders.entry(folder.clone()).or_default().insert(id);
        }
        self.by_key.insert(id, channel);
    }

    /// Takes a channel out with all it named.
    pub(super) fn remove(&mut self, id: u128) {
        let Some(channel) = self.take(id) else { return };
        for (_, name) in channel.names {
            if self.named.get(&name).is_some_and(|named| named.channel == id) {
                self.named.remove(&name);
            }
        }
    }

    /// Lets those go that were read longest ago, until there is room. O(channels), where there is none.
    fn make_room(&mut self, newest: u128) {
        while self.by_key.len() > CHANNELS_MAX || self.bytes > BYTES_MAX {
            let others = self.by_key.iter().filter(|(id, _)| **id != newest);
            let oldest = others.min_by_key(|(_, channel)| channel.about.read).map(|(id, _)| *id);
            self.remove(oldest.unwrap_or(newest));
            if oldest.is_none() {
                return;
            }
        }
    }
}

/// What series of a version list, by their places, that those of the version before did not: the newest of each,
/// [`LISTED_NEW_MAX`] of all.
fn newly_listed(channel: &Channel, version: &Version<'_>) -> Vec<(usize, u64)> {
    let most = LISTED_NEW_MAX / version.series.len().max(1);
    let mut new = Vec::new();
    for (at, (key, series)) in version.series.iter().enumerate() {
        let before = channel.series.get(text_of(key)).map(|before| before.sequel.listed());
        let last = before.and_then(|listed| listed.last().copied());
        let listed = series.sequel.listed();
        let first = listed.partition_point(|value| last.is_some_and(|last| *value <= last));
        let first = first.max(listed.len().saturating_sub(most));
        new.extend(listed.iter().skip(first).map(|value| (at, *value)));
    }
    new
}

/// The folders in which a channel has something.
fn folders_of(text: &str, templates: &[Box<str>], names: &[Key]) -> Vec<Box<str>> {
    let folder = |text: &str| {
        let fixed = text.split('$').next().unwrap_or_default();
        let path = fixed.split('?').next().unwrap_or_default();
        path.rfind('/').map(|at| Box::from(&path[..=at]))
    };
    let texts = templates.iter().map(|text| &**text).chain([text]);
    let named = names.last().map(text_of).unwrap_or_default();
    let mut folders: Vec<_> = texts.chain([named]).filter_map(folder).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// What a series takes besides its template.
fn series_bytes(series: &Series) -> usize {
    let start = series.initialization.as_ref().map_or(0, String::len);
    size_of::<Series>() + series.template.len() + start + series.sequel.runs_bytes()
}
