//! Ethernet, VLAN tags, IPv4, IPv6 and ports: as much of a frame as decides where it goes.
//!
//! The program in the kernel reads frames by the same rules, field by field; a test holds one against
//! the other. What a rule here refuses is [`Untouched`] there: it goes on as it came.

use crate::gtp;

/// VLAN tags a frame may have.
pub const TAGS_MAX: usize = 2;
/// IPv6 extension headers that are walked over.
pub const IPV6_HEADERS_MAX: usize = 4;
/// Length of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4_MAPPED: u128 = 0xffff_0000_0000;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const SCTP: u8 = 132;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;

/// Why a frame of the wire is none of the router's business. It is counted and goes on as it came.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Untouched {
    /// Neither IPv4 nor IPv6, or more than two VLAN tags: ARP, NGAP over other links, BFD.
    NotIp = 0,
    /// Lengths that contradict each other, or a header that is cut off.
    Malformed = 1,
    /// A fragment of the packet that carries the tunnel.
    OuterFragment = 2,
    /// Not UDP to port 2152 on an interface that carries tunnels.
    NotTunnel = 3,
    /// GTP-U that is for the core alone: Echo, Error Indication, End Marker, and packets with an extension
    /// header that is to be understood and is not a PDU session container.
    TunnelSignal = 4,
}

/// The link's part of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// Destination and source address.
    pub addresses: [[u8; 6]; 2],
    /// VLAN tags from the outside in, each as type and control information; unused ones are 0.
    pub tags: [[u16; 2]; TAGS_MAX],
    /// Bytes before the IP header.
    pub bytes: usize,
}

/// Where a packet stands among the fragments of its datagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fragment {
    /// It is whole.
    Whole,
    /// The first, which has the ports, of the datagram of this identification.
    First(u32),
    /// A later one.
    Later(u32),
}

/// A client's packet: what rules are matched against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet {
    /// Where its IP header starts in the frame.
    pub at: usize,
    /// Length of the IP packet as its header says it, in bytes.
    pub bytes: usize,
    /// 4 or 6.
    pub version: u8,
    /// Source; IPv4 is mapped (`::ffff:192.0.2.1`).
    pub source: u128,
    /// Destination, likewise.
    pub destination: u128,
    /// Type of service or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The transport protocol, after all extension headers.
    pub protocol: u8,
    /// Where the transport header starts in the frame.
    pub transport_at: usize,
    /// Source and destination port of TCP, UDP and SCTP where the packet has them.
    pub ports: Option<[u16; 2]>,
    /// Its place among fragments.
    pub fragment: Fragment,
}

/// A frame of the wire, read to its client's packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The link's part.
    pub link: Link,
    /// The tunnel, on an interface that has them.
    pub tunnel: Option<gtp::Tunnel>,
    /// The client's packet.
    pub packet: Packet,
}

/// IPv4 in the form addresses have here.
#[must_use]
pub const fn mapped(address: u32) -> u128 {
    IPV4_MAPPED | address as u128
}

/// The IPv4 address behind a mapped one.
#[must_use]
pub const fn unmapped(address: u128) -> Option<u32> {
    if address >> 32 == 0xffff { Some(address as u32) } else { None }
}

impl From<std::net::IpAddr> for AddressOf {
    fn from(address: std::net::IpAddr) -> Self {
        Self(match address {
            std::net::IpAddr::V4(address) => mapped(u32::from(address)),
            std::net::IpAddr::V6(address) => u128::from(address),
        })
    }
}

/// An address as text and as a number.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct AddressOf(pub u128);

impl AddressOf {
    /// The address, of the version it has.
    #[must_use]
    pub fn ip(self) -> std::net::IpAddr {
        match unmapped(self.0) {
            Some(address) => std::net::Ipv4Addr::from(address).into(),
            None => std::net::Ipv6Addr::from(self.0).into(),
        }
    }
}

impl std::fmt::Display for AddressOf {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ip().fmt(to)
    }
}

