//! When a response begins that could not go on from its middle.
//!
//! It has to be kept from its first byte to its last, and of many to one client that is not possible of
//! all at a time. So it begins once there is a place for it, and keeps nothing until then.

use super::super::Multiplexed;
use super::Sending;
use crate::deadline::{Deadline, Expired};
use freshet_request::delivery::ResponseBody;
use std::future::poll_fn;
use std::time::Duration;
use tokio::time::Instant;

/// A client that has taken nothing of its connection for so long does not come on: the response takes the
/// place of the one that has waited longest. Much longer than it takes to open a window.
const STANDSTILL: Duration = Duration::from_millis(250);

/// The same where the connection comes on, and none of it got a place for so long: those that have one may be
/// such as their client does not take.
const WAIT_MAX: Duration = Duration::from_secs(5);

impl<C: Multiplexed> Sending<'_, C> {
    /// Waits for a place for a response that could not go on from its middle, where its connection has
    /// others. One that finds none in time begins without, and breaks off where it is evicted.
    pub(super) async fn take_place(&mut self, body: &mut ResponseBody) -> Result<(), ()> {
        if !self.keeping.is_loose() && !self.stream.is_among_others() {
            return Ok(());
        }
        let (mut insists, mut since) = (false, Instant::now());
        let mut places = self.stream.places();
        while let Some(held) = body.wants_hold() {
            if self.keeping.begin(self.worker, self.client, held, insists) {
                self.stream.begin_to_keep();
                break;
            }
            body.loosen();
            if insists {
                self.keeping.loosen(self.worker);
                self.stream.loosen(true);
                return Ok(());
            }
            let taken_bytes = self.stream.taken_bytes().1;
            let mut ends = None;
            let ended = poll_fn(|cx| self.stream.poll_ended(cx, &mut ends));
            let limit = self.time_left(STANDSTILL);
            let waited = self.deadline.get_or_insert_with(Deadline::new).within(limit, ended).await;
            if std::mem::replace(&mut places, self.stream.places()) != places {
                since = Instant::now();
            }
            insists = match waited {
                Ok(true) => false,
                Ok(false) => return Err(()),
                Err(Expired) if self.is_over() => {
                    self.give_up("send_timeout");
                    return Err(());
                }
                Err(Expired) => {
                    let stands_still = taken_bytes == self.stream.taken_bytes().1;
                    let waited = since.elapsed();
                    waited >= WAIT_MAX || (stands_still && waited >= STANDSTILL)
                }
            };
        }
        body.tighten();
        Ok(())
    }
}
