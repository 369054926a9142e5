//! What an issuer knows of tokens and nodes: a small file for each.

use super::certificate::PublicKey;
use super::{IdentityError, Member, checked};
use freshet_base::clock::UnixMillis;
use freshet_base::private::{make_folder, replace};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a token is remembered when its time is over: who used it may have lost the answer.
const TOKEN_KEPT: Duration = Duration::from_secs(86_400);

/// A token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct TokenRecord {
    /// Whose requests it lets in.
    pub(super) key: PublicKey,
    pub(super) member: Member,
    pub(super) until_ms: u64,
    /// The key of the machine that joined with it. The same may ask again, as its answer may have been lost.
    pub(super) used_by: Option<PublicKey>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct NodeRecord {
    pub(super) member: Member,
    pub(super) key: PublicKey,
    /// When its last certificate ends.
    pub(super) until_ms: u64,
}

/// Files of one kind, by name.
pub(super) struct Records(PathBuf);

impl Records {
    /// Those in the folder `kind` of an issuer's.
    pub(super) fn new(issuer: &Path, kind: &str) -> Self {
        Self(issuer.join(kind))
    }

    fn path(&self, name: &str) -> Result<PathBuf, IdentityError> {
        Ok(self.0.join(format!("{}.json", checked(name)?)))
    }

    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, IdentityError> {
        let path = self.path(name)?;
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IdentityError::file(path)(error)),
        };
        let read = serde_json::from_slice(&bytes);
        read.map(Some)
            .map_err(|error| IdentityError::ConfigContent { path, why: error.to_string() })
    }

    /// When it returns it is on the disk.
    pub(super) fn write(&self, name: &str, record: &impl Serialize) -> Result<(), IdentityError> {
        let path = self.path(name)?;
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        let written = make_folder(&self.0).and_then(|()| replace(&path, &bytes));
        written.map_err(IdentityError::file(path))
    }

    /// Forgets tokens whose time is long over; what cannot be read stays.
    pub(super) fn forget_used_up(&self, now: UnixMillis) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let read = fs::read(entry.path()).ok();
            let record = read.and_then(|bytes| serde_json::from_slice::<TokenRecord>(&bytes).ok());
            if record.is_some_and(|one| now.since(UnixMillis(one.until_ms)) > TOKEN_KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
