//! Bits in the order that both codecs write them: most significant first.

/// A growing string of bits.
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits not yet in `bytes`, right-aligned.
    pending: u64,
    /// How many; below 8 between calls.
    pending_len: u32,
}

impl BitWriter {
    /// Appends the low `len` (≤ 32) bits of `value`.
    pub fn bits(&mut self, value: u32, len: u32) {
        debug_assert!(len <= 32 && (len == 32 || value >> len == 0));
        self.pending = self.pending << len | u64::from(value);
        self.pending_len += len;
        while self.pending_len >= 8 {
            self.pending_len -= 8;
            self.bytes.push((self.pending >> self.pending_len) as u8);
        }
    }

    /// Appends one bit.
    pub fn flag(&mut self, value: bool) {
        self.bits(u32::from(value), 1);
    }

    /// Appends `value` (< 2^31) as an unsigned Exp-Golomb code, `ue(v)` of H.264 §9.1.
    pub fn ue(&mut self, value: u32) {
        let code = value + 1;
        let len = code.ilog2();
        self.bits(0, len);
        self.bits(code, len + 1);
    }

    /// Appends `value` as a signed Exp-Golomb code, `se(v)` of H.264 §9.1.1.
    pub fn se(&mut self, value: i32) {
        let magnitude = value.unsigned_abs() * 2;
        self.ue(if value > 0 { magnitude - 1 } else { magnitude });
    }

    /// Appends zeros up to the next whole byte.
    pub fn align(&mut self) {
        if self.pending_len > 0 {
            self.bits(0, 8 - self.pending_len);
        }
    }

    /// The bits so far, with zeros up to a whole byte.
    pub fn finish(mut self) -> Vec<u8> {
        self.align();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BitWriter)) -> String {
        let mut writer = BitWriter::default();
        write(&mut writer);
        let len = writer.bytes.len() * 8 + writer.pending_len as usize;
        let bits: String = writer.finish().iter().map(|byte| format!("{byte:08b}")).collect();
        bits[..len].to_owned()
    }

    #[test]
    fn exp_golomb_codes_are_those_of_the_standard() {
        let codes = ["1", "010", "011", "00100", "00101", "00110", "00111", "0001000"];
        for (value, code) in codes.iter().enumerate() {
            assert_eq!(text(|w| w.ue(value as u32)), *code);
        }
        for (value, code) in [(0, "1"), (1, "010"), (-1, "011"), (2, "00100"), (-2, "00101")] {
            assert_eq!(text(|w| w.se(value)), code);
        }
    }

    #[test]
    fn bits_run_over_bytes_and_end_in_zeros() {
        let mut writer = BitWriter::default();
        writer.bits(0b101, 3);
        writer.bits(0xffff_ffff, 32);
        writer.flag(false);
        writer.align();
        writer.flag(true);
        assert_eq!(writer.finish(), [0xbf, 0xff, 0xff, 0xff, 0xe0, 0x80]);
    }
}
