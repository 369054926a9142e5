//! What can go wrong, by whose fault it is.

use crate::limits::SHOWN_CHARS_MAX;
use freshet_origin::OriginError;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Kinds of failures, as metrics count them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum FailureKind {
    /// The authority could not be reached, or did not answer in time.
    Network,
    /// It answered with a 5xx status.
    Server,
    /// It wants to be asked later.
    RateLimited,
    /// It refused.
    Refused,
    /// It could not see what proves the name.
    Challenge,
    /// Its answer is not what RFC 8555 says.
    Malformed,
    /// What it gave is not a certificate for this name and key that holds now.
    Certificate,
    /// The state directory.
    Storage,
    /// What the operator gave.
    Config,
}

impl FailureKind {
    /// All, in the order of metrics.
    pub const ALL: [Self; 9] = [
        Self::Network,
        Self::Server,
        Self::RateLimited,
        Self::Refused,
        Self::Challenge,
        Self::Malformed,
        Self::Certificate,
        Self::Storage,
        Self::Config,
    ];

    /// Its word in metrics and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Server => "server",
            Self::RateLimited => "rate_limited",
            Self::Refused => "refused",
            Self::Challenge => "challenge",
            Self::Malformed => "malformed",
            Self::Certificate => "certificate",
            Self::Storage => "storage",
            Self::Config => "config",
        }
    }

    /// What an operator may do about it.
    pub fn cure(self) -> &'static str {
        match self {
            Self::Network => "is acme.directory reachable from here, and acme.ca its authority?",
            Self::Server => "the authority has trouble; it is asked again by itself",
            Self::RateLimited => "the authority's limits are met; it is asked again when it says",
            Self::Refused => {
                "see what the authority says; acme.contact and acme.eab_* must suit it"
            }
            Self::Challenge => {
                "the name must lead here: its DNS, and port 80 for HTTP or port 443 for TLS from \
                 the internet"
            }
            Self::Malformed => "is acme.directory the URL of an ACME directory?",
            Self::Certificate => "the authority gave something else than was ordered",
            Self::Storage => "let the node's user write acme.state",
            Self::Config => "correct the configuration and reload",
        }
    }
}

/// Why something failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcmeError {
    /// Whose fault it is.
    pub kind: FailureKind,
    /// What happened, in words.
    pub message: String,
    /// When the authority wants to be asked again at the earliest.
    pub retry_after: Option<Duration>,
    /// The type of the authority's problem document behind `urn:ietf:params:acme:error:`, such as
    /// `badNonce`; empty where there is none.
    pub problem: String,
}

impl AcmeError {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, problem: String::new() }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Malformed, message)
    }

    pub(crate) fn storage(path: &Path, error: &io::Error) -> Self {
        Self::new(FailureKind::Storage, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for AcmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AcmeError {}

impl From<OriginError> for AcmeError {
    fn from(error: OriginError) -> Self {
        // Its words are of origins, which an authority is here.
        let why = error.to_string().replace("the origin", "the authority");
        Self::new(FailureKind::Network, shown(&format!("the authority cannot be asked: {why}")))
    }
}

/// An authority's words as they may be logged: short, and without signs that move a terminal.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SHOWN_CHARS_MAX).map(plain).collect()
}
