//! Films that are watched, and what comes next in them.
//!
//! A film's manifest says all that will ever be asked for, in its order. Where a player is in it, its
//! requests say. So what comes next is known when it asks, and only then: a film that nobody watches any
//! more asks for nothing.

use super::limits::{
    FILM_BYTES, FILM_LOOK, FILM_PIECES_MAX, FILMS_BYTES_MAX, FILMS_LOOKED_MAX, FILMS_MAX,
};
use super::marks::Marks;
use super::recent::Recent;
use super::{folders, text_of};
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_media::Kind;
use freshet_media::mpd::{self, Sequel};
use freshet_origin::director::stable_hash;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a player asks for: this target of the host its manifest is of, or these bytes of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// The path and query.
    pub target: String,
    /// Which bytes; all where `None`.
    pub range: Option<Range<u64>>,
}

/// A manifest of a film that has come, as players see it.
pub struct Opened {
    /// The key of the manifest itself.
    pub id: Key,
    /// What starts decoders, and segments, in its order.
    pub pieces: Vec<Piece>,
    /// What its templates stand for.
    pub tracks: Vec<Track>,
    /// Whether it is of all qualities, of which a player picks.
    pub is_of_all: bool,
}

/// Something it names.
pub struct Piece {
    /// The key of what is named.
    pub key: Key,
    /// What a player asks for to get it.
    pub wanted: Wanted,
    /// What it is.
    pub kind: Kind,
    /// Segments that follow one another count by one.
    pub sequence: Option<u64>,
}

/// Segments that a template stands for, one after the other.
pub struct Track {
    /// The key of the template.
    pub key: Key,
    /// How they are counted.
    pub sequel: Sequel,
    /// The key of what starts their decoder.
    pub initialization: Option<Key>,
}

/// Films, by their manifests; those asked for longest ago leave first.
pub struct Films {
    table: Mutex<Table>,
    /// What is in the table, so that requests of no film do not wait for it.
    marks: Arc<Marks>,
    /// How many there are, to be asked before any work, and how many folders of tracks.
    count: AtomicUsize,
    folder_count: AtomicUsize,
}

struct Table {
    /// Of places and of folders.
    marks: Arc<Marks>,
    films: HashMap<u128, Film>,
    /// What a request is in which film.
    places: HashMap<u64, (u128, Place)>,
    /// Tracks with segments in a folder.
    folders: HashMap<Box<str>, Vec<(u128, usize)>>,
    /// What was made sure of, and when.
    looked: Recent<UnixMillis>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Manifest,
    Piece(usize),
    /// What starts the decoder of this track.
    Start(usize),
}

struct Film {
    /// The place of its manifest.
    manifest: u64,
    pieces: Vec<Known>,
    tracks: Vec<Numbered>,
    is_of_all: bool,
    used: UnixMillis,
    bytes: usize,
}

struct Known {
    wanted: Wanted,
    kind: Kind,
    sequence: Option<u64>,
    place: u64,
}

struct Numbered {
    /// The text of the key of its template.
    template: Box<str>,
    folder: Box<str>,
    sequel: Sequel,
    place: u64,
    start: Option<u64>,
}

impl Default for Films {
    fn default() -> Self {
        let marks = Arc::<Marks>::default();
        let table = Mutex::new(Table::new(Arc::clone(&marks)));
        Self { table, marks, count: AtomicUsize::new(0), folder_count: AtomicUsize::new(0) }
    }
}

impl Table {
    fn new(marks: Arc<Marks>) -> Self {
        Self {
            marks,
            films: HashMap::new(),
            places: HashMap::new(),
            folders: HashMap::new(),
            looked: Recent::new(FILMS_LOOKED_MAX),
            bytes: 0,
        }
    }

    /// Says what a place is in a film.
    fn put(&mut self, place: u64, id: u128, is: Place) {
        if self.places.insert(place, (id, is)).is_none() {
            self.marks.add(place);
        }
    }
}

impl Films {
    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Takes over what a manifest says; what a player asks for first.
    pub fn note(&self, opened: Opened, now: UnixMillis) -> Vec<Wanted> {
        let mut table = self.table();
        let place = place(&opened.id, 0);
        table.note(opened, now);
        self.count.store(table.films.len(), Relaxed);
        self.folder_count.store(table.folders.len(), Relaxed);
        table.after(place, "", now)
    }

