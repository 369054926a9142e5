//! A worker's UDP socket: datagrams in batches, in both directions.

use super::control::{CONTROL_BYTES, Said, Told};
use super::unsent::{Full, Unsent};
use super::watched::Watched;
use crate::address::Address;
use crate::error::NetError;
use crate::limits::{UDP_BUFFER_BYTES, UDP_READ_BYTES_MAX};
use crate::listener::where_it_may;
#[cfg(feature = "simulation")]
use crate::simulation::{Datagrams, Network, no_socket};
use crate::socket::canonical;
use freshet_quic::{Ecn, Route};
use socket2::{Domain, MaybeUninitSlice, MsgHdr, MsgHdrMut, Protocol, SockAddr, Socket, Type};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, Waker, ready};

/// A UDP socket. It may be made on any thread; the runtime that first polls it keeps it.
#[derive(Debug)]
pub struct UdpPort {
    watched: Watched,
    socket: Socket,
    local: SocketAddr,
    /// Whether the kernel cuts a batch into datagrams.
    cuts: Cell<bool>,
    /// What was refused since that was asked last.
    refused: Cell<Refusals>,
    /// A batch that waits for room, and who is to send it then.
    unsent: RefCell<Option<Unsent>>,
    flusher: RefCell<Option<Waker>>,
    /// What the kernel is to say next, so that a test sees what follows.
    #[cfg(test)]
    refuses: RefCell<Vec<c_int>>,
    /// Where they come from, and go to, in a simulated world.
    #[cfg(feature = "simulation")]
    simulated: Option<Datagrams>,
}

/// What the kernel did not take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Refusals {
    /// Times it had no room, so that datagrams waited.
    pub waits: u64,
    /// Datagrams that were lost.
    pub lost: u64,
}

/// Datagrams that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// Who sent them, and where to.
    pub route: Route,
    /// How their heads are marked.
    pub ecn: Ecn,
    /// How many bytes they have in all.
    pub bytes: usize,
    /// How many each of them has, but the last, which may be shorter.
    pub segment_bytes: usize,
}

impl UdpPort {
    /// Binds. All ports of an address, one for each worker in their order, form a group.
    ///
    /// # Errors
    /// [`NetError::LocalBind`].
    pub fn bind(address: SocketAddr) -> Result<Self, NetError> {
        #[cfg(feature = "simulation")]
        if let Some(network) = Network::current() {
            let bound = network.bind(address).and_then(Self::simulated);
            return bound.map_err(|error| NetError::bind(&Address::Tcp(address), &error));
        }
        let bound = where_it_may(open, address).and_then(Self::of);
        bound.map_err(|error| NetError::bind(&Address::Tcp(address), &error))
    }

    /// Whether [`UdpPort::bind`] would have this address, which stays free: a check says so before a start does.
    ///
    /// # Errors
    /// [`NetError::LocalBind`].
    pub fn examine(address: SocketAddr) -> Result<(), NetError> {
        // In a simulated world addresses are nobody else's.
        #[cfg(feature = "simulation")]
        if Network::current().is_some() {
            return Ok(());
        }
        let claim = |address: SocketAddr| datagram_socket(address)?.bind(&address.into());
        let claimed = if address.port() == 0 { Ok(()) } else { where_it_may(claim, address) };
        claimed.map_err(|error| NetError::bind(&Address::Tcp(address), &error))
    }

