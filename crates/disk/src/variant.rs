//! Under which kind the index has a variant.
//!
//! Heads of responses that vary have [`VARIANTS_MAX`] kinds for each resource. The index does not know which
//! variant is under which; the records say so. So the one that writes looks at those that are there: a
//! variant takes the place of what is older of the same, else a kind that is free, and where none is
//! that of the one that was written longest ago. The record remembers its kind, so that a start comes
//! to the same.

use super::limits::VARIANTS_MAX;
use super::reclaim::read_head;
use super::record::{Kind, RecordHead};
use super::segment::Entry;
use super::slot::{KIND_HEAD, head_kind};
use super::writer::Writer;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Kinds of heads of responses that vary.
const KINDS: RangeInclusive<u8> = KIND_HEAD + 1..=KIND_HEAD + VARIANTS_MAX;

/// Whether a head of a variant may be under this kind.
pub(super) fn is_of_variants(kind: u8) -> bool {
    KINDS.contains(&kind)
}

/// Variants that are written, or about to be, and not in the index yet, by hash and kind: as many as buffers
/// have records at most.
#[derive(Debug, Default)]
pub(super) struct Unindexed(BTreeMap<(u64, u8), Coming>);

#[derive(Clone, Copy, Debug)]
struct Coming {
    segment: u32,
    seq: u64,
    variant: u64,
}

impl Unindexed {
    /// Takes note of a record that was appended to a segment.
    pub(super) fn add(&mut self, segment: u32, head: &RecordHead, entry: &Entry) {
        if head.kind == Kind::Head && head.variant != 0 {
            let coming = Coming { segment, seq: entry.seq, variant: head.variant };
            self.0.insert((entry.hash, entry.kind), coming);
        }
    }

    /// Takes note that records are in the index now.
    pub(super) fn indexed(&mut self, entries: &[Entry]) {
        for entry in entries.iter().filter(|entry| is_of_variants(entry.kind)) {
            let place = (entry.hash, entry.kind);
            if self.0.get(&place).is_some_and(|coming| coming.seq == entry.seq) {
                self.0.remove(&place);
            }
        }
    }

    /// Takes note that what was appended to a segment will not be in the index.
    pub(super) fn lost(&mut self, segment: u32) {
        self.0.retain(|_, coming| coming.segment != segment);
    }
}

/// What is under a kind.
struct There {
    kind: u8,
    /// 0 where it is of another resource, which looks the same to the index, or cannot be read.
    variant: u64,
    seq: u64,
}

impl Writer {
    /// The kind a head is to have in the index. Reads the heads of the resource's other variants.
    pub(super) fn kind_for(&self, head: &RecordHead) -> u8 {
        if head.variant == 0 {
            return KIND_HEAD;
        }
        let there = self.variants_of(head);
        if let Some(same) = there.iter().find(|one| one.variant == head.variant) {
            return same.kind;
        }
        let is_free = |kind: &u8| there.iter().all(|one| one.kind != *kind);
        let free = [head_kind(head.variant)].into_iter().chain(KINDS).find(is_free);
        let oldest = || there.iter().min_by_key(|one| one.seq).map(|one| one.kind);
        free.or_else(oldest).unwrap_or(KIND_HEAD + 1)
    }

    fn variants_of(&self, head: &RecordHead) -> Vec<There> {
        let hash = head.index_hash();
        let coming = self.unindexed.0.range((hash, *KINDS.start())..=(hash, *KINDS.end()));
        let mut there: Vec<There> = coming
            .map(|((_, kind), coming)| There {
                kind: *kind,
                variant: coming.variant,
                seq: coming.seq,
            })
            .collect();
        let unit = u64::from(self.volume.geometry().unit_bytes);
        let slots = self.volume.index().heads(hash);
        for slot in slots.iter().filter(|slot| is_of_variants(slot.kind())) {
            if there.iter().any(|one| one.kind == slot.kind()) {
                continue;
            }
            let (variant, seq) = match read_head(&self.volume, slot.units_at() * unit) {
                Some(found) if found.key == head.key => (found.variant, found.seq),
                Some(other) => (0, other.seq),
                None => (0, 0),
            };
            there.push(There { kind: slot.kind(), variant, seq });
        }
        there
    }
}
