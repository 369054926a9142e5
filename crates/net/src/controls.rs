//! What can be set and asked of a TCP connection while it is used, by whom does not own it.

use rustix::net::sockopt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A TCP connection's socket, for its options only. It is a descriptor of its own: that of the stream may
/// be closed before this.
#[derive(Debug)]
pub struct Controls(OwnedFd);

/// What the kernel knows of a connection (`struct tcp_info`).
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// Largest segment sent, in bytes.
    pub send_segment_bytes: u32,
    /// Largest segment received, in bytes.
    pub receive_segment_bytes: u32,
    /// Segments taken for lost.
    pub lost: u32,
    /// Segments sent again that are not acknowledged yet.
    pub retransmitted: u32,
    /// Path MTU, in bytes.
    pub path_bytes: u32,
    /// Round trip, smoothed, in µs.
    pub round_trip_us: u32,
    /// Its mean deviation, in µs.
    pub round_trip_deviation_us: u32,
    /// Congestion window, in segments.
    pub window_segments: u32,
    /// Largest segment that is advertised, in bytes.
    pub advertised_segment_bytes: u32,
    /// Segments that may come out of order before one is taken for lost.
    pub reordering: u32,
}

impl Controls {
    /// Controls of the connection behind this socket.
    ///
    /// # Errors
    /// Descriptors are short.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        socket.as_fd().try_clone_to_owned().map(Self)
    }

    /// Chooses the algorithm of congestion control, such as `bbr`.
    ///
    /// # Errors
    /// The kernel has none of this name, or does not allow it (`tcp_allowed_congestion_control`).
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        Ok(sockopt::set_tcp_congestion(&self.0, name)?)
    }

    /// Marks what is sent (RFC 2474: the upper six bits).
    ///
    /// # Errors
    /// It is not a connection over IP.
    pub fn set_type_of_service(&self, value: u8) -> io::Result<()> {
        match sockopt::socket_domain(&self.0)? {
            rustix::net::AddressFamily::INET6 => {
                // What comes from IPv4 has the other mark.
                let _ = sockopt::set_ip_tos(&self.0, value);
                Ok(sockopt::set_ipv6_tclass(&self.0, value.into())?)
            }
            _ => Ok(sockopt::set_ip_tos(&self.0, value)?),
        }
    }

    /// Sends no faster than so many bytes a second; above [`u32::MAX`] is as fast as can be.
    ///
    /// # Errors
    /// The kernel does not pace.
    pub fn set_pace(&self, bytes_per_second: u64) -> io::Result<()> {
        let rate: u64 =
            if bytes_per_second > u64::from(u32::MAX) { u64::MAX } else { bytes_per_second };
        let bytes = libc::socklen_t::try_from(size_of::<u64>()).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open as long as `self`, and the kernel reads `bytes` of `rate`.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw const rate).cast(),
                bytes,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// What the kernel knows of the connection now.
    ///
    /// # Errors
    /// It is not a TCP connection.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut bytes =
            libc::socklen_t::try_from(size_of::<libc::tcp_info>()).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open as long as `self`, and the kernel writes `bytes` at the most.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is numbers only, zeroed before, of which the kernel wrote the first ones.
        let info = unsafe { info.assume_init() };
        Ok(TcpInfo {
            send_segment_bytes: info.tcpi_snd_mss,
            receive_segment_bytes: info.tcpi_rcv_mss,
            lost: info.tcpi_lost,
            retransmitted: info.tcpi_retrans,
            path_bytes: info.tcpi_pmtu,
            round_trip_us: info.tcpi_rtt,
            round_trip_deviation_us: info.tcpi_rttvar,
            window_segments: info.tcpi_snd_cwnd,
            advertised_segment_bytes: info.tcpi_advmss,
            reordering: info.tcpi_reordering,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_controlled_beside_who_owns_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let controls = Controls::of(&stream).unwrap();
            controls.set_congestion_control("reno").unwrap();
            assert_eq!(sockopt::tcp_congestion(&stream).unwrap(), "reno");
            assert!(controls.set_congestion_control("slartibartfast").is_err());
            controls.set_type_of_service(0x20).unwrap();
            assert_eq!(sockopt::ip_tos(&stream).unwrap(), 0x20);
            controls.set_pace(1 << 20).unwrap();
            assert!(controls.info().unwrap().send_segment_bytes > 0);
        }
    }
}
