//! Room on the disk that nothing takes but what makes room: a file beside the journal, which becomes shorter when the
//! end of an app has to be written down and the disk is full.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Its bytes: what ends an app is a few records of some kilobytes each, and there may be many apps.
const BYTES: u64 = 1 << 20;
/// How much of it is given up, and taken, at once.
const PART_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Reserve {
    /// That of a journal, as it was left.
    pub(super) fn beside(journal: &Path) -> Self {
        let path = journal.with_extension("reserve");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let bytes = file.as_ref().ok().and_then(|file| file.metadata().ok());
        let bytes = bytes.map_or(0, |of| of.len());
        Self { path, file: file.ok(), bytes }
    }

    /// Takes a part of what it has not; whether there is more to take. A full disk gives what it has.
    pub(super) fn take(&mut self) -> bool {
        let Some(file) = self.file.as_mut().filter(|_| self.bytes < BYTES) else { return false };
        let zeros = vec![0; PART_BYTES.min(BYTES - self.bytes) as usize];
        let written = file.seek(SeekFrom::Start(self.bytes)).and_then(|_| file.write_all(&zeros));
        // Some of it may be there.
        self.bytes = file.metadata().map_or(self.bytes, |of| of.len());
        written.is_ok()
    }

    /// Gives up a part; whether there was one.
    pub(super) fn give(&mut self) -> bool {
        let Some(file) = self.file.as_mut().filter(|_| self.bytes > 0) else { return false };
        let left = self.bytes.saturating_sub(PART_BYTES);
        // A file system may have the room free only when that is on the disk.
        let given = file.set_len(left).and_then(|()| file.sync_all());
        if let Err(error) = &given {
            tracing::warn!(path = %self.path.display(), %error, "no room can be given up");
        }
        self.bytes = left;
        given.is_ok()
    }
}

/// Whether an error is that of a full disk.
pub(super) fn is_full<T>(done: &io::Result<T>) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    done.as_ref().is_err_and(|error| full.contains(&error.kind()))
}
