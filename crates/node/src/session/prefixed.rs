//! A stream of which some bytes were read already.

use freshet_net::stream::Stream;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Gives back the bytes first, then the stream's own.
pub(super) struct Prefixed {
    stream: Stream,
    bytes: Vec<u8>,
    given: usize,
}

impl Prefixed {
    pub(super) fn new(stream: Stream, bytes: Vec<u8>) -> Self {
        Self { stream, bytes, given: 0 }
    }
}

impl AsyncRead for Prefixed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.given < this.bytes.len() {
            let rest = &this.bytes[this.given..];
            let count = rest.len().min(out.remaining());
            out.put_slice(&rest[..count]);
            this.given += count;
            if this.given == this.bytes.len() {
                this.bytes = Vec::new();
                this.given = 0;
            }
            return Poll::Ready(Ok(()));
        }
        AsyncRead::poll_read(Pin::new(&mut this.stream), cx, out)
    }
}

impl AsyncWrite for Prefixed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(Pin::new(&mut self.stream), cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
