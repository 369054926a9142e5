//! Explicit congestion notification (RFC 3168, RFC 9000 §13.4): routers say that a queue grows before they
//! lose packets, where what is sent is marked as of who listens.

use super::varint::{Reader, varint_bytes, write_varint};

/// What the head of a datagram says (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Ecn {
    /// Its sender does not listen.
    #[default]
    NotEct = 0,
    /// Its sender listens, by a mark that is not used here.
    Ect1 = 1,
    /// Its sender listens.
    Ect0 = 2,
    /// A router's queue grew.
    Ce = 3,
}

impl Ecn {
    /// What the two low bits of a traffic class say.
    pub fn of_traffic_class(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Packets that came, by their marks (RFC 9000 §19.3.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Those marked by their sender.
    pub ect0: u64,
    /// The same by the other mark.
    pub ect1: u64,
    /// Those marked by a router.
    pub ce: u64,
}

impl Counts {
    /// A packet came.
    pub(super) fn add(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// Whether none was marked.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { ect0: reader.varint()?, ect1: reader.varint()?, ce: reader.varint()? })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        [self.ect0, self.ect1, self.ce].into_iter().for_each(|count| write_varint(count, out));
    }

    /// Bytes that are written.
    pub(super) fn bytes(&self) -> usize {
        [self.ect0, self.ect1, self.ce].into_iter().map(varint_bytes).sum()
    }

    /// How many more these are; `None` when any is less.
    fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            ect0: self.ect0.checked_sub(before.ect0)?,
            ect1: self.ect1.checked_sub(before.ect1)?,
            ce: self.ce.checked_sub(before.ce)?,
        })
    }
}

/// Packets that are marked on a way before it is known what becomes of marks there (RFC 9000 §A.4): where
/// routers lose what is marked, it has to be little. A batch that has begun is marked to its end.
const TESTING_PACKETS: u8 = 10;

/// Whether what is sent on a way is marked.
#[derive(Clone, Debug)]
pub(super) enum Marking {
    /// So many more packets, until the client says what it saw.
    Testing(u8),
    /// The client saw the marks.
    Capable,
    /// They do not arrive as they were.
    Failed,
}

impl Marking {
    pub(super) const fn new() -> Self {
        Self::Testing(TESTING_PACKETS)
    }

    /// Whether the next packets are marked.
    pub(super) fn is_on(&self) -> bool {
        match self {
            Self::Testing(left) => *left > 0,
            Self::Capable => true,
            Self::Failed => false,
        }
    }

    /// Whether marks do not arrive as they were.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed)
    }

    /// So many marked packets were sent.
    pub(super) fn note_sent(&mut self, packets: u64) {
        if let Self::Testing(left) = self {
            *left = left.saturating_sub(u8::try_from(packets).unwrap_or(u8::MAX));
        }
    }

    /// The client acknowledged `marked` packets with marks, and says that it saw `told` in all, where it
    /// looks; `before` is what it saw by then, `sent` how many were marked in all. Says how many routers
    /// marked since (RFC 9000 §13.4.2.1).
    pub(super) fn acknowledged(
        &mut self,
        marked: u64,
        told: Option<Counts>,
        before: &mut Counts,
        sent: u64,
    ) -> u64 {
        let Some(told) = told else {
            if marked > 0 {
                *self = Self::Failed;
            }
            return 0;
        };
        let more = told.since(before);
        *before = told;
        let more = more.filter(|more| {
            more.ect1 == 0 && more.ect0 + more.ce >= marked && told.ect0 + told.ce <= sent
        });
        match more {
            None => *self = Self::Failed,
            Some(_) if marked > 0 && matches!(self, Self::Testing(_)) => *self = Self::Capable,
            Some(_) => {}
        }
        more.filter(|_| matches!(self, Self::Capable)).map_or(0, |more| more.ce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<Counts> {
        Some(Counts { ect0, ect1, ce })
    }

    #[test]
    fn marks_that_arrive_as_they_were_are_kept() {
        let (mut marking, mut before) = (Marking::new(), Counts::default());
        (0..TESTING_PACKETS).for_each(|_| marking.note_sent(1));
        assert!(!marking.is_on(), "nothing is known yet");
        assert_eq!(marking.acknowledged(4, counts(4, 0, 0), &mut before, 10), 0);
        assert!(marking.is_on());
        // Acknowledgements may be lost: more may have been seen than is acknowledged by one.
        assert_eq!(marking.acknowledged(2, counts(7, 0, 2), &mut before, 10), 2);
        assert_eq!(marking.acknowledged(0, counts(7, 0, 2), &mut before, 10), 0);
        assert!(marking.is_on());
    }

    #[test]
    fn marks_that_do_not_are_given_up() {
        for (marked, told) in [
            (1, None),
            (3, counts(6, 0, 0)),
            (1, counts(3, 0, 0)),
            (1, counts(6, 1, 0)),
            (1, counts(20, 0, 1)),
        ] {
            let (mut marking, mut before) = (Marking::new(), Counts::default());
            assert_eq!(marking.acknowledged(4, counts(4, 0, 0), &mut before, 20), 0);
            assert_eq!(marking.acknowledged(marked, told, &mut before, 20), 0);
            assert!(!marking.is_on(), "{marked} {told:?}");
            assert_eq!(marking.acknowledged(1, counts(9, 0, 9), &mut before, 20), 0);
            assert!(!marking.is_on());
        }
        // One that does not look, and is not asked to.
        let mut marking = Marking::new();
        assert_eq!(marking.acknowledged(0, None, &mut Counts::default(), 0), 0);
        assert!(marking.is_on());
    }
}
