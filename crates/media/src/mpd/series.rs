//! Which segments a template stands for, one after the other, and from when on they can be asked for.

use super::presentation::{Representation, Run};
use crate::limits::LISTED_MAX;
use freshet_base::clock::UnixMillis;
use std::time::Duration;

/// What counts for all series of a presentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// When its time begins on the clock.
    pub(super) start: Option<UnixMillis>,
    /// How long it is.
    pub(super) length: Option<Duration>,
    /// Runs of a timeline that are kept, the newest.
    pub(super) runs_max: usize,
}

/// The segments of one quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Their reference, relative to the MPD, with `$Number$` or `$Time$` in it.
    pub template: String,
    /// The reference of what starts their decoder, relative to the MPD.
    pub initialization: Option<String>,
    /// What stands there for one after the other.
    pub sequel: Sequel,
    /// How many bits a second it has; 0 where nothing says so.
    pub bandwidth: u64,
}

/// What stands in the place of a number or a time of a template, for one segment after the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Sequel {
    /// Numbers, of segments as long as each other.
    Clock {
        /// The first number.
        first: u64,
        /// The last, where that is known.
        last: Option<u64>,
        /// When the first segment begins on the clock.
        start: UnixMillis,
        /// How long one lasts, in units of the timescale.
        units: u64,
        /// Units in a second.
        timescale: u64,
        /// How long before its end a segment can be asked for.
        early: Duration,
    },
    /// What a timeline lists, its newest runs.
    Listed {
        /// The number of the first that is listed; `None` where times stand there.
        first: Option<u64>,
        /// Those that are listed.
        runs: Vec<Run>,
    },
}

impl Series {
    /// Those of a representation; `None` for what has no template, one with more than a number or a time in it, or no times.
    pub(super) fn of(
        representation: &Representation,
        Frame { start, length, runs_max }: Frame,
    ) -> Option<Self> {
        let template = representation.media.clone()?;
        let has = |name: &str| template.contains(&format!("${name}"));
        let is_numbered = has("Number");
        if is_numbered == has("Time") || has("SubNumber") || representation.is_open {
            return None;
        }
        let runs = &representation.timeline;
        let sequel = if runs.is_empty() {
            let period = representation.period?;
            let units = representation.duration.filter(|units| *units > 0 && is_numbered)?;
            let (first, timescale) = (representation.start_number, representation.timescale.max(1));
            let rest = length.map(|length| length.saturating_sub(period));
            let count = representation.period_length.or(rest).and_then(|length| {
                let in_units = length.as_millis().checked_mul(timescale.into())?;
                u64::try_from(in_units.div_ceil(u128::from(units) * 1000)).ok()
            });
            Sequel::Clock {
                first,
                last: count.map(|count| first.saturating_add(count).saturating_sub(1)),
                start: start?.plus(period),
                units,
                timescale,
                early: representation.early.unwrap_or_default(),
            }
        } else {
            let old = runs.len().saturating_sub(runs_max);
            let (old, kept) = runs.split_at(old);
            let first = representation.start_number.saturating_add(segments(old));
            Sequel::Listed { first: is_numbered.then_some(first), runs: kept.to_vec() }
        };
        let (initialization, bandwidth) =
            (representation.initialization.clone(), representation.bandwidth);
        Some(Self { template, initialization, sequel, bandwidth })
    }
}

impl Sequel {
    /// What it takes besides itself.
    pub fn runs_bytes(&self) -> usize {
        match self {
            Self::Clock { .. } => 0,
            Self::Listed { runs, .. } => size_of_val(&runs[..]),
        }
    }

    /// Whether numbers stand there, rather than times.
    pub fn is_numbered(&self) -> bool {
        !matches!(self, Self::Listed { first: None, .. })
    }

    /// The number or time of the first; `None` where nothing is listed.
    pub fn first(&self) -> Option<u64> {
        match self {
            Self::Clock { first, .. } => Some(*first),
            Self::Listed { first, runs } => runs.first().map(|run| first.unwrap_or(run.start)),
        }
    }

    /// The numbers or times that are listed, [`LISTED_MAX`] at most; none of what a clock says. O(listed).
    pub fn listed(&self) -> Vec<u64> {
        let Self::Listed { first, runs } = self else { return Vec::new() };
        let of = |run: &Run| {
            let (start, duration) = (run.start, run.duration);
            (0..run.count).map(move |at| start.saturating_add(at.saturating_mul(duration)))
        };
        let times = runs.iter().flat_map(of).take(LISTED_MAX);
        match first {
            Some(first) => times.zip(*first..).map(|(_, number)| number).collect(),
            None => times.collect(),
        }
    }

