//! Unpacks an archive (ZIP, PKWARE APPNOTE 6.3.9) into a folder of its own.

use crate::PackageError;
use crate::limits::{BYTES_MAX, ENTRIES_MAX, RATIO_FREE_BYTES, RATIO_MAX};
use crate::manifest::Digests;
use crate::name;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use zip::ZipArchive;
use zip::read::ZipFile;

/// The record at the end of an archive: its signature, and its length without a comment.
const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: i64 = 22;
/// Where in it the number of entries is.
const COUNT_AT: usize = 10;
/// The kind of a file in its Unix mode, and of one that is nothing else.
const KIND_MASK: u32 = 0o170_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_FOLDER: u32 = 0o040_000;

/// A file that was unpacked.
#[derive(Debug)]
pub(crate) struct File {
    /// Its name in the archive.
    pub(crate) name: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// What it hashes to.
    pub(crate) digests: Digests,
}

/// Unpacks all of it. What is there when this fails is for the caller to remove.
pub(crate) fn extract(archive: &Path, folder: &Path) -> Result<Vec<File>, PackageError> {
    let mut file = fs::File::open(archive).map_err(|error| PackageError::local(archive, error))?;
    let count = entries(&mut file)?;
    let mut archive = ZipArchive::new(file).map_err(|error| wrong(&error.to_string()))?;
    // A name that is there twice counts once, and would be two things to two readers.
    if archive.len() != count {
        return Err(wrong("has a name twice"));
    }
    let mut files = Vec::new();
    // By the names that others have: files, and folders that have something.
    let (mut names, mut files_by_name, mut parents) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut left = BYTES_MAX;
    for index in 0..count {
        let mut entry = archive.by_index(index).map_err(|error| wrong(&error.to_string()))?;
        let name = check(&entry)?;
        // Also on file systems that do not tell small from capital letters.
        let plain = name.trim_end_matches('/').to_lowercase();
        let is_below_file =
            plain.match_indices('/').any(|(at, _)| files_by_name.contains(&plain[..at]));
        let is_above_another = !entry.is_dir() && parents.contains(&plain);
        if is_below_file || is_above_another || !names.insert(plain.clone()) {
            return Err(PackageError::client(name, "is there twice, or is below a file"));
        }
        parents.extend(plain.match_indices('/').map(|(at, _)| plain[..at].to_owned()));
        let path = folder.join(&name);
        let local = |error| PackageError::local(&path, error);
        if entry.is_dir() {
            fs::create_dir_all(&path).map_err(local)?;
            continue;
        }
        files_by_name.insert(plain);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(local)?;
        }
        let (bytes, digests) = copy(&mut entry, &path, &name, left)?;
        left -= bytes;
        files.push(File { name, bytes, digests });
    }
    Ok(files)
}

fn wrong(what: &str) -> PackageError {
    PackageError::client("the archive", what)
}

/// How many entries the archive says it has.
fn entries(file: &mut fs::File) -> Result<usize, PackageError> {
    let mut end = [0; END_BYTES as usize];
    let mut read = || {
        file.seek(SeekFrom::End(-END_BYTES))?;
        file.read_exact(&mut end)?;
        file.rewind()
    };
    let is_read: io::Result<()> = read();
    if is_read.is_err() || !end.starts_with(&END_SIGNATURE) {
        return Err(wrong("is no ZIP, or has something after its end"));
    }
    let count = usize::from(u16::from_le_bytes([end[COUNT_AT], end[COUNT_AT + 1]]));
    if count > ENTRIES_MAX {
        return Err(wrong(&format!("has {count} entries; {ENTRIES_MAX} are the most")));
    }
    Ok(count)
}

/// The name of an entry that is a plain file or folder.
fn check(entry: &ZipFile<'_, fs::File>) -> Result<String, PackageError> {
    let name = std::str::from_utf8(entry.name_raw())
        .map_err(|_| wrong("has a name that is not UTF-8"))?
        .to_owned();
    let refuse = |what: &str| Err(PackageError::client(name.clone(), what));
    if let Some(mistake) = name::mistake(&name) {
        return refuse(mistake);
    }
    if entry.encrypted() {
        return refuse("is encrypted");
    }
    let kind = entry.unix_mode().map_or(0, |mode| mode & KIND_MASK);
    let wanted = if name.ends_with('/') { KIND_FOLDER } else { KIND_FILE };
    if kind != 0 && kind != wanted {
        return refuse("is neither a file nor a folder");
    }
    let (packed, plain) = (entry.compressed_size(), entry.size());
    if plain > RATIO_FREE_BYTES && plain / RATIO_MAX > packed {
        return refuse("is packed too well");
    }
    Ok(name)
}

/// Writes an entry to a file that must not be there, and no more than it said it is and is left.
fn copy(
    entry: &mut ZipFile<'_, fs::File>,
    path: &Path,
    name: &str,
    left: u64,
) -> Result<(u64, Digests), PackageError> {
    let local = |error| PackageError::local(path, error);
    let said = entry.size();
    if said > left {
        return Err(wrong(&format!("is more than {BYTES_MAX} bytes when it is unpacked")));
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(local)?;
    let mut digests = Digests::new();
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let read = entry
            .read(&mut buffer)
            .map_err(|error| PackageError::client(name, format!("cannot be unpacked: {error}")))?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if bytes > said {
            return Err(PackageError::client(name, "is longer than it says"));
        }
        digests.update(&buffer[..read]);
        file.write_all(&buffer[..read]).map_err(local)?;
    }
    if bytes != said {
        return Err(PackageError::client(name, "is shorter than it says"));
    }
    file.sync_all().map_err(local)?;
    Ok((bytes, digests.finish()))
}
