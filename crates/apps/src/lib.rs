//! What runs the apps of a mobile edge host: containers of this machine, pods of a cluster, or hosts of their own that
//! are told so over NATS.
//!
//! What it owns:
//! - [`Driver`]: what can be done to an app instance, each act as often as one likes, and [`Spec`]: what an instance
//!   is;
//! - [`oci`]: instances as containers of this machine, by a runtime of the Open Container Initiative;
//! - [`kubernetes`]: instances as pods of a cluster;
//! - [`hosts`]: instances on hosts of their own: what these are told and say, the platform's side and a host's;
//! - [`disk`]: words for what a disk said.
//!
//! What it must never know: what an instance is asked to do next, by whom, and which traffic is led to it.
//!
//! ```
//! use freshet_apps::{End, device, mac};
//!
//! // The network of the third app of a host: a pair of veth.
//! assert_eq!((device(2), mac(2, End::App)), ("mec2".to_owned(), "02:4d:45:00:02:02".to_owned()));
//! ```
#![forbid(unsafe_code)]

pub mod disk;
mod driver;
pub mod hosts;
pub mod kubernetes;
pub mod limits;
pub mod oci;
mod program;
mod tunnel;

pub use driver::{
    Driver, End, Health, Network, Package, SendsApart, Spec, Trouble, Wire, device, mac,
};
