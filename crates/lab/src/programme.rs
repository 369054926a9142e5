//! What is on: live channels and titles on demand, and which of their segments exist when.

use crate::calendar::TIMELINE_START;
use freshet_base::clock::UnixMillis;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// How a programme is offered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A channel without beginning or end; segments appear as time passes and leave again.
    Live,
    /// A title of fixed length, there as a whole.
    OnDemand,
}

/// One live channel or one title. Written, it is the first part of its paths: `channel-1`, `vod-12`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Programme {
    /// How it is offered.
    pub kind: Kind,
    /// Counted from 1 within its kind.
    pub number: u32,
}

impl Programme {
    /// Reads what [`fmt::Display`] writes; `None` for anything else, leading zeros included.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, digits) = name
            .strip_prefix("channel-")
            .map(|digits| (Kind::Live, digits))
            .or_else(|| name.strip_prefix("vod-").map(|digits| (Kind::OnDemand, digits)))?;
        Some(Self { kind, number: u32::try_from(parse_number(digits)?).ok()? })
    }
}

impl fmt::Display for Programme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            Kind::Live => "channel",
            Kind::OnDemand => "vod",
        };
        write!(f, "{prefix}-{}", self.number)
    }
}

/// A decimal number in its one shortest form, so that one segment has one path.
pub(crate) fn parse_number(digits: &str) -> Option<u64> {
    let shortest = digits == "0" || !digits.starts_with('0');
    let plain = shortest && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// Whether a segment can be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Availability {
    /// Now.
    Ready,
    /// Not yet: it ends in the future.
    Early,
    /// No longer, or never.
    Gone,
}

/// When segments begin, end and leave. All durations are whole segments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Schedule {
    /// Length of each segment in milliseconds; > 0 and a multiple of 40, the length of a picture.
    pub segment_ms: u64,
    /// Length of each part of a channel's segments in milliseconds; > 0, a multiple of 40, and divides
    /// that of a segment. Channels have low latency with it, and their segments no parts without.
    pub part_ms: Option<u64>,
    /// Segments that a live playlist lists; > 0.
    pub window_segments: u64,
    /// Segments of each title on demand; > 0.
    pub title_segments: u64,
}

impl Schedule {
    /// The numbers that a manifest lists at `now`; empty before the timeline begins. A live segment
    /// is listed once it has ended.
    pub fn listed(&self, kind: Kind, now: UnixMillis) -> Range<u64> {
        match kind {
            Kind::OnDemand => 0..self.title_segments,
            Kind::Live => {
                let end = self.live_end(now);
                end.saturating_sub(self.window_segments)..end
            }
        }
    }

    /// Whether segment `number` can be had at `now`. A live segment stays, after it left the
    /// playlist, for as long as RFC 8216 §6.2.2 asks: its own length and that of the playlist.
    pub fn availability(&self, kind: Kind, number: u64, now: UnixMillis) -> Availability {
        match kind {
            Kind::OnDemand if number < self.title_segments => Availability::Ready,
            Kind::OnDemand => Availability::Gone,
            Kind::Live => {
                let end = self.live_end(now);
                if number >= end {
                    Availability::Early
                } else if number < end.saturating_sub(self.kept_segments()) {
                    Availability::Gone
                } else {
                    Availability::Ready
                }
            }
        }
    }

    /// How much of a channel is there at `now`; `None` where its segments have no parts.
    pub fn edge(&self, now: UnixMillis) -> Option<Edge> {
        let part_ms = self.part_ms?;
        let parts_of_segment = self.segment_ms / part_ms;
        Some(Edge { parts: now.0.saturating_sub(TIMELINE_START.0) / part_ms, parts_of_segment })
    }

    /// When the first `parts` parts of a channel's timeline have all ended.
    pub fn parts_end(&self, parts: u64) -> UnixMillis {
        let part_ms = self.part_ms.unwrap_or(self.segment_ms);
        TIMELINE_START.plus(Duration::from_millis(parts.saturating_mul(part_ms)))
    }

