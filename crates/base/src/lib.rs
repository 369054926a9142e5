//! The ground floor of Freshet: what every other crate may use and what uses no other crate.
//!
//! It owns time as a value ([`clock`]), sizes and durations as people write them ([`units`]) and
//! counters with one writer each ([`counter`]), and reads files that people name ([`file`]). It knows
//! nothing of HTTP, sockets or disks.
#![forbid(unsafe_code)]

pub mod clock;
pub mod counter;
pub mod file;
pub mod histogram;
pub mod units;
