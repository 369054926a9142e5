//! The laboratory: a synthetic origin with real, playable media, and the viewers that watch it.
//!
//! What it owns:
//! - [`ladder`]: the eleven objects of which one live channel is made, with their sizes;
//! - [`media`]: H.264 and AAC made in process and packaged as CMAF, no encoder at run time;
//! - [`manifest`]: the HLS playlists and the DASH MPD that describe them;
//! - [`origin`]: an HTTP/1.1 server of all this on a thread of its own;
//! - `forwarding`, with the feature `router`: a wire with the edge router, and a load at its ends;
//! - [`scenario`]: the methods of the studies this laboratory repeats, and their reports;
//! - [`viewers`]: simulated players that read those playlists and keep time;
//! - [`demo`]: the figures of an origin and its viewers, second by second.
//!
//! The load generator itself is `freshet_load`, a room of its own.
//!
//! Everything the origin says is a function of its settings, the path and the time: the same
//! segment number gives the same bytes at every call, in every process. So a test may ask twice, and
//! compare, and an origin may restart behind a cache that holds its segments.
//!
//! What it must never know: the cache. It talks HTTP to an address, whoever listens there, so that
//! the same laboratory measures Freshet and its peers.
//!
//! ```
//! use freshet_lab::origin::{Origin, Settings};
//!
//! let origin = Origin::start(Settings::default())?;
//! assert_ne!(origin.address().port(), 0);
//! let totals = origin.stop();
//! assert_eq!(totals.requests, 0);
//! # Ok::<(), freshet_load::LabError>(())
//! ```
#![forbid(unsafe_code)]

pub mod calendar;
pub mod demo;
#[cfg(feature = "router")]
pub mod forwarding;
pub mod ladder;
pub mod manifest;
pub mod media;
pub mod origin;
pub mod programme;
pub mod scenario;
pub mod viewers;
