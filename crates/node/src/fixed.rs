//! What stays as a node began with it until an upgrade or a restart, whatever a reload reads.

use freshet_cache::Objective;
use freshet_config::fleet::Fleet;
use freshet_config::listeners::Listener;
use freshet_config::lower::LowerMemory;
use freshet_config::rules::{Redirect, Rules};
use freshet_config::stores::Store;
use freshet_config::traces::Tracing;
use freshet_config::{Settings, SiteSettings};
use freshet_net::address::Address;
use freshet_site::sites::Sites;
use std::path::PathBuf;
use std::sync::Arc;

/// What is in force of such keys.
pub(crate) struct Fixed {
    listeners: Vec<Listener>,
    workers: usize,
    numa_groups: Option<usize>,
    memory_bytes: u64,
    lower_memory: Option<LowerMemory>,
    stores: Vec<Store>,
    ticket_keys: Vec<PathBuf>,
    has_acme: bool,
    fleet: Option<Fleet>,
    tracing: Option<Tracing>,
    objective: Objective,
    admin_listen: Option<Address>,
}

impl Fixed {
    /// What a node of these settings begins with.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            listeners: settings.listeners.clone(),
            workers: settings.workers,
            numa_groups: settings.numa_groups,
            memory_bytes: settings.memory_bytes,
            lower_memory: settings.lower_memory.clone(),
            stores: settings.stores.clone(),
            ticket_keys: settings.ticket_keys.clone(),
            has_acme: settings.acme.is_some(),
            fleet: settings.fleet.clone(),
            tracing: settings.tracing.clone(),
            objective: settings.site.cache.objective,
            admin_listen: settings.admin_listen.clone(),
        }
    }

    /// The keys that other settings give other values, which wait.
    pub(crate) fn waiting(&self, next: &Settings) -> Vec<&'static str> {
        [
            ("listen", self.listeners != next.listeners),
            ("workers", self.workers != next.workers),
            ("numa_groups", self.numa_groups != next.numa_groups),
            ("memory", self.memory_bytes != next.memory_bytes),
            ("lower_memory", self.lower_memory != next.lower_memory),
            ("store", self.stores != next.stores),
            ("tls.ticket_keys", self.ticket_keys != next.ticket_keys),
            ("acme.terms_agreed", self.has_acme != next.acme.is_some()),
            ("fleet", self.fleet != next.fleet),
            ("tracing", self.tracing != next.tracing),
            ("cache.objective", self.objective != next.site.cache.objective),
            ("admin.listen", self.admin_listen != next.admin_listen),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }

    /// Takes redirects to HTTPS out of settings whose listener for it waits: they would lead clients to where nobody
    /// listens. Those that sites `before` have stay, as what they lead to is another's. Whether there were any.
    pub(crate) fn hold_back(&self, next: &mut Settings, before: &Sites) -> bool {
        let has_tls = |listeners: &[Listener]| listeners.iter().any(|listener| listener.tls);
        if has_tls(&self.listeners) || !has_tls(&next.listeners) {
            return false;
        }
        let hold = |site: &SiteSettings| {
            let known = before.named(&site.name).map(|known| &known.settings.rules);
            without_early(&site.rules, known.map_or(&[][..], |rules| &rules.redirects))
        };
        let mut is_any_held = false;
        if let Some(rules) = hold(&next.site) {
            (next.site.rules, is_any_held) = (rules, true);
        }
        for site in &mut next.sites {
            if let Some(rules) = hold(site) {
                (Arc::make_mut(site).rules, is_any_held) = (rules, true);
            }
        }
        is_any_held
    }
}

/// The rules without what leads to HTTPS and is not known; `None` where there is nothing of that.
fn without_early(rules: &Rules, known: &[Redirect]) -> Option<Arc<Rules>> {
    let is_early = |rule: &Redirect| {
        rule.scheme.as_deref() == Some("http")
            && rule.to.starts_with("https://")
            && !known.contains(rule)
    };
    if !rules.redirects.iter().any(is_early) {
        return None;
    }
    let mut rules = rules.clone();
    rules.redirects.retain(|rule| !is_early(rule));
    Some(Arc::new(rules))
}
