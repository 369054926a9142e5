//! The node's transcripts as records of the log, and what is counted by them.

use crate::shm::log::{Log, Records, Side as LogSide};
use freshet_node::transcript::{Records as Noted, Scribe, Side, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Tags have numbers below this.
const TAGS: usize = 128;

/// Writes transcripts into the log.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Arc<Log>,
    rules: Arc<Rules>,
    /// Records by their tags, written or masked.
    counts: [AtomicU64; TAGS],
}

/// What is written, as parameters say; they may change at any time.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    masked: [AtomicU64; TAGS / 64],
    text_bytes_max: AtomicUsize,
    immediate: AtomicBool,
}

impl Rules {
    /// Takes over what the parameters say.
    pub(crate) fn set(&self, masked: &[u8], text_bytes_max: usize, immediate: bool) {
        let mut words = [0_u64; TAGS / 64];
        for tag in masked {
            if let Some(word) = words.get_mut(usize::from(*tag) / 64) {
                *word |= 1 << (tag % 64);
            }
        }
        for (slot, word) in self.masked.iter().zip(words) {
            slot.store(word, Relaxed);
        }
        self.text_bytes_max.store(text_bytes_max, Relaxed);
        self.immediate.store(immediate, Relaxed);
    }

    fn writes(&self, tag: Tag) -> bool {
        let number = tag.number();
        let word = self.masked.get(usize::from(number) / 64).map_or(0, |word| word.load(Relaxed));
        word >> (number % 64) & 1 == 0
    }
}

impl Journal {
    /// A journal that writes into `log`.
    pub(crate) fn new(log: Arc<Log>, rules: Arc<Rules>) -> Self {
        Self { log, rules, counts: [const { AtomicU64::new(0) }; TAGS] }
    }

    /// Writes a record that belongs to no transaction.
    pub(crate) fn note(&self, tag: Tag, text: &str) {
        if self.rules.writes(tag) {
            let most = self.rules.text_bytes_max.load(Relaxed);
            self.log.publish_one(tag.number(), LogSide::None, 0, text.as_bytes(), most);
        }
    }

    /// How many records there were of a tag.
    pub(crate) fn count(&self, tag: Tag) -> u64 {
        self.counts.get(usize::from(tag.number())).map_or(0, |count| count.load(Relaxed))
    }

    /// Records written, and turns of the ring.
    pub(crate) fn written(&self) -> (u64, u64) {
        self.log.written()
    }
}

impl Scribe for Journal {
    fn take(&self, id: u64, side: Side, noted: &Noted) {
        let side = match side {
            Side::Client => LogSide::Client,
            Side::Backend => LogSide::Backend,
        };
        let most = self.rules.text_bytes_max.load(Relaxed);
        // The log has 30 bits for it.
        let id = u32::try_from(id & 0x3fff_ffff).unwrap_or(0);
        let mut records = Records::default();
        for (tag, text) in noted.iter() {
            if let Some(count) = self.counts.get(usize::from(tag.number())) {
                count.fetch_add(1, Relaxed);
            }
            if !self.rules.writes(tag) {
                continue;
            }
            if records.len() + text.len() + 16 > self.log.batch_bytes_max() {
                self.log.publish(&mut records);
            }
            records.push(tag.number(), side, id, text, most);
        }
        self.log.publish(&mut records);
    }

    fn immediate(&self) -> bool {
        self.rules.immediate.load(Relaxed)
    }
}
