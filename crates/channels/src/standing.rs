//! A version of a manifest beside the one that is stored.

use super::limits::{TARGETS_OF_BEHIND, TARGETS_OF_STANDING};
use freshet_base::clock::UnixMillis;
use freshet_media::{Manifest, Progress, Standing};
use std::time::Duration;

/// How far a manifest has come, and since when.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Where it is.
    pub progress: Progress,
    /// When a version first came that is as far.
    pub since: UnixMillis,
    /// How long it is kept beyond its grace at least, so that the next version is compared with it.
    pub keep_min: Duration,
}

/// What becomes of a version that has come.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// It takes the place of the stored one. How far that is, where it can be compared.
    Taken(Option<Reached>),
    /// The same, but it had stood still for so long that its packager may have started again.
    Resumed(Reached),
    /// The same, though it is behind: its numbers are new, or its origin has stayed behind.
    TakenBack(Reached),
    /// The stored one stays, as this one is behind.
    Behind,
}

impl Place {
    /// That of a version that came at `now`, with how far the stored one is, and what was put aside last.
    ///
    /// Who plays has seen the stored one, so what is behind is not taken: another packager is late, and
    /// has what players wait for in a moment. Where it has not for [`TARGETS_OF_BEHIND`] since the stored
    /// one last went on, it is all there is. Low numbers are new ones unless they go on from what was put
    /// aside: then they are of a packager that stands still, or is late by more than a window.
    pub fn of(
        manifest: &Manifest,
        before: Option<Reached>,
        aside: Option<Progress>,
        now: UnixMillis,
    ) -> Self {
        let Some(progress) = manifest.progress else { return Self::Taken(None) };
        let wait = manifest.target * TARGETS_OF_BEHIND;
        let new = Reached { progress, since: now, keep_min: wait };
        let Some(before) = before else { return Self::Taken(Some(new)) };
        let waits = now.since(before.since) < wait;
        let goes_on_aside = aside.is_some_and(|aside| progress.after(&aside) == Standing::Onward);
        match progress.after(&before.progress) {
            Standing::Onward => {
                let is_as_far = before.progress.after(&progress) == Standing::Onward;
                let since = if is_as_far { before.since } else { now };
                let reached = Reached { since, ..new };
                let segments = progress.segments_since(&before.progress);
                let most = segments.map(|count| count.saturating_add(TARGETS_OF_STANDING));
                let most = most.map(|targets| manifest.target.saturating_mul(targets));
                match most {
                    Some(most) if now.since(before.since) > most => Self::Resumed(reached),
                    _ => Self::Taken(Some(reached)),
                }
            }
            Standing::Behind if waits => Self::Behind,
            Standing::Anew if waits && goes_on_aside => Self::Behind,
            Standing::Behind | Standing::Anew => Self::TakenBack(new),
        }
    }

