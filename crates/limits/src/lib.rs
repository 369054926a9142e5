//! What clients may take of a node: how many requests in which time, how many at once, and who may
//! ask for nothing for a while.
//!
//! - A [`Rate`] is a rule of the generic cell rate algorithm, which is a leaky bucket without a
//!   timer: all it knows of a key is one point in time.
//! - [`Rates`] has that point for each key, in a table of a fixed size that all workers share. A word
//!   of 64 bits is all there is of a key, so a worker changes it with one compare-and-swap: there is
//!   no lock, and a limit holds over all workers together. What is forgotten is only what has no
//!   meaning any more, unless more keys come than the table is for; the least loaded go then, and are
//!   counted.
//! - [`Counts`] has how many requests or connections of a key are under way, in the same way.
//! - [`Pools`] has who may have how many places at a server that takes only so many requests at once.
//! - [`Blocks`] is the list of networks that get nothing until a time, made by people and by rules.
//! - [`Secret`] makes keys of what clients choose, so that nobody can aim at another's place.
//!
//! It does no I/O and reads no clock: time is an argument. It knows neither HTTP nor sites; a rule is
//! a number here.
//!
//! ```
//! use freshet_limits::{Rate, Rates, Secret, Ticks};
//! use std::time::Duration;
//!
//! let (rates, secret) = (Rates::new(1000), Secret::from_bytes([7; 16]));
//! let rate = Rate::parse("2/s", None).unwrap();
//! let (key, now) = (secret.key(1, b"192.0.2.7"), Ticks::from(Duration::from_secs(60)));
//! assert!(rates.take(key, &rate, now).is_allowed());
//! assert!(rates.take(key, &rate, now).is_allowed());
//! let third = rates.take(key, &rate, now);
//! assert!(!third.is_allowed());
//! assert_eq!(third.retry_after(), Duration::from_millis(500));
//! ```

#![forbid(unsafe_code)]

mod blocks;
mod counts;
mod error;
mod fields;
mod key;
pub mod limits;
mod network;
mod pools;
mod rate;
mod table;
mod ticks;

pub use blocks::{Block, Blocks, Cause};
pub use counts::{Counts, Held};
pub use error::LimitError;
pub use fields::{policy_field, retry_after_s, state_field};
pub use key::Secret;
pub use network::Prefix;
pub use pools::{Claim, Place, Pools};
pub use rate::{Rate, Verdict};
pub use table::Rates;
pub use ticks::Ticks;
