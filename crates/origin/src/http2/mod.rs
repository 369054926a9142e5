//! HTTP/2 to an origin (RFC 9113): connections that carry many exchanges at a time.
//!
//! A [`session::Session`] is one connection. Its [`driver`], a task of its own, is the only one that
//! reads and writes; whoever has an exchange has a [`stream::Stream`] of it, puts a request in and
//! takes a response out, and is woken when there is something. What may be sent and who is next is
//! decided by [`freshet_wire::h2`], without I/O. [`sessions`] are a worker's to one origin: an
//! exchange takes the first that has room, so that there are as few as the origin's limit allows.
//!
//! What an origin can make us hold is bounded: [`STREAMS_MAX`] responses of [`STREAM_WINDOW_BYTES`]
//! each for a connection, and the heads that [`freshet_wire::h2::limits`] lets in.

pub(crate) mod alone;
pub(crate) mod attempt;
pub(crate) mod driver;
pub(crate) mod reach;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod stream;

use std::time::Duration;

/// Exchanges at a time on one connection, however many more the origin takes. Beyond it another
/// connection is opened, which spreads a worker's bytes over more than one congestion window.
const STREAMS_MAX: u32 = 64;

/// Bytes of a response that may wait for whoever reads it: 10 MB/s over 50 ms of round trip.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;

/// Bytes of all responses of a connection: as many as all its streams may have, so that a body that
/// nobody reads never holds up another.
const CONNECTION_WINDOW_BYTES: u32 = STREAMS_MAX * STREAM_WINDOW_BYTES;

/// Bytes of a request's body that wait for the connection.
const UPLOAD_BYTES_MAX: usize = 64 * 1024;

/// Silence of an origin that owes an answer, until it is asked by a PING whether it is there. It has
/// the time between two bytes to say so.
const PING_AFTER: Duration = Duration::from_secs(10);

/// How often a connection looks at its clock.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Streams whose answer has no body, which are left to end by themselves instead of being reset.
const ENDING_STREAMS_MAX: usize = 16;
