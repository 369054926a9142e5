//! Renewal of a token that is about to end (the claim `catr` of CTA-5007), where a secret is there to
//! do it with.

use super::cose::{self, Seal, label};
use crate::denied::Denied;
use crate::limits::ENTRIES_MAX;
use crate::question::{Place, Source};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value;
use freshet_http::fields::is_token;

/// Seconds before its end from which a token is renewed that does not say.
const DEADLINE_S: u64 = 60;
/// A `deadline` from here on is a time and no span: 31 years, or September 2001.
const DEADLINE_S_MAX: u64 = 1_000_000_000;
/// Longest span, and latest time, that a number with a fraction may mean.
const FRACTION_S_MAX: f64 = 1e12;
/// The field and cookie of a token that names none.
const NAME: &str = "CTA-Common-Access-Token";
/// Longest name or parameter that is put into a field.
const TEXT_BYTES_MAX: usize = 1024;

/// The claim that says until when a token is good.
const EXPIRES: i128 = 4;

/// How a token is renewed.
#[derive(Debug)]
pub(super) struct Renewal {
    way: Way,
    /// For how many seconds from then.
    added_s: u64,
    /// How many seconds before its end.
    deadline_s: u64,
    cookie: Option<String>,
    header: Option<String>,
    cookie_parts: Vec<String>,
    header_parts: Vec<String>,
    /// What the new token says too.
    claims: Value,
    /// Under what it is: what the old one is under.
    seal: Seal,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// As it came.
    Automatic,
    Cookie,
    Header,
}

impl Renewal {
    /// Reads the claim; `None` where it asks for what is not done here, which is no condition: without a secret too.
    ///
    /// # Errors
    /// [`Denied::Malformed`]
    pub(super) fn read(
        renewal: &Value,
        claims: Value,
        seal: Option<Seal>,
    ) -> Result<Option<Self>, Denied> {
        let Value::Map(map) = renewal else { return Err(Denied::Malformed) };
        if map.len() > ENTRIES_MAX {
            return Err(Denied::Malformed);
        }
        let number = |at| match label(map, at)? {
            None => Ok(None),
            Some(Value::Integer(number)) => {
                u64::try_from(i128::from(*number)).map(Some).map_err(|_| Denied::Malformed)
            }
            // As times may be (RFC 8392 §2).
            Some(Value::Float(number)) if (0.0..FRACTION_S_MAX).contains(number) => {
                Ok(Some(*number as u64))
            }
            Some(_) => Err(Denied::Malformed),
        };
        let texts = |at| match label(map, at)? {
            None => Ok(Vec::new()),
            Some(Value::Array(all)) if all.len() <= ENTRIES_MAX => {
                all.iter().map(plain).collect::<Result<Vec<_>, _>>()
            }
            Some(one) => Ok(vec![plain(one)?]),
        };
        let way = match number(0)? {
            Some(0) => Way::Automatic,
            Some(1) => Way::Cookie,
            Some(2) => Way::Header,
            // By a redirect, or in a way that was thought of later.
            Some(_) => return Ok(None),
            None => return Err(Denied::Malformed),
        };
        let name = |at| texts(at).map(|names| names.into_iter().next());
        let (cookie, header) = (name(3)?, name(4)?);
        if ![&cookie, &header].into_iter().flatten().all(|name| is_token(name)) {
            return Err(Denied::Malformed);
        }
        let added_s = number(1)?.ok_or(Denied::Malformed)?;
        let deadline_s = number(2)?.unwrap_or(DEADLINE_S);
        let Some(seal) = seal.filter(|_| deadline_s < DEADLINE_S_MAX) else {
            // With a time it may be meant that none is made from then on, and not that one is: it would be longer good.
            return Ok(None);
        };
        Ok(Some(Self {
            way,
            added_s,
            deadline_s,
            cookie,
            header,
            cookie_parts: texts(5)?,
            header_parts: texts(6)?,
            claims,
            seal,
        }))
    }

    /// The field with the new token, where a token that is good until `until_s` is to be renewed
    /// `now_s`.
    pub(super) fn field(
        &self,
        source: &Source,
        place: Place,
        (now_s, until_s): (u64, f64),
    ) -> Option<(String, String)> {
        if now_s.saturating_add(self.deadline_s) as f64 <= until_s {
            return None;
        }
        let is_cookie = match (self.way, place) {
            (Way::Cookie, _) | (Way::Automatic, Place::Cookie) => true,
            (Way::Header, _) | (Way::Automatic, Place::Header) => false,
            // It would take a redirect.
            (Way::Automatic, Place::Parameter) => return None,
        };
        let token = URL_SAFE_NO_PAD.encode(self.renewed(now_s)?);
        Some(if is_cookie {
            let name = self.cookie.as_deref().or(source.cookie.as_deref()).unwrap_or(NAME);
            let parts = if self.cookie_parts.is_empty() {
                // One for a part of a site would not be there for the rest of what it is for.
                "; Path=/; HttpOnly".to_owned()
            } else {
                joined(&self.cookie_parts)
            };
            ("Set-Cookie".to_owned(), format!("{name}={token}{parts}"))
        } else {
            let name = self.header.as_deref().or(source.header.as_deref()).unwrap_or(NAME);
            (name.to_owned(), format!("{token}{}", joined(&self.header_parts)))
        })
    }

    /// The same token with a later end.
    fn renewed(&self, now_s: u64) -> Option<Vec<u8>> {
        let mut claims = self.claims.clone();
        let map = claims.as_map_mut()?;
        let is_end =
            |key: &Value| matches!(key, Value::Integer(key) if i128::from(*key) == EXPIRES);
        let (_, end) = map.iter_mut().find(|(key, _)| is_end(key))?;
        *end = Value::Integer(now_s.saturating_add(self.added_s).into());
        cose::sealed(&claims, &self.seal)
    }
}

fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| format!("; {part}")).collect()
}

/// Text that may stand in a field.
fn plain(value: &Value) -> Result<String, Denied> {
    let text = value.as_text().ok_or(Denied::Malformed)?;
    let is_plain = text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if is_plain && text.len() <= TEXT_BYTES_MAX { Ok(text.into()) } else { Err(Denied::Malformed) }
}
