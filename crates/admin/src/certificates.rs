//! The certificates of a node, and how it gets them.

use crate::answer::Input;
use crate::context::Context;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// A certificate that clients are shown, or that a name waits for.
#[derive(Serialize, ToSchema)]
pub(crate) struct Certificate {
    /// The first of its names.
    name: String,
    /// Its last second, since 1970; null where there is none yet.
    until_s: Option<i64>,
    /// How it comes: `file` for one that is configured, `acme` for one the node gets by itself.
    by: &'static str,
    /// When it is ordered or renewed next, seconds since 1970; null for one from a file.
    due_s: Option<i64>,
    /// Orders that failed in a row.
    failures: u32,
    /// The kind of the last failure.
    failure: Option<&'static str>,
    /// What happened.
    error: Option<String>,
    /// What to do about it.
    help: Option<&'static str>,
}

/// All certificates.
#[derive(Serialize, ToSchema)]
pub(crate) struct CertificateList {
    /// Those from files first.
    certificates: Vec<Certificate>,
}

/// Certificates to be renewed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToRenew {
    /// Their names; none is all that the node gets by itself.
    #[serde(default)]
    names: Vec<String>,
}

/// What was begun.
#[derive(Serialize, ToSchema)]
pub(crate) struct Renewing {
    /// How many certificates are ordered now.
    certificates: usize,
}

/// Lists the certificates.
#[utoipa::path(get, path = "/v1/certificates", tag = "certificates", security(("token" = [])),
    responses((status = OK, body = CertificateList, description = "The certificates")))]
pub(crate) async fn certificates(State(context): State<Arc<Context>>) -> Json<CertificateList> {
    let managed = context.acme.as_ref().map(|acme| acme.status().names()).unwrap_or_default();
    let store = context.node.certificates();
    let files = store.map(|store| store.expiries()).unwrap_or_default().into_iter();
    let is_managed = |name: &str| managed.iter().any(|(known, _)| known == name);
    let files = files.filter(|one| !is_managed(&one.name)).map(|one| Certificate {
        name: one.name.into(),
        until_s: Some(one.until_s),
        by: "file",
        due_s: None,
        failures: 0,
        failure: None,
        error: None,
        help: None,
    });
    let mut certificates: Vec<_> = files.collect();
    certificates.extend(managed.into_iter().map(|(name, status)| Certificate {
        name,
        until_s: status.validity_s.map(|(_, until_s)| until_s),
        by: "acme",
        due_s: Some(status.due_s),
        failures: status.failures,
        failure: status.error.as_ref().map(|(kind, _)| kind.as_str()),
        help: status.error.as_ref().map(|(kind, _)| kind.cure()),
        error: status.error.map(|(_, message)| message),
    }));
    Json(CertificateList { certificates })
}

/// Orders certificates anew that the node gets by itself, now. The old ones are served until then.
#[utoipa::path(post, path = "/v1/certificates/renew", tag = "certificates", security(("token" = [])),
    request_body = ToRenew,
    responses((status = OK, body = Renewing, description = "They are ordered"),
        (status = NOT_FOUND, body = Problem, content_type = "application/problem+json",
            description = "The node does not get certificates for that name")))]
pub(crate) async fn renew(
    State(context): State<Arc<Context>>,
    Input(input): Input<ToRenew>,
) -> Result<Json<Renewing>, Problem> {
    let Some(acme) = &context.acme else {
        let error = "this node gets no certificates by itself";
        return Err(Problem::not_found(error, "give [acme] terms_agreed = true and restart it"));
    };
    let known = acme.status().names();
    if let Some(wrong) = input.names.iter().find(|name| !known.iter().any(|(one, _)| one == *name))
    {
        let error = format!("the node gets no certificate for {wrong}");
        let help = "GET /v1/certificates lists those it does; acme.names takes more";
        return Err(Problem::not_found(error, help));
    }
    Ok(Json(Renewing { certificates: acme.renew(&input.names) }))
}