    /// What is put aside by this: the version, or the one before where all it listed lies before this one.
    pub(crate) fn puts_aside(
        &self,
        manifest: &Manifest,
        before: Option<Reached>,
    ) -> Option<Progress> {
        match self {
            Self::Behind => manifest.progress,
            Self::Taken(Some(reached)) | Self::Resumed(reached) => before
                .map(|before| before.progress)
                .filter(|before| before.after(&reached.progress) == Standing::Anew),
            Self::Taken(None) | Self::TakenBack(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_media::{Edge, Format, Progress, read};
    use proptest::prelude::*;
    use std::time::Duration;

    const BEGIN: UnixMillis = UnixMillis(1_800_000_000_000);
    const TARGET_MS: u64 = 2000;
    const WINDOW: u64 = 6;

    /// A packager of the channel, whose segments are numbered alike: how far behind it is, and whether it
    /// says when things were made.
    #[derive(Clone, Copy, Debug)]
    struct Packager {
        lag_ms: u64,
        has_clock: bool,
        has_parts: bool,
    }

    impl Packager {
        fn version(self, at_ms: u64) -> Manifest {
            let made_ms = (at_ms + 100 * TARGET_MS).saturating_sub(self.lag_ms);
            let (end, rest_ms) = (made_ms / TARGET_MS, made_ms % TARGET_MS);
            let first = end.saturating_sub(WINDOW);
            let mut text =
                format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{first}\n");
            for number in first..end {
                if self.has_clock {
                    let ms = number * TARGET_MS;
                    let (minutes, seconds, ms) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
                    text.push_str(&format!(
                        "#EXT-X-PROGRAM-DATE-TIME:2026-01-01T{:02}:{:02}:{seconds:02}.{ms:03}Z\n",
                        minutes / 60,
                        minutes % 60
                    ));
                }
                text.push_str(&format!("#EXTINF:2,\n{number}.ts\n"));
            }
            for part in 0..rest_ms / 500 * u64::from(self.has_parts) {
                text.push_str(&format!("#EXT-X-PART:DURATION=0.5,URI=\"{end}.{part}\"\n"));
            }
            read(Format::Hls, text.as_bytes()).expect("it is a playlist")
        }
    }

    fn edge(reached: Reached) -> Edge {
        match reached.progress {
            Progress::Playlist { edge, .. } => edge,
            Progress::Presentation { .. } => panic!("it is a playlist"),
        }
    }

    fn packager() -> impl Strategy<Value = Packager> {
        // No further behind than the window is long: what ends before the other begins is another thing.
        (0..(WINDOW - 1) * TARGET_MS, any::<bool>(), any::<bool>())
            .prop_map(|(lag_ms, has_clock, has_parts)| Packager { lag_ms, has_clock, has_parts })
    }

    proptest! {
        /// Whichever of two packagers answers, and whenever: what is stored goes on, and goes back only
        /// when it has not gone on for three target durations, which is when the one in front is away.
        #[test]
        fn what_players_see_never_goes_back(
            both in [packager(), packager()],
            asked in proptest::collection::vec((0_u64..3000, any::<bool>()), 1..200),
        ) {
            let (mut at_ms, mut stored, mut aside): (u64, Option<Reached>, _) = (0, None, None);
            for (after_ms, is_second) in asked {
                at_ms += after_ms;
                let now = BEGIN.plus(Duration::from_millis(at_ms));
                let manifest = both[usize::from(is_second)].version(at_ms);
                let before = stored;
                let place = Place::of(&manifest, stored, aside, now);
                aside = place.puts_aside(&manifest, stored).or(aside);
                match place {
                    Place::Taken(reached) => {
                        let reached = reached.expect("it can be compared");
                        prop_assert!(before.is_none_or(|before| edge(before) <= edge(reached)));
                        stored = Some(reached);
                    }
                    Place::Resumed(reached) => {
                        let before = before.expect("it goes on from there");
                        prop_assert!(edge(before) <= edge(reached));
                        let on = edge(reached).sequence - edge(before).sequence;
                        let most = TARGET_MS * (on + u64::from(TARGETS_OF_STANDING));
                        prop_assert!(now.since(before.since) > Duration::from_millis(most));
                        stored = Some(reached);
                    }
                    Place::TakenBack(reached) => {
                        let stood = now.since(before.expect("it goes back").since);
                        let most = Duration::from_millis(TARGET_MS) * TARGETS_OF_BEHIND;
                        prop_assert!(stood >= most, "{stood:?}");
                        stored = Some(reached);
                    }
                    Place::Behind => {
                        let before = before.expect("there is one in front");
                        prop_assert!(manifest.edge() < Some(edge(before)));
                    }
                }
            }
        }

        /// Nor does it when one of them stands still, or is late by more than its window, more than once.
        #[test]
        fn one_that_stands_still_sets_nobody_back(
            lag_ms in 0..WINDOW * 4 * TARGET_MS,
            stands_after in prop_oneof![Just(u64::MAX), 0..60_000_u64],
            asked in proptest::collection::vec((0_u64..2000, any::<bool>()), 1..200),
        ) {
            let [well, late] =
                [0, lag_ms].map(|lag_ms| Packager { lag_ms, has_clock: false, has_parts: false });
            let (mut at_ms, mut stored, mut aside) = (0, None, None);
            let mut times_back = 0;
            for (after_ms, is_second) in asked {
                at_ms += after_ms;
                let now = BEGIN.plus(Duration::from_millis(at_ms));
                let late = is_second.then(|| late.version(at_ms.min(stands_after)));
                for manifest in late.into_iter().chain([well.version(at_ms)]) {
                    let place = Place::of(&manifest, stored, aside, now);
                    aside = place.puts_aside(&manifest, stored).or(aside);
                    match place {
                        Place::Taken(reached) => stored = reached,
                        Place::Resumed(reached) => stored = Some(reached),
                        Place::TakenBack(reached) => {
                            times_back += 1;
                            stored = Some(reached);
                        }
                        Place::Behind => {}
                    }
                }
            }
            prop_assert!(times_back <= 1, "{times_back}");
        }

        /// A packager that starts again is followed at once where it says so, and soon where not.
        #[test]
        fn new_numbers_are_taken(end in 1_u64..50, left in 0_u64..50, waited_ms in 0_u64..10_000) {
            let end = end + WINDOW;
            let text = |first: u64, count: u64| {
                let mut text = format!(
                    "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:{first}\n"
                );
                (0..count).for_each(|_| text.push_str("#EXTINF:2,\na.ts\n"));
                read(Format::Hls, text.as_bytes()).expect("it is a playlist")
            };
            let before = text(end - WINDOW, WINDOW);
            let Place::Taken(before) = Place::of(&before, None, None, BEGIN) else {
                panic!("it is the first")
            };
            let again = text(0, left.min(WINDOW));
            let now = BEGIN.plus(Duration::from_millis(waited_ms));
            let is_taken = !matches!(Place::of(&again, before, None, now), Place::Behind);
            let is_other = left.min(WINDOW) <= end - WINDOW;
            prop_assert_eq!(is_taken, is_other || waited_ms >= 3 * TARGET_MS);
        }
    }
}
