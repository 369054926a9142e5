//! Reading request bodies and running what takes long.

use crate::problem::Problem;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

/// A JSON body, whatever its `Content-Type` says: `curl -d` calls everything a form.
pub(crate) struct Input<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let path = request.uri().path().to_owned();
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            Problem::new(rejection.status(), rejection.body_text(), "send a short JSON object")
        })?;
        let read = serde_json::from_slice(&bytes);
        read.map(Self).map_err(|error| {
            let hint = "GET /openapi.json says what this takes";
            Problem::bad_request(format!("{path}: the body is not what is expected: {error}"), hint)
        })
    }
}

/// Runs what walks the index or reads files on a thread beside, so that health checks and scrapes
/// go on.
pub(crate) async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Problem::internal(format!("the work did not end well: {error}")))
}
