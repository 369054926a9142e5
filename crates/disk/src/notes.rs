//! Notes: what the node wants to be kept as durably as purges, in bytes the store does not look at.
//!
//! A note has a number in the order of purges and insertions, and is about content that is older.
//! One with the same bytes takes the place of an older one. Notes are bounded: whoever forgets one
//! that still matters has to refuse what is older ([`super::purges::Floors`]).

use super::codec::{Put, Reader};
use super::limits::{NOTE_BYTES_MAX, NOTES_BYTES_MAX, NOTES_MAX};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of a note in a checkpoint besides its own.
const HEAD_BYTES: u64 = 12;

/// A note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// When, in the order of [`super::purges::Sequence`].
    pub seq: u64,
    /// What it says, at most [`NOTE_BYTES_MAX`].
    pub bytes: Arc<[u8]>,
}

impl Note {
    /// Bytes it takes of a checkpoint.
    fn stored_bytes(&self) -> u64 {
        HEAD_BYTES + self.bytes.len() as u64
    }
}

/// All notes of a node. Shared by its disks.
#[derive(Debug, Default)]
pub struct Notes {
    inner: RwLock<Inner>,
    found: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    by_seq: BTreeMap<u64, Arc<[u8]>>,
    by_bytes: HashMap<Arc<[u8]>, u64>,
    /// Bytes of all in a checkpoint.
    stored_bytes: u64,
    /// Notes up to this number are not taken any more.
    forgotten: u64,
}

impl Inner {
    fn remove(&mut self, seq: u64) {
        if let Some(bytes) = self.by_seq.remove(&seq) {
            self.stored_bytes -= Note { seq, bytes: Arc::clone(&bytes) }.stored_bytes();
            self.by_bytes.remove(&bytes);
        }
    }

    fn forget_oldest(&mut self) -> Option<u64> {
        let seq = *self.by_seq.first_key_value()?.0;
        self.remove(seq);
        self.forgotten = self.forgotten.max(seq);
        Some(seq)
    }
}

impl Notes {
    /// Adds a note of this process. Where others had to be forgotten for it, the number below which
    /// content has to be refused.
    pub(crate) fn add(&self, note: Note) -> Option<u64> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let known = inner.by_bytes.get(&note.bytes).copied();
        if note.seq <= inner.forgotten || known.is_some_and(|seq| seq >= note.seq) {
            return None;
        }
        if let Some(older) = known {
            inner.remove(older);
        }
        inner.stored_bytes += note.stored_bytes();
        inner.by_bytes.insert(Arc::clone(&note.bytes), note.seq);
        inner.by_seq.insert(note.seq, note.bytes);
        let mut floor = None;
        while inner.by_seq.len() > NOTES_MAX || inner.stored_bytes > NOTES_BYTES_MAX {
            floor = inner.forget_oldest();
        }
        floor
    }

    /// Adds a note that was found on a disk, as [`Notes::add`] does.
    pub(crate) fn add_found(&self, note: Note) -> Option<u64> {
        let floor = self.add(note);
        self.found.fetch_add(1, Release);
        floor
    }

    /// How many were found on disks so far: where it has changed, there may be some that nobody who
    /// keeps a list of them knows.
    pub fn found(&self) -> u64 {
        self.found.load(Acquire)
    }

    /// Forgets all up to a number.
    pub(crate) fn forget(&self, up_to: u64) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.forgotten = inner.forgotten.max(up_to);
        while inner.by_seq.first_key_value().is_some_and(|(seq, _)| *seq <= up_to) {
            inner.forget_oldest();
        }
    }

    /// All, oldest first.
    pub fn all(&self) -> Vec<Note> {
        self.with_floor().0
    }

    /// All, oldest first, and the number below which content may be meant by one that was forgotten.
    pub(crate) fn with_floor(&self) -> (Vec<Note>, u64) {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let of = |(seq, bytes): (&u64, &Arc<[u8]>)| Note { seq: *seq, bytes: Arc::clone(bytes) };
        (inner.by_seq.iter().map(of).collect(), inner.forgotten)
    }
}

