//! What a packet says.

use super::super::frame;
use super::super::sent::Carried;
use super::super::space::Level;
use super::super::streams::{Due, Streams};
use super::super::varint::{VARINT_MAX, write_varint};
use super::Connection;
use super::transmit::Allowed;
use std::time::Duration;

/// A stream frame that would carry less is left for the next packet.
const STREAM_BYTES_MIN: usize = 16;
/// Fewer bytes than these cost less to be copied than to be sealed apart.
const TAIL_BYTES_MIN: usize = 256;

/// The end of a payload, which is not copied: the packet's cipher reads it from where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    stream: u64,
    offset: u64,
    pub(super) len: usize,
}

/// What was written of a packet's payload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Whether any frame asks for an acknowledgement.
    pub(super) is_eliciting: bool,
    /// What belongs behind it, and is not written.
    pub(super) tail: Option<Tail>,
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// Appends frames up to `limit`.
    pub(super) fn payload(
        &mut self,
        level: Level,
        allowed: Allowed,
        now: Duration,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Written {
        // A client that is not known to be there gets little, which acknowledgements alone would fill.
        let asks = level == Level::OneRtt && allowed.eliciting;
        let kept_bytes = if asks { self.path.due_bytes() } else { 0 };
        let space = self.space(level);
        if space.received.due().is_some() {
            let room = limit.saturating_sub(out.len() + kept_bytes);
            let (ranges, counts, at) = space.received.acknowledge();
            let delay = (now.saturating_sub(at).as_micros() as u64) >> 3;
            let largest = ranges.end().map_or(0, |end| end - 1);
            if frame::write_ack(ranges, counts, delay, room, out) {
                space.sent.carry(Carried::Ack { largest });
            }
        }
        let mut written = Written::default();
        if level == Level::OneRtt
            && space.probes > 0
            && self.asking.is_understood()
            && out.len() < limit
        {
            write_varint(frame::IMMEDIATE_ACK, out);
            written.is_eliciting = true;
        }
        if allowed.eliciting {
            written.is_eliciting |= self.write_crypto(level, limit, out);
            if level == Level::OneRtt {
                written.is_eliciting |= self.write_control(limit, out);
                if allowed.streams {
                    self.write_streams(limit, out, &mut written);
                }
            }
        }
        let space = self.space(level);
        let needs_ping = space.probes > 0 || (level == Level::OneRtt && space.is_too_silent());
        if !written.is_eliciting && needs_ping && out.len() < limit {
            out.push(0x01);
            written.is_eliciting = true;
        }
        if written.is_eliciting {
            space.probes = space.probes.saturating_sub(1);
            space.silent = 0;
        } else {
            space.silent += 1;
        }
        written
    }

    /// The bytes of a tail.
    pub(super) fn tail(streams: &Streams<P>, tail: Tail) -> &[u8] {
        let send = streams.sending_half(tail.stream);
        let bytes = send.and_then(|send| send.buffer.piece(tail.offset, tail.len));
        debug_assert!(bytes.is_some(), "what is sent is there");
        bytes.unwrap_or(&[])
    }

    fn write_crypto(&mut self, level: Level, limit: usize, out: &mut Vec<u8>) -> bool {
        let space = self.space(level);
        let mut has_written = false;
        // Type, offset and length.
        const HEAD_BYTES_MAX: usize = 1 + 4 + 2;
        while let Some(room) = limit.checked_sub(out.len() + HEAD_BYTES_MAX)
            && room >= STREAM_BYTES_MIN
            && let Some(range) = space.crypto_out.next(room as u64, u64::MAX)
        {
            let len = range.end - range.start;
            frame::write_crypto_head(range.start, len as usize, out);
            space.sent.carry(Carried::Crypto { offset: range.start, len: len as u32 });
            space.crypto_out.copy(range, out);
            has_written = true;
        }
        has_written
    }

    /// Frames about the connection and its streams.
    fn write_control(&mut self, limit: usize, out: &mut Vec<u8>) -> bool {
        /// More than any of these frames has.
        const FRAME_BYTES_MAX: usize = 48;
        let before = out.len();
        let has_room = |out: &Vec<u8>| out.len() + FRAME_BYTES_MAX <= limit;
        let space = &mut self.spaces.data;
        if self.is_done_due && has_room(out) {
            self.is_done_due = false;
            out.push(0x1e);
            space.sent.carry(Carried::HandshakeDone);
        }
        self.path.write_due(limit, out);
        if let Some(token) = self.token.take_if(|token| out.len() + token.len() + 3 <= limit) {
            frame::write_new_token(&token, out);
            space.sent.carry(Carried::NewToken);
        }
        if has_room(out)
            && let Some((sequence, asked)) = self.asking.take()
        {
            frame::write_ack_frequency(sequence, &asked, out);
            self.marks.frequencies_asked += 1;
            space.sent.carry(Carried::AckFrequency { sequence });
            // Either may be in force until it is acknowledged.
            self.peer.ack_delay_max = self.peer.ack_delay_max.max(asked.delay_max);
        }
        while has_room(out)
            && let Some((sequence, id, token)) = self.own_ids.take_telling()
        {
            frame::write_new_id(sequence, &id, &token, out);
            space.sent.carry(Carried::NewConnectionId { sequence });
        }
        while has_room(out)
            && let Some(sequence) = self.peer_ids.take_retired()
        {
            frame::write_numbers(0x19, &[sequence], out);
            space.sent.carry(Carried::RetireConnectionId { sequence });
        }
        while has_room(out)
            && let Some((due, kind, numbers, count)) = self.streams.next_due()
        {
            frame::write_numbers(kind, numbers.get(..count).unwrap_or(&[]), out);
            space.sent.carry(match due {
                Due::MaxData => Carried::MaxData,
                Due::MaxStreams { is_both_ways } => Carried::MaxStreams { is_both_ways },
                Due::MaxStreamData(stream) => Carried::MaxStreamData { stream },
                Due::ResetStream(stream) => Carried::ResetStream { stream },
                Due::StopSending(stream) => Carried::StopSending { stream },
            });
        }
        out.len() > before
    }

    fn write_streams(&mut self, limit: usize, out: &mut Vec<u8>, written: &mut Written) {
        const HEAD_BYTES_MAX: usize = frame::stream_head_bytes(VARINT_MAX, VARINT_MAX);
        let space = &mut self.spaces.data;
        while let Some(left) = limit.checked_sub(out.len())
            && left > STREAM_BYTES_MIN + HEAD_BYTES_MAX
        {
            let room = |stream, offset| (left - frame::stream_head_bytes(stream, offset)) as u64;
            let Some((stream, range, ends)) = self.streams.next_bytes(room) else { break };
            let len = (range.end - range.start) as usize;
            let offset = range.start;
            frame::write_stream_head(stream, offset, len, ends, out);
            space.sent.carry(Carried::Stream { stream, offset, len: len as u32, ends });
            written.is_eliciting = true;
            let Some(send) = self.streams.sending_half(stream) else { continue };
            let is_last = out.len() + len + STREAM_BYTES_MIN + HEAD_BYTES_MAX >= limit;
            let from = send.buffer.last_piece(&range);
            let tail_len = (range.end - from) as usize;
            if is_last && tail_len >= TAIL_BYTES_MIN {
                send.buffer.copy(range.start..from, out);
                written.tail = Some(Tail { stream, offset: from, len: tail_len });
                break;
            }
            send.buffer.copy(range, out);
        }
    }
}
