//! The programs in the kernel, run on frames of the small world: they do what the model says.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/n4.rs"]
mod n4;

mod apps;
mod dissected;
mod equality;
mod limited;
mod networks;
mod router;
mod told;
mod untouched;
mod usage;
mod world;
