//! Reading DASH manifests: one period of numbered segments (ISO/IEC 23009-1 §5).

use super::client::Fault;
use super::xml::{self, Element};
use crate::calendar::{parse_iso_duration, parse_iso_instant};
use freshet_base::clock::UnixMillis;
use std::time::Duration;

/// Segments that a manifest may list; a day of them every second.
const LISTED_MAX: usize = 86_400;

/// A manifest, as far as a player of numbered segments needs it.
#[derive(Debug, PartialEq)]
pub(super) struct Presentation {
    /// What a channel adds; titles have none of it.
    pub(super) live: Option<Live>,
    /// The length of a title.
    pub(super) length: Option<Duration>,
    pub(super) representations: Vec<Representation>,
}

/// When a channel's segments are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Live {
    /// Start of the first segment's availability, less its own length.
    pub(super) start: UnixMillis,
    /// How long to use this manifest.
    pub(super) update: Option<Duration>,
    /// How far behind the newest segment to play.
    pub(super) delay: Option<Duration>,
}

/// One quality of one track.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Representation {
    pub(super) is_video: bool,
    pub(super) bandwidth: u64,
    /// The reference to the track header.
    pub(super) initialization: String,
    /// The reference to a segment, with `$Number$` in it.
    media: String,
    start_number: u64,
    timing: Timing,
}

/// How long segments last.
#[derive(Clone, Debug, PartialEq)]
enum Timing {
    /// All as long as this, except the last of a title.
    Uniform(Duration),
    /// One after the other.
    Listed(Vec<Duration>),
}

impl Representation {
    /// How long the segment `index` lasts; `None` when the manifest lists all and this is not among them.
    pub(super) fn duration(&self, index: u64) -> Option<Duration> {
        match &self.timing {
            Timing::Uniform(duration) => Some(*duration),
            Timing::Listed(durations) => durations.get(usize::try_from(index).ok()?).copied(),
        }
    }

    /// The reference to the segment `index` segments after the start of the period.
    pub(super) fn media(&self, index: u64) -> String {
        expand(&self.media, "Number", self.start_number.saturating_add(index))
    }
}

/// Reads a manifest with at least one representation.
pub(super) fn parse(text: &str) -> Result<Presentation, Fault> {
    let root = xml::parse(text)?;
    let duration =
        |name| root.attribute(name).and_then(parse_iso_duration).map(Duration::from_millis);
    let live = if root.attribute("type") == Some("dynamic") {
        let start = root.attribute("availabilityStartTime").and_then(parse_iso_instant);
        Some(Live {
            start: start.ok_or(Fault::Manifest)?,
            update: duration("minimumUpdatePeriod"),
            delay: duration("suggestedPresentationDelay"),
        })
    } else {
        None
    };
    let period = root.first("Period").ok_or(Fault::Manifest)?;
    let mut representations = Vec::new();
    for set in period.all("AdaptationSet") {
        for representation in set.all("Representation") {
            representations.push(read([representation, set, period], &root)?);
        }
    }
    if representations.is_empty() {
        return Err(Fault::Manifest);
    }
    Ok(Presentation { live, length: duration("mediaPresentationDuration"), representations })
}

/// A representation, with what it inherits from the elements around it, innermost first.
fn read(around: [&Element; 3], root: &Element) -> Result<Representation, Fault> {
    let [representation, set, _] = around;
    let own = |name| representation.attribute(name).or_else(|| set.attribute(name));
    let template = |name| {
        let mut templates = around.iter().filter_map(|element| element.first("SegmentTemplate"));
        templates.find_map(|template| template.attribute(name))
    };
    let number = |name| template(name).and_then(|text| text.parse::<u64>().ok());
    let id = representation.attribute("id").unwrap_or_default();
    let bandwidth = representation.attribute("bandwidth").and_then(|bits| bits.parse().ok());
    let bandwidth: u64 = bandwidth.ok_or(Fault::Manifest)?;
    let base: String = [root, around[2], set, representation]
        .iter()
        .filter_map(|element| element.first("BaseURL"))
        .map(|base| base.text.as_str())
        .collect();
    let reference = |name| {
        let template = template(name).ok_or(Fault::Manifest)?;
        let template = template.replace("$RepresentationID$", id);
        Ok(format!("{base}{}", expand(&template, "Bandwidth", bandwidth)))
    };
    let timescale = number("timescale").unwrap_or(1);
    let duration = |ticks: u64| {
        let seconds = ticks as f64 / timescale as f64;
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| Fault::Manifest)?;
        if duration.is_zero() { Err(Fault::Manifest) } else { Ok(duration) }
    };
    let mut timelines = around.iter().filter_map(|element| {
        element.first("SegmentTemplate").and_then(|template| template.first("SegmentTimeline"))
    });
    let timing = match timelines.next() {
        Some(timeline) => Timing::Listed(listed(timeline, duration)?),
        None => Timing::Uniform(duration(number("duration").ok_or(Fault::Manifest)?)?),
    };
    Ok(Representation {
        is_video: own("mimeType").is_some_and(|kind| kind.starts_with("video/")),
        bandwidth,
        initialization: reference("initialization")?,
        media: reference("media")?,
        start_number: number("startNumber").unwrap_or(1),
        timing,
    })
}

