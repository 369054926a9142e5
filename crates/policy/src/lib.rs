//! Policies as they run: compiled programs of VCL, their objects, and what they work on.
//!
//! A [`Program`](program::Program) is names resolved to numbers and expressions compiled once; the compiler
//! (`freshet_vcl`) makes it of a text. [`Policy::load`] gives it a name and makes its objects; [`Policy::run`]
//! runs one state over a [`View`](runtime::View) of the messages and knobs of a request or a fetch. What
//! [`modules`] bring in are functions of Rust behind signatures that the compiler reads; [`variables`] are one
//! table, with types and states for the compiler and code for the run.
//!
//! Nothing here does I/O, reads a clock or waits. What a policy may use up is bounded: bytes it adds
//! to a request ([`runtime::WORKSPACE_BYTES_MAX`]), statements of one state
//! ([`runtime::STATEMENTS_MAX`]), steps of one match of a regular expression
//! ([`regex::MATCH_STEPS_MAX`]). A failure ends the state with [`Outcome::Fail`](runtime::Outcome::Fail) and
//! names the line.
//!
//! It never knows connections, the cache, the configuration of the node, or how a text is read.
#![forbid(unsafe_code)]

pub mod acl;
mod calendar;
pub mod modules;
mod policy;
pub mod program;
pub mod regex;
pub mod runtime;
pub mod source;
mod strftime;
pub mod types;
pub mod variables;

pub use modules::directors::{DirectorStanding, MemberStanding, Rampup, Said, Turn};
pub use modules::dynamic::{Made, Making};
pub use modules::{Parameter, Signature};
pub use policy::{Policy, Timeouts};
pub use regex::Pattern;

/// SHA-256 of what was hashed, which policies see as `req.hash` and directors choose by.
pub fn digest(parts: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, parts);
    digest.as_ref().try_into().unwrap_or([0; 32])
}

/// Every function that modules have: the module's name and the signature as its manual writes it.
/// Methods are named `class.method`, constructors `new class`; functions of the language itself have
/// no module.
pub fn signatures() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = modules::MODULES.iter().chain([&modules::BUILTIN]);
    all.flat_map(|module| module.functions.iter().map(|one| (module.name, one.signature)))
}
