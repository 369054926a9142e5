//! Sites: what each was asked for, and what it has of memory and disks.

use crate::context::Context;
use crate::scope::Scope;
use axum::Json;
use axum::extract::State;
use freshet_node::node::Node;
use freshet_node::site::Site;
use freshet_node::site_stats::SiteSums;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A site.
#[derive(Serialize, ToSchema)]
pub(crate) struct SiteView {
    /// The site's name; empty where the node has no sites by name.
    site: String,
    /// The hosts it is for, as they are configured; none is all hosts that no other site has.
    hosts: Vec<String>,
    /// Whether it serves nobody.
    maintenance: bool,
    /// What it was asked for since the node started; `null` where it is the only one, as that is in `/v1/stats`.
    served: Option<Served>,
    /// What it has of the memory, where that is bounded.
    memory: Option<Share>,
    /// What it has of the log of all disks, where that is bounded.
    disk: Option<Share>,
}

/// What a site was asked for.
#[derive(Serialize, ToSchema)]
struct Served {
    /// Requests answered.
    requests: u64,
    /// Of these, from the cache.
    hits: u64,
    /// Of these, with a status of 500 and above.
    errors: u64,
    /// Bytes of bodies sent.
    body_bytes: u64,
    /// Of these, from the cache.
    hit_body_bytes: u64,
}

/// What a site has of something that all sites share.
#[derive(Serialize, ToSchema)]
pub(crate) struct Share {
    /// Bytes it has.
    pub(crate) bytes: u64,
    /// Bytes it may have.
    pub(crate) bytes_max: u64,
}

/// Lists the sites with what they were asked for and what they keep.
#[utoipa::path(get, path = "/v1/sites", tag = "sites", security(("token" = [])),
    responses((status = OK, body = [SiteView], description = "The sites, in the order of the configuration")))]
pub(crate) async fn sites(
    State(context): State<Arc<Context>>,
    scope: Scope,
) -> Json<Vec<SiteView>> {
    let node = &context.node;
    let snapshot = node.snapshot();
    let sites = snapshot.sites.all().iter().filter(|site| scope.covers(site.name.as_str()));
    Json(sites.map(|site| view(node, site)).collect())
}

fn view(node: &Node, site: &Site) -> SiteView {
    let name = site.name.as_str();
    SiteView {
        site: name.to_owned(),
        hosts: site.settings.hosts.iter().map(ToString::to_string).collect(),
        maintenance: site.maintenance.is_on(),
        served: (!name.is_empty()).then(|| {
            let mut sums = SiteSums::default();
            add_sums(node, name, &mut sums);
            let SiteSums { requests, hits, errors, body_bytes, hit_body_bytes, .. } = sums;
            Served { requests, hits, errors, body_bytes, hit_body_bytes }
        }),
        memory: memory_share(node, site),
        disk: disk_share(node, site),
    }
}

/// Adds what all workers counted of a site.
pub(crate) fn add_sums(node: &Node, name: &str, sums: &mut SiteSums) {
    node.shared.stats.iter().for_each(|worker| worker.sites.add_to(name, sums));
}

/// What a site with a bound has of the memory.
pub(crate) fn memory_share(node: &Node, site: &Site) -> Option<Share> {
    let bytes_max = site.settings.memory_bytes_max?;
    Some(Share { bytes: node.shared.cache.share_bytes(site.name.tag_of_all()?)?, bytes_max })
}

/// The same of the disks.
pub(crate) fn disk_share(node: &Node, site: &Site) -> Option<Share> {
    let bytes_max = site.settings.disk_bytes_max?;
    let disks = node.shared.disks.as_ref()?;
    Some(Share { bytes: disks.share_bytes(site.name.tag_of_all()?)?, bytes_max })
}
