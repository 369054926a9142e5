//! Every size and bound of the memory tier, with its reason.

use std::time::Duration;

/// The unit in which memory is handed out: the processor's page, so that what a piece gives back
/// can be counted in whole pages.
pub const PAGE_BYTES: u64 = 4096;

/// The unit in which memory is taken from the kernel and given back: one huge page of x86-64 and
/// AArch64, so that a frame costs one entry of the translation buffer.
pub const FRAME_BYTES: u64 = 2 << 20;

/// Pages in a frame.
pub const FRAME_PAGES: u32 = (FRAME_BYTES / PAGE_BYTES) as u32;

/// The longest piece. Two fit a frame; a longer one would gain nothing, since sockets and disks
/// take at most this much at once.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;

/// The first piece of a body of unknown length, and the shortest piece of a body in transit and of a
/// long one: below this a read step costs more than the bytes it moves.
pub const PIECE_BYTES_MIN: u32 = 16 << 10;

/// The fewest bytes that are sent by reference. On loopback shorter sends cost less as a copy: the
/// copy stays in the processor's cache until the peer reads it, while sender and receiver fight for
/// the pages' reference counts (`benches/lend.rs`; `sendfile` shows the same).
pub const LEND_BYTES_MIN: usize = 512 << 10;

/// How many bytes are lent with one call, where the kernel allows pipes of this size: four calls
/// for the longest piece.
pub const LEND_PIPE_BYTES: usize = 256 << 10;

/// The shortest part of a page: what describes an object takes many times as much.
pub const SLAB_BYTES_MIN: u32 = 64;

/// Up to which length sizes of parts of a page are how far apart: with what describes an object, no
/// length wastes more than 6 %.
pub const SLAB_STEPS: [(u32, u32); 5] =
    [(128, 8), (512, 16), (1024, 32), (2560, 64), (SLAB_BYTES_MAX, 128)];

/// The longest piece that is part of a page: above, a whole page wastes 3 % at most.
pub const SLAB_BYTES_MAX: u32 = 31 * 128;

/// The longest run of pages that is cut into parts: with so many there is a length for each size that
/// leaves a 40th over at most.
pub const SLAB_RUN_PAGES_MAX: u32 = 32;

/// The smallest limit an arena takes: one frame and as much again for what describes it.
pub const ARENA_BYTES_MIN: u64 = 2 * FRAME_BYTES;

/// The largest limit an arena takes. Page numbers are 32 bits wide; this is 4 TiB.
pub const ARENA_BYTES_MAX: u64 = 4 << 40;

/// The least that is given to the kernel of a frame in use, where it has so much: what some hundred
/// pieces cost, so that it is done seldom.
pub const HOLLOW_BYTES_MIN: u64 = 64 << 10;

/// The most runs of frames in use that are with the kernel at a time. Each may split one of the
/// mappings of which Linux lets a process have 65,530.
pub const HOLLOW_RUNS_MAX: usize = 16 << 10;

/// How often is looked whether as much memory is ready as is wanted: a tenth of what is ready by default
/// comes in this time over a line of 20 Gbit/s.
pub const AHEAD_PAUSE: Duration = Duration::from_millis(20);

/// The same while the limit has no room for more.
pub const AHEAD_IDLE: Duration = Duration::from_secs(1);

/// So many pages of a frame of the heap are in use at least where it becomes a huge page: what is not used of it costs a
/// 31st then.
pub const HEAP_PAGES_MIN: usize = FRAME_PAGES as usize / 32 * 31;

/// How often is looked whether the process has more memory than before, or less.
pub const HEAP_PAUSE: Duration = Duration::from_secs(5);

/// By how much that has to change for a look at what of the heap is in use, which takes some 10 ms for a gigabyte.
pub const HEAP_CHANGE_BYTES_MIN: u64 = 32 << 20;

/// After which time it is looked at all the same, or again where the kernel had no huge pages.
pub const HEAP_IDLE: Duration = Duration::from_mins(10);

/// Between two frames of the heap that become huge pages: who touches one meanwhile, or maps memory, waits for
/// some tenths of a millisecond, and seldom so.
pub const HEAP_STEP_PAUSE: Duration = Duration::from_millis(10);

/// What a piece costs beside its bytes: its shared counts and its entry in the body's list.
pub const PIECE_METADATA_BYTES: u64 = 48 + 24;

/// How often an allocation asks the owner to evict before it is refused. Each time it asks for
/// twice as much: what is freed may lie in fragments, and other threads may take it first.
pub const RECLAIM_ROUNDS_MAX: u32 = 6;

/// The least that is asked of the owner at once, so that one call frees some objects and not one.
pub const RECLAIM_BYTES_MIN: u64 = 64 << 10;

/// How far ahead of a running writer a reader waits for it. Beyond this a range request of its own
/// reaches the client sooner: 4 MiB are about 0.3 s of a 100 Mbit/s origin.
pub const FILL_AHEAD_BYTES_MAX: u64 = 4 << 20;

/// How much of a body in transit may be unread before its writer waits, where its reader keeps up: two
/// pieces, so that one is filled while the other is read. A reader that is waited for has no more than
/// this unless its owner allows it ([`crate::Body::widen`]), since every slow reader of such a body holds it.
pub const TRANSIT_WINDOW_BYTES_MIN: u64 = 128 << 10;

/// The same at first, and where many bodies are in transit at a time: two of the shortest pieces. A reader that
/// waits for its turn among many of one client holds no more.
pub const TRANSIT_WINDOW_BYTES_LEAST: u64 = 32 << 10;

/// The same of a body whose owner allows it: enough for 40 Mbit/s over 100 ms without a stall.
pub const TRANSIT_WINDOW_BYTES: u64 = 512 << 10;

/// The longest piece of a body in transit: two to the smallest window, so that memory comes back
/// while the window is read.
pub const TRANSIT_PIECE_BYTES_MAX: u32 = 64 << 10;

/// How many failures of writers a body remembers; the oldest is forgotten, and its readers see a
/// hole instead.
pub const FAILURES_MAX: usize = 8;

/// Room given to a writer for bytes the body already has, which are dropped: a usual socket read.
pub const SKIP_BYTES_MAX: u32 = 16 << 10;
