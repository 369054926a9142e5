//! The state directory.
//!
//! ```text
//! lock                            held by the process that orders
//! accounts/DIRECTORY/key.der      PKCS #8; DIRECTORY is made of the directory's URL
//! accounts/DIRECTORY/account      the account's URL
//! orders/NAME.json                an order that is under way, or the failures in a row before it
//! certificates/NAME.pem           private key and chain in one file, so that they always fit
//! on-demand/NAME                  empty: a client has asked for the name, and nobody has listed it
//! ```
//!
//! After a crash a file is as it was before it was written, or after. Everything can be read by this user
//! alone.

use crate::error::{AcmeError, shown};
use crate::limits::FILE_BYTES_MAX;
use crate::plan::is_name;
use aws_lc_rs::digest::{SHA256, digest};
use freshet_base::{hexadecimal, private};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An order that is under way, and how it went before.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Journal {
    /// The directory it is at: an order of one authority is nothing to another.
    pub(crate) directory: String,
    /// The key that the certificate will be for, PEM.
    pub(crate) key_pem: String,
    /// Where the order is, once it is made.
    pub(crate) order: Option<String>,
    /// The token of the challenge that the authority was asked to look at.
    pub(crate) token: Option<String>,
    /// Attempts that failed in a row.
    pub(crate) failures: u32,
    /// No attempt before this, milliseconds of Unix time.
    pub(crate) not_before_ms: i64,
    /// What failed last: its kind and words.
    pub(crate) error: Option<(String, String)>,
}

/// The directory, with its folders made.
#[derive(Clone, Debug)]
pub(crate) struct State {
    root: PathBuf,
}

impl State {
    /// Makes the folders that are missing.
    pub(crate) fn open(root: &Path) -> Result<Self, AcmeError> {
        let state = Self { root: root.to_owned() };
        for folder in ["", "accounts", "orders", "certificates", ON_DEMAND] {
            let path = root.join(folder);
            private::make_folder(&path).map_err(|error| AcmeError::storage(&path, &error))?;
        }
        Ok(state)
    }

    /// Takes the lock, if nobody has it; held until the file is dropped.
    pub(crate) fn lock(&self) -> Result<Option<File>, AcmeError> {
        let path = self.root.join("lock");
        let failed = |error: io::Error| AcmeError::storage(&path, &error);
        let options = OpenOptions::new().write(true).create(true).mode(0o600).clone();
        let file = options.open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The key of the account at a directory, where there is one.
    pub(crate) fn account_key(&self, directory: &str) -> Result<Option<Vec<u8>>, AcmeError> {
        read(&self.account_folder(directory).join("key.der"))
    }

    /// Keeps it.
    pub(crate) fn set_account_key(&self, directory: &str, key: &[u8]) -> Result<(), AcmeError> {
        let folder = self.account_folder(directory);
        private::make_folder(&folder).map_err(|error| AcmeError::storage(&folder, &error))?;
        write(&folder.join("key.der"), key)
    }

    /// The URL of the account at a directory, where it is known.
    pub(crate) fn account(&self, directory: &str) -> Result<Option<String>, AcmeError> {
        let bytes = read(&self.account_folder(directory).join("account"))?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Keeps it.
    pub(crate) fn set_account(&self, directory: &str, url: &str) -> Result<(), AcmeError> {
        write(&self.account_folder(directory).join("account"), url.as_bytes())
    }

    /// What is known of the order for a name; one that cannot be read is none.
    pub(crate) fn journal(&self, name: &str) -> Result<Option<Journal>, AcmeError> {
        let Some(bytes) = read(&self.journal_path(name))? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => {
                let error = shown(&error.to_string());
                tracing::warn!(
                    name,
                    error,
                    "the journal of an order cannot be read: it begins anew"
                );
                Ok(None)
            }
        }
    }

    /// Writes it.
    pub(crate) fn set_journal(&self, name: &str, journal: &Journal) -> Result<(), AcmeError> {
        let path = self.journal_path(name);
        let bytes = serde_json::to_vec_pretty(journal);
        let bytes = bytes.map_err(|error| AcmeError::storage(&path, &error.into()))?;
        write(&path, &bytes)
    }

    /// Removes it: the order is done.
    pub(crate) fn end_journal(&self, name: &str) -> Result<(), AcmeError> {
        remove(&self.journal_path(name))
    }

    /// The file of the certificate and key for a name.
    pub(crate) fn certificate_path(&self, name: &str) -> PathBuf {
        self.root.join("certificates").join(format!("{name}.pem"))
    }

    /// What is in that file, where it is there.
    pub(crate) fn certificate(&self, name: &str) -> Result<Option<String>, AcmeError> {
        let bytes = read(&self.certificate_path(name))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Puts key and chain there.
    pub(crate) fn set_certificate(
        &self,
        name: &str,
        key_pem: &str,
        chain_pem: &str,
    ) -> Result<(), AcmeError> {
        let text = format!("{}\n{}", key_pem.trim_end(), chain_pem);
        write(&self.certificate_path(name), text.as_bytes())
    }

    /// Names that clients have asked for.
    pub(crate) fn on_demand(&self) -> Result<Vec<String>, AcmeError> {
        let path = self.root.join(ON_DEMAND);
        let listed = fs::read_dir(&path).map_err(|error| AcmeError::storage(&path, &error))?;
        let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| is_name(name)).collect())
    }

