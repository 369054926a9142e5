//! Datagrams out.

use super::super::batch::Batch;
use super::super::error::{Error, code};
use super::super::frame;
use super::super::keys;
use super::super::limits::{
    BATCH_BYTES_MAX, BATCH_DATAGRAMS_MAX, DATAGRAM_BYTES_MIN, SENT_SPAN_MAX,
};
use super::super::packet::{TAG_BYTES, number_bytes, write_head, write_length};
use super::super::sent::Carried;
use super::super::space::Level;
use super::super::streams::Due;
use super::super::varint::VARINT_MAX;
use super::{Closed, Connection, Phase};
use std::net::SocketAddr;
use std::time::Duration;

/// A stream frame that would carry less is left for the next packet.
const STREAM_BYTES_MIN: usize = 16;
/// What a datagram may lack to be filled up: a batch goes on only behind a full one.
const FILLED_BYTES: usize = 48;
/// The least payload that hides a number (RFC 9001 §5.4.2).
const PAYLOAD_BYTES_MIN: usize = 4;

/// A packet that is not sealed yet.
#[derive(Clone, Copy)]
struct Draft {
    level: Level,
    number: u64,
    number_bytes: usize,
    start: usize,
    length_at: Option<usize>,
    payload_at: usize,
    is_eliciting: bool,
    /// Whether it counts as in flight.
    is_counted: bool,
}

/// What may go into a datagram.
#[derive(Clone, Copy)]
struct Allowed {
    /// Packets that ask to be acknowledged.
    eliciting: bool,
    /// Bytes of streams.
    streams: bool,
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// Fills an empty batch with what is to be sent now, and says where to. Has to be called until it
    /// says nothing: after datagrams came, after time passed, after streams were written to.
    pub fn fill(&mut self, now: Duration, batch: &mut Batch) -> Option<SocketAddr> {
        debug_assert!(batch.bytes.is_empty());
        let remote = self.path.remote;
        match self.phase {
            Phase::Open => {}
            Phase::Closing(_) => {
                let due = std::mem::take(&mut self.is_close_due);
                return (due && self.write_close(batch)).then_some(remote);
            }
            Phase::Draining(_) | Phase::Over => return None,
        }
        if let Some(old) = self.old_responses(now, batch) {
            return Some(old);
        }
        if self.one_rtt.as_ref().is_some_and(|keys| keys.is_spent()) {
            let error = Error::new(code::AEAD_LIMIT_REACHED, "the keys are used up");
            self.close_with(Closed::ByError(error), now);
            return self.fill(now, batch);
        }
        let (window, rtt) = (self.congestion.window(), self.rtt.smoothed);
        self.pacer.fill(now, window, rtt, self.congestion.is_in_slow_start());
        if self.probe_size(now, batch) {
            return Some(remote);
        }
        let size = self.path.datagram_bytes().min(self.peer.datagram_bytes_max);
        for _ in 0..BATCH_DATAGRAMS_MAX {
            if batch.bytes.len() + size > BATCH_BYTES_MAX {
                break;
            }
            let bytes = self.datagram(now, size, &mut batch.bytes);
            if bytes == 0 {
                break;
            }
            self.path.sent(bytes);
            if batch.segment_bytes == 0 {
                batch.segment_bytes = bytes;
            }
            if bytes < size {
                break;
            }
        }
        if self.spaces.iter().any(|space| space.sent.span() > SENT_SPAN_MAX) {
            let error = Error::violation("nothing is acknowledged");
            self.close_with(Closed::ByError(error), now);
        }
        (!batch.bytes.is_empty()).then_some(remote)
    }

    /// When bytes that wait for their pace may go out.
    pub(super) fn paced_until(&self) -> Option<Duration> {
        let size = self.path.datagram_bytes();
        let waits = self.one_rtt.is_some()
            && !self.pacer.has(size)
            && self.bytes_in_flight + size as u64 <= self.congestion.window()
            && self.streams.has_bytes();
        let (window, rtt) = (self.congestion.window(), self.rtt.smoothed);
        waits.then(|| self.pacer.next(window, rtt, self.congestion.is_in_slow_start()))
    }

