//! The ways between both sides: the present one, the one before, and one that the client tries
//! (RFC 9000 §9).

use super::super::batch::Batch;
use super::super::congestion::Congestion;
use super::super::error::Error;
use super::super::id::Id;
use super::super::limits::DATAGRAM_BYTES_MIN;
use super::super::packet::{TAG_BYTES, number_bytes, write_head};
use super::super::path::Path;
use super::super::reordering::Reordering;
use super::super::route::Route;
use super::super::rtt::Rtt;
use super::super::sent::How;
use super::super::space::Level;
use super::Connection;
use std::time::Duration;

/// The way before the present one, until the client has shown that it is at the new one.
pub(super) struct Former {
    pub(super) path: Path,
    /// What was known of it, where the new way is not just another port of the same network.
    known: Option<(Congestion, Rtt)>,
    /// Whom packets were for.
    client: Id,
}

impl<P: AsRef<[u8]>> Connection<P> {
    /// The way that is known by this route.
    pub(super) fn path_of(&mut self, route: Route) -> Option<&mut Path> {
        if route == self.path.route {
            return Some(&mut self.path);
        }
        let former = self.former.as_mut().map(|former| &mut former.path);
        let tried = self.tried.as_deref_mut();
        [former, tried].into_iter().flatten().find(|path| path.route == route)
    }

    /// Where the client is known to be: not yet where it only says that it has moved to (RFC 9000 §9.3.3).
    pub fn known_route(&self) -> Route {
        match &self.former {
            Some(former) if !self.path.is_validated => former.path.route,
            _ => self.path.route,
        }
    }

    /// The client sends from another address, or its network has given it another (RFC 9000 §9.3).
    pub(super) fn moved(
        &mut self,
        route: Route,
        datagram_bytes: usize,
        now: Duration,
    ) -> Result<(), Error> {
        if !self.calm.owe(now) {
            return Err(Error::violation("the client moves without end"));
        }
        if let Some(former) = self.former.take_if(|former| former.path.route == route) {
            return self.go_back(*former);
        }
        if self.path.is_validated {
            // It is the present one that is kept from now on.
            self.forget_former()?;
        }
        let tried = self.tried.take_if(|tried| tried.route == route);
        let was_tried = tried.is_some();
        let mut path = tried.map_or_else(
            || {
                let mut path = Path::new(route, false);
                path.received(datagram_bytes);
                path
            },
            |tried| *tried,
        );
        let until = now + 3 * self.rtt.probe_timeout();
        path.ask(self.challenge(), until);
        let mut old = std::mem::replace(&mut self.path, path);
        let client = *self.peer_ids.active();
        let mut known = None;
        // Another port of the same address is a network's doing, and the way is the same.
        let is_elsewhere =
            (old.route.remote.ip(), old.route.local) != (route.remote.ip(), route.local);
        if is_elsewhere {
            let seed = self.random.draw();
            let anew = self.congestion.anew(seed);
            let congestion = std::mem::replace(&mut self.congestion, anew);
            known = Some((congestion, std::mem::replace(&mut self.rtt, Rtt::new())));
            self.reordering = Reordering::default();
            // What was not answered elsewhere says nothing of how long to wait here.
            self.probe_count = 0;
        }
        if is_elsewhere || was_tried {
            let is_formers = self.former.as_ref().is_some_and(|former| former.client == client);
            self.peer_ids.change(old.is_validated || is_formers)?;
        }
        if old.is_validated {
            // Who only repeats the client's packets from elsewhere does not keep it from being heard:
            // where it was, it is asked to speak (§9.3.3).
            old.ask(self.challenge(), until);
            self.former = Some(Box::new(Former { path: old, known, client }));
        } else if let Some(former) = &mut self.former {
            former.known = former.known.take().or(known);
        }
        Ok(())
    }

    /// A network has given the client another port before the handshake is over, in which it stays where it is by
    /// itself (RFC 9000 §9). It is answered there, as it would wait in vain otherwise, and gets no more for that: what
    /// was heard and said at its address counts on.
    pub(super) fn rebound(&mut self, route: Route, datagram_bytes: usize) {
        let here = self.path.route;
        let is_at_home =
            (route.remote.ip(), route.local) == (here.remote.ip(), here.local) && route != here;
        if is_at_home && !self.is_established {
            self.path.route = route;
            self.path.received(datagram_bytes);
            // What was said at the old port may never have come.
            for level in [Level::Initial, Level::Handshake] {
                if self.has_keys(level) {
                    self.tell_oldest(level);
                }
            }
        }
    }

