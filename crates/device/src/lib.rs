//! Devices of blocks: what reads, writes and flushes are made of, and where they go.
//!
//! A file or a drive is opened without the page cache and served by the kernel's queue for I/O, one for each
//! thread, or by threads where the kernel has none. A simulated drive is memory with the faults of one.
//!
//! It never knows what is on a device, nor whose it is. Neighbours: `freshet_store` has the memory that is read
//! into; `freshet_disk` makes a log of a device.
//!
//! | module | what it is |
//! |---|---|
//! | `device` | a device, an operation and how it ends |
//! | [`block`] | memory for it |
//! | [`mod@file`], [`ring`] | a file or a drive, and the kernel's queue |
//! | [`simulation`] | a drive with faults, by a seed |
//! | [`place`], `attached` | what is at a path, in a simulated world one of its drives |
//! | [`mounts`] | whether the file system is there that should be |
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(feature = "simulation")]
pub mod attached;
pub mod block;
mod device;
pub mod file;
pub mod limits;
pub mod mounts;
pub mod place;
pub mod ring;
pub mod simulation;

pub use device::{Completion, Device, Finish, Io, IoError, Op, Outcome, ReadTimes, WriteLife};
