//! What a node tells of its work: the access log, transcripts of single requests, and counters.
//!
//! Workers write into memory of their own and never wait: a record that finds no room is dropped and
//! counted. Who reads (a thread that writes the log, the admin interface, a collector) adds up over workers.
//! It does not know what a request goes through, only what is said of it, and it knows a site by its name
//! alone.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | the access log, its records and formats | [`log`] |
//! | what happened to one request, line by line | [`transcript`] |
//! | what each worker counts | [`stats`], of each site [`site_stats`], of answers of origins [`answer_bodies`] |
//! | what is counted by what a service says of requests | [`calls`] |
//! | what was not stored, and why | [`decisions`] |
//! | traced requests as examples of how long responses take | [`exemplars`] |
#![forbid(unsafe_code)]

pub mod answer_bodies;
pub mod calls;
pub mod decisions;
pub mod exemplars;
pub mod log;
pub mod received;
pub mod site_stats;
pub mod stats;
pub mod transcript;
