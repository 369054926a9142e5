//! URLs as nginx's `secure_link` module signs them.
//!
//! A link has a digest and a time in its query. The digest is of an expression in which variables
//! stand for parts of the request; with MD5 a secret is a part of it, as nginx has it, and with
//! HMAC-SHA256 it is the key.

use crate::denied::Denied;
use crate::keys::{Keys, Secret, is_mac, is_same};
use crate::limits::TOKEN_BYTES_MAX;
use crate::question::Question;
use crate::text::base64_url;
use crate::times::{Times, seconds};
use crate::verifier::Grant;
use md5::{Digest as _, Md5};
use std::borrow::Cow;

/// How links are signed.
#[derive(Clone, Debug)]
pub struct SecureLink {
    expression: Vec<Part>,
    is_hmac: bool,
    /// The parameter with the digest.
    pub signature_parameter: String,
    /// The parameter with the time in Unix seconds until which the link is good.
    pub expires_parameter: String,
    /// A parameter with the beginning of the paths a link is good for, where there may be one.
    pub prefix_parameter: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Secret,
    Expires,
    /// The path with its encoding taken off, or the prefix and `*` where the link has one.
    Uri,
    RemoteAddress,
    Host,
    Scheme,
    Argument(String),
}

/// What is wrong with an expression.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// A variable that there is not.
    #[error(
        "there is no variable `${name}`; there are $secure_link_expires, $uri, $remote_addr, \
             $host, $scheme, $secret and $arg_NAME"
    )]
    Unknown {
        /// Its name.
        name: String,
    },
    /// Links that everybody could make.
    #[error("without $secret everybody could sign links")]
    NoSecret,
    /// A secret in the text that is digested under a key.
    #[error("$secret is the key with HMAC, and no part of the expression")]
    SecretInHmac,
    /// Links that are good for every path.
    #[error("without $uri a link for one path would be one for all")]
    NoPath,
    /// Links whose time can be changed.
    #[error("without $secure_link_expires anybody could change until when a link is good")]
    NoExpiry,
}

impl SecureLink {
    /// By MD5, as `secure_link_md5` has it, with `$secret` where the secret stands.
    ///
    /// # Errors
    /// [`ExpressionError`]
    pub fn md5(expression: &str) -> Result<Self, ExpressionError> {
        let link = Self::new(expression, false)?;
        let has_secret = link.expression.contains(&Part::Secret);
        if has_secret { Ok(link) } else { Err(ExpressionError::NoSecret) }
    }

    /// By HMAC-SHA256 under the secret.
    ///
    /// # Errors
    /// [`ExpressionError`]
    pub fn hmac(expression: &str) -> Result<Self, ExpressionError> {
        let link = Self::new(expression, true)?;
        let has_secret = link.expression.contains(&Part::Secret);
        if has_secret { Err(ExpressionError::SecretInHmac) } else { Ok(link) }
    }

    fn new(expression: &str, is_hmac: bool) -> Result<Self, ExpressionError> {
        let expression = parse(expression)?;
        if !expression.contains(&Part::Uri) {
            return Err(ExpressionError::NoPath);
        }
        if !expression.contains(&Part::Expires) {
            return Err(ExpressionError::NoExpiry);
        }
        Ok(Self {
            expression,
            is_hmac,
            signature_parameter: "md5".into(),
            expires_parameter: "expires".into(),
            prefix_parameter: None,
        })
    }

    /// The parameters that are the token.
    pub(crate) fn parameters(&self) -> Vec<&str> {
        let own = [&*self.signature_parameter, &*self.expires_parameter];
        own.into_iter().chain(self.prefix_parameter.as_deref()).collect()
    }

