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
    /// One had it in this generation; 0 where nobody looked since it was begun.
    Kept(u32),
    /// It is not for disks.
    Exempt,
}

/// A [`Standing`] that all may change, and the number under which a disk has the body.
#[derive(Debug, Default)]
pub(super) struct SharedStanding {
    word: AtomicU64,
    number: AtomicU64,
}

const KIND_SHIFT: u32 = 32;

impl SharedStanding {
    pub(super) fn get(&self) -> Standing {
        let word = self.word.load(Relaxed);
        let generation = word as u32;
        match word >> KIND_SHIFT {
            0 => Standing::Refused(generation),
            1 => Standing::Waits,
            2 => Standing::Kept(generation),
            _ => Standing::Exempt,
        }
    }

    pub(super) fn set(&self, standing: Standing) {
        let (kind, generation) = match standing {
            Standing::Refused(generation) => (0, generation),
            Standing::Waits => (1, 0),
            Standing::Kept(generation) => (2, generation),
            Standing::Exempt => (3, 0),
        };
        self.word.store(kind << KIND_SHIFT | u64::from(generation), Relaxed);
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
        let all =
            [Standing::Refused(7), Standing::Waits, Standing::Kept(u32::MAX), Standing::Exempt];
        for said in all {
            standing.set(said);
            assert_eq!(standing.get(), said);
        }
    }
}