    /// What a player asks for next that has asked for `key`, from this byte on. Nothing for a while where
    /// another has just asked the same.
    pub fn after(&self, key: &Key, start: u64, now: UnixMillis) -> Vec<Wanted> {
        let known = self.known(key, start);
        known.map_or_else(Vec::new, |(mut table, place, text)| table.after(place, text, now))
    }

    /// The segment behind this one, from this byte on, in the film it is in. It is not made sure of by that.
    pub fn next_of(&self, key: &Key, start: u64) -> Option<Wanted> {
        let (table, place, text) = self.known(key, start)?;
        let next = match table.places.get(&place) {
            Some((_, Place::Manifest)) => return None,
            Some((id, place)) => table.films.get(id)?.next(*place),
            None => table.numbered(text)?.1,
        };
        next.into_iter().last().map(|(_, wanted)| wanted)
    }

    /// What this is in a film, from this byte on.
    pub fn kind_of(&self, key: &Key, start: u64) -> Option<Kind> {
        let (table, place, text) = self.known(key, start)?;
        match table.places.get(&place) {
            Some((_, Place::Manifest)) => Some(Kind::Playlist),
            Some((id, Place::Piece(at))) => Some(table.films.get(id)?.pieces.get(*at)?.kind),
            Some((_, Place::Start(_))) => Some(Kind::Init),
            None => table.numbered(text).map(|_| Kind::Segment),
        }
    }

    /// The table, for what may be in it, with the place and the text of that.
    fn known<'k>(&self, key: &'k Key, start: u64) -> Option<(MutexGuard<'_, Table>, u64, &'k str)> {
        if self.is_empty() {
            return None;
        }
        let (place, text) = (place(key, start), text_of(key));
        let may_be = self.marks.may_have(place) || self.may_have_folder_of(text);
        may_be.then(|| (self.table(), place, text))
    }

    fn may_have_folder_of(&self, text: &str) -> bool {
        self.folder_count.load(Relaxed) > 0
            && folders(text).any(|folder| self.marks.may_have(mark(folder)))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn note(&mut self, opened: Opened, now: UnixMillis) {
        let id = opened.id.hash();
        self.remove(id);
        let manifest = place(&opened.id, 0);
        self.put(manifest, id, Place::Manifest);
        let (mut pieces, mut bytes) = (Vec::new(), FILM_BYTES + opened.id.text().len());
        for piece in opened.pieces.into_iter().take(FILM_PIECES_MAX) {
            let Piece { key, wanted, kind, sequence } = piece;
            let place = place(&key, wanted.range.as_ref().map_or(0, |range| range.start));
            // What is named again, as a header, is where it was named first.
            if !self.places.contains_key(&place) {
                self.put(place, id, Place::Piece(pieces.len()));
            }
            bytes += size_of::<Known>() + wanted.target.len() + PLACE_BYTES;
            pieces.push(Known { wanted, kind, sequence, place });
        }
        let mut tracks = Vec::new();
        for track in opened.tracks {
            let template = text_of(&track.key);
            let fixed = template.split('$').next().unwrap_or_default();
            let Some(end) = fixed.rfind('/') else { continue };
            let folder: Box<str> = Box::from(&fixed[..=end]);
            let (place, start) = (place(&track.key, 0), track.initialization);
            let start = start.map(|key| self::place(&key, 0));
            // It is among the pieces too, and leads to the track's first segment.
            if let Some(start) = start {
                self.put(start, id, Place::Start(tracks.len()));
            }
            let of_folder = self.folders.entry(Box::clone(&folder)).or_default();
            if of_folder.is_empty() {
                self.marks.add(mark(&folder));
            }
            of_folder.push((id, tracks.len()));
            let template: Box<str> = Box::from(template);
            bytes += size_of::<Numbered>() + track.sequel.runs_bytes();
            bytes += template.len() + 2 * folder.len() + PLACE_BYTES;
            tracks.push(Numbered { template, folder, sequel: track.sequel, place, start });
        }
        self.bytes += bytes;
        let is_of_all = opened.is_of_all;
        self.films.insert(id, Film { manifest, pieces, tracks, is_of_all, used: now, bytes });
        self.make_room(id);
    }

    fn after(&mut self, place: u64, text: &str, now: UnixMillis) -> Vec<Wanted> {
        let (id, next) = match self.places.get(&place) {
            Some((id, place)) => (*id, self.films.get(id).map(|film| film.next(*place))),
            None => match self.numbered(text) {
                Some((id, next)) => (id, Some(next)),
                None => return Vec::new(),
            },
        };
        let (Some(film), Some(next)) = (self.films.get_mut(&id), next) else {
            return Vec::new();
        };
        film.used = now;
        let mut out: Vec<Wanted> = Vec::new();
        for (place, wanted) in next {
            let known = self.looked.get(place.into());
            if known.is_some_and(|at| now.since(*at) < FILM_LOOK) {
                continue;
            }
            self.looked.insert(place.into(), now);
            let before = out.last_mut().filter(|last| last.target == wanted.target);
            let before = before.and_then(|last| last.range.as_mut());
            match (before, &wanted.range) {
                // One request brings what lies side by side.
                (Some(last), Some(range)) if last.end == range.start => last.end = range.end,
                _ => out.push(wanted),
            }
        }
        out
    }

    /// What comes after the segment of this text, of a track.
    fn numbered(&self, text: &str) -> Option<(u128, Vec<(u64, Wanted)>)> {
        if self.folders.is_empty() {
            return None;
        }
        let mut tracks = folders(text).filter_map(|folder| self.folders.get(folder)).flatten();
        tracks.find_map(|(id, track)| {
            let track = self.films.get(id)?.tracks.get(*track)?;
            let value = mpd::value(&track.template, text)?;
            let next = track.sequel.after(value).map(|(next, _)| track.segment(next));
            Some((*id, next.into_iter().collect()))
        })
    }

    fn remove(&mut self, id: u128) {
        let Some(film) = self.films.remove(&id) else { return };
        self.bytes -= film.bytes;
        let starts = film.tracks.iter().filter_map(|track| track.start);
        let own = film.pieces.iter().map(|piece| piece.place).chain(starts);
        for place in own.chain([film.manifest]) {
            if self.places.get(&place).is_some_and(|(of, _)| *of == id) {
                self.places.remove(&place);
                self.marks.remove(place);
            }
        }
        for track in &film.tracks {
            if let Some(tracks) = self.folders.get_mut(&track.folder) {
                tracks.retain(|(of, _)| *of != id);
                if tracks.is_empty() {
                    self.folders.remove(&track.folder);
                    self.marks.remove(mark(&track.folder));
                }
            }
        }
    }

    /// Lets those go that were asked for longest ago, until there is room. O(films), where there is none.
    fn make_room(&mut self, newest: u128) {
        while self.films.len() > FILMS_MAX || self.bytes > FILMS_BYTES_MAX {
            let others = self.films.iter().filter(|(id, _)| **id != newest);
            let oldest = others.min_by_key(|(_, film)| film.used).map(|(id, _)| *id);
            self.remove(oldest.unwrap_or(newest));
            if oldest.is_none() {
                return;
            }
        }
    }
}

