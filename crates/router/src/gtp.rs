//! GTP-U (3GPP TS 29.281) and the PDU session container in it (3GPP TS 38.415).

use crate::packet::{Ip, Untouched, bytes, number};

/// The port of GTP-U, on both sides.
pub const PORT: u16 = 2152;
/// Extension headers that are walked over.
pub const EXTENSIONS_MAX: usize = 4;
/// Length of a GTP-U header with all its extensions that is still read.
pub const HEADER_BYTES_MAX: usize = 128;

const G_PDU: u8 = 255;
const PDU_SESSION_CONTAINER: u8 = 0x85;
/// In the type of an extension header: whoever takes the packet out of its tunnel has to understand it
/// (TS 29.281 §5.2.1).
const IS_REQUIRED: u8 = 0x80;

/// How clients' packets are wrapped on an interface.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Form {
    /// Not at all: N6, SGi.
    Plain = 0,
    /// GTP-U as in 4G: S1-U.
    Gtp = 1,
    /// GTP-U with a PDU session container as in 5G: N3.
    GtpContainer = 2,
}

impl Form {
    /// Bytes that wrapping adds to a packet, with an outer IP header of the given version.
    #[must_use]
    pub const fn overhead_bytes(self, outer_version: u8) -> usize {
        let outer = if outer_version == 6 { 40 } else { 20 };
        match self {
            Self::Plain => 0,
            Self::Gtp => outer + 8 + 8,
            Self::GtpContainer => outer + 8 + 16,
        }
    }
}

/// The tunnel a packet came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel {
    /// Outer source; IPv4 is mapped.
    pub source: u128,
    /// Outer destination, likewise.
    pub destination: u128,
    /// Tunnel endpoint identifier, of the receiving side.
    pub teid: u32,
    /// QoS flow identifier of the container, 0 without one.
    pub qfi: u8,
    /// With a container or without.
    pub form: Form,
    /// Type of service or traffic class of the outer header.
    pub traffic_class: u8,
}

/// Reads the UDP and GTP-U headers behind `outer`; also says where the client's packet starts.
///
/// # Errors
/// Why the frame is to go on untouched.
pub(crate) fn parse(frame: &[u8], outer: &Ip) -> Result<(Tunnel, usize), Untouched> {
    let malformed = Untouched::Malformed;
    let (at, end) = (outer.payload_at, outer.end);
    let [_, _, to_high, to_low, length_high, length_low, _, _] =
        bytes::<8>(frame, at, end).ok_or(malformed)?;
    if u16::from_be_bytes([to_high, to_low]) != PORT {
        return Err(Untouched::NotTunnel);
    }
    if usize::from(u16::from_be_bytes([length_high, length_low])) != end - at {
        return Err(malformed);
    }
    let gtp_at = at + 8;
    let header: [u8; 8] = bytes(frame, gtp_at, end).ok_or(malformed)?;
    // Version 1 and protocol type GTP.
    if header[0] & 0xf0 != 0x30 {
        return Err(malformed);
    }
    if usize::from(u16::from_be_bytes([header[2], header[3]])) != end - gtp_at - 8 {
        return Err(malformed);
    }
    if header[1] != G_PDU {
        return Err(Untouched::TunnelSignal);
    }
    let mut tunnel = Tunnel {
        source: outer.source,
        destination: outer.destination,
        teid: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        qfi: 0,
        form: Form::Gtp,
        traffic_class: outer.traffic_class,
    };
    let mut inner_at = gtp_at + 8;
    if header[0] & 0x07 != 0 {
        let optional: [u8; 4] = bytes(frame, inner_at, end).ok_or(malformed)?;
        inner_at += 4;
        let mut next = if header[0] & 0x04 != 0 { optional[3] } else { 0 };
        for _ in 0..EXTENSIONS_MAX {
            if next == 0 {
                break;
            }
            let start: [u8; 4] = bytes(frame, inner_at, end).ok_or(malformed)?;
            let extension_bytes = usize::from(start[0]) * 4;
            if extension_bytes == 0 || inner_at + extension_bytes - gtp_at > HEADER_BYTES_MAX {
                return Err(malformed);
            }
            if next == PDU_SESSION_CONTAINER {
                (tunnel.form, tunnel.qfi) = (Form::GtpContainer, start[2] & 0x3f);
            } else if next & IS_REQUIRED != 0 {
                return Err(Untouched::TunnelSignal);
            }
            let [following] = bytes(frame, inner_at + extension_bytes - 1, end).ok_or(malformed)?;
            next = following;
            inner_at += extension_bytes;
        }
        if next != 0 {
            return Err(malformed);
        }
    }
    Ok((tunnel, inner_at))
}

/// What the tunnel headers in front of a packet to a client say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wrapping {
    /// Outer addresses, source and destination; both of one version.
    pub addresses: [u128; 2],
    /// The client's tunnel on the receiving side.
    pub teid: u32,
    /// QoS flow identifier, for the container.
    pub qfi: u8,
    /// With a container or without; [`Form::Plain`] wraps nothing.
    pub form: Form,
}

