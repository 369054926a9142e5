//! What leaves when room is wanted.
//!
//! The queues of `fifo` decide, run by one of some [tactics](tactic). Which one, the traffic says:
//! a `tuner` runs all of them as [shadow] caches over a sample of the keys.

pub mod curve;
pub(crate) mod fifo;
mod ghost;
pub(crate) mod monitor;
mod queue;
pub mod shadow;
mod shadow_disk;
pub mod tactic;
pub mod tiers;
pub mod tuner;

pub use curve::{Curve, CurvePoint};
pub use shadow::{Demand, Shadow};
pub use tactic::{Objective, TACTICS, Tactic};
pub use tiers::{DiskTuner, Tiers};
pub use tuner::Tuner;
