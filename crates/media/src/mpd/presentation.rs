//! A presentation, with what each representation inherits from the elements around it.

use crate::progress::Period;
use freshet_base::clock::UnixMillis;
use std::ops::Range;
use std::time::Duration;

/// An MPD.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Presentation {
    /// Whether it goes on (`type="dynamic"`).
    pub is_dynamic: bool,
    /// Where its time begins on the clock.
    pub start: Option<UnixMillis>,
    /// When this version of it was made.
    pub published: Option<UnixMillis>,
    /// How long to use it.
    pub update: Option<Duration>,
    /// How far behind the newest segment to play.
    pub delay: Option<Duration>,
    /// How long what is old can be seen; none is from the start.
    pub time_shift: Option<Duration>,
    /// The longest segment, where it says so.
    pub segment_max: Option<Duration>,
    /// The length of all of it.
    pub length: Option<Duration>,
    /// Where later versions of it are, and what changes this version into the next one (`Location`,
    /// `PatchLocation`), relative to the MPD.
    pub later: Vec<String>,
    /// The last period it lists.
    pub last_period: Option<Period>,
    /// Qualities of all tracks in all periods, in their order.
    pub representations: Vec<Representation>,
}

/// One quality of one track.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Representation {
    /// Whether it is pictures.
    pub is_video: bool,
    /// Bits a second; 0 where it does not say.
    pub bandwidth: u64,
    /// The reference of the track header, relative to the MPD.
    pub initialization: Option<String>,
    /// The bytes of that which are the track header, where it is not all of it.
    pub initialization_range: Option<Range<u64>>,
    /// The reference of the same at other places, where there are several `BaseURL`s.
    pub initialization_elsewhere: Vec<String>,
    /// The bytes of a single file that say where its segments are (`indexRange`), and its reference.
    pub index: Option<(String, Range<u64>)>,
    /// The reference of a segment, relative to the MPD, with `$Number$` or `$Time$` in it.
    pub media: Option<String>,
    /// The same at other places.
    pub media_elsewhere: Vec<String>,
    /// Segments that are listed one by one.
    pub listed: Vec<Listed>,
    /// The number of the first segment.
    pub start_number: u64,
    /// Units of time in a second.
    pub timescale: u64,
    /// How long each segment lasts, in such units.
    pub duration: Option<u64>,
    /// How long before its end a segment can be asked for (`availabilityTimeOffset`).
    pub early: Option<Duration>,
    /// How long segments last, one run after the other.
    pub timeline: Vec<Run>,
    /// Whether the last run goes on to the end of its period.
    pub is_open: bool,
    /// Where its period begins in the presentation, where that is known.
    pub period: Option<Duration>,
    /// How long its period lasts, where that says so.
    pub period_length: Option<Duration>,
    /// What the time of a segment is there where its period begins, in units of the timescale.
    pub time_offset: u64,
}

/// A segment that is listed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listed {
    /// Its reference, relative to the MPD.
    pub reference: String,
    /// Its bytes of that, where it is not all of it.
    pub range: Option<Range<u64>>,
}

/// Segments that last as long as each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// When the first begins, in units of the timescale.
    pub start: u64,
    /// How long, in units of the timescale.
    pub duration: u64,
    /// How many. What goes on for good counts as one.
    pub count: u64,
}

impl Run {
    /// When the last ends, in units of the timescale.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration.saturating_mul(self.count))
    }
}

impl Representation {
    /// How long segment `index` lasts, from 0; `None` where it lists all and this is not among them, or
    /// says nothing that makes sense.
    pub fn duration(&self, index: u64) -> Option<Duration> {
        if self.timeline.is_empty() {
            return self.span(self.duration?);
        }
        let mut left = index;
        for run in &self.timeline {
            if left < run.count {
                return self.span(run.duration);
            }
            left -= run.count;
        }
        None
    }

    /// The longest segment.
    pub fn longest(&self) -> Option<Duration> {
        let listed = self.timeline.iter().map(|run| run.duration).max();
        self.span(listed.or(self.duration)?)
    }

    /// Where in the presentation its timeline ends; `None` where it has none, or one that goes on.
    pub fn end(&self) -> Option<Duration> {
        let end = self.timeline.last().filter(|_| !self.is_open)?.end();
        self.at(end)
    }

    /// Where in the presentation this time of a segment is, in units of the timescale.
    pub fn at(&self, time: u64) -> Option<Duration> {
        let units = u128::from(time.checked_sub(self.time_offset)?);
        let ms = units * 1000 / u128::from(self.timescale.max(1));
        self.period?.checked_add(Duration::from_millis(u64::try_from(ms).ok()?))
    }

    /// The reference of segment `index`, from 0, where they are numbered.
    pub fn media(&self, index: u64) -> Option<String> {
        let template = self.media.as_deref()?;
        Some(super::expand(template, "Number", self.start_number.saturating_add(index)))
    }

    fn span(&self, units: u64) -> Option<Duration> {
        let seconds = units as f64 / self.timescale.max(1) as f64;
        Duration::try_from_secs_f64(seconds).ok().filter(|span| !span.is_zero())
    }
}
