//! Frames: nine bytes of header and a payload (RFC 9113 §4.1, §6).

use super::Code;

/// Bytes in front of each payload.
pub const FRAME_HEADER_BYTES: usize = 9;

/// Types of frames.
pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0;
    pub(in crate::h2) const HEADERS: u8 = 1;
    pub(in crate::h2) const PRIORITY: u8 = 2;
    pub(in crate::h2) const RST_STREAM: u8 = 3;
    pub(in crate::h2) const SETTINGS: u8 = 4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::h2) const PING: u8 = 6;
    pub(in crate::h2) const GOAWAY: u8 = 7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::h2) const CONTINUATION: u8 = 9;
    /// RFC 9218 §7.1
    pub(in crate::h2) const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub(super) mod flag {
    pub(in crate::h2) const END_STREAM: u8 = 1;
    pub(in crate::h2) const ACK: u8 = 1;
    pub(in crate::h2) const END_HEADERS: u8 = 4;
    pub(in crate::h2) const PADDED: u8 = 8;
    pub(in crate::h2) const PRIORITY: u8 = 0x20;
}

/// The bits of a number of a stream; the highest is reserved.
pub(super) const STREAM_MAX: u32 = (1 << 31) - 1;

/// What is in front of a payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    /// The header at the start of `input`, once all of it is there.
    pub(super) fn parse(input: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = input.first_chunk::<FRAME_HEADER_BYTES>()?;
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let stream = u32::from_be_bytes(*stream) & STREAM_MAX;
        Some(Self { len, kind: *kind, flags: *flags, stream })
    }

    pub(super) fn bytes(self) -> [u8; FRAME_HEADER_BYTES] {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What is wrong with the length, which is known before the payload is there. `None` as the
    /// code's place is the stream's where the error is the stream's alone.
    pub(super) fn check_len(self, len_max: usize) -> Result<(), Code> {
        let fits = match self.kind {
            kind::RST_STREAM | kind::WINDOW_UPDATE => self.len == 4,
            kind::PING => self.len == 8,
            kind::SETTINGS if self.has(flag::ACK) => self.len == 0,
            kind::SETTINGS => self.len.is_multiple_of(6),
            kind::GOAWAY => self.len >= 8,
            kind::PRIORITY_UPDATE => self.len >= 4,
            _ => true,
        };
        if fits && self.len <= len_max { Ok(()) } else { Err(Code::FrameSizeError) }
    }
}

/// The header of a DATA frame with `bytes` of payload.
pub fn data_frame_header(stream: u32, bytes: usize, end: bool) -> [u8; FRAME_HEADER_BYTES] {
    let flags = if end { flag::END_STREAM } else { 0 };
    Header { len: bytes, kind: kind::DATA, flags, stream }.bytes()
}

/// Appends a whole frame.
pub(super) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { len: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// The number at the start of a payload of at least four bytes.
pub(super) fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The payload of a frame that may be padded, without its padding (RFC 9113 §6.1).
pub(super) fn without_padding(header: Header, payload: &[u8]) -> Result<&[u8], Code> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Code::FrameSizeError)?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(Code::ProtocolError)?;
    Ok(rest.get(..len).unwrap_or_default())
}