    /// Appends one datagram of at most `size` bytes and says how many it has.
    fn datagram(&mut self, now: Duration, size: usize, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let room = size.min(usize::try_from(self.path.room()).unwrap_or(usize::MAX));
        // Part of a first datagram is of no use, as it has to be full.
        if room < size && self.initial.is_some() {
            return 0;
        }
        let end = start + room;
        let mut drafts = [None; Level::ALL.len()];
        for (level, place) in Level::ALL.into_iter().zip(&mut drafts) {
            *place = self.draft(level, now, size, end, out);
        }
        // A datagram with an Initial packet that asks for an answer is full (RFC 9000 §14.1), and so
        // is one whose packets have no room for more.
        let asks = |draft: &&Draft| draft.level == Level::Initial && draft.is_eliciting;
        let has_initial = drafts.iter().flatten().any(|draft| asks(&draft));
        let is_full = out.len() > start && end - out.len() < FILLED_BYTES;
        let padded = if has_initial {
            (start + DATAGRAM_BYTES_MIN).min(end)
        } else if is_full && drafts.iter().flatten().any(|draft| draft.level == Level::OneRtt) {
            end
        } else {
            out.len()
        };
        let mut after = drafts.iter().flatten().map(|draft| draft.start).collect::<Vec<_>>();
        after.push(padded.max(out.len()));
        if let (Some(last), true) = (drafts.iter().flatten().last().copied(), padded > out.len()) {
            // In front of the tag, which is not there yet.
            out.resize(padded, 0);
            debug_assert!(last.payload_at <= padded);
        }
        for (draft, end) in drafts.into_iter().flatten().zip(after.into_iter().skip(1)) {
            self.seal(draft, end, now, out);
        }
        out.len() - start
    }

    /// Appends a packet without its seal, with room for it; nothing when there is nothing to say.
    fn draft(
        &mut self,
        level: Level,
        now: Duration,
        size: usize,
        end: usize,
        out: &mut Vec<u8>,
    ) -> Option<Draft> {
        if !self.has_keys(level) {
            return None;
        }
        let window = self.congestion.window();
        let is_probing = self.space(level).probes > 0;
        let has_room = self.bytes_in_flight + size as u64 <= window;
        let streams = (has_room && self.pacer.has(size)) || is_probing;
        let allowed = Allowed { eliciting: has_room || is_probing, streams };
        if level == Level::OneRtt && self.streams.has_bytes() {
            self.is_window_limited = !streams;
        }
        if !self.has_something(level, allowed, now) {
            return None;
        }
        if level == Level::OneRtt {
            self.until_skip -= 1;
            if self.until_skip == 0 {
                self.draw_skip();
                self.space(level).sent.skip();
            }
        }
        let start = out.len();
        let space = self.space(level);
        let number = space.sent.next_number();
        let number_bytes = number_bytes(number, space.sent.largest_acked);
        let own = self.own_ids.first();
        let phase = self.one_rtt.as_ref().is_some_and(|keys| keys.phase());
        let ids = (self.peer_ids.active(), &own);
        let length_at = write_head(level.kind(), ids, phase, number_bytes, out);
        let bytes = number.to_be_bytes();
        out.extend_from_slice(bytes.get(bytes.len() - number_bytes..)?);
        let payload_at = out.len();
        let limit = end.saturating_sub(TAG_BYTES);
        let mut is_eliciting = false;
        if payload_at + PAYLOAD_BYTES_MIN < limit {
            is_eliciting = self.payload(level, allowed, now, limit, out);
        }
        if out.len() == payload_at {
            out.truncate(start);
            return None;
        }
        if out.len() < payload_at + PAYLOAD_BYTES_MIN {
            out.resize(payload_at + PAYLOAD_BYTES_MIN, 0);
        }
        out.extend_from_slice(&[0; TAG_BYTES]);
        let is_counted = is_eliciting;
        Some(Draft {
            level,
            number,
            number_bytes,
            start,
            length_at,
            payload_at,
            is_eliciting,
            is_counted,
        })
    }

    fn has_something(&mut self, level: Level, allowed: Allowed, now: Duration) -> bool {
        let space = self.space(level);
        if space.received.due().is_some_and(|due| due <= now) || space.probes > 0 {
            return true;
        }
        if !allowed.eliciting {
            return false;
        }
        space.has_crypto()
            || (level == Level::OneRtt
                && (self.is_done_due
                    || self.path.has_due()
                    || self.own_ids.has_due()
                    || self.peer_ids.has_due()
                    || self.streams.has_due()
                    || (allowed.streams && self.streams.has_bytes())))
    }

