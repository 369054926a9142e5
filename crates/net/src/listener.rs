//! Listening sockets.

use crate::address::{Address, PeerAddress};
use crate::error::NetError;
use crate::limits::{ACCEPT_PAUSE, BACKLOG};
#[cfg(feature = "simulation")]
use crate::simulation::{Network, Queue, no_socket};
use crate::socket::{Socket, canonical};
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_base::log_limit::LogLimit;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use socket2::{Domain, SockAddr, Type};
use std::fs::{self, Permissions};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// How often it is said that this process cannot accept.
const SHORTAGE_EVERY: Duration = Duration::from_secs(10);
static SHORTAGES: LogLimit = LogLimit::new();
const CURE: &str =
    "let it open more files (`ulimit -n`, `LimitNOFILE=`), or lower `limits.connections_max`";

/// How to listen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Whether several sockets, one per worker, share the address and the kernel spreads
    /// connections over them. TCP only.
    pub reuse_port: bool,
    /// Whether an IPv6 socket refuses IPv4 peers.
    pub v6_only: bool,
    /// Permission bits of a Unix socket, such as `0o660`; otherwise the process' umask decides.
    pub mode: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: BACKLOG, reuse_port: false, v6_only: false, mode: None }
    }
}

/// A listening socket. It may be made on any thread; the runtime of the first
/// [`Listener::accept`] keeps it.
#[derive(Debug)]
pub struct Listener {
    registered: OnceLock<AsyncFd<Arc<OwnedFd>>>,
    fd: Arc<OwnedFd>,
    address: Address,
    pauses: SharedCounter,
    /// Where connections come from in a simulated world.
    #[cfg(feature = "simulation")]
    queue: Option<Arc<Queue>>,
}

impl Listener {
    /// Binds and listens. `[::]` takes IPv4 as well unless `v6_only`; on a machine without IPv6 it
    /// becomes `0.0.0.0`. A Unix socket left behind by a process that is gone is replaced.
    ///
    /// # Errors
    /// [`NetError::LocalBind`].
    pub fn bind(address: &Address, options: &ListenOptions) -> Result<Self, NetError> {
        #[cfg(feature = "simulation")]
        if let (Some(network), Address::Tcp(wanted)) = (Network::current(), address) {
            let listening = network.listen(*wanted);
            return listening
                .and_then(|(bound, queue)| Self::simulated(queue, bound))
                .map_err(|error| NetError::bind(address, &error));
        }
        let bound = match address {
            Address::Tcp(tcp) => bind_tcp(*tcp, options),
            Address::Unix(path) => bind_unix(path, options),
        };
        let socket = bound.map_err(|error| NetError::bind(address, &error))?;
        Self::from_socket(socket, address)
    }

    /// Whether [`Listener::bind`] would succeed now, found out without accepting anything: what
    /// listens there already goes on undisturbed.
    ///
    /// # Errors
    /// [`NetError::LocalBind`].
    pub fn examine(address: &Address) -> Result<(), NetError> {
        // In a simulated world addresses are nobody else's.
        #[cfg(feature = "simulation")]
        if let (Some(_), Address::Tcp(_)) = (Network::current(), address) {
            return Ok(());
        }
        let examined = match address {
            Address::Tcp(tcp) if tcp.port() == 0 => Ok(()),
            Address::Tcp(tcp) => claim_tcp(*tcp, &ListenOptions::default()).map(drop),
            Address::Unix(path) => examine_unix(path),
        };
        examined.map_err(|error| NetError::bind(address, &error))
    }

