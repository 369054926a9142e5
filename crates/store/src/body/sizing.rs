//! How long a writer's next piece should be.

use crate::arena::Need;
use crate::limits::{
    PAGE_BYTES, PIECE_BYTES_MAX, PIECE_BYTES_MIN, SLAB_BYTES_MAX, TRANSIT_PIECE_BYTES_MAX,
};

const PAGE: u32 = PAGE_BYTES as u32;

/// Up to this many pages the parts of a run that is not to be had in one may be a quarter of it, and of
/// longer ones a sixteenth.
const QUARTERED_PAGES_MAX: u32 = 16;

/// A tail gets a part of a page instead of a page where that saves more than this part of the whole.
const WORTHWHILE_PART: u64 = 1024;

/// What the writer knows about the bytes to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// Bytes until the end of the gap, where that is known.
    pub(super) gap_bytes: Option<u64>,
    /// Bytes this writer has brought.
    pub(super) written_bytes: u64,
    /// How many bytes the caller would like to write now.
    pub(super) hint_bytes: usize,
    /// How much may be unread, in transit.
    pub(super) window_bytes: Option<u64>,
}

/// The piece to ask for.
///
/// A body of known length gets a run of pages, and a part of a page for its tail where a page would
/// waste much: 72,000 bytes are 17 pages and 2,432 bytes of a page; 1,000,000 are 244 pages and 576
/// bytes of one. When nothing is known, pieces double from 16 KiB.
pub(super) fn need(outlook: Outlook) -> Need {
    let best = match (outlook.window_bytes, outlook.gap_bytes) {
        (Some(window), gap) => {
            // Two to a window, so that memory comes back while it is read.
            (window / 2).min(gap.unwrap_or(u64::MAX)).min(TRANSIT_PIECE_BYTES_MAX.into()) as u32
        }
        (None, None) => doubled(outlook),
        (None, Some(gap)) => exact(gap),
    };
    let best_pages = best.div_ceil(PAGE);
    if best <= SLAB_BYTES_MAX {
        return Need { best, good: best, least: best };
    }
    if outlook.window_bytes.is_some() {
        let least = best.min(PIECE_BYTES_MIN);
        return Need { best, good: least, least };
    }
    if best_pages > QUARTERED_PAGES_MAX {
        let good = (best / 16).max(PIECE_BYTES_MIN);
        return Need { best, good, least: 2 * PAGE };
    }
    Need { best, good: best_pages.div_ceil(4) * PAGE, least: PAGE }
}

/// Pieces of a body of unknown length: as much again as was written.
fn doubled(outlook: Outlook) -> u32 {
    let hint = u64::try_from(outlook.hint_bytes).unwrap_or(u64::MAX);
    let range = u64::from(PIECE_BYTES_MIN)..=u64::from(PIECE_BYTES_MAX);
    let wanted = outlook.written_bytes.max(hint).clamp(*range.start(), *range.end());
    (wanted as u32).next_power_of_two()
}

/// The first piece of `bytes` that are known to come.
fn exact(bytes: u64) -> u32 {
    if bytes <= u64::from(SLAB_BYTES_MAX) {
        return bytes as u32;
    }
    let tail = bytes % PAGE_BYTES;
    let has_part = (1..=u64::from(SLAB_BYTES_MAX)).contains(&tail)
        && (PAGE_BYTES - tail) * WORTHWHILE_PART > bytes;
    let pages = if has_part { bytes / PAGE_BYTES } else { bytes.div_ceil(PAGE_BYTES) };
    pages.min(u64::from(PIECE_BYTES_MAX) / PAGE_BYTES) as u32 * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{TRANSIT_WINDOW_BYTES_LEAST, TRANSIT_WINDOW_BYTES_MIN};

    /// The best pieces of a body of known length.
    fn pieces(total: u64) -> Vec<u32> {
        let mut written_bytes = 0;
        let mut pieces = Vec::new();
        while written_bytes < total {
            let gap_bytes = total - written_bytes;
            let outlook = Outlook {
                gap_bytes: Some(gap_bytes),
                written_bytes,
                hint_bytes: 16 << 10,
                window_bytes: None,
            };
            let best = need(outlook).best;
            pieces.push(best);
            written_bytes += u64::from(best).min(gap_bytes);
        }
        pieces
    }

    #[test]
    fn known_lengths_are_cut_with_little_waste() {
        assert_eq!(pieces(100), [100]);
        assert_eq!(pieces(4097), [4096, 1]);
        assert_eq!(pieces(5 * 4096), [5 * 4096]);
        assert_eq!(pieces(20_000), [4 * 4096, 3616]);
        assert_eq!(pieces(72_000), [17 * 4096, 2368]);
        assert_eq!(pieces(1_000_000), [244 * 4096, 576]);
        assert_eq!(pieces(1 << 20), [1 << 20]);
        for total in (1..3_000_000).step_by(997) {
            let pieces = pieces(total);
            let rounded = |piece: &u32| u64::from(piece.next_multiple_of(128));
            let rounded: u64 = pieces.iter().map(rounded).sum();
            assert!(rounded <= total + total / WORTHWHILE_PART + 128, "{total}: {pieces:?}");
            assert!(pieces.len() as u64 <= 2 + total / (1 << 20), "{total}: {pieces:?}");
        }
    }

    #[test]
    fn unknown_lengths_double_and_transit_stays_small() {
        let outlook = |written_bytes, window_bytes| Outlook {
            gap_bytes: None,
            written_bytes,
            hint_bytes: 1,
            window_bytes,
        };
        assert_eq!(need(outlook(0, None)).best, PIECE_BYTES_MIN);
        assert_eq!(need(outlook(100_000, None)).best, 128 << 10);
        assert_eq!(need(outlook(1 << 40, None)).best, PIECE_BYTES_MAX);
        let transit = Need { best: 64 << 10, good: 16 << 10, least: 16 << 10 };
        assert_eq!(need(outlook(1 << 40, Some(TRANSIT_WINDOW_BYTES_MIN))), transit);
        let short = Need { best: 16 << 10, good: 16 << 10, least: 16 << 10 };
        assert_eq!(need(outlook(1 << 40, Some(TRANSIT_WINDOW_BYTES_LEAST))), short);
    }
}
