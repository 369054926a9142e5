//! The cache seen from outside, over a real arena.

mod eviction;
mod fills;
mod fixture;
mod groups;
mod lookup;
mod lower;
mod model;
mod observe;
mod purge;
mod share;
mod stress;
mod ticket;
mod tiers;
mod variants;
