//! This crate against real sockets: origins that follow a script, and one that others wrote.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests, which clippy does not see")]

mod encrypted;
mod exchange;
mod failures;
mod http2;
mod hyper_peer;
mod pool;
mod probe;
mod support;
