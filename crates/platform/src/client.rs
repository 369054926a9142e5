//! Clients and what they may do: OAuth 2.0 client credentials (RFC 6749 §4.4), the only grant of
//! ETSI GS MEC 011.

use crate::platform::Answer;
use crate::token::{Claims, Issuer, thumbprint};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use freshet_documents::problem::Problem;
use freshet_documents::query::decode_form;
use freshet_limits::Rate;
use serde_json::json;
use std::collections::BTreeMap;

/// A client of the platform.
#[derive(Clone, Debug)]
pub struct Client {
    /// SHA-256 of its secret, where it has one.
    pub secret_digest: Option<[u8; 32]>,
    /// SHA-256 of its certificate, which it has to show for a token, where it has one.
    pub certificate_digest: Option<[u8; 32]>,
    /// Whether it is nobody without a certificate that its token is bound to.
    pub is_bound: bool,
    /// The app instance it is; it may use only what is under its own name. Without one it is an
    /// operator's program.
    pub app: Option<String>,
    /// What it may do: `interface`, `interface:noun` or `interface:noun:read`.
    pub scopes: Vec<String>,
    /// How often it may ask each interface; as often as it likes where it is not said.
    pub rate: Option<Rate>,
    /// What its calls are counted with, beside others of the same; by itself where it is not said.
    pub group: Option<String>,
    /// How many as much as others it is due where a service takes only so many calls at once.
    pub weight: u32,
}

impl Client {
    /// A client with a secret.
    pub fn new(secret: &str, app: Option<String>, scopes: Vec<String>) -> Self {
        let mut secret_digest = [0; 32];
        secret_digest.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
        let secret_digest = Some(secret_digest);
        Self {
            secret_digest,
            certificate_digest: None,
            is_bound: false,
            app,
            scopes,
            rate: None,
            group: None,
            weight: 1,
        }
    }

    /// Whether a token may be used over a connection, by the certificate it is bound to and the one that was
    /// shown there (RFC 8705 §3).
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_binding(
        &self,
        bound: Option<&str>,
        shown: Option<&[u8; 32]>,
    ) -> Result<(), &'static str> {
        match (bound, shown) {
            (None, _) if self.is_bound => {
                Err("it is bound to no certificate, as its client's must be")
            }
            (None, _) => Ok(()),
            (Some(_), None) => Err("it is bound to a certificate, and none was shown"),
            (Some(bound), Some(shown)) if bound == thumbprint(shown) => Ok(()),
            (Some(_), Some(_)) => Err("it is bound to another certificate"),
        }
    }
}

/// Who asks, as a token says and the configuration still allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    pub(crate) client: String,
    pub(crate) app: Option<String>,
    scopes: Vec<String>,
    /// How often it may ask each interface.
    pub(crate) rate: Option<Rate>,
    /// What its calls are counted with.
    pub(crate) group: Option<String>,
    /// How many as much as others it is due.
    pub(crate) weight: u32,
    /// When its token is over, in seconds since 1970.
    pub(crate) until_s: u64,
}

impl Caller {
    pub(crate) fn new(claims: &Claims, found: &Client) -> Self {
        let asked = claims.scope.split(' ').filter(|scope| covers_any(&found.scopes, scope));
        let scopes = asked.map(str::to_owned).collect();
        Self {
            client: claims.client_id.clone(),
            app: found.app.clone(),
            scopes,
            rate: found.rate,
            group: found.group.clone(),
            weight: found.weight,
            until_s: claims.exp,
        }
    }

    /// Whether an operation with this scope is allowed.
    pub(crate) fn may(&self, scope: &str) -> bool {
        covers_any(&self.scopes, scope)
    }

    /// Whether what belongs to `owner`, or to nobody, is this client's business.
    pub(crate) fn owns(&self, owner: Option<&str>) -> bool {
        self.app.is_none() || owner.is_none_or(|owner| self.client == owner)
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

/// What a client gives for a token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given<'a> {
    /// `Authorization`
    pub(crate) authorization: Option<&'a str>,
    /// The body.
    pub(crate) form: &'a str,
    /// SHA-256 of the certificate it has shown.
    pub(crate) certificate: Option<[u8; 32]>,
}

impl Given<'_> {
    /// The client it says it is.
    pub(crate) fn name(&self) -> Option<String> {
        match self.authorization {
            Some(text) => basic(text).map(|(name, _)| name),
            None => {
                let mut fields = self.fields();
                fields.find(|(name, _)| name == "client_id").map(|(_, value)| value)
            }
        }
    }

    /// What the form says, in its order.
    fn fields(&self) -> impl Iterator<Item = (String, String)> {
        self.form.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(name), decode_form(value))
        })
    }

    /// Whether it proves to be a client, by all that the client has. A name that is not there takes as long
    /// as a wrong secret.
    fn proves(&self, client: Option<&Client>, secret: Option<&str>) -> bool {
        let sent = digest(&SHA256, secret.unwrap_or_default().as_bytes());
        let nobody = [0; 32];
        let expected = client.and_then(|client| client.secret_digest);
        let is_right = verify_slices_are_equal(sent.as_ref(), &expected.unwrap_or(nobody)).is_ok();
        let Some(client) = client else { return false };
        let has_secret = client.secret_digest.is_none() || (secret.is_some() && is_right);
        let known = client.certificate_digest.as_ref();
        let has_certificate = known.is_none() || known == self.certificate.as_ref();
        has_secret && has_certificate && (client.secret_digest.is_some() || known.is_some())
    }
}

