//! A node in this process between real sockets: clients on one side, an origin that does what the
//! test says on the other.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]
#![allow(clippy::print_stderr, reason = "what is not installed is skipped with a word")]

mod authority;
mod bandwidth;
mod cache_groups;
mod cache_rules;
mod client;
mod client_certificates;
mod codings;
mod collapse;
mod compression;
mod cookies;
mod differential;
mod directors;
mod door_service;
mod doors;
mod errors;
mod fence;
mod forwarded;
mod geo;
mod groups;
mod h2;
mod h2_frames;
mod h3;
mod h3_client;
mod h3_early;
mod harness;
mod http2_origin;
mod identity;
mod instructions;
mod limits;
mod loops;
mod media;
mod memory;
mod origin;
mod packagers;
mod proxy;
mod purge;
mod range;
mod rate_limits;
mod readers;
mod reload;
mod revalidation;
mod rules;
mod semantics;
mod shares;
mod siblings;
mod siblings_rules;
mod sites;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod splice;
mod stale;
mod store;
mod tiers;
mod tiers_heads;
mod tiers_http2;
mod tls;
mod tokens;
mod unkeyed;
mod unusual;
mod upgrade;
mod upload;
mod vary;
mod vcl;
