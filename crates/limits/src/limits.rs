//! The bounds of this room, with their reasons.

use std::time::Duration;

/// Longest time in which a used-up burst comes back. Points in time are kept in 43 bits of an eighth
/// of a microsecond, which is 12 days: far more than this, so that what is old cannot look new before
/// [`crate::Rates::sweep`] has come by.
pub const REFILL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most requests in the time a rate names. An eighth of a microsecond between two is a rate that no
/// node reaches.
pub const COUNT_MAX: u64 = 1_000_000_000;
/// Longest name of a limit: it is a label of metrics and stands in fields.
pub const NAME_BYTES_MAX: usize = 64;
/// Networks that may be blocked at a time. About 100 bytes each.
pub const BLOCKS_MAX: usize = 100_000;
/// Longest reason of a block.
pub const WHY_BYTES_MAX: usize = 200;
/// Places for keys with requests or connections under way, 8 bytes each.
pub const COUNTS_MAX: usize = 1 << 18;
/// Servers with a number of places that are known at a time.
pub const POOLS_MAX: usize = 1024;
/// Members of each that have shares of their own; more have one share together.
pub const MEMBERS_MAX: usize = 256;
