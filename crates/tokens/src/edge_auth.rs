//! Akamai's EdgeAuth token 2.0: `exp=…~acl=…~hmac=…`.
//!
//! What is signed is all of the token before `~hmac=`, with the URL behind it where the token has no
//! list of patterns, and a salt where there is one.

use crate::denied::Denied;
use crate::keys::{Keys, is_mac};
use crate::limits::{PATTERNS_MAX, TOKEN_BYTES_MAX};
use crate::question::{Place, Question, Source};
use crate::revoked::Revoked;
use crate::text::{decode, hex};
use crate::times::{Times, seconds};
use crate::verifier::{Grant, Granted};
use std::borrow::Cow;
use std::net::IpAddr;

/// How tokens are signed, and where they are.
#[derive(Clone, Debug, Default)]
pub struct EdgeAuth {
    /// Where tokens are.
    pub source: Source,
    /// The salt, where there is one.
    pub salt: Option<String>,
}

#[derive(Default)]
struct Parts<'a> {
    ip: Option<&'a str>,
    start: Option<u64>,
    until: Option<u64>,
    acl: Option<&'a str>,
    id: Option<&'a str>,
    data: Option<&'a str>,
}

impl EdgeAuth {
    pub(crate) fn verify(
        &self,
        question: &Question<'_>,
        (keys, revoked): (&Keys, &Revoked),
        leeway_s: u64,
    ) -> Result<Granted, Denied> {
        self.source.first_good(question, |token, place| {
            let grant = self.check((token, place), question, keys, leeway_s)?;
            revoked.admit(Granted { place: Some(place), ..grant.into() })
        })
    }

    fn check(
        &self,
        (token, place): (&str, Place),
        question: &Question<'_>,
        keys: &Keys,
        leeway_s: u64,
    ) -> Result<Grant, Denied> {
        let path = question.path();
        // Generators may escape early: then what is signed has its escapes, as it was sent.
        let parameter = self.source.parameter.as_deref().filter(|_| place == Place::Parameter);
        let sent = parameter.map(|name| question.parameter(name));
        let sent = sent.transpose()?.flatten();
        let sent = sent.filter(|sent| *sent != token && sent.len() <= TOKEN_BYTES_MAX);
        let parts = sent.and_then(|sent| self.signed(sent, question, keys).ok());
        let parts = parts.map_or_else(|| self.signed(token, question, keys), Ok)?;
        let times = Times {
            not_before_s: parts.start.map(|from| from as f64),
            expires_s: Some(parts.until.ok_or(Denied::Endless)? as f64),
        };
        times.check(question.now_s, leeway_s)?;
        if let Some(ip) = parts.ip {
            let ip: IpAddr = unescaped(ip)?.parse().map_err(|_| Denied::Malformed)?;
            if question.client.map(|client| client.to_canonical()) != Some(ip.to_canonical()) {
                return Err(Denied::Client);
            }
        }
        if let Some(acl) = parts.acl {
            // A pattern is for paths with one meaning only.
            question.decoded_path()?;
            let acl = if is_escaped(acl) { unescaped(&acl.replace('+', " "))? } else { acl.into() };
            let mut patterns = acl.split('!').take(PATTERNS_MAX);
            if !patterns.any(|pattern| covers(pattern.as_bytes(), path.as_bytes())) {
                return Err(Denied::Url);
            }
        }
        let id: Option<Box<str>> = parts.id.map(|id| plain(id).into());
        let data = parts.data.map(|data| ("data".into(), plain(data).into()));
        Ok(Grant { id, claims: data.into_iter().collect(), subject: None })
    }

    /// What may have been signed as the URL: its path, or that with its own query.
    fn urls(&self, question: &Question<'_>) -> Vec<String> {
        let path = question.path();
        let is_token = |pair: &str| {
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            self.source.parameter.as_deref() == Some(name)
        };
        let own = question.query().split('&').filter(|pair| !is_token(pair));
        let query = own.collect::<Vec<_>>().join("&");
        let with_query = (!query.is_empty()).then(|| format!("{path}?{query}"));
        [path.to_owned()].into_iter().chain(with_query).collect()
    }

