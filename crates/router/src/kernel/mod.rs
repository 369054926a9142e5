//! The programs in the kernel: loaded, attached, spoken to.

mod attach;
pub mod config;
pub mod control;
mod copy;
mod health;
mod interface;
mod interned;
pub mod layout;
mod programs;
pub mod protocol;
mod serve;

pub use attach::{StartError, detach};
pub use programs::{Count, KernelError, Options, Programs, Told};
pub use serve::Running;
