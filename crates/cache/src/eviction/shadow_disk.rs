//! A disk of names: segments, what is new and what is kept, without a byte.
//!
//! It decides by the [`Tactic`] a real disk is run by, so it answers what a disk of some size, run in
//! some way, would have had of what memory asked it for. Shown a sample of the keys it does so for a
//! disk as much larger.

use freshet_disk::budget::{Seen, Use};
use freshet_disk::tactic::{Held, Tactic, kept};
use std::collections::{HashMap, VecDeque};

/// A disk of names.
#[derive(Debug)]
pub struct ShadowDisk {
    tactic: Tactic,
    capacity_bytes: u64,
    segments_max: u64,
    index: HashMap<u64, Name>,
    /// Segments that are whole, of what is new and of what was kept, oldest first.
    sealed: [VecDeque<Segment>; 2],
    open: [Segment; 2],
    next_segment: u64,
    /// Bytes of all segments.
    used_bytes: u64,
    seen: Seen,
    written: ShadowWritten,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ShadowWritten {
    /// Bytes of objects that were let in.
    pub admitted_bytes: u64,
    /// Bytes of objects that were kept.
    pub kept_bytes: u64,
}

/// An object that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// A hash of its identity.
    pub fingerprint: u64,
    /// Where its key lies among all keys, evenly spread.
    pub point: u32,
    /// Its length.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    point: u32,
    bytes: u64,
    uses: u64,
    segment: u64,
}

#[derive(Debug, Default)]
struct Segment {
    number: u64,
    bytes: u64,
    names: Vec<u64>,
}

const NEW: usize = 0;
const KEPT: usize = 1;
/// As in the index of a disk.
const USES_MAX: u64 = 3;

impl ShadowDisk {
    /// An empty disk of `segments` segments that remembers fetches in `seen`.
    pub fn new(tactic: Tactic, capacity_bytes: u64, segments: u64, seen: Seen) -> Self {
        Self {
            tactic,
            capacity_bytes,
            segments_max: segments.max(4),
            index: HashMap::new(),
            sealed: Default::default(),
            open: [Segment::default(), Segment { number: 1, ..Segment::default() }],
            next_segment: 2,
            used_bytes: 0,
            seen,
            written: ShadowWritten::default(),
        }
    }

    /// An object that memory had not was asked for: whether it was here. If not it is fetched, and
    /// written where the tactic says so.
    pub fn request(&mut self, asked: Asked) -> bool {
        if let Some(name) = self.index.get_mut(&asked.fingerprint) {
            name.uses = (name.uses + 1).min(USES_MAX);
            return true;
        }
        let was_seen = self.seen.note(asked.fingerprint.into());
        self.offer(asked, Use { hits: 0, was_seen });
        false
    }

    /// An object was served from memory, so often since it came there.
    pub fn served(&mut self, asked: Asked, hits: u64) {
        if !self.index.contains_key(&asked.fingerprint) {
            self.offer(asked, Use { hits, was_seen: false });
        }
    }

    /// How it is run.
    pub fn tactic(&self) -> Tactic {
        self.tactic
    }

    /// Runs it in another way from now on.
    pub fn set_tactic(&mut self, tactic: Tactic) {
        self.tactic = tactic;
    }

    /// Objects that are in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What was written.
    pub fn written(&self) -> ShadowWritten {
        self.written
    }

    /// Forgets what is not in the sample below `point`, and is a disk of so many bytes from now on.
    pub fn keep_below(&mut self, point: u64, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
        self.index.retain(|_, name| u64::from(name.point) < point);
        self.used_bytes = 0;
        for segment in self.sealed.iter_mut().flatten().chain(&mut self.open) {
            let (number, index) = (segment.number, &self.index);
            let bytes_of = |fingerprint: &u64| {
                index.get(fingerprint).filter(|name| name.segment == number).map(|name| name.bytes)
            };
            segment.names.retain(|fingerprint| bytes_of(fingerprint).is_some());
            segment.bytes = segment.names.iter().filter_map(bytes_of).sum();
            self.used_bytes += segment.bytes;
        }
    }

