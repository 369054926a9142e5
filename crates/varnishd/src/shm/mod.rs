//! Varnish's shared memory: segment files that its tools map and read.

pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod log;

pub(crate) use directory::{Directory, Segment};
