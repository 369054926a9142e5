//! The channels that are known, and what belongs to them.

use super::directives::{Directives, Known, Reload};
use super::limits::{
    BITRATES_MAX, BYTES_MAX, CHANNEL_BYTES, CHANNELS_MAX, FOLDERS_MAX, FOLLOWED_MAX, INIT_LIFETIME,
    KEYS_MAX, NAME_BYTES, NAMES_MAX, SEGMENTS_AHEAD_MAX, TARGETS_OF_EDGE, TARGETS_OF_PARTS,
    TARGETS_OF_START, TARGETS_OF_WAIT,
};
use super::recent::Recent;
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::reason::Reason;
use freshet_media::mpd::{self, Sequel, Series};
use freshet_media::{Class, Edge, Kind, Manifest};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What goes on, by its playlists and manifests.
#[derive(Default)]
pub struct Channels {
    table: Mutex<Table>,
    /// How many there are, to be asked before any work, and how many keys.
    count: AtomicUsize,
    key_count: AtomicUsize,
}

struct Table {
    by_key: HashMap<u128, Channel>,
    /// What a playlist names, by the key of that.
    named: HashMap<u128, Named>,
    /// Channels with something in a folder: a playlist, or what a template stands for.
    folders: HashMap<Box<str>, HashSet<u128>>,
    /// How far qualities of DASH are followed, by their templates.
    followed: HashMap<Box<str>, Front>,
    /// Bits a second of playlists, as those say that name them.
    bitrates: Recent<u64>,
    /// What segments are deciphered with, of films too.
    keys: Recent<()>,
    bytes: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            named: HashMap::new(),
            folders: HashMap::new(),
            followed: HashMap::new(),
            bitrates: Recent::new(BITRATES_MAX),
            keys: Recent::new(KEYS_MAX),
            bytes: 0,
        }
    }
}

struct Channel {
    /// Key of its playlist, for people.
    text: Box<str>,
    about: About,
    can_block: bool,
    /// The newest version: the whole one, and the one that leaves out what players know.
    newest: [Option<Newest>; 2],
    /// What its playlist named, with the time until which it is of use.
    names: VecDeque<(UnixMillis, u128)>,
    /// Keys of segments with numbers or times in the place of what is between dollar signs.
    templates: Vec<Box<str>>,
    /// What some of these stand for, one segment after the other.
    series: HashMap<Box<str>, Series>,
    folders: Vec<Box<str>>,
    bytes: usize,
}

/// How far a quality of DASH is followed.
struct Front {
    channel: u128,
    /// The number or time of the segment that was fetched last.
    value: u64,
    /// Whether it was a player that asked for it.
    is_asked: bool,
}

/// What comes next in a quality of DASH.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Coming {
    /// The text of the key of the segment before, where that was fetched ahead and no player is known to
    /// have asked for it.
    pub(crate) before: Option<String>,
    /// The next one's number or time, the text of its key, and from when on it can be asked for; `None`
    /// where it is not known yet.
    pub(crate) next: Option<(u64, String, UnixMillis)>,
    /// The longest segment of the channel.
    pub(crate) target: Duration,
}

/// A version that is stored.
struct Newest {
    known: Known,
    edge: Edge,
    last_parts: u32,
    read: UnixMillis,
}

/// What is known of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct About {
    pub(crate) class: Class,
    /// Its longest segment.
    pub(crate) target: Duration,
    /// The longest part, where it has parts.
    pub(crate) part_target: Option<Duration>,
    pub(crate) window: Duration,
    /// When its manifest wants to be asked for again.
    pub(crate) refresh: Option<Duration>,
    /// When it was read last.
    pub(crate) read: UnixMillis,
    /// How many bits a second it has, or the quality of it that is looked at; 0 where nothing says so.
    pub(crate) bandwidth: u64,
    /// The number and the length of the segment that is looked at, or of the part; of one.
    pub(crate) sequence: Option<u64>,
    pub(crate) duration_ms: u64,
}

#[derive(Clone, Copy)]
struct Named {
    channel: u128,
    class: Class,
    kind: Kind,
    until: UnixMillis,
    sequence: Option<u64>,
    duration_ms: u64,
}

/// How something that is fetched belongs to a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Belongs {
    /// It is its playlist or manifest.
    Manifest(About),
    /// It is named there as this, and of use until then.
    Named(About, Kind, UnixMillis),
    /// It is beside something of it.
    Beside(About),
    /// It is what segments are deciphered with, of a channel or a film.
    Key,
}

