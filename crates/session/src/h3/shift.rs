//! Who reads a port while one process takes over from another: one at a time. See [`relay`].
//!
//! [`relay`]: freshet_net::quic::relay

use freshet_net::quic::relay::{BUFFER_BYTES, Heard, IDS_MAX, Relay, Word};
use freshet_quic::{Id, Route};
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;

/// Words of a line before others have their turn.
const WORDS_PER_TURN: usize = 64;

/// The processes before and after this one, at a port.
pub(super) struct Shift {
    /// The one before, while it has connections.
    elder: Option<Relay>,
    /// Whether that one still reads the port.
    is_elders: bool,
    /// The one after.
    heir: Option<Relay>,
    /// Whether that one reads it.
    is_heirs: bool,
    heirs: UnboundedReceiver<Relay>,
    buffer: Vec<u8>,
}

/// What a line brought.
pub(super) enum News<'a> {
    /// The process before has begun handshakes with these ids.
    Begun(Vec<Id>),
    /// The process before is gone.
    ElderGone,
    /// Datagrams for this process.
    Datagrams { route: Route, segment_bytes: usize, bytes: &'a mut [u8] },
}

impl Shift {
    pub(super) fn new(elder: Option<Relay>, heirs: UnboundedReceiver<Relay>) -> Self {
        let is_elders = elder.is_some();
        Self { elder, is_elders, heir: None, is_heirs: false, heirs, buffer: Vec::new() }
    }

    /// Whether this process reads the port.
    pub(super) fn is_ours(&self) -> bool {
        !self.is_elders && !self.is_heirs
    }

    /// Whether a process waits for the port.
    pub(super) fn has_heir(&self) -> bool {
        self.heir.is_some() && !self.is_heirs
    }

    /// Gives the port to it; handshakes that use the ids `begun` go on here.
    pub(super) fn give(&mut self, begun: &[Id]) {
        let Some(heir) = &self.heir else { return };
        self.is_heirs =
            begun.chunks(IDS_MAX).all(|ids| heir.say(Word::Begun(ids))) && heir.say(Word::Yours);
        if !self.is_heirs {
            // It does not listen.
            self.heir = None;
        }
    }

    /// Passes datagrams to the process before; false when they are lost.
    pub(super) fn pass(&self, route: Route, datagram: &[u8]) -> bool {
        let word = Word::Datagrams { route, segment_bytes: datagram.len(), bytes: datagram };
        self.elder.as_ref().is_some_and(|elder| elder.say(word))
    }

    /// Hears what both lines say.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut each: impl FnMut(News<'_>),
    ) -> Poll<()> {
        let mut has_news = false;
        while let Poll::Ready(Some(heir)) = self.heirs.poll_recv(cx) {
            (self.heir, self.is_heirs, has_news) = (Some(heir), false, true);
        }
        if self.elder.is_none() && self.heir.is_none() {
            self.buffer = Vec::new();
            return if has_news { Poll::Ready(()) } else { Poll::Pending };
        }
        self.buffer.resize(BUFFER_BYTES, 0);
        for _ in 0..WORDS_PER_TURN {
            let Some(elder) = &self.elder else { break };
            let Poll::Ready(heard) = elder.poll_hear(cx, &mut self.buffer) else { break };
            has_news = true;
            match heard {
                Some(Heard::Begun(ids)) => each(News::Begun(ids)),
                Some(Heard::Yours) => self.is_elders = false,
                Some(_) => {}
                None => {
                    (self.elder, self.is_elders) = (None, false);
                    each(News::ElderGone);
                }
            }
        }
        for _ in 0..WORDS_PER_TURN {
            let Some(heir) = &self.heir else { break };
            let Poll::Ready(heard) = heir.poll_hear(cx, &mut self.buffer) else { break };
            has_news = true;
            match heard {
                Some(Heard::Datagrams { route, segment_bytes, bytes }) => {
                    let at = freshet_net::quic::relay::DATAGRAMS_AT;
                    let bytes = self.buffer.get_mut(at..at + bytes).unwrap_or_default();
                    each(News::Datagrams { route, segment_bytes, bytes });
                }
                Some(_) => {}
                // The port is ours again.
                None => (self.heir, self.is_heirs) = (None, false),
            }
        }
        if has_news { Poll::Ready(()) } else { Poll::Pending }
    }
}
