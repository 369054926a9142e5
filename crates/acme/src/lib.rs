//! Certificates from an authority that gives them by itself (ACME, RFC 8555).
//!
//! A [`Manager`] keeps certificates for a list of names: it orders what is missing, proves that the
//! names are this node's by HTTP (RFC 8555 §8.3) or in a handshake (RFC 8737), and renews each when
//! the authority suggests it (RFC 9773), else when a third of its time is left. What it has is in a
//! directory: each step of an order is written there before it is taken, so that a process that is
//! killed at any moment goes on where it was, and never orders again what it has ordered.
//!
//! It runs in a thread of its own, orders one certificate at a time, and every answer of the
//! authority is bounded in bytes and time. It never touches a request: what proves a name lies in
//! [`freshet_net::tls::challenge::Challenges`], where workers find it, and certificates go into the
//! [`freshet_net::tls::certificate::CertificateStore`] as files.
//!
//! Our own client, on the node's own HTTP and TLS: what it says is 700 lines, and it sees
//! `Retry-After`, bounds what it reads and resumes an order after a crash.
#![forbid(unsafe_code)]

mod certificate;
mod client;
mod demand;
mod error;
mod http;
mod jose;
mod limits;
mod manager;
mod messages;
mod order;
mod plan;
mod schedule;
mod state;
mod status;

pub use error::{AcmeError, FailureKind};
pub use manager::{Manager, Running};
pub use plan::{ChallengeKind, ExternalAccount, KeyType, OnDemand, Pace, Plan, is_name};
pub use status::{NameStatus, Status};
