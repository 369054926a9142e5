//! What a request asks for, as a number.

use super::prefix::Prefix;
use super::table::{KeyPart, Site};
use freshet_origin::director::stable_hash;
use std::net::IpAddr;

/// What of a request a key may be made of.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The host, in lower case.
    pub host: &'a str,
    /// The path, from its `/` on.
    pub path: &'a str,
    /// What follows the path's `?`.
    pub query: &'a str,
    /// Who asks.
    pub client: IpAddr,
}

impl<'a> Asked<'a> {
    /// A request for `target`, a path with or without a query.
    pub fn new(host: &'a str, target: &'a str, client: IpAddr) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self { host, path, query, client }
    }

    /// The key of a client that asks for nothing in particular.
    pub fn client_key(&self, site: &str) -> u64 {
        client_hash(self.client) ^ stable_hash(site.as_bytes())
    }

    /// The value of a parameter of the query, as it is written.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl Site {
    /// The key of a request: the same on every router that has the same table.
    pub fn key_of(&self, asked: &Asked<'_>) -> u64 {
        let mut text = Vec::with_capacity(self.name.len() + asked.path.len() + 16);
        text.extend_from_slice(self.name.as_bytes());
        for part in &self.key {
            // Neither a host nor a path has this byte.
            text.push(0);
            match part {
                KeyPart::Path => text.extend_from_slice(asked.path.as_bytes()),
                KeyPart::Folder => {
                    let end = asked.path.rfind('/').map_or(0, |at| at + 1);
                    text.extend_from_slice(asked.path.as_bytes().get(..end).unwrap_or_default());
                }
                KeyPart::Query => text.extend_from_slice(asked.query.as_bytes()),
                KeyPart::Parameter(name) => {
                    let value = asked.parameter(name).unwrap_or_default();
                    text.extend_from_slice(value.as_bytes());
                }
                KeyPart::Host => text.extend_from_slice(asked.host.as_bytes()),
                KeyPart::Client => text.extend_from_slice(&network_bytes(asked.client)),
            }
        }
        stable_hash(&text)
    }
}

/// The length of the network that counts as one client: what one household or office has.
pub(super) fn network_bits(client: IpAddr) -> u8 {
    if client.to_canonical().is_ipv4() { 24 } else { 48 }
}

/// That network's address.
pub(crate) fn network_bytes(client: IpAddr) -> [u8; 16] {
    match Prefix::of(client, network_bits(client)).address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A client as a number.
pub(super) fn client_hash(client: IpAddr) -> u64 {
    stable_hash(&network_bytes(client))
}

/// Whether a node that takes only so many percent of its keys leaves this one to others. It is always
/// the same keys that go first, so that few move when the share does.
pub(super) fn sheds(node_seed: u64, key: u64, share_percent: u8) -> bool {
    if share_percent >= 100 {
        return false;
    }
    let mut both = [0; 16];
    let (node, asked) = both.split_at_mut(8);
    node.copy_from_slice(&node_seed.to_le_bytes());
    asked.copy_from_slice(&key.to_le_bytes());
    stable_hash(&both) % 100 >= u64::from(share_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_of_what_the_site_says() {
        let key = |parts: &[KeyPart], host: &str, target: &str, client: &str| {
            let site = Site { key: parts.to_vec(), ..Site::new("a.example") };
            site.key_of(&Asked::new(host, target, client.parse().unwrap()))
        };
        let same = |parts: &[KeyPart], a: (&str, &str, &str), b: (&str, &str, &str)| {
            key(parts, a.0, a.1, a.2) == key(parts, b.0, b.1, b.2)
        };
        let base = ("a.example", "/live/1.ts?token=a&id=7", "192.0.2.1");
        assert!(same(&[KeyPart::Path], base, ("b.example", "/live/1.ts?token=b", "10.0.0.1")));
        assert!(!same(&[KeyPart::Path], base, ("a.example", "/live/2.ts", "192.0.2.1")));
        assert!(same(&[KeyPart::Folder], base, ("a.example", "/live/2.ts", "192.0.2.1")));
        assert!(!same(&[KeyPart::Folder], base, ("a.example", "/film/1.ts", "192.0.2.1")));
        assert!(!same(&[KeyPart::Query], base, ("a.example", "/live/1.ts", "192.0.2.1")));
        let id = [KeyPart::Parameter("id".into())];
        assert!(same(&id, base, ("a.example", "/other?id=7", "192.0.2.1")));
        assert!(!same(&id, base, ("a.example", "/other?id=8", "192.0.2.1")));
        assert!(!same(&[KeyPart::Host], base, ("b.example", base.1, base.2)));
        assert!(same(&[KeyPart::Client], base, ("a.example", "/", "::ffff:192.0.2.200")));
        assert!(!same(&[KeyPart::Client], base, ("a.example", "/", "192.0.3.1")));
    }

    #[test]
    fn a_share_is_a_share_of_the_keys_and_grows_by_keeping_what_it_has() {
        let shed = |share: u8| (0..10_000_u64).filter(|key| sheds(7, *key, share)).count();
        assert_eq!((shed(100), shed(0)), (0, 10_000));
        assert!((4_500..5_500).contains(&shed(50)), "{}", shed(50));
        assert!((0..1000_u64).all(|key| sheds(7, key, 30) || !sheds(7, key, 60)));
    }
}
