//! One layer of an image: a tar archive that is put over what the layers below left (OCI image
//! specification, "Image Layer Filesystem Changeset").

use super::Room;
use super::packed::Filled;
use crate::PackageError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Take};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

/// Names that say what is gone begin so; this one says that of all of a folder.
const GONE: &[u8] = b".wh.";
const ALL_GONE: &[u8] = b".wh..wh..opq";
/// What headers and padding of an archive may take beside its files, in bytes for each entry.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Puts a layer over a file tree.
pub(super) fn apply(layer: impl Read, rootfs: &Path, room: &mut Room) -> Result<(), PackageError> {
    let mut own = BTreeSet::new();
    each(layer, room, |path, entry| {
        let target = parent_within(rootfs, path)?;
        let name = path.file_name().unwrap_or_default().as_bytes();
        let folder = target.parent().unwrap_or(rootfs);
        if name == ALL_GONE {
            return hide_all(folder, &own);
        }
        if let Some(gone) = name.strip_prefix(GONE) {
            // A folder of these names is itself, or the one above, which may be beside the image.
            if matches!(gone, b"" | b"." | b"..") {
                let what = "says that nothing is gone";
                return Err(PackageError::client(path.display().to_string(), what));
            }
            return hide(&folder.join(OsStr::from_bytes(gone)), &own);
        }
        if !matches!(
            entry.header().entry_type(),
            EntryType::Regular
                | EntryType::Continuous
                | EntryType::Directory
                | EntryType::Symlink
                | EntryType::Link
        ) {
            let what = "is neither a file, a folder nor a link";
            return Err(PackageError::client(path.display().to_string(), what));
        }
        // A folder that takes a link's place must not become what the link leads to.
        let is_folder = entry.header().entry_type() == EntryType::Directory;
        if let Ok(there) = fs::symlink_metadata(&target)
            && there.is_dir() != is_folder
        {
            remove(&target)?;
        }
        let unpacked = entry.unpack_in(rootfs).map_err(|error| {
            PackageError::client(path.display().to_string(), format!("cannot be unpacked: {error}"))
        })?;
        if !unpacked {
            return Err(PackageError::client(path.display().to_string(), "leads out of the image"));
        }
        own.insert(target);
        Ok(())
    })
}

/// Unpacks an archive of plain files alone, as an image layout is one.
pub(super) fn extract_plain(
    archive: impl Read,
    folder: &Path,
    room: &mut Room,
) -> Result<(), PackageError> {
    let mut strange = None;
    each(archive, room, |path, entry| {
        let wrong = |what: &str| PackageError::client(path.display().to_string(), what);
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {}
            // What it all is, is said first.
            _ => {
                strange.get_or_insert_with(|| wrong("is neither a file nor a folder"));
                return Ok(());
            }
        }
        let unpacked = entry.unpack_in(folder);
        let unpacked = unpacked.map_err(|error| wrong(&format!("cannot be unpacked: {error}")))?;
        if unpacked { Ok(()) } else { Err(wrong("leads out of the image")) }
    })?;
    if !folder.join("index.json").exists() && folder.join("manifest.json").exists() {
        let what = "is as Docker before version 25 saves one; `skopeo copy docker-archive:FILE oci:FOLDER` makes a \
                    layout of it";
        return Err(PackageError::client("the image", what));
    }
    strange.map_or(Ok(()), Err)
}

/// Goes through an archive: each entry with its name in plain parts. The root's own entry is left out.
fn each<R: Read>(
    archive: R,
    room: &mut Room,
    mut what: impl FnMut(&Path, &mut Entry<'_, Take<Filled<R>>>) -> Result<(), PackageError>,
) -> Result<(), PackageError> {
    let wrong = |error: std::io::Error| PackageError::client("a layer", error.to_string());
    let bytes_max = room.bytes + HEAD_BYTES_MAX * room.entries as u64;
    let (archive, real) = Filled::new(archive);
    let mut archive = Archive::new(archive.take(bytes_max));
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_preserve_mtime(true);
    let mut end = 0;
    for entry in archive.entries().map_err(wrong)? {
        let mut entry = entry.map_err(wrong)?;
        end = entry.raw_file_position() + entry.size();
        let name = entry.path().map_err(wrong)?.into_owned();
        let Some(path) = plain(&name) else {
            return Err(PackageError::client(name.display().to_string(), "leads out of the image"));
        };
        let full = || PackageError::client("the image", "is more than fits when it is unpacked");
        room.entries = room.entries.checked_sub(1).ok_or_else(full)?;
        room.bytes = room.bytes.checked_sub(entry.size()).ok_or_else(full)?;
        if path.as_os_str().is_empty() {
            continue;
        }
        what(&path, &mut entry)?;
    }
    if end > real.get() {
        return Err(PackageError::client("a layer", "ends within a file"));
    }
    Ok(())
}

/// A name without what means nothing; none where it leads up.
fn plain(name: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Where an entry goes, when links on the way there do not lead out of the tree.
fn parent_within(rootfs: &Path, path: &Path) -> Result<PathBuf, PackageError> {
    let root = fs::canonicalize(rootfs).map_err(|error| PackageError::local(rootfs, error))?;
    let mut parent = root.clone();
    for part in path.parent().unwrap_or_else(|| Path::new("")).components() {
        let next = parent.join(part);
        match fs::canonicalize(&next) {
            Ok(found) if found.starts_with(&root) => parent = found,
            Ok(_) => {
                let what = "goes through a link that leads out of the image";
                return Err(PackageError::client(path.display().to_string(), what));
            }
            // Folders that no layer names are made.
            Err(_) => {
                fs::create_dir(&next).map_err(|_| {
                    let what = "is below a link that leads nowhere, or below a file";
                    PackageError::client(path.display().to_string(), what)
                })?;
                parent = next;
            }
        }
    }
    Ok(parent.join(path.file_name().unwrap_or_default()))
}

/// Removes what layers below left in a folder.
fn hide_all(folder: &Path, own: &BTreeSet<PathBuf>) -> Result<(), PackageError> {
    let local = |error| PackageError::local(folder, error);
    for child in fs::read_dir(folder).map_err(local)? {
        hide(&child.map_err(local)?.path(), own)?;
    }
    Ok(())
}

/// Removes what layers below left at a place; what this layer has there stays, and the folders it is in.
fn hide(path: &Path, own: &BTreeSet<PathBuf>) -> Result<(), PackageError> {
    // Right behind a folder is the first of what is in it.
    let next = own.range::<Path, _>((Bound::Included(path), Bound::Unbounded)).next();
    if next.is_none_or(|next| !next.starts_with(path)) {
        return remove(path);
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => hide_all(path, own),
        _ => Ok(()),
    }
}

/// Removes whatever is there, and follows no link.
fn remove(path: &Path) -> Result<(), PackageError> {
    let local = |error| PackageError::local(path, error);
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path).map_err(local),
        Ok(_) => fs::remove_file(path).map_err(local),
        Err(_) => Ok(()),
    }
}
