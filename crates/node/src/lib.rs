//! A node as a whole: what its configuration makes, its start, reload, drain and hand-over.
//!
//! It puts together what the crates below are: workers, each with its sessions, what they share, and sites with the
//! policies their configuration names. What becomes of a request is none of its business.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | what `freshet.toml` can say | [`freshet_config::keys`] |
//! | start, reload, drain, hand-over | [`node`] |
//! | what no reload changes | `fixed` |
//! | what is wrong before anything is taken from the machine | [`preflight`] |
//! | sites and their policies, of a configuration | `configured` |
//! | what runs on a worker beside connections | `run` |
//! | what an operator hears without asking | `watch` |
//! | connections, requests, fetches | `freshet-session`, `freshet-request`, `freshet-fetch` |
//! | what workers share | `freshet-worker` |
#![forbid(unsafe_code)]

mod asking;
mod certificates;
mod configured;
mod fixed;
mod geo;
pub mod node;
pub mod preflight;
mod quic_ports;
mod run;
mod tickets;
mod watch;

// What others use of a node they find here, wherever it is made.
pub use freshet_channels as channels;
pub use freshet_policies::vcl;
pub use freshet_request::preview;
pub use freshet_site::durability::Durability;
pub use freshet_site::{keys, policy, semantics, shares, site, sites, snapshot};
pub use freshet_telemetry::{
    answer_bodies, calls, decisions, exemplars, log, received, site_stats, stats, transcript,
};
pub use freshet_worker::disk::Purged;
pub use freshet_worker::{bans, layout, versions, worker};