    /// What a token says whose signature is good.
    fn signed<'a>(
        &self,
        token: &'a str,
        question: &Question<'_>,
        keys: &Keys,
    ) -> Result<Parts<'a>, Denied> {
        let (signed, mac) = token.rsplit_once("~hmac=").ok_or(Denied::Malformed)?;
        let mac = hex(mac).filter(|mac| mac.len() == 32).ok_or(Denied::Malformed)?;
        let parts = Parts::read(signed)?;
        let urls = parts.acl.is_none().then(|| self.urls(question));
        let is_signed = self.is_signed(signed, &mac, urls.as_deref(), keys);
        if is_signed { Ok(parts) } else { Err(Denied::Signature) }
    }

    fn is_signed(&self, signed: &str, mac: &[u8], urls: Option<&[String]>, keys: &Keys) -> bool {
        let salt = self.salt.as_ref().map(|salt| format!("~salt={salt}")).unwrap_or_default();
        // Generators may escape early.
        let with = |url: &String| {
            [format!("{signed}~url={url}{salt}"), format!("{signed}~url={}{salt}", escaped(url))]
        };
        let texts: Vec<_> = match urls {
            None => vec![format!("{signed}{salt}")],
            Some(urls) => urls.iter().flat_map(with).collect(),
        };
        let mut is_good = false;
        for key in keys.secrets().filter_map(|secret| secret.hmac_of_hex.as_ref()) {
            for text in &texts {
                is_good |= is_mac(key, text.as_bytes(), mac);
            }
        }
        is_good
    }
}

impl<'a> Parts<'a> {
    fn read(signed: &'a str) -> Result<Self, Denied> {
        fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Denied> {
            if place.replace(value).is_some() { Err(Denied::Ambiguous) } else { Ok(()) }
        }
        let mut parts = Self::default();
        for field in signed.split('~') {
            match field.split_once('=').ok_or(Denied::Malformed)? {
                ("ip", value) => once(&mut parts.ip, value)?,
                ("st", value) => once(&mut parts.start, seconds(value)?)?,
                ("exp", value) => once(&mut parts.until, seconds(value)?)?,
                ("acl", value) => once(&mut parts.acl, value)?,
                ("id", value) => once(&mut parts.id, value)?,
                ("data", value) => once(&mut parts.data, value)?,
                // `url` and `salt` are signed and never sent.
                _ => return Err(Denied::Claim),
            }
        }
        Ok(parts)
    }
}

/// Whether a list of patterns was escaped early: unescaped ones begin with a slash or a star.
fn is_escaped(acl: &str) -> bool {
    acl.get(..3).is_some_and(|start| ["%2f", "%2a"].contains(&&*start.to_ascii_lowercase()))
}

/// What a generator was given, which may have escaped it early; as it is where it is no escape of anything.
fn plain(text: &str) -> String {
    unescaped(&text.replace('+', " ")).unwrap_or_else(|_| text.to_owned())
}

fn unescaped(text: &str) -> Result<String, Denied> {
    let bytes = decode(text).ok_or(Denied::Malformed)?;
    String::from_utf8(Cow::into_owned(bytes)).map_err(|_| Denied::Malformed)
}

/// As generators escape early: all but letters, digits and `_.-~`, in lower case.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) => {
                out.push(char::from(byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02x}");
            }
        }
    }
    out
}

/// Whether a pattern is of all of a path: `*` is any text, `?` any sign. O(pattern × path) at worst,
/// without recursion.
fn covers(pattern: &[u8], path: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of < path.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(sign) if *sign == b'?' || *sign == path[of] => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                Some((star_at, star_of)) => {
                    *star_of += 1;
                    (at, of) = (*star_at + 1, *star_of);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|sign| *sign == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_of_the_whole_path() {
        for (pattern, path, is) in [
            ("/*", "/a/b", true),
            ("/a", "/ab", false),
            ("/a*", "/ab", true),
            ("/a/?.mp4", "/a/1.mp4", true),
            ("/a/?.mp4", "/a/12.mp4", false),
            ("*/b*c", "/a/bxbyc", true),
            ("", "/", false),
            ("**", "", true),
            ("/A", "/a", false),
        ] {
            assert_eq!(covers(pattern.as_bytes(), path.as_bytes()), is, "{pattern} {path}");
        }
        let (pattern, path) = ("*a".repeat(1000), "b".repeat(8000));
        assert!(!covers(pattern.as_bytes(), path.as_bytes()));
    }
}
