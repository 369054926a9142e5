//! Frames: a type, a length and a payload (RFC 9114 §7).

use super::Code;
use freshet_quic::varint::{Reader, write_varint};

/// Types of frames.
pub mod kind {
    /// Bytes of a body.
    pub const DATA: u64 = 0x0;
    /// Compressed fields.
    pub const HEADERS: u64 = 0x1;
    /// A push is not wanted.
    pub const CANCEL_PUSH: u64 = 0x3;
    /// What the sender says of itself.
    pub const SETTINGS: u64 = 0x4;
    /// A response nobody asked for, which only servers send.
    pub const PUSH_PROMISE: u64 = 0x5;
    /// The connection will end.
    pub const GOAWAY: u64 = 0x7;
    /// How many pushes may come.
    pub const MAX_PUSH_ID: u64 = 0xd;
    /// The priority of a request (RFC 9218 §7.2).
    pub const PRIORITY_UPDATE: u64 = 0xf_0700;
    /// The priority of a push.
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;
}

/// The most bytes of a frame's head that we write.
pub const FRAME_HEAD_BYTES_MAX: usize = 5;

/// What is in front of a payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// Its type.
    pub kind: u64,
    /// Bytes of its payload.
    pub len: u64,
    /// Bytes of the head itself.
    pub bytes: usize,
}

impl Head {
    /// The head at the start of `input`, once all of it is there.
    pub fn read(input: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(input);
        let (kind, len) = (reader.varint()?, reader.varint()?);
        Some(Self { kind, len, bytes: input.len() - reader.rest().len() })
    }

    /// Whether HTTP/2 had a frame of this type that has no meaning here (RFC 9114 §7.2.8).
    pub fn is_of_http2(self) -> bool {
        matches!(self.kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Appends the head of a frame with `len` bytes of payload.
pub fn write_head(kind: u64, len: usize, out: &mut Vec<u8>) {
    write_varint(kind, out);
    write_varint(len as u64, out);
}

/// What a client's settings say that a server has a use for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Settings {
    /// Bytes of the largest table that it lets us fill.
    pub table_bytes_max: u64,
}

/// Settings by their numbers (RFC 9204 §5, RFC 9114 §7.2.4.1).
pub mod setting {
    /// Bytes of the largest table that the other side may fill.
    pub const TABLE_BYTES_MAX: u64 = 0x01;
    /// Bytes of fields that are taken.
    pub const FIELD_BYTES_MAX: u64 = 0x06;
    /// Streams whose fields may wait for the table.
    pub const BLOCKED_STREAMS_MAX: u64 = 0x07;
}

/// Reads the payload of SETTINGS.
///
/// # Errors
/// `FrameError`: it is cut off. `SettingsError`: a setting comes twice or is one of HTTP/2.
pub fn read_settings(payload: &[u8]) -> Result<Settings, Code> {
    let mut reader = Reader::new(payload);
    let mut seen = Vec::new();
    let mut settings = Settings::default();
    while !reader.is_empty() {
        let (key, value) = (reader.varint(), reader.varint());
        let (key, value) = key.zip(value).ok_or(Code::FrameError)?;
        if matches!(key, 0x0 | 0x2..=0x5) || seen.contains(&key) {
            return Err(Code::SettingsError);
        }
        // What is unknown may come twice for all we know.
        if key < 0x40 {
            seen.push(key);
        }
        if key == setting::TABLE_BYTES_MAX {
            settings.table_bytes_max = value;
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back() {
        for (kind, len) in [(0, 0), (1, 63), (7, 64), (kind::PRIORITY_UPDATE, 70_000)] {
            let mut out = Vec::new();
            write_head(kind, len, &mut out);
            let head = Head { kind, len: len as u64, bytes: out.len() };
            assert_eq!(Head::read(&out), Some(head));
            assert_eq!(Head::read(&out[..out.len() - 1]), None);
        }
    }

    #[test]
    fn settings_are_said_once() {
        assert_eq!(read_settings(&[]), Ok(Settings::default()));
        let settings = Settings { table_bytes_max: 5 };
        assert_eq!(read_settings(&[1, 5, 6, 9, 0x21, 0, 0x33, 1]), Ok(settings));
        for wrong in [&[1, 0, 1, 0][..], &[2, 0], &[5, 1]] {
            assert_eq!(read_settings(wrong), Err(Code::SettingsError), "{wrong:?}");
        }
        for cut in [&[1][..], &[0x40], &[1, 0, 6, 0x40]] {
            assert_eq!(read_settings(cut), Err(Code::FrameError), "{cut:?}");
        }
    }
}