    /// Live segments that exist at a time, listed or not.
    pub fn kept_segments(&self) -> u64 {
        2 * self.window_segments + 1
    }

    /// When live segment `number` begins.
    pub fn live_start(&self, number: u64) -> UnixMillis {
        TIMELINE_START.plus(Duration::from_millis(number.saturating_mul(self.segment_ms)))
    }

    /// One more than the number of the newest live segment that has ended.
    fn live_end(&self, now: UnixMillis) -> u64 {
        now.0.saturating_sub(TIMELINE_START.0) / self.segment_ms
    }
}

/// How far a channel of low latency has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edge {
    /// Parts that have ended since the timeline began.
    pub parts: u64,
    /// How many of them make a segment; > 0.
    pub parts_of_segment: u64,
}

impl Edge {
    /// The number of the segment that is being made.
    pub fn sequence(&self) -> u64 {
        self.parts / self.parts_of_segment
    }

    /// Parts up to the end of part `part` of segment `sequence`; a part behind the last of its segment
    /// is of the next one.
    pub fn upto(&self, sequence: u64, part: u64) -> u64 {
        sequence.saturating_mul(self.parts_of_segment).saturating_add(part).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 6000, part_ms: None, window_segments: 60, title_segments: 100 };

    #[test]
    fn names_read_as_written_and_nothing_else_does() {
        for name in ["channel-1", "vod-12"] {
            assert_eq!(Programme::parse(name).map(|p| p.to_string()).as_deref(), Some(name));
        }
        for name in ["channel-", "channel-01", "channel-+1", "vod-99999999999", "film-1"] {
            assert_eq!(Programme::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_live_segment_is_there_from_its_end_until_a_window_after_it_left_the_playlist() {
        let end = SCHEDULE.live_start(1001);
        let before = UnixMillis(end.0 - 1);
        assert_eq!(SCHEDULE.availability(Kind::Live, 1000, before), Availability::Early);
        assert_eq!(SCHEDULE.availability(Kind::Live, 1000, end), Availability::Ready);
        assert_eq!(SCHEDULE.listed(Kind::Live, end), 941..1001);
        let later = SCHEDULE.live_start(1001 + 60);
        assert_eq!(SCHEDULE.listed(Kind::Live, later).start, 1001);
        assert_eq!(SCHEDULE.availability(Kind::Live, 1000, later), Availability::Ready);
        let last = SCHEDULE.live_start(1000 + 121);
        assert_eq!(SCHEDULE.availability(Kind::Live, 1000, last), Availability::Ready);
        let gone = SCHEDULE.live_start(1000 + 122);
        assert_eq!(SCHEDULE.availability(Kind::Live, 1000, gone), Availability::Gone);
    }

    #[test]
    fn nothing_is_listed_before_the_timeline_begins() {
        assert!(SCHEDULE.listed(Kind::Live, UnixMillis(0)).is_empty());
        assert_eq!(SCHEDULE.availability(Kind::Live, 0, UnixMillis(0)), Availability::Early);
    }

    #[test]
    fn a_channel_of_low_latency_grows_part_by_part() {
        let schedule = Schedule { part_ms: Some(1000), ..SCHEDULE };
        let edge = schedule.edge(UnixMillis(schedule.live_start(10).0 + 2999)).unwrap();
        assert_eq!((edge.parts, edge.sequence()), (62, 10));
        assert_eq!((edge.upto(10, 1), edge.upto(10, 6)), (62, 67));
        assert_eq!(schedule.parts_end(60), schedule.live_start(10));
        assert_eq!(SCHEDULE.edge(UnixMillis(0)), None);
    }

    #[test]
    fn a_title_has_its_segments_at_all_times() {
        assert_eq!(SCHEDULE.listed(Kind::OnDemand, UnixMillis(0)), 0..100);
        let now = UnixMillis(0);
        assert_eq!(SCHEDULE.availability(Kind::OnDemand, 99, now), Availability::Ready);
        assert_eq!(SCHEDULE.availability(Kind::OnDemand, 100, now), Availability::Gone);
    }
}
