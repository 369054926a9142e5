//! A server's connections against the client of another implementation, quinn-proto, in virtual time:
//! packets are lost, repeated, changed and overtake each other as a seed says, and every byte is
//! checked.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of it is tests, and a failure names its seed"
)]

mod errors;
mod lossy;
mod malformed;
mod raw;
mod requests;
mod rules;
mod ways;
mod world;
