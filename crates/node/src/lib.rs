//! The node: a request's way from a client's connection to the cache or an origin and back.
//!
//! It owns the workers, the sessions and the state machine every request goes
//! through, for every protocol the same. Decisions it leaves to a [`policy::Policy`]; what HTTP
//! means it asks `freshet-http`; objects, bodies, sockets and origins are the business of the
//! crates below. It never formats a log line on a worker and never reads a disk.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | what `freshet.toml` can say | [`freshet_config::keys`] |
//! | the states of a request | `request` |
//! | the states of a fetch | `fetch` |
//! | HTTP/1 and HTTP/2 connections | `session` |
//! | threads | [`worker`] |
//! | start, reload, drain, hand-over | [`node`] |
#![forbid(unsafe_code)]

pub mod access;
pub mod answer_bodies;
pub mod applied;
pub mod assembly;
pub mod bans;
pub mod body;
pub mod calls;
pub mod certificates;
pub mod client;
mod copies;
pub mod decisions;
pub mod delivery;
mod disk;
pub mod doors;
pub mod error_pages;
pub mod exchange;
pub mod exemplars;
pub mod expiry;
mod fetch;
mod forwarded;
mod geo;
mod handover;
pub mod identity;
pub mod ids;
mod keepers;
pub mod layout;
pub mod ledger;
pub mod limiter;
pub mod log;
mod lower;
pub mod media;
pub mod node;
pub mod policy;
pub mod preflight;
pub mod preview;
mod quic_ports;
mod request;
mod selecting;
pub mod semantics;
pub mod session;
pub mod shares;
pub mod site;
pub mod site_stats;
pub mod sites;
pub mod snapshot;
pub mod stats;
pub mod transcript;
pub mod versions;
pub mod worker;

pub use disk::{Durability, Purged};
