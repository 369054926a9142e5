//! A worker's UDP socket: datagrams in batches, in both directions.

use crate::address::Address;
use crate::error::NetError;
use crate::limits::{UDP_BUFFER_BYTES, UDP_READ_BYTES_MAX};
use rustix::io::Errno;
use socket2::{Domain, MaybeUninitSlice, MsgHdr, MsgHdrMut, Protocol, SockAddr, Socket, Type};
use std::cell::Cell;
use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A UDP socket. It may be made on any thread; the runtime that first polls it keeps it.
#[derive(Debug)]
pub struct UdpPort {
    registered: OnceLock<AsyncFd<Socket>>,
    socket: Socket,
    local: SocketAddr,
    /// Whether the kernel cuts a batch into datagrams.
    cuts: Cell<bool>,
    /// Datagrams the kernel did not take.
    refused: Cell<u64>,
}

/// Bytes of a control message for one number: a head of length, level and type, and the number.
const CONTROL_BYTES: usize = 64;
const CONTROL_HEAD_BYTES: usize = size_of::<usize>() + 2 * size_of::<c_int>();

impl UdpPort {
    /// Binds. All ports of an address, one for each worker in their order, form a group.
    ///
    /// # Errors
    /// [`NetError::LocalBind`].
    pub fn bind(address: SocketAddr) -> Result<Self, NetError> {
        let bound = open(address).or_else(|error| {
            let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            let no_v6 = error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error());
            if no_v6 && address.ip().is_unspecified() { open(any_v4) } else { Err(error) }
        });
        let failed = |error: &io::Error| NetError::bind(&Address::Tcp(address), error);
        let socket = bound.map_err(|error| failed(&error))?;
        let local = socket.local_addr().map_err(|error| failed(&error))?;
        let local = local.as_socket().unwrap_or(address);
        let (cuts, refused) = (Cell::new(true), Cell::new(0));
        Ok(Self { registered: OnceLock::new(), socket, local, cuts, refused })
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

    /// Datagrams the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Receives datagrams of one sender, all of the same size but the last, into `buffer`, which
    /// holds [`UDP_READ_BYTES_MAX`]. Returns the sender, how many bytes there are and the size.
    ///
    /// # Errors
    /// Those of the socket; one that a peer has caused is passed over.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(SocketAddr, usize, usize)>> {
        let registered = self.registered()?;
        loop {
            let mut guard = ready!(registered.poll_read_ready(cx))?;
            match guard.try_io(|_| receive(&self.socket, buffer)) {
                Ok(Ok(Some(received))) => return Poll::Ready(Ok(received)),
                Ok(Ok(None)) => {}
                // What somebody answered to an earlier datagram (`udp(7)`).
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// Sends datagrams of `segment_bytes`, the last of which may be shorter. What the kernel does not
    /// take now is lost, as on any way.
    pub fn send(&self, to: SocketAddr, bytes: &[u8], segment_bytes: usize) {
        let to = SockAddr::from(to);
        if self.cuts.get() && bytes.len() > segment_bytes {
            match send_batch(&self.socket, &to, bytes, segment_bytes) {
                Ok(()) => return,
                // The interface cannot, which may only be known now.
                Err(error) if matches!(error.raw_os_error(), Some(EIO | EINVAL)) => {
                    tracing::info!(%error, address = %self.local, "datagrams are sent one by one");
                    self.cuts.set(false);
                }
                Err(_) => return self.note_refused(bytes.len().div_ceil(segment_bytes)),
            }
        }
        for datagram in bytes.chunks(segment_bytes.max(1)) {
            if self.socket.send_to(datagram, &to).is_err() {
                self.note_refused(1);
            }
        }
    }

    fn note_refused(&self, count: usize) {
        self.refused.set(self.refused.get() + count as u64);
    }

    fn registered(&self) -> io::Result<&AsyncFd<Socket>> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        let socket = self.socket.try_clone()?;
        // SAFETY: the `AsyncFd` owns the socket, which stays open and the same while it lives.
        let fresh = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(self.registered.get_or_init(|| fresh))
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
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // The kernel gives as much as `net.core.rmem_max` and `wmem_max` allow.
    socket.set_recv_buffer_size(UDP_BUFFER_BYTES)?;
    socket.set_send_buffer_size(UDP_BUFFER_BYTES)?;
    // Datagrams are not cut up on the way: too large ones have to be lost to be noticed (RFC 9000
    // §14). Where the kernel cannot do one of these, it is done without.
    let probe = libc::IP_PMTUDISC_PROBE;
    let _ = set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe);
    if address.is_ipv6() {
        let _ = set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe);
    }
    let _ = set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Sets an option that is a number.
fn set_option(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    super::steering::set_raw_option(socket.as_fd(), level, name, &value)
}

/// Receives once; `None` where the sender is not an IP address.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<(SocketAddr, usize, usize)>> {
    debug_assert!(buffer.len() >= UDP_READ_BYTES_MAX);
    let mut from = SockAddr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let mut control = [MaybeUninit::new(0_u8); CONTROL_BYTES];
    let mut message = MsgHdrMut::new();
    // The kernel needs room for the longest kind of address.
    from = largest(from);
    let (count, control_bytes) = {
        // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and the kernel only writes to it.
        let uninit = unsafe {
            std::slice::from_raw_parts_mut(
                buffer.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                buffer.len(),
            )
        };
        let mut slices = [MaybeUninitSlice::new(uninit)];
        message = message.with_addr(&mut from).with_buffers(&mut slices).with_control(&mut control);
        let count = socket.recvmsg(&mut message, 0)?;
        (count, message.control_len())
    };
    // SAFETY: all of the array was initialised above.
    let control = control.map(|byte| unsafe { byte.assume_init() });
    let control = control.get(..control_bytes).unwrap_or(&[]);
    let size = segment_bytes(control).unwrap_or(count).max(1);
    Ok(from.as_socket().map(|from| (from, count, size)))
}

