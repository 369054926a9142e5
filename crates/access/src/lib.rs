//! Who a client is, whether its requests are let in, and how much of what all share it may hold.
//!
//! Rules are a site's and are handed in with the request, as is what of a worker a service is asked with. It
//! answers with a status and a reason, or with whom a request was let in as, and neither knows what a request is
//! for nor what becomes of it.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | the client's end of a connection | [`client`]; where a load balancer says who it is, [`forwarded`] |
//! | passwords, networks, services that are asked, maintenance | [`doors`] |
//! | signed URLs and tokens | [`tokens`] |
//! | certificates of clients | [`certificates`] |
//! | as whom a request was let in | [`identity`] |
//! | rates, connections and requests under way, blocks | [`limiter`] |
//! | memory that clients hold | [`ledger`] |
#![forbid(unsafe_code)]

pub mod certificates;
pub mod client;
pub mod doors;
pub mod forwarded;
pub mod identity;
pub mod ledger;
pub mod limiter;
pub mod tokens;
