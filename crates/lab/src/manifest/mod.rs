//! The manifests of both formats, written. (The simulated viewers read them with parsers of their
//! own, see [`crate::viewers`].)

pub mod dash;
pub mod hls;

/// File names below a rung's path.
pub const PLAYLIST: &str = "playlist.m3u8";
/// The track header below a rung's path.
pub const INIT: &str = "init.mp4";
/// The HLS multivariant playlist below a programme.
pub const MASTER: &str = "master.m3u8";
/// The DASH manifest below a programme.
pub const MANIFEST: &str = "manifest.mpd";
/// What follows the number of a segment. The study's paths end in the number, and the origin
/// answers those as well; manifests add this because players refuse names without a known ending.
pub const SEGMENT_SUFFIX: &str = ".m4s";
