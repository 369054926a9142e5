//! Names that clients ask for and nobody has listed.

use crate::error::{AcmeError, FailureKind};
use crate::http::{Http, Target};
use crate::limits::{ASK_WITHIN, AWAITED_MAX, REFUSED_MAX};
use crate::plan::{OnDemand, is_name};
use freshet_base::clock::UnixMillis;
use freshet_http::message::Method;
use freshet_net::tls::on_demand::{self, Settled};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Names whose clients wait, and those that nobody need ask for at present.
pub(crate) struct Demand {
    names: Arc<Mutex<HashMap<String, Told>>>,
    /// Sends when it has changed.
    changes: watch::Sender<()>,
    /// Has somebody look at a name.
    tell: Box<dyn Fn(String) + Send + Sync>,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Told {
    Awaited,
    /// Until then, milliseconds of Unix time.
    Refused(u64),
}

impl Told {
    fn holds(self, now_ms: u64) -> bool {
        match self {
            Self::Awaited => true,
            Self::Refused(until_ms) => now_ms < until_ms,
        }
    }
}

/// What the operator's service says of a name.
pub(crate) enum Verdict {
    Yes,
    No,
    Unknown(AcmeError),
}

impl Demand {
    /// `tell` is called for a name that clients begin to wait for.
    pub(crate) fn new(tell: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { names: Arc::default(), changes: watch::Sender::new(()), tell: Box::new(tell) }
    }

    /// Nobody has to wait for a certificate for this name: it is there.
    pub(crate) fn provided(&self, name: &str) {
        self.lock().remove(name);
        self.changes.send_replace(());
    }

    /// Nobody gets one until then, milliseconds of Unix time, or need ask.
    pub(crate) fn refused(&self, name: &str, until_ms: u64) {
        self.lock().insert(name.to_owned(), Told::Refused(until_ms));
        self.changes.send_replace(());
    }

    /// Nobody waits any more, and may ask again.
    pub(crate) fn release(&self) {
        self.lock().clear();
        self.changes.send_replace(());
    }

    /// Whether to wait for it.
    fn wants(&self, name: &str, now_ms: u64) -> bool {
        let mut names = self.lock();
        if let Some(told) = names.get(name).filter(|told| told.holds(now_ms)) {
            return *told == Told::Awaited;
        }
        let awaited = names.values().filter(|told| **told == Told::Awaited).count();
        if awaited >= AWAITED_MAX {
            return false;
        }
        if names.len() >= REFUSED_MAX {
            make_room(&mut names, now_ms);
        }
        names.insert(name.to_owned(), Told::Awaited);
        drop(names);
        (self.tell)(name.to_owned());
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Told>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the refusals that are over, or else the one that soonest is: who makes names up has the service asked again, and keeps
/// nobody's name out.
fn make_room(names: &mut HashMap<String, Told>, now_ms: u64) {
    let before = names.len();
    names.retain(|_, told| told.holds(now_ms));
    if names.len() < before {
        return;
    }
    let refused = names.iter().filter_map(|(name, told)| match told {
        Told::Refused(until_ms) => Some((*until_ms, name)),
        Told::Awaited => None,
    });
    if let Some(name) = refused.min().map(|(_, name)| name.clone()) {
        names.remove(&name);
    }
}

impl on_demand::OnDemand for Demand {
    fn provide(&self, name: &str) -> Settled {
        // Before anybody is told: the answer may come at once.
        let mut changes = self.changes.subscribe();
        if !is_name(name) || !self.wants(name, UnixMillis::now().0) {
            return Box::pin(std::future::ready(()));
        }
        let (names, name) = (Arc::clone(&self.names), name.to_owned());
        Box::pin(async move {
            let is_awaited = || {
                let names = names.lock().unwrap_or_else(PoisonError::into_inner);
                names.get(&name) == Some(&Told::Awaited)
            };
            while is_awaited() && changes.changed().await.is_ok() {}
        })
    }
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand").field("names", &self.lock().len()).finish_non_exhaustive()
    }
}

impl OnDemand {
    /// Asks whether there is to be a certificate for a name.
    pub(crate) async fn ask(&self, name: &str) -> Verdict {
        let config = |why| AcmeError::new(FailureKind::Config, format!("acme.on_demand: {why}"));
        let target = match Target::of(&self.service).map_err(config) {
            Ok(target) => target.with("domain", name),
            Err(error) => return Verdict::Unknown(error),
        };
        match Http::new(None).ask(Method::Get, target, None, ASK_WITHIN).await {
            Ok(raw) if (200..300).contains(&raw.status) => Verdict::Yes,
            Ok(raw) if (400..500).contains(&raw.status) => Verdict::No,
            Ok(raw) => {
                let message = format!("acme.on_demand answers {}", raw.status);
                Verdict::Unknown(AcmeError::new(FailureKind::Server, message))
            }
            Err(error) => Verdict::Unknown(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_net::tls::on_demand::OnDemand as _;
    use std::task::{Context, Poll, Waker};

    fn demand() -> (Demand, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        (Demand::new(move |name| heard.lock().unwrap().push(name)), told)
    }

    fn is_over(settled: &mut Settled) -> bool {
        settled.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_name_is_asked_for_once_and_all_wait_until_it_is_settled() {
        let (demand, told) = demand();
        let mut waiting: Vec<_> = (0..3).map(|_| demand.provide("a.example")).collect();
        let mut other = demand.provide("b.example");
        assert!(!waiting.iter_mut().any(is_over) && !is_over(&mut other));
        assert_eq!(*told.lock().unwrap(), ["a.example", "b.example"]);
        demand.provided("a.example");
        assert!(waiting.iter_mut().all(is_over) && !is_over(&mut other));
        demand.refused("b.example", u64::MAX);
        assert!(is_over(&mut other) && is_over(&mut demand.provide("b.example")));
        assert_eq!(told.lock().unwrap().len(), 2, "nobody asks for what was refused");
        demand.refused("b.example", 0);
        assert!(!is_over(&mut demand.provide("b.example")));
        let mut waiting = demand.provide("b.example");
        demand.release();
        assert!(is_over(&mut waiting));
    }

    #[test]
    fn what_is_kept_of_names_has_an_end() {
        let (demand, told) = demand();
        for number in 0..2 * AWAITED_MAX {
            let mut settled = demand.provide(&format!("n{number}.example"));
            assert_eq!(is_over(&mut settled), number >= AWAITED_MAX);
        }
        assert_eq!(told.lock().unwrap().len(), AWAITED_MAX);
        for number in 0..2 * REFUSED_MAX {
            let name = format!("n{number}.example");
            if demand.wants(&name, 1) {
                demand.refused(&name, 10);
            }
        }
        assert_eq!(demand.lock().len(), REFUSED_MAX);
        assert!(demand.wants("new.example", 1), "made-up names keep nobody's out");
        assert_eq!(demand.lock().len(), REFUSED_MAX);
        assert!(demand.wants("z.example", 10), "what is over makes room");
        for bad in ["localhost", "192.0.2.1", "a b.example", "../../a.example"] {
            assert!(is_over(&mut demand.provide(bad)), "{bad}");
        }
    }
}