    /// A port of a client's at `from`, or wherever the kernel has it, that hears nobody but `server` and that nobody
    /// shares: a port of a group, as [`UdpPort::bind`] makes them, the kernel gives to several who ask for any.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect(from: Option<IpAddr>, server: SocketAddr) -> io::Result<Self> {
        let socket = datagram_socket(server)?;
        prepare(&socket, server)?;
        if let Some(from) = from {
            socket.bind(&SocketAddr::from((from, 0)).into())?;
        }
        socket.connect(&server.into())?;
        Self::of(socket)
    }

    /// A port that another process has bound.
    ///
    /// # Errors
    /// [`NetError::LocalHandover`]: it is no UDP socket.
    pub fn inherited(fd: OwnedFd) -> Result<Self, NetError> {
        let socket = Socket::from(fd);
        let local = socket.local_addr().ok().and_then(|local| local.as_socket());
        let taken = match local {
            Some(local) => prepare(&socket, local).and_then(|()| Self::of(socket)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        taken.map_err(|error| NetError::LocalHandover { why: format!("UDP port: {error}") })
    }

    fn of(socket: Socket) -> io::Result<Self> {
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self {
            watched: Watched::default(),
            socket,
            local,
            cuts: Cell::new(true),
            refused: Cell::default(),
            unsent: RefCell::default(),
            flusher: RefCell::default(),
            #[cfg(test)]
            refuses: RefCell::default(),
            #[cfg(feature = "simulation")]
            simulated: None,
        })
    }

    #[cfg(feature = "simulation")]
    fn simulated(datagrams: Datagrams) -> io::Result<Self> {
        Ok(Self {
            watched: Watched::default(),
            socket: no_socket().try_clone_to_owned()?.into(),
            local: datagrams.local_address(),
            cuts: Cell::new(true),
            refused: Cell::default(),
            unsent: RefCell::default(),
            flusher: RefCell::default(),
            #[cfg(test)]
            refuses: RefCell::default(),
            simulated: Some(datagrams),
        })
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// There are none left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Where it is bound, with the port the kernel chose if 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Bytes the kernel keeps for datagrams that were not read, as far as it gives them.
    pub fn receive_buffer_bytes(&self) -> usize {
        // The kernel doubles what it is asked for, for its own use.
        self.socket.recv_buffer_size().map_or(0, |bytes| bytes / 2)
    }

    /// What the kernel did not take since this was asked last.
    pub fn take_refused(&self) -> Refusals {
        self.refused.take()
    }

    /// Whether datagrams wait for room. What is sent meanwhile is lost, so who has more than an answer
    /// to somebody unknown asks first.
    pub fn is_full(&self) -> bool {
        self.unsent.borrow().is_some()
    }

    /// Sends what waits for room; ready when nothing waits any more.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut flusher = self.flusher.borrow_mut();
        if !flusher.as_ref().is_some_and(|flusher| flusher.will_wake(cx.waker())) {
            *flusher = Some(cx.waker().clone());
        }
        drop(flusher);
        let mut unsent = self.unsent.borrow_mut();
        loop {
            let Some(batch) = &mut *unsent else { return Poll::Pending };
            let lost = if ready!(batch.poll_room(cx)) {
                let Unsent { route, ecn, segment_bytes, .. } = *batch;
                match self.give((route, ecn), &batch.bytes, segment_bytes) {
                    Ok(()) => 0,
                    Err((gone, full)) => {
                        batch.wait(gone, full, &self.socket);
                        continue;
                    }
                }
            } else {
                batch.bytes.len().div_ceil(batch.segment_bytes)
            };
            self.note_lost(lost);
            *unsent = None;
            return Poll::Ready(());
        }
    }

    /// Receives datagrams of one sender, all of the same size but the last, into `buffer`, which
    /// holds [`UDP_READ_BYTES_MAX`].
    ///
    /// # Errors
    /// Those of the socket; one that a peer has caused is passed over.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        #[cfg(feature = "simulation")]
        if let Some(datagrams) = &self.simulated {
            let (remote, bytes) = ready!(datagrams.poll_receive(cx, buffer));
            let (route, ecn, segment_bytes) = (remote.into(), Ecn::NotEct, bytes.max(1));
            return Poll::Ready(Ok(Received { route, ecn, bytes, segment_bytes }));
        }
        let registered = self.watched.get(&self.socket)?;
        loop {
            let mut guard = ready!(registered.poll_read_ready(cx))?;
            match guard.try_io(|_| self.receive(buffer)) {
                Ok(Ok(Some(received))) => return Poll::Ready(Ok(received)),
                Ok(Ok(None)) => {}
                // What somebody answered to an earlier datagram (`udp(7)`).
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// As [`poll_receive`](Self::poll_receive), for who is no task and watches the socket otherwise; `None` when
    /// there is nothing now.
    ///
    /// # Errors
    /// Those of the socket. A connected one says that nobody is at its server's port.
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match self.receive(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received,
        }
    }

    /// As [`send`](Self::send), but what the kernel has no room for is lost at once.
    pub fn try_send(&self, route: Route, ecn: Ecn, bytes: &[u8], segment_bytes: usize) {
        let segment_bytes = segment_bytes.max(1);
        if let Err((gone, _)) = self.give((route, ecn), bytes, segment_bytes) {
            self.note_lost(bytes.len().saturating_sub(gone).div_ceil(segment_bytes));
        }
    }

    /// Sends datagrams of `segment_bytes`, the last of which may be shorter, marked as `ecn`. What the kernel
    /// has no room for waits, see [`poll_flush`](Self::poll_flush); what it does not take otherwise is
    /// lost, as on any way.
    pub fn send(&self, route: Route, ecn: Ecn, bytes: &[u8], segment_bytes: usize) {
        let segment_bytes = segment_bytes.max(1);
        #[cfg(feature = "simulation")]
        if let Some(datagrams) = &self.simulated {
            let all = bytes.chunks(segment_bytes);
            return all.for_each(|datagram| datagrams.send(route.remote, datagram));
        }
        if self.is_full() {
            return self.note_lost(bytes.len().div_ceil(segment_bytes));
        }
        if let Err((gone, full)) = self.give((route, ecn), bytes, segment_bytes) {
            let left = bytes.get(gone..).unwrap_or_default();
            let unsent = Unsent::new((route, ecn), left, segment_bytes, (full, &self.socket));
            *self.unsent.borrow_mut() = Some(unsent);
            self.refused
                .set(Refusals { waits: self.refused.get().waits + 1, ..self.refused.get() });
            if let Some(flusher) = &*self.flusher.borrow() {
                flusher.wake_by_ref();
            }
        }
    }

    /// Gives datagrams to the kernel. An error says how many bytes it has taken, or will never take, and
    /// why it has no room for the others.
    fn give(
        &self,
        (route, ecn): (Route, Ecn),
        bytes: &[u8],
        segment_bytes: usize,
    ) -> Result<(), (usize, Full)> {
        let to = SockAddr::from(route.remote);
        let mut has_failed = false;
        if self.cuts.get() && bytes.len() > segment_bytes {
            let mut told = self.told(route, ecn);
            told.segment_bytes(u16::try_from(segment_bytes).unwrap_or(u16::MAX));
            match self.send_message(&to, bytes, &told) {
                Ok(()) => return Ok(()),
                // The interface cannot, which may only be known now; or it is something else.
                Err(error) if matches!(error.raw_os_error(), Some(EIO | EINVAL)) => {
                    has_failed = true;
                }
                Err(error) => match Full::of(&error) {
                    Some(full) => return Err((0, full)),
                    None => {
                        self.note_lost(bytes.len().div_ceil(segment_bytes));
                        return Ok(());
                    }
                },
            }
        }
        let told = self.told(route, ecn);
        for (index, datagram) in bytes.chunks(segment_bytes).enumerate() {
            match self.send_message(&to, datagram, &told) {
                Ok(()) if std::mem::take(&mut has_failed) => {
                    tracing::info!(address = %self.local, "datagrams are sent one by one");
                    self.cuts.set(false);
                }
                Ok(()) => {}
                Err(error) => match Full::of(&error) {
                    Some(full) => return Err((index * segment_bytes, full)),
                    None => self.note_lost(1),
                },
            }
        }
        Ok(())
    }

    fn send_message(&self, to: &SockAddr, bytes: &[u8], told: &Told) -> io::Result<()> {
        #[cfg(test)]
        if let Some(errno) = self.refuses.borrow_mut().pop() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let slices = [IoSlice::new(bytes)];
        let message = MsgHdr::new().with_addr(to).with_buffers(&slices);
        self.socket.sendmsg(&message.with_control(told.as_bytes()), 0).map(|_| ())
    }

    fn told(&self, route: Route, ecn: Ecn) -> Told {
        let mut told = Told::new();
        if ecn != Ecn::NotEct {
            // A socket for both sends to IPv4 by its rules.
            told.ecn(ecn, canonical(route.remote).is_ipv6());
        }
        if let Some(source) = route.local {
            told.source(source, self.local.is_ipv6());
        }
        told
    }

    /// Receives once; `None` where the sender is not an IP address.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        debug_assert!(buffer.len() >= UDP_READ_BYTES_MAX);
        // The kernel needs room for the longest kind of address.
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut from = largest(SockAddr::from(any));
        let mut control = [MaybeUninit::new(0_u8); CONTROL_BYTES];
        let (bytes, control_bytes) = {
            // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and the kernel only writes to it.
            let uninit = unsafe {
                std::slice::from_raw_parts_mut(
                    buffer.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                    buffer.len(),
                )
            };
            let mut slices = [MaybeUninitSlice::new(uninit)];
            let message = MsgHdrMut::new().with_addr(&mut from).with_buffers(&mut slices);
            let mut message = message.with_control(&mut control);
            let count = self.socket.recvmsg(&mut message, 0)?;
            (count, message.control_len())
        };
        // SAFETY: all of the array was initialised above.
        let control = control.map(|byte| unsafe { byte.assume_init() });
        let said = Said::read(control.get(..control_bytes).unwrap_or(&[]));
        let segment_bytes = said.segment_bytes.unwrap_or(bytes).max(1);
        let local = said.to.filter(|_| self.local.ip().is_unspecified());
        let ecn = said.ecn;
        let received =
            |remote| Received { route: Route { remote, local }, ecn, bytes, segment_bytes };
        Ok(from.as_socket().map(received))
    }

    fn note_lost(&self, count: usize) {
        let refused = self.refused.get();
        self.refused.set(Refusals { lost: refused.lost + count as u64, ..refused });
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const EIO: i32 = libc::EIO;
const EINVAL: i32 = libc::EINVAL;

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = datagram_socket(address)?;
    socket.set_reuse_port(true)?;
    prepare(&socket, address)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket for clients of IPv4 too where it is one of IPv6.
fn datagram_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

/// Sets what a socket of QUIC needs.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The kernel gives as much as `net.core.rmem_max` and `wmem_max` allow.
    socket.set_recv_buffer_size(UDP_BUFFER_BYTES)?;
    socket.set_send_buffer_size(UDP_BUFFER_BYTES)?;
    // Datagrams are not cut up on the way: too large ones have to be lost to be noticed (RFC 9000
    // §14). Where the kernel cannot do one of these, it is done without.
    let probe = libc::IP_PMTUDISC_PROBE;
    let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe);
    if address.is_ipv6() {
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe);
    }
    let _ = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    // Marks of congestion; on a socket for both those of IPv4 too.
    let _ = set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    if address.is_ipv6() {
        let _ = set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    }
    // Answers come from the address that was asked, which only the kernel knows here.
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            SocketAddr::V6(_) => {
                set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            }
        }
    }
    Ok(())
}

