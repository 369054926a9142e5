//! What disks have of a body, as its owner knows it.
//!
//! A disk forgets by itself: its log goes round. So what is known is of a generation, a number that
//! changes whenever something stored may have gone (`freshet_disk::Disks::generation`), and is looked
//! at anew in the next one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Whether a disk has a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// None took it when it was offered in this generation; 0 where it never was.
    Refused(u32),
    /// One is about to write it.
    Waits,
    /// One has it.
    Kept {
        /// When it was looked for; 0 where nobody has since it was begun.
        generation: u32,
        /// Under what the disk tells it from others of its resource; 0 where that is not known.
        kind: u8,
    },
    /// It is not for disks.
    Exempt,
}

/// A [`Standing`] that all may change, and the number under which a disk has the body.
#[derive(Debug, Default)]
pub(super) struct SharedStanding {
    word: AtomicU64,
    number: AtomicU64,
}

const STANDING_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = 40;

impl SharedStanding {
    pub(super) fn get(&self) -> Standing {
        let word = self.word.load(Relaxed);
        let generation = word as u32;
        match word >> STANDING_SHIFT & 0xff {
            0 => Standing::Refused(generation),
            1 => Standing::Waits,
            2 => Standing::Kept { generation, kind: (word >> KIND_SHIFT) as u8 },
            _ => Standing::Exempt,
        }
    }

    pub(super) fn set(&self, standing: Standing) {
        let (number, generation, kind) = match standing {
            Standing::Refused(generation) => (0, generation, 0),
            Standing::Waits => (1, 0, 0),
            Standing::Kept { generation, kind } => (2, generation, kind),
            Standing::Exempt => (3, 0, 0),
        };
        let place = u64::from(kind) << KIND_SHIFT | number << STANDING_SHIFT;
        self.word.store(place | u64::from(generation), Relaxed);
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    pub(super) fn set_number(&self, number: u64) {
        self.number.store(number, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_was_said_last() {
        let standing = SharedStanding::default();
        assert_eq!(standing.get(), Standing::Refused(0));
        let all = [
            Standing::Refused(7),
            Standing::Waits,
            Standing::Kept { generation: u32::MAX, kind: 255 },
            Standing::Exempt,
        ];
        for said in all {
            standing.set(said);
            assert_eq!(standing.get(), said);
        }
    }
}
