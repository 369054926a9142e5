//! Telling the node to read its configuration again.

use crate::answer::beside;
use crate::context::Context;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// What a reload came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct Reloaded {
    /// Origins now in use.
    origins: Vec<String>,
    /// Keys that have changed and take effect with an upgrade or a restart.
    waiting: Vec<&'static str>,
    /// What cannot be renewed and goes on as it was.
    stayed: Vec<Stayed>,
}

/// What goes on as it was.
#[derive(Serialize, ToSchema)]
struct Stayed {
    /// The name of the site; null is the certificates of the top level.
    site: Option<String>,
    /// What is wrong with what it was to become.
    error: String,
}

/// Reads the configuration again, as SIGHUP does. What is wrong leaves the old one in force: of one site, where it is
/// that site's alone and the site was there before, of the top level's certificates, else of all.
#[utoipa::path(post, path = "/v1/reload", tag = "control", security(("token" = [])), responses(
    (status = OK, body = Reloaded, description = "The configuration was read"),
    (status = UNPROCESSABLE_ENTITY, body = Problem,
        content_type = "application/problem+json", description = "Wrong; nothing was changed"),
))]
pub(crate) async fn reload(State(context): State<Arc<Context>>) -> Result<Json<Reloaded>, Problem> {
    beside(move || {
        let waiting = (context.reload)().map_err(|error| {
            Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                error,
                "nothing was changed; correct the file, try it with freshet check, reload again",
            )
        })?;
        let snapshot = context.node.snapshot();
        let origins = snapshot.sites.origins().map(|(name, _)| name.into_owned()).collect();
        let stayed = snapshot
            .stayed
            .iter()
            .map(|one| Stayed { site: one.name().map(str::to_owned), error: one.why.clone() });
        Ok(Json(Reloaded { origins, waiting, stayed: stayed.collect() }))
    })
    .await?
}
