//! Reading what streams are described by: playlists of HLS and manifests of DASH.
//!
//! A cache that knows what a response belongs to can do right by it without a word of configuration:
//! a live segment has no use after its window, a film has one for weeks, and their `Cache-Control`
//! seldom tells one from the other. This room reads; it decides nothing and changes nothing.
//!
//! - [`read`] makes a [`Manifest`] of bytes, in one form for both formats: how it goes on, how long
//!   its segments and its window are, how far it has come, and what it names.
//! - [`hls`] has the scanner below it, line by line, and playlists as players use them; [`mpd`] the
//!   same for DASH.
//! - [`cmcd`] has what players say of themselves, [`cmsd`] what servers tell them.
//!
//! It does no I/O, reads no clock, resolves no reference and knows no cache. What it reads is an
//! origin's: broken, endless, huge and lying manifests cost bounded time and memory ([`limits`]) and
//! end in an [`Unreadable`]. It is lenient where players are: unknown tags and elements mean nothing,
//! and a line that makes no sense is left out.
//!
//! ```
//! use freshet_media::{Class, Format, read};
//! use std::time::Duration;
//!
//! let text = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:7\n\
//!              #EXTINF:2,\nseg7.m4s\n#EXTINF:2,\nseg8.m4s\n";
//! let manifest = read(Format::Hls, text).unwrap();
//! assert_eq!(manifest.class(Duration::from_secs(600)), Some(Class::Live));
//! assert_eq!(manifest.window, Duration::from_secs(4));
//! assert_eq!(manifest.edge().unwrap().sequence, 9);
//! assert_eq!(manifest.reference(&manifest.names[1], text), "seg8.m4s");
//! ```

#![forbid(unsafe_code)]

pub mod cmcd;
pub mod cmsd;
mod error;
mod format;
pub mod hls;
pub mod limits;
mod manifest;
pub mod mpd;
mod progress;
mod text;

pub use error::Unreadable;
pub use format::Format;
pub use manifest::{Class, Course, Edge, Kind, Manifest, Name, has};
pub use progress::{Period, Progress, Standing};

/// Reads a manifest, all of it. One pass over the bytes; the names are kept as places in them.
///
/// # Errors
/// [`Unreadable`]
pub fn read(format: Format, bytes: &[u8]) -> Result<Manifest, Unreadable> {
    read_given(format, bytes, &hls::Given::default())
}

/// The same of one that may take variables from what is `given`.
///
/// # Errors
/// [`Unreadable`]
pub fn read_given(
    format: Format,
    bytes: &[u8],
    given: &hls::Given<'_>,
) -> Result<Manifest, Unreadable> {
    if bytes.len() > limits::MANIFEST_BYTES_MAX {
        return Err(Unreadable::OriginTooLong);
    }
    match format {
        Format::Hls => hls::read(bytes, given),
        Format::Mpd => mpd::read(bytes),
    }
}