    /// The client is where it was before.
    fn go_back(&mut self, former: Former) -> Result<(), Error> {
        let Former { path, known, client: _ } = former;
        self.path = path;
        self.path.datagram_size.come_back();
        if let Some((congestion, rtt)) = known {
            (self.congestion, self.rtt) = (congestion, rtt);
            self.reordering = Reordering::default();
            self.probe_count = 0;
        }
        self.peer_ids.change_back()
    }

    /// The way before is of no use any more.
    pub(super) fn forget_former(&mut self) -> Result<(), Error> {
        self.former = None;
        self.peer_ids.forget_former()
    }

    /// Asks once more whether the client is where its packets came from, and at last goes back to
    /// where it was (RFC 9000 §9.3.2).
    pub(super) fn challenge_again(&mut self, now: Duration) -> Result<(), Error> {
        let wait = 3 * self.rtt.probe_timeout();
        let Some(challenge) = self.path.challenge.as_mut().filter(|asked| now >= asked.until)
        else {
            return Ok(());
        };
        if let Some(left) = challenge.tries_left.checked_sub(1) {
            challenge.tries_left = left;
            challenge.until = now + wait;
            self.path.is_challenge_due = true;
            return Ok(());
        }
        self.path.challenge = None;
        match self.former.take() {
            Some(former) => self.go_back(*former),
            None => Ok(()),
        }
    }

    /// The client wants these bytes back, on the way that they came (RFC 9000 §8.2.2), of which we may
    /// know nothing: it tries one before it moves.
    pub(super) fn challenged(
        &mut self,
        bytes: [u8; 8],
        packet_bytes: usize,
        route: Route,
    ) -> Result<(), Error> {
        if let Some(path) = self.path_of(route) {
            path.respond(bytes);
            return Ok(());
        }
        if self.tried.take().is_some() {
            // What was used on one way is not used on another (§9.5).
            self.peer_ids.end_trying()?;
        }
        let mut path = Path::new(route, false);
        path.received(packet_bytes);
        path.respond(bytes);
        self.tried = Some(Box::new(path));
        Ok(())
    }

    /// Says on the other ways what is due there.
    pub(super) fn on_other_ways(&mut self, now: Duration, batch: &mut Batch) -> Option<Route> {
        if let Some(mut former) = self.former.take_if(|former| former.path.has_due()) {
            let client = former.client;
            let is_written = self.write_way(&mut former.path, &client, now, batch);
            let route = former.path.route;
            self.former = Some(former);
            if is_written {
                return Some(route);
            }
        }
        let mut tried = self.tried.take_if(|tried| tried.has_due())?;
        let is_written = match self.peer_ids.for_trying() {
            Some(client) => self.write_way(&mut tried, &client, now, batch),
            // Without an id for it nothing may be said there.
            None => {
                tried.forget_due();
                false
            }
        };
        let route = tried.route;
        self.tried = Some(tried);
        is_written.then_some(route)
    }

    /// Writes a datagram about a way and nothing else. It counts neither as in flight nor as lost:
    /// that would be about the present way.
    fn write_way(
        &mut self,
        path: &mut Path,
        client: &Id,
        now: Duration,
        batch: &mut Batch,
    ) -> bool {
        let size = (DATAGRAM_BYTES_MIN as u64).min(path.room()) as usize;
        let out = &mut batch.draft;
        let space = self.space(Level::OneRtt);
        let number = space.sent.next_number();
        let number_bytes = number_bytes(number, space.sent.largest_acked);
        let Some(keys) = &mut self.one_rtt else { return false };
        let head = (Level::OneRtt.kind(), self.version);
        write_head(head, (client, &Id::default()), keys.phase(), number_bytes, out);
        out.extend_from_slice(number.to_be_bytes().get(8 - number_bytes..).unwrap_or(&[]));
        let payload_at = out.len();
        path.write_due(size.saturating_sub(TAG_BYTES), out);
        if !path.take_said() {
            // There is no room; the client has to send more first.
            out.clear();
            path.forget_due();
            return false;
        }
        out.resize(size, 0);
        keys.seal((number, number_bytes), payload_at, out, &[]);
        self.note_sent(Level::OneRtt, 0, How::default(), now);
        path.sent(size);
        if size < DATAGRAM_BYTES_MIN {
            path.said_in_little();
        }
        batch.push_alone();
        true
    }

    /// Bytes that only who receives them can send back.
    pub(super) fn challenge(&mut self) -> [u8; 8] {
        let mut bytes = [0; 8];
        if aws_lc_rs::rand::fill(&mut bytes).is_err() {
            bytes = self.random.draw().to_be_bytes();
        }
        bytes
    }
}
