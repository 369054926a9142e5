//! Real sockets on loopback with ports the kernel chooses.

mod common;
mod foreign;
mod listening;
mod proxying;
mod resumption;
mod serving;
mod streams;
