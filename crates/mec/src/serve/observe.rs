//! Asks the edge router what it sees of clients.

use super::{RADIO_TURN, Shared};
use std::sync::Arc;
use tokio::time::{MissedTickBehavior, interval};

impl Shared {
    /// Has the edge router's sessions be what is known of the radio network, where that is configured. While the
    /// router cannot be asked, the last ones stay.
    pub(super) async fn observe(self: Arc<Self>) {
        let Some(stations) = &self.stations else { return std::future::pending().await };
        let mut turns = interval(RADIO_TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            turns.tick().await;
            let Some(sessions) = self.router.sessions().await else { continue };
            let _changing = self.changing.lock().await;
            let report = self.read().report(stations.report(&sessions));
            let done = match report {
                Ok(decision) => self.carry_out(decision).await.map_err(|problem| problem.detail),
                Err(why) => Err(why),
            };
            if let Err(why) = done {
                tracing::warn!(why, "what the edge router sees is lost");
            }
        }
    }
}
