//! One channel, and what it says of something that belongs to it.

use crate::directives::{Known, Skip};
use crate::doubts::Doubts;
use crate::limits::{
    PARTS_OF_SILENCE, SILENCE_MIN, TARGETS_OF_BEHIND, TARGETS_OF_EDGE, TARGETS_OF_WAIT,
};
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::reason::Reason;
use freshet_media::mpd::Series;
use freshet_media::{Class, Edge, Kind, Manifest, Progress};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

pub(super) struct Channel {
    /// Key of its playlist, for people.
    pub(super) text: Box<str>,
    pub(super) about: About,
    pub(super) can_block: bool,
    /// When its packager started again last, since it is known.
    pub(super) begun_again: Option<UnixMillis>,
    /// What is stored of its segments from before this place in the order of purges may be something else.
    pub(super) doubted_below: u64,
    /// The discontinuity sequence number it has come to.
    pub(super) discontinuity: u64,
    /// The newest version of each kind, by what it leaves out.
    pub(super) newest: [Option<Newest>; Skip::KINDS],
    /// What its playlist named, with the time until which it is of use.
    pub(super) names: VecDeque<(UnixMillis, u128)>,
    /// Keys of segments with numbers or times in the place of what is between dollar signs.
    pub(super) templates: Vec<Box<str>>,
    /// What some of these stand for, one segment after the other.
    pub(super) series: HashMap<Box<str>, Series>,
    pub(super) folders: Vec<Box<str>>,
    pub(super) bytes: usize,
}

/// A version that is stored.
pub(super) struct Newest {
    pub(super) known: Known,
    pub(super) edge: Edge,
    pub(super) last_parts: u32,
    pub(super) read: UnixMillis,
    /// Its shortest segment; the target duration where it lists none.
    pub(super) segment_min: Duration,
}

/// What is known of a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// Whether it goes on, and for whom.
    pub class: Class,
    /// Its longest segment.
    pub target: Duration,
    /// The longest part, where it has parts.
    pub(crate) part_target: Option<Duration>,
    /// How far back it reaches.
    pub window: Duration,
    /// When its manifest wants to be asked for again.
    pub refresh: Option<Duration>,
    /// When it was read last.
    pub read: UnixMillis,
    /// How many bits a second it has, or the quality of it that is looked at; 0 where nothing says so.
    pub bandwidth: u64,
    /// The number and the length of the segment that is looked at, or of the part; of one.
    pub sequence: Option<u64>,
    pub(crate) duration_ms: u64,
    /// How far behind the newest that is; nothing where it cannot be told.
    pub(crate) behind: Duration,
}

#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) channel: u128,
    pub(super) class: Class,
    pub(super) kind: Kind,
    pub(super) until: UnixMillis,
    /// When it was the newest of its playlist, as far as that told when it was named.
    pub(super) newest_at: UnixMillis,
    pub(super) sequence: Option<u64>,
    pub(super) duration_ms: u32,
    /// Where the last of its parts ends that are named, where it is named by parts.
    pub(super) parts_end: u64,
}

/// How something that is fetched belongs to a channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Belongs {
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
pub struct Version<'a> {
    /// The key of the manifest itself, without directives.
    pub id: &'a Key,
    /// What it says.
    pub manifest: &'a Manifest,
    /// What kind of channel that is.
    pub class: Class,
    /// Keys of what it names, in its order, and of its templates.
    pub names: Vec<Key>,
    /// The keys of its templates.
    pub templates: Vec<Key>,
    /// What templates stand for, one segment after the other, by their keys.
    pub series: Vec<(Key, Series)>,
    /// Where it is stored, and what it may leave out.
    pub stored: Option<(Known, Skip)>,
    /// Whether its packager has started again, so that what was said before says nothing of it.
    pub begins_again: bool,
    /// Whether it had stood still before, so that it may have started again without a word.
    pub has_stood: bool,
    /// When it came.
    pub now: UnixMillis,
}

/// What a version has brought.
#[derive(Debug, PartialEq)]
pub struct Noted {
    /// The places of the names that are new, in their order.
    pub new: Vec<usize>,
    /// Those of them under which something else may be stored, of before its packager started again.
    pub reused: Vec<usize>,
    /// The same of templates, with the number or time that is newly listed.
    pub listed: Vec<(usize, u64)>,
    /// Names whose meaning may have changed since something was stored under them.
    pub doubted: Vec<u128>,
    /// Whether that holds for all of the channel.
    pub is_doubted: bool,
}

impl Channel {
    /// Whether its packager started again after that of another playlist of the same did, where that is still
    /// there: not by the time in which both are read.
    pub(super) fn has_begun_after(&self, other: Option<&Self>) -> bool {
        let Some(begun) = self.begun_again else { return false };
        let wait = self.about.target * TARGETS_OF_BEHIND;
        other.and_then(|other| other.begun_again).is_none_or(|other| begun.since(other) > wait)
    }

