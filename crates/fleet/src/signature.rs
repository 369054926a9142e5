//! Who said it: what is sent over the servers of a fleet, signed by its operators.
//!
//! ```text
//! freshet signed 1 <who: 64 digits> <signature: 128 digits>\n
//! what is said
//! ```
//!
//! The signature (Ed25519, RFC 8032) is also of the fleet's name and of what it is said as, so that nothing
//! said in one place holds in another. Nodes that are given [`Signers`] believe nothing else; others read what
//! is signed as what is not.

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use freshet_base::hexadecimal;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
/// What signed bytes begin with. What is not signed begins with `{`.
const SIGNED: &[u8] = b"freshet signed 1 ";

/// Bytes that a signature adds: those of the first line, its end included.
pub const SIGNED_BYTES: usize = SIGNED.len() + 2 * KEY_BYTES + 1 + 2 * SIGNATURE_BYTES + 1;

/// As what something is said: the same words mean nothing elsewhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Saying<'a> {
    /// An entry of the log.
    Entry,
    /// What a group of nodes runs.
    Release {
        /// The group.
        group: &'a str,
    },
    /// The word to hand over.
    Upgrade {
        /// The node it is given to.
        node: &'a str,
    },
    /// What a host is to run.
    Orders {
        /// The host.
        host: &'a str,
    },
}

/// Who is known by this: an operator's public key, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Signer([u8; KEY_BYTES]);

/// An operator's private key.
#[derive(Clone)]
pub struct SigningKey {
    seed: [u8; KEY_BYTES],
    pair: Arc<Ed25519KeyPair>,
}

/// Who is believed; nobody in particular where there are none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Signers(Vec<Signer>);

/// Why nothing is believed, or a key is none.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SignatureError {
    /// Some other text.
    #[error(
        "an operator's key is {} hexadecimal digits, as `freshet fleet key` makes it",
        2 * KEY_BYTES
    )]
    ConfigKey,
    /// Some other text.
    #[error(
        "`{0}` is no public key: {digits} hexadecimal digits, as `freshet fleet key` prints them",
        digits = 2 * KEY_BYTES
    )]
    ConfigSigner(String),
    /// Only what is signed is believed.
    #[error("it is not signed, and only what `fleet.signers` have signed is believed")]
    PeerUnsigned,
    /// By somebody else.
    #[error("it is signed by {0}, who is none of `fleet.signers`")]
    PeerStranger(Signer),
    /// The signature is not of this.
    #[error("its signature by {0} is not of this")]
    PeerForged(Signer),
    /// The system gives no random bytes.
    #[error("there are no random bytes to be had")]
    LocalRandom,
}

impl SigningKey {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, SignatureError> {
        let mut seed = [0; KEY_BYTES];
        rand::fill(&mut seed).map_err(|_| SignatureError::LocalRandom)?;
        Self::of(seed)
    }

    /// From the text of its file.
    ///
    /// # Errors
    /// It is not that.
    pub fn parse(text: &str) -> Result<Self, SignatureError> {
        Self::of(hexadecimal::decode(text.trim()).ok_or(SignatureError::ConfigKey)?)
    }

    fn of(seed: [u8; KEY_BYTES]) -> Result<Self, SignatureError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        let pair = Arc::new(pair.map_err(|_| SignatureError::ConfigKey)?);
        Ok(Self { seed, pair })
    }

    /// The text of its file, without the end of the line.
    pub fn text(&self) -> String {
        hexadecimal::encode(&self.seed)
    }

    /// Who it is.
    pub fn signer(&self) -> Signer {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        Signer(bytes)
    }

    /// What is said to this fleet, signed.
    pub fn sign(&self, fleet: &str, saying: Saying<'_>, said: &[u8]) -> Vec<u8> {
        let signature = self.pair.sign(&whole(fleet, saying, said));
        let line = format!("{} {}\n", self.signer(), hexadecimal::encode(signature.as_ref()));
        [SIGNED, line.as_bytes(), said].concat()
    }
}

impl Signers {
    /// These.
    pub fn new(signers: impl IntoIterator<Item = Signer>) -> Self {
        Self(signers.into_iter().collect())
    }

    /// Whether only they are believed.
    pub fn are_asked_for(&self) -> bool {
        !self.0.is_empty()
    }

    /// What is said, where it is believed.
    ///
    /// # Errors
    /// Why it is not.
    pub fn believe<'a>(
        &self,
        fleet: &str,
        saying: Saying<'_>,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], SignatureError> {
        let (said, signed) = parts(bytes);
        if !self.are_asked_for() {
            return Ok(said);
        }
        let (signer, signature) = signed.ok_or(SignatureError::PeerUnsigned)?;
        if !self.0.contains(&signer) {
            return Err(SignatureError::PeerStranger(signer));
        }
        UnparsedPublicKey::new(&ED25519, signer.0)
            .verify(&whole(fleet, saying, said), &signature)
            .map_err(|_| SignatureError::PeerForged(signer))?;
        Ok(said)
    }
}

