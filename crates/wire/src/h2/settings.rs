//! What each side tells the other about itself (RFC 9113 §6.5).

use super::Code;
use super::conduct::Conduct;
use super::frame::{flag, kind, write};
use super::limits::{FRAME_BYTES_MAX, HEADER_TABLE_BYTES};
use super::window::WINDOW_MAX;
use crate::h1::Limits;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 9218 §2.1
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// What a connection's window is before anything is said (RFC 9113 §6.9.2).
pub(super) const WINDOW_DEFAULT: u32 = 65_535;
/// Streams that are opened to a server before it said how many it takes.
const STREAMS_UNTOLD: u32 = 1;
/// The largest frame any peer may say it takes (RFC 9113 §6.5.2).
const PEER_FRAME_BYTES_MAX: u32 = (1 << 24) - 1;

/// Our side's configuration. What it says of clients holds for an origin that is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Local {
    /// What heads are held against, and how they are read.
    pub limits: Limits,
    /// What is done where servers differ.
    pub conduct: Conduct,
    /// Requests at a time.
    pub streams_max: u32,
    /// Bytes of a request's body that may wait for whoever takes it.
    pub stream_window_bytes: u32,
    /// The same of all requests together. Larger than a stream's, so that one body nobody takes
    /// does not hold up the others.
    pub connection_window_bytes: u32,
    /// Bytes of the table for compressed fields, up to
    /// [`HEADER_TABLE_BYTES`](super::limits::HEADER_TABLE_BYTES).
    pub header_table_bytes: u32,
}

impl Local {
    /// Appends our SETTINGS frame, as a client or as a server.
    pub(super) fn write(&self, is_client: bool, out: &mut Vec<u8>) {
        let head_bytes = u32::try_from(self.limits.head_bytes_max).unwrap_or(u32::MAX);
        let mut payload = Vec::with_capacity(6 * 6);
        let mut say = |id: u16, value: u32| {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        if is_client {
            // Nothing is pushed, and so no streams of the server's are counted.
            say(id::ENABLE_PUSH, 0);
        } else {
            say(id::MAX_CONCURRENT_STREAMS, self.streams_max);
        }
        say(id::INITIAL_WINDOW_SIZE, self.stream_window_bytes);
        say(id::MAX_HEADER_LIST_SIZE, head_bytes);
        if !is_client {
            say(id::NO_RFC7540_PRIORITIES, 1);
        }
        if self.table_bytes() != HEADER_TABLE_BYTES {
            say(id::HEADER_TABLE_SIZE, self.table_bytes() as u32);
        }
        write(kind::SETTINGS, 0, 0, &payload, out);
    }

    /// Bytes of the table a client may build.
    pub(super) fn table_bytes(&self) -> usize {
        (self.header_table_bytes as usize).min(HEADER_TABLE_BYTES)
    }
}

/// What the peer told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Peer {
    /// Window of each stream we send on.
    pub(super) window_bytes: u32,
    /// Payload of a frame.
    pub(super) frame_bytes_max: u32,
    /// Table of compressed fields.
    pub(super) header_table_bytes: u32,
    /// Streams it takes at a time.
    pub(super) streams_max: u32,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            window_bytes: WINDOW_DEFAULT,
            frame_bytes_max: FRAME_BYTES_MAX,
            header_table_bytes: HEADER_TABLE_BYTES as u32,
            streams_max: STREAMS_UNTOLD,
        }
    }
}

impl Peer {
    /// Takes in the payload of a SETTINGS frame; later values replace earlier ones.
    pub(super) fn take(&mut self, payload: &[u8], conduct: Conduct) -> Result<(), Code> {
        for [a, b, value @ ..] in payload.as_chunks::<6>().0 {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                id::HEADER_TABLE_SIZE => self.header_table_bytes = value,
                id::MAX_CONCURRENT_STREAMS => self.streams_max = value,
                id::ENABLE_PUSH | id::NO_RFC7540_PRIORITIES if value > 1 => {
                    return Err(Code::ProtocolError);
                }
                id::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Code::FlowControlError);
                }
                id::INITIAL_WINDOW_SIZE => self.window_bytes = value,
                id::MAX_FRAME_SIZE => {
                    if !(conduct.frame_bytes_min..=PEER_FRAME_BYTES_MAX).contains(&value) {
                        return Err(Code::ProtocolError);
                    }
                    self.frame_bytes_max = value;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the acknowledgement of a SETTINGS frame.
pub(super) fn write_ack(out: &mut Vec<u8>) {
    write(kind::SETTINGS, flag::ACK, 0, &[], out);
}
