//! The way to a client: where it is, whether that is known, and how large a datagram it takes.

use super::datagram_size::DatagramSize;
use super::ecn::Marking;
use super::limits::{AMPLIFICATION_FACTOR, CHALLENGES_MAX, DATAGRAM_BYTES_MIN};
use super::route::Route;
use std::time::Duration;

/// What a client is asked to send back, to show that it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) bytes: [u8; 8],
    /// When it is too late for an answer.
    pub(super) until: Duration,
    /// How often it may be sent again.
    pub(super) tries_left: u8,
    /// Whether it was in a datagram that was not full, so that an answer does not say that the way takes one.
    is_little: bool,
}

/// What bytes that came back say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Answered {
    /// Nobody asked for them.
    Nothing,
    /// The client is there; whether the way takes full datagrams is to be asked (RFC 9000 §8.2.1).
    Little,
    /// The client is there, and the way takes full datagrams.
    Full,
}

/// Bytes of a frame about a way.
const FRAME_BYTES: usize = 1 + 8;
/// How often a challenge is sent in all.
const CHALLENGE_TRIES: u8 = 3;

/// A way.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) route: Route,
    /// Whether the client is known to be there.
    pub(super) is_validated: bool,
    received: u64,
    sent: u64,
    /// What was asked to show that.
    pub(super) challenge: Option<Challenge>,
    /// Whether it has to be sent.
    pub(super) is_challenge_due: bool,
    /// Bytes to be sent back.
    responses: Vec<[u8; 8]>,
    /// Whether something about the way itself was said since that was asked.
    has_said: bool,
    pub(super) datagram_size: DatagramSize,
    pub(super) marking: Marking,
}

impl Path {
    pub(super) fn new(route: Route, is_validated: bool) -> Self {
        Self {
            route,
            is_validated,
            received: 0,
            sent: 0,
            challenge: None,
            is_challenge_due: false,
            responses: Vec::new(),
            has_said: false,
            datagram_size: DatagramSize::new(),
            marking: Marking::new(),
        }
    }

    /// Bytes came.
    pub(super) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Bytes were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Bytes that may be sent (RFC 9000 §8.1).
    pub(super) fn room(&self) -> u64 {
        if self.is_validated {
            return u64::MAX;
        }
        (self.received * AMPLIFICATION_FACTOR).saturating_sub(self.sent)
    }

    /// Bytes of a full datagram.
    pub(super) fn datagram_bytes(&self) -> usize {
        self.datagram_size.bytes()
    }

    /// Nothing arrives any more: perhaps because of the size, or of the marks.
    pub(super) fn shrink(&mut self) {
        self.marking = Marking::Failed;
        self.datagram_size.doubt();
    }

    /// Bytes are to be sent back; false when there are too many already.
    pub(super) fn respond(&mut self, bytes: [u8; 8]) -> bool {
        let has_room = self.responses.len() < CHALLENGES_MAX;
        if has_room {
            self.responses.push(bytes);
        }
        has_room
    }

    /// The client is to send these bytes back, which can be repeated until `until`.
    pub(super) fn ask(&mut self, bytes: [u8; 8], until: Duration) {
        self.challenge =
            Some(Challenge { bytes, until, tries_left: CHALLENGE_TRIES - 1, is_little: false });
        self.is_challenge_due = true;
    }

    /// What is due was said in a datagram that was not full.
    pub(super) fn said_in_little(&mut self) {
        if let Some(challenge) = &mut self.challenge {
            challenge.is_little = true;
        }
    }

    /// Bytes came back.
    pub(super) fn answered(&mut self, bytes: [u8; 8]) -> Answered {
        let Some(challenge) = self.challenge.take_if(|challenge| challenge.bytes == bytes) else {
            return Answered::Nothing;
        };
        self.is_challenge_due = false;
        self.is_validated = true;
        if challenge.is_little { Answered::Little } else { Answered::Full }
    }

    /// Whether the client is asked in whatever goes to it: it gets so little until it answers that what is said without
    /// the question only takes the room of it, and one question may be lost.
    pub(super) fn asks_always(&self) -> bool {
        self.challenge.is_some() && self.room() < DATAGRAM_BYTES_MIN as u64
    }

    /// Bytes of the frames about the way that belong in the next datagram.
    pub(super) fn due_bytes(&self) -> usize {
        let asks = self.is_challenge_due || self.asks_always();
        (usize::from(asks) + self.responses.len()) * FRAME_BYTES
    }

    /// Appends the frames about the way that belong in a datagram, as far as there is room up to `limit`.
    pub(super) fn write_due(&mut self, limit: usize, out: &mut Vec<u8>) {
        let has_room = |out: &Vec<u8>| out.len() + FRAME_BYTES <= limit;
        if (self.is_challenge_due || self.asks_always())
            && has_room(out)
            && let Some(challenge) = &self.challenge
        {
            self.is_challenge_due = false;
            self.has_said = true;
            out.push(0x1a);
            out.extend_from_slice(&challenge.bytes);
        }
        while has_room(out)
            && let Some(bytes) = self.responses.pop()
        {
            self.has_said = true;
            out.push(0x1b);
            out.extend_from_slice(&bytes);
        }
    }

    /// Whether such a frame was written since this was asked last: its datagram has to be full, so
    /// that it shows that the way takes one (RFC 9000 §8.2).
    pub(super) fn take_said(&mut self) -> bool {
        std::mem::take(&mut self.has_said)
    }

    /// What is due is not said after all.
    pub(super) fn forget_due(&mut self) {
        self.is_challenge_due = false;
        self.responses.clear();
    }

    /// Whether something about the way itself is to be said.
    pub(super) fn has_due(&self) -> bool {
        self.is_challenge_due || !self.responses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn route() -> Route {
        Route::from(SocketAddr::from(([127, 0, 0, 1], 1)))
    }

    #[test]
    fn who_is_not_known_to_be_there_gets_three_times_what_it_sends() {
        let mut path = Path::new(route(), false);
        assert_eq!(path.room(), 0);
        path.received(1200);
        path.sent(3000);
        assert_eq!(path.room(), 600);
        path.is_validated = true;
        assert_eq!(path.room(), u64::MAX);
    }
}
