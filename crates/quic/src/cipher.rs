//! Ciphers of packets that take what they seal from where it lies (RFC 9001 §5.3).
//!
//! The keys that rustls hands out seal in place, so that each byte of a body would be copied in front of
//! the cipher. So its suites get an algorithm of ours ([`with_ciphers`]), and what that made during a step
//! of the handshake is collected: rustls hands it on as a `dyn PacketKey`, which hides what it is.

use super::packet::TAG_BYTES;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm as Aead, CHACHA20_POLY1305, LessSafeKey, Nonce,
    UnboundKey,
};
use rustls::crypto::cipher::{self, AeadKey, Iv};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{CipherSuite, SupportedCipherSuite, Tls13CipherSuite};
use std::cell::RefCell;
use std::sync::Arc;

/// Packets that a key of AES-GCM may seal, and fail to open (RFC 9001 §B.1).
const AES_GCM_LIMITS: (u64, u64) = (1 << 23, 1 << 52);
/// The same of ChaCha20-Poly1305 (RFC 9001 §6.6); no connection has so many packets to seal.
const CHACHA20_LIMITS: (u64, u64) = (u64::MAX, 1 << 36);

/// The key of one direction's packets.
pub(super) struct Cipher {
    key: LessSafeKey,
    iv: Iv,
    limits: (u64, u64),
}

impl Cipher {
    fn nonce(&self, number: u64) -> Nonce {
        Nonce::assume_unique_for_key(cipher::Nonce::new(&self.iv, number).0)
    }

    /// Seals packet `number` with this `head`. Its payload is what `payload` begins with and `tail`,
    /// which is read where it lies; in `payload` there is room for it and the tag. False when the cipher
    /// refuses.
    pub(super) fn seal(&self, number: u64, head: &[u8], payload: &mut [u8], tail: &[u8]) -> bool {
        let Some(front) = payload.len().checked_sub(tail.len() + TAG_BYTES) else { return false };
        let (nonce, head) = (self.nonce(number), Aad::from(head));
        let (front, behind) = payload.split_at_mut(front);
        if tail.is_empty() || *self.key.algorithm() != CHACHA20_POLY1305 {
            return self.key.seal_in_place_scatter(nonce, head, front, tail, behind).is_ok();
        }
        // This one takes what is apart one block at a time, which costs more than a copy.
        let (place, _) = behind.split_at_mut(tail.len());
        place.copy_from_slice(tail);
        let (payload, tag) = payload.split_at_mut(payload.len() - TAG_BYTES);
        self.key.seal_in_place_scatter(nonce, head, payload, &[], tag).is_ok()
    }

    /// Deciphers a payload in place and says how many bytes it has without its tag.
    pub(super) fn open(&self, number: u64, head: &[u8], payload: &mut [u8]) -> Option<usize> {
        let opened = self.key.open_in_place(self.nonce(number), Aad::from(head), payload);
        opened.ok().map(|payload| payload.len())
    }

    /// Packets that it may seal (RFC 9001 §6.6).
    pub(super) fn confidentiality_limit(&self) -> u64 {
        self.limits.0
    }
}

/// A cipher, as rustls knows it.
struct Shared(Arc<Cipher>);

impl PacketKey for Shared {
    fn encrypt_in_place(
        &self,
        number: u64,
        head: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, rustls::Error> {
        let (nonce, head) = (self.0.nonce(number), Aad::from(head));
        let tag = self.0.key.seal_in_place_separate_tag(nonce, head, payload);
        let tag = tag.map_err(|_| rustls::Error::EncryptError)?;
        Ok(Tag::from(tag.as_ref()))
    }

    fn decrypt_in_place<'a>(
        &self,
        number: u64,
        head: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], rustls::Error> {
        let len = self.0.open(number, head, payload).ok_or(rustls::Error::DecryptError)?;
        payload.get(..len).ok_or(rustls::Error::DecryptError)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.limits.1
    }
}

