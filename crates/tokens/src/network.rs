//! Networks that tokens are for.

use std::net::IpAddr;

/// Whether a client is in a network.
pub(crate) fn contains((network, length): (IpAddr, u8), client: IpAddr) -> bool {
    let length = u32::from(length);
    // An IPv4 address has one form.
    let (network, length) = match network {
        IpAddr::V6(v6) if length >= 96 && v6.to_ipv4_mapped().is_some() => {
            (network.to_canonical(), length - 96)
        }
        _ => (network, length),
    };
    match (network, client.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(client)) => {
            (network.to_bits() ^ client.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(client)) => {
            (network.to_bits() ^ client.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
        }
        _ => false,
    }
}
