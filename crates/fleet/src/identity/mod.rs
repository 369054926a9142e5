//! Who belongs to a fleet: machines that show a certificate of the fleet's own issuing key.
//!
//! ```text
//!  operator ──makes──→ Token ──carried by people──→ new machine
//!  new machine ──Request, signed by the token's key and its own──→ Issuer ──certificate──→ new machine
//!  node        ──Request, signed by its own key──────────────────→ Issuer ──a later one──→ node
//! ```
//!
//! A machine makes its own key, which never leaves it. A [`Token`] lets one machine in, once, for some time: it has a
//! certificate and key of its own, good for nothing but asking, and the issuing key's certificate, so that the new
//! machine knows whom it asks. Requests and answers are signed, so whoever has the servers between can read them, and
//! change none.
//!
//! What a node says of itself is a [`Statement`], signed with its key; [`Verifier`] is the side of who hears it.
//!
//! [`Issuer`] is the side that has the issuing key, in a folder of one machine that also says which tokens were used.
//! [`Identity`] is a machine's folder. [`Removed`] are those that belong to the fleet no more.

mod certificate;
mod folder;
mod issuer;
mod message;
mod record;
mod removed;
mod sealed;
mod servers;
mod statement;
mod token;
mod verifier;

pub use certificate::{Facts, PublicKey};
pub use folder::{Identity, Joining, Member};
pub use issuer::Issuer;
pub use message::{Answer, Given};
pub use removed::Removed;
pub use statement::{Statement, StatementKey, unverified};
pub use token::Token;
pub use verifier::{Disbelief, Verifier};

use crate::signature::SignatureError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What somebody with a certificate of the fleet may do, told to the servers by a name in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// Says what all nodes do, and answers for the issuing key.
    Operator,
    /// Follows the log.
    Node,
    /// Asks for a certificate.
    Joining,
}

impl Role {
    /// Its name in certificates of a fleet, which servers map to what it may.
    pub fn name(self, fleet: &str) -> String {
        let all = match self {
            Self::Operator => "operators",
            Self::Node => "nodes",
            Self::Joining => "joining",
        };
        format!("{all}.{fleet}.internal")
    }
}

/// The name by which a node's certificate proves which one it is.
pub fn node_name(fleet: &str, node: &str) -> String {
    format!("{node}.{}", Role::Node.name(fleet))
}

/// What is wrong with a token, a folder or a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A file.
    #[error("{}: {error}", path.display())]
    ConfigFile {
        /// Which.
        path: PathBuf,
        /// What.
        error: io::Error,
    },
    /// A file says something else than it should.
    #[error("{}: {why}", path.display())]
    ConfigContent {
        /// Which.
        path: PathBuf,
        /// What.
        why: String,
    },
    /// A name that certificates of a fleet cannot have.
    #[error("`{0}` is no name of a fleet, node or label: 1 to 63 letters, digits, `-` and `_`")]
    ConfigName(String),
    /// A server's address.
    #[error("`{0}` is no server to show a certificate to: write it as tls://nats-1.example:4222")]
    ConfigServer(String),
    /// Some other text.
    #[error("this is no token, as `freshet fleet token` prints it: {0}")]
    ConfigToken(String),
    /// The token does not hold now.
    #[error("{0}")]
    TokenTime(String),
    /// A key or certificate could not be made.
    #[error("a key or certificate could not be made: {0}")]
    LocalKey(String),
    /// The issuer says no.
    #[error("the fleet's issuer refuses: {0}")]
    Refused(String),
    /// What came is no answer of the issuer.
    #[error("what came is no answer of the fleet's issuer: {0}")]
    PeerAnswer(String),
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] SignatureError),
}

impl IdentityError {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::ConfigFile { path, error }
    }
}

impl From<rcgen::Error> for IdentityError {
    fn from(error: rcgen::Error) -> Self {
        Self::LocalKey(error.to_string())
    }
}

/// The name, if certificates can have it: a part of a DNS name (RFC 1035 §2.3.4).
fn checked(name: &str) -> Result<&str, IdentityError> {
    let is_name = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_name { Ok(name) } else { Err(IdentityError::ConfigName(name.to_owned())) }
}
