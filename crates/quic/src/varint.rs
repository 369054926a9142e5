//! Numbers of variable length (RFC 9000 §16) and a cursor over bytes.

/// The largest number there is a form for.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    /// The next number of variable length.
    pub fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = 1 << (first >> 6);
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        let value = number.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        // The two highest bits say how long it is.
        Some(value & (u64::MAX >> (64 - 8 * bytes + 2)))
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next bytes, behind a number that says how many.
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.varint()?).ok()?;
        self.take(count)
    }

    /// All that is left; nothing is left then.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes of the shortest form of `value`.
pub const fn varint_bytes(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends the shortest form of `value`, which is at most [`VARINT_MAX`].
pub fn write_varint(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= VARINT_MAX);
    match varint_bytes(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 9000 Appendix A.1
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(Reader::new(bytes).varint(), Some(value));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), None);
        }
    }

    #[test]
    fn every_number_comes_back_in_its_shortest_form() {
        for value in (0..=62).flat_map(|bit| [(1_u64 << bit) - 1, (1 << bit) / 3]) {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            assert_eq!(out.len(), varint_bytes(value));
            let mut reader = Reader::new(&out);
            assert_eq!((reader.varint(), reader.is_empty()), (Some(value), true));
        }
    }
}