    /// Has what is stored from before it was doubted be looked at anew, of these names and of its templates.
    pub(super) fn doubt(&self, names: impl Iterator<Item = u128>, doubts: &Doubts) {
        names.for_each(|name| doubts.doubt(name, self.doubted_below));
        for template in &self.templates {
            doubts.doubt_template(template, self.doubted_below);
        }
    }

    /// Takes over the discontinuity a version has come to; whether it has one that the versions before did not.
    /// One that leaves out segments does not tell.
    pub(super) fn breaks_off(&mut self, version: &Version<'_>) -> bool {
        if version.stored.as_ref().is_some_and(|(_, skip)| *skip != Skip::Nothing) {
            return false;
        }
        let Some(Progress::Playlist { discontinuity, has_discontinuity, .. }) =
            version.manifest.progress
        else {
            return false;
        };
        let before = std::mem::replace(&mut self.discontinuity, discontinuity);
        has_discontinuity && discontinuity > before
    }

    /// Takes over how far a version has come, unless one that is further was just read: what two
    /// packagers say in turn does not go back and forth.
    pub(super) fn newer(&mut self, version: &Version<'_>) {
        let (Some(edge), Some((known, skip))) = (version.manifest.edge(), &version.stored) else {
            return;
        };
        let place = &mut self.newest[skip.kind()];
        let is_older = place.as_ref().is_some_and(|newest| {
            edge < newest.edge && version.now.since(newest.read) <= self.about.target
        });
        if !is_older {
            let (known, last_parts) = (known.clone(), version.manifest.last_parts);
            let segment_min = version.manifest.segment_min();
            *place = Some(Newest { known, edge, last_parts, read: version.now, segment_min });
        }
    }
}

/// What is known of what a request asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// What kind of presentation it is of; `None` for a key, which may be of several.
    pub class: Option<Class>,
    /// What it is there.
    pub kind: Kind,
    /// The number of the segment it is, or is a part of.
    pub sequence: Option<u64>,
    /// Its kilobits a second.
    pub bitrate_kbps: Option<u64>,
}

impl Facts {
    /// Of something in a film.
    pub fn of_film(kind: Kind) -> Self {
        Self { class: Some(Class::Vod), kind, sequence: None, bitrate_kbps: None }
    }
}

impl Belongs {
    /// What is known of it; nothing of what is only beside.
    pub fn facts(&self) -> Option<Facts> {
        let (about, kind) = match self {
            Self::Manifest(about) => (about, Kind::Playlist),
            Self::Named(about, kind, _) => (about, *kind),
            Self::Key => {
                let kind = Kind::Key;
                return Some(Facts { class: None, kind, sequence: None, bitrate_kbps: None });
            }
            Self::Beside(_) => return None,
        };
        let (class, sequence) = (Some(about.class), about.sequence);
        Some(Facts { class, kind, sequence, bitrate_kbps: about.bitrate_kbps() })
    }

    /// Whether it is named, rather than beside what is.
    pub fn is_named(&self) -> bool {
        matches!(self, Self::Named(..) | Self::Key)
    }
}

impl Version<'_> {
    /// What it says of its channel.
    pub fn about(&self) -> About {
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
            behind: Duration::ZERO,
        }
    }
}

impl About {
    /// How late an answer may be and still be of use; `None` where that is not known.
    pub fn late_max(&self) -> Option<Duration> {
        Some(self.target * TARGETS_OF_WAIT).filter(|late| !late.is_zero())
    }

    /// How long one origin of several that says nothing is waited for, before another is asked for the same.
    /// `waits_for_segment`: an answer may be held back until the next segment is whole.
    pub fn silence_max(&self, waits_for_segment: bool) -> Option<Duration> {
        let parts = self.part_target.map(|part| part * PARTS_OF_SILENCE);
        let segment = if waits_for_segment { self.target } else { Duration::ZERO };
        let most = parts.map_or(self.target, |parts| segment + parts);
        Some(most.max(SILENCE_MIN)).filter(|_| !self.target.is_zero())
    }

    /// Its kilobits a second, where they are known.
    pub(crate) fn bitrate_kbps(&self) -> Option<u64> {
        Some(self.bandwidth / 1000).filter(|kbps| *kbps > 0)
    }

    /// Why what is looked at is kept as it is. Near the newest all segments are live, however long they can
    /// be seen.
    pub fn reason(&self) -> Reason {
        let is_at_edge = self.behind <= self.target * TARGETS_OF_EDGE;
        if self.class == Class::Live || is_at_edge {
            Reason::MediaLive
        } else {
            Reason::MediaWindow
        }
    }
}

impl Named {
    /// How far behind the newest it is. What starts a decoder is wanted for all of the window, and parts
    /// only near its end.
    pub(super) fn behind(&self, window: Duration, now: UnixMillis) -> Duration {
        match self.kind {
            Kind::Segment => now.since(self.newest_at),
            Kind::Init | Kind::InitElsewhere => window,
            Kind::Part | Kind::Hint | Kind::Playlist | Kind::Key => Duration::ZERO,
        }
    }
}
