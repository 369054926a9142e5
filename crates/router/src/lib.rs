//! The edge router: local breakout in front of a 4G or 5G core, on the line and safe to pull out.
//!
//! It stands between base stations and the core's user plane (N3, S1-U) or behind the core (N6, SGi),
//! as a bump in the wire. Clients' packets that a rule of ETSI GS MEC 011 matches go to an app at the
//! edge: in place of the server, in-line, or as a copy. All else goes on as it came.
//!
//! What it owns:
//! - [`packet`] and [`gtp`]: frames, read and written;
//! - [`mod@rule`]: traffic rules, checked as a whole, compiled to bit sets, and what they mean;
//! - [`session`]: which client is behind which tunnel, as learnt, copied from PFCP or told;
//! - [`dns`]: which addresses a name has;
//! - [`cores`]: which cores of a machine are guaranteed to be fast, and how to hold them there;
//! - `kernel`, with the feature of that name: the programs themselves, loaded and attached;
//! - [`model`]: what becomes of a frame, said plainly; the program in the kernel is held against it.
//!
//! What it must never know: HTTP, the cache, who writes the rules.
//!
//! ```
//! use freshet_router::rule::check;
//!
//! let rules = serde_json::json!([{
//!     "trafficRuleId": "local", "filterType": "FLOW", "priority": 1, "state": "ACTIVE",
//!     "trafficFilter": [{"dstAddress": ["192.0.2.300"]}], "action": "DROP",
//! }]);
//! let (apps, names) = Default::default();
//! let checked = check::read(rules).and_then(|rules| check::check(&rules, &apps, &names));
//! let mistakes = checked.unwrap_err();
//! assert_eq!(mistakes[0].place, "rules[0].trafficFilter[0].dstAddress[0]");
//! ```
#![forbid(unsafe_code)]

pub mod app;
pub mod cores;
pub mod dns;
pub mod gtp;
#[cfg(feature = "kernel")]
pub mod kernel;
pub mod model;
pub mod packet;
pub mod rule;
pub mod session;
