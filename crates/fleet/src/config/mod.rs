//! The configuration of nodes, kept by their fleet.
//!
//! ```text
//!  push ──Bundle──→ object store          ┌──────── Agent ──Apply──→ its node
//!       └─Release─→ one per group ──────→ │ fetch, try, hold, keep
//!             ↑                           └──ConfigState──┐
//!             └───── verdict: wait, advance, finish, back ┘
//! ```
//!
//! A [`Bundle`] is what a configuration is made of, and never changes: its name is a digest of it. A
//! [`Release`] says which version a group of nodes runs, which one is on its way to them and how far,
//! and what was before. It is changed by compare-and-set, so two operators cannot both have their way.
//!
//! The [`Agent`] is a node's side, without I/O. A new version is *tried*: the node examines it as
//! `freshet check` does, takes it in as a reload does, and *keeps* it when its clients fared no worse
//! for a while. Otherwise it goes back by itself to what it kept before, asks nobody, and never tries
//! that version again. What it is about to do is on its disk before it does it: a process that died
//! while it tried something starts with what was kept.
//!
//! [`Rollout::verdict`] is the other side: a stage of a roll-out is open to further nodes only when all
//! nodes of the stages before have kept the version.

mod agent;
mod bundle;
mod folder;
mod health;
mod release;
mod secret;

pub use agent::{Action, Agent, Memory, Refusal, Seen, Unfetched};
pub use bundle::{Bundle, BundleError, CONFIGURATION_FILE};
pub use folder::Folder;
pub use health::{Band, Counts};
#[cfg(feature = "nats")]
pub(crate) use release::reason;
pub use release::{
    Author, Busy, ConfigState, End, Past, Plan, Release, Rollout, Target, Trial, Verdict, Version,
};
pub use secret::{Secret, SecretError};
