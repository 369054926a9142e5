//! Which bytes of a body are held, and where.

use crate::arena::Arena;
use crate::piece::{Lease, Piece};
use crate::prefetch::prefetch;
use std::sync::Arc;

/// Adjacent bytes of a body in one piece.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    /// Offset in the body.
    pub(super) offset: u64,
    pub(super) piece: Piece,
    /// Offset in the piece.
    start: u32,
    len: u32,
}

/// The held bytes, sorted by offset, never overlapping, none of them empty. Most bodies have one such
/// extent or none, which lies in the body itself: no allocation, and one place less to wait for.
#[derive(Debug, Default)]
pub(super) enum Extents {
    #[default]
    None,
    One(Extent),
    Many(Box<Many>),
}

/// Any number of extents.
#[derive(Debug, Default)]
pub(super) struct Many {
    list: Vec<Extent>,
    held_bytes: u64,
}

impl Extent {
    /// The offset after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Whether these bytes of a piece come right after, in the body and in the same piece.
    fn is_followed_by(&self, offset: u64, piece: &Piece, start: u32) -> bool {
        self.end() == offset && self.start + self.len == start && self.piece.is_same(piece)
    }

    /// All bytes of the extent.
    pub(super) fn lease(&self) -> Lease {
        self.piece.lease(self.start, self.len)
    }
}

impl Extents {
    /// Adds `len` published bytes of `piece` from `start` on at `offset`. Bytes that are held
    /// already are left out.
    pub(super) fn add(&mut self, mut offset: u64, piece: &Piece, mut start: u32, mut len: u32) {
        while len > 0 {
            let at = self.after(offset);
            let gap = self.list().get(at).map_or(u64::MAX, |next| next.offset - offset);
            let before = at.checked_sub(1).and_then(|at| self.list().get(at));
            let step = match before {
                Some(held) if held.end() > offset => fit(held.end() - offset, len),
                Some(held) if held.is_followed_by(offset, piece, start) => {
                    let step = fit(gap, len);
                    self.lengthen(at - 1, step);
                    step
                }
                _ => {
                    let step = fit(gap, len);
                    self.insert(at, Extent { offset, piece: piece.clone(), start, len: step });
                    step
                }
            };
            offset += u64::from(step);
            start += step;
            len -= step;
        }
    }

    /// Moves the extents for which `unneeded` is true to `out`. It is asked in order.
    pub(super) fn release(
        &mut self,
        mut unneeded: impl FnMut(&Extent) -> bool,
        out: &mut Vec<Extent>,
    ) {
        match self {
            Self::None => {}
            Self::One(extent) if !unneeded(extent) => {}
            Self::One(_) => {
                if let Self::One(extent) = std::mem::take(self) {
                    out.push(extent);
                }
            }
            Self::Many(many) => {
                let before = out.len();
                out.extend(many.list.extract_if(.., |extent| unneeded(extent)));
                let freed = out[before..].iter().map(|extent| u64::from(extent.len));
                many.held_bytes -= freed.sum::<u64>();
            }
        }
    }

    /// The first extent that is not in `arena`.
    pub(super) fn first_outside(&self, arena: &Arc<Arena>) -> Option<&Extent> {
        self.list().iter().find(|extent| !extent.piece.is_in(arena))
    }

    /// Has the bytes of `old`, if that is still there as it was, come from the beginning of `to`,
    /// which has the same bytes. Returns the piece that is not used any more.
    pub(super) fn replace(&mut self, old: &Extent, to: Piece) -> Piece {
        let at = self.after(old.offset).checked_sub(1);
        match at.and_then(|at| self.list_mut().get_mut(at)) {
            Some(extent)
                if extent.offset == old.offset
                    && extent.len == old.len
                    && extent.piece.is_same(&old.piece) =>
            {
                extent.start = 0;
                std::mem::replace(&mut extent.piece, to)
            }
            _ => to,
        }
    }

    /// Gives back what the list does not need.
    pub(super) fn compact(&mut self) {
        let Self::Many(many) = self else { return };
        if many.list.len() > 1 {
            return many.list.shrink_to_fit();
        }
        *self = many.list.pop().map_or(Self::None, Self::One);
    }

    /// At most `max` bytes from `position` on, in one piece.
    pub(super) fn lease(&self, position: u64, max: u64) -> Option<Lease> {
        let extent = self.at(position)?;
        let skip = (position - extent.offset) as u32;
        let len = fit(max, extent.len - skip);
        Some(extent.piece.lease(extent.start + skip, len))
    }

    /// Asks for what a lease of the first bytes needs: their piece, or the list where there are more.
    pub(super) fn prefetch(&self) {
        match self {
            Self::None => {}
            Self::One(extent) => extent.piece.prefetch(),
            Self::Many(many) => prefetch(many.list.as_slice()),
        }
    }

