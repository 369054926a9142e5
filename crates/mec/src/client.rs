//! Clients and what they may do: OAuth 2.0 client credentials (RFC 6749 §4.4), the only grant of
//! ETSI GS MEC 011.

use crate::platform::Answer;
use crate::problem::Problem;
use crate::query::decode_form;
use crate::token::Issuer;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use freshet_limits::Rate;
use serde_json::json;
use std::collections::BTreeMap;

/// A client of the platform.
#[derive(Clone, Debug)]
pub struct Client {
    /// SHA-256 of its secret.
    pub secret_digest: [u8; 32],
    /// The app instance it is; it may use only what is under its own name. Without one it is an
    /// operator's program.
    pub app: Option<String>,
    /// What it may do: `interface`, `interface:noun` or `interface:noun:read`.
    pub scopes: Vec<String>,
    /// How often it may ask each interface; as often as it likes where it is not said.
    pub rate: Option<Rate>,
}

impl Client {
    /// A client with a secret.
    pub fn new(secret: &str, app: Option<String>, scopes: Vec<String>) -> Self {
        let mut secret_digest = [0; 32];
        secret_digest.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
        Self { secret_digest, app, scopes, rate: None }
    }
}

/// Who asks, as a token says and the configuration still allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    pub(crate) client: String,
    pub(crate) app: Option<String>,
    scopes: Vec<String>,
}

impl Caller {
    pub(crate) fn new(client: &str, found: &Client, scope: &str) -> Self {
        let asked = scope.split(' ').filter(|scope| covers_any(&found.scopes, scope));
        let scopes = asked.map(str::to_owned).collect();
        Self { client: client.to_owned(), app: found.app.clone(), scopes }
    }

    /// Whether an operation with this scope is allowed.
    pub(crate) fn may(&self, scope: &str) -> bool {
        covers_any(&self.scopes, scope)
    }

    /// Whether what belongs to `owner` is this client's business.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.app.is_none() || self.client == owner
    }
}

