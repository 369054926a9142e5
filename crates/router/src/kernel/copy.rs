//! Copies of signalling as mirrors send them: an IP packet with a UDP datagram from or to port 8805.

use crate::packet::{AddressOf, UDP, parse_packet};
use std::net::IpAddr;

/// The port of PFCP.
const PORT: u16 = 8805;

/// Sender, receiver and payload of a copied datagram; nothing where it is something else.
pub(super) fn payload(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let parsed = parse_packet(packet, 0, packet.len(), None).ok()?;
    if parsed.protocol != UDP || !parsed.ports?.contains(&PORT) {
        return None;
    }
    let content = packet.get(parsed.transport_at + 8..parsed.bytes)?;
    let [from, to] = [parsed.source, parsed.destination].map(|one| AddressOf(one).ip());
    Some((from, to, content))
}
