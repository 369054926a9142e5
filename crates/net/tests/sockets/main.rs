//! Real sockets on loopback with ports the kernel chooses.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]
#![allow(clippy::print_stderr, reason = "what is not installed is skipped with a word")]

mod agreement;
mod common;
mod foreign;
mod instructions;
mod listening;
mod proxying;
mod records;
mod resumption;
mod serving;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod streams;
