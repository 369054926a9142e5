//! What a worker is, what workers share, and who keeps responses besides the memory they arrive in.
//!
//! A worker is a thread with connections, a pool and counters of its own. All that its tasks need is in
//! [`worker::Worker`], and what is one for the node in [`worker::Shared`]; what runs on a worker (sessions,
//! requests, fetches) is the business of the crates above, which are not known here.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | the state of a worker, and what all share | [`worker`] |
//! | where workers and memory are | [`layout`] |
//! | what keeps responses: disks, memory of a lower class | [`keepers`], [`disk`], [`lower`] |
//! | copies of what is in another group | [`copies`] |
//! | what is under way beside requests | [`errands`] |
//! | when what a policy keeps leaves | [`expiry`] |
//! | bans, and purges that look at everything | [`bans`], [`group_purges`] |
//! | which purges were carried out here, and which configuration runs | [`applied`], [`versions`] |
//! | how memory moves to the process of an upgrade | [`handover`] |
#![forbid(unsafe_code)]

pub mod applied;
pub mod bans;
pub mod copies;
pub mod disk;
pub mod errands;
pub mod expiry;
pub mod farewell;
pub mod group_purges;
pub mod handover;
pub mod ids;
pub mod keepers;
pub mod layout;
pub mod lower;
pub mod versions;
pub mod worker;