/// Sets an option that is a number.
fn set_option(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    crate::steering::set_raw_option(socket.as_fd(), level, name, &value)
}

/// An address with room for any other.
fn largest(address: SockAddr) -> SockAddr {
    let storage = address.as_storage();
    let len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the storage was initialised as a whole by the address it is from, and `len` is its
    // size.
    unsafe { SockAddr::new(storage, len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SEND_PAUSES_MAX;
    use std::future::poll_fn;
    use std::net::UdpSocket;

    #[tokio::test]
    async fn batches_arrive_as_the_datagrams_they_are_made_of() {
        let server = UdpPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let batch: Vec<u8> = (0..10_500).map(|at| (at / 1000) as u8).collect();
        server.send(client.local_addr().unwrap().into(), Ecn::NotEct, &batch, 1000);
        let mut datagram = [0; 2000];
        for number in 0..11 {
            let (count, from) = client.recv_from(&mut datagram).unwrap();
            assert_eq!(
                (count, from),
                (if number < 10 { 1000 } else { 500 }, server.local_address())
            );
            assert!(datagram[..count].iter().all(|byte| *byte == number));
        }
        assert_eq!(server.take_refused(), Refusals::default());
    }

    #[tokio::test]
    async fn what_the_kernel_has_no_room_for_waits_and_arrives() {
        for errno in [libc::EAGAIN, libc::ENOBUFS] {
            for cuts in [true, false] {
                let server = UdpPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                server.cuts.set(cuts);
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                let to = client.local_addr().unwrap().into();
                // Refusals once by `send`, and once when it is tried again.
                *server.refuses.borrow_mut() = vec![errno, errno];
                server.send(to, Ecn::NotEct, &[[1; 1000], [2; 1000], [3; 1000]].concat(), 1000);
                assert!(server.is_full());
                // Nothing more is kept meanwhile.
                server.send(to, Ecn::NotEct, &[9; 1500], 1000);
                poll_fn(|cx| server.poll_flush(cx)).await;
                assert!(!server.is_full());
                assert_eq!(server.take_refused(), Refusals { waits: 1, lost: 2 });
                let mut datagram = [0; 2000];
                for number in 1..=3 {
                    assert_eq!(client.recv_from(&mut datagram).unwrap().0, 1000);
                    assert!(datagram[..1000].iter().all(|byte| *byte == number));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_device_that_never_has_room_is_given_up() {
        let server = UdpPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        *server.refuses.borrow_mut() = vec![libc::ENOBUFS; 1 + SEND_PAUSES_MAX as usize];
        server.send(server.local_address().into(), Ecn::NotEct, &[1; 2500], 1000);
        poll_fn(|cx| server.poll_flush(cx)).await;
        assert_eq!(server.take_refused(), Refusals { waits: 1, lost: 3 });
    }

    #[tokio::test]
    async fn datagrams_that_arrive_together_are_told_apart() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpPort::bind(address.parse().unwrap()) else { continue };
            let client = UdpPort::bind(address.parse().unwrap()).unwrap();
            let batch: Vec<u8> = (0..20_500).map(|at| (at / 1000) as u8).collect();
            client.send(server.local_address().into(), Ecn::Ect0, &batch, 1000);
            let mut buffer = vec![0; UDP_READ_BYTES_MAX];
            let mut got = Vec::new();
            while got.len() < batch.len() {
                let received = poll_fn(|cx| server.poll_receive(cx, &mut buffer)).await;
                let Received { route, ecn, bytes, segment_bytes } = received.unwrap();
                assert_eq!((route, ecn), (client.local_address().into(), Ecn::Ect0));
                assert!(segment_bytes == 1000 || bytes == 500);
                got.extend_from_slice(&buffer[..bytes]);
            }
            assert_eq!(got, batch);
        }
    }

    /// All of 127.0.0.0/8 is this machine, so a socket for all addresses can be asked at several.
    #[tokio::test]
    async fn answers_come_from_the_address_that_was_asked() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let Ok(server) = UdpPort::bind(address.parse().unwrap()) else { continue };
            let port = server.local_address().port();
            let mut buffer = vec![0; UDP_READ_BYTES_MAX];
            for asked in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 9, 8, 7]] {
                let asked = SocketAddr::from((asked, port));
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(b"x", asked).unwrap();
                let received = poll_fn(|cx| server.poll_receive(cx, &mut buffer)).await.unwrap();
                assert_eq!(received.route.local, Some(asked.ip()));
                // One that the kernel cuts, and one that it does not.
                for (bytes, count) in [(2500, 3), (900, 1)] {
                    server.send(received.route, Ecn::Ce, &vec![7; bytes], 1000);
                    for _ in 0..count {
                        assert_eq!(client.recv_from(&mut buffer).unwrap().1, asked);
                    }
                }
            }
            // An address that is gone is no reason to give up on batches.
            let local = Some([192, 0, 2, 77].into());
            let remote = SocketAddr::from(([127, 0, 0, 1], port));
            server.send(Route { remote, local }, Ecn::Ect0, &[7; 2500], 1000);
            assert!(server.take_refused().lost == 3 && server.cuts.get());
        }
    }
}
