//! Real sockets on loopback with ports the kernel chooses.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod common;
mod foreign;
mod listening;
mod proxying;
mod resumption;
mod serving;
mod streams;
