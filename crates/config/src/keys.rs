//! Every key of `freshet.toml`, once.
//!
//! Parsing, defaults, messages, `--help` and the reference page all read this table. `[[x]]` tables
//! may appear any number of times; their keys are written `x[].key`.

pub use super::key::{Key, Keys, Kind, key};
pub use freshet_base::nearest::nearest;

use super::key::{count, joined};
use super::{
    access_keys, acme_keys, admin_keys, bandwidth, cache_keys, cache_rules, fleet_keys, forwarded,
    geo, limit_keys, listen_keys, media_keys, node_keys, rule_keys, site_keys, store_keys, traces,
    upstream_keys,
};

/// The table of `freshet.toml`.
pub static NODE: Keys = Keys::new(KEYS, "`freshet keys` lists every key", true);

/// Its keys, in the order of the reference page.
pub const KEYS: &[Key] = &joined::<{ count(PARTS) }>(PARTS);
const PARTS: &[&[Key]] = &[
    node_keys::KEYS,
    store_keys::KEYS,
    listen_keys::KEYS,
    forwarded::KEYS,
    upstream_keys::KEYS,
    cache_keys::KEYS,
    limit_keys::KEYS,
    admin_keys::KEYS,
    rule_keys::KEYS,
    access_keys::KEYS,
    cache_rules::KEYS,
    bandwidth::KEYS,
    geo::KEYS,
    media_keys::KEYS,
    fleet_keys::KEYS,
    site_keys::KEYS,
    traces::KEYS,
    acme_keys::KEYS,
];

/// The key of `freshet.toml` of this path. O(1).
pub fn find(path: &str) -> Option<&'static Key> {
    NODE.find(path)
}
