//! The platform of a mobile edge host: the services, and the rules of traffic and names, that ETSI GS
//! MEC has for applications at the edge of a mobile network.
//!
//! What it owns:
//! - [`Platform`]: documents in one tree, and what requests make of them. It knows no clock and no sockets: a
//!   request, the time and a random name go in, an [`Answer`] and changes come out;
//! - [`table`]: its interfaces, of the tables in `api/`, from which routing, checks and OpenAPI documents follow, and
//!   what each does beyond its table;
//! - [`callback`], [`notify`]: where notifications may go, and in which order they do;
//! - [`Work`]: what is done to app instances, step by step;
//! - [`token`], [`client`]: OAuth 2.0 client credentials and access tokens of RFC 9068;
//! - a journal, in which changes outlive the process.
//!
//! What it must never know: sockets, how apps are run, and how packets are forwarded. Traffic rules are handed to the
//! edge router as a whole, and count as made when it has them.
//!
//! ```
//! use freshet_platform::{Call, Client, Issuer, Platform, Setup};
//!
//! let issuer = Issuer::new(&Issuer::new_key(), "http://mec.example", "mec").unwrap();
//! let client = Client::new("secret", None, vec!["mec_app_support".into()]);
//! let setup = Setup::new("http://mec.example", issuer, [("operator".to_owned(), client)].into());
//! let platform = Platform::new(setup).unwrap();
//! let call = Call::get("/mec_app_support/v1/timing/current_time", None);
//! let refused = platform.decide(&call, "a fresh name", 1_800_000_000_000).unwrap_err();
//! assert_eq!(refused.status, 401);
//! ```
#![forbid(unsafe_code)]

mod api;
pub mod callback;
pub mod client;
mod journal;
mod life;
pub mod limits;
pub mod notify;
mod platform;
pub mod token;

pub use api::table;
pub use callback::CallbackPolicy;
pub use client::Client;
pub use life::{Found, Place, Reach, Room, Step, Task, Tunnel, Work};
pub use platform::{
    Access, Answer, App, Call, Decision, DeviceApp, GATEWAY_CHANGES, Host, Identified, Neighbour,
    NeighbourApp, PacketPath, Platform, Resolved, SERVICES_SCOPE, Setup, Standing, Technology,
};
pub use token::Issuer;
