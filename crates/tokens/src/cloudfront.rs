//! URLs and cookies signed for CloudFront, by a canned or by a custom policy.
//!
//! What is signed is a text in JSON, the policy. A canned one is not sent: it follows from the URL and a
//! time. A custom one is sent with its signature, in the query or in cookies, and may be for many URLs.

use crate::denied::Denied;
use crate::keys::{Keys, Material, first_good};
use crate::limits::TOKEN_BYTES_MAX;
use crate::network::contains;
use crate::question::Question;
use crate::seen::Seen;
use crate::text::{base64_url, decode, is_like};
use crate::times::{Times, seconds, time};
use crate::verifier::Grant;
use serde::Deserialize;
use std::net::IpAddr;

/// Signed URLs and cookies. The name of a key is its `Key-Pair-Id`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudFront;

/// What a policy that was signed says.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    times: Times,
    /// URLs it is for, with `*` for any text and `?` for any byte; for all where there is none, and a
    /// canned one for the URL it was checked with.
    resource: Option<String>,
    network: Option<(IpAddr, u8)>,
}

/// A token as it was sent.
struct Given<'a> {
    /// A custom policy.
    policy: Option<&'a str>,
    /// The time of a canned one.
    expires: Option<&'a str>,
    signature: &'a str,
    key: &'a str,
    algorithm: Option<&'a str>,
}

impl CloudFront {
    /// The parameters that are the token.
    pub(crate) const PARAMETERS: [&'static str; 5] =
        ["Expires", "Policy", "Signature", "Key-Pair-Id", "Hash-Algorithm"];
    /// The same as cookies.
    pub const COOKIES: [&'static str; 5] = [
        "CloudFront-Expires",
        "CloudFront-Policy",
        "CloudFront-Signature",
        "CloudFront-Key-Pair-Id",
        "CloudFront-Hash-Algorithm",
    ];

    pub(crate) fn verify(
        self,
        question: &Question<'_>,
        keys: &Keys,
        seen: &Seen<Policy>,
        leeway_s: u64,
    ) -> Result<Grant, Denied> {
        let given = Given::of(question)?;
        let is_sha1 = match given.algorithm {
            None | Some("SHA1") => true,
            Some("SHA256") => false,
            Some(_) => return Err(Denied::Key),
        };
        let signature = bytes(given.signature)?;
        // What a URL leads to is what has one meaning only.
        question.decoded_path()?;
        let url = base_url(question);
        let check = |text: &[u8], read: &dyn Fn() -> Result<Policy, Denied>| {
            let parts = [text, &signature, given.key.as_bytes(), &[u8::from(is_sha1)]];
            seen.get_or(&parts, || {
                first_good(keys.named(given.key.as_bytes()), "RS256", |key| {
                    is_signed(key, is_sha1, text, &signature)
                })?;
                read()
            })
        };
        // Behind a load balancer that ends TLS the node does not know which scheme was signed.
        let schemes = ["https", "http"];
        let policy = match (given.policy, given.expires) {
            (Some(_), Some(_)) => return Err(Denied::Ambiguous),
            (None, None) => return Err(Denied::Missing),
            (Some(text), None) => {
                let text = bytes(text)?;
                check(&text, &|| Policy::read(&text))
            }
            (None, Some(until)) => {
                let until = seconds(until)?;
                let canned = |scheme: &&str| {
                    let text = format!(
                        "{{\"Statement\":[{{\"Resource\":\"{scheme}://{url}\",\"Condition\":{{\
                         \"DateLessThan\":{{\"AWS:EpochTime\":{until}}}}}}}]}}"
                    );
                    // As the same text is read where it comes as a policy of its own: one is seen after the other.
                    check(text.as_bytes(), &|| Policy::read(text.as_bytes()))
                };
                canned(&schemes[0]).or_else(|_| canned(&schemes[1]))
            }
        }?;
        policy.times.check(question.now_s, leeway_s)?;
        let is_for = |resource: &String| {
            schemes.iter().any(|scheme| is_like(resource, &format!("{scheme}://{url}")))
        };
        if !policy.resource.as_ref().is_none_or(is_for) {
            return Err(Denied::Url);
        }
        match (policy.network, question.client) {
            (Some(network), Some(client)) if !contains(network, client) => Err(Denied::Client),
            (Some(_), None) => Err(Denied::Client),
            _ => Ok(Grant::default()),
        }
    }
}

impl<'a> Given<'a> {
    /// The token of a request: that of its URL, else that of its cookies.
    fn of(question: &Question<'a>) -> Result<Self, Denied> {
        let names = CloudFront::PARAMETERS;
        if let Some(given) = Self::read(|at| question.parameter(names[at]))? {
            return Ok(given);
        }
        let names = CloudFront::COOKIES;
        Self::read(|at| question.cookie(names[at]))?.ok_or(Denied::Missing)
    }

