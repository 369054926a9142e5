//! Whether backends and directors are healthy for a request, and since when.

use super::{Director, Rule, object_key};
use crate::modules::saintmode;
use crate::policy::{Object, Policy};
use crate::program::BackendRef;
use crate::runtime::{Event, Host, Run};

/// Directors within one another.
pub(super) const DEPTH_MAX: u32 = 8;

/// What health depends on besides the backend.
pub(super) struct Look<'a> {
    pub(super) policy: &'a Policy,
    pub(super) host: &'a dyn Host,
    pub(super) now: f64,
    /// The hash of the object that is fetched, where one is.
    pub(super) key: Option<u128>,
    /// Which saints are left alone for it, and why.
    pub(super) denials: Vec<String>,
}

/// The hash of the object a task fetches, where it fetches any.
pub(super) fn fetched_key(run: &Run<'_>) -> Option<u128> {
    run.view.fetch.is_some().then(|| object_key(run))
}

/// Whether a backend is healthy for what a task does, and since when.
pub(crate) fn health_of(run: &mut Run<'_>, backend: BackendRef) -> (bool, f64) {
    let key = fetched_key(run);
    told(run.policy, &mut *run.host, run.view.now, key, backend)
}

/// The same, for an object that is fetched or for none; what is worth it is logged.
pub(super) fn told(
    policy: &Policy,
    host: &mut dyn Host,
    now: f64,
    key: Option<u128>,
    backend: BackendRef,
) -> (bool, f64) {
    let mut look = Look { policy, host: &*host, now, key, denials: Vec::new() };
    let found = look.health(backend, 0);
    let denials = look.denials;
    if host.is_traced() {
        denials.iter().for_each(|text| host.trace(Event::Log(text.as_bytes())));
    }
    found
}

impl Look<'_> {
    pub(super) fn health(&mut self, backend: BackendRef, depth: u32) -> (bool, f64) {
        match backend {
            BackendRef::None => (false, 0.0),
            // Which of its places can be reached is seen when one is asked.
            BackendRef::Told => (true, 0.0),
            BackendRef::Made(number) => {
                let made = self.host.made_backend(number);
                made.map_or((false, 0.0), |made| (made.is_healthy, made.since))
            }
            BackendRef::Backend(index) => {
                let declared = self.policy.program().backends.get(index as usize);
                let is_none = declared.is_none_or(|backend| backend.endpoint.is_none());
                if is_none { (false, 0.0) } else { self.host.backend_health(index) }
            }
            BackendRef::Director(index) => {
                let Some(Object::Director(director)) = self.policy.object(index) else {
                    return (false, 0.0);
                };
                if let Some(said) = director.said() {
                    return (said.is_healthy, said.since);
                }
                if depth >= DEPTH_MAX {
                    return (false, 0.0);
                }
                self.by_members(index, &director, depth)
            }
        }
    }

    /// Whether a director is healthy, and since when, as its members are.
    pub(super) fn by_members(
        &mut self,
        index: u32,
        director: &Director,
        depth: u32,
    ) -> (bool, f64) {
        if let Rule::Saint { threshold } = director.rule
            && let Some(denial) =
                saintmode::denial(self.policy, index, threshold, self.key, self.now)
        {
            // Who fetches nothing leaves no word of it.
            self.denials.extend(self.key.map(|_| denial));
            return (false, self.now);
        }
        let members = director.members();
        let found = members.iter().map(|member| self.health(member.backend, depth + 1));
        found.fold((false, 0.0), |(any, changed), (healthy, at)| (any | healthy, at.max(changed)))
    }
}
