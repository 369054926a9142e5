//! Waiting for a descriptor of another kind than a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor that becomes readable now and then.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Registers a descriptor with this thread's runtime.
    ///
    /// # Errors
    /// The kernel cannot tell when it is readable.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` is open for as long as it lives, and the `AsyncFd` owns it.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self(registered))
    }

    /// Ready once for each time it has become readable. Look for work after it, not before: what
    /// comes in between makes it ready again.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub fn poll_became_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.0.poll_read_ready(cx))?;
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }
}
