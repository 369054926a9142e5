//! How much of a manifest is read, and why so much.

use std::time::Duration;

/// Longest manifest: a day of two-second segments with long names has 4 MiB.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// Lines of a playlist: a day of one-second segments.
pub const LINES_MAX: usize = 200_000;

/// Longest reference; servers refuse longer ones.
pub const REFERENCE_BYTES_MAX: usize = 8 << 10;

/// Longest time a manifest is believed to span, and any duration in it.
pub const WINDOW_MAX: Duration = Duration::from_hours(48);

/// Elements of an MPD inside each other; the schema has about ten.
pub const XML_DEPTH_MAX: usize = 64;

/// Attributes of one element; the schema has about thirty.
pub const XML_ATTRIBUTES_MAX: usize = 64;

/// Elements of an MPD: a day of two-second segments, each listed, for some tracks.
pub const XML_ELEMENTS_MAX: usize = 200_000;

/// Qualities of all tracks in all periods.
pub const REPRESENTATIONS_MAX: usize = 1024;

/// Definitions of variables in one playlist; those that are seen have a host and a token.
pub const VARIABLES_MAX: usize = 64;

/// Places of an MPD where later versions of it are.
pub const LATER_MAX: usize = 16;

/// The newest runs of a timeline by which the next segment is found: a minute of segments that all
/// last differently long.
pub const SERIES_RUNS_MAX: usize = 64;

/// Segments that a timeline lists of which it is said which they are: more than five hours of two seconds.
pub const LISTED_MAX: usize = 10_000;

/// Runs in all timelines of one MPD, with what each representation inherits counted once.
pub const RUNS_MAX: usize = 100_000;

/// Bytes of all references that are put together of what an MPD says: [`RUNS_MAX`] of usual length.
pub const MADE_BYTES_MAX: usize = 16 << 20;

/// Places that one quality of an MPD may be had from, as several `BaseURL`s say, and the longest name of
/// one beside the first.
pub const BASES_MAX: usize = 4;
/// See [`BASES_MAX`]: every quality has its template at each of them.
pub const BASE_BYTES_MAX: usize = 1 << 10;
