//! What a request meets: the site it is for, with its origins and its policy, and the configuration in force.
//!
//! A policy is a trait here: it is asked at each state of a request or a fetch, sees its task and answers. Who
//! runs the states and how policies are written are the business of the crates above. A request keeps
//! the configuration it began with, whatever comes in force meanwhile.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | what a site is, and how its origins are chosen | [`site`] |
//! | which site a host is of, and what is a site's by its name | [`sites`], [`keys`] |
//! | what a reload swaps as one | [`snapshot`] |
//! | what a policy decides, and what it sees | [`policy`] |
//! | what is done beside a policy | [`semantics`] |
//! | what a request brings, and what it is sent before its response | [`client_body`], [`interim`], [`nesting`] |
//! | pieces of a response's body, and what it holds meanwhile | [`pieces`] |
//! | responses that are made here | [`synthetic`], [`error_pages`] |
//! | what a stored object is good for | [`usable`] |
//! | what goes with a stored body | [`upkeep`], [`shares`] |
#![forbid(unsafe_code)]

pub mod client_body;
pub mod durability;
pub mod error_pages;
pub mod interim;
pub mod keys;
pub mod nesting;
pub mod pieces;
pub mod policy;
pub mod semantics;
pub mod shares;
pub mod site;
pub mod sites;
pub mod snapshot;
pub mod synthetic;
pub mod upkeep;
pub mod usable;
pub mod wishes;
