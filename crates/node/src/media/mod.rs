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

mod advice;
mod channels;
mod directives;
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

pub(crate) use advice::Advice;
pub use channels::Channels;
pub(crate) use channels::{Belongs, Last, Noted, Version};
pub(crate) use directives::{Directives, Known, Reload, without as without_directives};
pub use films::Films;
pub(crate) use films::{Opened, Piece, Track, Wanted};
pub use quality::{ByStream, Quality};
pub(crate) use reading::{Seen, bytes_of, format_of};
pub(crate) use sessions::Said;
pub use sessions::Sessions;
pub(crate) use standing::Place;
pub(crate) use steering::{pathways, time};
pub(crate) use telling::tell;

use crate::policy::resource;
use crate::sites::SiteRef;
use freshet_cache::{Key, Secret};

/// The text of a key.
fn text_of(key: &Key) -> &str {
    std::str::from_utf8(key.text()).unwrap_or_default()
}

/// The folders that a text is in, the nearest first.
fn folders(text: &str) -> impl Iterator<Item = &str> {
    text.rmatch_indices('/').take(limits::FOLDERS_MAX).filter_map(|(at, _)| text.get(..=at))
}

/// The key a resource of a site has in [`Channels`], whatever key its policy gives it in the cache.
pub(crate) fn key_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    resource(site.name.key(secret), site, authority, target).build()
}

/// The same for what was asked for, whatever directives stand in its query.
pub(crate) fn id_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    key_of(site, secret, authority, &without_directives(target))
}