thread_local! {
    /// What was made during the step that is collected on this thread.
    static MADE: RefCell<Option<Vec<Arc<Cipher>>>> = const { RefCell::new(None) };
}

/// Takes a step with rustls, and says which ciphers were made in it, in their order.
pub(super) fn collect<T>(step: impl FnOnce() -> T) -> (T, Vec<Arc<Cipher>>) {
    MADE.set(Some(Vec::new()));
    let result = step();
    (result, MADE.take().unwrap_or_default())
}

/// What a suite's packets are sealed with here.
struct Ours {
    plain: &'static dyn Algorithm,
    aead: &'static Aead,
    limits: (u64, u64),
}

impl Algorithm for Ours {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        // It has the length that was asked for below.
        let Ok(unbound) = UnboundKey::new(self.aead, key.as_ref()) else {
            return self.plain.packet_key(key, iv);
        };
        let cipher = Cipher { key: LessSafeKey::new(unbound), iv, limits: self.limits };
        let cipher = Arc::new(cipher);
        MADE.with_borrow_mut(|made| {
            if let Some(made) = made {
                made.push(Arc::clone(&cipher));
            }
        });
        Box::new(Shared(cipher))
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.plain.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.aead.key_len()
    }

    fn fips(&self) -> bool {
        self.plain.fips()
    }
}

/// How packets are sealed under a suite of TLS 1.3; `None` where it is not for QUIC.
fn algorithm(suite: &Tls13CipherSuite) -> Option<Ours> {
    let (aead, limits) = match suite.common.suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => (&AES_128_GCM, AES_GCM_LIMITS),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => (&AES_256_GCM, AES_GCM_LIMITS),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (&CHACHA20_POLY1305, CHACHA20_LIMITS),
        _ => return None,
    };
    suite.quic.map(|plain| Ours { plain, aead, limits })
}

