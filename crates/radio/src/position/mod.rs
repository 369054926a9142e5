//! Where clients are, estimated from what a radio network measures of them, and whether they are where
//! they say they are.
//!
//! It knows no clock and no I/O: measurements and the time between them go in, an estimate with its
//! covariance comes out. Everything is in metres on a plane around a site.
//!
//! What it rests on, and what not: the path loss and shadowing of one environment (3GPP TR 38.901, urban macro cells), taken to
//! be alike for all cells and independent from cell to cell; a timing advance whose error is that of a way longer than the straight one.
//! A city has street canyons and cells with sectors, of which nothing is known here. Without measurements of
//! a real network its figures are those of a model, and precise means tens of metres.

mod circle;
mod claim;
mod filter;
mod live;
mod plane;
pub(crate) mod propagation;
pub mod study;
mod tracks;
pub(crate) mod world;

pub use circle::{Overlap, overlap};
pub use claim::Verdict;
pub use filter::CONFIDENCE;
pub use live::{CLAIMS_MAX, Claim, Judged, Positions};
pub(crate) use plane::Plane;

use claim::{Claims, SPEED_MAX_M_S};
use filter::{Filter, PARTICLES};
use tracks::{Advance, Heard, Measurement};