    /// Keeps one, or lets it go.
    pub(crate) fn set_on_demand(&self, name: &str, is_wanted: bool) -> Result<(), AcmeError> {
        let path = self.root.join(ON_DEMAND).join(name);
        if is_wanted { write(&path, b"") } else { remove(&path) }
    }

    /// Lets the certificate for a name go, and its key.
    pub(crate) fn remove_certificate(&self, name: &str) -> Result<(), AcmeError> {
        remove(&self.certificate_path(name))
    }

    fn journal_path(&self, name: &str) -> PathBuf {
        self.root.join("orders").join(format!("{name}.json"))
    }

    fn account_folder(&self, directory: &str) -> PathBuf {
        let hash = digest(&SHA256, directory.as_bytes());
        let hash = hexadecimal::encode(&hash.as_ref()[..8]);
        let host = directory.split("://").nth(1).unwrap_or_default();
        let host: String = host
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || "-.".contains(*c))
            .take(80)
            .collect();
        self.root.join("accounts").join(format!("{host}-{hash}"))
    }
}

/// The folder of names that clients have asked for.
const ON_DEMAND: &str = "on-demand";

fn remove(path: &Path) -> Result<(), AcmeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(AcmeError::storage(path, &error))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, AcmeError> {
    let failed = |error: io::Error| AcmeError::storage(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes"))));
    }
    Ok(Some(bytes))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), AcmeError> {
    private::replace(path, bytes).map_err(|error| AcmeError::storage(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_written_is_read_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&folder.path().join("a/b")).unwrap();
        assert_eq!(state.account_key("https://a/dir").unwrap(), None);
        state.set_account_key("https://a/dir", b"key").unwrap();
        assert_eq!(state.account_key("https://a/dir").unwrap().unwrap(), b"key");
        assert_eq!(state.account_key("https://a/other").unwrap(), None);
        state.set_certificate("a.example", "key", "chain").unwrap();
        let path = state.certificate_path("a.example");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(folder.path().join("a/b")).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn a_name_that_could_not_be_noted_is_no_other_name() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        // Something else has its place.
        fs::create_dir_all(folder.path().join("on-demand/a.example/within")).unwrap();
        assert!(state.set_on_demand("a.example", true).is_err());
        assert_eq!(state.on_demand().unwrap(), ["a.example"]);
    }

    #[test]
    fn one_process_at_a_time_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let held = state.lock().unwrap();
        assert!(held.is_some());
        assert!(state.lock().unwrap().is_none());
        drop(held);
        assert!(state.lock().unwrap().is_some());
    }

    #[test]
    fn a_broken_journal_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let journal = Journal { failures: 3, ..Journal::default() };
        state.set_journal("a.example", &journal).unwrap();
        assert_eq!(state.journal("a.example").unwrap(), Some(journal));
        let path = state.journal_path("a.example");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(state.journal("a.example").unwrap(), None);
        }
        fs::write(&path, vec![b' '; 1 << 20]).unwrap();
        assert!(state.journal("a.example").is_err());
        state.end_journal("a.example").unwrap();
        state.end_journal("a.example").unwrap();
    }
}
