//! What outlives the process: each change on the disk before its client is told.
//!
//! A file of records: length, checksum, JSON. A record is whole or is not there, so that what a crash
//! left half-written at the end is cut off; a mistake before the end is an error, as what came after
//! it was promised. When much of it is of documents that are gone, it is written anew beside and
//! renamed.

mod reserve;

use crate::limits::RECORD_BYTES_MAX;
use freshet_base::private::sync_folder_of;
use freshet_documents::tree::{Change, Tree};
use reserve::{Reserve, is_full};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// First bytes of the file: its kind and version.
const MAGIC: &[u8; 8] = b"fmecjnl1";
/// Bytes before a record's JSON: its length and its checksum.
const HEAD_BYTES: usize = 8;
/// Records in the file for each document there is, beyond which it is written anew.
const RECORDS_PER_DOCUMENT: u64 = 4;
/// Records below which that is not worth it.
const RECORDS_MIN: u64 = 1024;

/// How often the lock is tried, and the pause between: ten seconds.
const LOCK_TRIES_MAX: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Changes that are all there or none, and the version after them.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    version: u64,
    changes: Vec<Change>,
}

/// A journal that is open.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the last whole record ends.
    end: u64,
    records: u64,
    reserve: Reserve,
}

impl Journal {
    /// Opens a journal, or begins one, and has `tree` hold what it says.
    ///
    /// # Errors
    /// Those of the file; [`io::ErrorKind::InvalidData`] where it is no journal, or is damaged.
    pub(crate) fn open(path: &Path, tree: &mut Tree) -> io::Result<Self> {
        let mut journal = Self::open_within(path, tree, LOCK_TRIES_MAX)?;
        while journal.reserve.take() {}
        Ok(journal)
    }

    fn open_within(path: &Path, tree: &mut Tree, tries: u32) -> io::Result<Self> {
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        lock(&file, tries)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let reserve = Reserve::beside(path);
        let mut journal = Self { path: path.to_owned(), file, end: 0, records: 0, reserve };
        if bytes.len() < MAGIC.len() && MAGIC.starts_with(&bytes) {
            journal.file.set_len(0)?;
            journal.file.rewind()?;
            journal.file.write_all(MAGIC)?;
            journal.file.sync_all()?;
            sync_folder_of(path)?;
            journal.end = MAGIC.len() as u64;
            return Ok(journal);
        }
        let records =
            bytes.strip_prefix(MAGIC).ok_or_else(|| invalid("it is no journal of this program"))?;
        let mut rest = records;
        while let Some((record, after)) = next(rest)? {
            for change in record.changes {
                tree.apply(change);
            }
            tree.resume(record.version);
            journal.records += 1;
            rest = after;
        }
        journal.end = (bytes.len() - rest.len()) as u64;
        journal.file.set_len(journal.end)?;
        journal.file.seek(SeekFrom::Start(journal.end))?;
        Ok(journal)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts changes on the disk; `version` is the tree's after them. When this returns they outlive
    /// the machine's power. What `frees` something may have the reserve where the disk is full.
    ///
    /// # Errors
    /// Those of the file; then none of the changes is there.
    pub(crate) fn append(
        &mut self,
        version: u64,
        changes: Vec<Change>,
        frees: bool,
    ) -> io::Result<()> {
        let record = encode(&Record { version, changes })?;
        let mut written = self.write(&record);
        while frees && is_full(&written) && self.reserve.give() {
            written = self.write(&record);
        }
        written?;
        self.end += record.len() as u64;
        self.records += 1;
        self.reserve.take();
        Ok(())
    }

    /// Writes a record at the end, all of it or nothing.
    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(record).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // What is there of it must not come before what is written next.
            self.file.set_len(self.end)?;
            self.file.seek(SeekFrom::Start(self.end))?;
        }
        written
    }

    /// Writes it anew, with what there is alone, where much of it is of the past.
    ///
    /// # Errors
    /// Those of the file; the old one is still there.
    pub(crate) fn compact(&mut self, tree: &Tree) -> io::Result<()> {
        let documents = tree.snapshot().count() as u64;
        if self.records < RECORDS_MIN.max(documents * RECORDS_PER_DOCUMENT) {
            return Ok(());
        }
        let beside = self.path.with_extension("new");
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&beside)?;
        file.lock()?;
        let mut bytes = MAGIC.to_vec();
        let mut records = 0;
        for change in tree.snapshot() {
            bytes.extend(encode(&Record { version: tree.version(), changes: vec![change] })?);
            records += 1;
        }
        // Also where there is no document: versions go on.
        bytes.extend(encode(&Record { version: tree.version(), changes: Vec::new() })?);
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        sync_folder_of(&self.path)?;
        (self.file, self.end, self.records) = (file, bytes.len() as u64, records + 1);
        Ok(())
    }
}

/// Two platforms on one journal would each undo what the other promised. One that was killed while it
/// began a program leaves a process that has its files until it is that program.
fn lock(file: &File, tries: u32) -> io::Result<()> {
    for _ in 1..tries {
        if file.try_lock().is_ok() {
            return Ok(());
        }
        thread::sleep(LOCK_PAUSE);
    }
    file.try_lock().map_err(|error| {
        io::Error::new(io::ErrorKind::ResourceBusy, format!("another process has it: {error}"))
    })
}