/// Answers a request for a token (RFC 6749 §4.4.2, RFC 8705 §2). `find` knows clients by their names. `id` is a name for the
/// token unlike any other.
pub(crate) fn token(
    find: impl Fn(&str) -> Option<Client>,
    issuer: &Issuer,
    given: Given<'_>,
    id: &str,
    now_s: u64,
) -> Answer {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in given.fields() {
        // RFC 6749 §3.2: parameters are not sent twice.
        if fields.insert(name, value).is_some() {
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
    let secret = match given.authorization {
        // RFC 6749 §2.3: there is one way in each request.
        Some(_) if field("client_secret").is_some() => {
            return refuse(
                400,
                "invalid_request",
                "a secret is by HTTP Basic or in the form, not both",
            );
        }
        Some(text) => basic(text).map(|(_, secret)| secret),
        None => field("client_secret").map(str::to_owned),
    };
    let Some(name) = given.name() else {
        return refuse(
            401,
            "invalid_client",
            "send the client's name and secret, by HTTP Basic or in the form",
        );
    };
    if field("client_id").is_some_and(|other| other != name) {
        return refuse(400, "invalid_request", "client_id is another than that of HTTP Basic");
    }
    let client = find(&name);
    let is_proved = given.proves(client.as_ref(), secret.as_deref());
    let Some(client) = client.filter(|_| is_proved) else {
        return refuse(
            401,
            "invalid_client",
            "there is no such client with this secret or certificate",
        );
    };
    if client.is_bound && given.certificate.is_none() {
        return refuse(
            401,
            "invalid_client",
            "this client's tokens are bound to a certificate, and none was shown",
        );
    }
    let granted = match field("scope").filter(|scope| !scope.is_empty()) {
        None => client.scopes.join(" "),
        Some(asked) if asked.split(' ').all(|scope| covers_any(&client.scopes, scope)) => {
            asked.to_owned()
        }
        Some(_) => {
            return refuse(400, "invalid_scope", "the client may have less than it asks for");
        }
    };
    let token = issuer.issue((&name, &granted), given.certificate.as_ref(), id, now_s);
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
        let given = Given { authorization, form, certificate: None };
        token(find, &issuer, given, "1", 1_800_000_000)
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
        // Its name besides is no second way.
        let form_with_basic = "grant_type=client_credentials&client_id=app+1";
        assert_eq!(ask(Some(&basic), form_with_basic).status, 200);
        assert_eq!(ask(Some(&basic), form).body.unwrap()["error"], "invalid_request");
        let other = ask(Some(&basic), "grant_type=client_credentials&client_id=other");
        assert_eq!(other.body.unwrap()["error"], "invalid_request");
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
    fn a_certificate_is_as_good_as_a_secret_where_it_is_the_clients() {
        let (own, others) = ([7; 32], [8; 32]);
        let mut client = Client::new("secret", None, vec!["rni".to_owned()]);
        let issuer = Issuer::new(&Issuer::new_key(), "http://mec", "mec").unwrap();
        let ask = |client: &Client, secret: &str, certificate: Option<&[u8; 32]>| {
            let certificate = certificate.copied();
            let form = format!("grant_type=client_credentials&client_id=a{secret}");
            let given = Given { authorization: None, form: &form, certificate };
            let find = |name: &str| (name == "a").then(|| client.clone());
            let answer = token(find, &issuer, given, "1", 1_800_000_000);
            let token = answer.body.unwrap()["access_token"].as_str().map(str::to_owned);
            let claims = token.map(|token| issuer.verify(&token, 1_800_000_000).unwrap());
            claims.map(|claims| claims.certificate().map(str::to_owned))
        };
        let secret = "&client_secret=secret";
        assert_eq!(ask(&client, secret, None), Some(None));
        // The certificate of whoever asks binds what is given.
        assert_eq!(ask(&client, secret, Some(&others)), Some(Some(thumbprint(&others))));
        client.is_bound = true;
        assert_eq!(ask(&client, secret, None), None);
        client.certificate_digest = Some(own);
        assert_eq!(ask(&client, secret, Some(&others)), None);
        assert_eq!(ask(&client, "", Some(&own)), None);
        assert!(ask(&client, secret, Some(&own)).is_some());
        client.secret_digest = None;
        assert_eq!(ask(&client, "", Some(&own)), Some(Some(thumbprint(&own))));
        assert_eq!(ask(&client, "", Some(&others)), None);
        // One that can prove nothing is nobody.
        client.certificate_digest = None;
        assert_eq!(ask(&client, "&client_secret=", Some(&own)), None);
    }

    #[test]
    fn a_caller_has_no_more_than_the_client_has_now() {
        let client = Client::new("x", None, vec!["rni:subscriptions".into()]);
        let issuer = Issuer::new(&Issuer::new_key(), "http://mec", "mec").unwrap();
        let token = issuer.issue(("a", "rni:subscriptions:read rni bwm"), None, "1", 1_800_000_000);
        let claims = issuer.verify(&token, 1_800_000_000).unwrap();
        let caller = Caller::new(&claims, &client);
        assert!(caller.may("rni:subscriptions:read"));
        assert!(!caller.may("rni:subscriptions:write") && !caller.may("rni:rab_info:read"));
    }
}