/// An address with room for any other.
fn largest(address: SockAddr) -> SockAddr {
    let storage = address.as_storage();
    let len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the storage was initialised as a whole by the address it is from, and `len` is its
    // size.
    unsafe { SockAddr::new(storage, len) }
}

/// The size that the kernel says joined datagrams have.
fn segment_bytes(mut control: &[u8]) -> Option<usize> {
    loop {
        let (len, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first_chunk::<4>()?;
        let is_size = i32::from_ne_bytes(*level) == libc::SOL_UDP
            && i32::from_ne_bytes(*kind) == libc::UDP_GRO;
        if is_size {
            let (size, _) = rest.split_first_chunk::<4>()?;
            return usize::try_from(i32::from_ne_bytes(*size)).ok();
        }
        let len = usize::from_ne_bytes(*len).next_multiple_of(size_of::<usize>());
        control = control.get(len.max(CONTROL_HEAD_BYTES)..)?;
    }
}

fn send_batch(
    socket: &Socket,
    to: &SockAddr,
    bytes: &[u8],
    segment_bytes: usize,
) -> io::Result<()> {
    let size = u16::try_from(segment_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut control = [0_u8; (CONTROL_HEAD_BYTES + 2).next_multiple_of(size_of::<usize>())];
    let len = (CONTROL_HEAD_BYTES + size_of::<u16>()).to_ne_bytes();
    let parts: [&[u8]; 4] =
        [&len, &libc::SOL_UDP.to_ne_bytes(), &libc::UDP_SEGMENT.to_ne_bytes(), &size.to_ne_bytes()];
    let mut at = 0;
    for part in parts {
        if let Some(place) = control.get_mut(at..at + part.len()) {
            place.copy_from_slice(part);
        }
        at += part.len();
    }
    let slices = [IoSlice::new(bytes)];
    let message = MsgHdr::new().with_addr(to).with_buffers(&slices).with_control(&control);
    socket.sendmsg(&message, 0).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::net::UdpSocket;

    #[tokio::test]
    async fn batches_arrive_as_the_datagrams_they_are_made_of() {
        let server = UdpPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let batch: Vec<u8> = (0..10_500).map(|at| (at / 1000) as u8).collect();
        server.send(client.local_addr().unwrap(), &batch, 1000);
        let mut datagram = [0; 2000];
        for number in 0..11 {
            let (count, from) = client.recv_from(&mut datagram).unwrap();
            assert_eq!(
                (count, from),
                (if number < 10 { 1000 } else { 500 }, server.local_address())
            );
            assert!(datagram[..count].iter().all(|byte| *byte == number));
        }
        assert_eq!(server.refused(), 0);
    }

    #[tokio::test]
    async fn datagrams_that_arrive_together_are_told_apart() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = UdpPort::bind(address.parse().unwrap()) else { continue };
            let client = UdpPort::bind(address.parse().unwrap()).unwrap();
            let batch: Vec<u8> = (0..20_500).map(|at| (at / 1000) as u8).collect();
            client.send(server.local_address(), &batch, 1000);
            let mut buffer = vec![0; UDP_READ_BYTES_MAX];
            let mut got = Vec::new();
            while got.len() < batch.len() {
                let received = poll_fn(|cx| server.poll_receive(cx, &mut buffer)).await;
                let (from, count, size) = received.unwrap();
                assert_eq!(from, client.local_address());
                assert!(size == 1000 || count == 500);
                got.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(got, batch);
        }
    }
}
