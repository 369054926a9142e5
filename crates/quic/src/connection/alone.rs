//! Datagrams for a purpose of their own: to ask for their size, to end.

use super::super::batch::Batch;
use super::super::error::code;
use super::super::frame;
use super::super::packet::{TAG_BYTES, number_bytes, write_head};
use super::super::sent::How;
use super::super::space::Level;
use super::transmit::{Draft, PAYLOAD_BYTES_MIN};
use super::{Closed, Connection};
use std::time::Duration;

impl<P: AsRef<[u8]>> Connection<P> {
    /// Asks whether a larger datagram arrives, in a batch of its own.
    pub(super) fn probe_size(&mut self, now: Duration, batch: &mut Batch) -> bool {
        let is_ready = self.is_established
            && self.path.is_validated
            && !self.is_done_due
            && self.handshake.is_none()
            && self.rtt.is_known()
            && self.streams.has_bytes();
        if !is_ready {
            return false;
        }
        let number = self.space(Level::OneRtt).sent.next_number();
        let size = self.path.datagram_size.take_probe(self.peer.datagram_bytes_max, number, now);
        let Some(size) = size else { return false };
        let out = &mut batch.draft;
        let number_bytes = number_bytes(number, self.space(Level::OneRtt).sent.largest_acked);
        let phase = self.one_rtt.as_ref().is_some_and(|keys| keys.phase());
        let own = self.own_ids.first();
        let head = (Level::OneRtt.kind(), self.version);
        write_head(head, (self.peer_ids.active(), &own), phase, number_bytes, out);
        out.extend_from_slice(number.to_be_bytes().get(8 - number_bytes..).unwrap_or(&[]));
        let payload_at = out.len();
        out.push(0x01);
        out.resize(size, 0);
        if let Some(keys) = &mut self.one_rtt {
            keys.seal((number, number_bytes), payload_at, out, &[]);
        }
        let how = How { is_eliciting: true, is_probe: true, is_marked: false };
        self.note_sent(Level::OneRtt, size, how, now);
        self.path.sent(size);
        batch.push_alone();
        true
    }

    /// Tells the client that it is over, under all keys it may have (RFC 9000 §10.2.3).
    pub(super) fn write_close(&mut self, batch: &mut Batch) -> bool {
        let out = &mut batch.draft;
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
            let head = (level.kind(), self.version);
            let length_at = write_head(head, ids, phase, number_bytes, out);
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
                tail: None,
            };
            let end = out.len();
            self.seal(draft, end, Duration::ZERO, out);
        }
        if out.len() as u64 > room {
            out.clear();
        }
        self.path.sent(out.len());
        batch.push_alone();
        !batch.is_empty()
    }
}
