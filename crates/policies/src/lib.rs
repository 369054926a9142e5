//! The policies there are: a shared cache by RFC 9111 with the rules of a configuration, and programs in VCL.
//!
//! Both are a [`freshet_site::policy::Policy`]: they are asked at each state and answer, and never wait. What a
//! program purges and bans it does to what workers share; it knows nothing of requests and fetches but their
//! tasks.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | a shared cache by RFC 9111 | [`builtin`] |
//! | redirects, paths, fields and CORS, and names in braces in their values | `rules`, `values` |
//! | a VCL program | [`vcl`] |
#![forbid(unsafe_code)]

pub mod builtin;
mod rules;
mod values;
pub mod vcl;