    /// How many segments there are by `now` after the one with this number or time; `None` where that
    /// cannot be told. O(runs).
    pub fn later(&self, value: u64, now: UnixMillis) -> Option<u64> {
        match self {
            Self::Clock { first, last, start, units, timescale, early } => {
                let ms = u128::from(now.0.checked_sub(start.0)?) + early.as_millis();
                let whole = ms.saturating_mul((*timescale).into());
                let whole = whole / (u128::from(*units) * 1000).max(1);
                let end = first.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX));
                let newest = end.saturating_sub(1).min(last.unwrap_or(u64::MAX));
                Some(newest.saturating_sub(value))
            }
            Self::Listed { first: Some(first), runs } => {
                Some(first.saturating_add(segments(runs)).saturating_sub(1).saturating_sub(value))
            }
            Self::Listed { first: None, runs } => {
                let later = |run: &Run| match value.checked_sub(run.start) {
                    None => run.count,
                    Some(since) => {
                        let place = since.checked_div(run.duration).unwrap_or(u64::MAX);
                        run.count.saturating_sub(place.saturating_add(1))
                    }
                };
                Some(runs.iter().map(later).fold(0, u64::saturating_add))
            }
        }
    }

    /// What comes after the segment with this number or time, and from when on it can be asked for; what
    /// is listed can be from the beginning. `None` where it is not listed yet. O(runs).
    pub fn after(&self, value: u64) -> Option<(u64, UnixMillis)> {
        match self {
            Self::Clock { first, last, start, units, timescale, early } => {
                let next =
                    value.checked_add(1).filter(|next| last.is_none_or(|last| *next <= last))?;
                let whole = u128::from(next.checked_sub(*first)?) + 1;
                let ms = whole.checked_mul(u128::from(*units))?.checked_mul(1000)?;
                let ms = ms / u128::from((*timescale).max(1));
                let end = start.plus(Duration::from_millis(u64::try_from(ms).ok()?));
                let early_ms = u64::try_from(early.as_millis()).unwrap_or(u64::MAX);
                Some((next, UnixMillis(end.0.saturating_sub(early_ms))))
            }
            Self::Listed { first: Some(first), runs } => {
                let next = value.checked_add(1)?;
                let is_there = (*first..first.saturating_add(segments(runs))).contains(&next);
                is_there.then_some((next, UnixMillis(0)))
            }
            Self::Listed { first: None, runs } => {
                let of = |run: &Run| {
                    if run.duration == 0 {
                        return (run.start > value).then_some(run.start);
                    }
                    let later = value.checked_add(1)?.saturating_sub(run.start);
                    let place = later.div_ceil(run.duration);
                    let time = run.start.checked_add(place.checked_mul(run.duration)?)?;
                    (place < run.count).then_some(time)
                };
                Some((runs.iter().find_map(of)?, UnixMillis(0)))
            }
        }
    }
}

