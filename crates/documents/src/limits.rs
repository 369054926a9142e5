//! What documents and queries may cost.

/// Deepest JSON, in objects and lists within each other. The standard's own types have ten.
pub const DEPTH_MAX: usize = 32;
/// Mistakes of a body that are named.
pub const MISTAKES_MAX: usize = 16;
/// Documents in one answer; the rest is on the next page.
pub const PAGE_MAX: usize = 256;
/// Longest value of a filter, and longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8192;
/// Conditions of one filter.
pub const CONDITIONS_MAX: usize = 32;
