//! Connections to the interface: few, and none that stays without asking.

use freshet_net::address::Address;
use freshet_net::listener::Listener;
use freshet_net::stream::Stream;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time; more wait in the kernel's queue. A scraper, probes and some people.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection may be silent: longer than the usual scrape interval of 60 s.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// Pause before accepting again after the listener failed, which is not expected to get better.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Accepts for axum.
pub(crate) struct Door {
    listener: Listener,
    room: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(listener: Listener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
    }
}

impl axum::serve::Listener for Door {
    type Io = Guarded;
    type Addr = Address;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let room = Arc::clone(&self.room).acquire_owned().await;
            let permit = room.expect("the semaphore is never closed");
            match self.listener.accept().await {
                Ok((socket, _)) => {
                    let guarded = Guarded {
                        stream: Stream::from(socket),
                        silence: Box::pin(sleep(SILENCE_MAX)),
                        _permit: permit,
                    };
                    return (guarded, self.listener.local_address().clone());
                }
                Err(error) => {
                    tracing::error!(%error, "the admin interface cannot accept");
                    sleep(FAILED_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.listener.local_address().clone())
    }
}

/// A connection that ends when its client is silent for [`SILENCE_MAX`].
pub(crate) struct Guarded {
    stream: Stream,
    silence: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buffer) {
            Poll::Ready(result) => {
                self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
