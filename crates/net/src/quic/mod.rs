//! What QUIC needs below its connections: UDP sockets, ids that lead to workers, tokens, and the
//! sorting of what arrives.
//!
//! Each worker has a [`port::UdpPort`] of its own on the same address. [`steering`] has the kernel
//! give a datagram to the worker that its connection belongs to; [`sorting::Sorting`] says which
//! connection that is, or answers by itself what is for none.

pub mod port;
pub mod sorting;
pub mod steering;
pub mod token;
