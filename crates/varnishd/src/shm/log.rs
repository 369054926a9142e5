//! The log: a ring of records in a segment file.
//!
//! 88 bytes of head (`VSLHEAD1`, the segment size in words, the running segment number, the word
//! index of the first record in each of 8 segments), then 32-bit words in native order. A record is
//! `tag << 24 | length`, `marker << 30 | id`, the text with its NUL, padded to a word. A batch of
//! records is led by a record with tag 255 whose second word is their length in bytes. Where no
//! record follows stands END; where the ring begins again, WRAP.
//!
//! A record becomes visible with its first word, which is written last, over the END of the one
//! before. A reader never waits for us, and we never for a reader: one that is too far behind
//! notices by the segment number.

use super::{Directory, Segment};
use std::io;
use std::sync::{Mutex, PoisonError};

const HEAD_BYTES: u64 = 88;
const SEGMENTS: usize = 8;
const END: u32 = 254 << 24 | 0x45_4545;
const WRAP: u32 = 254 << 24 | 0x57_5757;
const BATCH_TAG: u32 = 255;
/// Where the head has the segment number and the table of offsets.
const SEGMENT_NUMBER_AT: u64 = 16;
const OFFSETS_AT: u64 = 24;
/// The smallest log that is useful: eight segments of some records each.
const BYTES_MIN: u64 = 64 << 10;

/// Who a record is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    /// The program itself.
    None,
    /// A client's connection or request.
    Client,
    /// A fetch.
    Backend,
}

/// The log's writer; any thread may write.
#[derive(Debug)]
pub(crate) struct Log {
    segment: Segment,
    segment_words: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Word index the next record goes to; END stands there.
    next: usize,
    /// Counts segments, over all turns of the ring.
    number: u32,
    records: u64,
    turns: u64,
}

/// Records of one transaction, encoded.
#[derive(Debug, Default)]
pub(crate) struct Records {
    words: Vec<u8>,
    count: u64,
}

impl Records {
    /// Adds a record. Its text is cut at `text_bytes_max`.
    pub(crate) fn push(
        &mut self,
        tag: u8,
        side: Side,
        id: u32,
        text: &[u8],
        text_bytes_max: usize,
    ) {
        let text = &text[..text.len().min(text_bytes_max.saturating_sub(1)).min(0xfffe)];
        let marker = match side {
            Side::None => 0,
            Side::Client => 1,
            Side::Backend => 2,
        };
        let length = u32::try_from(text.len() + 1).expect("cut above");
        self.words.extend_from_slice(&(u32::from(tag) << 24 | length).to_ne_bytes());
        self.words.extend_from_slice(&(marker << 30 | id & 0x3fff_ffff).to_ne_bytes());
        self.words.extend_from_slice(text);
        // The NUL, and up to the next word.
        let padded = (self.words.len() + 1).next_multiple_of(4);
        self.words.resize(padded, 0);
        self.count += 1;
    }

    /// Encoded length.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }
}

