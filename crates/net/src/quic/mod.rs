//! What QUIC needs below its connections: UDP sockets, ids that lead to workers, tokens, and the
//! sorting of what arrives.
//!
//! Each worker has a [`port::UdpPort`] of its own on the same address. [`steering`] has the kernel
//! give a datagram to the worker that its connection belongs to; [`sorting::Sorting`] says which
//! connection that is, or answers by itself what is for none. When a new process takes over,
//! [`relay`] keeps the connections of the old one alive.

mod control;
pub mod port;
pub mod relay;
pub mod secrets;
pub mod sorting;
pub mod steering;
pub mod token;
mod unsent;
mod watched;