    /// Takes over a listening socket, such as one from the process before.
    ///
    /// # Errors
    /// [`NetError::LocalHandover`] when `fd` is not a listening TCP or Unix stream socket.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, NetError> {
        let refuse = |why: String| NetError::LocalHandover { why };
        let socket = socket2::Socket::from(fd);
        let failed = |error: io::Error| refuse(error.to_string());
        if !socket.is_listener().map_err(failed)? {
            return Err(refuse("the descriptor is not a listening socket".into()));
        }
        let bound = socket.local_addr().map_err(failed)?;
        let address = if let Some(tcp) = bound.as_socket() {
            Address::Tcp(tcp)
        } else if let Some(path) = bound.as_pathname() {
            Address::Unix(path.into())
        } else {
            return Err(refuse("the socket has neither an IP address nor a path".into()));
        };
        socket.set_cloexec(true).map_err(failed)?;
        Self::from_socket(socket, &address)
    }

    /// A second listener on the same socket: both accept from one queue. For what cannot share an
    /// address with `reuse_port`, such as Unix sockets.
    ///
    /// # Errors
    /// [`NetError::LocalBind`] when there are no descriptors left.
    pub fn try_clone(&self) -> Result<Self, NetError> {
        #[cfg(feature = "simulation")]
        if let (Some(queue), Address::Tcp(address)) = (&self.queue, &self.address) {
            return Self::simulated(Arc::clone(queue), *address)
                .map_err(|error| NetError::bind(&self.address, &error));
        }
        let fd = self.fd.try_clone().map_err(|error| NetError::bind(&self.address, &error))?;
        Ok(Self::new(fd, self.address.clone()))
    }

    /// Waits for the next connection. Cancel-safe. Connections that ended before they were
    /// accepted are skipped; when descriptors or memory are short it waits for [`ACCEPT_PAUSE`] and
    /// tries again, which [`Listener::pauses`] counts.
    ///
    /// # Errors
    /// [`NetError::LocalAccept`] for what waiting does not cure.
    pub async fn accept(&self) -> Result<(Socket, PeerAddress), NetError> {
        #[cfg(feature = "simulation")]
        if let Some(queue) = &self.queue {
            let end = queue.accept().await;
            let peer = PeerAddress::Tcp(end.peer_address());
            return Ok((Socket::simulated(end), peer));
        }
        let fatal = |error: io::Error| NetError::LocalAccept {
            address: self.address.clone(),
            why: error.to_string(),
        };
        let registered = self.registered().map_err(fatal)?;
        loop {
            let error = match accept_one(registered).await {
                Ok((fd, peer)) => match self.accepted(fd, peer) {
                    Ok(accepted) => return Ok(accepted),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match blame(&error) {
                Blame::Peer => {}
                Blame::Shortage => {
                    self.pauses.add(1);
                    if let Some(held_back) = SHORTAGES.admit(UnixMillis::now(), SHORTAGE_EVERY) {
                        let address = &self.address;
                        tracing::warn!(%address, %error, held_back, "cannot accept; waiting: {CURE}");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
                Blame::Listener => return Err(fatal(error)),
            }
        }
    }

    /// Where this listens, with the port the kernel chose if 0 was asked for.
    pub fn local_address(&self) -> &Address {
        &self.address
    }

    /// How often accepting paused for want of descriptors or memory.
    pub fn pauses(&self) -> u64 {
        self.pauses.value()
    }

    fn new(fd: OwnedFd, address: Address) -> Self {
        Self {
            registered: OnceLock::new(),
            fd: Arc::new(fd),
            address,
            pauses: SharedCounter::default(),
            #[cfg(feature = "simulation")]
            queue: None,
        }
    }

    #[cfg(feature = "simulation")]
    fn simulated(queue: Arc<Queue>, address: SocketAddr) -> io::Result<Self> {
        let fd = no_socket().try_clone_to_owned()?;
        let mut listener = Self::new(fd, Address::Tcp(address));
        listener.queue = Some(queue);
        Ok(listener)
    }

    fn from_socket(socket: socket2::Socket, address: &Address) -> Result<Self, NetError> {
        let prepare = || {
            socket.set_nonblocking(true)?;
            let Address::Tcp(_) = address else { return Ok(address.clone()) };
            // Accepted sockets inherit it on Linux: one system call per connection less.
            socket.set_tcp_nodelay(true)?;
            let bound = socket.local_addr()?.as_socket();
            io::Result::Ok(bound.map_or_else(|| address.clone(), Address::Tcp))
        };
        let bound = prepare().map_err(|error| NetError::bind(address, &error))?;
        Ok(Self::new(socket.into(), bound))
    }

    fn registered(&self) -> io::Result<&AsyncFd<Arc<OwnedFd>>> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        let fd = Arc::clone(&self.fd);
        // SAFETY: the `AsyncFd` shares ownership of an `OwnedFd` that nobody can take out of its
        // `Arc`, so the descriptor is open and the same for as long as the registration lives.
        let fresh = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(self.registered.get_or_init(|| fresh))
    }

    fn accepted(
        &self,
        fd: OwnedFd,
        peer: Option<SocketAddrAny>,
    ) -> io::Result<(Socket, PeerAddress)> {
        match &self.address {
            Address::Unix(_) => Ok((Socket::from_unix(fd)?, PeerAddress::Unix)),
            Address::Tcp(_) => {
                let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                let peer = peer.ok_or(Errno::CONNABORTED)?;
                Ok((Socket::from_tcp(fd)?, PeerAddress::Tcp(canonical(peer))))
            }
        }
    }
}

#[cfg(feature = "simulation")]
impl Drop for Listener {
    fn drop(&mut self) {
        if let (Some(queue), Some(network)) = (&self.queue, Network::current())
            && let Address::Tcp(address) = &self.address
        {
            network.close(*address, queue);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Who is to blame for a failed accept.
enum Blame {
    /// The connection was gone or broken already (`accept(2)`, "Error handling"): take the next.
    Peer,
    /// Descriptors or memory are short: wait for others to end.
    Shortage,
    /// The listening socket itself.
    Listener,
}

fn blame(error: &io::Error) -> Blame {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // ENOSPC: no more room in the set of watched descriptors.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC) => {
            Blame::Shortage
        }
        Some(Errno::BADF | Errno::FAULT | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP)
        | None => Blame::Listener,
        Some(_) => Blame::Peer,
    }
}

async fn accept_one(
    listener: &AsyncFd<Arc<OwnedFd>>,
) -> io::Result<(OwnedFd, Option<SocketAddrAny>)> {
    poll_fn(|cx| {
        loop {
            let mut ready = ready!(listener.poll_read_ready(cx))?;
            let accept = |fd: &AsyncFd<Arc<OwnedFd>>| {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                Ok(acceptfrom_with(fd.get_ref(), flags)?)
            };
            if let Ok(result) = ready.try_io(accept) {
                return Poll::Ready(result);
            }
        }
    })
    .await
}

fn bind_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<socket2::Socket> {
    let socket = claim_tcp(address, options)?;
    listen(&socket, options)?;
    Ok(socket)
}

/// Does something at an address: where `[::]` is wanted of a machine without IPv6, at `0.0.0.0`.
pub(crate) fn where_it_may<T>(
    what: impl Fn(SocketAddr) -> io::Result<T>,
    address: SocketAddr,
) -> io::Result<T> {
    what(address).or_else(|error| {
        let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        let no_v6 = error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error());
        if no_v6 && address.ip().is_unspecified() { what(any_v4) } else { Err(error) }
    })
}

/// A socket that is bound to an address, where that may be, and does not listen.
fn claim_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<socket2::Socket> {
    where_it_may(|address| claim_as_it_is(address, options), address)
}

fn claim_as_it_is(address: SocketAddr, options: &ListenOptions) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(options.v6_only)?;
    }
    // A restart must not wait for connections of the process before to leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn bind_unix(path: &Path, options: &ListenOptions) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path) {
            return Err(error);
        }
        fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    if let Some(mode) = options.mode {
        // Before listening, so that nobody connects under the permissions the umask left.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    listen(&socket, options)?;
    Ok(socket)
}

fn listen(socket: &socket2::Socket, options: &ListenOptions) -> io::Result<()> {
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))
}

fn examine_unix(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() && !is_stale(path) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    SockAddr::unix(path)?;
    let folder = path.parent().unwrap_or_else(|| Path::new("")).join(".");
    rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK)?;
    Ok(())
}

/// Whether the path is a socket on which nobody listens any more.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