    pub(crate) fn verify(
        &self,
        question: &Question<'_>,
        keys: &Keys,
        leeway_s: u64,
    ) -> Result<Grant, Denied> {
        let given = question.parameter(&self.signature_parameter)?.ok_or(Denied::Missing)?;
        let expires = question.parameter(&self.expires_parameter)?.ok_or(Denied::Missing)?;
        let until = seconds(expires)?;
        let given = base64_url(given).ok_or(Denied::Malformed)?;
        let path = question.decoded_path()?;
        let prefix = match &self.prefix_parameter {
            Some(name) => question.parameter(name)?,
            None => None,
        };
        let prefix = prefix.map(|text| crate::text::decode(text).ok_or(Denied::Malformed));
        let prefix = prefix.transpose()?;
        let uri: Cow<'_, [u8]> = match &prefix {
            // `/a` would be the beginning of `/ab`.
            Some(prefix) if !prefix.ends_with(b"/") => return Err(Denied::Malformed),
            Some(prefix) if !path.starts_with(prefix) => return Err(Denied::Url),
            // Signed is something else than for the page of that path, so that the holder of a link for this alone
            // makes none of it for all below.
            Some(prefix) => [prefix, &b"*"[..]].concat().into(),
            None if self.prefix_parameter.is_some() && path.ends_with(b"/*") => {
                return Err(Denied::Path);
            }
            None => Cow::Borrowed(&path),
        };
        let mut is_good = false;
        for secret in keys.secrets() {
            let text = self.text(question, secret, expires, &uri)?;
            is_good |= match self.is_hmac {
                true => is_mac(&secret.hmac, &text, &given),
                false => is_same(Md5::digest(&text).as_slice(), &given),
            };
        }
        if !is_good {
            return Err(Denied::Signature);
        }
        let times = Times { expires_s: Some(until as f64), ..Times::default() };
        // nginx lets a link pass in the second it names.
        times.check(question.now_s.saturating_sub(1), leeway_s)?;
        Ok(Grant::default())
    }

    fn text(
        &self,
        question: &Question<'_>,
        secret: &Secret,
        expires: &str,
        uri: &[u8],
    ) -> Result<Vec<u8>, Denied> {
        let mut out = Vec::with_capacity(256);
        for part in &self.expression {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Secret => out.extend_from_slice(&secret.bytes),
                Part::Expires => out.extend_from_slice(expires.as_bytes()),
                Part::Uri => out.extend_from_slice(uri),
                Part::RemoteAddress => {
                    let client = question.client.ok_or(Denied::Client)?;
                    out.extend_from_slice(client.to_canonical().to_string().as_bytes());
                }
                Part::Host => {
                    let host = freshet_http::target::split_authority(question.authority).0;
                    out.extend_from_slice(host.to_ascii_lowercase().as_bytes());
                }
                Part::Scheme => out.extend_from_slice(question.scheme.as_bytes()),
                Part::Argument(name) => {
                    out.extend_from_slice(question.parameter(name)?.unwrap_or_default().as_bytes());
                }
            }
        }
        if out.len() > TOKEN_BYTES_MAX * 2 { Err(Denied::Malformed) } else { Ok(out) }
    }
}

/// Texts and variables in turn: `$name` or `${name}`.
fn parse(expression: &str) -> Result<Vec<Part>, ExpressionError> {
    let mut parts = Vec::new();
    let mut rest = expression;
    while let Some((text, after)) = rest.split_once('$') {
        if !text.is_empty() {
            parts.push(Part::Text(text.into()));
        }
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        let (name, after) = match after.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((name, after)) => (name, after),
            None => after.split_at(after.find(|sign| !is_name(sign)).unwrap_or(after.len())),
        };
        parts.push(match name {
            "secret" => Part::Secret,
            "secure_link_expires" => Part::Expires,
            "uri" => Part::Uri,
            "remote_addr" => Part::RemoteAddress,
            "host" => Part::Host,
            "scheme" => Part::Scheme,
            _ => match name.strip_prefix("arg_").filter(|name| !name.is_empty()) {
                Some(argument) => Part::Argument(argument.into()),
                None => return Err(ExpressionError::Unknown { name: name.into() }),
            },
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_protect_nothing_are_refused() {
        let whole = "$secure_link_expires$uri";
        assert_eq!(SecureLink::md5(whole).unwrap_err(), ExpressionError::NoSecret);
        assert!(SecureLink::hmac(whole).is_ok());
        let with = format!("{whole} $secret");
        assert!(SecureLink::md5(&with).is_ok());
        assert_eq!(SecureLink::hmac(&with).unwrap_err(), ExpressionError::SecretInHmac);
        assert_eq!(SecureLink::md5("$uri$secret").unwrap_err(), ExpressionError::NoExpiry);
        let no_path = SecureLink::md5("$secure_link_expires$secret");
        assert_eq!(no_path.unwrap_err(), ExpressionError::NoPath);
        for name in ["", "urii", "arg_", "cookie_a"] {
            let error = SecureLink::md5(&format!("${name} ")).unwrap_err();
            assert_eq!(error, ExpressionError::Unknown { name: name.into() });
        }
    }

    #[test]
    fn variables_end_where_names_do() {
        let parts = parse("a${uri}b$arg_x-$secret").unwrap();
        let text = |text: &str| Part::Text(text.into());
        let argument = Part::Argument("x".into());
        assert_eq!(parts, [text("a"), Part::Uri, text("b"), argument, text("-"), Part::Secret]);
    }
}
