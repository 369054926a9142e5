//! Where addresses are and whose: look-ups in MaxMind databases, whose files may change at any time.
//!
//! A [`Database`] is a file's bytes in memory. A [`File`] is a path with the database that was last
//! good there: all who open a path share one, and a thread looks every second whether it has changed.
//! What cannot be read is said in the log, and the database of before goes on. [`Geo`] is what a node
//! asks of those it is configured with.
//!
//! It knows no requests, rules and logs. The format is MaxMind's, version 2.0
//! (<https://maxmind.github.io/MaxMind-DB/>); `maxminddb` reads it.
//!
//! ```no_run
//! let cities = freshet_geo::File::open("/var/lib/GeoIP/GeoLite2-City.mmdb".as_ref())?;
//! let address = "192.0.2.7".parse().expect("it is an address");
//! assert_eq!(cities.database().text(address, "city/names/en").as_deref(), Some("Graz"));
//! # Ok::<(), freshet_geo::GeoError>(())
//! ```
#![forbid(unsafe_code)]

mod database;
mod error;
mod file;
mod places;
mod value;
#[cfg(any(test, feature = "writer"))]
pub mod writer;

pub use database::{BYTES_MAX, Database, Location};
pub use error::GeoError;
pub use file::{FILES_MAX, File};
pub use places::{Code, Geo};
