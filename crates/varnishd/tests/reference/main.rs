//! Random policies here and with Debian's Varnish: what its compiler says of them, and what they do.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of it is tests, helpers included"
)]

mod compile;
mod corpus;
mod draw;
mod grammar;
mod interface;
mod modules;
mod run;
#[path = "../support/mod.rs"]
mod support;
