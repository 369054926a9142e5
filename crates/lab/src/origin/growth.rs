//! Channels of low latency: what is asked for before it is there, and segments that grow.
//!
//! A playlist with directives (`_HLS_msn`, `_HLS_part`) and the part that a playlist hints at are held
//! back until they are there (draft-pantos-hls-rfc8216bis §6.2.5). A segment that is being made is sent
//! chunk by chunk, as low-latency DASH has it.

use crate::ladder::Rung;
use crate::manifest::{PLAYLIST, SEGMENT_SUFFIX};
use crate::media;
use crate::programme::{Edge, Programme, Schedule, parse_number};
use freshet_base::clock::UnixMillis;
use freshet_load::content::Content;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many segments ahead of the newest a player may wait for (the draft's §6.2.5.2).
const SEGMENTS_AHEAD_MAX: u64 = 2;

/// When what is asked for is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due {
    /// As soon as it is asked for, or never.
    Now,
    /// Then: it is what comes next.
    At(UnixMillis),
    /// It is further away than a player may wait for.
    TooFar,
}

/// When what a request for `path` with `query` asks for is there, at `now`.
pub(super) fn due(schedule: &Schedule, path: &str, query: &str, now: UnixMillis) -> Due {
    let (Some(edge), Some((_, file))) = (schedule.edge(now), path.rsplit_once('/')) else {
        return Due::Now;
    };
    if !path.starts_with("/channel-") {
        return Due::Now;
    }
    let wanted = if file == PLAYLIST {
        let directive = |name: &str| {
            let value = query.split('&').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
            value.and_then(parse_number)
        };
        let Some(sequence) = directive("_HLS_msn") else { return Due::Now };
        if sequence > edge.sequence() + SEGMENTS_AHEAD_MAX {
            return Due::TooFar;
        }
        edge.upto(sequence, directive("_HLS_part").unwrap_or(edge.parts_of_segment - 1))
    } else {
        match parse_part(file) {
            // Other parts are not there, or have long been.
            Some((sequence, part)) if edge.upto(sequence, part) == edge.parts + 1 => edge.parts + 1,
            _ => return Due::Now,
        }
    };
    if wanted <= edge.parts { Due::Now } else { Due::At(schedule.parts_end(wanted)) }
}

/// Reads `NUMBER.PART.m4s`.
pub(super) fn parse_part(file: &str) -> Option<(u64, u64)> {
    let (sequence, part) = file.strip_suffix(SEGMENT_SUFFIX)?.split_once('.')?;
    Some((parse_number(sequence)?, parse_number(part)?))
}

/// Whether a file is what exactly one version of a playlist names as new, or such a version.
pub(super) fn is_news(file: &str, query: &str) -> bool {
    parse_part(file).is_some() || (file == PLAYLIST && query.contains("_HLS_msn="))
}

/// A segment of a channel in parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    programme: Programme,
    rung: &'static Rung,
    schedule: Schedule,
    parts_of_segment: u64,
    /// Those that are still to be made, counted from the start of the timeline.
    left: Range<u64>,
}

impl Parts {
    /// Of segment `number`: those `within` it.
    pub(super) fn of(
        programme: Programme,
        rung: &'static Rung,
        schedule: Schedule,
        edge: Edge,
        (number, within): (u64, Range<u64>),
    ) -> Self {
        let parts_of_segment = edge.parts_of_segment;
        let first = number * parts_of_segment;
        let left = first + within.start..first + within.end;
        Self { programme, rung, schedule, parts_of_segment, left }
    }

    /// All of them, whether they have ended or not.
    pub(super) fn make(self) -> Content {
        let bytes: Vec<u8> =
            self.left.clone().flat_map(|index| self.part(index).to_vec()).collect();
        Content::new(bytes, 0, 0)
    }

    fn part(&self, index: u64) -> Content {
        let part_ms = self.schedule.part_ms.unwrap_or(self.schedule.segment_ms);
        media::part(self.programme, self.rung, index, part_ms, self.parts_of_segment)
    }
}

/// Parts that come as they end.
#[derive(Debug)]
pub(super) struct Growth {
    parts: Parts,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Growth {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts, wait: None }
    }

    /// The next part, once it has ended; `None` behind the last.
    pub(super) fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Content>> {
        let index = self.parts.left.start;
        if self.parts.left.is_empty() {
            return Poll::Ready(None);
        }
        let wait = self.wait.get_or_insert_with(|| {
            let end = self.parts.schedule.parts_end(index + 1);
            Box::pin(sleep_until(Instant::now() + end.since(UnixMillis::now())))
        });
        ready!(wait.as_mut().poll(context));
        self.wait = None;
        self.parts.left.start += 1;
        Poll::Ready(Some(self.parts.part(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 2000, part_ms: Some(500), window_segments: 9, title_segments: 1 };

    #[test]
    fn what_comes_next_is_due_when_it_ends() {
        // One part of segment 100 is there.
        let now = UnixMillis(SCHEDULE.live_start(100).0 + 700);
        let at = |ms| Due::At(UnixMillis(SCHEDULE.live_start(100).0 + ms));
        let playlist = "/channel-1/variant01/hlsha/405KB/playlist.m3u8";
        for (query, want) in [
            ("", Due::Now),
            ("_HLS_msn=99", Due::Now),
            ("_HLS_msn=100&_HLS_part=0", Due::Now),
            ("_HLS_msn=100&_HLS_part=1", at(1000)),
            ("_HLS_skip=YES&_HLS_part=3&_HLS_msn=100", at(2000)),
            ("_HLS_msn=100", at(2000)),
            ("_HLS_msn=100&_HLS_part=4", at(2500)),
            ("_HLS_msn=102", at(6000)),
            ("_HLS_msn=103", Due::TooFar),
            ("_HLS_msn=18446744073709551615", Due::TooFar),
            ("_HLS_msn=x", Due::Now),
        ] {
            assert_eq!(due(&SCHEDULE, playlist, query, now), want, "{query}");
        }
        for (file, want) in [
            ("100.0.m4s", Due::Now),
            ("100.1.m4s", at(1000)),
            ("100.2.m4s", Due::Now),
            ("100.m4s", Due::Now),
        ] {
            let path = format!("/channel-1/variant01/hlsha/405KB/{file}");
            assert_eq!(due(&SCHEDULE, &path, "", now), want, "{file}");
        }
        let whole = Schedule { part_ms: None, ..SCHEDULE };
        assert_eq!(due(&whole, playlist, "_HLS_msn=103", now), Due::Now);
        assert_eq!(due(&SCHEDULE, "/vod-1/a/playlist.m3u8", "_HLS_msn=103", now), Due::Now);
    }
}
