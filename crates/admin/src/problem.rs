//! What a client of the interface is told when something is wrong.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// What went wrong and what to do about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What is wrong, where.
    pub(crate) error: String,
    /// What to do.
    pub(crate) hint: String,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        error: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { status, error: error.into(), hint: hint.into() }
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
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
