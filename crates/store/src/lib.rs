//! Where bodies are kept: memory under a hard limit, written once and read by many.
//!
//! The crate owns an [`Arena`], all the memory bodies may take; [`Piece`]s of it, with [`Lease`]s
//! on bytes that no longer change; and the [`Body`], the bytes of one representation, which can be
//! read while it is still being filled. It uses no runtime: everything that waits takes a
//! [`std::task::Context`], and a body may be filled on one thread and read on others.
//!
//! It never knows what the bytes mean: no keys, no freshness, no clock, no sockets. Which body is
//! dropped when memory is short is the owner's choice ([`Arena::set_reclaim`]).
//!
//! Neighbours: the index (`freshet-cache`) holds bodies and evicts them; the node reads origins
//! into [`BodyWriter::reserve`] and sends from the leases [`BodyReader::next`] returns.
//!
//! ```
//! use freshet_store::{Arena, Body, Next};
//! # use std::task::{Context, Poll, Waker};
//! # let mut cx = Context::from_waker(Waker::noop());
//! let arena = Arena::new(64 << 20)?;
//! let body = Body::new(&arena, Some(5));
//! let mut reader = body.reader(..);
//! let mut writer = body.writer(0, None);
//!
//! let Poll::Ready(Ok(room)) = writer.poll_reserve(&mut cx, 5) else { panic!("memory is free") };
//! room[..5].copy_from_slice(b"hello");
//! writer.commit(5);
//! writer.finish()?;
//!
//! let Poll::Ready(Next::Data(lease)) = reader.poll_next(&mut cx, 1024) else { panic!("hello?") };
//! assert_eq!(&*lease, b"hello");
//! assert!(matches!(reader.poll_next(&mut cx, 1024), Poll::Ready(Next::End)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_op_in_unsafe_fn)]

pub mod arena;
pub mod body;
pub mod error;
mod heap;
mod idle;
pub mod lend;
pub mod limits;
pub mod lines;
mod memory;
pub mod piece;
mod prefetch;
#[cfg(test)]
mod races;
mod wake;
mod watermark;

pub use arena::{Arena, ArenaStats, Placement};
pub use body::{
    Body, BodyReader, BodyWriter, Bringing, Moved, Next, Source, SourceError, Standing,
};
pub use error::{BodyError, StoreError};
pub use heap::use_huge_pages;
pub use idle::Idle;
pub use piece::{Lease, Piece, PieceMut, WeakLease};
pub use prefetch::prefetch;

/// Atomics of what `bench/loom` takes with others.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
}
