//! One connected stream socket, TCP or Unix, without any protocol on it yet.

use crate::address::{Address, PeerAddress};
use crate::error::NetError;
#[cfg(feature = "simulation")]
use crate::simulation::{End, Network, no_socket};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::io::{self, IoSlice, Read, Write};
#[cfg(feature = "simulation")]
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// A connected socket that belongs to the runtime it was made in. `TCP_NODELAY` is on: everything
/// above writes whole messages.
#[derive(Debug)]
pub struct Socket(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "simulation")]
    Simulated(End),
}

impl Socket {
    /// Connects to `address` within `limit`.
    ///
    /// # Errors
    /// [`NetError::OriginConnect`] and [`NetError::OriginConnectTimeout`].
    pub async fn connect(address: &Address, limit: Duration) -> Result<Self, NetError> {
        #[cfg(feature = "simulation")]
        if let Some(network) = Network::current() {
            return network.connect(Ipv4Addr::LOCALHOST.into(), address, limit).await;
        }
        let connecting = async {
            match address {
                Address::Tcp(to) => {
                    let stream = TcpStream::connect(to).await?;
                    stream.set_nodelay(true)?;
                    io::Result::Ok(Self(Kind::Tcp(stream)))
                }
                Address::Unix(path) => Ok(Self(Kind::Unix(UnixStream::connect(path).await?))),
            }
        };
        match timeout(limit, connecting).await {
            Ok(Ok(socket)) => Ok(socket),
            Ok(Err(error)) => Err(NetError::connect(address, &error)),
            Err(_) => Err(NetError::OriginConnectTimeout { address: address.clone() }),
        }
    }

    #[cfg(feature = "simulation")]
    pub(crate) const fn simulated(end: End) -> Self {
        Self(Kind::Simulated(end))
    }

    /// Takes over a connected, non-blocking TCP socket.
    ///
    /// # Errors
    /// Those of registering it with the runtime.
    pub(crate) fn from_tcp(fd: OwnedFd) -> io::Result<Self> {
        TcpStream::from_std(fd.into()).map(|stream| Self(Kind::Tcp(stream)))
    }

    /// Takes over a connected, non-blocking Unix socket.
    ///
    /// # Errors
    /// Those of registering it with the runtime.
    pub(crate) fn from_unix(fd: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(fd.into()).map(|stream| Self(Kind::Unix(stream)))
    }

    /// The peer, if the socket is still connected.
    pub fn peer_address(&self) -> Option<PeerAddress> {
        match &self.0 {
            Kind::Tcp(stream) => stream.peer_addr().ok().map(|a| PeerAddress::Tcp(canonical(a))),
            Kind::Unix(_) => Some(PeerAddress::Unix),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => Some(PeerAddress::Tcp(end.peer_address())),
        }
    }

