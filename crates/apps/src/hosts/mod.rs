//! Hosts of their own that run apps for a platform: what they are told, and what they say, over NATS JetStream.
//!
//! | document | who writes it | what it says |
//! |---|---|---|
//! | `HOST.orders` | the platform | which apps the host has, and the last order for each |
//! | `HOST.report` | the host, each second | which orders are carried out, how apps are |
//!
//! A host carries out orders as often as it likes, and what it is not told of any more it ends. With a lease it
//! ends apps as well that it has not been told of for that long: somebody else may have them by then. A report is the
//! sign of life that a lease counts from.

mod agent;
mod config;
mod driver;
mod kept;
mod lease;
mod packages;

pub use agent::{HostConfig, run};
pub use config::{NatsFile, PackagesFile};
pub use driver::{Fleet, Hosts};

use crate::{Health, Spec, Wire};
use freshet_fleet::nats::is_name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The shelf of documents and of packages, which are files by their SHA-256.
pub(crate) const SHELF: &str = "apps";
/// Longest document, in bytes: a server of NATS takes messages of a mebibyte.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 1_000_000;

/// The key of what a host is told.
pub(crate) fn orders_key(host: &str) -> String {
    format!("{host}.orders")
}

/// The key of what it says.
pub(crate) fn report_key(host: &str) -> String {
    format!("{host}.report")
}

/// What a host is told: all of it, each time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Orders {
    /// The highest number of an order so far: a document with a lower one is an older one.
    pub(crate) last: u64,
    /// For how long the host may run apps without a word from the servers, in milliseconds; as long as it likes
    /// where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<u64>,
    /// The last order for each app instance.
    pub(crate) apps: BTreeMap<String, Order>,
}

/// What is to be done to an app instance.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) act: Act,
    pub(crate) spec: Spec,
}

/// What is done, as drivers do it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Act {
    Unpack,
    Link,
    /// And to be kept running.
    Start,
    /// To be told, and waited for.
    Stop,
    /// To be ended at once.
    End,
    Unlink,
    Clear,
}

/// What a host says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Report {
    /// Version of its program.
    pub(crate) version: String,
    /// By which lease it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<u64>,
    /// App instances there is anything of.
    pub(crate) apps: BTreeMap<String, Standing>,
}

/// How an app instance is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Standing {
    /// The order that it is about.
    pub(crate) number: u64,
    /// What came of that, when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    pub(crate) health: Health,
    /// Its last words, or what is in the way, where there is something to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) words: String,
}

/// What came of an order.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Outcome {
    /// It is done; of an image, with the ports that it serves.
    Done(Vec<u16>),
    /// It will not be by itself.
    Failed(String),
}

impl Order {
    /// Whether names in it may be those of files and interfaces, and its tunnel one that there can be.
    ///
    /// # Errors
    /// Which may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let spec = &self.spec;
        for name in [&spec.instance, &spec.name] {
            if !is_name(name) {
                return Err(format!("`{name}` is no name of an app instance"));
            }
        }
        let sha256 = &spec.package.sha256;
        if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("`{sha256}` is no SHA-256"));
        }
        if let Some(wire) = &spec.network.wire {
            let is_known = Wire::VNIS.contains(&wire.vni) && Wire::MTU_BYTES.contains(&wire.mtu);
            if !is_known || spec.network.slot >= Wire::SLOTS_MAX {
                return Err(format!("{wire:?} is no tunnel to an app instance"));
            }
        }
        let image = Path::new(&spec.package.image);
        match image.components().all(|part| matches!(part, Component::Normal(_))) {
            true => Ok(()),
            false => Err(format!("the image `{}` is not within its package", image.display())),
        }
    }
}
