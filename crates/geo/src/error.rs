//! What can be wrong with a database.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a database cannot be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum GeoError {
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    ConfigFile {
        /// Which.
        path: PathBuf,
        /// The system's word for it.
        kind: io::ErrorKind,
        /// The same in words.
        why: String,
    },
    /// It is no database, or a broken one.
    #[error("{} is no MaxMind database, or a broken one: {why}", path.display())]
    ConfigContent {
        /// Which.
        path: PathBuf,
        /// What its reader says.
        why: String,
    },
    /// It took the place of one that told more.
    #[error("{}, a `{kind}`, has no `{lacks}` of anybody, which the one before has", path.display())]
    ConfigKind {
        /// Which.
        path: PathBuf,
        /// What its maker calls it.
        kind: String,
        /// What is not there any more.
        lacks: String,
    },
    /// There are too many.
    #[error("{} is one database more than the {files_max} a node may have", path.display())]
    ConfigCount {
        /// The one too many.
        path: PathBuf,
        /// How many there may be.
        files_max: usize,
    },
}

impl GeoError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::ConfigFile { kind: io::ErrorKind::NotFound, .. } => {
                "give the path of a file that is there; `geoipupdate` fetches them"
            }
            Self::ConfigFile { kind: io::ErrorKind::PermissionDenied, .. } => {
                "let the node's user read it"
            }
            Self::ConfigFile { .. } => "give the path of a .mmdb file",
            Self::ConfigContent { .. } => {
                "give a whole .mmdb file, unpacked; `geoipupdate` fetches them"
            }
            Self::ConfigKind { .. } => {
                "put a database of the same kind there; a restart takes whatever is there"
            }
            Self::ConfigCount { .. } => "use one file for the same question everywhere",
        }
    }

    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::ConfigFile { path: path.into(), kind: error.kind(), why: error.to_string() }
    }
}
