//! The ground floor of Freshet: what every other crate may use and what uses no other crate.
//!
//! It owns time as a value ([`clock`]), sizes and durations as people write them ([`units`]), counters
//! with one writer each ([`counter`]), counts of what is held ([`ledger`]), how often a line is logged ([`log_limit`]) and what a peer may ask for
//! to no use ([`debt`]), reads files that people name ([`mod@file`]), puts files on the disk that only this
//! user reads ([`private`]), finds the name they meant ([`mod@nearest`]), knows what this machine is called
//! ([`machine`]), gives bytes that nobody foresees ([`random`]) and numbers that only look so
//! ([`splitmix`]), and writes bytes in digits ([`hexadecimal`]). It knows nothing of HTTP or sockets.
#![forbid(unsafe_code)]

pub mod clock;
pub mod counter;
pub mod debt;
pub mod file;
pub mod hexadecimal;
pub mod histogram;
pub mod ledger;
pub mod log_limit;
pub mod machine;
pub mod nearest;
pub mod private;
pub mod random;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod splitmix;
pub mod units;
