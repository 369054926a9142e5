//! What a site's playlists and manifests say about what else is asked for.
//!
//! A manifest is held until it is whole, read once for each version that comes, and sent as it came.
//! What it says is kept in [`Channels`], by the keys of what it names; an answer to a fetch is looked
//! up there before a policy sees it. How a film is kept is what the configuration says anyway; of it
//! [`Films`] remembers what comes next.
//!
//! | file | |
//! |---|---|
//! | `channels` | the table: which channel there is, what belongs to it, how far it has come |
//! | `films` | what comes next in films that are watched |
//! | `advice` | what follows for an answer: how long, and whether in memory only |
//! | `standing` | a version that is behind the one that is stored |
//! | `doubts` | names under which something else may be stored, told without a lock |
//! | `marks` | what films have, told without their lock |
//! | `recent` | a table of what was named last |
//! | `reading` | a manifest's bytes, unpacked where they are packed |
//! | `sessions` | how players say they are doing |
//! | `quality` | what that comes to, by stream, network and rendition |
//! | `steering` | what players ask a site itself: which pathway to take, what time it is |
//! | `telling` | what players are told of the way to them |
//! | `directives` | requests for what a low-latency playlist does not have yet |
//!
//! No request waits for it: its lock is held for some look-ups in maps, and never while a manifest is
//! read. All of it is bounded by [`limits`].
//!
//! It knows keys of resources and no requests: which site and which policy an answer is of, who fetches and what a
//! client is are the business of the crates above.
#![forbid(unsafe_code)]

mod advice;
mod channels;
mod directives;
mod doubts;
mod films;
pub mod limits;
mod marks;
mod quality;
mod reading;
mod recent;
mod sessions;
mod standing;
mod steering;
mod telling;
#[cfg(test)]
mod tests;

pub use advice::{Advice, Keeping};
pub use channels::Channels;
pub use channels::{About, Belongs, Coming, Facts, Last, Noted, Version};
pub use directives::{Directives, Known, Reload, Skip, without as without_directives};
pub use films::Films;
pub use films::{Opened, Piece, Track, Wanted};
pub use quality::{ByStream, One, Quality};
pub use reading::{Seen, bytes_of, format_of};
pub use sessions::{Heard, Said, Sessions};
pub use standing::{Place, Reached};
pub use steering::{pathways, time};
pub use telling::tell;

use freshet_cache::Key;

/// The text of a key.
fn text_of(key: &Key) -> &str {
    std::str::from_utf8(key.text()).unwrap_or_default()
}

/// The folders that a text is in, the nearest first.
fn folders(text: &str) -> impl Iterator<Item = &str> {
    text.rmatch_indices('/').take(limits::FOLDERS_MAX).filter_map(|(at, _)| text.get(..=at))
}
