//! Who a request's client is, where a load balancer in front says so: `[forwarded]`.

use crate::client::Client;
use crate::ledger::network::Network;
use freshet_config::forwarded::Forwarded;
use freshet_config::limits::Prefixes;
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, Scheme};
use freshet_net::address::PeerAddress;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// Addresses of a list that are looked at, from its end: more proxies than anybody has in a row.
const HOPS_MAX: usize = 32;

/// Whose request this is, of the connection of `peer`. What that says of the way its client came
/// (`X-Forwarded-Proto`) is then what holds for the request.
pub fn client_of(
    forwarded: &Forwarded,
    prefixes: Prefixes,
    peer: &Rc<Client>,
    head: &mut RequestHead,
) -> Rc<Client> {
    let is_believed = forwarded.believes(peer.address.map(|address| address.ip()));
    if !is_believed {
        return Rc::clone(peer);
    }
    if let Some(scheme) = scheme(&head.fields) {
        head.scheme = scheme;
    }
    let Some(address) = address(forwarded, &head.fields) else { return Rc::clone(peer) };
    Rc::new(Client {
        address: Some(SocketAddr::new(address, 0)),
        network: Network::of(Some(address), prefixes),
        forwarder: Some(peer.address.map_or(PeerAddress::Unix, PeerAddress::Tcp)),
        ..Client::clone(peer)
    })
}

/// The last address of the list that is of nobody in front. What stands before one that is none, or that
/// nobody believed has said, is anybody's word.
fn address(forwarded: &Forwarded, fields: &Fields) -> Option<IpAddr> {
    let lines: Vec<_> = fields.get_all(&forwarded.field).collect();
    let hops = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    let mut client = None;
    // Empty members count for nothing (RFC 9110 §5.6.1.2).
    let hops = hops.map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty());
    for hop in hops.take(HOPS_MAX) {
        let Some(address) = parse(hop) else { break };
        client = Some(address);
        if !forwarded.has(address) {
            break;
        }
    }
    client
}

/// An address, alone or with a port.
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text).ok()?;
    let alone = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = alone.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// How the client came to who is in front.
fn scheme(fields: &Fields) -> Option<Scheme> {
    let value = fields.get_all("x-forwarded-proto").last()?;
    let last = value.rsplit(|byte| *byte == b',').next()?.trim_ascii();
    // Schemes are the same in capitals (RFC 3986 §3.1).
    [Scheme::Https, Scheme::Http]
        .into_iter()
        .find(|scheme| last.eq_ignore_ascii_case(scheme.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded() -> Forwarded {
        let from = ["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().expect("a network"));
        Forwarded { from: from.to_vec(), field: "X-Forwarded-For".into() }
    }

    fn seen(lines: &[&str]) -> Option<String> {
        let fields = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        address(&forwarded(), &fields).map(|address| address.to_string())
    }

    #[test]
    fn the_last_address_that_is_of_nobody_in_front_is_the_client() {
        for (lines, client) in [
            (&["192.0.2.1"][..], Some("192.0.2.1")),
            (&["203.0.113.9, 192.0.2.1"], Some("192.0.2.1")),
            (&["203.0.113.9, 192.0.2.1, 10.1.1.1,2001:db8::7"], Some("192.0.2.1")),
            (&["203.0.113.9", "192.0.2.1", "10.1.1.1"], Some("192.0.2.1")),
            (&["10.0.0.1, 10.0.0.2"], Some("10.0.0.1")),
            (&["192.0.2.1:4711"], Some("192.0.2.1")),
            (&["[2001:db9::1]:4711, 10.0.0.1"], Some("2001:db9::1")),
            (&["[2001:db9::1]"], Some("2001:db9::1")),
            (&["::ffff:192.0.2.1"], Some("192.0.2.1")),
            (&["192.0.2.1, unknown, 10.0.0.1"], Some("10.0.0.1")),
            (&["192.0.2.1, unknown"], None),
            (&["192.0.2.1, "], Some("192.0.2.1")),
            (&["192.0.2.1,, 10.0.0.1,", ""], Some("192.0.2.1")),
            (&[","], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(seen(lines).as_deref(), client, "{lines:?}");
        }
        let long = "10.0.0.1, ".repeat(1000) + "10.0.0.2";
        assert_eq!(seen(&[&long]).as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn a_scheme_is_read_as_it_is_written() {
        let read = |text: &str| scheme(&[("X-Forwarded-Proto", text)].into_iter().collect());
        for text in ["https", "HTTPS", "Https", "http, HTTPS"] {
            assert_eq!(read(text), Some(Scheme::Https), "{text}");
        }
        assert_eq!((read("HTTP"), read("wss"), read("")), (Some(Scheme::Http), None, None));
    }

    #[test]
    fn nobody_else_says_who_it_is_or_how_it_came() {
        let of = |peer: &str| {
            let peer = SocketAddr::new(peer.parse().expect("an address"), 9);
            let peer = Rc::new(Client { address: Some(peer), ..Client::default() });
            let fields = [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")];
            let mut head =
                RequestHead { fields: fields.into_iter().collect(), ..RequestHead::default() };
            let client = client_of(&forwarded(), Prefixes { v4: 32, v6: 56 }, &peer, &mut head);
            let address = client.address.map(|address| address.ip().to_string());
            (address, client.sender() == peer.address, head.scheme)
        };
        let of_others = (Some("127.0.0.1".to_owned()), true, Scheme::Http);
        assert_eq!(of("127.0.0.1"), of_others);
        assert_eq!(of("10.9.9.9"), (Some("192.0.2.1".to_owned()), true, Scheme::Https));
    }
}
