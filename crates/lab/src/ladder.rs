//! The eleven objects that make up one segment of one live channel.
//!
//! They are Table 3 of the live-linear study this laboratory repeats: the media types, variants and
//! path patterns of a production environment, with an object of a nominal size in the path and of
//! another, rounded size on the wire. The table gives sizes in "KB" and the text sums all eleven
//! (26,024 KB) up to "25 MB". With a KB of 1,024 bytes the sum is 25.4 MiB, with one of 1,000 bytes
//! it would be 26.0 MB; so [`KB`] is 1,024 here, which also makes most sizes powers of two.

/// Bytes in a KB of [`TABLE_3`].
pub const KB: u64 = 1024;

/// Width and height of a picture in pixels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Resolution {
    /// Pixels from left to right; a multiple of 16.
    pub width: u16,
    /// Pixels from top to bottom; even, 9/16 of the width.
    pub height: u16,
}

/// What a rung carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Track {
    /// Pictures of this size.
    Video(Resolution),
    /// Two channels of sound.
    Audio,
}

/// One quality of one track, with the size that each of its segments has on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rung {
    /// The middle of its paths, between the channel and the segment: `variant02/hlshv/4770KB`.
    pub path: &'static str,
    /// What it carries.
    pub track: Track,
    /// Bytes of each of its segments, all boxes included.
    pub segment_bytes: u64,
    /// Listed in HLS playlists. CMAF lets both formats share a segment: besides its own two objects
    /// HLS lists some of those of DASH, so that a player has something to choose from while a
    /// channel remains eleven objects per segment.
    pub in_hls: bool,
    /// Listed in the DASH manifest.
    pub in_dash: bool,
}

impl Rung {
    /// Bits per second when a segment of [`Rung::segment_bytes`] lasts `duration_ms` (> 0).
    pub fn bits_per_second(&self, duration_ms: u64) -> u64 {
        (self.segment_bytes * 8 * 1000).div_ceil(duration_ms.max(1))
    }

    /// Whether this rung carries pictures.
    pub fn is_video(&self) -> bool {
        matches!(self.track, Track::Video(_))
    }
}

const fn video(
    path: &'static str,
    width: u16,
    height: u16,
    size_kb: u64,
    in_hls: bool,
    in_dash: bool,
) -> Rung {
    let track = Track::Video(Resolution { width, height });
    Rung { path, track, segment_bytes: size_kb * KB, in_hls, in_dash }
}

const fn audio(path: &'static str, size_kb: u64, in_hls: bool) -> Rung {
    Rung { path, track: Track::Audio, segment_bytes: size_kb * KB, in_hls, in_dash: !in_hls }
}

/// The eleven objects, in the order of the table.
pub const TABLE_3: [Rung; 11] = [
    audio("variant01/hlsha/405KB", 384, true),
    video("variant02/hlshv/4770KB", 1920, 1080, 4096, true, false),
    video("variant01/dshmv/443KB", 640, 360, 512, true, true),
    video("variant03/dshmv/1106KB", 960, 540, 1024, true, true),
    video("variant02/dshmv/680KB", 768, 432, 512, false, true),
    audio("variant01/dshma/72KB", 72, false),
    audio("variant01/dshha/268KB", 256, false),
    video("variant03/dshhv/3536KB", 1920, 1080, 4096, false, true),
    video("variant02/dshhv/2418KB", 1280, 720, 2048, false, true),
    video("variant01/dshhv/1633KB", 1280, 720, 1024, false, true),
    video("variant01/4K/15360KB", 3840, 2160, 12_000, true, true),
];

/// The rung with exactly this [`Rung::path`].
pub fn find(path: &str) -> Option<&'static Rung> {
    TABLE_3.iter().find(|rung| rung.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_objects_of_a_segment_are_25_mb_as_the_study_rounds() {
        let total: u64 = TABLE_3.iter().map(|rung| rung.segment_bytes).sum();
        assert_eq!(total, 26_024 * KB);
        assert_eq!(total / (KB * KB), 25);
    }

    #[test]
    fn both_formats_have_pictures_and_sound() {
        for listed in [|rung: &Rung| rung.in_hls, |rung: &Rung| rung.in_dash] {
            let rungs: Vec<_> = TABLE_3.iter().filter(|rung| listed(rung)).collect();
            assert!(rungs.iter().filter(|rung| rung.is_video()).count() >= 4);
            assert!(rungs.iter().any(|rung| !rung.is_video()));
        }
        assert_eq!(find("variant01/4K/15360KB").map(|rung| rung.segment_bytes), Some(12_288_000));
        assert_eq!(find("variant01/4K"), None);
    }
}
