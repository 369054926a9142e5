//! What can go wrong in the laboratory itself; what goes wrong for a viewer is a figure instead.

use std::io;
use std::net::SocketAddr;
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
pub(crate) fn require(
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
