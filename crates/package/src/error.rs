//! Why a package is refused.

use std::io;
use std::path::{Path, PathBuf};

/// Why a package is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// The package is wrong.
    #[error("{place}: {what}")]
    Client {
        /// The file in it, or what else of it.
        place: String,
        /// What is wrong with that.
        what: String,
    },
    /// This machine refused.
    #[error("{}: {error}", path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl PackageError {
    pub(crate) fn client(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Client { place: place.into(), what: what.into() }
    }

    pub(crate) fn local(path: &Path, error: io::Error) -> Self {
        Self::Local { path: path.to_owned(), error }
    }
}
