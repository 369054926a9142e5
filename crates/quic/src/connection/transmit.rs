//! Datagrams out.

use super::super::batch::Batch;
use super::super::congestion::Sending;
use super::super::ecn::Ecn;
use super::super::error::{Error, code};
use super::super::keys;
use super::super::limits::{
    BATCH_BYTES_MAX, BATCH_DATAGRAMS_MAX, DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, SENT_SPAN_MAX,
};
use super::super::pacer::Pace;
use super::super::packet::{TAG_BYTES, number_bytes, write_head, write_length};
use super::super::route::Route;
use super::super::sent::How;
use super::super::space::Level;
use super::payload::{Tail, Written};
use super::{Closed, Connection, Phase};
use std::time::Duration;

/// What a datagram may lack to be filled up: a batch goes on only behind a full one.
const FILLED_BYTES: usize = 48;
/// So much in flight is acknowledged, at least a part of it, also by clients that wait for ten packets.
const ANSWERED_BYTES: u64 = 12 * DATAGRAM_BYTES_MAX as u64;
/// Fewer bytes than these have no room for a head, an acknowledgement and a tag.
const DATAGRAM_BYTES_USEFUL: usize = 64;
/// The least payload that hides a number (RFC 9001 §5.4.2).
pub(super) const PAYLOAD_BYTES_MIN: usize = 4;

/// A packet that is not sealed yet.
#[derive(Clone, Copy)]
pub(super) struct Draft {
    pub(super) level: Level,
    pub(super) number: u64,
    pub(super) number_bytes: usize,
    pub(super) start: usize,
    pub(super) length_at: Option<usize>,
    pub(super) payload_at: usize,
    pub(super) is_eliciting: bool,
    /// Whether it counts as in flight.
    pub(super) is_counted: bool,
    /// What is to be sealed in front of the tag from where it lies.
    pub(super) tail: Option<Tail>,
}

