//! Certificates for names that clients ask for and nobody has listed.

use super::{Entry, Manager, is_written, millis, now_ms, read_entry};
use crate::demand::Verdict;
use crate::error::AcmeError;
use crate::limits::{ASK_AGAIN_AFTER, LOG_EVERY, NO_FOR, UNKNOWN_FOR};
use crate::plan::OnDemand;
use freshet_base::clock::UnixMillis;
use freshet_net::tls::on_demand;
use std::sync::Arc;
use std::time::Duration;

impl Manager {
    /// Lets clients ask for names that nobody has listed, where the plan has it so.
    pub(super) fn offer(&self) {
        let demand = Arc::clone(&self.demand) as Arc<dyn on_demand::OnDemand>;
        self.store.set_on_demand(self.plan.on_demand.is_some().then_some(demand));
    }

    /// Clients wait for a name: who is to be asked whether they may, where that is not known.
    pub(super) fn wanted(&self, name: &str) -> Option<OnDemand> {
        match self.entries.get(name) {
            Some(entry) if entry.facts.is_some() => self.demand.provided(name),
            // It is under way, or its turn comes at once.
            Some(entry) if entry.due_ms <= now_ms() => {}
            Some(entry) => self.demand.refused(name, entry.due_ms.unsigned_abs()),
            None if self.plan.on_demand.is_some() => return self.plan.on_demand.clone(),
            None => self.refuse(name, NO_FOR),
        }
        None
    }

    /// What the operator's service says of a name that clients wait for.
    pub(super) fn answered(&mut self, name: &str, verdict: Verdict) {
        self.status.answered(&verdict);
        let names_max = self.plan.on_demand.as_ref().map_or(0, |one| one.names_max);
        match verdict {
            // It was listed meanwhile.
            Verdict::Yes if self.entries.contains_key(name) => {}
            Verdict::Yes => {
                let count = self.entries.values().filter(|entry| entry.is_on_demand).count();
                if count >= names_max {
                    if let Some(held_back) = self.unanswered.admit(UnixMillis::now(), LOG_EVERY) {
                        tracing::error!(
                            name,
                            names_max,
                            held_back,
                            "there are as many certificates on demand as acme.on_demand_max allows"
                        );
                    }
                    return self.refuse(name, NO_FOR);
                }
                let entry = Entry { is_on_demand: true, ..read_entry(&self.state, name) };
                if entry.facts.is_none() && entry.due_ms > now_ms() {
                    // It failed not long ago.
                    return self.demand.refused(name, entry.due_ms.unsigned_abs());
                }
                if !is_written(self.state.set_on_demand(name, true)) {
                    return self.refuse(name, NO_FOR);
                }
                let is_there = entry.facts.is_some();
                self.entries.insert(name.to_owned(), entry);
                if is_there {
                    self.serve();
                    self.demand.provided(name);
                }
                self.publish();
            }
            Verdict::No => self.refuse(name, NO_FOR),
            Verdict::Unknown(error) => {
                self.say_unanswered(name, &error);
                self.refuse(name, UNKNOWN_FOR);
            }
        }
    }

    /// Whether a certificate that clients have asked for is to be renewed.
    pub(super) async fn may_renew(&mut self, name: &str) -> bool {
        let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.is_on_demand) else {
            return true;
        };
        // A new one was just answered for.
        let Some(service) = self.plan.on_demand.clone().filter(|_| entry.facts.is_some()) else {
            return true;
        };
        let verdict = service.ask(name).await;
        self.status.answered(&verdict);
        match verdict {
            Verdict::Yes => return true,
            Verdict::No => {
                tracing::info!(name, "a certificate is let go: acme.on_demand says no to it now");
                self.let_go(name);
                is_written(self.state.remove_certificate(name));
                self.serve();
            }
            Verdict::Unknown(error) => {
                entry.due_ms = now_ms().saturating_add(millis(ASK_AGAIN_AFTER));
                self.say_unanswered(name, &error);
            }
        }
        false
    }

    /// Nothing is ordered for it any more unless a client asks again.
    pub(super) fn let_go(&mut self, name: &str) {
        self.entries.remove(name);
        is_written(self.state.set_on_demand(name, false));
    }

    pub(super) fn refuse(&self, name: &str, wait: Duration) {
        self.demand.refused(name, now_ms().saturating_add(millis(wait)).unsigned_abs());
    }

    fn say_unanswered(&self, name: &str, error: &AcmeError) {
        if let Some(held_back) = self.unanswered.admit(UnixMillis::now(), LOG_EVERY) {
            tracing::error!(name, held_back, %error,
                "nobody gets a certificate on demand: acme.on_demand does not answer as it should");
        }
    }
}
