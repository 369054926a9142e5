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
pub mod resets;
pub mod secrets;
pub mod sorting;
pub mod steering;
pub mod token;
mod unsent;
mod watched;

use aws_lc_rs::rand;

/// Bytes that nobody can guess.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system's random numbers do not fail once seeded");
    bytes
}
