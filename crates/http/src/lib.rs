//! HTTP semantics without I/O: what a message means to a shared cache.
//!
//! Everything here is a function of its arguments. There are no sockets, no clocks (time is a
//! [`freshet_base::clock::UnixMillis`] argument) and no unsafe code.
#![forbid(unsafe_code)]

pub mod fields;
pub mod message;
