//! The fields both sides know by number: those of the RFC, and those that were sent before.

use super::statics::ByNameLength;
use std::collections::VecDeque;

/// RFC 7541 Appendix A, from number 1 on.
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

static BY_NAME_LENGTH: ByNameLength<{ STATIC.len() }> = ByNameLength::new(&STATIC);

/// What an entry counts besides its text (RFC 7541 §4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// What becomes of a field that is sent (RFC 7541 §6.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Indexing {
    /// Both sides remember it.
    Kept,
    /// It is likely to be another the next time.
    Once,
    /// It is a secret that nobody on the way may remember (RFC 7541 §7.1.3).
    Never,
}

/// Fields that were sent, the newest first.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    text: Box<[u8]>,
    name_len: usize,
}

impl Entry {
    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.name_len)
    }

    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_OVERHEAD_BYTES
    }
}

impl Table {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.shrink_to(bytes_max);
    }

    /// Adds a field, and forgets old ones for it; one that is too large empties the table.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let bytes = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        self.shrink_to(self.bytes_max.saturating_sub(bytes));
        if bytes <= self.bytes_max {
            let text = [name, value].concat().into_boxed_slice();
            self.entries.push_front(Entry { text, name_len: name.len() });
            self.bytes += bytes;
        }
    }

    /// The field of this number (RFC 7541 §2.3.3).
    pub(super) fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => self.entries.get(index - STATIC.len()).map(Entry::parts),
        }
    }

    /// The number of a field, or of one with its name.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Found {
        let known = BY_NAME_LENGTH.find(name, value);
        if let Some((place, true)) = known {
            return Found::Whole(place + 1);
        }
        // Numbers of the RFC's fields are shorter.
        let mut named = known.map(|(place, _)| place + 1);
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.name_len == name.len() && entry.text.starts_with(name) {
                let index = STATIC.len() + 1 + at;
                if &entry.text[entry.name_len..] == value {
                    return Found::Whole(index);
                }
                named.get_or_insert(index);
            }
        }
        named.map_or(Found::Nothing, Found::Name)
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn shrink_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

/// What a table knows of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// All of it has this number.
    Whole(usize),
    /// A field of this number has its name.
    Name(usize),
    /// Nothing.
    Nothing,
}
