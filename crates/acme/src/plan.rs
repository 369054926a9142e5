//! What certificates are wanted, and from whom.

use crate::client::check_url;
use crate::error::{AcmeError, FailureKind, shown};
use crate::http::Target;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What certificates are wanted, and from whom.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    /// URL of the authority's directory (RFC 8555 §7.1.1).
    pub directory: String,
    /// PEM file of the authorities that the directory's own certificate is of, instead of the
    /// system's.
    pub ca: Option<PathBuf>,
    /// Where the authority may write to, as `mailto:ops@example.org`.
    pub contact: Vec<String>,
    /// An account elsewhere that this one belongs to (RFC 8555 §7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// Keys of certificates.
    pub key_type: KeyType,
    /// How names are proved, the first that the authority offers.
    pub challenges: Vec<ChallengeKind>,
    /// The names, lower case, each for a certificate of its own.
    pub names: Vec<String>,
    /// Whose certificates are got besides, when a client asks for one.
    pub on_demand: Option<OnDemand>,
    /// Directory of accounts, orders and certificates.
    pub state: PathBuf,
    /// How soon failures are followed by another attempt.
    pub pace: Pace,
}

/// Certificates for names that clients ask for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OnDemand {
    /// URL of a service that answers 2xx where there is to be one for the name in `domain` of its query,
    /// and 4xx where not.
    pub service: String,
    /// Most of them.
    pub names_max: usize,
}

/// An account elsewhere that a new one is to belong to.
#[derive(Clone, Eq, PartialEq)]
pub struct ExternalAccount {
    /// What the authority calls its key.
    pub key_id: String,
    /// That key, for HMAC-SHA256.
    pub hmac_key: Vec<u8>,
}

impl Plan {
    /// What keeps a plan from being followed.
    ///
    /// # Errors
    /// [`FailureKind::Config`], in words.
    pub fn check(&self) -> Result<(), AcmeError> {
        let refuse = |message: String| Err(AcmeError::new(FailureKind::Config, message));
        if let Err(error) = check_url(&self.directory) {
            return refuse(error.message);
        }
        if let Some(wrong) = self.names.iter().find(|name| !is_name(name)) {
            return refuse(format!("`{}` is not a name for a certificate", shown(wrong)));
        }
        if let Some(OnDemand { service, .. }) = &self.on_demand
            && let Err(why) = Target::of(service)
        {
            return refuse(format!("acme.on_demand: `{}` is no URL: {why}", shown(service)));
        }
        Ok(())
    }
}

/// Whether an authority may be asked for a certificate for this name, lower case: a host name of two
/// labels at least that is no address.
pub fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= NAME_BYTES_MAX
        && name.contains('.')
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Longest name: a file is named after it.
const NAME_BYTES_MAX: usize = 240;

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// Keys of certificates.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyType {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA of 2048 bits.
    Rsa2048,
    /// RSA of 4096 bits.
    Rsa4096,
}

impl FromStr for KeyType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "p256" => Self::P256,
            "p384" => Self::P384,
            "rsa2048" => Self::Rsa2048,
            "rsa4096" => Self::Rsa4096,
            _ => return Err(()),
        })
    }
}

/// How a name is proved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChallengeKind {
    /// `http-01` (RFC 8555 §8.3).
    Http,
    /// `tls-alpn-01` (RFC 8737).
    TlsAlpn,
}

impl ChallengeKind {
    /// Its word in ACME.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http-01",
            Self::TlsAlpn => "tls-alpn-01",
        }
    }
}

impl FromStr for ChallengeKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Http, Self::TlsAlpn].into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// How soon failures are followed by another attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// After the first failure of an order; twice as long after each further one.
    pub first: Duration,
    /// After the first failure to reach the authority, which costs it nothing.
    pub first_unreached: Duration,
    /// Longest.
    pub max: Duration,
    /// Between two questions about what is under way, to begin with.
    pub poll: Duration,
    /// From a certificate to its renewal at the least, whatever the authority suggests.
    pub between_renewals: Duration,
}

impl Default for Pace {
    /// Attempts after 0, 2, 6, 14, 30 minutes: five failed validations an hour are what Let's Encrypt
    /// allows. A day at most: what lasts that long is for somebody to look at.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(120),
            first_unreached: Duration::from_secs(10),
            max: Duration::from_secs(86_400),
            poll: Duration::from_secs(1),
            between_renewals: Duration::from_secs(3600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_host_names() {
        for good in ["a.example", "www.xn--bcher-kva.example", "a-1.b.c"] {
            assert!(is_name(good), "{good}");
        }
        let long = format!("{}a.example", "a.".repeat(120));
        for bad in [
            "",
            "localhost",
            "*.a.example",
            "A.example",
            "a..b",
            "../a.b",
            "a.b/",
            "-a.b",
            "192.0.2.1",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
