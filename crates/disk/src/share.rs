//! What all objects of one share, as those of a site, may have of the disks together.
//!
//! Each record says of which share it is, and so does the footer of its segment. Shares with a bound are counted: what
//! their records take of the log, from when they are appended until their segment is freed, or all that the
//! share has is purged. At its bound nothing new of a share is let in, until the log has come round to what it has;
//! others lose nothing to it. What a process before wrote, or was written before there was a bound, is counted by the
//! footers, a segment at a time, by the thread of the disk beside its other work ([`super::recount`]).

use super::purges::{Purges, Target, Verdict};
use super::segment::Entry;
use super::slot::KIND_CHUNK;
use super::superblock::Uuid;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bits of a share's number: what is left of a word of a footer beside the kind of a record.
const NUMBER_BITS: u32 = 56;

/// The number of the share of what all has this tag; 0, which is no share, for nothing else in 2^56.
pub fn share_of(tag: u64) -> u64 {
    tag & ((1 << NUMBER_BITS) - 1)
}

/// The shares with a bound, by number; of all disks of a node.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bounded: HashMap<u64, Share>,
    /// How many times there were new ones.
    round: u64,
}

#[derive(Debug)]
struct Share {
    /// That all it has is purged by.
    tag: u64,
    bytes_max: u64,
    bytes: u64,
    /// Of it, by segment of a disk.
    of_segments: HashMap<Place, u64>,
    /// The round in which it came.
    round: u64,
}

/// A segment of a disk.
pub(crate) type Place = (Uuid, u32);

impl Share {
    /// Has a segment counted with so many bytes.
    fn set(&mut self, place: Place, bytes: u64) {
        let before = match bytes {
            0 => self.of_segments.remove(&place),
            _ => self.of_segments.insert(place, bytes),
        };
        self.bytes = self.bytes + bytes - before.unwrap_or(0);
    }
}

impl Shares {
    /// Bounds by the tag that all of a share has, in bytes over all disks, in the place of those before. O(bounds).
    pub(crate) fn set(&self, bounds: &[(u64, u64)]) {
        let mut inner = self.lock();
        let wanted: HashMap<u64, (u64, u64)> =
            bounds.iter().map(|(tag, bytes_max)| (share_of(*tag), (*tag, *bytes_max))).collect();
        inner.bounded.retain(|number, _| wanted.contains_key(number));
        let round = inner.round + 1;
        for (number, (tag, bytes_max)) in wanted {
            let new = || Share { tag, bytes_max, bytes: 0, of_segments: HashMap::new(), round };
            inner.bounded.entry(number).or_insert_with(new).bytes_max = bytes_max;
        }
        if inner.bounded.values().any(|share| share.round == round) {
            inner.round = round;
        }
    }

    /// Bytes of the share of this tag, where it has a bound.
    pub(crate) fn bytes(&self, tag: u64) -> Option<u64> {
        self.lock().bounded.get(&share_of(tag)).map(|share| share.bytes)
    }

    /// Whether a share may have so many bytes more; one without a bound always.
    pub(crate) fn has_room(&self, number: u64, bytes: u64) -> bool {
        let inner = self.lock();
        let share = inner.bounded.get(&number);
        share.is_none_or(|share| share.bytes.saturating_add(bytes) <= share.bytes_max)
    }

    /// A record of a share was appended to a segment.
    pub(crate) fn appended(&self, number: u64, place: Place, bytes: u64) {
        if let Some(share) = self.lock().bounded.get_mut(&number) {
            let there = share.of_segments.get(&place).copied().unwrap_or(0);
            share.set(place, there + bytes);
        }
    }

    /// A segment has nothing any more.
    pub(crate) fn freed(&self, place: Place) {
        self.lock().bounded.values_mut().for_each(|share| share.set(place, 0));
    }

    /// All of a share is purged, or of all of them.
    pub(crate) fn purged(&self, target: Target) {
        for share in self.lock().bounded.values_mut() {
            if target == Target::Tag(share.tag) || target == Target::All {
                (share.bytes, share.of_segments) = (0, HashMap::new());
            }
        }
    }