    fn read(
        get: impl Fn(usize) -> Result<Option<&'a str>, Denied>,
    ) -> Result<Option<Self>, Denied> {
        let [expires, policy, signature, key, algorithm] = [get(0), get(1), get(2), get(3), get(4)];
        let Some(signature) = signature? else { return Ok(None) };
        let key = key?.ok_or(Denied::Missing)?;
        let (policy, expires, algorithm) = (policy?, expires?, algorithm?);
        Ok(Some(Self { policy, expires, signature, key, algorithm }))
    }
}

/// What the text of a custom policy says. A condition that is not understood may be one that is not met.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "Statement")]
    statement: [Statement; 1],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    #[serde(rename = "Resource")]
    resource: Option<String>,
    #[serde(rename = "Condition")]
    condition: Condition,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    #[serde(rename = "DateLessThan")]
    until: Epoch,
    #[serde(rename = "DateGreaterThan")]
    from: Option<Epoch>,
    #[serde(rename = "IpAddress")]
    client: Option<SourceIp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Epoch {
    #[serde(rename = "AWS:EpochTime")]
    seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceIp {
    #[serde(rename = "AWS:SourceIp")]
    network: String,
}

impl Policy {
    fn read(text: &[u8]) -> Result<Self, Denied> {
        let document: Document = serde_json::from_slice(text)
            .map_err(|error| if error.is_data() { Denied::Claim } else { Denied::Malformed })?;
        let [Statement { resource, condition }] = document.statement;
        let network = condition.client.map(|client| network(&client.network)).transpose()?;
        let times = Times {
            expires_s: Some(time(condition.until.seconds)?),
            not_before_s: condition.from.map(|from| time(from.seconds)).transpose()?,
        };
        Ok(Self { times, resource, network })
    }
}

/// Whether a text is signed with a key; `None` where this is no key for it.
fn is_signed(key: &Material, is_sha1: bool, text: &[u8], signature: &[u8]) -> Option<bool> {
    let key = match (key, is_sha1) {
        (Material::Rsa { sha1, .. }, true) => sha1,
        (Material::Rsa { sha256, .. }, false) => sha256,
        (Material::P256 { der, .. }, false) => der,
        _ => return None,
    };
    Some(key.verify_sig(text, signature).is_ok())
}

/// base64 in which `-_~` stand for `+=/`; what builds URLs may have encoded these.
fn bytes(text: &str) -> Result<Vec<u8>, Denied> {
    let text = decode(text).ok_or(Denied::Malformed)?;
    let text = std::str::from_utf8(&text).map_err(|_| Denied::Malformed)?;
    let text = text.trim_end_matches('_');
    if text.contains('_') || text.len() > TOKEN_BYTES_MAX {
        return Err(Denied::Malformed);
    }
    base64_url(&text.replace('~', "_")).ok_or(Denied::Malformed)
}

/// `192.0.2.0/24`, or one address.
fn network(text: &str) -> Result<(IpAddr, u8), Denied> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| Denied::Claim)?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(longest), |length| length.parse().map_err(|_| Denied::Claim))?;
    if length > longest { Err(Denied::Claim) } else { Ok((address, length)) }
}

/// Host, path and the client's own query.
fn base_url(question: &Question<'_>) -> String {
    let query: Vec<_> = question
        .query()
        .split('&')
        .filter(|pair| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            !pair.is_empty() && !CloudFront::PARAMETERS.contains(&name)
        })
        .collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let host = question.authority.to_ascii_lowercase();
    format!("{host}{}{mark}{}", question.path(), query.join("&"))
}
