//! The admin interface: what an operator asks a running node and tells it.
//!
//! One thread with a runtime of its own serves metrics, health and a REST interface over HTTP/1.1.
//! It looks at what the workers share (counters, index, arena, log, configuration) and acts on the
//! index and on the health of origins. It runs nothing on a worker and takes no lock a worker holds
//! for longer than a map operation; what walks the whole index does so shard by shard, on a thread
//! beside.
//!
//! It never decides anything about HTTP: what would become of a request it asks
//! [`freshet_node::preview`], and puts the answer into words.
//!
//! | path | for | token |
//! |---|---|---|
//! | `/metrics` | Prometheus | no |
//! | `/healthz`, `/readyz` | Kubernetes and load balancers | no |
//! | `/v1/…` | `freshet purge`, `explain`, `stat` and so on, and scripts | yes |
//! | `/openapi.json` | tools that read interfaces | no |
//!
//! What needs no token names no client, no URL and no configuration. The default address is
//! loopback all the same: who opens it to a network decides who may read the figures.
//!
//! ```no_run
//! # fn example(node: std::sync::Arc<freshet_node::node::Node>) -> Result<(), Box<dyn std::error::Error>> {
//! use freshet_admin::{Token, start};
//!
//! let reload = Box::new(|| Ok(Vec::new()));
//! let admin = start(node, &"127.0.0.1:0".parse()?, Token::random(), reload)?;
//! println!("http://{}/metrics", admin.address());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod bans;
mod blocks;
mod certificates;
mod connection;
mod context;
mod control;
mod curve;
mod erase;
mod error;
mod explain;
mod groups;
mod guard;
mod health;
mod limits;
mod log;
mod maintenance;
mod metrics;
mod objects;
mod origins;
mod players;
mod problem;
mod process;
mod purge;
mod query;
mod scope;
mod server;
mod settings;
mod sites;
mod stats;
mod stores;
pub mod token;
mod url;
mod words;

pub use bans::ban_below;
pub use context::Reload;
pub use error::AdminError;
pub use metrics::{Metrics, markdown as metrics_page};
pub use server::{Bound, Handle, bind, start};
pub use token::Token;
pub use url::request_of;
pub use words::Words;
