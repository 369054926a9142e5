//! Hellos that ask for what is no host name, such as `localhost:8443` or one with a space.
//!
//! OpenSSL and Go take such names, find no certificate for them and answer with the default one, so
//! nginx, HAProxy and Caddy do; rustls refuses the handshake. So rustls is shown the hello with
//! another name of the same length, which no certificate is for. What both sides prove to each other
//! at the end of the handshake is a hash over its messages, and that has to be of the hello as it was
//! sent: the hash functions given to rustls put it back.

use freshet_wire::tls::hello::{HELLO_PREFIX_BYTES, host_name};
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use rustls_pki_types::ServerName;
use std::cell::RefCell;

/// A hello that rustls is shown otherwise than it was sent. Both have the same length.
pub(super) struct Masked {
    sent: Box<[u8]>,
    shown: Box<[u8]>,
}

impl Masked {
    /// Masks the name in `message`, a whole handshake message, where it is a hello with a name that
    /// rustls would refuse.
    pub(super) fn mask(message: &mut [u8]) -> Option<Self> {
        let place = host_name(message)?;
        let last = place.len().saturating_sub(1);
        if ServerName::try_from(&message[place.clone()]).is_ok() {
            return None;
        }
        let sent = message.into();
        for (index, byte) in message[place].iter_mut().enumerate() {
            let ends_label = index % LABEL_BYTES == LABEL_BYTES - 1 && index < last;
            *byte = if ends_label { b'.' } else { b'x' };
        }
        Some(Self { sent, shown: (&*message).into() })
    }
}

/// Bytes of the labels of such a name, with the dot; at most 64 (RFC 1035 §2.3.4).
const LABEL_BYTES: usize = 40;

thread_local! {
    /// The hellos of the handshake that is being computed on this thread.
    static MASKED: RefCell<Vec<Masked>> = const { RefCell::new(Vec::new()) };
}

/// Runs a step of a handshake, whose hashes are of `masked` as they were sent.
pub(super) fn unmasked<T>(masked: &mut Vec<Masked>, step: impl FnOnce() -> T) -> T {
    if masked.is_empty() {
        return step();
    }
    MASKED.with_borrow_mut(|current| std::mem::swap(current, masked));
    let result = step();
    MASKED.with_borrow_mut(|current| std::mem::swap(current, masked));
    result
}

/// The provider with hash functions that know of masked hellos.
pub(super) fn with_unmasking(mut provider: CryptoProvider) -> CryptoProvider {
    for suite in &mut provider.cipher_suites {
        // As long as the program, like those it came with; there are nine.
        *suite = match suite {
            SupportedCipherSuite::Tls13(plain) => {
                SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                    common: common(&plain.common),
                    hkdf_provider: plain.hkdf_provider,
                    aead_alg: plain.aead_alg,
                    quic: plain.quic,
                })))
            }
            SupportedCipherSuite::Tls12(plain) => {
                SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                    common: common(&plain.common),
                    prf_provider: plain.prf_provider,
                    kx: plain.kx,
                    sign: plain.sign,
                    aead_alg: plain.aead_alg,
                })))
            }
        };
    }
    provider
}

fn common(plain: &CipherSuiteCommon) -> CipherSuiteCommon {
    CipherSuiteCommon {
        suite: plain.suite,
        hash_provider: Box::leak(Box::new(Unmasking(plain.hash_provider))),
        confidentiality_limit: plain.confidentiality_limit,
    }
}

/// A hash function that takes a masked hello, or its beginning, for the one that was sent.
struct Unmasking(&'static dyn Hash);

impl Hash for Unmasking {
    fn start(&self) -> Box<dyn Context> {
        Box::new(Hashing(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct Hashing(Box<dyn Context>);

impl Context for Hashing {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        MASKED.with_borrow(|masked| {
            // The 32 random bytes that it begins with are this hello's alone. The beginning is what
            // the binders of a session that is resumed are made over.
            let is_of =
                |one: &&Masked| data.len() > HELLO_PREFIX_BYTES && one.shown.starts_with(data);
            match masked.iter().find(is_of) {
                Some(one) => self.0.update(&one.sent[..data.len()]),
                None => self.0.update(data),
            }
        });
    }
}
