//! Sizes and bounds of I/O, with their reasons.

use std::time::Duration;

/// Offsets, lengths and memory of disk I/O are multiples of this: the sector of every drive sold
/// today, and the page.
pub const BLOCK_BYTES: u64 = 4096;

/// The longest time one I/O may take before its disk counts as hanging. Drives retry for seconds
/// before they report an error; clients are served from elsewhere long before this.
pub const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads queued before the kernel is told of them, where that many more are under way: fewer
/// system calls when a disk is busy, no delay when it is not.
pub const READ_BATCH: usize = 8;

/// Entries of a ring.
pub const RING_ENTRIES: u32 = 512;

/// Threads of the fallback without io_uring, for each disk.
pub const POOL_THREADS: usize = 16;
