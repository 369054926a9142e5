//! Writing a PROXY header, for an origin that wants to know who the client is.

use std::net::{IpAddr, SocketAddr};

/// What version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, speaking for itself.
const LOCAL: u8 = 0x20;
/// Version 2, speaking for a client.
const PROXY: u8 = 0x21;
/// TCP over IPv4.
const TCP4: u8 = 0x11;
/// TCP over IPv6.
const TCP6: u8 = 0x21;

/// Appends a header of `version`, 1 or 2, that says `source` reached `destination`. Without both
/// the connection is said to be the proxy's own, as a health check's is.
pub fn write(
    version: u8,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    out: &mut Vec<u8>,
) {
    let ends =
        source.zip(destination).map(|(source, destination)| same_family(source, destination));
    if version == 1 {
        match ends {
            None => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            Some((from, to)) => {
                let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
                let (from_ip, to_ip) = (from.ip(), to.ip());
                let (from_port, to_port) = (from.port(), to.port());
                let line = format!("PROXY {family} {from_ip} {to_ip} {from_port} {to_port}\r\n");
                out.extend_from_slice(line.as_bytes());
            }
        }
        return;
    }
    out.extend_from_slice(SIGNATURE);
    let Some((from, to)) = ends else {
        out.extend_from_slice(&[LOCAL, 0, 0, 0]);
        return;
    };
    let mut addresses = Vec::with_capacity(36);
    for end in [from, to] {
        match end.ip() {
            IpAddr::V4(ip) => addresses.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => addresses.extend_from_slice(&ip.octets()),
        }
    }
    for end in [from, to] {
        addresses.extend_from_slice(&end.port().to_be_bytes());
    }
    let bytes = if from.is_ipv4() { 12 } else { 36 };
    out.extend_from_slice(&[PROXY, if from.is_ipv4() { TCP4 } else { TCP6 }, 0, bytes]);
    out.extend_from_slice(&addresses);
}

/// Both ends in one family: IPv4 where both are, IPv6 otherwise.
fn same_family(a: SocketAddr, b: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let (a, b) = (plain(a), plain(b));
    if a.is_ipv4() == b.is_ipv4() {
        return (a, b);
    }
    let wide = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    };
    (wide(a), wide(b))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let pairs = [
            ("192.0.2.1:1234", "192.0.2.2:80"),
            ("[2001:db8::1]:1234", "[2001:db8::2]:80"),
            ("192.0.2.1:1234", "[2001:db8::2]:80"),
        ];
        for version in [1, 2] {
            for (from, to) in pairs {
                let mut out = Vec::new();
                write(version, Some(address(from)), Some(address(to)), &mut out);
                let (header, len) = parse(&out).expect("well formed").expect("all there");
                assert_eq!(len, out.len());
                let source = header.source.expect("it says who");
                assert_eq!(source.ip().to_canonical(), address(from).ip());
                assert_eq!(source.port(), 1234);
                assert_eq!(header.destination.map(|to| to.port()), Some(80));
                assert_eq!(header.is_binary, version == 2);
            }
            let mut out = Vec::new();
            write(version, None, None, &mut out);
            let (header, len) = parse(&out).expect("well formed").expect("all there");
            assert_eq!((len, header.source), (out.len(), None));
        }
    }
}