/// The segments of a timeline, in order.
fn listed(
    timeline: &Element,
    duration: impl Fn(u64) -> Result<Duration, Fault>,
) -> Result<Vec<Duration>, Fault> {
    let mut durations = Vec::new();
    for run in timeline.all("S") {
        let number = |name| run.attribute(name).map(|text| text.parse::<usize>());
        let repeats = number("r").unwrap_or(Ok(0)).map_err(|_| Fault::Manifest)?;
        let ticks = number("d").ok_or(Fault::Manifest)?.map_err(|_| Fault::Manifest)?;
        let count = durations.len().saturating_add(repeats).saturating_add(1);
        if count > LISTED_MAX {
            return Err(Fault::Manifest);
        }
        durations.resize(count, duration(ticks as u64)?);
    }
    Ok(durations)
}

/// `template` with `$name$` and `$name%05d$` replaced by `value` (§5.3.9.4.4).
fn expand(template: &str, name: &str, value: u64) -> String {
    let mut expanded = String::with_capacity(template.len() + 8);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let Some((identifier, after)) = after.split_once('$') else {
            expanded.push('$');
            rest = after;
            continue;
        };
        let width = identifier
            .strip_prefix(name)
            .and_then(
                |format| if format.is_empty() { Some("1") } else { format.strip_prefix("%0") },
            )
            .and_then(|format| format.trim_end_matches('d').parse::<usize>().ok())
            .filter(|width| *width <= 20);
        match width {
            Some(width) => expanded.push_str(&format!("{value:0width$}")),
            None => {
                expanded.push('$');
                expanded.push_str(identifier);
                expanded.push('$');
            }
        }
        rest = after;
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::TIMELINE_START;
    use crate::manifest::dash;
    use crate::programme::{Kind, Schedule};

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 6000, window_segments: 60, title_segments: 100 };

    #[test]
    fn our_own_manifests_read_as_meant() {
        let live = parse(&dash::manifest(Kind::Live, &SCHEDULE)).unwrap();
        let timing = live.live.unwrap();
        assert_eq!(timing.start, TIMELINE_START);
        assert_eq!(timing.delay, Some(Duration::from_secs(18)));
        assert_eq!(live.representations.iter().filter(|r| r.is_video).count(), 7);
        let lowest = &live.representations[0];
        assert_eq!(lowest.duration(17), Some(Duration::from_secs(6)));
        assert_eq!(lowest.initialization, "variant01/dshmv/443KB/init.mp4");
        assert_eq!(lowest.media(17), "variant01/dshmv/443KB/17.m4s");
        let title = parse(&dash::manifest(Kind::OnDemand, &SCHEDULE)).unwrap();
        assert_eq!((title.live, title.length), (None, Some(Duration::from_secs(600))));
        let sound = title.representations.iter().find(|track| !track.is_video).unwrap();
        assert_eq!(sound.duration(0), Some(Duration::from_millis(6016)));
        assert!(sound.duration(99).is_some());
        assert_eq!(sound.duration(100), None);
    }

    #[test]
    fn a_timeline_too_long_to_keep_is_refused() {
        let text = "<MPD><Period><AdaptationSet><Representation bandwidth='1'><SegmentTemplate \
                    media='m' initialization='i'><SegmentTimeline><S d='1' r='99999999999'/>\
                    </SegmentTimeline></SegmentTemplate></Representation></AdaptationSet></Period></MPD>";
        assert_eq!(parse(text), Err(Fault::Manifest));
    }

    #[test]
    fn templates_may_pad_numbers_and_inherit() {
        let text = "<MPD><BaseURL>a/</BaseURL><Period><SegmentTemplate timescale='10' duration='15'/>\
                    <AdaptationSet mimeType='audio/mp4'><SegmentTemplate initialization='i-$Bandwidth$'/>\
                    <Representation id='r' bandwidth='9'><BaseURL>b/</BaseURL>\
                    <SegmentTemplate media='$RepresentationID$-$Number%05d$.m4s'/>\
                    </Representation></AdaptationSet></Period></MPD>";
        let read = parse(text).unwrap().representations.remove(0);
        assert_eq!(read.initialization, "a/b/i-9");
        assert_eq!(read.media(41), "a/b/r-00042.m4s");
        assert_eq!(read.duration(0), Some(Duration::from_millis(1500)));
        assert!(!read.is_video);
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        for text in ["<MPD/>", "<MPD><Period/></MPD>", "<MPD type='dynamic'><Period/></MPD>"] {
            assert_eq!(parse(text), Err(Fault::Manifest), "{text}");
        }
    }
}