/// The newest notes that fit into so many bytes of a checkpoint, oldest first, and the number of
/// the newest that does not.
pub(crate) fn newest(mut notes: Vec<Note>, bytes_max: u64) -> (Vec<Note>, Option<u64>) {
    let mut room = bytes_max;
    let fits = |note: &&Note| {
        let left = room.checked_sub(note.stored_bytes());
        left.map(|left| room = left).is_some()
    };
    let kept = notes.iter().rev().take_while(fits).count();
    let left_out = notes.len() - kept;
    let last = left_out.checked_sub(1).and_then(|at| notes.get(at)).map(|note| note.seq);
    (notes.split_off(left_out), last)
}

/// Bytes of these notes in a checkpoint.
pub(crate) fn stored_bytes(notes: &[Note]) -> u64 {
    notes.iter().map(Note::stored_bytes).sum()
}

pub(crate) fn write(notes: &[Note], out: &mut Vec<u8>) {
    for note in notes {
        out.put_u64(note.seq);
        out.put_u32(note.bytes.len() as u32);
        out.put(&note.bytes);
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Option<Vec<Note>> {
    let mut from = Reader::new(bytes);
    let (mut notes, mut left) = (Vec::new(), bytes.len() as u64);
    while left > 0 {
        let (seq, len) = (from.u64()?, from.u32()? as usize);
        if len > NOTE_BYTES_MAX {
            return None;
        }
        let note = Note { seq, bytes: from.bytes(len)?.into() };
        left = left.checked_sub(note.stored_bytes())?;
        notes.push(note);
    }
    Some(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(seq: u64, text: &str) -> Note {
        Note { seq, bytes: text.as_bytes().into() }
    }

    #[test]
    fn a_note_takes_the_place_of_an_older_one_that_says_the_same() {
        let notes = Notes::default();
        for (seq, text) in [(1, "a"), (2, "b"), (4, "a"), (3, "a")] {
            assert_eq!(notes.add(note(seq, text)), None);
        }
        assert_eq!(notes.all(), [note(2, "b"), note(4, "a")]);
        notes.forget(2);
        notes.add_found(note(2, "b"));
        assert_eq!((notes.all(), notes.found()), (vec![note(4, "a")], 1), "forgotten is forgotten");
    }

    #[test]
    fn what_there_is_no_room_for_is_forgotten_oldest_first_and_said() {
        let notes = Notes::default();
        let floors =
            (1..=NOTES_MAX as u64 + 3).filter_map(|seq| notes.add(note(seq, &seq.to_string())));
        assert_eq!(floors.collect::<Vec<_>>(), [1, 2, 3]);
        let long = "x".repeat(NOTE_BYTES_MAX - 8);
        let most = NOTES_BYTES_MAX / NOTE_BYTES_MAX as u64 + 10;
        let floors =
            (0..most).filter_map(|at| notes.add(note(100_000 + at, &format!("{at:8}{long}"))));
        assert!(floors.last() >= Some(100_000));
        assert!(stored_bytes(&notes.all()) <= NOTES_BYTES_MAX);
    }

    #[test]
    fn notes_come_back_as_written_and_spoiled_ones_do_no_harm() {
        let all = vec![note(1, ""), note(7, "req.url ~ /"), note(9, "x")];
        let mut bytes = Vec::new();
        write(&all, &mut bytes);
        assert_eq!(bytes.len() as u64, stored_bytes(&all));
        assert_eq!(parse(&bytes), Some(all.clone()));
        for at in 0..bytes.len() {
            let _ = parse(&bytes[..at]);
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 0xff;
            let _ = parse(&spoiled);
        }
        assert_eq!(newest(all.clone(), u64::MAX), (all.clone(), None));
        assert_eq!(newest(all.clone(), 13 + 23), (all[1..].to_vec(), Some(1)));
        assert_eq!(newest(all, 12), (vec![], Some(9)));
    }
}
