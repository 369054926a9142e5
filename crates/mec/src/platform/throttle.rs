//! How often clients may ask: a rate of each client's own for each interface, and for each service of apps.

use super::{Call, Identified, Platform, gateway};
use crate::api;
use crate::limits::RATED_MAX;
use crate::problem::Problem;
use freshet_base::random;
use freshet_limits::{Rates, Secret, Ticks, retry_after_s};
use std::time::Duration;

/// What is known of clients with rates.
#[derive(Debug)]
pub(super) struct Throttle {
    rates: Rates,
    secret: Secret,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { rates: Rates::new(RATED_MAX), secret: Secret::from_bytes(random::secret()) }
    }
}

impl Platform {
    /// Counts a request, once, before it is decided. `run` is the time since any moment of this process,
    /// which no clock sets back.
    ///
    /// # Errors
    /// 429 where the client has asked this interface too often. Whoever has no token that holds is not
    /// counted, and refused when it is decided.
    pub fn throttle(
        &self,
        who: &Identified,
        call: &Call<'_>,
        run: Duration,
    ) -> Result<(), Problem> {
        let Ok(caller) = who.caller() else { return Ok(()) };
        let Some(rate) = caller.rate else { return Ok(()) };
        let path = call.target.split_once('?').map_or(call.target, |(path, _)| path);
        let interface = if path == gateway::PATH {
            let asked = gateway::service(call).ok();
            asked.map(|asked| format!("{}:{}", gateway::SCOPE, self.offers.name(&asked)))
        } else {
            self.table.route(path).map(|route| route.api.name.clone())
        };
        let Some(interface) = interface else { return Ok(()) };
        let Throttle { rates, secret } = &self.rates;
        // Names of clients have no NUL: the configuration is TOML, and identities of apps are ours.
        let key = secret.key(0, format!("{}\0{interface}", caller.client).as_bytes());
        let verdict = rates.take(key, &rate, Ticks::from(run));
        if verdict.is_allowed() {
            return Ok(());
        }
        let wait_s = retry_after_s(verdict.retry_after());
        let detail = format!("{} asks {interface} too often: {rate}", caller.client);
        let problem = Problem { retry_after_s: Some(wait_s), ..Problem::new(429, detail) };
        Err(api::worded(call.target, problem))
    }
}
