//! TCP_INFO of all connections to a server, by the kernel's socket diagnostics (netlink).
//!
//! One question brings the figures of every socket, those of a server on this machine too: what it
//! sent and what of that it had to send twice, which the receiving end cannot see.

use super::measurement::TcpFigures;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketType, netlink};
use std::net::SocketAddr;

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
/// `NLMSG_DONE` and `NLMSG_ERROR`.
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// `INET_DIAG_INFO`, the attribute, and the bit that asks for it.
const INFO: u16 = 2;
/// States of TCP that carry data: established, FIN_WAIT1 and 2, CLOSE_WAIT.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

/// Bytes of an answer at a time; the kernel fills up to 32 KB.
const ANSWER_BYTES: usize = 65_536;

/// Answers at most: a million sockets of some 400 bytes each.
const ANSWERS_MAX: usize = 20_000;

/// What a frame adds on the wire to a segment's payload: Ethernet with its checksum, preamble and gap
/// (38), IPv4 (20), TCP with timestamps (32).
pub(super) const SEGMENT_OVERHEAD_BYTES: u64 = 90;

/// The same of a datagram: Ethernet (38), IPv4 (20), UDP (8).
pub(super) const DATAGRAM_OVERHEAD_BYTES: u64 = 66;

/// Asks the kernel about all connections with `server`; `None` where it does not say.
pub(super) fn read(server: SocketAddr) -> Option<TcpFigures> {
    match ask(server) {
        Ok(figures) => figures.filter(|figures| figures.connections > 0),
        Err(error) => {
            tracing::debug!(%error, "the kernel has no socket diagnostics");
            None
        }
    }
}

fn ask(server: SocketAddr) -> Result<Option<TcpFigures>, Errno> {
    let socket = net::socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG))?;
    let family = if server.is_ipv4() { 2_u8 } else { 10 };
    let mut figures = TcpFigures::default();
    // A server that listens on IPv6 has its sockets there, also those of IPv4.
    for family in [family, 10] {
        net::send(&socket, &question(family), SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_BYTES];
        'answers: for _ in 0..ANSWERS_MAX {
            let (_, count) = net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
            let mut rest = answer.get(..count).unwrap_or_default();
            while let Some((kind, payload, after)) = message(rest) {
                match kind {
                    DONE | ERROR => break 'answers,
                    _ => add(payload, server, &mut figures),
                }
                rest = after;
            }
            if count == 0 {
                break;
            }
        }
        if server.is_ipv6() {
            break;
        }
    }
    Ok(Some(figures))
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn question(family: u8) -> Vec<u8> {
    const BYTES: u32 = 16 + 56;
    let mut out = Vec::with_capacity(BYTES as usize);
    out.extend_from_slice(&BYTES.to_ne_bytes());
    out.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    // IPPROTO_TCP, and the bit of the attribute.
    out.extend_from_slice(&[family, 6, 1 << (INFO - 1), 0]);
    out.extend_from_slice(&STATES.to_ne_bytes());
    out.resize(BYTES as usize, 0);
    out
}

/// The first message: its kind, its payload, and what is behind it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let payload = bytes.get(16..length)?;
    Some((kind, payload, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Adds one socket, `struct inet_diag_msg` with attributes, if it is of a connection with `server`.
fn add(message: &[u8], server: SocketAddr, figures: &mut TcpFigures) {
    let port = |at: usize| {
        message.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]])).unwrap_or(0)
    };
    let (own, peer) = (port(4), port(6));
    let is_client = peer == server.port() && address_is(message, 24, server);
    let is_server = own == server.port() && address_is(message, 8, server);
    if !is_client && !is_server {
        return;
    }
    let Some(info) = attribute(message.get(72..).unwrap_or_default(), INFO) else { return };
    let long = |at: usize| {
        info.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_ne_bytes)
    };
    let word = |at: usize| u64::from(u32_at(info, at).unwrap_or(0));
    // Offsets within `struct tcp_info` (linux/tcp.h), which only ever grows at its end.
    if is_client {
        figures.connections += 1;
        figures.received_bytes += long(128);
        figures.segments += word(152);
        figures.out_of_order += word(224);
        let round_trip = word(148);
        if round_trip > 0 && (figures.round_trip_us == 0 || round_trip < figures.round_trip_us) {
            figures.round_trip_us = round_trip;
        }
    } else {
        *figures.server_sent_bytes.get_or_insert(0) += long(200);
        *figures.server_repeated_bytes.get_or_insert(0) += long(208);
    }
}

/// Whether the address at `at` is the server's.
fn address_is(message: &[u8], at: usize, server: SocketAddr) -> bool {
    let Some(bytes) = message.get(at..at + 16) else { return false };
    match server.ip() {
        // Of a socket for both, IPv4 is in the last four bytes.
        std::net::IpAddr::V4(ip) => {
            bytes[..4] == ip.octets() || bytes == ip.to_ipv6_mapped().octets()
        }
        std::net::IpAddr::V6(ip) => bytes == ip.octets(),
    }
}

fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let found = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let payload = bytes.get(4..length)?;
        if found == kind {
            return Some(payload);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_counts_what_came_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 100_000]).unwrap();
        client.read_exact(&mut [0; 100_000]).unwrap();
        let Some(figures) = read(address) else { return };
        assert_eq!(figures.connections, 1);
        assert_eq!(figures.received_bytes, 100_000);
        assert!(figures.segments > 0);
        assert!(figures.server_sent_bytes.is_some_and(|sent| sent >= 100_000), "{figures:?}");
    }
}
