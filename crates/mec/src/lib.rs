//! A mobile edge host by ETSI GS MEC: the platform as a server, with names, the edge router and what runs apps.
//!
//! What it owns:
//! - [`serve`]: the platform on the network and behind its configuration: requests, notifications on their way, a
//!   resolver of names, packages that come, app instances that are run, a console;
//! - [`objective`]: what is promised of services, as rules of Prometheus.
//!
//! What it must never know: what becomes of a request. That is the platform's, which is asked with the time and a
//! random name; here is done what it decides.
//!
//! ```
//! let config = "listen = \"127.0.0.1:0\"\nstate = \"/var/lib/mec\"";
//! assert_eq!(freshet_mec::serve::check(freshet_mec::serve::read(config).unwrap()), Ok(()));
//! ```
#![forbid(unsafe_code)]

pub mod limits;
pub mod objective;
pub mod serve;