impl Wrapping {
    /// The outer IP, UDP and GTP-U headers for `packet`, an IP packet.
    ///
    /// The checksum of UDP is 0 over IPv4. Over IPv6 it is `checksum` of the packet where that is
    /// known, and 0 otherwise, which RFC 6935 allows tunnels.
    #[must_use]
    pub fn headers(&self, packet: &[u8], traffic_class: u8, packet_sum: Option<u16>) -> Vec<u8> {
        let gtp = self.gtp(packet.len());
        let udp_bytes = (8 + gtp.len() + packet.len()) as u16;
        let [from, to] = self.addresses;
        let mut headers = Vec::with_capacity(64);
        match (crate::packet::unmapped(from), crate::packet::unmapped(to)) {
            (Some(from), Some(to)) => {
                let total = 20 + udp_bytes;
                let mut ip = [0x45, traffic_class, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
                ip[2..4].copy_from_slice(&total.to_be_bytes());
                headers.extend(ip);
                headers.extend(from.to_be_bytes());
                headers.extend(to.to_be_bytes());
                let check = !folded(sum(&headers));
                headers[10..12].copy_from_slice(&check.to_be_bytes());
            }
            _ => {
                headers.extend((0x6000_0000 | u32::from(traffic_class) << 20).to_be_bytes());
                headers.extend(udp_bytes.to_be_bytes());
                headers.extend([17, 64]);
                headers.extend(from.to_be_bytes());
                headers.extend(to.to_be_bytes());
            }
        }
        let is_ipv6 = headers.len() == 40;
        let udp_at = headers.len();
        for value in [PORT, PORT, udp_bytes, 0] {
            headers.extend(value.to_be_bytes());
        }
        headers.extend(gtp);
        if let Some(packet_sum) = packet_sum.filter(|_| is_ipv6) {
            let pseudo = sum(&headers[8..40]) + u64::from(udp_bytes) + 17;
            let check = !folded(pseudo + sum(&headers[udp_at..]) + u64::from(packet_sum));
            let check = if check == 0 { 0xffff } else { check };
            headers[udp_at + 6..udp_at + 8].copy_from_slice(&check.to_be_bytes());
        }
        headers
    }

    fn gtp(&self, packet_bytes: usize) -> Vec<u8> {
        let container = matches!(self.form, Form::GtpContainer);
        let flags = if container { 0x34 } else { 0x30 };
        let length = (packet_bytes + if container { 8 } else { 0 }) as u16;
        let mut gtp = vec![flags, G_PDU];
        gtp.extend(length.to_be_bytes());
        gtp.extend(self.teid.to_be_bytes());
        if container {
            gtp.extend([0, 0, 0, PDU_SESSION_CONTAINER, 1, 0, self.qfi, 0]);
        }
        gtp
    }
}

/// The sum of the 16-bit words of `bytes` (RFC 1071), not folded.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let whole: u64 =
        words.by_ref().map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    whole + words.remainder().first().map_or(0, |&last| u64::from(last) << 8)
}

pub(crate) fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum of a client's packet that its own checksums promise, without looking at the payload: that
/// of a segment and its pseudo-header is all ones. Nothing where the packet has no such checksum.
#[must_use]
pub fn promised_sum(frame: &[u8], packet: &crate::packet::Packet) -> Option<u16> {
    use crate::packet::{Fragment, ICMP, ICMPV6, TCP, UDP};
    let end = packet.at + packet.bytes;
    if packet.fragment != Fragment::Whole {
        return None;
    }
    let has_pseudo = match packet.protocol {
        TCP | ICMPV6 => true,
        UDP => number(frame, packet.transport_at + 6, end).is_some_and(|check| check != 0),
        ICMP => false,
        _ => return None,
    };
    if packet.protocol == UDP && !has_pseudo {
        return None;
    }
    // Extension headers belong to no checksum.
    let headers_bytes = packet.transport_at - packet.at;
    if packet.version == 6 && headers_bytes != 40 {
        return None;
    }
    let header = frame.get(packet.at..packet.transport_at)?;
    let mut total = sum(header) + 0xffff;
    if has_pseudo {
        let addresses = if packet.version == 4 { &header[12..20] } else { &header[8..40] };
        let length = (packet.bytes - headers_bytes) as u64;
        let pseudo = folded(sum(addresses) + length + u64::from(packet.protocol));
        total += u64::from(!pseudo);
    }
    Some(folded(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::parse_ip;

    /// A tunnel's packet with one extension header of this type, without a client's packet in it.
    fn with_extension(kind: u8) -> Vec<u8> {
        let mut frame = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 64, 17, 0, 0, 10, 3, 0, 1, 10, 3, 0, 240];
        frame.extend([8, 104, 8, 104, 0, 24, 0, 0]);
        frame.extend([0x34, G_PDU, 0, 8, 0, 0, 0, 100, 0, 0, 0, kind, 1, 0, 9, 0]);
        frame
    }

    #[test]
    fn what_only_the_core_understands_is_not_taken_out_of_its_tunnel() {
        let read = |kind: u8| {
            let frame = with_extension(kind);
            let outer = parse_ip(&frame, 0, frame.len(), None).unwrap();
            parse(&frame, &outer).map(|(tunnel, at)| (tunnel.form, tunnel.qfi, at))
        };
        assert_eq!(read(PDU_SESSION_CONTAINER), Ok((Form::GtpContainer, 9, 44)));
        // Nobody has to understand a service class indicator, or what is unknown of that kind.
        for kind in [0x20, 0x21, 0x40, 0x7f] {
            assert_eq!(read(kind), Ok((Form::Gtp, 0, 44)), "{kind:#x}");
        }
        // Containers of radio, numbers of PDCP, and what is unknown.
        for kind in [0x81, 0x82, 0x84, 0xa0, 0xc0, 0xc1, 0xe8] {
            assert_eq!(read(kind), Err(Untouched::TunnelSignal), "{kind:#x}");
        }
    }
}
