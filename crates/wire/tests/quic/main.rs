//! A server's connections against the client of another implementation, quinn-proto, in virtual time:
//! packets are lost, repeated, changed and overtake each other as a seed says, and every byte is
//! checked.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of it is tests, and a failure names its seed"
)]

mod ack_frequency;
mod early;
mod ecn;
mod errors;
mod fuzz;
mod goodput;
mod instructions;
mod lossy;
mod malformed;
mod memory;
mod mishaps;
mod pieces;
mod race;
mod raw;
mod requests;
mod rules;
mod seeds;
mod sizes;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod tables;
mod versions;
mod ways;
mod world;
