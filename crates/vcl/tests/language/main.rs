//! The language as a whole: texts are compiled and run over messages in memory, through the
//! interface the node uses.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "all of it is tests, helpers included"
)]

mod actions;
mod bounds;
mod digests;
mod directors;
mod editor;
mod errors;
mod examples;
mod expressions;
mod functions;
mod instructions;
mod scene;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod standard;
mod variables;
