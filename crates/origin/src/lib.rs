//! Origins: who is asked for what the cache does not have, over which connection, and what came
//! back.
//!
//! A [`director::Director`] picks one of several origins by turn, by key or by order, group after
//! group, looking at their health ([`health::HealthBoard`]) and at which keys are asked for often
//! ([`hot::HotKeys`]); that is a decision without I/O. [`exchange()`] then sends
//! a request over a connection of the worker's [`pool::Pool`] and hands back the head of the
//! response with its body still to be read. What goes wrong is an [`OriginError`], which knows
//! whose fault it was and what to answer for it.
//!
//! A pool and what comes out of it belong to one worker, a thread with its own runtime. An
//! [`Origin`] is shared by all: settings, addresses of its name, health, counters and the limit on
//! its connections. [`pool::Pool::maintain`] and [`probe::run`] are futures for its user to run; the
//! only tasks started here are connections of HTTP/2, one each, on the worker's `LocalSet`. It knows no cache, no clients, no configuration file, and retries
//! on another origin only when told to: that choice belongs to the request's way.
//!
//! Underneath are `freshet_net` for streams and `freshet_wire` for HTTP/1 and HTTP/2.
//!
//! ```
//! use freshet_http::message::RequestHead;
//! use freshet_origin::{Origin, exchange, pool::Pool};
//! # use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let address = listener.local_addr()?;
//! # std::thread::spawn(move || {
//! #     let (mut socket, _) = listener.accept().expect("the example connects");
//! #     socket.read(&mut [0; 1024]).expect("the example sends a request");
//! #     socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").expect("it reads");
//! # });
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let origin = Origin::new(format!("http://{address}").parse()?)?;
//! let pool = Pool::new();
//! let request = RequestHead { target: "/".into(), ..RequestHead::default() };
//! let mut response = exchange(&pool, &origin, &request, None, &mut |_interim| {}).await?;
//! assert_eq!(response.head.status, 200);
//! let mut text = [0; 64];
//! let count = response.body.read(&mut text).await?;
//! assert_eq!(&text[..count], b"hello");
//! assert_eq!(pool.idle_len(origin.id), 1);
//! # Ok(())
//! # })
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod base_path;
mod buffer;
mod capacity;
mod connect;
mod connection;
pub mod definition;
pub mod director;
pub mod error;
mod exchange;
pub mod health;
pub mod hold;
pub mod hot;
mod http2;
mod idle;
mod line;
mod outage;
pub mod places;
pub mod pool;
pub mod probe;
pub mod probe_history;
mod race;
pub mod raw;
pub mod request_body;
pub mod resolve;
pub mod response_body;
pub mod share;
pub mod stats;
mod upload;

pub use definition::{HttpVersion, Origin, OriginId, OriginSettings, Terms, Waits};
pub use error::OriginError;
pub use exchange::{Facts, INTERIM_MAX, OriginResponse, exchange, exchange_within};
pub use line::Claim;
pub use share::Party;
