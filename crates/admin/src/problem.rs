//! What a client of the interface is told when something is wrong.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// What went wrong and what to do about it: a problem of RFC 9457.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `about:blank`: the status says the kind (RFC 9457 §4.2.1).
    #[serde(rename = "type")]
    kind: &'static str,
    /// The words for the status.
    title: &'static str,
    /// The status of the response.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u16)]
    status: StatusCode,
    /// What is wrong, where.
    pub(crate) detail: String,
    /// What to do.
    pub(crate) help: String,
}

/// The media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

fn as_number<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        detail: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let title = status.canonical_reason().unwrap_or("");
        Self { kind: "about:blank", title, status, detail: detail.into(), help: help.into() }
    }

    /// The request is wrong.
    pub(crate) fn bad_request(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, hint)
    }

    /// No site is for the host of a URL.
    pub(crate) fn no_site(url: &str) -> Self {
        let error = format!("no site is for the host of `{url}`");
        Self::not_found(error, "give the host as clients ask for it, one of a site's hosts")
    }

    /// What was named is not there.
    pub(crate) fn not_found(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error, hint)
    }

    /// The token is missing or wrong.
    pub(crate) fn unauthorized(error: &str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            error,
            "send Authorization: Bearer with the content of the token file; the node says at its \
             start where that is",
        )
    }

    /// Something in the node failed.
    pub(crate) fn internal(error: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error, "the node's own log says more")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        let media_type = header::HeaderValue::from_static(MEDIA_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
