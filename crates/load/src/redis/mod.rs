//! In-memory databases: real Redis servers and a load for them, the method of the MEC platform study.

mod load;
mod server;

pub use load::{RedisFigures, RedisLoad};
pub use server::{Memory, RedisServer, second_memory};
