//! How much is known of channels.

use std::time::Duration;

/// Playlists and manifests of what goes on; the one that was read longest ago leaves first.
pub const CHANNELS_MAX: usize = 4096;

/// What all of them may take with what they name: half a million segments.
pub const BYTES_MAX: usize = 32 << 20;

/// Sessions of players that are remembered: 35 MB of them at most, as `bench/media/sessions` has it.
pub const SESSIONS_MAX: usize = 100_000;

/// Networks whose players are told apart, those with the most; the rest are one.
pub(super) const NETWORKS_MAX: usize = 32;

/// How long a session that is not heard of is taken to go on.
pub(super) const SESSION_ACTIVE: Duration = Duration::from_secs(60);

/// Playlists whose bit rate is remembered; the one named first leaves first.
pub(super) const BITRATES_MAX: usize = 1 << 16;

/// Playlists that may import variables for which those are remembered, and the longest of what one
/// multivariant playlist defines; the one named first leaves first.
pub(super) const VARIABLES_MAX: usize = 4096;
/// See [`VARIABLES_MAX`]: a host and a token for each of some packagers.
pub(super) const VARIABLES_BYTES_MAX: usize = 2 << 10;

/// Qualities of DASH that are followed at a time.
pub(super) const FOLLOWED_MAX: usize = 4096;

/// Target durations without a player that takes what was fetched last, after which a quality of DASH is
/// followed no more.
pub const TARGETS_OF_FOLLOWING: u32 = 5;

/// The share of a segment's length by which what is fetched ahead comes later than it can, at most: nodes
/// of a fleet do not ask all at once.
pub const JITTER_SHARE: u32 = 20;

/// Keys that playlists name which are remembered; the one named first leaves first, and is back when a
/// playlist that names it is read again.
pub(super) const KEYS_MAX: usize = 1 << 16;

/// What one name costs in the table, twice in maps that are half empty.
pub(super) const NAME_BYTES: usize = 144;

/// What a channel costs besides its names.
pub(super) const CHANNEL_BYTES: usize = 512;

/// Names of one version of a manifest that are remembered, the newest.
pub(super) const NAMES_MAX: usize = 50_000;

/// Segments that timelines of one MPD list newly, of a packager that has started again, of which it is told that
/// something else may be stored under their names: the newest of each quality. The others are looked at anew
/// when somebody asks for them.
pub(super) const LISTED_NEW_MAX: usize = 10_000;

/// Folders above a target that are looked at for a channel's.
pub(super) const FOLDERS_MAX: usize = 8;

/// Manifests of films that are remembered; the one asked for longest ago leaves first.
pub const FILMS_MAX: usize = 4096;

/// What all of them may take: some 80,000 segments.
pub const FILMS_BYTES_MAX: usize = 16 << 20;

/// What a film costs besides its segments.
pub(super) const FILM_BYTES: usize = 512;

/// Segments of a film that are remembered, the first: more than five hours of two seconds.
pub(super) const FILM_PIECES_MAX: usize = 10_000;

/// Segments of films that were looked for last.
pub(super) const FILMS_LOOKED_MAX: usize = 1 << 14;

/// Playlists that have ended of which it is remembered where the last version is stored, and files of these
/// of which it is remembered how long they have become; the one that ended first leaves first.
pub(super) const ENDED_MAX: usize = 4096;

/// The longest target of a playlist of which that is remembered.
pub(super) const ENDED_TARGET_BYTES_MAX: usize = 1 << 10;

/// How long what was looked for before it is asked for is not looked for again.
pub(super) const FILM_LOOK: Duration = Duration::from_secs(10);

/// The most a playlist of what goes on is used without asking again, where it has parts.
pub(super) const PARTS_LIFETIME_MAX: Duration = Duration::from_secs(1);

/// How long what starts a decoder is of use after it was last named.
pub(super) const INIT_LIFETIME: Duration = Duration::from_hours(1);

/// Longest lifetime of an error about what a channel may have in a moment.
pub(super) const LATE_LIFETIME_MAX: Duration = Duration::from_secs(1);

/// Target durations for which a part, and an answer to a request that was held until there is news, is
/// kept: "Reduce latency with HLS Blocking Playlist Reload", Apple, WWDC 2020.
pub(super) const TARGETS_OF_PARTS: u32 = 6;

/// Target durations for which an answer is waited for: a packager may hold one back for as long until there is news
/// (draft-pantos-hls-rfc8216bis §6.2.5.2), and what is later than that is of no use to players.
pub(super) const TARGETS_OF_WAIT: u32 = 3;

/// Parts, or target durations where there are none, for which one origin of several that says nothing is waited for
/// before another one is asked for the same: an answer that is held back comes with the next part
/// (draft-pantos-hls-rfc8216bis §6.2.5.2), and players of low latency have three parts ahead (§4.4.3.8, PART-HOLD-BACK).
pub(super) const PARTS_OF_SILENCE: u32 = 3;

/// What that is at least, so that an origin far away is not taken for one that is gone.
pub(super) const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Target durations of an old playlist that a player that begins with it plays before it stands still: so
/// far behind the newest segment it begins (draft-pantos-hls-rfc8216bis §4.4.3.8, HOLD-BACK).
pub(super) const TARGETS_OF_START: u32 = 3;

/// Target durations for which a version that is behind the stored one is not taken, counted from when the
/// stored one last went on: about what players have ahead. An origin that stays behind is all there is.
pub const TARGETS_OF_BEHIND: u32 = 3;

/// Target durations for which a playlist may stand still, besides one for each segment it goes on by, before
/// its packager may have started again meanwhile.
pub(crate) const TARGETS_OF_STANDING: u32 = 2;

/// How long a stored playlist is waited for that is on its way from the process before, to be compared.
pub const HANDED_OVER_WAIT: Duration = Duration::from_secs(1);

/// Segments beyond the newest that may be asked for (draft-pantos-hls-rfc8216bis §6.2.5.2).
pub(super) const SEGMENTS_AHEAD_MAX: u64 = 2;

/// Target durations behind the newest segment in which what can be seen for long is live.
pub(super) const TARGETS_OF_EDGE: u32 = 3;
