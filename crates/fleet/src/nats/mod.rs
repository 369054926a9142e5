//! The log on NATS JetStream.
//!
//! | what | where |
//! |---|---|
//! | the log | stream `FRESHET_<fleet>` of the subject `freshet.<fleet>.log`, on disks |
//! | entries as they come | `freshet.<fleet>.pushed`, by the stream's republish |
//! | what a node has carried out | `freshet.<fleet>.state.<node>`, each second and with each entry |
//! | who is to say that now | `freshet.<fleet>.roll` |
//! | what a group of nodes runs | the key `<group>` in the bucket `FRESHET_<fleet>_config` |
//! | that this has changed | `freshet.<fleet>.config.<group>` |
//! | the word to hand over to the installed program | `freshet.<fleet>.upgrade.<node>` |
//! | bundles, by name | the object store `FRESHET_<fleet>_bundles` |
//! | documents of hosts, by key, and files they speak of | the bucket and the object store `FRESHET_<fleet>_<shelf>` |
//! | that a document has changed | `freshet.<fleet>.<shelf>.<key>` |
//! | requests for certificates | `freshet.<fleet>.identity`, answered by who has the issuing key |
//! | who was removed | the key `removed` in the bucket `FRESHET_<fleet>_identity` |
//! | who belongs to the fleet | `freshet.<fleet>.node.<node>` in the stream `FRESHET_<fleet>_nodes` |
//!
//! What is in the log, in a group's document and in the word to hand over may be signed
//! ([`crate::signature`]). What a node says of itself is, where it has an identity ([`crate::identity::Statement`]).
//!
//! The leader of the stream is asked for its end, never a replica, which may be behind.

mod asked;
mod config;
mod configure;
mod entries;
mod follow;
mod identity;
mod link;
mod publish;
mod renew;
mod shelf;
mod states;
mod upgrade;
mod watch;

pub use config::Read;
pub use configure::{ConfigSettings, Configures};
pub use follow::{Acts, Does, Follower, NodeSettings};
pub use identity::{Issued, issue, join, renew};
pub use link::{FleetError, Link, LinkSettings, Report, is_name};
pub use publish::{Reports, Retention, Waited, publish, wait};
pub use renew::Belongs;
pub use shelf::{Document, Shelf, Told};
pub use upgrade::Upgrades;
pub use watch::{Heard, Watch};

/// Whole milliseconds.
fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