    fn offer(&mut self, asked: Asked, shown: Use) {
        let bytes = asked.bytes;
        let is_filling = self.used_bytes + bytes + 2 * self.segment_bytes() <= self.capacity_bytes;
        if bytes <= self.capacity_bytes / 4 && self.tactic.admits(shown, is_filling) {
            self.written.admitted_bytes += bytes;
            self.append(NEW, asked);
            while self.used_bytes > self.capacity_bytes && self.reclaim() {}
        }
    }

    fn segment_bytes(&self) -> u64 {
        (self.capacity_bytes / self.segments_max).max(1)
    }

    fn append(&mut self, stream: usize, asked: Asked) {
        let Asked { fingerprint, point, bytes } = asked;
        let segment_bytes = self.segment_bytes();
        let open = &mut self.open[stream];
        if open.bytes > 0 && open.bytes + bytes > segment_bytes {
            let next = Segment { number: self.next_segment, ..Segment::default() };
            self.next_segment += 1;
            self.sealed[stream].push_back(std::mem::replace(open, next));
        }
        open.names.push(fingerprint);
        open.bytes += bytes;
        self.used_bytes += bytes;
        self.index.insert(fingerprint, Name { point, bytes, uses: 0, segment: open.number });
    }

    /// Frees a segment; false where there is none.
    fn reclaim(&mut self) -> bool {
        let new_segments = self.sealed[NEW].len() as u64 + 1;
        let first = if self.tactic.frees_new(new_segments, self.segments_max) { NEW } else { KEPT };
        let freed = self.sealed[first].pop_front().or_else(|| self.sealed[1 - first].pop_front());
        let Some(segment) = freed else { return false };
        self.used_bytes -= segment.bytes;
        let mut live = Vec::new();
        for fingerprint in segment.names {
            let is_here = |name: &Name| name.segment == segment.number;
            if self.index.get(&fingerprint).is_some_and(is_here)
                && let Some(Name { point, bytes, uses, .. }) = self.index.remove(&fingerprint)
            {
                live.push((Asked { fingerprint, point, bytes }, Held { bytes, uses }));
            }
        }
        let held: Vec<Held> = live.iter().map(|(_, held)| *held).collect();
        for at in kept(&held, self.tactic.kept_bytes_max(segment.bytes)) {
            if let Some((asked, held)) = live.get(at) {
                self.written.kept_bytes += held.bytes;
                self.append(KEPT, *asked);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_disk::tactic::TACTICS;

    fn disk() -> ShadowDisk {
        ShadowDisk::new(TACTICS[0], 1000, 50, Seen::with_slots(2000))
    }

    fn one(name: u64) -> Asked {
        Asked { fingerprint: name, point: (name as u32) << 20, bytes: 1 }
    }

    #[test]
    fn what_comes_once_is_written_while_there_is_room_and_not_after() {
        let mut disk = disk();
        (0..5000).for_each(|name| assert!(!disk.request(one(name))));
        let written = disk.written();
        assert!((950..=1000).contains(&written.admitted_bytes), "{written:?}");
        assert_eq!(written.kept_bytes, 0);
    }

    #[test]
    fn what_is_used_outlives_what_passes_twice() {
        let mut disk = disk();
        for round in 0..200 {
            for name in (0..100).chain(1000 + round * 50..1050 + round * 50) {
                disk.request(one(name));
                disk.served(one(name), 2);
            }
        }
        let had = (0..100).filter(|name| disk.request(one(*name))).count();
        assert!(had >= 95, "{had} of 100");
        assert!(disk.used_bytes <= 1000);
        let sum: u64 = disk.index.values().map(|name| name.bytes).sum();
        assert!(sum <= disk.used_bytes);
    }

    #[test]
    fn a_smaller_sample_is_a_smaller_disk() {
        let mut disk = disk();
        (0..900).for_each(|name| assert!(!disk.request(one(name))));
        disk.keep_below(450 << 20, 500);
        assert_eq!((disk.len(), disk.used_bytes), (450, 450));
        assert!((0..450).all(|name| disk.request(one(name))));
    }
}
