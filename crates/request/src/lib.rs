//! The client's side of a request: from what a session hands over to a response that it can send.
//!
//! [`handle`] runs the state machine that every protocol's requests go through. It asks the site's policy at
//! each state, looks up and fetches, and answers with a [`client_exchange::Reply`], whose body is read while it is
//! sent. It knows no bytes of any protocol, and no disk.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | the states of a request, one file per group | `machine` |
//! | requests and replies as sessions see them | [`client_exchange`] |
//! | where a response's body comes from | [`delivery`] |
//! | pages that are put together while they are sent | `assembly` |
//! | what a request would get, without sending it | [`preview`] |
#![forbid(unsafe_code)]

mod assembly;
pub mod client_exchange;
pub mod delivery;
mod machine;
pub mod preview;

pub use machine::{handle, refusal};