    /// Appends frames up to `limit`. Says whether any asks for an acknowledgement.
    fn payload(
        &mut self,
        level: Level,
        allowed: Allowed,
        now: Duration,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let space = self.space(level);
        if space.received.due().is_some() {
            let room = limit.saturating_sub(out.len());
            let (ranges, at) = space.received.acknowledge();
            let delay = (now.saturating_sub(at).as_micros() as u64) >> 3;
            let largest = ranges.end().map_or(0, |end| end - 1);
            if frame::write_ack(ranges, delay, room, out) {
                space.sent.carry(Carried::Ack { largest });
            }
        }
        let mut is_eliciting = false;
        if allowed.eliciting {
            is_eliciting |= self.write_crypto(level, limit, out);
            if level == Level::OneRtt {
                is_eliciting |= self.write_control(limit, out);
                if allowed.streams {
                    is_eliciting |= self.write_streams(limit, out);
                }
            }
        }
        let space = self.space(level);
        let needs_ping = space.probes > 0 || (level == Level::OneRtt && space.is_too_silent());
        if !is_eliciting && needs_ping && out.len() < limit {
            out.push(0x01);
            is_eliciting = true;
        }
        if is_eliciting {
            space.probes = space.probes.saturating_sub(1);
            space.silent = 0;
        } else {
            space.silent += 1;
        }
        is_eliciting
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
        let [_, _, space] = &mut self.spaces;
        if self.is_done_due && has_room(out) {
            self.is_done_due = false;
            out.push(0x1e);
            space.sent.carry(Carried::HandshakeDone);
        }
        if self.path.is_challenge_due
            && has_room(out)
            && let Some(challenge) = &self.path.challenge
        {
            self.path.is_challenge_due = false;
            out.push(0x1a);
            out.extend_from_slice(&challenge.bytes);
        }
        while has_room(out)
            && let Some(bytes) = self.path.take_response()
        {
            out.push(0x1b);
            out.extend_from_slice(&bytes);
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

    fn write_streams(&mut self, limit: usize, out: &mut Vec<u8>) -> bool {
        const HEAD_BYTES_MAX: usize = frame::stream_head_bytes(VARINT_MAX, VARINT_MAX);
        let [_, _, space] = &mut self.spaces;
        let mut has_written = false;
        while let Some(left) = limit.checked_sub(out.len())
            && left > STREAM_BYTES_MIN + HEAD_BYTES_MAX
        {
            let room = |stream, offset| (left - frame::stream_head_bytes(stream, offset)) as u64;
            let Some((stream, range, ends)) = self.streams.next_bytes(room) else { break };
            let len = range.end - range.start;
            frame::write_stream_head(stream, range.start, len as usize, ends, out);
            let offset = range.start;
            if let Some(send) = self.streams.sending_half(stream) {
                send.buffer.copy(range, out);
            }
            space.sent.carry(Carried::Stream { stream, offset, len: len as u32, ends });
            has_written = true;
        }
        has_written
    }

    fn seal(&mut self, draft: Draft, end: usize, now: Duration, out: &mut [u8]) {
        let Draft { level, number, number_bytes, start, length_at, payload_at, .. } = draft;
        if let Some(at) = length_at {
            write_length(at, end - payload_at + number_bytes, out);
        }
        let Some(packet) = out.get_mut(start..end) else { return };
        let (number, payload_at) = ((number, number_bytes), payload_at - start);
        let keys = match level {
            Level::Initial => self.initial.as_ref(),
            Level::Handshake => self.handshake.as_ref(),
            Level::OneRtt => {
                if let Some(keys) = &mut self.one_rtt {
                    keys.seal(number, payload_at, packet);
                    if keys.is_worn() {
                        keys.update(now);
                    }
                }
                None
            }
        };
        if let Some(keys) = keys {
            let local = &keys.local;
            keys::seal(&*local.packet, &*local.header, number, payload_at, packet);
        }
        let bytes = if draft.is_counted { end - start } else { 0 };
        self.note_sent(level, bytes, draft.is_eliciting, false, now);
    }

    pub(super) fn note_sent(
        &mut self,
        level: Level,
        bytes: usize,
        is_eliciting: bool,
        is_probe: bool,
        now: Duration,
    ) {
        self.statistics.packets_sent += 1;
        if self.bytes_in_flight == 0 {
            self.waiting = now;
        }
        self.bytes_in_flight += bytes as u64;
        self.pacer.spend(bytes);
        // Who only hears us does not keep the connection (RFC 9000 §10.1).
        if is_eliciting && !self.has_sent_since {
            self.has_sent_since = true;
            self.heard = now;
        }
        self.space(level).sent.push(now, bytes as u16, is_eliciting, is_probe);
    }

    /// Asks whether a larger datagram arrives, in a batch of its own.
    fn probe_size(&mut self, now: Duration, batch: &mut Batch) -> bool {
        let is_ready = self.is_established
            && self.path.is_validated
            && !self.is_done_due
            && self.handshake.is_none()
            && self.rtt.is_known()
            && self.streams.has_bytes();
        if !is_ready {
            return false;
        }
        let Some(size) = self.path.take_probe(self.peer.datagram_bytes_max) else { return false };
        let out = &mut batch.bytes;
        let space = self.space(Level::OneRtt);
        let number = space.sent.next_number();
        let number_bytes = number_bytes(number, space.sent.largest_acked);
        let phase = self.one_rtt.as_ref().is_some_and(|keys| keys.phase());
        let own = self.own_ids.first();
        write_head(Level::OneRtt.kind(), (self.peer_ids.active(), &own), phase, number_bytes, out);
        out.extend_from_slice(number.to_be_bytes().get(8 - number_bytes..).unwrap_or(&[]));
        let payload_at = out.len();
        out.push(0x01);
        out.resize(size, 0);
        if let Some(keys) = &mut self.one_rtt {
            keys.seal((number, number_bytes), payload_at, out);
        }
        self.note_sent(Level::OneRtt, size, true, true, now);
        self.path.sent(size);
        batch.segment_bytes = size;
        true
    }

    /// Answers to challenges on the way that was before.
    fn old_responses(&mut self, now: Duration, batch: &mut Batch) -> Option<SocketAddr> {
        if !self.old_path.as_ref().is_some_and(|old| old.has_due()) {
            return None;
        }
        let old = self.old_path.take()?;
        let remote = old.remote;
        let current = std::mem::replace(&mut self.path, old);
        let size = self.path.datagram_bytes();
        let bytes = self.datagram(now, size, &mut batch.bytes);
        self.path.sent(bytes);
        batch.segment_bytes = bytes;
        self.old_path = Some(std::mem::replace(&mut self.path, current));
        (bytes > 0).then_some(remote)
    }

    /// Tells the client that it is over, under all keys it may have (RFC 9000 §10.2.3).
    fn write_close(&mut self, batch: &mut Batch) -> bool {
        let out = &mut batch.bytes;
        let room = self.path.room();
        for level in Level::ALL {
            let is_of_handshake = level != Level::OneRtt;
            if !self.has_keys(level) || (!is_of_handshake && !self.is_established) {
                continue;
            }
            let start = out.len();
            let space = self.space(level);
            let number = space.sent.next_number();
            let number_bytes = number_bytes(number, space.sent.largest_acked);
            let phase = self.one_rtt.as_ref().is_some_and(|keys| keys.phase());
            let own = self.own_ids.first();
            let ids = (self.peer_ids.active(), &own);
            let length_at = write_head(level.kind(), ids, phase, number_bytes, out);
            out.extend_from_slice(number.to_be_bytes().get(8 - number_bytes..).unwrap_or(&[]));
            let payload_at = out.len();
            match self.closed {
                Some(Closed::ByError(error)) => {
                    frame::write_close(false, error.code, error.reason, out);
                }
                // What the application says is not for who may not be the client.
                Some(Closed::ByApplication(_)) if is_of_handshake => {
                    frame::write_close(false, code::APPLICATION_ERROR, "", out);
                }
                Some(Closed::ByApplication(code)) => frame::write_close(true, code, "", out),
                _ => {}
            }
            out.resize(out.len().max(payload_at + PAYLOAD_BYTES_MIN) + TAG_BYTES, 0);
            let draft = Draft {
                level,
                number,
                number_bytes,
                start,
                length_at,
                payload_at,
                is_eliciting: false,
                is_counted: false,
            };
            let end = out.len();
            self.seal(draft, end, Duration::ZERO, out);
        }
        if out.len() as u64 > room {
            out.clear();
        }
        self.path.sent(out.len());
        batch.segment_bytes = out.len();
        !out.is_empty()
    }
}