/// How many these runs list.
fn segments(runs: &[Run]) -> u64 {
    runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SERIES_RUNS_MAX;
    use crate::mpd::presentation;

    const START: UnixMillis = UnixMillis(1_767_225_600_000);

    /// The series of a presentation that begins at [`START`], with this in its template.
    fn series(attributes: &str, timeline: &str) -> Option<Series> {
        let text = format!(
            "<MPD type='dynamic'><Period start='PT10S'><AdaptationSet><SegmentTemplate timescale='10' \
             {attributes}>{timeline}</SegmentTemplate><Representation id='v'/></AdaptationSet>\
             </Period></MPD>"
        );
        let read = presentation(text.as_bytes()).unwrap();
        let frame = Frame { start: Some(START), length: None, runs_max: SERIES_RUNS_MAX };
        Series::of(&read.representations[0], frame)
    }

    #[test]
    fn what_a_timeline_lists_is_told_by_numbers_and_times() {
        let runs = "<SegmentTimeline><S t='40' d='20' r='2'/><S d='30'/></SegmentTimeline>";
        let listed =
            |attributes: &str, runs: &str| series(attributes, runs).unwrap().sequel.listed();
        assert_eq!(listed("media='$Number$' startNumber='7'", runs), [7, 8, 9, 10]);
        assert_eq!(listed("media='$Time$'", runs), [40, 60, 80, 100]);
        assert_eq!(listed("media='$Number$' duration='20'", ""), Vec::<u64>::new());
        let long = "<SegmentTimeline><S t='0' d='1' r='4000000000'/></SegmentTimeline>";
        assert_eq!(listed("media='$Time$'", long).len(), LISTED_MAX);
    }

    #[test]
    fn numbers_can_be_asked_for_by_the_clock() {
        let of =
            series("media='$RepresentationID$/$Number%03d$' duration='20' startNumber='5'", "");
        let of = of.unwrap();
        assert_eq!(of.template, "v/$Number%03d$");
        let at = |seconds: u64| START.plus(Duration::from_secs(seconds));
        assert_eq!(of.sequel.after(5), Some((6, at(14))));
        assert_eq!(of.sequel.after(6), Some((7, at(16))));
        assert_eq!((of.sequel.after(3), of.sequel.after(u64::MAX)), (None, None));
        let endless = format!("media='$Number$' duration='{}'", u64::MAX);
        let of = series(&endless, "").unwrap();
        assert_eq!(of.sequel.after(u64::MAX - 1), None);
        let early = "media='$Number$' duration='20' availabilityTimeOffset='1.5'";
        let of = series(early, "").unwrap();
        assert_eq!(of.sequel.after(1), Some((2, UnixMillis(at(14).0 - 1500))));
    }

    #[test]
    fn how_many_come_after_one_is_told_by_the_list_or_by_the_clock() {
        let timeline = "<SegmentTimeline><S t='100' d='20' r='2'/><S d='7'/><S t='200' d='20'/>\
                        </SegmentTimeline>";
        let of = series("media='$Time$'", timeline).unwrap();
        let later = [0, 100, 120, 140, 160, 200, 900].map(|time| of.sequel.later(time, START));
        assert_eq!(later, [5, 4, 3, 2, 1, 0, 0].map(Some));
        let of = series("media='$Number$' startNumber='7'", timeline).unwrap();
        let later = [0, 7, 10, 11, 12].map(|number| of.sequel.later(number, START));
        assert_eq!(later, [11, 4, 1, 0, 0].map(Some));
        let of = series("media='$Number$' duration='20' startNumber='5'", "").unwrap();
        let later =
            |number, seconds| of.sequel.later(number, START.plus(Duration::from_secs(seconds)));
        // The first is there 12 s after the start.
        assert_eq!(
            (later(5, 10), later(5, 12), later(5, 14), later(5, 32)),
            (Some(0), Some(0), Some(1), Some(10))
        );
        assert_eq!((later(9, 32), later(99, 32), later(5, 0)), (Some(6), Some(0), None));
        let wild = format!("media='$Number$' duration='1' startNumber='{}'", u64::MAX);
        let of = series(&wild, "").unwrap();
        assert_eq!(of.sequel.later(0, UnixMillis(u64::MAX)), Some(u64::MAX - 1));
    }

    #[test]
    fn a_film_has_a_last_number() {
        for (period, length, last) in [
            ("", "PT9S", Some(5)),
            ("", "PT8S", Some(4)),
            ("duration='PT4S'", "PT9S", Some(2)),
            ("start='PT4S'", "PT9S", Some(3)),
        ] {
            let text = format!(
                "<MPD mediaPresentationDuration='{length}'><Period {period}><AdaptationSet>\
                 <SegmentTemplate media='$Number$' duration='2' initialization='i'/>\
                 <Representation/></AdaptationSet></Period></MPD>"
            );
            let read = crate::mpd::read(text.as_bytes()).unwrap();
            let [of] = &read.series[..] else { panic!("one") };
            let mut numbers = of.sequel.first();
            let mut reached = None;
            while let Some(number) = numbers {
                reached = Some(number);
                numbers = of.sequel.after(number).map(|(next, _)| next);
            }
            assert_eq!((reached, of.initialization.as_deref()), (last, Some("i")), "{period}");
        }
    }

    #[test]
    fn what_a_timeline_lists_can_be_asked_for() {
        let timeline = "<SegmentTimeline><S t='100' d='20' r='2'/><S d='7'/><S t='200' d='20'/>\
                        </SegmentTimeline>";
        let of = series("media='$Time$'", timeline).unwrap();
        let times = [0, 99, 100, 105, 120, 140, 160, 167, 200].map(|time| {
            of.sequel.after(time).map(|(next, at)| {
                assert_eq!(at, UnixMillis(0));
                next
            })
        });
        let want = [100, 100, 120, 120, 140, 160, 200, 200].map(Some);
        assert_eq!(times[..8], want);
        assert_eq!(times[8], None, "it is the last");
        let of = series("media='$Number$' startNumber='7'", timeline).unwrap();
        let numbers = [6, 7, 10, 11].map(|at| of.sequel.after(at).map(|(next, _)| next));
        assert_eq!(numbers, [Some(7), Some(8), Some(11), None]);
        let many = format!("<SegmentTimeline>{}</SegmentTimeline>", "<S d='1'/>".repeat(1000));
        let of = series("media='$Number$'", &many).unwrap();
        assert_eq!(of.sequel.after(1000), None);
        assert_eq!(of.sequel.after(999), Some((1000, UnixMillis(0))));
        assert_eq!(of.sequel.after(1000 - SERIES_RUNS_MAX as u64 - 1), None);
    }

    #[test]
    fn what_says_no_times_has_no_series() {
        let open = "<SegmentTimeline><S t='0' d='20' r='-1'/></SegmentTimeline>";
        for (attributes, timeline) in [
            ("media='x.m4s' duration='20'", ""),
            ("media='$Number$'", ""),
            ("media='$Number$' duration='0'", ""),
            ("media='$Time$' duration='20'", ""),
            ("media='$Number$-$Time$' duration='20'", ""),
            ("media='$Number$.$SubNumber$' duration='20'", ""),
            ("media='$Time$'", open),
        ] {
            assert_eq!(series(attributes, timeline), None, "{attributes}");
        }
    }
}
