//! A socket that is made on any thread and watched by the runtime that first asks.

use socket2::Socket;
use std::io;
use std::sync::OnceLock;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Whether there is something to read of a socket.
#[derive(Debug, Default)]
pub(super) struct Watched(OnceLock<AsyncFd<Socket>>);

impl Watched {
    /// The socket, registered with the runtime that asked first.
    ///
    /// # Errors
    /// There are no descriptors left, or no runtime.
    pub(super) fn get(&self, socket: &Socket) -> io::Result<&AsyncFd<Socket>> {
        if let Some(registered) = self.0.get() {
            return Ok(registered);
        }
        let socket = socket.try_clone()?;
        // SAFETY: the `AsyncFd` owns the socket, which stays open and the same while it lives.
        let fresh = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(self.0.get_or_init(|| fresh))
    }
}