impl Log {
    /// Makes the log of a child in `directory`, `bytes` large.
    pub(crate) fn create(directory: &Directory, bytes: u64) -> io::Result<Self> {
        let bytes = bytes.max(BYTES_MIN);
        let segment_words = usize::try_from((bytes - HEAD_BYTES) / 4).unwrap_or(0) / SEGMENTS;
        let mut head = Vec::new();
        head.extend_from_slice(b"VSLHEAD1");
        head.extend_from_slice(&(segment_words as u64).to_ne_bytes());
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&0_i64.to_ne_bytes());
        for _ in 1..SEGMENTS {
            head.extend_from_slice(&(-1_i64).to_ne_bytes());
        }
        head.extend_from_slice(&END.to_ne_bytes());
        let segment = directory.add("Log", "Log", &head, bytes)?;
        let state = Mutex::new(State { next: 0, number: 0, records: 0, turns: 0 });
        Ok(Self { segment, segment_words, state })
    }

    /// Bytes of records one call of [`Log::publish`] may have: a segment holds several.
    pub(crate) fn batch_bytes_max(&self) -> usize {
        self.segment_words * 4 / 4
    }

    /// Makes records visible as one batch and empties them. What is larger than the ring can hold
    /// at once is dropped.
    pub(crate) fn publish(&self, records: &mut Records) {
        if !records.is_empty() && records.words.len() <= self.batch_bytes_max() {
            let mut batch = Vec::with_capacity(records.words.len() + 8);
            batch.extend_from_slice(&(BATCH_TAG << 24).to_ne_bytes());
            let length = u32::try_from(records.words.len()).unwrap_or(0);
            batch.extend_from_slice(&length.to_ne_bytes());
            batch.extend_from_slice(&records.words);
            // A log that cannot be written must not stop what it is about.
            let _ = self.write(&batch, records.count);
        }
        records.clear();
    }

    /// Makes one record visible.
    pub(crate) fn publish_one(&self, tag: u8, side: Side, id: u32, text: &[u8], text_max: usize) {
        let mut records = Records::default();
        records.push(tag, side, id, text, text_max);
        let _ = self.write(&records.words, 1);
    }

    /// Records written and turns of the ring so far.
    pub(crate) fn written(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.records, state.turns)
    }

    fn write(&self, record: &[u8], count: u64) -> io::Result<()> {
        let words = record.len() / 4;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Room for END behind it.
        if state.next + words + 1 >= self.segment_words * SEGMENTS {
            self.wrap(&mut state)?;
        }
        let at = state.next;
        state.next += words;
        state.records += count;
        self.put(END, state.next)?;
        while state.next / self.segment_words > state.number as usize % SEGMENTS {
            state.number = state.number.wrapping_add(1);
            self.set_offset(state.number as usize % SEGMENTS, state.next)?;
            self.set_number(state.number)?;
        }
        self.segment.write(&record[4..], byte(at + 1))?;
        self.segment.write(&record[..4], byte(at))
    }

    /// Begins again at the start.
    fn wrap(&self, state: &mut State) -> io::Result<()> {
        state.number = state.number.wrapping_add(1);
        while !(state.number as usize).is_multiple_of(SEGMENTS) {
            state.number = state.number.wrapping_add(1);
        }
        state.turns += 1;
        self.set_offset(0, 0)?;
        self.put(END, 0)?;
        self.set_number(state.number)?;
        if state.next != 0 {
            self.put(WRAP, state.next)?;
        }
        state.next = 0;
        Ok(())
    }

    fn put(&self, word: u32, at: usize) -> io::Result<()> {
        self.segment.write(&word.to_ne_bytes(), byte(at))
    }

    fn set_offset(&self, segment: usize, at: usize) -> io::Result<()> {
        self.segment.write(&(at as u64).to_ne_bytes(), OFFSETS_AT + 8 * segment as u64)
    }

    fn set_number(&self, number: u32) -> io::Result<()> {
        self.segment.write(&number.to_ne_bytes(), SEGMENT_NUMBER_AT)
    }
}

/// Byte offset of a word of the ring in the file.
fn byte(word: usize) -> u64 {
    HEAD_BYTES + 4 * word as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn words(directory: &Path) -> Vec<u32> {
        let file = std::fs::read_dir(directory)
            .expect("it is there")
            .filter_map(Result::ok)
            .find(|entry| entry.file_name().to_string_lossy().starts_with("_.Log."))
            .expect("the log has a file");
        let bytes = std::fs::read(file.path()).expect("it can be read");
        bytes[88..]
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("4")))
            .collect()
    }

    #[test]
    fn a_reader_finds_every_record_of_every_turn() {
        let home = tempfile::tempdir().expect("there is room");
        let path = home.path().join("d");
        let directory = Directory::create(path.clone()).expect("it can be made");
        let log = Log::create(&directory, 64 << 10).expect("it can be made");
        let mut position = 0;
        for round in 0..20_000_u32 {
            let text = "x".repeat(round as usize % 50);
            if round % 3 == 0 {
                log.publish_one(7, Side::Client, round, text.as_bytes(), 255);
            } else {
                let mut records = Records::default();
                records.push(7, Side::Backend, round, text.as_bytes(), 255);
                log.publish(&mut records);
            }
            if round % 1000 != 0 {
                position = log.state.lock().expect("nobody panicked").next;
                continue;
            }
            let words = words(&path);
            let mut at = position;
            if words[at] == WRAP {
                at = 0;
            }
            if words[at] >> 24 == BATCH_TAG {
                at += 2;
            }
            assert_eq!(words[at], 7 << 24 | (text.len() as u32 + 1), "round {round}");
            assert_eq!(words[at + 1] & 0x3fff_ffff, round);
            position = log.state.lock().expect("nobody panicked").next;
            assert_eq!(words[position], END);
        }
        let (records, turns) = log.written();
        assert_eq!(records, 20_000);
        assert!(turns > 5, "{turns}");
    }
}
