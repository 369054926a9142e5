//! The index of stored responses: what a request finds, whose turn it is to fetch, and what leaves
//! when memory is short.
//!
//! The crate owns the [`Cache`]: a hash table in parts, each under a short lock, from a [`Key`] to
//! the stored variants of a resource ([`Object`]), the fetches under way and the requests that
//! wait for them. It decides which variant a request selects, hands out the turn to fetch
//! ([`Ticket`]) so that each resource is fetched once however many ask for it, and evicts by
//! S3-FIFO when the arena asks for room.
//!
//! It never does I/O and never reads a clock: time is an argument, and bodies are filled and read by
//! others. It does not decide whether a response may be stored or is fresh (`freshet-http` does, and
//! the caller says by a callback what an object is good for), nor what a client is told when a
//! fetch fails.
//!
//! Neighbours: bodies come from `freshet-store`, whose arena asks [`Cache::reclaim`] for room; the
//! node looks up, fetches and inserts.
//!
//! # A request's way
//!
//! [`Cache::lookup`] ends in one of five ways. A *hit* is answered from, and one of those that find
//! a stale object gets the ticket to refresh it. A *miss* gets a ticket; until it ends, others with
//! the same key *wait*, and look up again when it does. Where responses turned out not to be fit
//! to be shared, a marker makes each request fetch for itself for a time (*hit for miss*). When too
//! many wait already, the rest is turned away (*crowded*).
//!
//! A [`Ticket`] ends by [`Ticket::insert`], which makes the object visible at once, while its body
//! grows, or by [`Ticket::refresh`], [`Ticket::hit_for_miss`] or [`Ticket::fail`]. A ticket that is
//! dropped lets the next one try. What was fetched with a ticket from before a purge is not kept.
//!
//! ```
//! use freshet_base::clock::UnixMillis;
//! use freshet_cache::{Cache, Form, Lookup, ObjectSpec, Purge, Secret, Settings, StoredHead, Use};
//! use freshet_http::fields::Fields;
//! use freshet_http::freshness::{Freshness, Reuse};
//! use freshet_http::message::RequestHead;
//! use freshet_store::{Arena, Body};
//! use std::time::Duration;
//!
//! let cache = Cache::new(Arena::new(64 << 20)?, Secret::random(), Settings::default())?;
//! let key = cache.key("example.com", "/");
//! let (request, now) = (RequestHead::default(), UnixMillis(1_800_000_000_000));
//! let look = || {
//!     cache.lookup(&key, &request, now, &mut |object| match object.reuse(now) {
//!         Reuse::Fresh => Use::Serve,
//!         Reuse::StaleWhileRevalidate => Use::ServeAndRefresh,
//!         Reuse::Stale | Reuse::MustValidate => Use::Validate,
//!     })
//! };
//!
//! let Lookup::Miss { ticket, .. } = look() else { panic!("nothing is stored yet") };
//! assert!(matches!(look(), Lookup::Wait { .. }), "one fetches, the others wait");
//! let object = ticket.insert(ObjectSpec {
//!     head: StoredHead::new(
//!         200,
//!         Fields::new(),
//!         Freshness::from_policy(now, Duration::from_secs(60)),
//!     ),
//!     body: Body::new(cache.arena(), None),
//!     variation: None,
//!     tags: Box::default(),
//!     objective: None,
//! });
//! let Lookup::Hit { object: found, .. } = look() else { panic!("it was inserted") };
//! assert_eq!(found.id(), object.id());
//! assert_eq!(cache.purge(&key, Purge::Hard), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod cache;
mod census;
mod copies;
mod counters;
pub mod error;
pub mod eviction;
mod fetches;
pub mod groups;
pub mod key;
pub mod left;
mod lock;
pub mod lookup;
pub mod lower;
pub mod marker;
mod moves;
pub mod object;
pub mod observe;
mod order;
mod original;
pub mod purge;
mod purge_log;
mod reclaim;
pub mod restore;
pub mod selector;
mod shard;
mod share;
mod shares;
pub mod stats;
pub mod ticket;
mod variants;
pub mod waiting;

pub use cache::{Cache, Settings};
pub use census::TagCounts;
pub use copies::Copying;
pub use counters::{Counters, MissWhy};
pub use error::CacheError;
pub use eviction::Objective;
pub use groups::Groups;
pub use key::{Key, KeyBuilder, Secret};
pub use left::Left;
pub use lookup::{Asker, Lookup, Use};
pub use lower::{LowerStats, LowerTakes};
pub use marker::{LeftBy, Marker};
pub use object::{ForCoding, Form, Object, ObjectSpec, StoredHead, tag};
pub use observe::{Learned, LearnedCurve};
pub use purge::Purge;
pub use restore::Past;
pub use selector::{Selecting, Variation};
pub use stats::{Page, Peek, Stats};
pub use ticket::Ticket;
pub use variants::VARIANTS_MAX;
pub use waiting::{Failure, WaitOutcome, Waiter};
