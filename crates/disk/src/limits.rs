//! Every size and bound of the disk store, with its reason.

pub use freshet_device::limits::{BLOCK_BYTES, IO_TIMEOUT};

use std::time::Duration;

/// The version of the format this program writes. It reads this one and those before, and makes a
/// device one of version 3 when it opens it to write. Since 2, the payload of an object may begin
/// at a page, and the last chunk of a long one is in its head. Since 3, there are notes: a program
/// that does not know them would serve what they are about.
/// Since 4, a checkpoint may be of a longer index than the device was formatted for; since 5, journal and
/// checkpoint may say how far an erasure is. A device becomes one of these when that is so.
pub const FORMAT_VERSION: u16 = FORMAT_VERSION_ERASED;

/// The version of a device that content was erased from.
pub const FORMAT_VERSION_ERASED: u16 = 5;

/// The version of a device whose index grew.
pub const FORMAT_VERSION_GROWN: u16 = 4;

/// The version of a device whose index did not grow, and that was never erased.
pub const FORMAT_VERSION_AT_FIRST: u16 = 3;

/// The most payload of a record: one piece of the arena, so that it is read where it is served from.
pub const RECORD_BYTES_MAX: u32 = 1 << 20;

/// The shortest limit on records a device is formatted with.
pub const RECORD_BYTES_MIN: u32 = 16 << 10;

/// Bytes under one checksum. A range is verified without reading what is around it; smaller would
/// lengthen the header, larger would make short ranges dear.
pub const CHECK_BYTES: u32 = 64 << 10;

/// Records from this length on begin at a block, so that reading one costs no extra page of memory.
/// Below, packing saves more than that.
pub const ALIGNED_RECORD_BYTES: u32 = 32 << 10;

/// The largest segment, and the usual one from [`SEGMENTS_WANTED`] of them on: a multiple of the
/// erase unit of any drive, so that what a drive frees is freed at once.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;

/// The smallest segment a device is formatted with.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// How many segments a small device is cut into: what is lost at once when the oldest goes is then
/// half a percent.
pub const SEGMENTS_WANTED: u64 = 192;

/// The smallest device: below, bookkeeping is most of it.
pub const DEVICE_BYTES_MIN: u64 = 4 << 20;

/// The largest: addresses have 34 bits in units of 4 KiB.
pub const DEVICE_BYTES_MAX: u64 = 1 << 46;

/// Lines of the index that are kept beside it while a checkpoint is written, with what keeps them some
/// 25 MB. Beyond that the rest of the checkpoint is written at once.
pub(super) const SNAPSHOT_LINES_MAX: usize = 1 << 18;

/// The highest number in the order of purges that is believed of a disk, and the most bytes that were written to
/// it: none comes near, and what is counted on from it never comes round.
pub(super) const NUMBER_MAX: u64 = 1 << 60;

/// The same of blocks of its journal: with one every 5 ms it takes 170 years.
pub(super) const JOURNAL_NUMBER_MAX: u64 = 1 << 40;

/// What an erasure overwrites or reads again before what else there is to write gets its turn: a
/// millisecond or two of any drive.
pub const ERASE_STEP_BYTES: u64 = 1 << 20;

/// The ring of purges and of segments opened and sealed: 16,384 groups of up to 60 entries.
pub const JOURNAL_BYTES_MAX: u64 = 64 << 20;

/// Mean length of an object the index is made for, unless said otherwise: also enough for objects a
/// little longer than one record, which take two.
pub const OBJECT_BYTES_DEFAULT: u64 = 512 << 10;

/// Mean length of an object down to which the index grows: two checkpoints of that many take 0.23 %
/// of the disk.
pub const INDEX_OBJECT_BYTES: u64 = 8 << 10;

/// Marks of purges remembered: with 32 bytes each this is 8 MiB of every checkpoint. Forgetting one
/// refuses content older than it, never serves it.
pub const MARKS_MAX: u32 = 1 << 18;

/// The longest note: one fits into a block of the journal with what describes it.
pub const NOTE_BYTES_MAX: usize = 4000;

/// Notes remembered. The same is done with those beyond as with marks of purges.
pub const NOTES_MAX: usize = 1 << 14;

/// Bytes of all notes: at 60 bytes each, which is a usual ban, there is room for all. On disks of
/// less than 4 GB those of a checkpoint are bounded by half of the room for marks.
pub const NOTES_BYTES_MAX: u64 = 4 << 20;

/// Part of the index that is used at design load. Up to 96 % fit; above 90 % insertions get slow.
pub const INDEX_LOAD: f64 = 0.87;

/// Records that are put into a longer index for each that is written. From the design load on, the shorter one
/// gets a 64th fuller meanwhile, which it takes without a loss.
pub const GROWTH_STEP_RECORDS: usize = 64;

/// The longest description of an object (its key, head, selectors): heads are limited to 64 KiB
/// themselves.
pub const META_BYTES_MAX: usize = 96 << 10;

/// Tags on disk for one object.
pub const TAGS_MAX: usize = 1024;

/// What is read at first of an object of which only a part is wanted: the head of all but the
/// longest, and the first bytes of small objects.
pub const HEAD_READ_BYTES: u32 = 16 << 10;

/// One write: long enough for any drive's full speed, short enough to let reads pass.
pub const WRITE_BYTES: usize = 1 << 20;

/// What a drive is told to discard at once, ahead of what is written: 32 writes, in which any drive is done
/// with it.
pub const DISCARD_BYTES: u64 = 32 << 20;

/// Writes under way at once, for each disk.
pub const WRITES_IN_FLIGHT_MAX: usize = 4;

/// Bytes that wait to be written, for each disk. Beyond, objects stay in memory only: a slow disk
/// never holds up a fill.
pub const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// How long bytes wait for more to be written with them.
pub const WRITE_DELAY: Duration = Duration::from_millis(50);

/// How long a purge waits for others to be made durable with it.
pub const PURGE_DELAY: Duration = Duration::from_millis(5);

/// How often an object's new words are written whose origin is asked for them again and again.
pub const RENEWAL_EVERY: Duration = Duration::from_secs(60);

/// Objects of one disk whose renewals within [`RENEWAL_EVERY`] are put together: 8 MiB of memory.
/// Renewals of more are left out.
pub const RENEWALS_MAX: usize = 1 << 16;

/// Bytes of renewals that wait for that, for each disk.
pub const RENEWALS_BYTES_MAX: usize = 16 << 20;

/// How often a drive's own cache is flushed. A power cut loses at most this much, besides what had
/// not been written.
pub const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// How often the index is written out, so that starting never reads more than a bounded log.
pub const CHECKPOINT_EVERY: Duration = Duration::from_secs(30 * 60);

/// The same in sealed segments.
pub const CHECKPOINT_SEGMENTS: u32 = 2048;

/// How long a read of a suspect disk is waited for at most by who can have the bytes from elsewhere.
pub const HEDGE_AFTER: Duration = Duration::from_millis(50);

/// Reads under way at which a suspect disk gets no more: those nobody waits for keep their memory
/// until they end.
pub const SUSPECT_READS_MAX: usize = 32;

/// Variants of one resource that one disk can tell apart in its index.
pub const VARIANTS_MAX: u8 = 5;
