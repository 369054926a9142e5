//! Tokens that show that a client is where it says: those of Retry packets (RFC 9000 §8.1.2), and those for
//! later connections (§8.1.3), which tell of a visit.
//!
//! Form: a byte that says what it is, a random nonce of 12 bytes, then AES-256-GCM-SIV. Of a Retry packet's it
//! has the time and the id of the client's very first packet, with the client's address, its version and the id it
//! was told to use as associated data; of a visit's the time, with the client's address without its port.

use super::random;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use freshet_quic::{Id, Version};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a token of a Retry packet is good for: a client comes again at once.
const LIFETIME: Duration = Duration::from_secs(15);

/// How long one of a visit is: an address may be another client's by the next day.
const VISIT_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What tokens of Retry packets begin with, and those of visits.
const RETRY: u8 = 0x52;
const VISIT: u8 = 0x56;

/// Where a client is, and the version that it speaks.
pub type Client = (SocketAddr, Version);

/// The key that a process seals tokens with.
pub struct TokenKey(LessSafeKey);

impl TokenKey {
    /// The key with these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM_SIV, bytes).expect("the key has the right length");
        Self(LessSafeKey::new(key))
    }

    /// A token for a client that is to come again for `own`; `now` is since any moment that all who have the key agree on.
    pub fn seal(&self, client: Client, own: &Id, original: &Id, now: Duration) -> Vec<u8> {
        self.sealed(RETRY, &bound(client, own), original.as_bytes(), now)
    }

    /// A token for later connections of a client at this address; `now` as for [`TokenKey::seal`].
    pub fn seal_visit(&self, address: IpAddr, now: Duration) -> Vec<u8> {
        self.sealed(VISIT, &bound_visit(address), &[], now)
    }

    /// Whether a token is one of a Retry packet, whoever sent that and whatever became of it since. Its client
    /// cannot be asked to come again once more (RFC 9000 §8.1.3).
    pub fn is_of_retry(token: &[u8]) -> bool {
        token.first() == Some(&RETRY)
    }

    /// The id of the client's very first packet; `None` when the token is not one of ours, of another
    /// client or version, for another id, or too old.
    pub fn open(&self, client: Client, own: &Id, token: &[u8], now: Duration) -> Option<Id> {
        let token = token.strip_prefix(&[RETRY])?;
        let (_, original) = self.opened(&bound(client, own), token, now, LIFETIME)?;
        Id::new(&original)
    }

    /// A number that tells the token from all others, where it is one of ours for a client at this address that
    /// was here not too long ago.
    pub fn open_visit(&self, address: IpAddr, token: &[u8], now: Duration) -> Option<u64> {
        let token = token.strip_prefix(&[VISIT])?;
        let (number, _) = self.opened(&bound_visit(address), token, now, VISIT_LIFETIME)?;
        Some(number)
    }

    fn sealed(&self, kind: u8, bound: &[u8], content: &[u8], now: Duration) -> Vec<u8> {
        let nonce: [u8; NONCE_LEN] = random();
        let mut sealed = (now.as_millis() as u64).to_be_bytes().to_vec();
        sealed.extend_from_slice(content);
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(nonce_value, Aad::from(bound), &mut sealed)
            .expect("a token is short enough");
        [&[kind], &nonce[..], &sealed].concat()
    }

    /// What of its nonce is a number, and the content.
    fn opened(
        &self,
        bound: &[u8],
        token: &[u8],
        now: Duration,
        lifetime: Duration,
    ) -> Option<(u64, Vec<u8>)> {
        let (nonce, sealed) = token.split_first_chunk::<NONCE_LEN>()?;
        let number = u64::from_be_bytes(*nonce.first_chunk()?);
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(bound), &mut sealed).ok()?;
        let (millis, content) = opened.split_first_chunk::<8>()?;
        let sealed_at = Duration::from_millis(u64::from_be_bytes(*millis));
        (now.abs_diff(sealed_at) <= lifetime).then(|| (number, content.to_vec()))
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(hidden)")
    }
}

/// Shorter than what a Retry packet's is bound to, which has an id of ours as well.
fn bound_visit(address: IpAddr) -> Vec<u8> {
    [&[VISIT], &octets(address)[..]].concat()
}

fn bound((client, version): Client, own: &Id) -> Vec<u8> {
    let mut out = octets(client.ip());
    out.extend_from_slice(&client.port().to_be_bytes());
    out.extend_from_slice(&version.number().to_be_bytes());
    out.extend_from_slice(own.as_bytes());
    out
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_client_one_id_and_a_while() {
        let key = TokenKey::new(&[1; 32]);
        let client = ("192.0.2.1:4000".parse().unwrap(), Version::V1);
        let (own, original) = (Id::new(&[1; 8]).unwrap(), Id::new(&[2; 11]).unwrap());
        let now = Duration::from_secs(100);
        let token = key.seal(client, &own, &original, now);
        assert_eq!(key.open(client, &own, &token, now + LIFETIME), Some(original));
        let late = now + LIFETIME + Duration::from_millis(1);
        assert_eq!(key.open(client, &own, &token, late), None);
        for other in [("192.0.2.1:4001".parse().unwrap(), Version::V1), (client.0, Version::V2)] {
            assert_eq!(key.open(other, &own, &token, now), None);
        }
        assert_eq!(key.open(client, &original, &token, now), None);
        assert_eq!(TokenKey::new(&[2; 32]).open(client, &own, &token, now), None);
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert_eq!(key.open(client, &own, &changed, now), None);
            assert_eq!(key.open(client, &own, &token[..at], now), None);
        }
    }

    #[test]
    fn a_token_of_a_visit_is_good_for_one_address_and_a_day() {
        let key = TokenKey::new(&[1; 32]);
        let addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|it| it.parse().unwrap());
        let now = Duration::from_secs(1_000_000);
        let token = key.seal_visit(addresses[0], now);
        assert!(key.open_visit(addresses[0], &token, now + VISIT_LIFETIME).is_some());
        let late = now + VISIT_LIFETIME + Duration::from_millis(1);
        assert_eq!(key.open_visit(addresses[0], &token, late), None);
        assert_eq!(key.open_visit(addresses[1], &token, now), None);
        assert_eq!(key.open_visit(addresses[2], &token, now), None);
        // Neither kind is good for the other.
        let (own, client) = (Id::new(&[1; 8]).unwrap(), (addresses[0], 4000).into());
        let retry = key.seal((client, Version::V1), &own, &own, now);
        assert!(TokenKey::is_of_retry(&retry) && !TokenKey::is_of_retry(&token));
        assert_eq!(key.open_visit(addresses[0], &retry, now), None);
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert_eq!(key.open_visit(addresses[0], &changed, now), None);
            assert_eq!(key.open_visit(addresses[0], &token[..at], now), None);
        }
    }
}
