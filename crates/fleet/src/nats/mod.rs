//! The log on NATS JetStream.
//!
//! | what | where |
//! |---|---|
//! | the log | stream `FRESHET_<fleet>` of the subject `freshet.<fleet>.log`, on disks |
//! | entries as they come | `freshet.<fleet>.pushed`, by the stream's republish |
//! | what a node has carried out | `freshet.<fleet>.state.<node>`, each second and with each entry |
//! | who is to say that now | `freshet.<fleet>.roll` |
//! | who belongs to the fleet | `freshet.<fleet>.node.<node>` in the stream `FRESHET_<fleet>_nodes` |
//!
//! The leader of the stream is asked for its end, never a replica, which may be behind.

mod follow;
mod link;
mod publish;

pub use follow::{Acts, Follower, NodeSettings};
pub use link::{FleetError, Link, LinkSettings, Report, is_name};
pub use publish::{Retention, publish, wait};
