//! Fields that one side tells the other in advance (RFC 9204 §3.2), each by a number that counts from the
//! first that was ever told.

use std::collections::VecDeque;
use std::sync::Arc;

/// What an entry counts for besides its text (RFC 9204 §3.2.1).
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// A dynamic table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// How many were forgotten: the number of the oldest that is there.
    first: u64,
    bytes: usize,
    capacity_bytes: usize,
}

/// A field. Told twice it is there once.
#[derive(Clone, Debug)]
struct Entry {
    text: Arc<[u8]>,
    name_len: usize,
    hash: u64,
}

impl Entry {
    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.name_len)
    }

    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_OVERHEAD_BYTES
    }
}

/// A number that fields that are the same have in common, and few others.
pub(super) fn hash(name: &[u8], value: &[u8]) -> u64 {
    let bytes = name.iter().chain(&[0]).chain(value);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Table {
    /// The number of the next entry: how many there ever were.
    pub(super) fn inserted(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The oldest that is there.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// How much more there may be without anything being forgotten.
    pub(super) fn room(&self) -> usize {
        self.capacity_bytes - self.bytes
    }

    pub(super) fn set_capacity(&mut self, bytes: usize) {
        self.capacity_bytes = bytes;
        self.shrink_to(bytes);
    }

    /// Forgets the oldest.
    pub(super) fn forget_first(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.bytes();
            self.first += 1;
        }
    }

    /// Adds a field, and forgets old ones for it; false when it is larger than the table may be.
    #[must_use]
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) -> bool {
        let text = [name, value].concat().into();
        self.push(Entry { text, name_len: name.len(), hash: hash(name, value) })
    }

    /// Adds a field that is there once more; false when it is not.
    #[must_use]
    pub(super) fn duplicate(&mut self, number: u64) -> bool {
        let entry = self.entry(number).cloned();
        entry.is_some_and(|entry| self.push(entry))
    }

    /// The field of this number, while it is there.
    pub(super) fn field(&self, number: u64) -> Option<(&[u8], &[u8])> {
        self.entry(number).map(Entry::parts)
    }

    /// The newest entry below `end` that is this field.
    pub(super) fn find(&self, name: &[u8], value: &[u8], end: u64) -> Option<u64> {
        let hash = hash(name, value);
        let at = self.entries.iter().rposition(|entry| entry.hash == hash)?;
        let (known_name, known_value) = self.entries.get(at)?.parts();
        let number = self.first + at as u64;
        (number < end && known_name == name && known_value == value).then_some(number)
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn push(&mut self, entry: Entry) -> bool {
        let bytes = entry.bytes();
        let Some(others) = self.capacity_bytes.checked_sub(bytes) else { return false };
        self.shrink_to(others);
        self.bytes += bytes;
        self.entries.push_back(entry);
        true
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            self.forget_first();
        }
    }
}
