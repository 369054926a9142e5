//! What a radio network tells of mobile clients, and where they are by it.
//!
//! What it owns:
//! - [`Radio`]: a report of cells, and of clients with their bearers and what is measured of them;
//! - [`simulator`]: a network that is none, for demonstrations and tests;
//! - [`observed`]: a report of what the edge router sees of clients;
//! - [`position`]: where clients are by what is measured, whether they are where they say, and how well both is
//!   known of networks that are made up.
//!
//! What it must never know: sockets, clocks, who asks where a client is. Time is an argument.
//!
//! ```
//! use freshet_radio::{position::Positions, simulator::Simulator};
//!
//! let mut network = Simulator::new(7, 3);
//! let mut radio = network.report(1_800_000_000_000);
//! let client = radio.clients[0].address;
//! assert!(radio.clients[0].position.is_none());
//! let mut positions = Positions::default();
//! positions.take(&mut radio, 1_800_000_000_000);
//! let (place, _) = positions.last(client).unwrap();
//! assert!(place.accuracy_m > 0.0);
//! ```
#![forbid(unsafe_code)]

pub mod observed;
pub mod position;
mod random;
mod report;
pub mod simulator;

pub use report::{
    Bearer, CELLS_MAX, CLIENTS_MAX, Cell, Client, Ellipse, NEIGHBOURS_MAX, Neighbour, Place, Radio,
    SECONDARY_CELLS_MAX, distance_m, is_of_nr,
};
