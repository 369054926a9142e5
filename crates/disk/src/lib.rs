//! The disk store: what is cached outlives the process, on as many disks as there are.
//!
//! Each disk is a log of segments, written from front to end, with an index of eight bytes for each
//! record in memory. A record is read straight into the arena and checked; what does not check is a
//! miss. A disk that fails is left alone, its share is fetched again, and it is taken back with its
//! content when it works again.
//!
//! It never knows what the bytes mean: no keys but their hashes, no freshness, no clock of the wall that it
//! was not told. Neighbours: `freshet_device` is what it reads and writes; `freshet_store` has the memory a
//! record is read into and the bodies that are written; the node says what is kept, and asks.
//!
//! | module | what it is |
//! |---|---|
//! | [`superblock`], [`geometry`] | whose a device is and how it is divided |
//! | `record`, `segment`, `table` | what the log is made of |
//! | `index`, `slot`, `variant`, `growth`, `snapshot` | where records are, and were at one moment |
//! | `journal`, `checkpoint`, `checkpointing`, [`purges`], [`notes`] | what must not be forgotten |
//! | `writer`, `intake`, `renewal`, `reclaim`, `stream` | the one that writes, and what it is given |
//! | `discard` | telling a drive what it need not keep |
//! | `erase`, `erasure` | overwriting what was purged, and reading back that it is gone |
//! | `read`, `part`, `volume` | what all may ask of a disk |
//! | [`recovery`] | making and opening a volume |
//! | [`tactic`] | what is let in and kept; `freshet_cache` tries what that would be worth |
//! | `drive`, `health`, `pace`, `set`, [`budget`] | disks that come and go, placement, endurance |
#![forbid(unsafe_code)]

pub mod bench;
pub mod budget;
mod checkpoint;
mod checkpointing;
mod codec;
mod discard;
mod drive;
mod erase;
mod erasure;
pub mod error;
pub mod geometry;
mod growth;
mod health;
mod index;
mod intake;
mod journal;
pub mod limits;
mod moves;
pub mod notes;
mod pace;
mod part;
pub mod purges;
mod read;
mod reclaim;
mod record;
mod recount;
pub mod recovery;
mod renewal;
mod segment;
mod set;
mod share;
mod slot;
mod snapshot;
mod stream;
pub mod superblock;
mod table;
pub mod tactic;
mod takes;
#[cfg(test)]
mod tests;
mod variant;
mod volume;
mod writer;

pub use checkpoint::Written;
pub use drive::{Discard, Disk, DiskCounts, DiskSpec, DiskStats};
pub use erasure::{Erased, Progress};
pub use error::DiskError;
pub use health::Health;
pub use intake::Description;
pub use part::PartRead;
pub use read::{ReadError, Stored};
pub use set::{Disks, ErasureTurn, Examined, Pending, Seat, common_set, examine};
pub use share::share_of;
pub use stream::ObjectStream;
pub use takes::{Takes, Wish};
pub use volume::{Common, Volume, VolumeCounts, VolumeStats};
pub use writer::Writer;

/// Atomics of what `bench/loom` takes with others.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}