/// The provider with the ciphers that connections of QUIC need. To be called once: what it makes stays as
/// long as the program, like the suites that it came with.
pub fn with_ciphers(mut provider: CryptoProvider) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        if let SupportedCipherSuite::Tls13(plain) = suite
            && let Some(ours) = algorithm(plain)
        {
            let ours = Tls13CipherSuite {
                common: CipherSuiteCommon {
                    suite: plain.common.suite,
                    hash_provider: plain.common.hash_provider,
                    confidentiality_limit: plain.common.confidentiality_limit,
                },
                hkdf_provider: plain.hkdf_provider,
                aead_alg: plain.aead_alg,
                quic: Some(Box::leak(Box::new(ours))),
            };
            *suite = SupportedCipherSuite::Tls13(Box::leak(Box::new(ours)));
        }
    }
    provider
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::default_provider;

    /// The algorithms of all suites, with a cipher each.
    fn ciphers(key: &[u8; 32], iv: [u8; 12]) -> Vec<(Ours, Cipher)> {
        let suites = default_provider().cipher_suites;
        let ours = suites.iter().filter_map(|suite| algorithm(suite.tls13()?));
        let with_key = |ours: Ours| {
            let unbound = UnboundKey::new(ours.aead, &key[..ours.aead_key_len()]).unwrap();
            let (key, iv) = (LessSafeKey::new(unbound), Iv::from(iv));
            let cipher = Cipher { key, iv, limits: ours.limits };
            (ours, cipher)
        };
        ours.map(with_key).collect()
    }

    #[test]
    fn what_lies_elsewhere_is_sealed_as_if_it_had_been_copied() {
        let all: Vec<u8> = (0..1400).map(|at| (at * 31) as u8).collect();
        let ciphers = ciphers(&[7; 32], [3; 12]);
        assert_eq!(ciphers.len(), 3);
        for (ours, cipher) in ciphers {
            for (front, tail) in
                [(0, 0), (1, 0), (4, 1), (0, 1400), (15, 1385), (21, 256), (300, 1000), (1399, 1)]
            {
                let all = &all[..front + tail];
                let room = vec![0; TAG_BYTES];
                let mut want = [all, &room].concat();
                assert!(cipher.seal(5, b"head", &mut want, &[]));
                if ours.aead_key_len() == 32 {
                    // And as rustls' own key seals it.
                    let plain = ours.plain.packet_key(AeadKey::from([7; 32]), Iv::from([3; 12]));
                    let mut payload = all.to_vec();
                    let tag = plain.encrypt_in_place(5, b"head", &mut payload).unwrap();
                    assert_eq!(want, [&payload, tag.as_ref()].concat());
                    assert_eq!(plain.confidentiality_limit(), cipher.limits.0);
                    assert_eq!(plain.integrity_limit(), cipher.limits.1);
                }
                let mut got = all[..front].to_vec();
                got.resize(front + tail + TAG_BYTES, 0);
                assert!(cipher.seal(5, b"head", &mut got, &all[front..]));
                assert_eq!(got, want, "{front} {tail}");
                assert_eq!(cipher.open(5, b"hood", &mut want), None);
                assert_eq!(cipher.open(5, b"head", &mut got), Some(front + tail));
                assert_eq!(&got[..front + tail], all);
            }
            assert!(!cipher.seal(5, b"head", &mut [0; 20], &[1; 5]), "there is no room for it");
        }
    }

    /// RFC 9001 §A.5 and RFC 9369 §A.5: all of it but the protection of the head.
    #[test]
    fn the_short_packets_of_the_rfcs() {
        let v1 = (
            [
                0xc6, 0xd9, 0x8f, 0xf3, 0x44, 0x1c, 0x3f, 0xe1, 0xb2, 0x18, 0x20, 0x94, 0xf6, 0x9c,
                0xaa, 0x2e, 0xd4, 0xb7, 0x16, 0xb6, 0x54, 0x88, 0x96, 0x0a, 0x7a, 0x98, 0x49, 0x79,
                0xfb, 0x23, 0xe1, 0xc8,
            ],
            [0xe0, 0x45, 0x9b, 0x34, 0x74, 0xbd, 0xd0, 0xe4, 0x4a, 0x41, 0xc1, 0x44],
            [
                0x65, 0x5e, 0x5c, 0xd5, 0x5c, 0x41, 0xf6, 0x90, 0x80, 0x57, 0x5d, 0x79, 0x99, 0xc2,
                0x5a, 0x5b, 0xfb,
            ],
        );
        let v2 = (
            [
                0x3b, 0xfc, 0xdd, 0xd7, 0x2b, 0xcf, 0x02, 0x54, 0x1d, 0x7f, 0xa0, 0xdd, 0x1f, 0x5f,
                0x9e, 0xee, 0xa8, 0x17, 0xe0, 0x9a, 0x69, 0x63, 0xa0, 0xe6, 0xc7, 0xdf, 0x0f, 0x9a,
                0x1b, 0xab, 0x90, 0xf2,
            ],
            [0xa6, 0xb5, 0xbc, 0x6a, 0xb7, 0xda, 0xfc, 0xe3, 0x0f, 0xff, 0xf5, 0xdd],
            [
                0x0a, 0xe7, 0xb6, 0xb9, 0x32, 0xbc, 0x27, 0xd7, 0x86, 0xf4, 0xbc, 0x2b, 0xb2, 0x0f,
                0x21, 0x62, 0xba,
            ],
        );
        for (key, iv, want) in [v1, v2] {
            let ciphers = ciphers(&key, iv);
            let is_it = |ours: &Ours| *ours.aead == CHACHA20_POLY1305;
            let (_, cipher) = ciphers.iter().find(|(ours, _)| is_it(ours)).unwrap();
            for tail in [&[][..], &[1]] {
                let mut payload = [1; 1 + TAG_BYTES];
                assert!(cipher.seal(654_360_564, &[0x42, 0x00, 0xbf, 0xf4], &mut payload, tail));
                assert_eq!(payload, want);
            }
        }
    }
}
