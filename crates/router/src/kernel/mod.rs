//! The programs in the kernel: loaded, attached, spoken to.

mod attach;
pub mod config;
pub mod control;
mod copy;
pub mod ends;
mod features;
mod health;
mod interface;
mod interned;
pub mod layout;
pub mod namespace;
mod programs;
pub mod protocol;
mod resolver;
mod serve;
mod settling;

pub use attach::{StartError, detach};
pub use aya::programs::xdp::XdpLink as Link;
pub use programs::{Count, KernelError, Object, Options, Programs, Told};
pub use serve::Running;
