//! Reading DASH manifests, as far as viewers play them: one period of numbered segments.

use super::client::Fault;
use freshet_base::clock::UnixMillis;
use freshet_media::mpd;
use std::time::Duration;

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

/// One quality of one track, with all that is needed to play it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Representation {
    pub(super) is_video: bool,
    pub(super) bandwidth: u64,
    /// The reference to the track header.
    pub(super) initialization: String,
    read: mpd::Representation,
}

impl Representation {
    /// How long the segment `index` lasts; `None` when the manifest lists all and this is not among them.
    pub(super) fn duration(&self, index: u64) -> Option<Duration> {
        self.read.duration(index)
    }

    /// How long before its end a segment can be asked for, chunk by chunk; zero where it must be whole.
    pub(super) fn early(&self) -> Duration {
        let length = self.read.duration(0).unwrap_or_default();
        self.read.early.filter(|early| *early < length).unwrap_or_default()
    }

    /// The reference to the segment `index` segments after the start of the period.
    pub(super) fn media(&self, index: u64) -> String {
        self.read.media(index).unwrap_or_default()
    }
}

/// Reads a manifest with at least one representation.
pub(super) fn read(bytes: &[u8]) -> Result<Presentation, Fault> {
    let read = mpd::presentation(bytes)?;
    let live = match (read.is_dynamic, read.start) {
        (false, _) => None,
        (true, None) => return Err(Fault::Manifest),
        (true, Some(start)) => Some(Live { start, update: read.update, delay: read.delay }),
    };
    let representations: Option<Vec<_>> = read.representations.into_iter().map(playable).collect();
    match representations {
        Some(representations) if !representations.is_empty() => {
            Ok(Presentation { live, length: read.length, representations })
        }
        _ => Err(Fault::Manifest),
    }
}

/// A representation that says what a player has to know.
fn playable(read: mpd::Representation) -> Option<Representation> {
    let is_whole = read.bandwidth > 0 && read.media.is_some() && read.duration(0).is_some();
    let initialization = read.initialization.clone().filter(|_| is_whole)?;
    let (is_video, bandwidth) = (read.is_video, read.bandwidth);
    Some(Representation { is_video, bandwidth, initialization, read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::TIMELINE_START;
    use crate::manifest::dash;
    use crate::programme::{Kind, Schedule};

    const SCHEDULE: Schedule =
        Schedule { segment_ms: 6000, part_ms: None, window_segments: 60, title_segments: 100 };

    #[test]
    fn our_own_manifests_read_as_meant() {
        let live = read(dash::manifest(Kind::Live, &SCHEDULE).as_bytes()).unwrap();
        let timing = live.live.unwrap();
        assert_eq!(timing.start, TIMELINE_START);
        assert_eq!(timing.delay, Some(Duration::from_secs(18)));
        assert_eq!(live.representations.iter().filter(|r| r.is_video).count(), 7);
        let lowest = &live.representations[0];
        assert_eq!(lowest.duration(17), Some(Duration::from_secs(6)));
        assert_eq!(lowest.initialization, "variant01/dshmv/443KB/init.mp4");
        assert_eq!(lowest.media(17), "variant01/dshmv/443KB/17.m4s");
        assert_eq!(lowest.early(), Duration::ZERO);
        let chunked = Schedule { part_ms: Some(400), ..SCHEDULE };
        let live = read(dash::manifest(Kind::Live, &chunked).as_bytes()).unwrap();
        assert_eq!(live.representations[0].early(), Duration::from_millis(5600));
        let title = read(dash::manifest(Kind::OnDemand, &SCHEDULE).as_bytes()).unwrap();
        assert_eq!((title.live, title.length), (None, Some(Duration::from_secs(600))));
        let sound = title.representations.iter().find(|track| !track.is_video).unwrap();
        assert_eq!(sound.duration(0), Some(Duration::from_millis(6016)));
        assert!(sound.duration(99).is_some());
        assert_eq!(sound.duration(100), None);
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        for text in [
            "<MPD/>",
            "<MPD><Period/></MPD>",
            "<MPD type='dynamic'><Period/></MPD>",
            "<MPD><Period><AdaptationSet><Representation bandwidth='1'/></AdaptationSet></Period></MPD>",
        ] {
            assert_eq!(read(text.as_bytes()), Err(Fault::Manifest), "{text}");
        }
    }
}