    /// This end's IP address and port; none for a Unix socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Tcp(stream) => stream.local_addr().ok().map(canonical),
            Kind::Unix(_) => None,
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => Some(end.local_address()),
        }
    }

    /// Has the connection end where the peer's machine acknowledges nothing of what was sent for so long, or
    /// takes none of it (RFC 5482). Otherwise the system tries for a quarter of an hour. Only TCP can tell.
    pub fn set_unacknowledged_max(&self, limit: Duration) {
        if let Kind::Tcp(stream) = &self.0 {
            let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
            // Fails only for a socket that is already dead.
            let _ = sockopt::set_tcp_user_timeout(stream, limit_ms);
        }
    }

    /// Waits until there is something to read, the end included.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Tcp(stream) => stream.readable().await,
            Kind::Unix(stream) => stream.readable().await,
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => std::future::poll_fn(|cx| end.poll_readable(cx)).await,
        }
    }

    /// Receives without waiting, and lets the runtime know when nothing was there. With
    /// [`RecvFlags::PEEK`] the bytes stay in the socket.
    pub(crate) fn try_receive(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let mut receive = || Ok(rustix::net::recv(self.as_fd(), &mut *into, flags)?.1);
        match &self.0 {
            Kind::Tcp(stream) => stream.try_io(Interest::READABLE, &mut receive),
            Kind::Unix(stream) => stream.try_io(Interest::READABLE, &mut receive),
            #[cfg(feature = "simulation")]
            Kind::Simulated(_) => self.receive_now(into, flags),
        }
    }

    /// Receives at once from the kernel, whatever the runtime thinks of the socket's readiness.
    pub(crate) fn receive_now(&self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        #[cfg(feature = "simulation")]
        if let Kind::Simulated(end) = &self.0 {
            return end.try_read(into, flags.contains(RecvFlags::PEEK));
        }
        Ok(rustix::net::recv(self.as_fd(), into, flags | RecvFlags::DONTWAIT)?.1)
    }

    /// Waits until there seems to be room for writing.
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Kind::Tcp(stream) => stream.poll_write_ready(cx),
            Kind::Unix(stream) => stream.poll_write_ready(cx),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => end.poll_write_ready(cx),
        }
    }

    /// Sends FIN; what the peer sends can still be read.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => {
                end.shutdown();
                Poll::Ready(Ok(()))
            }
        }
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Kind::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => {
                let count = ready!(end.poll_read(cx, into.initialize_unfilled()))?;
                into.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// As [`Socket::poll_read`], giving the number of bytes; 0 is the end.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        ready!(self.poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(cx, from),
            Kind::Unix(stream) => Pin::new(stream).poll_write(cx, from),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => end.poll_write(cx, from),
        }
    }

    /// As [`Socket::poll_write`] for bytes that others follow at once: the kernel may hold back what
    /// does not fill a packet.
    pub(crate) fn poll_write_more(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        #[cfg(feature = "simulation")]
        if let Kind::Simulated(end) = &self.0 {
            return end.poll_write(cx, from);
        }
        self.poll_write_with(cx, |socket| Ok(rustix::net::send(socket, from, SendFlags::MORE)?))
    }

    /// Runs `write` when the socket takes bytes, and waits for that again when it says
    /// [`io::ErrorKind::WouldBlock`].
    pub(crate) fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let tried = match &self.0 {
                Kind::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || write(stream.as_fd()))
                }
                Kind::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || write(stream.as_fd()))
                }
                // It has no descriptor for bytes that go by reference.
                #[cfg(feature = "simulation")]
                Kind::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
            };
            match tried {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    pub(crate) fn poll_write_pieces(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Kind::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            #[cfg(feature = "simulation")]
            Kind::Simulated(end) => {
                let first = pieces.iter().find(|piece| !piece.is_empty());
                end.poll_write(cx, first.map_or(&[], |piece| piece))
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Tcp(stream) => stream.as_fd(),
            Kind::Unix(stream) => stream.as_fd(),
            #[cfg(feature = "simulation")]
            Kind::Simulated(_) => no_socket(),
        }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        // Only a latency setting, and the call fails only for a socket that is already dead.
        stream.set_nodelay(true).ok();
        Self(Kind::Tcp(stream))
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self(Kind::Unix(stream))
    }
}

/// A peer of a dual-stack socket as IPv4 where it is one.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A socket as [`Read`] and [`Write`] during one poll: `WouldBlock` means that the task will be
/// woken.
pub(crate) struct Polled<'a, 'b> {
    pub(crate) socket: &'a mut Socket,
    pub(crate) cx: &'a mut Context<'b>,
}

impl Read for Polled<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        unpolled(self.socket.poll_receive(self.cx, into))
    }
}

impl Write for Polled<'_, '_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        unpolled(self.socket.poll_write(self.cx, from))
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        unpolled(self.socket.poll_write_pieces(self.cx, pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket as [`Read`] outside any poll: `WouldBlock` means that the kernel has nothing now.
pub(crate) struct Tried<'a>(pub(crate) &'a Socket);

impl Read for Tried<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.receive_now(into, RecvFlags::empty())
    }
}

fn unpolled(poll: Poll<io::Result<usize>>) -> io::Result<usize> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
