//! Boxes of media as they come (ISO/IEC 14496-12 §4.2), to see when a chunk can be played.

/// Length of a box's size and type.
const HEAD_BYTES: usize = 8;

/// Where a stream of boxes is.
#[derive(Debug, Default)]
pub(super) struct Boxes {
    /// What has come of the head of the next box.
    head: Vec<u8>,
    /// What is left of the box that has begun.
    left: u64,
    is_media: bool,
}

impl Boxes {
    /// Takes what came; how many boxes of samples (`mdat`) have ended with it. Boxes of 64-bit sizes, and those
    /// that go on to the end, are not followed further: nobody makes chunks of them.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> u32 {
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.left == 0 {
                let taken = bytes.len().min(HEAD_BYTES - self.head.len());
                let (head, rest) = bytes.split_at(taken);
                self.head.extend_from_slice(head);
                bytes = rest;
                if let [a, b, c, d, kind @ ..] = &self.head[..]
                    && kind.len() == 4
                {
                    let size = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
                    self.is_media = kind == b"mdat";
                    self.left =
                        if size < 2 { u64::MAX } else { size.saturating_sub(HEAD_BYTES as u64) };
                    self.head.clear();
                }
            } else {
                let taken = self.left.min(bytes.len() as u64);
                self.left -= taken;
                bytes = &bytes[taken as usize..];
                ended += u32::from(self.left == 0 && self.is_media);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::find;
    use crate::media::part;
    use crate::programme::{Kind, Programme};

    #[test]
    fn chunks_end_where_their_samples_do() {
        let channel = Programme { kind: Kind::Live, number: 1 };
        let rung = find("variant01/dshmv/443KB").unwrap();
        let bytes: Vec<u8> =
            (0..3).flat_map(|index| part(channel, rung, index, 400, 3).to_vec()).collect();
        for size in [1, 7, 1000, bytes.len()] {
            let mut boxes = Boxes::default();
            let ended: u32 = bytes.chunks(size).map(|piece| boxes.add(piece)).sum();
            assert_eq!(ended, 3, "{size}");
        }
        let mut boxes = Boxes::default();
        assert_eq!(boxes.add(&bytes[..1000]), 0);
        assert_eq!(Boxes::default().add(b"\0\0\0\0mdatabc"), 0);
    }
}
