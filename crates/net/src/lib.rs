//! Sockets, TLS streams and what a process needs from the kernel to serve them.
//!
//! A [`listener::Listener`] hands out [`socket::Socket`]s; a socket becomes a [`stream::Stream`],
//! in the clear or after a TLS handshake by [`tls::server`] or [`tls::client`], and from there on
//! nothing above has to know which. Beside them: who may speak the PROXY protocol ([`proxy`]),
//! which processors to pin workers to ([`topology`]), which of them a connection comes to
//! ([`steering`]) and how listening sockets reach the next
//! process ([`handover`]).
//!
//! Every worker is one thread with its own tokio `LocalRuntime`; sockets belong to the runtime they
//! were first used in. What workers share is read-mostly: certificates and ticket keys are swapped
//! whole. This crate parses no HTTP, reads no configuration file and formats no access log. Unsafe
//! code is found in [`handover`], where file descriptors come out of an environment variable, at one
//! call in [`listener`], and in [`steering`] and [`quic`], at calls of the kernel that nobody else has.
//!
//! ```
//! use freshet_net::{address::Address, listener::{ListenOptions, Listener}};
//! use freshet_net::{socket::Socket, stream::Stream};
//! use std::{io::IoSlice, time::Duration};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
//! runtime.block_on(async {
//!     let listener = Listener::bind(&"127.0.0.1:0".parse()?, &ListenOptions::default())?;
//!     let address: Address = listener.local_address().clone();
//!     let mut client = Stream::from(Socket::connect(&address, Duration::from_secs(1)).await?);
//!     let (socket, _peer) = listener.accept().await?;
//!     let mut server = Stream::from(socket);
//!     client.write_pieces(&[IoSlice::new(b"hel"), IoSlice::new(b"lo")]).await?;
//!     let mut text = [0; 16];
//!     assert_eq!(server.read(&mut text).await?, 5);
//!     Ok(())
//! })
//! # }
//! ```

pub mod address;
pub mod controls;
pub mod descriptor;
pub mod error;
pub mod handover;
pub mod limits;
pub mod listener;
pub mod places;
pub mod program;
pub mod proxy;
pub mod quic;
pub mod readiness;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod socket;
pub mod steering;
pub mod stream;
pub mod succession;
pub mod tls;
pub mod topology;
pub mod trust;

pub use error::NetError;
