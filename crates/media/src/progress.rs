//! Which of two versions of a manifest is further.
//!
//! A channel that two packagers make has two playlists under one name. They are alike, but one is
//! seconds behind the other, and who is given now the one and now the other sees segments vanish that
//! were there before.

use crate::manifest::Edge;
use freshet_base::clock::UnixMillis;

/// How far a version of a manifest has come, of what goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// A media playlist of HLS.
    Playlist {
        /// The media sequence number of the first segment it lists, or leaves out as known.
        first: u64,
        /// How far it has come.
        edge: Edge,
        /// The discontinuity sequence number of what it ends with.
        discontinuity: u64,
        /// Whether a discontinuity is in it, so that the number was lower a window ago.
        has_discontinuity: bool,
        /// When what it ends with was made (`EXT-X-PROGRAM-DATE-TIME`), where it says so.
        until: Option<UnixMillis>,
    },
    /// An MPD of DASH.
    Presentation {
        /// `availabilityStartTime`
        start: Option<UnixMillis>,
        /// Where on the clock the last segment of its timelines ends, where it has timelines.
        until: Option<UnixMillis>,
        /// `publishTime`
        published: Option<UnixMillis>,
        /// The last period it lists.
        period: Option<Period>,
    },
}

/// How a version stands to the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It is as far or further.
    Onward,
    /// It is not as far: it is late, or of a packager that is.
    Behind,
    /// Its numbers are lower, and it says that these are new numbers, as of a packager that has
    /// started again.
    Anew,
}

/// A period of an MPD: where it begins, in milliseconds, and which it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Period {
    /// Where it begins in the presentation, where that is known.
    pub start_ms: Option<u64>,
    /// A hash of its `id`.
    pub id: u64,
}

impl Progress {
    /// How many segments it has come further than a version from before, of playlists of HLS.
    pub fn segments_since(&self, before: &Self) -> Option<u32> {
        match (self, before) {
            (Self::Playlist { edge, .. }, Self::Playlist { edge: edge_before, .. }) => {
                let count = edge.sequence.saturating_sub(edge_before.sequence);
                Some(u32::try_from(count).unwrap_or(u32::MAX))
            }
            _ => None,
        }
    }

