//! Maintenance: sites that serve nobody for now.

use crate::answer::Input;
use crate::context::Context;
use crate::problem::Problem;
use crate::scope::Scope;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// What is wanted.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaintenanceChange {
    /// Whether nobody but `maintenance.allow` is served.
    on: bool,
    /// This site only, where there are several; all without it.
    site: Option<String>,
}

/// How a site stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct SiteMaintenance {
    /// The site's name; empty where the node has no sites by name.
    site: String,
    /// Whether it serves nobody.
    on: bool,
}

/// All sites.
#[derive(Serialize, ToSchema)]
pub(crate) struct MaintenanceList {
    /// In the order of the configuration.
    sites: Vec<SiteMaintenance>,
}

/// Says which sites are under maintenance.
#[utoipa::path(get, path = "/v1/maintenance", tag = "sites", security(("token" = [])),
    responses((status = OK, body = MaintenanceList, description = "All sites")))]
pub(crate) async fn maintenance(
    State(context): State<Arc<Context>>,
    scope: Scope,
) -> Json<MaintenanceList> {
    Json(listed(&context, &scope))
}

/// Has sites serve nobody, or everybody again. It holds until it is changed or the node is restarted; a reload or an
/// upgrade changes it where `maintenance.enabled` was changed.
#[utoipa::path(post, path = "/v1/maintenance", tag = "sites", security(("token" = [])),
    request_body = MaintenanceChange,
    responses((status = OK, body = MaintenanceList, description = "All sites"),
        (status = NOT_FOUND, body = Problem, content_type = "application/problem+json",
            description = "There is no such site")))]
pub(crate) async fn set_maintenance(
    State(context): State<Arc<Context>>,
    scope: Scope,
    Input(input): Input<MaintenanceChange>,
) -> Result<Json<MaintenanceList>, Problem> {
    let snapshot = context.node.snapshot();
    let name = scope.site(&context, input.site.as_deref())?;
    for site in snapshot.sites.all() {
        if name.as_ref().is_none_or(|name| *name == site.name) {
            site.maintenance.set(input.on);
            let (site, on) = (site.name.as_str(), input.on);
            tracing::info!(site, on, "maintenance set by the admin interface");
        }
    }
    Ok(Json(listed(&context, &scope)))
}

fn listed(context: &Context, scope: &Scope) -> MaintenanceList {
    let snapshot = context.node.snapshot();
    let shown = |site: &Arc<freshet_node::site::Site>| SiteMaintenance {
        site: site.name.as_str().to_owned(),
        on: site.maintenance.is_on(),
    };
    let sites = snapshot.sites.all().iter().filter(|site| scope.covers(site.name.as_str()));
    MaintenanceList { sites: sites.map(shown).collect() }
}
