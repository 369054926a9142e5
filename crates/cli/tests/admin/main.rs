//! A node in front of a small origin, looked at and told things as operators do.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod commands;
mod content;
mod figures;
mod guard;
mod node;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