/// Reads `N` bytes at `at`, if the frame has them before `end`.
pub(crate) fn bytes<const N: usize>(frame: &[u8], at: usize, end: usize) -> Option<[u8; N]> {
    frame.get(..end)?.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn number(frame: &[u8], at: usize, end: usize) -> Option<u16> {
    bytes(frame, at, end).map(u16::from_be_bytes)
}

/// Reads a frame; `tunnelled` says whether clients' packets are inside GTP-U here (N3, S1-U) or
/// stand for themselves (N6, SGi).
///
/// # Errors
/// Why the frame is to go on untouched.
pub fn parse(frame: &[u8], tunnelled: bool) -> Result<Frame, Untouched> {
    let (link, version) = parse_link(frame)?;
    if !tunnelled {
        let packet = parse_packet(frame, link.bytes, frame.len(), Some(version))?;
        return Ok(Frame { link, tunnel: None, packet });
    }
    let outer = parse_ip(frame, link.bytes, frame.len(), Some(version))?;
    if !matches!(outer.fragment, Fragment::Whole) || outer.protocol == IPV6_FRAGMENT {
        return Err(Untouched::OuterFragment);
    }
    if outer.protocol != UDP {
        return Err(Untouched::NotTunnel);
    }
    let (tunnel, inner_at) = gtp::parse(frame, &outer)?;
    let packet = parse_packet(frame, inner_at, outer.end, None)?;
    Ok(Frame { link, tunnel: Some(tunnel), packet })
}

fn parse_link(frame: &[u8]) -> Result<(Link, u8), Untouched> {
    let end = frame.len();
    let malformed = Untouched::Malformed;
    let destination = bytes(frame, 0, end).ok_or(malformed)?;
    let source = bytes(frame, 6, end).ok_or(malformed)?;
    let mut ethertype = number(frame, 12, end).ok_or(malformed)?;
    let mut link =
        Link { addresses: [destination, source], tags: [[0; 2]; TAGS_MAX], bytes: ETHERNET_BYTES };
    for index in 0..TAGS_MAX {
        if !ETHERTYPE_TAGS.contains(&ethertype) {
            break;
        }
        let control = number(frame, link.bytes, end).ok_or(malformed)?;
        link.tags[index] = [ethertype, control];
        ethertype = number(frame, link.bytes + 2, end).ok_or(malformed)?;
        link.bytes += 4;
    }
    match ethertype {
        ETHERTYPE_IPV4 => Ok((link, 4)),
        ETHERTYPE_IPV6 => Ok((link, 6)),
        _ => Err(Untouched::NotIp),
    }
}

/// An IP header: what stands directly behind it is at `payload_at`, the packet ends before `end`.
pub(crate) struct Ip {
    pub(crate) version: u8,
    pub(crate) source: u128,
    pub(crate) destination: u128,
    pub(crate) traffic_class: u8,
    /// For IPv6 the next header of the fixed one.
    pub(crate) protocol: u8,
    pub(crate) payload_at: usize,
    pub(crate) end: usize,
    /// Of IPv4 only: IPv6 has a header for it.
    pub(crate) fragment: Fragment,
}

pub(crate) const IPV6_FRAGMENT: u8 = 44;

pub(crate) fn parse_ip(
    frame: &[u8],
    at: usize,
    end: usize,
    expected: Option<u8>,
) -> Result<Ip, Untouched> {
    parse_ip_or_none(frame, at, end, expected).ok_or(Untouched::Malformed)
}

fn parse_ip_or_none(frame: &[u8], at: usize, end: usize, expected: Option<u8>) -> Option<Ip> {
    let [first] = bytes(frame, at, end)?;
    let version = first >> 4;
    if expected.is_some_and(|expected| expected != version) {
        return None;
    }
    match version {
        4 => {
            let header: [u8; 20] = bytes(frame, at, end)?;
            let header_bytes = usize::from(first & 0xf) * 4;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            if header_bytes < 20 || total < header_bytes || at + total > end {
                return None;
            }
            let place = u16::from_be_bytes([header[6], header[7]]);
            let identification = u32::from(u16::from_be_bytes([header[4], header[5]]));
            let fragment = match (place & 0x1fff, place & 0x2000) {
                (0, 0) => Fragment::Whole,
                (0, _) => Fragment::First(identification),
                _ => Fragment::Later(identification),
            };
            let address = |from: usize| {
                let bytes = [header[from], header[from + 1], header[from + 2], header[from + 3]];
                mapped(u32::from_be_bytes(bytes))
            };
            Some(Ip {
                version,
                source: address(12),
                destination: address(16),
                traffic_class: header[1],
                protocol: header[9],
                payload_at: at + header_bytes,
                end: at + total,
                fragment,
            })
        }
        6 => {
            let header: [u8; 40] = bytes(frame, at, end)?;
            let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
            if at + total > end {
                return None;
            }
            Some(Ip {
                version,
                source: u128::from_be_bytes(bytes(frame, at + 8, end)?),
                destination: u128::from_be_bytes(bytes(frame, at + 24, end)?),
                traffic_class: header[0] << 4 | header[1] >> 4,
                protocol: header[6],
                payload_at: at + 40,
                end: at + total,
                fragment: Fragment::Whole,
            })
        }
        _ => None,
    }
}

/// A client's packet, with the extension headers of IPv6 walked over.
pub(crate) fn parse_packet(
    frame: &[u8],
    at: usize,
    end: usize,
    expected: Option<u8>,
) -> Result<Packet, Untouched> {
    let mut ip = parse_ip(frame, at, end, expected)?;
    if ip.version == 6 {
        walk_headers(frame, &mut ip).ok_or(Untouched::Malformed)?;
    }
    let has_ports =
        matches!(ip.protocol, TCP | UDP | SCTP) && !matches!(ip.fragment, Fragment::Later(_));
    let ports = bytes::<4>(frame, ip.payload_at, ip.end).filter(|_| has_ports);
    Ok(Packet {
        at,
        bytes: ip.end - at,
        version: ip.version,
        source: ip.source,
        destination: ip.destination,
        traffic_class: ip.traffic_class,
        protocol: ip.protocol,
        transport_at: ip.payload_at,
        ports: ports.map(|[a, b, c, d]| [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]),
        fragment: ip.fragment,
    })
}

fn walk_headers(frame: &[u8], ip: &mut Ip) -> Option<()> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const DESTINATION: u8 = 60;
    for _ in 0..IPV6_HEADERS_MAX {
        if !matches!(ip.protocol, HOP_BY_HOP | ROUTING | DESTINATION | IPV6_FRAGMENT) {
            return Some(());
        }
        let header: [u8; 8] = bytes(frame, ip.payload_at, ip.end)?;
        if ip.protocol == IPV6_FRAGMENT {
            let place = u16::from_be_bytes([header[2], header[3]]);
            let identification = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            // A fragment header of a packet that is whole is allowed (RFC 6946).
            ip.fragment = match (place >> 3, place & 1) {
                (0, 0) => Fragment::Whole,
                (0, _) => Fragment::First(identification),
                _ => Fragment::Later(identification),
            };
            ip.payload_at += 8;
        } else {
            ip.payload_at += (usize::from(header[1]) + 1) * 8;
        }
        ip.protocol = header[0];
        // What follows the header of a later fragment is the middle of something.
        if matches!(ip.fragment, Fragment::Later(_)) {
            return Some(());
        }
    }
    let is_header = matches!(ip.protocol, HOP_BY_HOP | ROUTING | DESTINATION | IPV6_FRAGMENT);
    (!is_header).then_some(())
}
