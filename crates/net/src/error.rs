//! What can go wrong in this crate, named by who has to change something.

use crate::address::{Address, PeerAddress};
use crate::proxy;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a socket, a handshake or a file it needs was refused. Reading from and writing to a stream
/// gives [`io::Error`] instead.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum NetError {
    /// The TLS handshake with a client failed.
    #[error("TLS handshake with the client failed: {why}")]
    ClientHandshake {
        /// What was wrong.
        why: String,
    },
    /// A client did not finish its TLS handshake in time.
    #[error("the client did not finish its TLS handshake in time")]
    ClientHandshakeTimeout,
    /// A peer that should send a PROXY protocol header sent something else, or closed.
    #[error("PROXY protocol header: {why}")]
    ClientProxyHeader {
        /// What was wrong.
        why: String,
        /// The same by its name, where it was read whole.
        error: Option<proxy::Error>,
        /// The byte that says version and command, where it is about them.
        version_and_command: Option<u8>,
    },
    /// A peer that is in none of the networks that may speak for others.
    #[error("{peer} is not in a network that may send PROXY protocol headers")]
    ClientProxyUntrusted {
        /// The peer.
        peer: PeerAddress,
    },
    /// A peer that should send a PROXY protocol header did not finish it in time.
    #[error("the PROXY protocol header did not arrive in time")]
    ClientProxyTimeout,
    /// The text is not an address.
    #[error("`{text}` is not an address: {why}")]
    ConfigAddress {
        /// The text.
        text: String,
        /// What was expected.
        why: &'static str,
    },
    /// There is no certificate to serve TLS with.
    #[error("TLS needs at least one certificate")]
    ConfigCertificateMissing,
    /// A certificate, key, authority or staple file cannot be used.
    #[error("{}: {why}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// What was wrong with it.
        why: String,
    },
    /// A private key does not belong to the certificate it was given with.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    ConfigKeyMismatch {
        /// File of the certificate chain.
        certificate: PathBuf,
        /// File of the private key.
        key: PathBuf,
    },
    /// The text is not a network such as `10.0.0.0/8`.
    #[error("`{text}` is not a network: write it as 10.0.0.0/8, 2001:db8::/32 or a single address")]
    ConfigNetwork {
        /// The text.
        text: String,
    },
    /// A name that cannot be put into a TLS handshake.
    #[error("`{name}` is neither a host name nor an IP address")]
    ConfigServerName {
        /// The name.
        name: String,
    },
    /// TLS settings that do not go together.
    #[error("TLS settings: {why}")]
    ConfigTls {
        /// What rustls says.
        why: String,
    },
    /// Accepting failed for a reason that waiting does not cure.
    #[error("accepting on {address}: {why}")]
    LocalAccept {
        /// The listener's address.
        address: Address,
        /// What the kernel said.
        why: String,
    },
    /// A listener could not be made.
    #[error("cannot listen on {address}: {why}")]
    LocalBind {
        /// The address asked for.
        address: Address,
        /// Kind of the kernel's error.
        kind: io::ErrorKind,
        /// What the kernel said.
        why: String,
    },
    /// Listening sockets from the process before this one cannot be used.
    #[error("inherited listeners: {why}")]
    LocalHandover {
        /// What was wrong.
        why: String,
    },
    /// The thread could not be bound to a processor.
    #[error("cannot pin a thread to cpu {cpu}: {why}")]
    LocalPin {
        /// Number of the processor.
        cpu: usize,
        /// What the kernel said.
        why: String,
    },
    /// No connection to an origin.
    #[error("cannot connect to {address}: {why}")]
    OriginConnect {
        /// The address tried.
        address: Address,
        /// Kind of the kernel's error.
        kind: io::ErrorKind,
        /// What the kernel said.
        why: String,
    },
    /// An origin did not answer a connection attempt in time.
    #[error("connecting to {address} took too long")]
    OriginConnectTimeout {
        /// The address tried.
        address: Address,
    },
    /// The origin's certificate was refused.
    #[error("the origin's certificate was refused: {why}")]
    OriginCertificate {
        /// Why.
        why: String,
    },
    /// The TLS handshake with an origin failed for another reason.
    #[error("TLS handshake with the origin failed: {why}")]
    OriginHandshake {
        /// What was wrong.
        why: String,
    },
    /// An origin did not finish its TLS handshake in time.
    #[error("the origin did not finish its TLS handshake in time")]
    OriginHandshakeTimeout,
}

impl NetError {
    pub(crate) fn file(path: &Path, why: impl ToString) -> Self {
        Self::ConfigFile { path: path.into(), why: why.to_string() }
    }

    pub(crate) fn bind(address: &Address, error: &io::Error) -> Self {
        Self::LocalBind { address: address.clone(), kind: error.kind(), why: error.to_string() }
    }

    pub(crate) fn connect(address: &Address, error: &io::Error) -> Self {
        Self::OriginConnect { address: address.clone(), kind: error.kind(), why: error.to_string() }
    }
}