fn encode(record: &Record) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(record)?;
    if json.len() > RECORD_BYTES_MAX {
        return Err(invalid(&format!(
            "a record has {} bytes; {RECORD_BYTES_MAX} are the most",
            json.len()
        )));
    }
    let mut bytes = Vec::with_capacity(HEAD_BYTES + json.len());
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(&json).to_le_bytes());
    bytes.extend(json);
    Ok(bytes)
}

/// The first record; none at the end, or where the last one is not whole.
fn next(bytes: &[u8]) -> io::Result<Option<(Record, &[u8])>> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
    let (length, sum) = head.split_at(4);
    let Some((json, after)) = rest.split_at_checked(word(length) as usize) else {
        // Cut off by a crash, or its length is damaged: then what came after it is there.
        let is_cut_off = !(1..rest.len()).any(|at| is_record(&rest[at..]));
        return if is_cut_off {
            Ok(None)
        } else {
            Err(invalid("the length of a record is damaged"))
        };
    };
    if crc32c::crc32c(json) != word(sum) {
        // The last one may be long enough and not on the disk whole.
        return if after.is_empty() { Ok(None) } else { Err(invalid("a record is damaged")) };
    }
    let record = serde_json::from_slice(json).map_err(|error| invalid(&error.to_string()))?;
    Ok(Some((record, after)))
}

/// Whether a whole record is at the beginning. Text taken for a length is longer than any file here, so
/// that few places are looked at closely.
fn is_record(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return false };
    let (length, sum) = head.split_at(4);
    let json = rest.get(..word(length) as usize).filter(|json| !json.is_empty());
    json.is_some_and(|json| crc32c::crc32c(json) == word(sum))
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(path: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        Journal::open(path, &mut tree)?;
        Ok(tree)
    }

    fn shown(tree: &Tree) -> Vec<Change> {
        tree.snapshot().collect()
    }

    proptest! {
        /// Wherever a crash cuts the file, what is read is the state after some whole record, and all
        /// that were promised before the cut are in it.
        #[test]
        fn a_cut_anywhere_leaves_whole_records(steps in prop::collection::vec((0..6_u8, any::<bool>()), 1..20), cut in 0..4096_usize) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("journal");
            let mut tree = Tree::default();
            let mut journal = Journal::open(&path, &mut tree).unwrap();
            let mut states = vec![(journal.end, shown(&tree))];
            for (name, puts) in steps {
                let path = format!("/{name}");
                let change = if puts { Change::put(path, json!({"n": name}), None) } else { Change::remove(path) };
                tree.apply(change.clone());
                journal.append(tree.version(), vec![change], false).unwrap();
                states.push((journal.end, shown(&tree)));
            }
            drop(journal);
            let whole = fs::read(&path).unwrap();
            let cut = cut.min(whole.len());
            fs::write(&path, &whole[..cut]).unwrap();
            let expected = states.iter().rev().find(|(end, _)| *end <= cut as u64);
            let found = read(&path).unwrap();
            prop_assert_eq!(shown(&found), expected.map(|(_, state)| state.clone()).unwrap_or_default());
            // And it goes on from there.
            prop_assert_eq!(shown(&read(&path).unwrap()), shown(&found));
        }
    }

    #[test]
    fn damage_before_the_end_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut tree = Tree::default();
        let mut journal = Journal::open(&path, &mut tree).unwrap();
        for name in ["/a", "/b"] {
            journal.append(1, vec![Change::put(name, json!({}), None)], false).unwrap();
        }
        let busy = Journal::open_within(&path, &mut Tree::default(), 2).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(journal);
        let whole = fs::read(&path).unwrap();
        // In its JSON, and in each byte of its length.
        for at in [HEAD_BYTES + 3, 0, 1, 2, 3] {
            let mut bytes = whole.clone();
            bytes[MAGIC.len() + at] ^= 0x40;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData, "{at}");
        }
        fs::write(&path, b"something else").unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_a_process_leaves_of_it_for_a_moment_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, &mut Tree::default()).unwrap();
        assert!(Journal::open_within(&path, &mut Tree::default(), 1).is_err());
        let leaving = thread::spawn(move || drop(journal));
        assert!(Journal::open(&path, &mut Tree::default()).is_ok());
        leaving.join().unwrap();
    }

    #[test]
    fn it_does_not_grow_with_the_past() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut tree = Tree::default();
        let mut journal = Journal::open(&path, &mut tree).unwrap();
        journal.records = RECORDS_MIN - 1;
        for number in 0..2 {
            let change = Change::put("/a", json!(number), Some("me".to_owned()));
            tree.apply(change.clone());
            journal.append(tree.version(), vec![change], false).unwrap();
        }
        journal.compact(&tree).unwrap();
        assert_eq!(journal.records, 2);
        let change = Change::put("/b", json!(3), None);
        tree.apply(change.clone());
        journal.append(tree.version(), vec![change], false).unwrap();
        drop(journal);
        let again = read(&path).unwrap();
        assert_eq!((shown(&again), again.version()), (shown(&tree), tree.version()));
        assert_eq!(again.owned("me").documents, 1);
    }
}
