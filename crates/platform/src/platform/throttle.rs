//! How often clients may ask: a rate of each client's own for each interface, and for each service of apps; and how
//! often anybody may be wrong about a client's secret.

use super::entrance::TOKEN_PATH;
use super::{Answer, Call, Identified, Platform, gateway};
use crate::api;
use crate::client::Given;
use crate::limits::{RATED_MAX, WRONG_SECRETS_MAX, WRONG_SECRETS_PERIOD};
use freshet_base::random;
use freshet_documents::problem::Problem;
use freshet_limits::{Prefix, Rate, Rates, Secret, Ticks, Verdict, retry_after_s};
use std::net::IpAddr;
use std::time::Duration;

/// What is known of clients with rates.
#[derive(Debug)]
pub(super) struct Throttle {
    rates: Rates,
    /// Wrong secrets, by client and address.
    wrong: Rates,
    wrong_rate: Rate,
    secret: Secret,
}

impl Default for Throttle {
    fn default() -> Self {
        let wrong_rate = Rate::of(WRONG_SECRETS_MAX, WRONG_SECRETS_PERIOD);
        Self {
            rates: Rates::new(RATED_MAX),
            wrong: Rates::new(RATED_MAX),
            wrong_rate: wrong_rate.expect("it is a rate, and tested"),
            secret: Secret::from_bytes(random::secret()),
        }
    }
}

impl Throttle {
    /// Whoever tries secrets of a client, where a call does: one from elsewhere does not lock the client out. Of IPv6
    /// it is a network: addresses in it cost nothing.
    fn guesser(&self, call: &Call<'_>) -> Option<u64> {
        let is_asked = call.method == "POST" && path(call) == TOKEN_PATH;
        let name = is_asked.then(|| Given::from(call).name()).flatten()?;
        let network = |from: IpAddr| match from.to_canonical() {
            from @ IpAddr::V4(_) => Prefix::whole(from),
            from @ IpAddr::V6(_) => Prefix::first(from, 64),
        };
        let from = call.from.map_or_else(String::new, |from| network(from).to_string());
        Some(self.secret.key(1, format!("{from}\0{name}").as_bytes()))
    }
}

fn path<'a>(call: &Call<'a>) -> &'a str {
    call.target.split_once('?').map_or(call.target, |(path, _)| path)
}

fn too_often(verdict: Verdict, detail: String) -> Problem {
    let wait_s = retry_after_s(verdict.retry_after());
    Problem { retry_after_s: Some(wait_s), ..Problem::new(429, detail) }
}

impl Platform {
    /// Counts a request, once, before it is decided. `run` is the time since any moment of this process,
    /// which no clock sets back.
    ///
    /// # Errors
    /// 429 where the client has asked this interface too often, or where secrets of it were wrong too often
    /// (RFC 6749 §2.3.1). Whoever has no token that holds is not counted, and refused when it is decided.
    pub fn throttle(
        &self,
        who: &Identified,
        call: &Call<'_>,
        run: Duration,
    ) -> Result<(), Problem> {
        let Throttle { rates, wrong, wrong_rate, secret } = &self.rates;
        if let Some(guesser) = self.rates.guesser(call) {
            let verdict = wrong.peek(guesser, wrong_rate, Ticks::from(run));
            let detail = || "too many wrong secrets of this client came from here".to_owned();
            return if verdict.is_allowed() { Ok(()) } else { Err(too_often(verdict, detail())) };
        }
        let Ok(caller) = who.caller() else { return Ok(()) };
        let Some(rate) = caller.rate else { return Ok(()) };
        let path = path(call);
        let interface = if path == gateway::PATH {
            let asked = gateway::service(call).ok();
            asked.map(|asked| format!("{}:{}", gateway::SCOPE, self.offers.name(&asked)))
        } else {
            self.table.route(path).map(|route| route.api.name.clone())
        };
        let Some(interface) = interface else { return Ok(()) };
        // Names of clients have no NUL: the configuration is TOML, and identities of apps are ours.
        let key = secret.key(0, format!("{}\0{interface}", caller.client).as_bytes());
        let verdict = rates.take(key, &rate, Ticks::from(run));
        if verdict.is_allowed() {
            return Ok(());
        }
        let detail = format!("{} asks {interface} too often: {rate}", caller.client);
        Err(api::worded(call.target, too_often(verdict, detail)))
    }

    /// Notes what a request was answered, where that is that a secret is wrong; `run` is as for
    /// [`Platform::throttle`].
    pub fn note(&self, call: &Call<'_>, answer: &Answer, run: Duration) {
        let guesser = if answer.status == 401 { self.rates.guesser(call) } else { None };
        if let Some(guesser) = guesser {
            self.rates.wrong.take(guesser, &self.rates.wrong_rate, Ticks::from(run));
        }
    }
}