    /// How this stands to a version from before.
    ///
    /// A playlist with a lower edge is behind, unless it has new numbers. These are told, where both
    /// playlists have times on the clock, by a later end; where they have none, by a higher
    /// discontinuity number that has just become so, or by an edge before all that the other lists. An
    /// MPD is behind whose timelines end earlier on the clock, unless it was published later and ends with
    /// another period that begins no earlier, as where a break is cut short; without timelines, which was
    /// published earlier and starts no later; one whose time begins after all of the other is another. O(1).
    pub fn after(&self, before: &Self) -> Standing {
        match (*self, *before) {
            (
                Self::Playlist { edge, discontinuity, has_discontinuity, until, .. },
                Self::Playlist {
                    first: first_before,
                    edge: edge_before,
                    discontinuity: discontinuity_before,
                    until: until_before,
                    ..
                },
            ) => {
                if edge >= edge_before {
                    return Standing::Onward;
                }
                let is_anew = match until.zip(until_before) {
                    Some((until, until_before)) => until > until_before,
                    None => {
                        let is_broken = has_discontinuity && discontinuity > discontinuity_before;
                        is_broken || edge.sequence <= first_before
                    }
                };
                if is_anew { Standing::Anew } else { Standing::Behind }
            }
            (
                Self::Presentation { start, until, published, period },
                Self::Presentation {
                    start: start_before,
                    until: until_before,
                    published: published_before,
                    period: period_before,
                },
            ) => {
                // Its time begins when that of the version before is over.
                let over = until_before.or(published_before);
                if start > start_before
                    && start.zip(over).is_some_and(|(start, over)| start >= over)
                {
                    return Standing::Anew;
                }
                let is_other = period.zip(period_before).is_some_and(|(period, before)| {
                    period != before && period.start_ms >= before.start_ms
                });
                let is_behind = match (until.zip(until_before), published.zip(published_before)) {
                    (_, Some((published, before))) if is_other && published > before => false,
                    (Some((until, until_before)), _) => until < until_before,
                    _ if start > start_before => false,
                    (None, Some((published, published_before))) => published < published_before,
                    (None, None) => false,
                };
                if is_behind { Standing::Behind } else { Standing::Onward }
            }
            // Another format under the same name is another thing.
            (Self::Playlist { .. }, _) | (Self::Presentation { .. }, _) => Standing::Anew,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, read};

    /// The progress of a playlist of ten-second segments.
    fn playlist(first: u64, count: u64, tags: &str) -> Progress {
        let mut text =
            format!("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXT-X-MEDIA-SEQUENCE:{first}\n{tags}");
        (0..count).for_each(|number| text.push_str(&format!("#EXTINF:10,\n{number}.ts\n")));
        read(Format::Hls, text.as_bytes()).unwrap().progress.unwrap()
    }

    #[test]
    fn a_lower_edge_is_behind() {
        let before = playlist(100, 5, "");
        for (first, count, standing) in [
            (101, 5, Standing::Onward),
            (100, 5, Standing::Onward),
            // A longer window takes nothing from anybody.
            (50, 56, Standing::Onward),
            (99, 5, Standing::Behind),
            (96, 5, Standing::Behind),
            // What ends where the other begins has its own numbers.
            (95, 5, Standing::Anew),
            (0, 1, Standing::Anew),
        ] {
            assert_eq!(playlist(first, count, "").after(&before), standing, "{first} {count}");
        }
        let part = |count: usize| {
            let part = "#EXT-X-PART:DURATION=1,URI=\"p\"\n".repeat(count);
            let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\na\n{part}");
            read(Format::Hls, text.as_bytes()).unwrap().progress.unwrap()
        };
        assert_eq!(part(1).after(&part(2)), Standing::Behind);
        assert_eq!(part(2).after(&part(2)), Standing::Onward);
    }

    #[test]
    fn the_clock_tells_new_numbers_where_both_have_it() {
        let at = |time: &str| format!("#EXT-X-PROGRAM-DATE-TIME:2026-01-01T{time}\n");
        let before = playlist(100, 5, &at("00:00:00Z"));
        for (first, time, standing) in [
            // Late, however far away its numbers are, and started again.
            (99, "00:00:00.5Z", Standing::Anew),
            (99, "00:00:00+00:00", Standing::Behind),
            (3, "01:59:50+02:00", Standing::Behind),
            (3, "02:00:10+0200", Standing::Anew),
        ] {
            let now = playlist(first, 5, &at(time));
            assert_eq!(now.after(&before), standing, "{first} {time}");
        }
        // One that has no clock is judged by its numbers.
        assert_eq!(playlist(99, 5, "").after(&before), Standing::Behind);
    }

    #[test]
    fn a_discontinuity_tells_new_numbers_while_it_is_new() {
        let before = playlist(100, 5, "#EXT-X-DISCONTINUITY-SEQUENCE:4\n");
        for (tags, standing) in [
            ("#EXT-X-DISCONTINUITY-SEQUENCE:4\n#EXT-X-DISCONTINUITY\n", Standing::Anew),
            ("#EXT-X-DISCONTINUITY-SEQUENCE:3\n#EXT-X-DISCONTINUITY\n", Standing::Behind),
            ("#EXT-X-DISCONTINUITY-SEQUENCE:9\n", Standing::Behind),
            ("", Standing::Behind),
        ] {
            assert_eq!(playlist(98, 5, tags).after(&before), standing, "{tags}");
        }
    }

    #[test]
    fn a_break_that_is_cut_short_is_not_behind() {
        let mpd = |second: u64, periods: &[(&str, u64, u64)]| {
            let periods = periods.iter().map(|(id, start, count)| {
                format!(
                    "<Period id='{id}' start='PT{start}S'><AdaptationSet><SegmentTemplate \
                     media='$Time$'><SegmentTimeline><S t='0' d='4' r='{}'/></SegmentTimeline>\
                     </SegmentTemplate><Representation/></AdaptationSet></Period>",
                    count - 1
                )
            });
            let text = format!(
                "<MPD type='dynamic' availabilityStartTime='2026-01-01T00:00:00Z' \
                 publishTime='2026-01-01T00:17:{second:02}Z'>{}</MPD>",
                periods.collect::<String>()
            );
            read(Format::Mpd, text.as_bytes()).unwrap().progress.unwrap()
        };
        let before = mpd(0, &[("main", 1000, 10), ("ad", 1040, 8)]);
        for (periods, second, standing) in [
            (&[("main", 1000, 10), ("back", 1040, 2)][..], 2, Standing::Onward),
            (&[("main", 1000, 10), ("ad", 1040, 2), ("back", 1048, 1)], 2, Standing::Onward),
            // What was published before it, and another packager that is late.
            (&[("main", 1000, 10), ("back", 1040, 2)], 0, Standing::Behind),
            (&[("main", 1000, 10), ("ad", 1040, 2)], 2, Standing::Behind),
            (&[("main", 1000, 10)], 2, Standing::Behind),
        ] {
            assert_eq!(mpd(second, periods).after(&before), standing, "{periods:?} {second}");
        }
    }

    #[test]
    fn timelines_are_compared_on_the_clock_and_else_what_was_published() {
        let mpd = |start: u64, published: u64, runs: &str| {
            let text = format!(
                "<MPD type='dynamic' availabilityStartTime='2026-01-01T00:{:02}:{:02}Z' \
                 publishTime='2026-01-01T01:00:{published:02}Z'><Period><AdaptationSet>\
                 <SegmentTemplate timescale='10' media='$Time$' presentationTimeOffset='5'>{runs}\
                 </SegmentTemplate><Representation/></AdaptationSet></Period></MPD>",
                start / 60,
                start % 60
            );
            read(Format::Mpd, text.as_bytes()).unwrap().progress.unwrap()
        };
        let runs = |first: u64, repeats: u64| {
            format!("<SegmentTimeline><S t='{first}' d='20' r='{repeats}'/></SegmentTimeline>")
        };
        let before = mpd(0, 30, &runs(1000, 4));
        assert_eq!(mpd(0, 10, &runs(1000, 4)).after(&before), Standing::Onward);
        assert_eq!(mpd(0, 40, &runs(1000, 3)).after(&before), Standing::Behind);
        // The other began two seconds later, and is as far with a segment less.
        assert_eq!(mpd(2, 10, &runs(980, 4)).after(&before), Standing::Onward);
        // And one that begins when the other is over is another: that ends after 109.5 seconds.
        assert_eq!(mpd(109, 40, &runs(5, 0)).after(&before), Standing::Onward);
        assert_eq!(mpd(110, 40, &runs(5, 0)).after(&before), Standing::Anew);
        let before = mpd(0, 30, "");
        assert_eq!(mpd(0, 31, "").after(&before), Standing::Onward);
        assert_eq!(mpd(0, 29, "").after(&before), Standing::Behind);
        assert_eq!(mpd(1, 29, "").after(&before), Standing::Onward);
        assert_eq!(mpd(1, 29, "").after(&playlist(1, 1, "")), Standing::Anew);
    }
}
