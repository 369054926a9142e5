//! Datagrams that are full of one stream, one behind the other: most of all that is sent.

use super::super::batch::Batch;
use super::super::frame::{stream_head_bytes, write_stream_head};
use super::super::packet::{TAG_BYTES, number_bytes, write_head};
use super::super::sent::{Carried, How, RUN_PACKETS_MAX};
use super::super::space::Level;
use super::Connection;
use std::time::Duration;

impl<P: AsRef<[u8]>> Connection<P> {
    /// Appends full datagrams with bytes of the stream whose turn it is, as long as they lie in one piece and
    /// nothing else is to be said. Whatever else there is has its place in
    /// [`datagram`](Self::datagram)s, of which these are a short form: what is the same in all of them is
    /// found out once.
    pub(super) fn train(&mut self, now: Duration, size: usize, batch: &mut Batch) {
        if self.streams.unsent() < size as u64 || !self.may_run() {
            return;
        }
        let Some((stream, first_offset, bytes)) = self.streams.run() else { return };
        let Some(keys) = &mut self.one_rtt else { return };
        let sent = &mut self.spaces.data.sent;
        let room = self.congestion.window().saturating_sub(self.bytes_in_flight) / size as u64;
        // A number is left out before the last of these.
        let before_skip = self.until_skip.saturating_sub(1);
        let most = room.min(self.pacer.packets(size)).min(before_skip) as usize;
        let most = most.min(batch.room_for(size)).min(RUN_PACKETS_MAX);
        if most == 0 || bytes.len() < size {
            return;
        }
        let first = sent.next_number();
        let number_bytes = number_bytes(first + most as u64, sent.largest_acked);

        let mut front = std::mem::take(&mut batch.draft);
        let (head, own) = ((Level::OneRtt.kind(), self.version), self.own_ids.first());
        write_head(head, (self.peer_ids.active(), &own), keys.phase(), number_bytes, &mut front);
        let number_at = front.len();
        let payload_at = number_at + number_bytes;
        let frame_head_bytes = stream_head_bytes(stream, first_offset);
        let len = size.saturating_sub(payload_at + frame_head_bytes + TAG_BYTES).max(1);
        let (mut packets, mut offset) = (0, first_offset);
        for tail in bytes.chunks_exact(len).take(most) {
            if stream_head_bytes(stream, offset) != frame_head_bytes || keys.is_worn() {
                break;
            }
            let number = first + u64::from(packets);
            front.truncate(number_at);
            front.extend_from_slice(number.to_be_bytes().get(8 - number_bytes..).unwrap_or(&[]));
            write_stream_head(stream, offset, len, false, &mut front);
            let datagram = batch.append(&front, size);
            keys.seal((number, number_bytes), payload_at, datagram, tail);
            packets += 1;
            offset += len as u64;
        }
        front.clear();
        batch.draft = front;
        if packets == 0 {
            return;
        }
        sent.carry(Carried::Stream { stream, offset: first_offset, len: len as u32, ends: false });
        self.spaces.data.silent = 0;
        self.until_skip -= u64::from(packets);
        self.is_window_limited = false;
        self.streams.ran(stream, offset - first_offset);
        let how = How { is_eliciting: true, is_probe: false, is_marked: self.is_marking };
        self.note_run(Level::OneRtt, (packets, size), how, now);
        self.path.sent(size * usize::from(packets));
        batch.segment_bytes = size;
    }

    /// Whether nothing is to be said but bytes of streams, which may go out.
    fn may_run(&self) -> bool {
        let space = &self.spaces.data;
        let is_shaking_hands = self.initial.is_some() || self.handshake.is_some();
        self.is_established
            && !is_shaking_hands
            && self.path.is_validated
            && !self.is_gathering
            && space.probes == 0
            && space.received.due().is_none()
            && !space.has_crypto()
            && !self.has_control()
            && !self.asking.is_due()
    }
}
