//! The capacity planner: the models of the published papers, with the reader's own values put in.
//!
//! What it owns:
//! - [`quantity`] and [`mod@unit`]: numbers with dimensions, checked when they are read and when the
//!   formulas are compiled;
//! - the models of channels, cost, energy, carbon, endurance and fleets, and the papers' cases as
//!   inputs, each value with its place in a paper ([`Model`]);
//! - [`mod@fit`]: a measured curve or run in place of the papers' assumptions;
//! - [`outcome`]: results with their formulas, inputs and the papers' own figures beside them, and
//!   [`present`]: the same as text, page, JSON and CSV.
//!
//! What it must never know: files and clocks. It gets texts and gives texts; the command line reads
//! and writes.
//!
//! ```
//! use freshet_plan::{Model, Request, plan};
//!
//! let outcome = plan(Model::Energy, &Request::default()).expect("the paper's case runs");
//! assert!(outcome.checks.iter().all(|check| check.paper == check.model));
//! ```
#![forbid(unsafe_code)]

pub mod fit;
pub mod mistake;
mod models;
pub mod outcome;
mod papers;
pub mod present;
pub mod quantity;
mod range;
mod reader;
mod sheet;
pub mod unit;

pub use fit::fit;
pub use mistake::PlanError;
pub use models::{Model, Request, plan};
pub use range::{POINTS_MAX, Vary};
pub use reader::{File, Input, ROWS_MAX};
