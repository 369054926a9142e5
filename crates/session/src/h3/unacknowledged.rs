//! What a connection keeps in memory until its client acknowledges it.
//!
//! Over TCP that is the kernel's, within the socket's buffer. Here it is ours, and a client decides how
//! long: so a connection has little of it for nothing. More, as fast clients far away need, is counted
//! with what readers hold ([`freshet_access::ledger::readers`]); where there is no room it goes on with what it
//! has. One that loses its place to another has a moment to acknowledge what it got beyond, and ends
//! when it does not. After a moment what is kept are copies, so that no client pins what is cached.

use super::multiplexed::Piece;
use crate::keeping::reader_limits;
use freshet_access::ledger::network::Network;
use freshet_access::ledger::readers::{Held, Hold, Loss};
use freshet_wire::h3::Connection;
use freshet_wire::h3::limits::{KEPT_BYTES_FREE, KEPT_BYTES_MAX};
use freshet_worker::worker::Worker;
use std::task::Context;
use std::time::Duration;

/// How long cached bytes stay in place, and who lost its place has time.
const MOMENT: Duration = Duration::from_secs(1);
/// How exactly it is known since when a client has acknowledged nothing, and how often one is asked
/// about that has no room.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is known of it.
#[derive(Default)]
pub(super) struct Kept {
    hold: Option<Hold>,
    /// When more was refused.
    refused: Option<Duration>,
    /// When the place was lost.
    lost: Option<Duration>,
    /// When the hold was renewed, and what was acknowledged by then.
    renewed: (Duration, u64),
    /// When it was looked at.
    looked: Duration,
}

impl Kept {
    /// What may be kept.
    fn allowed(&self) -> u64 {
        self.hold.as_ref().map_or(KEPT_BYTES_FREE, |hold| hold.held().bytes)
    }

    /// Looks at what the client has acknowledged. False when it has to end.
    pub(super) fn look(&mut self, connection: &mut Connection<Piece>, now: Duration) -> bool {
        if self.hold.as_ref().is_some_and(Hold::is_lost) {
            self.hold = None;
            self.lost = Some(now);
            connection.set_kept_max(self.allowed());
        }
        let released = connection.quic.released();
        if let Some(hold) = &mut self.hold
            && released > self.renewed.1
            && now >= self.renewed.0 + INTERVAL
        {
            hold.renew();
            self.renewed = (now, released);
        }
        let is_within = connection.quic.kept() <= KEPT_BYTES_FREE;
        if is_within {
            self.lost = None;
        }
        if now >= self.looked + MOMENT {
            self.looked = now;
            connection.quic.replace_old(Piece::copied);
            if is_within && self.hold.take().is_some() {
                connection.set_kept_max(self.allowed());
            }
        }
        self.lost.is_none_or(|lost| now < lost + MOMENT)
    }

    /// More waits to be sent than may be kept: asks for twice as much. False when there is none.
    pub(super) fn grow(
        &mut self,
        (worker, network, id): (&Worker, Network, usize),
        connection: &mut Connection<Piece>,
        now: Duration,
    ) -> bool {
        let allowed = self.allowed();
        let is_refused = self.refused.is_some_and(|refused| now < refused + INTERVAL);
        if allowed >= KEPT_BYTES_MAX || self.lost.is_some() || is_refused {
            return false;
        }
        let held = Held { id, bytes: (2 * allowed).min(KEPT_BYTES_MAX) };
        // The one before is given back after it: they are the same thing.
        let limits = reader_limits(worker);
        let hold = worker.shared.readers.hold(network, held, Loss::Ends, limits);
        self.refused = hold.is_none().then_some(now);
        let Some(hold) = hold else { return false };
        self.hold = Some(hold);
        connection.set_kept_max(held.bytes);
        true
    }

    /// When it has to be looked at again.
    pub(super) fn due(&self, connection: &Connection<Piece>) -> Option<Duration> {
        let keeps = connection.quic.kept() > 0 || self.hold.is_some();
        let refused = self.refused.filter(|_| connection.is_full()).map(|at| at + INTERVAL);
        let looked = keeps.then_some(self.looked + MOMENT);
        [looked, refused, self.lost.map(|lost| lost + MOMENT)].into_iter().flatten().min()
    }

    /// Has the task woken when the place is lost.
    pub(super) fn wait(&self, cx: &mut Context<'_>) {
        if let Some(hold) = &self.hold
            && hold.poll_lost(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
    }
}
