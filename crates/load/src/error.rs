//! What can go wrong in the laboratory itself; what goes wrong for a viewer is a figure instead.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use thiserror::Error;

/// Why an origin or a group of viewers did not start.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LabError {
    /// A setting is outside its bounds.
    #[error("{setting} is {got}; it must be {expected}")]
    ConfigSetting {
        /// The name of the field.
        setting: &'static str,
        /// What it was set to.
        got: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A path template cannot be read.
    #[error("the path `{path}` cannot be used: {why}")]
    ConfigTemplate {
        /// The template.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The URL of a server cannot be used.
    #[error("`{url}` is no server to measure: {why}")]
    ConfigTarget {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server is out in the world.
    #[error(
        "{url} is at {ip}, which is neither this machine nor a private network. A load is an attack \
         where it is not welcome: say --i-own-this-target if the server is yours"
    )]
    ConfigForeignTarget {
        /// What was given.
        url: String,
        /// Where that is.
        ip: IpAddr,
    },
    /// A file cannot be used.
    #[error("{}: {why}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server does not answer.
    #[error("{url} does not answer: {why}")]
    TargetSilent {
        /// The server.
        url: String,
        /// What happened, and what may help.
        why: String,
    },
    /// TLS cannot be set up on this side.
    #[error("TLS cannot be set up: {0}")]
    LocalTls(String),
    /// The system allows too few descriptors.
    #[error(
        "{wanted} connections need more descriptors than the {allowed} allowed here; raise the limit \
         (ulimit -n) or ask for fewer"
    )]
    LocalDescriptors {
        /// Connections asked for.
        wanted: usize,
        /// Descriptors allowed.
        allowed: u64,
    },
    /// A program or a file of this machine cannot be used.
    #[error("{what}: {why}")]
    LocalSystem {
        /// What was tried.
        what: String,
        /// What the system said, and what may help.
        why: String,
    },
    /// The address to serve on cannot be had.
    #[error("cannot listen on {address}: {kind}")]
    LocalBind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// A thread or its runtime cannot be had.
    #[error("cannot start a thread of the laboratory: {0}")]
    LocalThread(io::ErrorKind),
}

/// Refuses a setting that is not `fine`.
///
/// # Errors
/// [`LabError::ConfigSetting`], with what it was set to and what it may be.
pub fn require(
    fine: bool,
    setting: &'static str,
    got: impl ToString,
    expected: &'static str,
) -> Result<(), LabError> {
    if fine {
        return Ok(());
    }
    Err(LabError::ConfigSetting { setting, got: got.to_string(), expected })
}
