//! What can go wrong with the admin interface as a whole; wrong requests are
//! [`crate::problem::Problem`]s.

use freshet_net::NetError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the interface could not start, or a token file not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Its address cannot be listened on.
    #[error("admin.listen: {0}")]
    ConfigListen(#[from] NetError),
    /// A token file is not what it should be.
    #[error("{}: {why}", path.display())]
    ConfigTokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// A token file could not be read or written.
    #[error("{}: {error}", path.display())]
    LocalTokenFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Its thread or runtime could not be made.
    #[error("the admin interface could not be started: {0}")]
    LocalThread(io::Error),
}
