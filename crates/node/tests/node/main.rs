//! A node in this process between real sockets: clients on one side, an origin that does what the
//! test says on the other.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod client;
mod collapse;
mod errors;
mod harness;
mod origin;
mod purge;
mod range;
mod stale;
mod upgrade;
mod upload;
mod vary;
