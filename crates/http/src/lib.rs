//! HTTP semantics without I/O: what a message means to a shared cache.
//!
//! Everything here is a function of its arguments. There are no sockets, no clocks (time is a
//! [`freshet_base::clock::UnixMillis`] argument) and no unsafe code. This crate never sees a body:
//! it decides from heads. It knows nothing of where responses are kept or how they were fetched.
//!
//! The questions it answers, in the order a request meets them:
//!
//! | question | module |
//! |---|---|
//! | is the target sound, and what is its cache key? | [`target`] |
//! | has the request been here before? | [`cdn_loop`] |
//! | which purges has the cache behind that it comes from? | [`applied`] |
//! | what of it may reach an origin that is asked for all? | [`unkeyed`] |
//! | which stored variant does this request select? | [`vary`] |
//! | which coding of a body does its client like best? | [`coding`] |
//! | may the stored response be used now? | [`freshness`] |
//! | does the client already have it? which part does it want? | [`conditional`], [`range`], [`multipart`] |
//! | may the origin's response be stored, and for how long? | [`freshness`], [`cache_control`] |
//! | what is kept of it, and what does a 304 change? | [`hop_by_hop`], [`update`] |
//! | how urgent is a response, and which stream sends next? | [`priority`], [`scheduler`] |
//! | how long does an origin want to be left alone? | [`retry_after`] |
//! | which cookies has a request? | [`cookie`] |
//! | what does an unsafe request make invalid? | [`method`] |
//! | what is made invalid together? | [`cache_groups`] |
//! | how do nodes beside this one hear of that? | [`changed`] |
//! | how is all that told to people? | [`reason`], [`cache_status`], [`proxy_status`] |
//!
//! ```
//! use freshet_base::clock::UnixMillis;
//! use freshet_http::fields::Fields;
//! use freshet_http::freshness::{Received, Reuse, Settings, Storability, storability};
//! use freshet_http::message::Method;
//!
//! let request = Fields::new();
//! let response: Fields = [("Cache-Control", "max-age=60")].into_iter().collect();
//! let at = UnixMillis(1_700_000_000_000);
//! let received = Received {
//!     method: &Method::Get,
//!     request: &request,
//!     status: 200,
//!     response: &response,
//!     request_time: at,
//!     response_time: at,
//!     authority: "example.com",
//!     target: "/",
//! };
//! let Storability::Store(freshness) = storability(&received, &Settings::default()) else {
//!     panic!("a fresh response is stored");
//! };
//! assert_eq!(freshness.reuse(UnixMillis(at.0 + 59_999)), Reuse::Fresh);
//! assert_eq!(freshness.reuse(UnixMillis(at.0 + 60_000)), Reuse::Stale);
//! ```
#![forbid(unsafe_code)]

pub mod applied;
pub mod cache_control;
pub mod cache_groups;
pub mod cache_status;
pub mod cdn_loop;
pub mod changed;
pub mod coding;
pub mod conditional;
pub mod cookie;
pub mod date;
pub mod error;
pub mod fields;
pub mod freshness;
pub mod hop_by_hop;
pub mod message;
pub mod method;
pub mod multipart;
pub mod path;
pub mod priority;
pub mod proxy_status;
pub mod range;
pub mod reason;
pub mod retry_after;
pub mod scheduler;
pub mod status;
pub mod structured;
pub mod target;
pub mod unkeyed;
pub mod update;
pub mod vary;
