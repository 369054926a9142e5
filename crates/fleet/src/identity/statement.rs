//! What a node says of itself, signed with the key of its identity.
//!
//! ```text
//! freshet report 1 <certificate: DER, base64> <signature: ECDSA P-256, base64>\n
//! <number> <nonce: 16 digits> <nonce> ...\n
//! what is said
//! ```
//!
//! The signature is of the fleet's name and all behind the first line. The certificate comes with each statement, so that
//! one is enough for who knows nothing of the node but whose fleet it is of ([`Verifier`](super::Verifier)), also when the
//! node has a later certificate since. When it was said [`Freshness`](crate::freshness::Freshness) tells.

use super::certificate::{Facts, names};
use super::{Disbelief, IdentityError, node_name};
use crate::freshness::Nonce;
use crate::limits::STATEMENT_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::fmt;

/// What signed statements begin with. What is not signed begins with `{`.
const SIGNED: &str = "freshet report 1 ";

/// What a node signs with, and the certificate that says whose key it is.
pub struct StatementKey {
    certificate: CertificateDer<'static>,
    /// As it is sent.
    text: String,
    key: KeyPair,
}

impl StatementKey {
    /// Of the first certificate of a text, whose key this is; nothing where there is none.
    pub(super) fn new(pem: &str, key: KeyPair) -> Option<Self> {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        let text = STANDARD.encode(&certificate);
        Some(Self { certificate, text, key })
    }

    /// Whether its certificate is that of this node.
    pub fn is_of(&self, fleet: &str, node: &str) -> bool {
        names(&self.certificate).contains(&node_name(fleet, node))
    }

    /// What is said to this fleet, with its number among what the node says and the nonces that it has heard.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(
        &self,
        fleet: &str,
        number: u64,
        nonces: impl Iterator<Item = Nonce>,
        said: &[u8],
    ) -> Result<Vec<u8>, IdentityError> {
        let mut signed = format!("{number}");
        for nonce in nonces {
            signed += &format!(" {nonce}");
        }
        let signed = [signed.as_bytes(), b"\n", said].concat();
        let signature = STANDARD.encode(self.key.sign(&whole(fleet, &signed))?);
        let line = format!("{SIGNED}{} {signature}\n", self.text);
        Ok([line.as_bytes(), &signed].concat())
    }
}

impl PartialEq for StatementKey {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

impl fmt::Debug for StatementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementKey")
            .field("facts", &Facts::of_der(&self.certificate))
            .finish_non_exhaustive()
    }
}

/// A signed statement as it came: nothing of it is believed yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Statement<'a> {
    /// Base64.
    pub(super) certificate: &'a str,
    /// Base64.
    pub(super) signature: &'a str,
    /// What the signature is of, besides the fleet's name.
    pub(super) signed: &'a [u8],
    /// Which one of its node it is.
    pub number: u64,
    nonces: &'a str,
    /// What is said.
    pub said: &'a [u8],
}

impl<'a> Statement<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// It is not signed, or not in this form.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Disbelief> {
        let rest = bytes.strip_prefix(SIGNED.as_bytes()).ok_or(Disbelief::NotSigned)?;
        let read = || {
            let (line, signed) = split(rest)?;
            let (certificate, signature) = line.split_once(' ')?;
            let (line, said) = split(signed)?;
            let (number, nonces) = line.split_once(' ').unwrap_or((line, ""));
            let number = number.parse().ok()?;
            Some(Self { certificate, signature, signed, number, nonces, said })
        };
        let is_short = bytes.len() <= STATEMENT_BYTES_MAX;
        is_short.then(read).flatten().ok_or(Disbelief::Malformed)
    }

    /// The nonces that it names.
    pub fn nonces(&self) -> impl Iterator<Item = Nonce> {
        self.nonces.split(' ').filter_map(|nonce| nonce.parse().ok())
    }
}

/// What is said, signed or not, for who has nothing to verify it with.
pub fn unverified(bytes: &[u8]) -> &[u8] {
    Statement::read(bytes).map_or(bytes, |statement| statement.said)
}

/// What is before the end of the line, and what is behind it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// What the signature is of. Names of fleets have no white space.
pub(super) fn whole(fleet: &str, signed: &[u8]) -> Vec<u8> {
    [b"freshet fleet ", fleet.as_bytes(), b"\nreport\n", signed].concat()
}