impl Film {
    /// What is asked for behind a place, up to the next segment.
    fn next(&self, place: Place) -> Vec<(u64, Wanted)> {
        let piece = |piece: &Known| (piece.place, piece.wanted.clone());
        match place {
            Place::Manifest if self.is_of_all => {
                let starts = self.pieces.iter().filter(|piece| piece.kind == Kind::Init);
                starts.map(piece).collect()
            }
            Place::Manifest => self.up_to_segment(0, None),
            Place::Piece(at) => {
                let next = self.pieces.get(at).and_then(|piece| piece.sequence);
                self.up_to_segment(at + 1, next.map(|sequence| sequence.saturating_add(1)))
            }
            Place::Start(track) => {
                let track = self.tracks.get(track);
                let first = track.and_then(|track| Some(track.segment(track.sequel.first()?)));
                first.into_iter().collect()
            }
        }
    }

    /// What is from a place on up to the first segment; nothing where that is another than the one that is
    /// to come: it is another quality's.
    fn up_to_segment(&self, from: usize, sequence: Option<u64>) -> Vec<(u64, Wanted)> {
        let mut out = Vec::new();
        for piece in self.pieces.get(from..).unwrap_or_default() {
            if piece.kind == Kind::Segment {
                if sequence.is_some() && piece.sequence != sequence {
                    return Vec::new();
                }
                out.push((piece.place, piece.wanted.clone()));
                return out;
            }
            out.push((piece.place, piece.wanted.clone()));
        }
        // Headers without a segment are another's.
        Vec::new()
    }
}

impl Numbered {
    /// The segment of this number or time.
    fn segment(&self, value: u64) -> (u64, Wanted) {
        let text = mpd::segment(&self.template, value);
        let target = text.rsplit('\0').next().unwrap_or_default().to_owned();
        (self.place ^ value.wrapping_mul(SPREAD), Wanted { target, range: None })
    }
}