    /// The last round: how many times shares came.
    pub(crate) fn round(&self) -> u64 {
        self.lock().round
    }

    /// Counts a segment by the entries of its footer, for the shares that came after a round.
    pub(crate) fn found(
        &self,
        place: Place,
        entries: &[Entry],
        unit_bytes: u64,
        after: u64,
        purges: &Purges,
    ) {
        let mut inner = self.lock();
        let floor = purges.floors().any;
        // Once through the entries, however many shares there are: who lets something in waits meanwhile.
        let mut units: HashMap<u64, u64> = HashMap::new();
        for entry in entries {
            let share = inner.bounded.get(&entry.share).filter(|share| share.round > after);
            let Some(share) = share else { continue };
            // A chunk does not say when its fetch began.
            let born = if entry.kind == KIND_CHUNK { entry.seq } else { entry.born };
            let is_purged = || purges.verdict(entry.hash, &[share.tag], born) == Verdict::Purged;
            if born >= floor && !is_purged() {
                *units.entry(entry.share).or_default() += u64::from(entry.units);
            }
        }
        for (number, share) in inner.bounded.iter_mut().filter(|(_, share)| share.round > after) {
            share.set(place, units.get(number).copied().unwrap_or(0) * unit_bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a disk has counted what it had of shares before they had a bound.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// The last round of which all is counted.
    pub(crate) done: u64,
    /// The round that is counted now, and the next segment.
    pub(crate) under_way: Option<(u64, u32)>,
}

#[cfg(test)]
mod tests {
    use super::super::slot::KIND_HEAD;
    use super::*;

    const TV: u64 = 0xab00_0000_0000_0007;

    #[test]
    fn a_share_counts_what_it_has_and_gives_back_what_goes() {
        let shares = Shares::default();
        let (place, other) = ((Uuid::random(), 1), (Uuid::random(), 1));
        shares.appended(share_of(TV), place, 10);
        assert_eq!(shares.bytes(TV), None);
        shares.set(&[(TV, 100)]);
        shares.appended(share_of(TV), place, 60);
        shares.appended(share_of(TV), other, 30);
        shares.appended(share_of(8), place, 1000);
        assert_eq!(shares.bytes(TV), Some(90));
        assert!(shares.has_room(share_of(TV), 10) && !shares.has_room(share_of(TV), 11));
        assert!(shares.has_room(share_of(8), u64::MAX), "it has no bound");
        shares.freed(place);
        assert_eq!(shares.bytes(TV), Some(30));
        shares.set(&[(TV, 20)]);
        assert_eq!(shares.bytes(TV), Some(30), "another bound changes nothing of what it has");
        assert!(!shares.has_room(share_of(TV), 0));
        shares.purged(Target::Tag(8));
        assert_eq!(shares.bytes(TV), Some(30));
        shares.purged(Target::Tag(TV));
        assert_eq!(shares.bytes(TV), Some(0));
        shares.set(&[]);
        assert_eq!(shares.bytes(TV), None);
    }

    #[test]
    fn what_was_there_before_a_bound_is_counted_once_but_for_what_was_purged() {
        let (shares, purges) = (Shares::default(), Purges::new(8));
        let place = (Uuid::random(), 3);
        let of = |tag, born| Entry {
            hash: born,
            seq: born,
            born,
            units_at: 0,
            units: 2,
            kind: KIND_HEAD,
            share: share_of(tag),
        };
        let entries = [of(TV, 5), of(TV, 20), of(8, 20)];
        purges.note(crate::purges::Mark { target: Target::Tag(TV), seq: 10, soft: None });
        shares.set(&[(TV, 100)]);
        for _ in 0..2 {
            shares.found(place, &entries, 512, 0, &purges);
            assert_eq!(shares.bytes(TV), Some(1024));
        }
        // Of those that are counted already nothing is counted anew.
        shares.set(&[(TV, 100), (8, 100)]);
        shares.appended(share_of(TV), place, 1);
        shares.found(place, &entries, 512, 1, &purges);
        assert_eq!((shares.bytes(TV), shares.bytes(8)), (Some(1025), Some(1024)));
    }
}
