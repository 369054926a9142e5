//! What can go wrong, named by who caused it.

use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why memory could not be had.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// The configured limit is smaller than one frame and its bookkeeping, or larger than page
    /// numbers reach.
    #[error("a memory limit of {bytes} bytes is not between {min} and {max}")]
    ConfigMemoryLimit {
        /// The limit that was asked for.
        bytes: u64,
        /// [`crate::limits::ARENA_BYTES_MIN`].
        min: u64,
        /// [`crate::limits::ARENA_BYTES_MAX`].
        max: u64,
    },
    /// A file that was to be memory cannot be.
    #[error("{path} cannot be used as memory: {why}", path = path.display())]
    ConfigMemoryFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such NUMA node, or this process may not use its memory.
    #[error(
        "memory of NUMA node {node} cannot be had: error {code} (`numactl -H` shows the nodes)"
    )]
    ConfigMemoryNode {
        /// The node.
        node: u32,
        /// The `errno` of `mbind`.
        code: i32,
    },
    /// Another process has the file.
    #[error("{path} cannot be used as memory: another process has it", path = path.display())]
    LocalMemoryTaken {
        /// The file.
        path: PathBuf,
    },
    /// Metadata does not fit beside the bodies, and nothing more could be evicted.
    #[error("no room for {bytes} bytes of metadata")]
    LocalMemoryFull {
        /// What was to be charged.
        bytes: u64,
    },
    /// The kernel refused the address space.
    #[error(
        "cannot reserve {bytes} bytes of address space: {}; give it less memory, or the process more \
         (`ulimit -v`)",
        std::io::Error::from_raw_os_error(*code)
    )]
    LocalReserve {
        /// What was to be reserved.
        bytes: u64,
        /// The `errno` of `mmap`.
        code: i32,
    },
}

/// Why a body ended before its end, or why its writer has to stop. Cloned to every reader.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BodyError {
    /// The writer went away without saying that it had finished.
    #[error("the fill was abandoned")]
    Aborted,
    /// There is no memory and the writer may not switch its body to transit
    /// ([`crate::body::BodyWriter::set_allow_transit`]). The writer can be asked again.
    #[error("no memory is left for the body")]
    NoMemory,
    /// The bytes would be kept for nobody: the last reader of a body in transit or of a purged one
    /// has gone.
    #[error("nobody reads the body any more")]
    NoReaders,
    /// The origin failed; the text says how, for logs.
    #[error("the origin failed: {0}")]
    OriginFailed(Arc<str>),
    /// The origin sent more than it had announced.
    #[error("the origin sent more than the {expected} bytes it announced")]
    OriginTooLong {
        /// Where the body, or the part the writer was to fill, ends.
        expected: u64,
    },
    /// The origin stopped before the announced end.
    #[error("the origin sent {got} of the {expected} bytes it announced")]
    OriginTruncated {
        /// Where the body, or the part the writer was to fill, ends.
        expected: u64,
        /// How far the writer came.
        got: u64,
    },
}

impl BodyError {
    /// Whether fetching the missing bytes again may succeed.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Aborted | Self::NoMemory | Self::OriginFailed(_) => true,
            Self::OriginTruncated { .. } => true,
            Self::NoReaders | Self::OriginTooLong { .. } => false,
        }
    }
}
