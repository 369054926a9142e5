//! What is done to bodies on their way, without I/O: [`coding`]s are taken off and put on, and pages are
//! taken apart for edge side includes.
//!
//! A [`chain::Chain`] is a row of stages between the bytes of an origin and those that are kept, or
//! between what is kept and what a client gets. [`heads`] says what a stage changes in a response's
//! head; [`esi`] reads pages and keeps them as parts. Who asks for an include is not known here.
#![forbid(unsafe_code)]

pub mod chain;
pub mod coding;
pub mod esi;
pub mod heads;
