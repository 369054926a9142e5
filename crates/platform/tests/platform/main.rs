//! The platform as its clients see it, without sockets: requests go in, answers and notifications come
//! out.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod access;
mod apps;
mod earlier;
mod full;
mod gateway;
mod judge;
mod lives;
mod networks;
mod packages;
mod positions;
mod radio;
mod resources;
#[path = "../../../../tests/skip.rs"]
mod skip;
#[path = "../../../../tests/small_disk.rs"]
mod small_disk;
mod strictness;
mod support;
