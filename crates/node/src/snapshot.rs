//! What a reload swaps as one: the settings of the node and its sites.

use crate::config::limits::SiteLimits;
use crate::config::{Mistake, Settings};
use crate::site::Site;
use crate::sites::Sites;
use crate::worker::Shared;
pub use freshet_wire::h1::{Dialect, Limits};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

/// The configuration in force.
#[derive(Clone)]
pub struct Snapshot {
    /// Settings.
    pub settings: Arc<Settings>,
    /// What is served under which hosts.
    pub sites: Arc<Sites>,
    /// Ports this node listens on. In a request's authority they say how it came here, not what it
    /// is for.
    pub own_ports: Arc<[u16]>,
    /// This node's name in `CDN-Loop`, the same until it ends.
    pub loop_id: Arc<str>,
    /// Limits on request heads.
    pub h1_limits: Limits,
}

impl Snapshot {
    /// Makes a snapshot. What did not change since `before` stays, with health and connections. A
    /// site that cannot be made stays as it was before, where it was, and the log says so.
    ///
    /// # Errors
    /// What names the sites and what is wrong with each.
    pub fn new(settings: Settings, before: Option<&Self>) -> Result<Self, Vec<Mistake>> {
        let classes: Vec<_> = settings.store_classes().collect();
        let mut sites = Vec::with_capacity(settings.served().len());
        let mut mistakes = Vec::new();
        for wanted in &settings.served() {
            let known = before.and_then(|before| before.sites.named(&wanted.name));
            match (Site::new(wanted, &classes, known.map(|site| &**site)), known) {
                (Ok(site), _) => sites.push(Arc::new(site)),
                (Err(mistake), _) if wanted.name.is_empty() => mistakes.push(mistake),
                (Err(mistake), Some(known)) => {
                    tracing::error!(site = wanted.name, "stays as it was: {mistake}");
                    sites.push(Arc::clone(known));
                }
                (Err(mistake), None) => {
                    let message = format!("site `{}`: {}", wanted.name, mistake.message);
                    mistakes.push(Mistake { message, ..mistake });
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        Ok(Self::with_sites(settings, sites, before))
    }

    /// A snapshot of these sites, made before.
    pub fn with_sites(settings: Settings, sites: Vec<Arc<Site>>, before: Option<&Self>) -> Self {
        let loop_id = settings.site.cache.loop_id.as_deref();
        Self {
            loop_id: loop_id_of(loop_id, before),
            own_ports: before.map_or_else(|| [].into(), |before| Arc::clone(&before.own_ports)),
            h1_limits: Limits {
                head_bytes_max: settings.limits.head_bytes_max,
                fields_max: settings.limits.fields_max,
                target_bytes_max: settings.limits.target_bytes_max,
                ..Limits::default()
            },
            sites: Arc::new(Sites::new(sites)),
            settings: Arc::new(settings),
        }
    }

    /// Lets the policies act on what this node keeps.
    pub(crate) fn set_shared(&self, shared: &Arc<Shared>) {
        for site in self.sites.all() {
            if let Some(vcl) = &site.vcl {
                vcl.set_shared(shared, &site.name, self.settings.bans);
            }
        }
    }

    /// The limits of the site for an authority, or of the top level where it has none.
    pub(crate) fn limits_of(&self, authority: &str) -> &SiteLimits {
        let site = self.sites.of(authority).map_or(&self.settings.site, |site| &site.settings);
        &site.limits
    }
}

/// The name that is configured, or the one of before, or one made up from the randomness the
/// standard library seeds its maps with: two nodes of one name would take each other for a loop.
fn loop_id_of(configured: Option<&str>, before: Option<&Snapshot>) -> Arc<str> {
    match (configured, before) {
        (Some(own), _) => own.into(),
        (None, Some(before)) if before.settings.site.cache.loop_id.is_none() => {
            Arc::clone(&before.loop_id)
        }
        (None, _) => format!("freshet-{:016x}", RandomState::new().build_hasher().finish()).into(),
    }
}