    /// The extent that has the byte at `position`.
    pub(super) fn at(&self, position: u64) -> Option<&Extent> {
        let extent = self.list().get(self.after(position).checked_sub(1)?)?;
        (extent.end() > position).then_some(extent)
    }

    /// The first extent that begins after `position`.
    pub(super) fn next_after(&self, position: u64) -> Option<&Extent> {
        self.list().get(self.after(position))
    }

    /// Where the last bytes end that begin at `position` or before it.
    pub(super) fn end_before(&self, position: u64) -> u64 {
        let before = self.after(position).checked_sub(1).and_then(|at| self.list().get(at));
        before.map_or(0, Extent::end)
    }

    /// Where the bytes begin that are held without a gap up to `position`; `position` itself where
    /// the byte before it is not held.
    pub(super) fn run_start(&self, position: u64) -> u64 {
        let before = self.list().partition_point(|extent| extent.offset < position);
        let backwards = self.list()[..before].iter().rev();
        backwards
            .fold(position, |start, held| if held.end() >= start { held.offset } else { start })
    }

    /// The only extent.
    pub(super) fn only(&self) -> Option<&Extent> {
        let [extent] = self.list() else { return None };
        Some(extent)
    }

    /// The offset after the last byte held.
    pub(super) fn end(&self) -> u64 {
        self.list().last().map_or(0, Extent::end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.list().iter()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(extent) => extent.len.into(),
            Self::Many(many) => many.held_bytes,
        }
    }

    /// The index of the first extent that begins after `position`.
    fn after(&self, position: u64) -> usize {
        self.list().partition_point(|extent| extent.offset <= position)
    }

    fn list(&self) -> &[Extent] {
        match self {
            Self::None => &[],
            Self::One(extent) => std::slice::from_ref(extent),
            Self::Many(many) => &many.list,
        }
    }

    fn list_mut(&mut self) -> &mut [Extent] {
        match self {
            Self::None => &mut [],
            Self::One(extent) => std::slice::from_mut(extent),
            Self::Many(many) => &mut many.list,
        }
    }

    fn insert(&mut self, at: usize, extent: Extent) {
        let mut many = match std::mem::take(self) {
            Self::None => {
                *self = Self::One(extent);
                return;
            }
            Self::One(first) => Box::new(Many { held_bytes: first.len.into(), list: vec![first] }),
            Self::Many(many) => many,
        };
        // Most bodies have three at most: grow by one until four, then as usual.
        if many.list.len() < 4 {
            many.list.reserve_exact(1);
        }
        many.held_bytes += u64::from(extent.len);
        many.list.insert(at, extent);
        *self = Self::Many(many);
    }

    /// Adds bytes to the end of one extent.
    fn lengthen(&mut self, at: usize, by: u32) {
        self.list_mut()[at].len += by;
        if let Self::Many(many) = self {
            many.held_bytes += u64::from(by);
        }
    }
}

/// The smaller of both, which fits the type of `len`.
fn fit(room: u64, len: u32) -> u32 {
    u32::try_from(room).map_or(len, |room| room.min(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_came_first_stays_and_gaps_are_filled(
            writes in prop::collection::vec((0u64..600, 1u32..200), 1..30)
        ) {
            let arena = Arena::new(8 << 20).expect("8 MiB are enough");
            let mut extents = Extents::default();
            let mut model = [None; 1000];
            for (number, (offset, len)) in writes.into_iter().enumerate() {
                let mut piece = arena.allocate(256).expect("memory is free");
                piece.spare().fill(number as u8);
                // Two commits of one piece join into one extent where nothing is between them.
                for part in [len / 2, len - len / 2] {
                    let start = piece.published();
                    piece.publish(part as usize);
                    extents.add(offset + u64::from(start), &piece.share(), start, part);
                }
                for slot in &mut model[offset as usize..offset as usize + len as usize] {
                    slot.get_or_insert(number as u8);
                }
            }
            let held = model.iter().flatten().count() as u64;
            prop_assert_eq!(extents.held_bytes(), held);
            for (position, want) in model.iter().enumerate() {
                let got = extents.lease(position as u64, 1).map(|lease| lease[0]);
                prop_assert_eq!(got, *want);
            }
            let in_order = extents.list().windows(2).all(|pair| pair[0].end() <= pair[1].offset);
            prop_assert!(in_order);
            let mut out = Vec::new();
            extents.release(|_| true, &mut out);
            prop_assert_eq!(extents.held_bytes(), 0);
        }
    }

    #[test]
    fn commits_of_one_piece_are_one_extent() {
        let arena = Arena::new(8 << 20).expect("8 MiB are enough");
        let mut piece = arena.allocate(16384).expect("memory is free");
        let mut extents = Extents::default();
        for step in 0..4 {
            piece.publish(100);
            extents.add(step * 100, &piece.share(), step as u32 * 100, 100);
        }
        assert_eq!(extents.list().len(), 1);
        assert_eq!(extents.lease(50, 1000).map(|lease| lease.len()), Some(350));
    }
}