/// Whether one of the scopes is this one or its beginning.
fn covers_any(scopes: &[String], scope: &str) -> bool {
    scopes.iter().any(|known| {
        scope
            .strip_prefix(known.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

/// Answers a request for a token (RFC 6749 §4.4.2). `find` knows clients by their names. `authorization` is the field of that name, `form`
/// the body, `id` a name for the token unlike any other.
pub(crate) fn token(
    find: impl Fn(&str) -> Option<Client>,
    issuer: &Issuer,
    authorization: Option<&str>,
    form: &str,
    id: &str,
    now_s: u64,
) -> Answer {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    for pair in form.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // RFC 6749 §3.2: parameters are not sent twice.
        if fields.insert(decode_form(name), decode_form(value)).is_some() {
            return refuse(400, "invalid_request", "a parameter is there twice");
        }
    }
    let field = |name: &str| fields.get(name).map(String::as_str);
    if field("grant_type") != Some("client_credentials") {
        let error = if field("grant_type").is_some() {
            "unsupported_grant_type"
        } else {
            "invalid_request"
        };
        return refuse(400, error, "grant_type must be client_credentials");
    }
    let given = match authorization {
        Some(text) => basic(text),
        None => field("client_id")
            .zip(field("client_secret"))
            .map(|(name, secret)| (name.to_owned(), secret.to_owned())),
    };
    let Some((name, secret)) = given else {
        return refuse(
            401,
            "invalid_client",
            "send the client's name and secret, by HTTP Basic or in the form",
        );
    };
    // A name that is not there takes as long as a wrong secret.
    let sent = digest(&SHA256, secret.as_bytes());
    let nobody = [0; 32];
    let client = find(&name);
    let expected = client.as_ref().map_or(&nobody, |client| &client.secret_digest);
    let is_right = verify_slices_are_equal(sent.as_ref(), expected).is_ok();
    let Some(client) = client.filter(|_| is_right) else {
        return refuse(401, "invalid_client", "there is no such client with this secret");
    };
    let granted = match field("scope").filter(|scope| !scope.is_empty()) {
        None => client.scopes.join(" "),
        Some(asked) if asked.split(' ').all(|scope| covers_any(&client.scopes, scope)) => {
            asked.to_owned()
        }
        Some(_) => {
            return refuse(400, "invalid_scope", "the client may have less than it asks for");
        }
    };
    let token = issuer.issue(&name, &granted, id, now_s);
    let body = json!({
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": crate::limits::TOKEN_S,
        "scope": granted,
    });
    Answer::ok(body).with("Cache-Control", "no-store")
}

/// Name and secret of `Basic`, both form-encoded before (RFC 6749 §2.3.1).
fn basic(authorization: &str) -> Option<(String, String)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    let decoded =
        STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, secret) = text.split_once(':')?;
    Some((decode_form(name), decode_form(secret)))
}

/// An error of RFC 6749 §5.2.
fn refuse(status: u16, error: &str, why: &str) -> Answer {
    let body = json!({ "error": error, "error_description": why });
    let answer = Answer { status, ..Answer::ok(body) }.with("Cache-Control", "no-store");
    if status == 401 { answer.with("WWW-Authenticate", "Basic realm=\"mec\"") } else { answer }
}

/// A request without a token that holds (RFC 6750 §3).
pub(crate) fn unauthorized(why: Option<&str>) -> Problem {
    let challenge = match why {
        None => "Bearer realm=\"mec\"".to_owned(),
        Some(why) => format!(
            "Bearer realm=\"mec\", error=\"invalid_token\", error_description=\"{}\"",
            why.replace(['"', '`'], "'")
        ),
    };
    let detail = match why {
        None => "this needs an access token, from /oauth2/token".to_owned(),
        Some(why) => format!("the access token is refused: {why}"),
    };
    Problem { challenge: Some(challenge), ..Problem::new(401, detail) }
}

/// A request whose token does not allow it (RFC 6750 §3.1).
pub(crate) fn insufficient(scope: &str) -> Problem {
    let challenge =
        format!("Bearer realm=\"mec\", error=\"insufficient_scope\", scope=\"{scope}\"");
    Problem {
        challenge: Some(challenge),
        ..Problem::forbidden(format!("the token lacks the scope {scope}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(authorization: Option<&str>, form: &str) -> Answer {
        let scopes = vec!["rni".to_owned(), "location:users:read".to_owned()];
        let client = Client::new("s:cret", Some("a".into()), scopes);
        let find = |name: &str| (name == "app 1").then(|| client.clone());
        let issuer = Issuer::new(&Issuer::new_key(), "http://mec", "mec").unwrap();
        token(find, &issuer, authorization, form, "1", 1_800_000_000)
    }

    #[test]
    fn tokens_are_given_to_whom_the_secret_is_known() {
        let basic = format!("Basic {}", STANDARD.encode("app+1:s%3Acret"));
        let given = ask(Some(&basic), "grant_type=client_credentials");
        assert_eq!(given.status, 200);
        let body = given.body.unwrap();
        assert_eq!(body["scope"], "rni location:users:read");
        let form = "grant_type=client_credentials&client_id=app+1&client_secret=s%3acret";
        assert_eq!(ask(None, form).status, 200);
        let less = ask(None, &format!("{form}&scope=rni%3Asubscriptions"));
        assert_eq!(less.body.unwrap()["scope"], "rni:subscriptions");
    }

    #[test]
    fn wrong_requests_for_tokens_are_refused_by_name() {
        let good = "grant_type=client_credentials&client_id=app+1&client_secret=s%3Acret";
        for (form, status, error) in [
            ("", 400, "invalid_request"),
            ("grant_type=password", 400, "unsupported_grant_type"),
            ("grant_type=client_credentials", 401, "invalid_client"),
            (&good.replace("app+1", "app+2"), 401, "invalid_client"),
            (&good.replace("cret", "cre"), 401, "invalid_client"),
            (&format!("{good}&scope=location"), 400, "invalid_scope"),
            (&format!("{good}&scope=rnix"), 400, "invalid_scope"),
            (&format!("{good}&client_id=app+1"), 400, "invalid_request"),
        ] {
            let answer = ask(None, form);
            let found = answer.body.unwrap()["error"].as_str().map(str::to_owned);
            assert_eq!((answer.status, found.as_deref()), (status, Some(error)), "{form}");
        }
    }

    #[test]
    fn a_caller_has_no_more_than_the_client_has_now() {
        let client = Client::new("x", None, vec!["rni:subscriptions".into()]);
        let caller = Caller::new("a", &client, "rni:subscriptions:read rni bwm");
        assert!(caller.may("rni:subscriptions:read"));
        assert!(!caller.may("rni:subscriptions:write") && !caller.may("rni:rab_info:read"));
    }
}
