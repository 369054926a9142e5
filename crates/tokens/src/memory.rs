//! What was found out not long ago, under secrets that are not kept.

use aws_lc_rs::rand;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::{Mutex, PoisonError};

/// What is over is looked for once in so long, however many come.
const SWEEP_MS: u64 = 1_000;

/// A digest of what something is remembered under, with a key of the [`Memory`] it is for: SipHash-2-4 of 128
/// bits. Whoever has a value remembered knows neither key nor digest, and finds no second secret that has the
/// same one but by asking 2¹²⁸ times over.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Digest(u128);

/// Values that hold for a while, at most so many. Takes half a microsecond; where it is full, what comes
/// then is not remembered.
pub struct Memory<T> {
    key: [u8; 16],
    entries_max: usize,
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    /// Each with until when it holds.
    all: HashMap<Digest, (u64, T)>,
    swept_ms: u64,
}

/// The system gave no random numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoRandom;

impl<T: Clone> Memory<T> {
    /// An empty one, for so many.
    ///
    /// # Errors
    /// [`NoRandom`].
    pub fn new(entries_max: usize) -> Result<Self, NoRandom> {
        let mut key = [0; 16];
        rand::fill(&mut key).map_err(|_| NoRandom)?;
        let entries = Mutex::new(Entries { all: HashMap::new(), swept_ms: 0 });
        Ok(Self { key, entries_max, entries })
    }

    /// The digest of these parts in this order.
    pub fn digest<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        for part in parts {
            // So that the end of one part is not taken for the beginning of the next.
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Digest(hasher.finish128().as_u128())
    }

    /// What holds now.
    pub fn get(&self, digest: &Digest, now_ms: u64) -> Option<T> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (until_ms, value) = entries.all.get(digest)?;
        (now_ms < *until_ms).then(|| value.clone())
    }

    /// Has it hold until then, where there is room.
    pub fn add(&self, digest: Digest, value: T, now_ms: u64, until_ms: u64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.all.len() >= self.entries_max
            && now_ms.saturating_sub(entries.swept_ms) >= SWEEP_MS
        {
            entries.swept_ms = now_ms;
            entries.all.retain(|_, (until_ms, _)| now_ms < *until_ms);
        }
        let has_room = entries.all.len() < self.entries_max || entries.all.contains_key(&digest);
        if has_room {
            entries.all.insert(digest, (until_ms, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_it() {
        let memory = Memory::new(100).unwrap();
        let digest = |number: u32| memory.digest([&number.to_le_bytes()[..]]);
        for number in 0..200 {
            memory.add(digest(number), number, 0, 1_000);
        }
        let held =
            |now| (0..200).filter(|number| memory.get(&digest(*number), now).is_some()).count();
        assert_eq!((held(999), held(1_000)), (100, 0));
        memory.add(digest(300), 300, 1_000, 2_000);
        assert_eq!(memory.get(&digest(300), 1_500), Some(300), "what is over makes room");
        memory.add(digest(300), 301, 1_600, 3_000);
        assert_eq!(memory.get(&digest(300), 2_500), Some(301));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let memory = Memory::<()>::new(1).unwrap();
        assert_ne!(memory.digest([&b"ab"[..], b"c"]), memory.digest([&b"a"[..], b"bc"]));
        assert_ne!(memory.digest([&b"a"[..]]), memory.digest([&b"a"[..], b""]));
    }
}
