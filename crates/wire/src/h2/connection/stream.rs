//! One request and its response, and what is remembered of those that are over.

use super::super::limits::CLOSED_STREAMS_KEPT;
use super::super::window::{ReceiveWindow, SendWindow};
use crate::h1::Limits;
use crate::outgoing::Outgoing;
use freshet_http::priority::Priority;
use std::collections::VecDeque;

/// A stream that is open or half closed (RFC 9113 §5.1). One that is closed is not kept.
#[derive(Debug)]
pub(super) struct Stream {
    /// Whether the client may send more of it.
    pub(super) is_remote_open: bool,
    /// Bytes of the request's body that must still come, where its length was told.
    pub(super) length_left: Option<u64>,
    /// Whether anybody takes the body.
    pub(super) is_body_wanted: bool,
    /// Bytes of the body that were handed out and not taken yet.
    pub(super) untaken: u32,
    /// Bytes of padding among them, which are taken with the next content.
    pub(super) padding: u32,
    pub(super) receive: ReceiveWindow,
    pub(super) send: SendWindow,
    pub(super) priority: Priority,
    pub(super) body: Outgoing,
    /// Whether the scheduler has it.
    pub(super) is_scheduled: bool,
    /// What was asked, where we are the client.
    pub(super) asked: Option<Box<Asked>>,
}

/// How the response to our request is read.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) limits: Limits,
    /// Whether a response has no body, whatever it says of its length.
    pub(super) is_head: bool,
    /// Whether the final head came.
    pub(super) is_answered: bool,
}

impl Stream {
    /// Whether it has bytes to send and a window for them.
    pub(super) fn can_send(&self) -> bool {
        self.body.bytes() > 0 && self.send.bytes() > 0
    }

    /// Whether all of our side was sent.
    pub(super) fn is_answered(&self) -> bool {
        self.body.is_sent()
    }
}

/// How a stream came to its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Closed {
    /// Both sides said all.
    Whole,
    /// The peer does not want it.
    ByPeer,
    /// We ended it; the client may not know yet.
    ByUs,
}

/// The streams that ended last.
#[derive(Debug, Default)]
pub(super) struct ClosedStreams(VecDeque<(u32, Closed)>);

impl ClosedStreams {
    pub(super) fn add(&mut self, stream: u32, how: Closed) {
        if self.0.len() == CLOSED_STREAMS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((stream, how));
    }

    pub(super) fn get(&self, stream: u32) -> Option<Closed> {
        self.0.iter().rev().find(|(other, _)| *other == stream).map(|(_, how)| *how)
    }
}
