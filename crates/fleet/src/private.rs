//! Files and folders for this user alone: they may be keys.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A folder, with those it is in.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A file that is on the disk when this returns.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file in the place of another, so that after a crash the disk has one of the two, whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    write(&next, bytes)?;
    fs::rename(next, path)?;
    File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}
