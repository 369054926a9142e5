//! One connection to an origin, in use or idle.

use crate::buffer::ReadBuffer;
use crate::capacity::Permit;
use crate::definition::{Origin, Waits};
use crate::stats::Held;
use freshet_net::address::PeerAddress;
use freshet_net::stream::Stream;
use freshet_wire::h1::Limits;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A connection with its place under the origin's limit, which it gives back when dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) origin: Arc<Origin>,
    pub(crate) stream: Stream,
    pub(crate) buffer: ReadBuffer,
    /// Requests sent on it before the present one.
    pub(crate) uses: u64,
    /// The origin's end.
    pub(crate) remote: Option<PeerAddress>,
    /// Our end.
    pub(crate) local: Option<SocketAddr>,
    /// How long the present request waits for what.
    pub(crate) waits: Waits,
    /// Limits on the head of the present response.
    pub(crate) limits: Limits,
    /// How long its machine may acknowledge nothing, as the system knows it.
    unacknowledged_max: Option<Duration>,
    // Dropped in this order: closed, no longer counted, and only then is there room for another.
    open: Held,
    permit: Permit,
}

/// An idle connection: no buffer, counted as idle.
#[derive(Debug)]
pub(crate) struct Idle {
    connection: Connection,
    idle: Held,
}

/// What a connection holds besides its stream and buffer, for a stream that leaves HTTP.
#[derive(Debug)]
pub(crate) struct Place {
    _open: Held,
    _permit: Permit,
}

impl Connection {
    pub(crate) fn new(origin: &Arc<Origin>, stream: Stream, permit: Permit) -> Self {
        let open = Held::new(origin, |stats| &stats.open);
        let buffer = ReadBuffer::default();
        let (remote, local) = (stream.peer_address(), stream.local_address());
        let waits = Waits::default();
        let origin = Arc::clone(origin);
        let limits = origin.settings.limits;
        let unacknowledged_max = None;
        Self {
            origin,
            stream,
            buffer,
            uses: 0,
            remote,
            local,
            waits,
            limits,
            unacknowledged_max,
            open,
            permit,
        }
    }

    /// Time to the head of a response.
    pub(crate) fn first_byte(&self) -> Duration {
        self.waits.first_byte.unwrap_or(self.origin.settings.timeouts.first_byte)
    }

    /// Time between two bytes.
    pub(crate) fn between_bytes(&self) -> Duration {
        self.waits.between_bytes.unwrap_or(self.origin.settings.timeouts.between_bytes)
    }

    /// A head that no machine acknowledges within the time for a connection went to one that is gone, as
    /// behind a cut cable, where nothing ever comes back. Of a body no more is acknowledged than there
    /// is room for.
    pub(crate) fn expect_acknowledgement(&mut self, has_body: bool) {
        let connect = self.waits.connect.unwrap_or(self.origin.settings.timeouts.connect);
        let limit = if has_body { self.between_bytes().max(connect) } else { connect };
        if self.unacknowledged_max != Some(limit) {
            self.unacknowledged_max = Some(limit);
            self.stream.socket().set_unacknowledged_max(limit);
        }
    }

    /// The stream, what was read ahead, and the place under the limit.
    pub(crate) fn into_parts(self) -> (Stream, ReadBuffer, Place) {
        (self.stream, self.buffer, Place { _open: self.open, _permit: self.permit })
    }

    /// Closes the connection and keeps its place under the limit.
    pub(crate) fn into_permit(self) -> Permit {
        self.permit
    }
}

impl Idle {
    pub(crate) fn new(connection: Connection) -> Self {
        let idle = Held::new(&connection.origin, |stats| &stats.idle);
        Self { connection, idle }
    }

    /// Whether it leads to where its origin is by now.
    pub(crate) fn is_current(&self) -> bool {
        self.connection.origin.is_at(self.connection.remote.as_ref())
    }

    /// Whether the peer still has it open and quiet. One system call.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.connection.stream.is_reusable()
    }

    pub(crate) fn wake(self) -> Connection {
        drop(self.idle);
        self.connection
    }
}
