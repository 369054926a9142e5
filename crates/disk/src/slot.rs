//! One entry of the index: eight bytes for a record.

use super::limits::VARIANTS_MAX;
use freshet_base::splitmix::mixed;

pub(super) const TAG_BITS: u32 = 18;
const ADDRESS_BITS: u32 = 34;
const LENGTH_BITS: u32 = 7;
const TAG_SHIFT: u32 = 46;
const ADDRESS_SHIFT: u32 = 12;
const LENGTH_SHIFT: u32 = 5;
pub(super) const USES_SHIFT: u32 = 3;
pub(super) const USES_MAX: u64 = 3;

/// What a slot leads to: a chunk.
pub(crate) const KIND_CHUNK: u8 = 1;
/// The head of a response that does not vary. Those that do have one of the next
/// [`VARIANTS_MAX`] kinds.
pub(super) const KIND_HEAD: u8 = 2;

/// The kind of a head with this hash of its variant.
pub(crate) fn head_kind(variant: u64) -> u8 {
    if variant == 0 {
        KIND_HEAD
    } else {
        KIND_HEAD + 1 + (mixed(variant) % u64::from(VARIANTS_MAX)) as u8
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Slot(pub(super) u64);

impl Slot {
    pub(super) fn new(tag: u64, kind: u8, units_at: u64, units: u32) -> Self {
        Self(
            tag << TAG_SHIFT
                | (units_at & ((1 << ADDRESS_BITS) - 1)) << ADDRESS_SHIFT
                | length_class(units) << LENGTH_SHIFT
                | u64::from(kind),
        )
    }

    pub(super) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    pub(crate) fn kind(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// Address, in units of the device.
    pub(crate) fn units_at(self) -> u64 {
        (self.0 >> ADDRESS_SHIFT) & ((1 << ADDRESS_BITS) - 1)
    }

    /// Length in units, up to a sixteenth too long.
    pub(crate) fn units(self) -> u32 {
        class_length((self.0 >> LENGTH_SHIFT) & ((1 << LENGTH_BITS) - 1))
    }

    /// Uses noted, 0 to 3.
    pub(crate) fn uses(self) -> u64 {
        (self.0 >> USES_SHIFT) & USES_MAX
    }

    /// The same apart from uses.
    pub(super) fn is_same(self, other: Self) -> bool {
        let mask = !(USES_MAX << USES_SHIFT);
        self.0 & mask == other.0 & mask
    }
}

/// The class of a length: up to 32 as it is, above with four bits after the first, rounded up.
fn length_class(units: u32) -> u64 {
    let last = u64::from(units.max(1) - 1);
    if last < 32 {
        return last;
    }
    let exponent = u64::from(last.ilog2()) - 4;
    // The first five bits, which are 16 to 31.
    ((exponent << 4) + (last >> exponent)).min((1 << LENGTH_BITS) - 1)
}

fn class_length(class: u64) -> u32 {
    if class < 32 {
        return class as u32 + 1;
    }
    let exponent = (class >> 4) - 1;
    u32::try_from((17 + (class & 15)) << exponent).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_kept_to_a_sixteenth_and_never_below() {
        for units in 1..=2048u32 {
            let kept = class_length(length_class(units));
            assert!(
                kept >= units && u64::from(kept) * 16 <= u64::from(units) * 17,
                "{units}: {kept}"
            );
            assert!(length_class(units) < 128);
        }
        assert_eq!(class_length(length_class(2048)), 2048);
    }
}
