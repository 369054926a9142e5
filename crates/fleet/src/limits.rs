//! The named maximums of this crate, each with its reason.

use std::time::Duration;

/// Bytes of an entry: what one publication carries over any network within a few milliseconds.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// Changes in an entry. A log that is on disk before it answers takes some hundred entries a second;
/// a thousand names in each are more purges than any node has to carry out.
pub const CHANGES_MAX: usize = 1000;

/// Bytes of a URL, a tag or a ban.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Entries that came ahead of their turn and are kept. What is more is read again.
pub const AHEAD_MAX: usize = 256;

/// Entries asked for by one reading.
pub const READ_MAX: usize = 500;

/// Entries a node is to carry out and has not said that it has. While there are so many, no more are
/// read: memory is bounded, and the log keeps them.
pub const APPLYING_MAX: usize = 1000;

/// Questions without an answer that are remembered. Older ones would renew no lease any more.
pub const ASKED_MAX: usize = 8;

/// Entries a node tells of that it does not believe, the newest. Whoever has published one asks within seconds.
pub const REFUSED_TOLD_MAX: usize = 16;

/// Bytes of all files of a bundle: ten thousand sites with a certificate each.
pub const BUNDLE_BYTES_MAX: usize = 64 << 20;

/// Files in a bundle: a certificate and a key for each of ten thousand sites, and as many again.
pub const BUNDLE_FILES_MAX: usize = 40_000;

/// Folders within folders of a bundle.
pub const BUNDLE_DEPTH_MAX: usize = 16;

/// Versions of a group's configuration that are remembered.
pub const HISTORY_MAX: usize = 100;

/// Bundles that no version refers to stay on the servers for so long: one is put before the version that
/// refers to it is, by machines whose clocks may differ.
pub const BUNDLE_KEPT_MIN: Duration = Duration::from_secs(3600);

/// Characters of what somebody or a node gives as a reason.
pub const REASON_CHARACTERS_MAX: usize = 1000;

/// Time before a new configuration that it is compared with.
pub const BASELINE_MS: u64 = 60_000;

/// Versions that a node remembers to have refused. Only the one that its group runs and one that is on
/// its way are ever wanted; those between were taken back.
pub const REFUSED_MAX: usize = 16;

/// How long a word of upgrading may have a node leave before it hands over, in milliseconds: an hour is
/// longer than names are kept by resolvers that clients use.
pub const DRAIN_MAX_MS: u64 = 3_600_000;

/// A node that is upgraded, or is about to be, says how it is each second. One that is silent for so long is
/// in trouble, in milliseconds.
pub const UPGRADE_SILENCE_MAX_MS: u64 = 10_000;

/// How long before it was made a certificate of a fleet holds: machines whose clocks are an hour behind take it.
pub const CLOCKS_APART_MAX: Duration = Duration::from_secs(2 * 3600);

/// How long a node's certificate may hold, and so how long a removed name is refused.
pub const NODE_LIFE_MAX: Duration = Duration::from_secs(90 * 86_400);

/// How long a token may hold.
pub const TOKEN_LIFE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Bytes of a token's text: two certificates, a key and the names of servers.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a request for a certificate, and of its answer: a key, names and signatures.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Labels that a token gives a node.
pub const LABELS_MAX: usize = 32;

/// Nodes of a fleet that are kept as removed, the newest: more than leave it while a certificate holds.
pub const REMOVED_MAX: usize = 10_000;

/// Nonces that a node names of those it heard: entries it has carried out and calls, the last. Whoever waits for one that is
/// pushed out calls once more.
pub const NONCES_MAX: usize = 32;

/// How long what names a nonce counts behind the moment that one was sent, in milliseconds: longer than a lease, which is
/// waited for.
pub const NONCE_LIFE_MS: u64 = 10_000;

/// How long a node names a nonce, in milliseconds: longer than it counts, by clocks that go as fast as they like.
pub const NONCE_KEPT_MS: u64 = 15_000;

/// Nodes whose certificates are known to who hears what they say: those of the largest fleet, twice.
pub const CERTIFICATES_MAX: usize = 20_000;

/// Bytes of a statement, with what is said in it: a certificate as the issuer makes it has some 600.
pub const STATEMENT_BYTES_MAX: usize = 64 * 1024;
