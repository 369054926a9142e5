//! `multipart/byteranges`: several ranges in one response (RFC 9110 §14.6).

use crate::range::ContentRange;
use std::ops::Range;

/// Length of a boundary: enough hexadecimal digits that no content has it by chance.
const BOUNDARY_BYTES: usize = 32;

/// The line between parts. Take a random number for each response, so that nobody can put the
/// boundary into stored content beforehand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Boundary([u8; BOUNDARY_BYTES]);

impl Boundary {
    /// The boundary made from a random number.
    pub fn from_random(random: u128) -> Self {
        let mut text = [0; BOUNDARY_BYTES];
        for (at, byte) in text.iter_mut().enumerate() {
            *byte = b"0123456789abcdef"[(random >> (4 * at)) as usize & 15];
        }
        Self(text)
    }

    /// Appends the value of `Content-Type` for the whole response.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.0);
    }

    /// Appends what stands before the bytes of a part. `content_type` is that of the
    /// representation.
    pub fn write_part_head(
        &self,
        content_type: Option<&[u8]>,
        range: &Range<u64>,
        total: u64,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.0);
        if let Some(content_type) = content_type {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        ContentRange::of(range, total).write(out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends what stands after the bytes of the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.0);
        out.extend_from_slice(b"--\r\n");
    }

    /// Length of the whole content, for `Content-Length`.
    pub fn content_bytes(
        &self,
        content_type: Option<&[u8]>,
        ranges: &[Range<u64>],
        total: u64,
    ) -> u64 {
        let mut heads = Vec::new();
        for range in ranges {
            self.write_part_head(content_type, range, total, &mut heads);
        }
        self.write_end(&mut heads);
        let content: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        content + heads.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_framed_and_the_length_is_known_before() {
        let boundary = Boundary::from_random(0xfeed);
        let name = "deef0000000000000000000000000000";
        let content = b"0123456789";
        let ranges = [1..3, 8..10];
        let mut out = Vec::new();
        for range in &ranges {
            boundary.write_part_head(Some(b"a/b"), range, 10, &mut out);
            out.extend_from_slice(&content[range.start as usize..range.end as usize]);
        }
        boundary.write_end(&mut out);
        let want = format!(
            "\r\n--{name}\r\nContent-Type: a/b\r\nContent-Range: bytes 1-2/10\r\n\r\n12\
             \r\n--{name}\r\nContent-Type: a/b\r\nContent-Range: bytes 8-9/10\r\n\r\n89\
             \r\n--{name}--\r\n"
        );
        assert_eq!(String::from_utf8_lossy(&out), want);
        assert_eq!(boundary.content_bytes(Some(b"a/b"), &ranges, 10), out.len() as u64);
        let mut content_type = Vec::new();
        boundary.write_content_type(&mut content_type);
        assert!(content_type.ends_with(name.as_bytes()));
    }
}
