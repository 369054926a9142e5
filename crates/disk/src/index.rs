//! The packed index of one disk: eight bytes for each record, in memory.
//!
//! Lines of 64 bytes have eight slots; a record may be in either of two lines (cuckoo hashing), so
//! a look-up touches two cache lines and the table fills to nine tenths. A slot has 18 bits of the
//! hash, 34 of address, a rough length, two bits of use and what it leads to. It may lead to the
//! wrong record, once in 16,000 look-ups of what is not there; the record itself says so.
//!
//! Look-ups take no lock. Whoever changes it holds the volume's lock; entries that are moved meanwhile are found
//! ([`super::moves`]).
//!
//! While a longer one is made ([`super::growth`]), each change goes to both.

use super::limits::INDEX_LOAD;
use super::moves::Moves;
use super::slot::{KIND_CHUNK, KIND_HEAD, Slot, TAG_BITS, USES_MAX, USES_SHIFT};
use super::snapshot::Snapshot;
use freshet_base::ledger::Ledger;
use freshet_base::splitmix::mixed;
use freshet_store::StoreError;
use freshet_store::lines::Lines;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// Slots of a line.
pub(crate) const LINE_SLOTS: usize = 8;
/// Steps of the search for a free slot.
const WALK_MAX: usize = 96;
/// Entries a look-up finds at most: the heads of one resource are of six kinds, and more than two
/// that look like them besides do not come in a thousand years.
const FOUND_MAX: usize = 8;

/// What a look-up found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    slots: [u64; FOUND_MAX],
    count: usize,
}

impl Found {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().take(self.count).map(|slot| Slot(*slot))
    }
}

/// What an insertion pushed out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Inserted {
    /// Nothing.
    Added,
    /// It was there already.
    Known,
    /// An older record of the same resource and variant.
    Replaced(Slot),
    /// An arbitrary one, because the index is full.
    Dropped(Slot),
}

/// The index of one disk.
pub(crate) struct Index {
    words: Lines,
    lines: u64,
    entries: AtomicU64,
    moves: Moves,
    walk: AtomicU64,
    snapshot: Snapshot,
    /// What takes its place once all is in it.
    longer: OnceLock<Arc<Self>>,
}

impl Index {
    pub(crate) fn new(lines: u64) -> Result<Self, StoreError> {
        let words = usize::try_from(lines).unwrap_or(usize::MAX / 64) * LINE_SLOTS;
        Ok(Self {
            words: Lines::new(words)?,
            lines,
            entries: AtomicU64::new(0),
            moves: Moves::default(),
            walk: AtomicU64::new(1),
            snapshot: Snapshot::default(),
            longer: OnceLock::new(),
        })
    }

    /// Has what changes from now on change in this one too. There is one such for each index.
    pub(crate) fn grow_into(&self, longer: Self) -> Arc<Self> {
        Arc::clone(self.longer.get_or_init(|| Arc::new(longer)))
    }

    /// Entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Bytes of its lines.
    pub(crate) fn bytes(&self) -> u64 {
        self.lines * 64
    }

