//! What a manifest says about the presentation it is of, whatever its format.

use crate::hls::Variables;
use crate::mpd::Series;
use crate::progress::Progress;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

/// What a cache does with what belongs to a presentation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// It does not change any more: a film.
    Vod,
    /// It goes on, and what is old can be seen for long: start-over, catch-up.
    Dvr,
    /// It goes on, and what is old leaves soon.
    Live,
}

impl Class {
    /// `live`, `dvr` or `vod`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Dvr => "dvr",
            Self::Vod => "vod",
        }
    }
}

/// How a presentation goes on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Course {
    /// What is new takes the place of what is old.
    Sliding,
    /// What is new is added.
    Growing,
    /// Nothing changes any more.
    Ended,
    /// It names others that say so: a multivariant playlist.
    OfOthers,
}

/// How far a playlist has come: all of the segments before `sequence` and, of that one, `parts`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Edge {
    /// The media sequence number of the segment that is not whole yet.
    pub sequence: u64,
    /// Parts of it that are there.
    pub parts: u32,
}

/// What is named.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Another manifest.
    Playlist,
    /// A segment.
    Segment,
    /// A part of a segment (low-latency HLS).
    Part,
    /// A part that does not exist yet, and can be asked for.
    Hint,
    /// What a decoder wants first: `EXT-X-MAP`, `Initialization`.
    Init,
    /// The same at another place, for players that do not get it at the first.
    InitElsewhere,
    /// What segments are deciphered with: `EXT-X-KEY`, `EXT-X-SESSION-KEY`.
    Key,
}

impl Kind {
    /// `manifest`, `segment`, `part`, which one that is to come is too, `init` or `key`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Playlist => "manifest",
            Self::Segment => "segment",
            Self::Part | Self::Hint => "part",
            Self::Init | Self::InitElsewhere => "init",
            Self::Key => "key",
        }
    }

    /// Whether a decoder wants it first.
    pub const fn is_init(self) -> bool {
        matches!(self, Self::Init | Self::InitElsewhere)
    }
}

/// Something a manifest names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Name {
    /// What it is.
    pub kind: Kind,
    /// Where its reference is in the bytes of the manifest; in `Manifest::made` for what is not
    /// written there as it is.
    pub reference: Range<u32>,
    /// Its bytes of what the reference means, where it is not all of that; what has no end yet ends at
    /// `u64::MAX`.
    pub range: Option<Range<u64>>,
    /// How long it lasts, in milliseconds; 0 where that has no meaning.
    pub duration_ms: u64,
    /// The media sequence number of the segment it is, or is a part of; of a list of DASH its place there.
    pub sequence: Option<u64>,
    /// How many bits a second the playlist it is has; 0 where nothing says so.
    pub bandwidth: u64,
    /// How much there is before it in the manifest, in milliseconds: so long it stays in the window.
    pub before_ms: u64,
}

impl Name {
    /// How much there is in the manifest until it ends, in milliseconds.
    pub fn end_ms(&self) -> u64 {
        self.before_ms.saturating_add(self.duration_ms)
    }
}

/// A manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// How it goes on.
    pub course: Course,
    /// Its longest segment; zero where it has none.
    pub target: Duration,
    /// The longest part, where it has parts.
    pub part_target: Option<Duration>,
    /// How much it spans: the sum of its segments, or what an MPD says.
    pub window: Duration,
    /// When it wants to be asked for again, where it says so.
    pub refresh: Option<Duration>,
    /// How far it has come, of what can be compared with another version of it.
    pub progress: Option<Progress>,
    /// Parts of the last whole segment that are listed.
    pub last_parts: u32,
    /// Whether a request for what is not there yet is answered when it is (`CAN-BLOCK-RELOAD`).
    pub can_block: bool,
    /// Whether it leaves out what an earlier version has (`EXT-X-SKIP`).
    pub is_delta: bool,
    /// What it names, in its order.
    pub names: Vec<Name>,
    /// References with numbers or times in them, relative to the manifest (DASH).
    pub templates: Vec<String>,
    /// What some of these stand for, one segment after the other.
    pub series: Vec<Series>,
    /// Text of references that were put together.
    pub made: String,
    /// What playlists that it names may import (HLS).
    pub variables: Variables,
}

impl Manifest {
    pub(crate) fn new(course: Course) -> Self {
        Self {
            course,
            target: Duration::ZERO,
            part_target: None,
            window: Duration::ZERO,
            refresh: None,
            progress: None,
            last_parts: 0,
            can_block: false,
            is_delta: false,
            names: Vec::new(),
            templates: Vec::new(),
            series: Vec::new(),
            made: String::new(),
            variables: Variables::default(),
        }
    }

    /// Its class, where what spans more than `dvr_after` is not live but dvr. `None` where others say.
    pub fn class(&self, dvr_after: Duration) -> Option<Class> {
        match self.course {
            Course::Ended => Some(Class::Vod),
            Course::Growing => Some(Class::Dvr),
            Course::Sliding if self.window > dvr_after => Some(Class::Dvr),
            Course::Sliding => Some(Class::Live),
            Course::OfOthers => None,
        }
    }

    /// How far it has come, of a media playlist.
    pub fn edge(&self) -> Option<Edge> {
        match self.progress? {
            Progress::Playlist { edge, .. } => Some(edge),
            Progress::Presentation { .. } => None,
        }
    }

    /// Its shortest segment; the longest it may have where it lists none with a length.
    pub fn segment_min(&self) -> Duration {
        let segments = self.names.iter().filter(|name| name.kind == Kind::Segment);
        let shortest = segments.map(|name| name.duration_ms).filter(|ms| *ms > 0).min();
        shortest.map_or(self.target, Duration::from_millis)
    }

    /// The reference of a name, in a manifest that was read from `bytes`.
    pub fn reference<'a>(&'a self, name: &Name, bytes: &'a [u8]) -> &'a str {
        let range = name.reference.start as usize..name.reference.end as usize;
        let text = if self.made.is_empty() { bytes } else { self.made.as_bytes() };
        text.get(range).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// How long the files are, at least, of which it names parts that have an end: by the reference of each,
    /// in a manifest that was read from `bytes`. O(names).
    pub fn lengths<'a>(&'a self, bytes: &'a [u8]) -> HashMap<&'a str, u64> {
        let mut lengths = HashMap::new();
        for name in &self.names {
            if let Some(range) = name.range.as_ref().filter(|range| range.end < u64::MAX) {
                let length = lengths.entry(self.reference(name, bytes)).or_insert(0);
                *length = range.end.max(*length);
            }
        }
        lengths
    }

    /// Whether a request for a playlist that has this segment, or this part of it, is answered by it
    /// (draft-pantos-hls-rfc8216bis §6.2.5.2).
    pub fn has(&self, sequence: u64, part: Option<u32>) -> bool {
        let Some(edge) = self.edge() else { return false };
        has(edge, self.last_parts, sequence, part)
    }
}

/// Whether a playlist that has come to `edge`, with `last_parts` of its last whole segment, has a
/// segment or a part of one. A part beyond the last of a segment is the first of the next.
pub fn has(edge: Edge, last_parts: u32, sequence: u64, part: Option<u32>) -> bool {
    match part {
        None => sequence < edge.sequence,
        Some(part) if sequence == edge.sequence => part < edge.parts,
        Some(part) if sequence.checked_add(1) == Some(edge.sequence) => {
            part < last_parts || edge.parts > 0
        }
        Some(_) => sequence < edge.sequence,
    }
}
