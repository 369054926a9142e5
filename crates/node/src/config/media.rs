//! `[media]`: what is made of playlists and manifests, and of what players say.

use super::document::Document;
use super::values::optional;
use std::time::Duration;

/// `[media]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Media {
    /// Whether they are read.
    pub read: bool,
    /// The longest window of what is live.
    pub dvr_after: Duration,
    /// Whether playlists of channels are shared against their origin's word.
    pub overrides: bool,
    /// Fetches of what nobody has asked for yet, at a time and by a worker.
    pub ahead: u64,
    /// Where reports of players are taken.
    pub cmcd_collector: Option<String>,
    /// Whether origins get what players say of themselves.
    pub cmcd_forward: bool,
}

/// What a document says of it.
pub(super) fn media(document: &Document) -> Media {
    Media {
        read: document.value("media.read").bool(),
        dvr_after: document.value("media.dvr_after").span(),
        overrides: document.value("media.override").bool(),
        ahead: document.value("media.ahead").number(),
        cmcd_collector: optional(document.value("media.cmcd_collector").text()),
        cmcd_forward: document.value("media.cmcd_forward").bool(),
    }
}
