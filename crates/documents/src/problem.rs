//! What a client is told when something is wrong: a problem of RFC 9457.

use serde_json::{Value, json};

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The status of the response.
    pub status: u16,
    /// What is wrong, where, and what to do.
    pub detail: String,
    /// `WWW-Authenticate`, of 401 and 403 (RFC 6750 §3).
    pub challenge: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after_s: Option<u64>,
    /// `Allow`, of 405 (RFC 9110 §15.5.6).
    pub allowed: Option<String>,
    /// A word for programs, where the interface's standard has one: `code`, with the detail as `message`.
    pub code: Option<&'static str>,
}

impl Problem {
    /// A problem by its status.
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            challenge: None,
            retry_after_s: None,
            allowed: None,
            code: None,
        }
    }

    /// The request is wrong.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, detail)
    }

    /// What is named is not there.
    pub fn not_found(path: &str) -> Self {
        Self::new(404, format!("there is no {path}"))
    }

    /// The client may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(403, detail)
    }

    /// What is at `place` takes other methods.
    pub fn not_allowed(place: &str, allowed: String) -> Self {
        let detail = format!("{place} takes {allowed}");
        Self { allowed: Some(allowed), ..Self::new(405, detail) }
    }

    /// With a word for programs.
    pub fn coded(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The words for the status.
    pub const fn title(&self) -> &'static str {
        match self.status {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            409 => "Conflict",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            422 => "Unprocessable Content",
            429 => "Too Many Requests",
            503 => "Service Unavailable",
            507 => "Insufficient Storage",
            _ => "Internal Server Error",
        }
    }

    /// The body of the response.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "type": "about:blank",
            "title": self.title(),
            "status": self.status,
            "detail": self.detail,
        });
        if let Some(code) = self.code {
            body["code"] = code.into();
            body["message"] = self.detail.as_str().into();
        }
        body
    }
}

/// The schema of a problem.
pub(crate) fn schema() -> Value {
    json!({ "type": "object", "properties": {
        "type": { "type": "string", "format": "uri-reference" },
        "title": { "type": "string" },
        "status": { "type": "integer" },
        "detail": { "type": "string" },
        "instance": { "type": "string", "format": "uri-reference" },
    } })
}
