//! A fleet: nodes that follow one log of purges and bans, and know when they do not.
//!
//! ```text
//!  who purges ──entry──→ log ──pushed──→ Member ──Apply──→ its node
//!                        ↑ └──answer──┐     │ └───Fence────→
//!                        └──Ask, Read─┴─────┘
//! ```
//!
//! The promise, in three words. An entry is **accepted** when the log has it on disk. It is
//! **applied** by each node that says so: gone from its memory, on its disks' own logs, and nothing
//! under way will be kept. And whoever has not applied it within the lease is **fenced**: it answers
//! from nothing stored without asking upward. So one lease after an entry was accepted nobody
//! answers with what it has removed, whoever is cut off, slow or back from the dead.
//!
//! [`Member`] is one node's side of that, without I/O: what the log says goes in, what the node is to
//! do comes out, and time is an argument, in milliseconds of a clock that never steps. A lease is
//! counted from when the node *asked* the log, never from when something arrived: what was long under
//! way says nothing about now. [`Tally`] is the side of who waits until all have applied an entry.
//! [`Entry`] and [`Change`] say what is in the log.
//!
//! Entries are chained: each names a digest of the one before it. A log that loses entries it had
//! accepted, and then gets others under the same numbers, is so found out by every node that had the
//! lost ones; and that node trusts nothing it has stored until it was validated once.
//!
//! Whoever can write to the log can purge everything. Nodes with [`signature::Signers`] carry out only what those have
//! signed; what else is in the log has a place in it and no effect.
//!
//! What a node says of itself is signed with the key of its [`identity`], and [`freshness`] tells when it was said: so
//! nobody speaks for another node, nor says again what one has said once.
//!
//! [`config`] is about what nodes run: their configuration, which comes to them in stages and goes back by itself.
//! [`upgrade`] is about the program they run it with, and [`identity`] about who belongs to the fleet: certificates
//! of the fleet's own issuing key.
//!
//! Without the feature `nats` this crate knows no connection, and it never knows a cache: [`nats`] is where
//! a log on NATS JetStream is followed and published to. The simulation in `tests/simulation` runs many members
//! through loss, delay, duplication, partitions, crashes, clocks apart and logs that forget.
#![forbid(unsafe_code)]

pub mod config;
mod entry;
pub mod freshness;
pub mod identity;
pub mod limits;
mod member;
#[cfg(feature = "nats")]
pub mod nats;
pub mod signature;
mod tally;
pub mod upgrade;

pub use entry::{Change, Digest, Entry, EntryError, Place, Scope, decode, encode, place};
pub use member::{Action, Answer, Fence, Member, Settings};
pub use tally::{Outcome, Tally};
