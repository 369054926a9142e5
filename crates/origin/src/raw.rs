//! A connection to an origin that does not speak HTTP, or no longer does.

use crate::buffer::ReadBuffer;
use crate::connection::{Connection, Place};
use crate::definition::{Origin, Waits};
use crate::error::OriginError;
use crate::exchange::within;
use crate::line::Claim;
use crate::pool::Pool;
use crate::share::Party;
use crate::stats::Held;
use freshet_net::stream::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};

/// A stream of bytes to and from an origin: after `101 Switching Protocols`, or from the start for
/// a pipe. Reading gives first what came along with the response head. Counts against the
/// origin's limit and as in flight until it is dropped; there is no timeout here, a tunnel may be
/// quiet for as long as its users are.
#[derive(Debug)]
pub struct RawConnection {
    stream: Stream,
    read_ahead: ReadBuffer,
    origin: Arc<Origin>,
    _place: Place,
    _in_flight: Held,
}

/// A connection to `origin` for a pipe, one that is idle or a new one. Of `waits` the time for a connection counts,
/// where it is less than the origin's own.
///
/// # Errors
/// Those of opening a connection.
pub async fn connect_raw(
    pool: &Pool,
    origin: &Arc<Origin>,
    party: Option<Party>,
    waits: Waits,
) -> Result<RawConnection, OriginError> {
    origin.stats.requests.add(1);
    let connecting = async {
        let in_flight = Held::in_flight(origin, party).await?;
        let connection =
            pool.check_out(origin, origin.settings.proxy_header > 0, Claim::default()).await?;
        origin.stats.tunnels.add(1);
        Ok(RawConnection::new(connection, in_flight))
    };
    within(origin, waits, connecting).await.inspect_err(|error| origin.failed(error))
}

impl RawConnection {
    pub(crate) fn new(connection: Connection, in_flight: Held) -> Self {
        let origin = Arc::clone(&connection.origin);
        let (stream, read_ahead, place) = connection.into_parts();
        Self { stream, read_ahead, origin, _place: place, _in_flight: in_flight }
    }

    /// What the origin sent behind its response head, not read yet.
    pub fn read_ahead(&self) -> &[u8] {
        self.read_ahead.bytes()
    }

    /// Whose end it is.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Both directions, to be used by two tasks or loops.
    pub fn into_halves(self) -> (ReadHalf<Self>, WriteHalf<Self>) {
        tokio::io::split(self)
    }
}

impl AsyncRead for RawConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.read_ahead.is_empty() {
            let count = this.read_ahead.take_into(out.initialize_unfilled());
            out.advance(count);
            return Poll::Ready(Ok(()));
        }
        // A tunnel may last for hours: give its buffer back.
        this.read_ahead = ReadBuffer::default();
        let before = out.filled().len();
        let poll = Pin::new(&mut this.stream).poll_read(cx, out);
        this.origin.stats.bytes_received.add((out.filled().len() - before) as u64);
        poll
    }
}

impl AsyncWrite for RawConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = self.stream.poll_write(cx, from);
        self.count_sent(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = self.stream.poll_write_pieces(cx, pieces);
        self.count_sent(poll)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }
}

impl RawConnection {
    fn count_sent(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &poll {
            self.origin.stats.bytes_sent.add(*count as u64);
        }
        poll
    }
}
