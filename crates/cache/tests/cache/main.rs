//! The cache seen from outside, over a real arena.

mod fixture;
mod lookup;
