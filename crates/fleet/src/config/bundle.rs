//! What a configuration is made of, as one text.
//!
//! A line of JSON with the names and lengths of the files, in the order of their names, and then the
//! files one after the other: the same files are always the same bytes.

use super::secret::{self, Secret, SecretError};
use crate::limits::{BUNDLE_BYTES_MAX, BUNDLE_DEPTH_MAX, BUNDLE_FILES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};
use thiserror::Error;

/// The file of a bundle that names the others.
pub const CONFIGURATION_FILE: &str = "freshet.toml";
/// The form that this version writes, and the newest it reads.
const FORMAT: u32 = 1;

/// A configuration and all files that go with it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Bundle {
    files: BTreeMap<String, Vec<u8>>,
}

/// What is no bundle.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A file that cannot be read.
    #[error("{0}: {1}")]
    ConfigFile(String, io::Error),
    /// The file that says what is what is not there.
    #[error("there is no {CONFIGURATION_FILE}")]
    ConfigMissing,
    /// More than nodes take.
    #[error("it has more than {BUNDLE_FILES_MAX} files, or more than {} MiB", BUNDLE_BYTES_MAX >> 20)]
    ConfigLarge,
    /// A name that no file of a bundle has.
    #[error("`{0}` is no name of a file in a bundle")]
    ConfigName(String),
    /// Written by a newer version.
    #[error(
        "the bundle is of a newer version of Freshet (form {0}, this one reads {FORMAT}): upgrade the node"
    )]
    PeerNewer(u32),
    /// Not a bundle at all.
    #[error("this is no bundle: {0}")]
    PeerBroken(String),
    /// It cannot be opened.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Deserialize, Serialize)]
struct Header {
    format: u32,
    files: Vec<(String, usize)>,
}

impl Bundle {
    /// What is at `path`: a folder with a [`CONFIGURATION_FILE`], or that file alone. What begins with
    /// a dot is left out.
    ///
    /// # Errors
    /// What cannot be read, and what is too large.
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        let mut out = Self::default();
        if path.is_dir() {
            out.take(path, "", 0)?;
        } else {
            out.insert(CONFIGURATION_FILE.into(), read(path)?)?;
        }
        out.checked()
    }

    fn take(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), BundleError> {
        let failed = |error| BundleError::ConfigFile(folder.display().to_string(), error);
        if depth > BUNDLE_DEPTH_MAX {
            return Err(BundleError::ConfigName(prefix.to_owned()));
        }
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default();
            let shown = || BundleError::ConfigName(path.display().to_string());
            let name = name.to_str().ok_or_else(shown)?;
            if name.starts_with('.') {
                continue;
            }
            let name = format!("{prefix}{name}");
            if path.is_dir() {
                self.take(&path, &format!("{name}/"), depth + 1)?;
            } else {
                self.insert(name, read(&path)?)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, name: String, bytes: Vec<u8>) -> Result<(), BundleError> {
        if !is_name(&name) {
            return Err(BundleError::ConfigName(name));
        }
        self.files.insert(name, bytes);
        let bytes: usize = self.files.values().map(Vec::len).sum();
        if self.files.len() > BUNDLE_FILES_MAX || bytes > BUNDLE_BYTES_MAX {
            return Err(BundleError::ConfigLarge);
        }
        Ok(())
    }

    fn checked(self) -> Result<Self, BundleError> {
        match self.files.contains_key(CONFIGURATION_FILE) {
            true => Ok(self),
            false => Err(BundleError::ConfigMissing),
        }
    }

    /// The files by name, with `/` between the parts of a name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// One of them.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// Its name and the bytes that servers keep.
    pub fn pack(&self, secret: Option<&Secret>) -> (String, Vec<u8>) {
        let files = self.files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
        let header = Header { format: FORMAT, files };
        let mut plain = serde_json::to_vec(&header).expect("names and numbers are JSON");
        plain.push(b'\n');
        self.files.values().for_each(|bytes| plain.extend_from_slice(bytes));
        let name = secret::name_of(&plain, secret);
        let kept = secret::seal(&name, plain, secret);
        (name, kept)
    }

    /// The bundle of this name, from what servers kept.
    ///
    /// # Errors
    /// It is not that bundle, or none that this version can read.
    pub fn unpack(name: &str, kept: Vec<u8>, secret: Option<&Secret>) -> Result<Self, BundleError> {
        let broken = |what: &str| BundleError::PeerBroken(what.to_owned());
        let plain = secret::open(name, kept, secret)?;
        let end = plain.iter().position(|byte| *byte == b'\n');
        let (header, mut rest) = plain.split_at(end.ok_or_else(|| broken("it has no header"))?);
        rest = &rest[1..];
        let not_json = |error: serde_json::Error| BundleError::PeerBroken(error.to_string());
        let Format { format } = serde_json::from_slice(header).map_err(not_json)?;
        if format > FORMAT {
            return Err(BundleError::PeerNewer(format));
        }
        let header: Header = serde_json::from_slice(header).map_err(not_json)?;
        let mut out = Self::default();
        for (name, length) in header.files {
            let split = rest.split_at_checked(length);
            let (bytes, after) = split.ok_or_else(|| broken("it is cut short"))?;
            out.insert(name, bytes.to_vec())?;
            rest = after;
        }
        if !rest.is_empty() {
            return Err(broken("it is longer than its header says"));
        }
        out.checked()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BundleError> {
    let failed = |error| BundleError::ConfigFile(path.display().to_string(), error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > BUNDLE_BYTES_MAX as u64 {
        return Err(BundleError::ConfigLarge);
    }
    fs::read(path).map_err(failed)
}

/// Whether this names a file below the bundle's folder, and in one way only.
fn is_name(name: &str) -> bool {
    let parts = Path::new(name).components();
    let parts: Vec<_> = parts.filter(|part| matches!(part, Component::Normal(_))).collect();
    let again = parts.iter().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>();
    !name.is_empty() && !name.contains('\0') && again.join("/") == name
}
