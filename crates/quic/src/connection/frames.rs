//! What the frames of a packet come to.

use super::super::error::{Error, code};
use super::super::frame::Frame;
use super::super::ids::PeerId;
use super::super::limits::ACKS_PER_PACKET_MAX;
use super::super::packet::{Kind, Protected};
use super::super::path::Answered;
use super::super::route::Route;
use super::super::space::{Asks, Level};
use super::super::varint::Reader;
use super::{Closed, Connection};
use std::time::Duration;

/// What the frames of a packet were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Whether the packet has to be acknowledged, and when.
    pub(super) asks: Asks,
    /// Whether it only asks about a way (RFC 9000 §9.1).
    pub(super) is_probing: bool,
}

impl<P: AsRef<[u8]>> Connection<P> {
    pub(super) fn frames(
        &mut self,
        level: Level,
        payload: &[u8],
        packet: &Protected,
        route: Route,
        now: Duration,
    ) -> Result<Seen, Error> {
        if payload.is_empty() {
            return Err(Error::violation("a packet is empty"));
        }
        let mut seen = Seen { asks: Asks::Nothing, is_probing: true };
        let mut acks = 0;
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let frame = Frame::read(&mut reader)?;
            if level != Level::OneRtt && !frame.is_of_handshake() {
                return Err(Error::violation("a frame came in a packet that may not have it"));
            }
            if packet.kind == Kind::ZeroRtt && !frame.is_of_early_data() {
                return Err(Error::violation("a frame came as early data that may not"));
            }
            if matches!(frame, Frame::ImmediateAck) {
                seen.asks = Asks::AtOnce;
            } else if frame.is_eliciting() && seen.asks == Asks::Nothing {
                seen.asks = Asks::Ack;
            }
            seen.is_probing &= matches!(
                frame,
                Frame::Padding
                    | Frame::PathChallenge(_)
                    | Frame::PathResponse(_)
                    | Frame::NewConnectionId { .. }
            );
            // It brings nothing and costs nothing; were it of use, it would pay for what is not.
            if matches!(frame, Frame::Padding) {
                continue;
            }
            if matches!(frame, Frame::Ack(_)) {
                acks += 1;
                if acks > ACKS_PER_PACKET_MAX {
                    return Err(Error::MANY_ACKS);
                }
            }
            let is_useful = self.frame(level, frame, packet, route, now)?;
            if is_useful {
                self.calm.forgive(1);
            } else if !self.calm.owe(now) {
                return Err(Error::IDLE);
            }
            // Nothing behind the end counts.
            if self.closed.is_some() {
                break;
            }
        }
        Ok(seen)
    }

    /// Takes a frame; false when it brought nothing.
    fn frame(
        &mut self,
        level: Level,
        frame: Frame<'_>,
        packet: &Protected,
        route: Route,
        now: Duration,
    ) -> Result<bool, Error> {
        match frame {
            Frame::Padding | Frame::Ping | Frame::Blocked { stream: None } => Ok(false),
            Frame::Ack(ack) => self.acknowledged(level, &ack, now),
            Frame::Crypto { offset, bytes } => {
                self.crypto(level, offset, bytes, now).map(|()| !bytes.is_empty())
            }
            Frame::Stream { stream, offset, bytes, ends } => {
                let result = self.streams.receive(stream, offset, bytes, ends);
                result.map(|()| !bytes.is_empty() || ends)
            }
            Frame::ResetStream { stream, code, size } => {
                self.streams.reset_by_peer(stream, code, size).map(|()| false)
            }
            Frame::StopSending { stream, code } => {
                self.streams.stop_by_peer(stream, code).map(|()| false)
            }
            Frame::MaxData(bytes) => Ok(self.streams.max_data(bytes)),
            Frame::MaxStreamData { stream, bytes } => self.streams.max_stream_data(stream, bytes),
            Frame::MaxStreams { is_both_ways, count } => {
                Ok(!is_both_ways && self.streams.max_own_streams(count))
            }
            Frame::Blocked { stream: Some(stream) } => self.streams.check(stream).map(|()| false),
            Frame::NewConnectionId { sequence, retire_before, id, reset_token } => {
                let reset_token = Some(reset_token);
                self.peer_ids.add(retire_before, PeerId { sequence, id, reset_token })
            }
            Frame::RetireConnectionId(sequence) => {
                self.own_ids.retire(sequence, &packet.receiver).map(|_| false)
            }
            Frame::PathChallenge(bytes) => {
                self.challenged(bytes, packet.end, route)?;
                Ok(false)
            }
            Frame::PathResponse(bytes) => {
                if let Some(former) = &mut self.former {
                    former.path.answered(bytes);
                }
                let answered = self.path.answered(bytes);
                match answered {
                    Answered::Nothing => {}
                    // Until that is known the way before is kept.
                    Answered::Little => {
                        let until = now + 3 * self.rtt.probe_timeout();
                        let challenge = self.challenge();
                        self.path.ask(challenge, until);
                    }
                    Answered::Full => {
                        self.is_token_wanted = true;
                        self.forget_former()?;
                    }
                }
                Ok(answered != Answered::Nothing)
            }
            Frame::ConnectionClose { is_application, code } => {
                self.close_with(Closed::ByClient { is_application, code }, now);
                Ok(true)
            }
            Frame::ImmediateAck => Ok(false),
            Frame::AckFrequency { sequence, asked } => {
                let too_soon = |_| Error::violation("acknowledgements are wanted too soon");
                let obeyed = &mut self.space(level).received.obeyed;
                obeyed.ask(sequence, asked).map_err(too_soon)?;
                self.marks.frequencies_obeyed += 1;
                Ok(false)
            }
            Frame::NewToken | Frame::HandshakeDone => {
                Err(Error::new(code::PROTOCOL_VIOLATION, "only a server sends this frame"))
            }
        }
    }
}
