//! Where a client is sent: a router for requests, over HTTP and DNS.
//!
//! [`decision`] chooses region and node as a value, without sockets, files or a clock. [`config`] reads
//! the file of a router into what decisions are made by, with each mistake at its line. [`live`] holds
//! what is known of nodes while it runs, [`redirect`] and [`dns`] make answers of decisions, and [`serve`]
//! has the sockets: redirects, DNS, health checks, metrics.
//!
//! It knows no cache and no content, and nothing of the node: a node is an address that answers.
//!
//! ```
//! use freshet_base::clock::UnixMillis;
//! use freshet_route::{config, live::Routing, redirect};
//!
//! let text = r#"
//! [[region]]
//! name = "west"
//! [[node]]
//! name = "west-1"
//! region = "west"
//! host = "west-1.example"
//! "#;
//! let routing = Routing::new(config::read(text).expect("it is good"), None).expect("it is");
//! let request = redirect::Request {
//!     is_reading: true,
//!     is_secure: false,
//!     host: "www.example",
//!     target: "/a.html",
//!     client: [192, 0, 2, 1].into(),
//!     cookie: "",
//! };
//! let reply = redirect::answer(&routing, &request, UnixMillis::now());
//! assert_eq!(reply.location.as_deref(), Some("http://west-1.example/a.html"));
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod decision;
pub mod dns;
mod limits;
pub mod live;
pub mod measure;
pub mod redirect;
pub mod serve;
mod steering;