/// What a place takes in the table, twice in a map that is half empty.
const PLACE_BYTES: usize = 96;

/// An odd number with its bits well mixed, of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a folder is among marks.
fn mark(folder: &str) -> u64 {
    stable_hash(folder.as_bytes())
}

/// What is asked for, by its key and the byte it begins at.
fn place(key: &Key, start: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, reason = "its bits are evenly spread")]
    let hash = key.hash() as u64;
    hash ^ start.wrapping_mul(SPREAD)
}

impl fmt::Debug for Films {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count.load(Relaxed);
        f.debug_struct("Films").field("count", &count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_cache::Secret;
    use proptest::prelude::*;
    use std::time::Duration;

    fn key(target: &str) -> Key {
        Secret::from_bytes([7; 16]).key("tv", target)
    }

    /// A film with segments that others may have, and a track in a folder that others may have.
    fn film(name: u8, shared: u8) -> Opened {
        let pieces = (0..6).map(|number| {
            let folder = if number < 3 { shared } else { name };
            let target = format!("/v/{folder}/{number}.m4s");
            let wanted = Wanted { target: target.clone(), range: None };
            Piece { key: key(&target), wanted, kind: Kind::Segment, sequence: Some(number) }
        });
        let sequel = Sequel::Clock {
            first: 1,
            last: Some(9),
            start: UnixMillis(0),
            units: 2,
            timescale: 1,
            early: Duration::ZERO,
        };
        let track = Track {
            key: key(&format!("/t/{shared}/$Number$.m4s")),
            sequel,
            initialization: Some(key(&format!("/t/{shared}/init.mp4"))),
        };
        let id = key(&format!("/{name}.mpd"));
        Opened { id, pieces: pieces.collect(), tracks: vec![track], is_of_all: false }
    }

    proptest! {
        /// Who is told without the lock that a request is of no film is told the truth.
        #[test]
        fn what_is_in_the_table_is_marked(steps in prop::collection::vec((0..6_u8, 0..3_u8, any::<bool>()), 1..40)) {
            let films = Films::default();
            for (name, shared, stays) in &steps {
                let film = film(*name, *shared);
                let id = film.id.hash();
                if *stays {
                    let _ = films.note(film, UnixMillis(0));
                } else {
                    films.table().remove(id);
                }
                let table = films.table();
                prop_assert!(table.places.keys().all(|place| films.marks.may_have(*place)));
                prop_assert!(table.folders.keys().all(|folder| films.marks.may_have(mark(folder))));
            }
            let all: Vec<_> = films.table().films.keys().copied().collect();
            all.into_iter().for_each(|id| films.table().remove(id));
            {
                let table = films.table();
                prop_assert_eq!((table.places.len(), table.folders.len()), (0, 0));
            }
            for name in 0..6 {
                for target in [format!("/v/{name}/1.m4s"), format!("/{name}.mpd")] {
                    prop_assert!(!films.marks.may_have(place(&key(&target), 0)));
                }
            }
        }
    }

    #[test]
    fn a_segment_of_a_track_is_found_by_its_folder() {
        let films = Films::default();
        let _ = films.note(film(1, 2), UnixMillis(0));
        let next = films.after(&key("/t/2/3.m4s"), 0, UnixMillis(0));
        let targets: Vec<_> = next.into_iter().map(|wanted| wanted.target).collect();
        assert_eq!(targets, ["/t/2/4.m4s"]);
        assert!(films.after(&key("/u/2/3.m4s"), 0, UnixMillis(0)).is_empty());
        // What it is, and what is behind it, is told as often as it is asked for.
        for _ in 0..2 {
            let next = |target: &str| films.next_of(&key(target), 0).map(|wanted| wanted.target);
            assert_eq!(next("/t/2/3.m4s").as_deref(), Some("/t/2/4.m4s"));
            assert_eq!(next("/v/2/1.m4s").as_deref(), Some("/v/2/2.m4s"));
            assert_eq!(next("/t/2/init.mp4").as_deref(), Some("/t/2/1.m4s"));
            assert_eq!(
                (next("/t/2/9.m4s"), next("/v/1/5.m4s"), next("/1.mpd")),
                (None, None, None)
            );
        }
        let kind = |target: &str| films.kind_of(&key(target), 0);
        assert_eq!(
            (kind("/1.mpd"), kind("/t/2/3.m4s")),
            (Some(Kind::Playlist), Some(Kind::Segment))
        );
        assert_eq!((kind("/t/2/init.mp4"), kind("/x")), (Some(Kind::Init), None));
    }
}