/// A version of a manifest of a channel.
pub(crate) struct Version<'a> {
    /// The key of the manifest itself, without directives.
    pub(crate) id: &'a Key,
    pub(crate) manifest: &'a Manifest,
    pub(crate) class: Class,
    /// Keys of what it names, in its order, and of its templates.
    pub(crate) names: Vec<Key>,
    pub(crate) templates: Vec<Key>,
    /// What templates stand for, one segment after the other, by their keys.
    pub(crate) series: Vec<(Key, Series)>,
    /// Where it is stored, and whether it leaves out what players know.
    pub(crate) stored: Option<(Known, bool)>,
    pub(crate) now: UnixMillis,
}

impl Channels {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Takes over what a version says. The places of the names that are new, in their order.
    pub(crate) fn note(&self, version: &Version<'_>) -> Vec<usize> {
        let mut table = self.table();
        let new = table.note(version);
        self.count.store(table.by_key.len(), Relaxed);
        new
    }

    /// Forgets a channel that has ended; what was its own is as the configuration says from now on.
    pub(crate) fn end(&self, id: &Key) {
        if self.count() == 0 {
            return;
        }
        let mut table = self.table();
        table.remove(id.hash());
        self.count.store(table.by_key.len(), Relaxed);
    }

    /// Whether nothing is known that anything could belong to.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0 && self.key_count.load(Relaxed) == 0
    }

    /// Takes over what a manifest says segments are deciphered with.
    pub(crate) fn note_keys(&self, keys: impl Iterator<Item = Key>) {
        let keys: Vec<_> = keys.map(|key| key.hash()).collect();
        if keys.is_empty() {
            return;
        }
        let mut table = self.table();
        keys.into_iter().for_each(|key| table.keys.insert(key, ()));
        self.key_count.store(table.keys.len(), Relaxed);
    }

    /// Takes over what a multivariant playlist says of the bits a second of others.
    pub(crate) fn note_bitrates(&self, playlists: impl Iterator<Item = (Key, u64)>) {
        let playlists: Vec<_> = playlists.collect();
        if playlists.is_empty() {
            return;
        }
        let mut table = self.table();
        playlists.iter().for_each(|(key, bits)| table.bitrates.insert(key.hash(), *bits));
    }

    /// The channel something belongs to.
    pub(crate) fn of(&self, key: &Key, now: UnixMillis) -> Option<Belongs> {
        if self.is_empty() { None } else { self.table().of(key, now) }
    }

    /// A player has asked for the segment `key`, which a template stands for. The template's text, where
    /// it is to be followed from now on: until [`forget_front`](Self::forget_front).
    pub(crate) fn note_front(&self, key: &Key) -> Option<Box<str>> {
        if self.count() == 0 { None } else { self.table().note_front(key) }
    }

    /// What comes next in the quality of this template, while its channel goes on.
    pub(crate) fn coming(&self, template: &str) -> Option<Coming> {
        self.table().coming(template)
    }

    /// This segment of it was fetched ahead.
    pub(crate) fn advance(&self, template: &str, value: u64) {
        if let Some(front) =
            self.table().followed.get_mut(template).filter(|front| front.value < value)
        {
            (front.value, front.is_asked) = (value, false);
        }
    }

    /// It is followed no more.
    pub(crate) fn forget_front(&self, template: &str) {
        self.table().followed.remove(template);
    }

    /// What can be said of a request for the playlist `id`.
    pub(crate) fn reload(&self, id: &Key, asked: Directives, now: UnixMillis) -> Reload {
        if self.count() == 0 { Reload::Unknown } else { self.table().reload(id, asked, now) }
    }

    /// How long an answer is waited for that the origin of the playlist `id` holds back.
    pub(crate) fn wait_of(&self, id: &Key) -> Option<Duration> {
        let table = self.table();
        let channel = table.by_key.get(&id.hash())?;
        Some(channel.about.target * TARGETS_OF_WAIT)
    }

    /// Until when a player may begin with what is stored of the playlist or manifest `key`, where it is
    /// a channel's.
    pub(crate) fn begins_until(&self, key: &Key, now: UnixMillis) -> Option<UnixMillis> {
        match self.of(key, now)? {
            Belongs::Manifest(about) => Some(about.read.plus(about.target * TARGETS_OF_START)),
            Belongs::Named(..) | Belongs::Beside(_) | Belongs::Key => None,
        }
    }

    /// What is known of the channel something belongs to, for people.
    pub fn explain(&self, key: &Key, now: UnixMillis) -> Option<String> {
        let belongs = self.of(key, now)?;
        let (about, reason, what) = match belongs {
            Belongs::Manifest(about) => {
                (about, Reason::MediaLive, "this is its manifest".to_owned())
            }
            Belongs::Named(about, _, until) => {
                let left = Duration::from_millis(until.0.saturating_sub(now.0));
                (about, about.reason(until, now), format!("this is of use for {}", seconds(left)))
            }
            Belongs::Beside(about) => {
                (about, Reason::MediaLate, "this is beside its segments".to_owned())
            }
            Belongs::Key => {
                return Some(format!("a key that a playlist names ({})", Reason::MediaKey));
            }
        };
        let read = now.since(about.read);
        Some(format!(
            "{} channel, window {}, target {}; {what}; its manifest was read {} ago ({reason})",
            about.class.name(),
            seconds(about.window),
            seconds(about.target),
            seconds(read),
        ))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note(&mut self, version: &Version<'_>) -> Vec<usize> {
        let (id, manifest) = (version.id.hash(), version.manifest);
        let about = version.about();
        let text = String::from_utf8_lossy(version.id.text()).into_owned();
        let mut channel = match self.take(id) {
            Some(known) => Channel { about, can_block: manifest.can_block, ..known },
            None => Channel {
                text: text.clone().into(),
                about,
                can_block: manifest.can_block,
                newest: [None, None],
                names: VecDeque::new(),
                templates: Vec::new(),
                series: HashMap::new(),
                folders: Vec::new(),
                bytes: 0,
            },
        };
        channel.newer(version);
        let new = self.name(id, &mut channel, version);
        channel.templates =
            version.templates.iter().map(|key| text_of(key).into()).collect::<Vec<Box<str>>>();
        let series = version.series.iter();
        channel.series =
            series.map(|(key, series)| (text_of(key).into(), series.clone())).collect();
        channel.folders = folders_of(&text, &channel.templates, &version.names);
        self.put(id, channel);
        self.make_room(id);
        new
    }

    /// Registers what a version names that was not named before, and says where that is in it.
    fn name(&mut self, id: u128, channel: &mut Channel, version: &Version<'_>) -> Vec<usize> {
        let (manifest, now) = (version.manifest, version.now);
        let mut added = Vec::new();
        while let Some((_, name)) = channel.names.pop_front_if(|(until, _)| *until <= now) {
            if self.named.get(&name).is_some_and(|known| known.until <= now) {
                self.named.remove(&name);
            }
        }
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
                Kind::Init => INIT_LIFETIME.max(manifest.window),
            };
            let (class, kind) = (version.class, name.kind);
            let until = now.plus(span);
            let (sequence, duration_ms) = (name.sequence, name.duration_ms);
            let new = Named { channel: id, class, kind, until, sequence, duration_ms };
            let hash = key.hash();
            match self.named.get_mut(&hash) {
                // What it is named for stays: the window moved as time did.
                Some(known) if known.channel == id && name.kind != Kind::Init => {
                    known.class = version.class;
                }
                Some(known) if known.channel == id => *known = new,
                Some(known) => {
                    known.class = known.class.max(new.class);
                    known.until = known.until.min(new.until);
                }
                None => {
                    self.named.insert(hash, new);
                    channel.names.push_back((new.until, hash));
                    added.push(at);
                }
            }
        }
        added
    }

    fn of(&self, key: &Key, now: UnixMillis) -> Option<Belongs> {
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
                duration_ms: named.duration_ms,
                ..channel.about
            };
            return Some(Belongs::Named(about, named.kind, named.until));
        }
        let text = std::str::from_utf8(key.text()).ok()?;
        let mut beside = None;
        let ends = text.match_indices('/').map(|(at, _)| at + 1);
        let ends: Vec<_> = ends.collect();
        for end in ends.iter().rev().take(FOLDERS_MAX) {
            let Some(channels) = self.folders.get(text.get(..*end)?) else { continue };
            let channels = channels.iter().filter_map(|id| self.by_key.get(id));
            for channel in channels {
                let mut templates = channel.templates.iter();
                if let Some(template) = templates.find(|template| mpd::matches(template, text)) {
                    let series = channel.series.get(template);
                    let numbered = series.filter(|series| series.sequel.is_numbered());
                    let about = About {
                        bandwidth: series.map_or(0, |series| series.bandwidth),
                        sequence: numbered.and_then(|_| mpd::value(template, text)),
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

    fn note_front(&mut self, key: &Key) -> Option<Box<str>> {
        let text = text_of(key);
        let ends = text.match_indices('/').map(|(at, _)| at + 1).collect::<Vec<_>>();
        let folders = ends.iter().rev().take(FOLDERS_MAX).filter_map(|end| text.get(..*end));
        let channels = folders.filter_map(|folder| self.folders.get(folder)).flatten();
        let found =
            channels.filter_map(|id| Some((*id, self.by_key.get(id)?))).find_map(|(id, of)| {
                let value = |template: &str| mpd::value(template, text);
                of.series.keys().find_map(|template| Some((id, template.clone(), value(template)?)))
            });
        let (channel, template, value) = found?;
        let new = Front { channel, value, is_asked: true };
        let is_full = self.followed.len() >= FOLLOWED_MAX;
        match self.followed.get_mut(&template) {
            // Who is behind is behind what others have fetched.
            Some(front) if value < front.value => None,
            Some(front) => {
                *front = new;
                None
            }
            None if is_full => None,
            None => {
                self.followed.insert(template.clone(), new);
                Some(template)
            }
        }
    }

    fn coming(&self, template: &str) -> Option<Coming> {
        let front = self.followed.get(template)?;
        let channel = self.by_key.get(&front.channel)?;
        let sequel = &channel.series.get(template)?.sequel;
        let text = |value| mpd::expand(&mpd::expand(template, "Number", value), "Time", value);
        Some(Coming {
            before: (!front.is_asked).then(|| text(front.value)),
            next: sequel.after(front.value).map(|(value, at)| (value, text(value), at)),
            target: channel.about.target,
        })
    }

    fn reload(&self, id: &Key, asked: Directives, now: UnixMillis) -> Reload {
        let (Some(channel), Some(sequence)) = (self.by_key.get(&id.hash()), asked.sequence) else {
            return Reload::Unknown;
        };
        // A version from before may be far behind by now.
        let is_new = |newest: &&Newest| now.since(newest.read) <= channel.about.target;
        let newest = channel.newest[usize::from(asked.skips)].as_ref().filter(is_new);
        if let Some(newest) = newest.filter(|newest| asked.are_met(newest.edge, newest.last_parts))
        {
            return Reload::Has(newest.known.clone());
        }
        let known = channel.newest.iter().flatten().filter(is_new);
        let far = known.max_by_key(|newest| newest.edge).filter(|newest| {
            let most = newest.edge.sequence.saturating_add(SEGMENTS_AHEAD_MAX);
            sequence > most && channel.can_block
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
    fn remove(&mut self, id: u128) {
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

impl Channel {
    /// Takes over how far a version has come, unless one that is further was just read: what two
    /// packagers say in turn does not go back and forth.
    fn newer(&mut self, version: &Version<'_>) {
        let (Some(edge), Some((known, skips))) = (version.manifest.edge(), &version.stored) else {
            return;
        };
        let place = &mut self.newest[usize::from(*skips)];
        let is_older = place.as_ref().is_some_and(|newest| {
            edge < newest.edge && version.now.since(newest.read) <= self.about.target
        });
        if !is_older {
            let (known, last_parts) = (known.clone(), version.manifest.last_parts);
            *place = Some(Newest { known, edge, last_parts, read: version.now });
        }
    }
}

impl Belongs {
    /// Whether it is named, rather than beside what is.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self, Self::Named(..) | Self::Key)
    }
}

impl Version<'_> {
    /// What it says of its channel.
    pub(crate) fn about(&self) -> About {
        let manifest = self.manifest;
        About {
            class: self.class,
            target: manifest.target,
            part_target: manifest.part_target,
            window: manifest.window,
            refresh: manifest.refresh,
            read: self.now,
            bandwidth: 0,
            sequence: None,
            duration_ms: 0,
        }
    }
}

impl About {
    /// Why what is of use until then is kept as it is. Near the newest all segments are live, however
    /// long they can be seen.
    pub(crate) fn reason(&self, until: UnixMillis, now: UnixMillis) -> Reason {
        let left = Duration::from_millis(until.0.saturating_sub(now.0));
        let is_at_edge = left + self.target * TARGETS_OF_EDGE >= self.window * 2;
        if self.class == Class::Live || is_at_edge {
            Reason::MediaLive
        } else {
            Reason::MediaWindow
        }
    }
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
    let runs = match &series.sequel {
        Sequel::Clock { .. } => 0,
        Sequel::Listed { runs, .. } => size_of_val(&runs[..]),
    };
    size_of::<Series>() + series.template.len() + runs
}

fn text_of(key: &Key) -> &str {
    std::str::from_utf8(key.text()).unwrap_or_default()
}

fn seconds(span: Duration) -> String {
    if span.as_secs() >= 10 || span.subsec_millis() == 0 {
        return format!("{} s", span.as_secs());
    }
    format!("{:.1} s", span.as_secs_f64())
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").field("count", &self.count()).finish_non_exhaustive()
    }
}
