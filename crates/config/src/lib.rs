//! What the operator decides: `freshet.toml` and the flags that stand for some of its keys.
//!
//! [`keys`] is one table of all that can be said, for parsing, defaults, help and docs. A [`Document`]
//! is a file that was read against it, [`Settings`] and [`SiteSettings`] are what a node is made from;
//! what is wrong is a [`Mistake`] with its place.
#![forbid(unsafe_code)]

pub mod access;
mod access_keys;
pub mod access_service;
pub mod acme;
mod acme_keys;
mod admin_keys;
mod alike;
pub mod bandwidth;
pub mod bans;
pub mod cache;
mod cache_keys;
pub mod cache_rules;
mod circles;
mod country_codes;
pub mod document;
pub mod esi;
pub mod fleet;
mod fleet_keys;
pub mod forwarded;
pub mod geo;
pub mod hosts;
mod key;
pub mod keys;
mod limit_keys;
pub mod limits;
mod listen_keys;
pub mod listeners;
pub mod log_fields;
pub mod lower;
pub mod media;
mod media_keys;
pub mod mistake;
mod node_keys;
pub mod order;
pub mod origins;
pub mod parents;
pub mod rate_limits;
pub mod reference;
mod rule_keys;
pub mod rules;
pub mod settings;
pub mod site;
mod site_keys;
pub mod stages;
pub mod storage;
mod store_keys;
pub mod stores;
pub mod template;
pub mod tokens;
pub mod traces;
mod upstream_keys;
pub mod values;

pub use document::Document;
pub use mistake::Mistake;
pub use settings::Settings;
pub use site::SiteSettings;
