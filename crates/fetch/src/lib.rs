//! The origin's side of a request: a state machine of its own, in a task of its own, so that a
//! client that leaves never ends a fetch others wait for.
//!
//! A request hands over a [`Plan`] and gets what it comes to as [`Fetched`]. A body whose gaps are fetched while it
//! is read is a [`stored::StoredBody`].
#![forbid(unsafe_code)]

mod machine;

pub use machine::{
    Cause, Fetched, Foreseen, Next, Plan, SentPart, again, failure, fetch_next, for_pipe,
    is_fetched_in_part, missing, range, recode, selecting, start, start_behind, stored,
    unconnected,
};
