//! The query of a request, whose names may occur more than once.

use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::convert::Infallible;

/// Names and values in their order, decoded.
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Reads a query: `a=b&c=d`, with `+` and percent-encoding.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A whole number of this name, or `default` where it is not there. Clients made from the description have 63 bits for it.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, Problem> {
        let Some(text) = self.get(name) else { return Ok(default) };
        text.parse().ok().filter(|number| i64::try_from(*number).is_ok()).ok_or_else(|| {
            Problem::bad_request(
                format!("{name}: `{text}` is not a whole number"),
                format!("write it in decimal, as {name}=100"),
            )
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Pairs {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or("")))
    }
}

/// Percent-decoding; what is not a complete sequence stays as it is.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let decoded = after
            .split_at_checked(2)
            .filter(|_| *first == b'%')
            .and_then(|(digits, rest)| Some((hex(digits)?, rest)));
        match decoded {
            Some((byte, after)) => {
                out.push(byte);
                rest = after;
            }
            None => {
                out.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_repeat_and_values_are_decoded() {
        let pairs =
            Pairs::parse("url=http%3A%2F%2Fa%2F%3Fb%3D1&header=A:+1&header=B%3a2&x&y=%zz%4");
        assert_eq!(pairs.get("url"), Some("http://a/?b=1"));
        assert_eq!(pairs.all("header").collect::<Vec<_>>(), ["A: 1", "B:2"]);
        assert_eq!(pairs.get("x"), Some(""));
        assert_eq!(pairs.get("y"), Some("%zz%4"));
        assert_eq!(pairs.get("z"), None);
        assert_eq!(pairs.number("none", 7).unwrap(), 7);
        assert!(pairs.number("url", 7).unwrap_err().detail.contains("whole number"));
        let large = Pairs::parse("count=9223372036854775808");
        assert!(large.number("count", 7).unwrap_err().detail.contains("whole number"));
    }
}
