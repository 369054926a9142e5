//! What a gateway in front of apps asks: whether a request to a service of theirs may go on.
//!
//! The gateway is a node that asks a service before it lets a request in. Requests for the service NAME are
//! below `/services/NAME/`, or that of one instance in the place of the name; the platform says yes to a token of its
//! own with the scope `services:NAME`, while an instance of that service is active in the registry, and where it is.

use super::{Answer, Call, Offer, Place, Platform};
use crate::client::{self, Caller};
use crate::limits::INSTANCES_MAX;
use freshet_documents::problem::Problem;
use freshet_documents::query::decode;
use freshet_limits::policy_field;

/// Where it is asked.
pub(super) const PATH: &str = "/gateway/decision";
/// Where is asked whether what was answered is so still.
pub const CHANGES: &str = "/gateway/changes";
/// Where the service is: URLs of its instances.
const ENDPOINTS: &str = "Mec-Endpoint";
/// Seconds after which a service that is not active may be asked for again.
const RETRY_S: u64 = 5;
/// The first word of scopes for services of apps, and of their paths.
pub const SCOPE: &str = "services";

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
    /// Whether the request may go on, and what it is counted with: also a no is some client's.
    pub(super) fn gateway(&self, call: &Call<'_>, caller: &Caller, now_ms: u64) -> Answer {
        let asked = service(call);
        let offers = asked.as_ref().map_or_else(|_| Vec::new(), |asked| self.offers.find(asked));
        // A name of nobody's service is a client's word, of which there are any number.
        let name = offers.first().map(|offer| &offer.name);
        let decided = asked.and_then(|asked| self.admit(call, caller, &asked, &offers, now_ms));
        let mut answer = decided.unwrap_or_else(Answer::from).with("Mec-Client", &caller.client);
        for (field, value) in [
            ("Mec-Service", name),
            ("Mec-App", caller.app.as_ref()),
            ("Mec-Group", caller.group.as_ref()),
        ] {
            if let Some(value) = value {
                answer = answer.with(field, value);
            }
        }
        answer
    }

    /// 204 with where the service is and how often the client may ask it.
    fn admit(
        &self,
        call: &Call<'_>,
        caller: &Caller,
        asked: &str,
        offers: &[&Offer],
        now_ms: u64,
    ) -> Result<Answer, Problem> {
        let name = offers.first().map_or(asked, |offer| &offer.name);
        // Safe methods read (RFC 9110 §9.2.1).
        let is_safe = matches!(call.forwarded_method, Some("GET" | "HEAD" | "OPTIONS"));
        let scope = format!("{SCOPE}:{name}:{}", if is_safe { "read" } else { "write" });
        if !caller.may(&scope) {
            return Err(client::insufficient(&scope));
        }
        let places = places(asked, offers)?;
        let mut answer = Answer::nothing();
        if let Some(most) = self.setup.concurrent.get(name) {
            // The configuration has no service with a quote in its name.
            let share = format!(
                "\"{name}\";places={most};member=\"{}\";weight={}",
                caller.client.replace('"', "'"),
                caller.weight
            );
            answer = answer.with("Mec-Share", share);
        }
        if !places.is_empty() {
            answer = answer.with(ENDPOINTS, places.join(", "));
        }
        // A gateway that remembers this counts for itself, and forgets it when the token is over.
        let left_s = caller.until_s.saturating_sub(now_ms / 1000);
        let lifetime = match &caller.rate {
            // The field has whole seconds.
            Some(rate) if rate.refill().subsec_nanos() > 0 => "no-store".to_owned(),
            Some(rate) => {
                let policy = policy_field(&format!("{}:{name}", caller.client), rate);
                answer = answer.with("RateLimit-Policy", policy);
                format!("private, max-age={left_s}")
            }
            None => format!("private, max-age={left_s}"),
        };
        Ok(answer.with("Mec-Scope", scope).with("Cache-Control", lifetime))
    }

    /// Which version of what gateways rest on this is: another one after each change.
    pub fn gateway_version(&self) -> String {
        self.offers.version()
    }
}

/// URLs of the instances that are active; none where the registry does not say.
fn places<'a>(asked: &str, offers: &[&'a Offer]) -> Result<Vec<&'a str>, Problem> {
    if offers.is_empty() {
        return Err(Problem::not_found(&format!("service {asked}")));
    }
    let unavailable = |why: &str| Problem {
        retry_after_s: Some(RETRY_S),
        ..Problem::new(503, format!("{asked} {why}"))
    };
    let mut active = offers.iter().filter(|offer| offer.is_active).peekable();
    if active.peek().is_none() {
        return Err(unavailable("is not active now"));
    }
    let (mut places, mut is_unsaid) = (Vec::new(), false);
    for offer in active.take(INSTANCES_MAX) {
        match &offer.place {
            Place::At(url) => places.push(url.as_str()),
            Place::Unsaid => is_unsaid = true,
            Place::Forbidden => {}
        }
    }
    if places.is_empty() && !is_unsaid {
        return Err(unavailable("has no endpoint that a gateway may ask"));
    }
    Ok(places)
}
