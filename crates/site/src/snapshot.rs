//! What a reload swaps as one: the settings of the node and its sites.

use crate::semantics::Manners;
use crate::site::Site;
use crate::sites::{SiteName, Sites};
use freshet_config::Settings;
use freshet_config::limits::{Limits as NodeLimits, SiteLimits};
use freshet_geo::Geo;
pub use freshet_wire::h1::Limits;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

/// The configuration in force.
#[derive(Clone)]
pub struct Snapshot {
    /// Settings.
    pub settings: Arc<Settings>,
    /// What is served under which hosts.
    pub sites: Arc<Sites>,
    /// What of it could not be renewed.
    pub stayed: Arc<[Stayed]>,
    /// What says where clients are.
    pub geo: Arc<Geo>,
    /// Ports this node listens on: what is purged under one of them is under all.
    pub own_ports: Arc<[u16]>,
    /// This node's name in `CDN-Loop`, the same until it ends.
    pub loop_id: Arc<str>,
    /// Limits on request heads, and how they are read.
    pub h1_limits: Limits,
    /// How sessions speak.
    pub manners: Manners,
}

/// What a reload left as it was before: a site, with its certificates, or those of the top level.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stayed {
    /// Which site; `None` is the certificates of the top level.
    pub site: Option<SiteName>,
    /// All that is wrong with what it was to become.
    pub why: String,
}

impl Stayed {
    /// The name of the site, where it is one.
    pub fn name(&self) -> Option<&str> {
        self.site.as_ref().map(SiteName::as_str)
    }
}

/// What a snapshot is made of, before it is known where the node listens.
pub struct Draft {
    /// As in [`Snapshot`].
    pub settings: Arc<Settings>,
    /// As in [`Snapshot`].
    pub sites: Arc<Sites>,
    /// As in [`Snapshot`].
    pub stayed: Arc<[Stayed]>,
    /// As in [`Snapshot`].
    pub geo: Arc<Geo>,
    /// As in [`Snapshot`].
    pub h1_limits: Limits,
    /// As in [`Snapshot`].
    pub manners: Manners,
}

impl Draft {
    /// These sites, made before.
    pub fn of(
        settings: Settings,
        sites: Vec<Arc<Site>>,
        h1_limits: Limits,
        manners: Manners,
    ) -> Self {
        let (settings, sites) = (Arc::new(settings), Arc::new(Sites::new(sites)));
        Self { settings, sites, stayed: Arc::default(), geo: Arc::default(), h1_limits, manners }
    }

    /// The configuration of a node that listens on these ports. Who had one `before` keeps its name
    /// in `CDN-Loop`, unless another is configured.
    pub fn on(self, own_ports: Arc<[u16]>, before: Option<&Snapshot>) -> Snapshot {
        let Self { settings, sites, stayed, geo, h1_limits, manners } = self;
        let loop_id = loop_id_of(settings.site.cache.loop_id.as_deref(), before);
        Snapshot { settings, sites, stayed, geo, own_ports, loop_id, h1_limits, manners }
    }
}

/// Limits on request heads as they are configured.
pub fn head_limits(limits: &NodeLimits) -> Limits {
    Limits {
        head_bytes_max: limits.head_bytes_max,
        fields_max: limits.fields_max,
        target_bytes_max: limits.target_bytes_max,
        ..Limits::default()
    }
}

impl Snapshot {
    /// The limits of the site for an authority, or of the top level where it has none.
    pub fn limits_of(&self, authority: &str) -> &SiteLimits {
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