/// What is said, and who has signed it with what.
fn parts(bytes: &[u8]) -> (&[u8], Option<(Signer, [u8; SIGNATURE_BYTES])>) {
    let read = || {
        let (line, said) = bytes.split_at_checked(SIGNED_BYTES)?;
        let line = line.strip_prefix(SIGNED)?.strip_suffix(b"\n")?;
        let (signer, signature) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        Some((said, (Signer(hexadecimal::decode(signer)?), hexadecimal::decode(signature)?)))
    };
    read().map_or((bytes, None), |(said, signed)| (said, Some(signed)))
}

/// What the signature is of. Names of fleets, groups and nodes have no white space.
fn whole(fleet: &str, saying: Saying<'_>, said: &[u8]) -> Vec<u8> {
    let place = match saying {
        Saying::Entry => "entry".to_owned(),
        Saying::Release { group } => format!("release {group}"),
        Saying::Upgrade { node } => format!("upgrade {node}"),
        Saying::Orders { host } => format!("orders {host}"),
    };
    [b"freshet fleet ", fleet.as_bytes(), b"\n", place.as_bytes(), b"\n", said].concat()
}

impl From<[u8; KEY_BYTES]> for Signer {
    fn from(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Signer {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let bytes = hexadecimal::decode(text.trim());
        bytes.map(Self).ok_or_else(|| SignatureError::ConfigSigner(text.to_owned()))
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal::encode(&self.0))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {}", self.signer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 8032, 7.1, test 1.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn key() -> SigningKey {
        SigningKey::parse(SEED).expect("it is one")
    }

    #[test]
    fn a_key_is_the_one_of_its_text() {
        assert_eq!(key().signer().to_string(), PUBLIC);
        assert_eq!(PUBLIC.parse(), Ok(key().signer()));
        assert_eq!(key().text(), SEED);
        assert_ne!(SigningKey::random().map(|key| key.text()), Ok(SEED.to_owned()));
        assert_eq!(SigningKey::parse("abc").map(|_| ()), Err(SignatureError::ConfigKey));
        assert!("abc".parse::<Signer>().is_err());
        assert!(!format!("{:?}", key()).contains(SEED));
    }

    #[test]
    fn what_is_said_holds_where_it_was_said_and_only_there() {
        let signers = Signers::new([key().signer()]);
        let signed = key().sign("tv", Saying::Entry, b"{}");
        assert_eq!(signed.len(), SIGNED_BYTES + 2);
        assert_eq!(signers.believe("tv", Saying::Entry, &signed), Ok(&b"{}"[..]));
        let forged = Err(SignatureError::PeerForged(key().signer()));
        assert_eq!(signers.believe("radio", Saying::Entry, &signed), forged);
        let group = Saying::Release { group: "edges" };
        assert_eq!(signers.believe("tv", group, &signed), forged);
        let signed = key().sign("tv", group, b"{}");
        assert_eq!(signers.believe("tv", group, &signed), Ok(&b"{}"[..]));
        assert_eq!(signers.believe("tv", Saying::Release { group: "parents" }, &signed), forged);
        let one = key().sign("tv", Saying::Upgrade { node: "a" }, b"{}");
        assert_eq!(signers.believe("tv", Saying::Upgrade { node: "b" }, &one), forged);
    }

    #[test]
    fn strangers_and_the_unsigned_are_not_believed() {
        let signers = Signers::new([key().signer()]);
        let other = SigningKey::random().expect("there are random bytes");
        let signed = other.sign("tv", Saying::Entry, b"{}");
        let stranger = Err(SignatureError::PeerStranger(other.signer()));
        assert_eq!(signers.believe("tv", Saying::Entry, &signed), stranger);
        assert_eq!(signers.believe("tv", Saying::Entry, b"{}"), Err(SignatureError::PeerUnsigned));
        // Both are read where nobody in particular is believed.
        for bytes in [&signed[..], b"{}"] {
            assert_eq!(Signers::default().believe("tv", Saying::Entry, bytes), Ok(&b"{}"[..]));
        }
    }

    proptest! {
        #[test]
        fn one_changed_bit_is_enough(said in prop::collection::vec(any::<u8>(), 0..80), at: prop::sample::Index, bit in 0..8) {
            let signers = Signers::new([key().signer()]);
            let mut signed = key().sign("tv", Saying::Entry, &said);
            let at = at.index(signed.len());
            // Digits of either case are the same digits.
            signed[at] ^= 1u8 << bit;
            let believed = signers.believe("tv", Saying::Entry, &signed);
            let is_digit = (SIGNED.len()..SIGNED_BYTES).contains(&at) && bit == 5;
            prop_assert!(is_digit || believed.is_err());
        }

        #[test]
        fn nothing_that_is_sent_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let signers = Signers::new([key().signer()]);
            prop_assert!(signers.believe("tv", Saying::Entry, &bytes).is_err());
        }
    }
}