/// What may go into a datagram.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Packets that ask to be acknowledged.
    pub(super) eliciting: bool,
    /// Bytes of streams.
    pub(super) streams: bool,
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// Fills an empty batch with what is to be sent now, and says where to. Has to be called until it
    /// says nothing: after datagrams came, after time passed, after streams were written to.
    pub fn fill(&mut self, now: Duration, batch: &mut Batch) -> Option<Route> {
        debug_assert!(batch.is_empty());
        self.is_marking = false;
        let route = self.path.route;
        match self.phase {
            Phase::Open => {}
            Phase::Closing(_) => {
                let due = std::mem::take(&mut self.is_close_due);
                return (due && self.write_close(batch)).then_some(route);
            }
            Phase::Draining(_) | Phase::Over => return None,
        }
        if let Some(other) = self.on_other_ways(now, batch) {
            return Some(other);
        }
        if self.one_rtt.as_ref().is_some_and(|keys| keys.is_spent()) {
            let error = Error::new(code::AEAD_LIMIT_REACHED, "the keys are used up");
            self.close_with(Closed::ByError(error), now);
            return self.fill(now, batch);
        }
        let pace = self.congestion.pace(&self.rtt);
        self.pacer.fill(now, &pace, self.rtt.is_near());
        if self.probe_size(now, batch) {
            return Some(route);
        }
        let size = self.path.datagram_bytes().min(self.peer.datagram_bytes_max);
        self.is_gathering = self.gathers(&pace);
        self.is_marking = self.path.marking.is_on()
            && self.is_established
            && self.initial.is_none()
            && self.handshake.is_none();
        if self.is_marking {
            batch.ecn = Ecn::Ect0;
        }
        for _ in 0..BATCH_DATAGRAMS_MAX {
            self.train(now, size, batch);
            if !batch.has_room(size) {
                break;
            }
            let bytes = self.datagram(now, size, batch);
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
        if self.spaces.iter().any(|(_, space)| space.sent.span() > SENT_SPAN_MAX) {
            let error = Error::violation("nothing is acknowledged");
            self.close_with(Closed::ByError(error), now);
        }
        if batch.is_empty()
            && self.is_established
            && !self.streams.has_bytes()
            && self.pacer.has(size as u64)
        {
            self.congestion.ran_dry(self.bytes_in_flight);
        }
        (!batch.is_empty()).then_some(route)
    }

    /// Whether streams wait until more of them may go out at once: a call of the kernel for each few packets
    /// would cost more than all else.
    fn gathers(&self, pace: &Pace) -> bool {
        let room = self.congestion.window().saturating_sub(self.bytes_in_flight);
        let gathered = self.gathered(pace);
        let waits_for_room = self.rtt.is_near() && room < gathered;
        !self.streams.has_urgent() && (waits_for_room || !self.pacer.has(gathered))
    }

    /// Bytes of streams that it is worth to wait for. Acknowledgements of a near client come in a moment: it is
    /// a whole batch there, as long as so much is in flight that a client acknowledges some of it without
    /// waiting for more.
    fn gathered(&self, pace: &Pace) -> u64 {
        let bytes = if self.rtt.is_near() {
            let window = self.congestion.window();
            let wanted = (window / 2).max(window.saturating_sub(ANSWERED_BYTES));
            wanted.min(BATCH_BYTES_MAX as u64)
        } else {
            pace.gathered()
        };
        bytes.min(self.streams.unsent())
    }

    /// When bytes that wait for their pace may go out.
    pub(super) fn paced_until(&self) -> Option<Duration> {
        if self.one_rtt.is_none() || !self.streams.has_bytes() {
            return None;
        }
        let pace = self.congestion.pace(&self.rtt);
        let size = self.path.datagram_bytes() as u64;
        let gathered = if self.streams.has_urgent() { 0 } else { self.gathered(&pace) };
        let wanted = gathered.max(size);
        let waits =
            !self.pacer.has(wanted) && self.bytes_in_flight + size <= self.congestion.window();
        waits.then(|| self.pacer.next(&pace, wanted))
    }

    /// Whether there is room for a datagram that is of any use: a client that has not shown that it is
    /// there has to come again first, where there is none.
    pub(super) fn may_speak(&self) -> bool {
        let least = match self.initial {
            // One with a first packet has to be full.
            Some(_) => self.path.datagram_bytes().min(self.peer.datagram_bytes_max),
            None => DATAGRAM_BYTES_USEFUL,
        };
        self.path.room() >= least as u64
    }

    /// Appends one datagram of at most `size` bytes and says how many it has.
    pub(super) fn datagram(&mut self, now: Duration, size: usize, batch: &mut Batch) -> usize {
        let end = size.min(usize::try_from(self.path.room()).unwrap_or(usize::MAX));
        if !self.may_speak() {
            return 0;
        }
        let out = &mut batch.draft;
        let mut drafts = [None; Level::ALL.len()];
        for (level, place) in Level::ALL.into_iter().zip(&mut drafts) {
            *place = self.draft(level, now, size, end, out);
        }
        // Only data has one, and it is the last.
        let tail = drafts.last().copied().flatten().and_then(|draft: Draft| draft.tail);
        let written = out.len() + tail.map_or(0, |tail| tail.len);
        // A datagram with an Initial packet that asks for an answer is full (RFC 9000 §14.1), and so
        // is one whose packets have no room for more.
        let asks = |draft: &&Draft| draft.level == Level::Initial && draft.is_eliciting;
        let has_initial = drafts.iter().flatten().any(|draft| asks(&draft));
        // So is one that asks or answers whether the client is there.
        let says = self.path.take_said();
        let has_to_be_full = says || has_initial;
        let is_full = written > 0 && end - written < FILLED_BYTES;
        let padded = if has_to_be_full {
            DATAGRAM_BYTES_MIN.min(end).max(written)
        } else if is_full && drafts.iter().flatten().any(|draft| draft.level == Level::OneRtt) {
            end
        } else {
            written
        };
        if says && padded < DATAGRAM_BYTES_MIN {
            self.path.said_in_little();
        }
        if padded > written
            && let Some(last) = drafts.iter_mut().flatten().last()
        {
            if let Some(tail) = last.tail.take() {
                // It is not the end any more.
                out.truncate(out.len() - TAG_BYTES);
                out.extend_from_slice(Self::tail(&self.streams, tail));
            }
            // In front of the tag, which is not there yet.
            out.resize(padded, 0);
            debug_assert!(last.payload_at <= padded);
        }
        if out.is_empty() {
            return 0;
        }
        let mut end = padded;
        let out = batch.push(padded);
        for draft in drafts.into_iter().rev().flatten() {
            self.seal(draft, end, now, out);
            end = draft.start;
        }
        padded
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
        // What answers early data does not stand in the way of the handshake, which has to end before
        // any of it is acknowledged.
        let ahead = if level == Level::OneRtt { 0 } else { self.space(Level::OneRtt).sent.bytes() };
        let has_room = self.bytes_in_flight.saturating_sub(ahead) + size as u64 <= window;
        let may_send = has_room && !self.is_gathering && self.pacer.has(size as u64);
        let streams = may_send || is_probing;
        // Whether a client is there is asked whatever is in flight: that may all be on its way to where it was, and
        // an acknowledgement without the question is all that it waits for.
        let asks = level == Level::OneRtt && self.path.due_bytes() > 0;
        let allowed = Allowed { eliciting: has_room || is_probing || asks, streams };
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
        let head = (level.kind(), self.version);
        let length_at = write_head(head, ids, phase, number_bytes, out);
        let bytes = number.to_be_bytes();
        out.extend_from_slice(bytes.get(bytes.len() - number_bytes..)?);
        let payload_at = out.len();
        let limit = end.saturating_sub(TAG_BYTES);
        let mut written = Written::default();
        if payload_at + PAYLOAD_BYTES_MIN < limit {
            written = self.payload(level, allowed, now, limit, out);
        }
        if out.len() == payload_at {
            out.truncate(start);
            return None;
        }
        if written.tail.is_none() && out.len() < payload_at + PAYLOAD_BYTES_MIN {
            out.resize(payload_at + PAYLOAD_BYTES_MIN, 0);
        }
        out.extend_from_slice(&[0; TAG_BYTES]);
        let Written { is_eliciting, tail } = written;
        Some(Draft {
            level,
            number,
            number_bytes,
            start,
            length_at,
            payload_at,
            is_eliciting,
            is_counted: is_eliciting,
            tail,
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
                && (self.has_control() || (allowed.streams && self.streams.has_bytes())))
    }

    /// Whether frames about the connection and its streams are due.
    pub(super) fn has_control(&self) -> bool {
        self.is_done_due
            || self.path.has_due()
            || self.own_ids.has_due()
            || self.peer_ids.has_due()
            || self.streams.has_due()
    }

    pub(super) fn seal(&mut self, draft: Draft, end: usize, now: Duration, out: &mut [u8]) {
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
                    let tail = draft.tail.map_or(&[][..], |tail| Self::tail(&self.streams, tail));
                    keys.seal(number, payload_at, packet, tail);
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
        let how =
            How { is_eliciting: draft.is_eliciting, is_probe: false, is_marked: self.is_marking };
        self.note_sent(level, bytes, how, now);
    }

    pub(super) fn note_sent(&mut self, level: Level, bytes: usize, how: How, now: Duration) {
        self.note_run(level, (1, bytes), how, now);
    }

    /// The same of several packets with numbers in a row, of so many bytes each.
    pub(super) fn note_run(
        &mut self,
        level: Level,
        (packets, bytes): (u8, usize),
        how: How,
        now: Duration,
    ) {
        let of_all = bytes * usize::from(packets);
        self.statistics.packets_sent += u64::from(packets);
        if how.is_marked {
            self.marked_sent += u64::from(packets);
            self.marks.sent += u64::from(packets);
            self.path.marking.note_sent(u64::from(packets));
        }
        if self.bytes_in_flight == 0 {
            self.waiting = now;
        }
        if level == Level::OneRtt && of_all > 0 {
            let first = self.spaces.data.sent.next_number();
            let (packets, bytes) = (u64::from(packets), bytes as u64);
            let in_flight = self.bytes_in_flight;
            self.congestion.sending(&Sending { now, first, packets, bytes, in_flight });
        }
        self.bytes_in_flight += of_all as u64;
        self.pacer.spend(of_all);
        // Who only hears us does not keep the connection (RFC 9000 §10.1).
        if how.is_eliciting && !self.has_sent_since {
            self.has_sent_since = true;
            self.heard = now;
        }
        self.space(level).sent.push_run(now, packets, bytes as u16, how);
    }
}
