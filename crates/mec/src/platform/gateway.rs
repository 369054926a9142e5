//! What a gateway in front of apps asks: whether a request to a service of theirs may go on.
//!
//! The gateway is a node that asks a service before it lets a request in. Requests for the service NAME are
//! below `/services/NAME/`; the platform says yes to a token of its own with the scope `services:NAME`, while somebody
//! offers that service in the registry.

use super::{Answer, Call, Platform};
use crate::api;
use crate::client;
use crate::problem::Problem;
use crate::query::decode;

/// Where it is asked.
pub(super) const PATH: &str = "/gateway/decision";
/// The first word of scopes for services of apps, and of their paths.
pub(crate) const SCOPE: &str = "services";

/// The service that a gateway's request is for.
pub(super) fn service(call: &Call<'_>) -> Result<String, Problem> {
    let uri = call.forwarded_uri.ok_or_else(|| {
        Problem::bad_request("X-Forwarded-Method and X-Forwarded-Uri must say what was asked for")
    })?;
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let words: Vec<String> = path.split('/').map(decode).collect();
    // What a server behind the gateway could take for another path does not pass under this one's name.
    let is_plain =
        |word: &String| !matches!(word.as_str(), "." | "..") && !word.contains(['/', '\\', '\0']);
    if !words.iter().all(is_plain) {
        return Err(Problem::bad_request(format!("{path} may be another path to others")));
    }
    match &words[..] {
        [first, root, name, ..]
            if first.is_empty() && root == SCOPE && !name.is_empty() && !name.contains(':') =>
        {
            Ok(name.clone())
        }
        _ => Err(Problem::not_found(&format!("service at {path}"))),
    }
}

impl Platform {
    /// Whether the request may go on: 204 with who asks.
    pub(super) fn gateway(&self, call: &Call<'_>, now_ms: u64) -> Result<Answer, Problem> {
        let caller = self.caller(call, now_ms)?;
        let name = service(call)?;
        // Safe methods read (RFC 9110 §9.2.1).
        let is_safe = matches!(call.forwarded_method, Some("GET" | "HEAD" | "OPTIONS"));
        let scope = format!("{SCOPE}:{name}:{}", if is_safe { "read" } else { "write" });
        if !caller.may(&scope) {
            return Err(client::insufficient(&scope));
        }
        if !api::is_offered(&self.tree, &name) {
            return Err(Problem::not_found(&format!("service {name} that is active")));
        }
        let answer = Answer::nothing().with("Mec-Client", caller.client);
        Ok(match caller.app {
            Some(app) => answer.with("Mec-App", app),
            None => answer,
        })
    }
}