    /// Memory, with that of a longer one that is being made.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes() + self.longer.get().map_or(0, |longer| longer.bytes())
    }

    /// Lines.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether it gets slow with so many more entries, and drops some soon.
    pub(crate) fn is_full_with(&self, more: u64) -> bool {
        (self.entries() + more) as f64 > self.slots() as f64 * INDEX_LOAD
    }

    /// Slots.
    pub(crate) fn slots(&self) -> u64 {
        self.lines * LINE_SLOTS as u64
    }

    /// The heads of a resource.
    pub(crate) fn heads(&self, hash: u64) -> Found {
        self.find(hash, |kind| kind >= KIND_HEAD)
    }

    /// A chunk.
    pub(crate) fn chunks(&self, hash: u64) -> Found {
        self.find(hash, |kind| kind == KIND_CHUNK)
    }

    /// Has the lines of a look-up that is about to come fetched from memory.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let (tag, first) = self.place(hash);
        for line in [first, self.other(tag, first)] {
            self.words.prefetch(line as usize * LINE_SLOTS);
        }
    }

    #[inline]
    fn find(&self, hash: u64, wanted: impl Fn(u8) -> bool) -> Found {
        let (tag, first) = self.place(hash);
        let second = self.other(tag, first);
        let slot_at = |at: usize| {
            let line = if at < LINE_SLOTS { first } else { second };
            let word = self.words.get(line as usize * LINE_SLOTS + at % LINE_SLOTS);
            Slot(word.map_or(0, |word| word.load(Relaxed)))
        };
        let is_wanted = |slot: Slot| (slot.tag() == tag) & wanted(slot.kind());
        let fits = |line: &[AtomicU64]| {
            let slots = line.iter().map(|word| is_wanted(Slot(word.load(Relaxed))));
            slots.enumerate().fold(0u32, |mask, (at, fits)| mask | u32::from(fits) << at)
        };
        let found = self.moves.find(|| {
            // One mask for both lines, made without a branch for each slot: where an entry is cannot
            // be foreseen, and a processor that guessed wrong does not go on to the next look-up
            // while this one waits for memory.
            let mut mask = fits(self.line(first));
            if first != second {
                mask |= fits(self.line(second)) << LINE_SLOTS;
            }
            let mut found = Found::default();
            while mask != 0 {
                let slot = slot_at(mask.trailing_zeros() as usize);
                if is_wanted(slot)
                    && let Some(place) = found.slots.get_mut(found.count)
                {
                    *place = slot.0;
                    found.count += 1;
                }
                mask &= mask - 1;
            }
            (found.count > 0).then_some(found)
        });
        found.unwrap_or_default()
    }

    /// Notes a use of the record at this address.
    pub(crate) fn touch(&self, hash: u64, slot: Slot) {
        self.note_use(hash, slot);
        if let Some(longer) = self.longer.get() {
            longer.note_use(hash, slot);
        }
    }

    fn note_use(&self, hash: u64, slot: Slot) {
        for word in self.words_of(hash) {
            let now = Slot(word.load(Relaxed));
            if now.is_same(slot) {
                if now.uses() < USES_MAX {
                    // Where someone else changed it just now, a use less is noted.
                    let next = now.0 + (1 << USES_SHIFT);
                    let _ = word.compare_exchange(now.0, next, Relaxed, Relaxed);
                }
                return;
            }
        }
    }

    /// The slot of `hash` at this address.
    pub(crate) fn at(&self, hash: u64, units_at: u64) -> Option<Slot> {
        let (tag, _) = self.place(hash);
        self.words_of(hash)
            .map(|word| Slot(word.load(Relaxed)))
            .find(|slot| slot.kind() != 0 && slot.tag() == tag && slot.units_at() == units_at)
    }

    /// Adds a record of another index, with its uses, unless it is there.
    pub(crate) fn adopt(&self, hash: u64, slot: Slot, units: u32) {
        if self.add(hash, slot.kind(), slot.units_at(), units) == Inserted::Known {
            return;
        }
        (0..slot.uses()).for_each(|_| {
            if let Some(now) = self.at(hash, slot.units_at()) {
                self.note_use(hash, now);
            }
        });
    }

    /// Adds a record. A head takes the place of an older head of the same resource and kind.
    pub(crate) fn insert(&self, hash: u64, kind: u8, units_at: u64, units: u32) -> Inserted {
        if let Some(longer) = self.longer.get() {
            longer.add(hash, kind, units_at, units);
        }
        self.add(hash, kind, units_at, units)
    }

    fn add(&self, hash: u64, kind: u8, units_at: u64, units: u32) -> Inserted {
        let (tag, first) = self.place(hash);
        let slot = Slot::new(tag, kind, units_at, units);
        for word in self.words_of(hash) {
            let there = Slot(word.load(Relaxed));
            if there.kind() != kind || there.tag() != tag {
                continue;
            }
            if there.units_at() == units_at {
                return Inserted::Known;
            }
            if kind != KIND_CHUNK {
                self.before_change(word);
                word.store(slot.0, Release);
                return Inserted::Replaced(there);
            }
        }
        self.entries.fetch_add(1, Relaxed);
        let free = self.free_in(first).or_else(|| self.free_in(self.other(tag, first)));
        if let Some(free) = free.or_else(|| self.make_room(tag, first)) {
            self.before_change(free);
            free.store(slot.0, Release);
            return Inserted::Added;
        }
        // Too full: the one that was used least goes.
        self.entries.give_back(1, Relaxed);
        let least = self.words_of(hash).min_by_key(|word| Slot(word.load(Relaxed)).uses());
        let Some(word) = least else { return Inserted::Added };
        self.before_change(word);
        Inserted::Dropped(Slot(word.swap(slot.0, Relaxed)))
    }

    /// Removes the record at this address; whether it was there.
    pub(crate) fn remove(&self, hash: u64, units_at: u64) -> Option<Slot> {
        if let Some(longer) = self.longer.get() {
            longer.take(hash, units_at);
        }
        self.take(hash, units_at)
    }

    fn take(&self, hash: u64, units_at: u64) -> Option<Slot> {
        let (tag, _) = self.place(hash);
        for word in self.words_of(hash) {
            let slot = Slot(word.load(Relaxed));
            if slot.kind() != 0 && slot.tag() == tag && slot.units_at() == units_at {
                self.before_change(word);
                word.store(0, Release);
                self.entries.give_back(1, Relaxed);
                return Some(slot);
            }
        }
        None
    }

    /// Removes all heads of a resource.
    pub(crate) fn remove_heads(&self, hash: u64, gone: impl FnMut(Slot)) {
        if let Some(longer) = self.longer.get() {
            longer.take_heads(hash, |_| {});
        }
        self.take_heads(hash, gone);
    }

    fn take_heads(&self, hash: u64, mut gone: impl FnMut(Slot)) {
        let (tag, _) = self.place(hash);
        for word in self.words_of(hash) {
            let slot = Slot(word.load(Relaxed));
            if slot.kind() >= KIND_HEAD && slot.tag() == tag {
                self.before_change(word);
                word.store(0, Release);
                self.entries.give_back(1, Relaxed);
                gone(slot);
            }
        }
    }

    /// Removes what `goes` says, and tells of it. Walks all of the index.
    pub(crate) fn remove_where(&self, goes: impl Fn(Slot) -> bool, gone: impl FnMut(Slot)) {
        if let Some(longer) = self.longer.get() {
            longer.take_where(&goes, |_| {});
        }
        self.take_where(&goes, gone);
    }

    fn take_where(&self, goes: impl Fn(Slot) -> bool, mut gone: impl FnMut(Slot)) {
        let mut removed = 0;
        for word in self.words.iter() {
            let slot = Slot(word.load(Relaxed));
            if slot.kind() != 0 && goes(slot) {
                self.before_change(word);
                word.store(0, Release);
                removed += 1;
                gone(slot);
            }
        }
        self.entries.give_back(removed, Relaxed);
    }

    /// What it is now is what [`Index::take_lines`] gives from now on, whatever changes meanwhile.
    pub(crate) fn begin_snapshot(&self) {
        self.snapshot.begin();
    }

    /// Lets go of what was kept for a snapshot that nobody takes any more.
    pub(crate) fn end_snapshot(&self) {
        self.snapshot.end();
    }

    /// Lines that are kept beside it for a snapshot.
    pub(crate) fn snapshot_lines(&self) -> usize {
        self.snapshot.kept()
    }

    /// The next lines as they were when the snapshot began, but for uses. From the first to the last, each
    /// once, under the lock of those who change the index.
    pub(crate) fn take_lines(&self, lines: Range<u64>, mut take: impl FnMut([u64; LINE_SLOTS])) {
        for line in lines {
            take(self.snapshot.take(line).unwrap_or_else(|| self.copy_of(line)));
        }
    }

    fn copy_of(&self, line: u64) -> [u64; LINE_SLOTS] {
        let mut copy = [0; LINE_SLOTS];
        copy.iter_mut().zip(self.line(line)).for_each(|(to, word)| *to = word.load(Relaxed));
        copy
    }

    /// Keeps the line of a word for the snapshot that is being taken, if one is.
    #[inline]
    fn before_change(&self, word: &AtomicU64) {
        if self.snapshot.is_begun() {
            let first = self.words.as_ptr() as usize;
            let line = ((std::ptr::from_ref(word) as usize - first) / 64) as u64;
            self.snapshot.keep(line, || self.copy_of(line));
        }
    }

    /// Takes over words of a checkpoint, from word `at` on.
    pub(crate) fn load(&self, at: usize, words: impl Iterator<Item = u64>) {
        let mut added = 0;
        for (word, value) in self.words.iter().skip(at).zip(words) {
            word.store(value, Relaxed);
            added += u64::from(value & 7 != 0);
        }
        self.entries.fetch_add(added, Relaxed);
    }

    fn place(&self, hash: u64) -> (u64, u64) {
        let tag = hash & ((1 << TAG_BITS) - 1);
        (tag, ((u128::from(hash) * u128::from(self.lines)) >> 64) as u64)
    }

    /// The other line of an entry with this tag; of the other, the one.
    fn other(&self, tag: u64, line: u64) -> u64 {
        let sum = ((u128::from(mixed(tag + 1)) * u128::from(self.lines)) >> 64) as u64;
        if sum >= line { sum - line } else { sum + self.lines - line }
    }

    fn line(&self, line: u64) -> &[AtomicU64] {
        let at = line as usize * LINE_SLOTS;
        self.words.get(at..at + LINE_SLOTS).unwrap_or(&[])
    }

    fn words_of(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let (tag, first) = self.place(hash);
        let second = self.other(tag, first);
        let second = if first == second { &[] } else { self.line(second) };
        self.line(first).iter().chain(second)
    }

    fn free_in(&self, line: u64) -> Option<&AtomicU64> {
        self.line(line).iter().find(|word| word.load(Relaxed) & 7 == 0)
    }

    /// Moves entries along until a slot of either line is free.
    fn make_room(&self, tag: u64, first: u64) -> Option<&AtomicU64> {
        let mut path: [(usize, u64); WALK_MAX] = [(0, 0); WALK_MAX];
        let mut random = self.walk.fetch_add(1, Relaxed);
        let mut line = if mixed(random) & 1 == 0 { first } else { self.other(tag, first) };
        for step in 0..WALK_MAX {
            random = mixed(random.wrapping_add(step as u64 + 1));
            let at = line as usize * LINE_SLOTS + (random as usize % LINE_SLOTS);
            let value = self.words.get(at)?.load(Relaxed);
            *path.get_mut(step)? = (at, value);
            line = self.other(Slot(value).tag(), line);
            if let Some(free) = self.free_in(line) {
                let taken = path.get(..=step)?;
                return self.shift(taken, free);
            }
        }
        None
    }

    /// Carries out moves, the last one into `free`; the first one's slot is free then.
    fn shift<'a>(&'a self, path: &[(usize, u64)], free: &'a AtomicU64) -> Option<&'a AtomicU64> {
        let mut to = free;
        for (at, expected) in path.iter().rev() {
            let from = self.words.get(*at)?;
            // A walk that crossed itself finds another entry there than it saw: what was moved so
            // far is where it belongs, and the insertion goes without.
            if from.load(Relaxed) != *expected || std::ptr::eq(from, to) {
                return None;
            }
            self.before_change(to);
            self.before_change(from);
            self.moves.shift(*expected, from, to);
            to = from;
        }
        Some(to)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({} of {} slots)", self.entries(), self.slots())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::head_kind;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn it_fills_to_nine_tenths_without_loss_at_under_9_4_bytes_an_entry() {
        let index = Index::new(20_000).expect("memory for the test");
        let count = index.slots() * 87 / 100;
        for at in 0..count {
            assert_eq!(index.insert(mixed(at), KIND_CHUNK, at, 3), Inserted::Added);
        }
        for at in 0..count {
            assert!(index.chunks(mixed(at)).iter().any(|slot| slot.units_at() == at), "{at}");
        }
        let bytes = index.bytes() as f64 / index.entries() as f64;
        assert!(bytes <= 9.4, "{bytes} bytes for each entry");
        let more = index.slots() * 95 / 100;
        let lost = (count..more)
            .filter(|at| {
                matches!(index.insert(mixed(*at), KIND_CHUNK, *at, 3), Inserted::Dropped(_))
            })
            .count();
        assert!(lost < 20, "{lost} were lost on the way to 95 %");
    }

    #[test]
    fn a_look_up_beside_moves_finds_what_is_there() {
        let index = Index::new(64).expect("memory for the test");
        // An interpreter takes another order with each seed.
        let (keys, rounds) = if cfg!(miri) { (60u64, 10u64) } else { (400, 20_000) };
        for at in 0..keys {
            index.insert(mixed(at), KIND_CHUNK, at, 1);
        }
        let there: Vec<u64> = (0..keys)
            .filter(|at| index.chunks(mixed(*at)).iter().any(|s| s.units_at() == *at))
            .collect();
        let stop = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..rounds {
                    let new = 1000 + round;
                    if let Inserted::Added = index.insert(mixed(new), KIND_CHUNK, new, 1) {
                        index.remove(mixed(new), new);
                    } else {
                        break;
                    }
                }
                stop.store(1, Relaxed);
            });
            while stop.load(Relaxed) == 0 {
                for at in &there {
                    let found = index.chunks(mixed(*at)).iter().any(|s| s.units_at() == *at);
                    assert!(found, "{at} was not seen while others moved");
                }
            }
        });
    }

    proptest! {
        #[test]
        fn it_is_a_map_of_the_newest_head_and_of_every_chunk(
            steps in prop::collection::vec((0u8..6, 0u64..40, 1u64..1 << 34, 1u32..2000), 1..200)
        ) {
            let index = Index::new(200).expect("memory for the test");
            let mut heads: HashMap<u64, u64> = HashMap::new();
            let mut chunks: HashMap<u64, Vec<u64>> = HashMap::new();
            for (what, key, at, units) in steps {
                let hash = mixed(key);
                match what {
                    0 | 1 => {
                        index.insert(hash, head_kind(0), at, units);
                        heads.insert(key, at);
                    }
                    2 => {
                        let known = chunks.entry(key).or_default();
                        if !known.contains(&at) && known.len() < 5 {
                            index.insert(hash, KIND_CHUNK, at, units);
                            known.push(at);
                        }
                    }
                    3 => {
                        index.remove_heads(hash, |_| {});
                        heads.remove(&key);
                    }
                    4 => if let Some(known) = chunks.get_mut(&key)
                        && let Some(last) = known.pop() {
                        prop_assert!(index.remove(hash, last).is_some());
                    },
                    _ => for slot in index.heads(hash).iter() {
                        index.touch(hash, slot);
                    },
                }
                for (key, at) in &heads {
                    let found: Vec<u64> = index.heads(mixed(*key)).iter().map(|slot| slot.units_at()).collect();
                    prop_assert_eq!(&found, &[*at]);
                }
                for (key, known) in &chunks {
                    let mut found: Vec<u64> = index.chunks(mixed(*key)).iter().map(|slot| slot.units_at()).collect();
                    let mut known = known.clone();
                    found.sort_unstable();
                    known.sort_unstable();
                    prop_assert_eq!(found, known);
                }
            }
            let entries = heads.len() + chunks.values().map(Vec::len).sum::<usize>();
            prop_assert_eq!(index.entries(), entries as u64);
        }
    }
}
