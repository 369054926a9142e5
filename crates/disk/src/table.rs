//! What a volume knows of its segments.

use super::codec::{Put, Reader};
use super::geometry::{Geometry, SEGMENT_ENTRY_BYTES};
use super::tactic::Tactic;

/// Segments that are free before one is opened for what is new.
pub(crate) const FREE_WANTED: u32 = 2;

/// What a segment is used for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SegmentState {
    /// Nothing.
    #[default]
    Free,
    /// It is being written.
    Open,
    /// It is whole.
    Sealed,
    /// A part of it could not be read or written. It is tried when its turn comes.
    Retired,
}

/// One segment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SegmentInfo {
    pub(crate) state: SegmentState,
    /// The number of its opening; 0 where it never was opened.
    pub(crate) seq: u64,
    /// Units written.
    pub(crate) used_units: u32,
    /// Units of records the index leads to.
    pub(crate) live_units: u32,
    /// Below the number at which the fetch of any object in it began; 0 where that is not known.
    pub(crate) oldest_born: u64,
    /// Whether it is of what was kept, and not of what was new.
    pub(crate) is_kept: bool,
    /// When its turn came and a part of it still failed, in the order of openings; 0 where that never was in
    /// this process.
    pub(crate) tried_seq: u64,
}

impl SegmentInfo {
    /// Nothing was written yet since it was opened with this number.
    pub(crate) fn opened(seq: u64) -> Self {
        Self { state: SegmentState::Open, seq, oldest_born: u64::MAX, ..Self::default() }
    }

    /// Whether less than a fifth of it is live.
    fn is_dead(&self) -> bool {
        self.state == SegmentState::Sealed
            && u64::from(self.live_units) * 5 < u64::from(self.used_units)
    }

    /// Notes that an object is in it whose fetch began then.
    pub(crate) fn note_born(&mut self, born: u64) {
        self.oldest_born = self.oldest_born.min(born);
    }
}

/// All segments of a volume.
#[derive(Clone, Debug)]
pub(crate) struct SegmentTable {
    segments: Vec<SegmentInfo>,
}

impl SegmentTable {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        Self { segments: vec![SegmentInfo::default(); geometry.segments as usize] }
    }

    pub(crate) fn get(&self, segment: u32) -> SegmentInfo {
        self.segments.get(segment as usize).copied().unwrap_or_default()
    }

    pub(crate) fn change(&mut self, segment: u32, change: impl FnOnce(&mut SegmentInfo)) {
        if let Some(info) = self.segments.get_mut(segment as usize) {
            change(info);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, SegmentInfo)> + '_ {
        self.segments.iter().enumerate().map(|(at, info)| (at as u32, *info))
    }

    pub(crate) fn count(&self, state: SegmentState) -> u32 {
        self.segments.iter().filter(|info| info.state == state).count() as u32
    }

    /// A free segment.
    pub(crate) fn free(&self) -> Option<u32> {
        self.iter().find(|(_, info)| info.state == SegmentState::Free).map(|(at, _)| at)
    }

    /// Whether the next segment to be written costs nothing that is stored.
    pub(crate) fn is_filling(&self) -> bool {
        self.count(SegmentState::Free) > FREE_WANTED || self.iter().any(|(_, info)| info.is_dead())
    }

    /// The segment to be freed next: one of which less than a fifth is live, or the oldest, of what is
    /// new or of what was kept as the tactic says. One that was given up may be good again, and is tried once each
    /// time the log goes round.
    pub(crate) fn victim(&self, tactic: &Tactic) -> Option<u32> {
        let of_state = |state| self.iter().filter(move |(_, info)| info.state == state);
        let sealed = || of_state(SegmentState::Sealed);
        let oldest_seq = sealed().map(|(_, info)| info.seq).min().unwrap_or(0);
        let may_be_good = |info: &SegmentInfo| info.tried_seq == 0 || info.tried_seq < oldest_seq;
        let given_up = of_state(SegmentState::Retired).filter(|(_, info)| may_be_good(info));
        let dead = sealed()
            .filter(|(_, info)| info.is_dead())
            .min_by_key(|(_, info)| (info.live_units, info.seq));
        let new = sealed().filter(|(_, info)| !info.is_kept).count() as u64;
        let frees_new = tactic.frees_new(new, self.segments.len() as u64);
        let oldest =
            sealed().chain(given_up).min_by_key(|(_, info)| (info.is_kept == frees_new, info.seq));
        dead.or(oldest).map(|(at, _)| at)
    }

    /// The number at which the fetch of the oldest object began that may be found, or an earlier
    /// one. What is in segments that were given up does not count: it would stay for ever.
    pub(crate) fn oldest_born(&self) -> u64 {
        let counts = |info: &SegmentInfo| match info.state {
            SegmentState::Open => true,
            SegmentState::Sealed => info.live_units > 0,
            SegmentState::Free | SegmentState::Retired => false,
        };
        let born = self.segments.iter().filter(|info| counts(info)).map(|info| info.oldest_born);
        born.min().unwrap_or(u64::MAX)
    }

    /// Leaves an open segment as it is, for want of space. One at a time of those without anything
    /// in them is tried again, when it is the oldest: that is why the others are as new as it.
    pub(crate) fn leave_short(&mut self, segment: u32) {
        let seq = self.get(segment).seq;
        self.change(segment, |info| {
            if info.state == SegmentState::Open {
                info.state = SegmentState::Sealed;
            }
        });
        for info in &mut self.segments {
            if info.state == SegmentState::Sealed && info.used_units + info.live_units == 0 {
                info.seq = info.seq.max(seq);
            }
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for info in &self.segments {
            let start = out.len();
            out.put_u8(match info.state {
                SegmentState::Free => 0,
                SegmentState::Open => 1,
                SegmentState::Sealed => 2,
                SegmentState::Retired => 3,
            });
            out.put_u8(info.is_kept.into());
            out.resize(start + 8, 0);
            out.put_u64(info.seq);
            out.put_u32(info.used_units);
            out.put_u32(info.live_units);
            out.put_u64(info.oldest_born);
            out.resize(start + SEGMENT_ENTRY_BYTES as usize, 0);
        }
    }

    pub(crate) fn parse(bytes: &[u8], geometry: &Geometry) -> Option<Self> {
        let mut entries = bytes.chunks_exact(SEGMENT_ENTRY_BYTES as usize);
        let units_max = (geometry.segment_bytes / u64::from(geometry.unit_bytes)) as u32;
        let segments = (0..geometry.segments).map(|_| {
            let mut from = Reader::new(entries.next()?);
            let state = match from.u8()? {
                0 => SegmentState::Free,
                1 => SegmentState::Open,
                2 => SegmentState::Sealed,
                3 => SegmentState::Retired,
                _ => return None,
            };
            let is_kept = from.u8()? == 1;
            from.bytes(6)?;
            Some(SegmentInfo {
                state,
                seq: from.u64()?,
                used_units: from.u32()?.min(units_max),
                live_units: from.u32()?.min(units_max),
                oldest_born: from.u64()?,
                is_kept,
                tried_seq: 0,
            })
        });
        Some(Self { segments: segments.collect::<Option<_>>()? })
    }
}
