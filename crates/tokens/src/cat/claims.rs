//! The claims of a Common Access Token (CTA-5007 §4).

use super::circle::Circle;
use super::cose::{Opened, label};
use super::matching::Matches;
use super::renewal::Renewal;
use super::uses::{Chance, Uses};
use crate::denied::Denied;
use crate::limits::ENTRIES_MAX;
use crate::network::contains;
use crate::question::Question;
use crate::times::{Times, time};
use crate::verifier::Grant;
use ciborium::Value;
use freshet_http::target;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Claims by their numbers in the registry of CWT claims.
mod number {
    pub(super) const ISSUER: i128 = 1;
    pub(super) const SUBJECT: i128 = 2;
    pub(super) const AUDIENCE: i128 = 3;
    pub(super) const EXPIRES: i128 = 4;
    pub(super) const NOT_BEFORE: i128 = 5;
    pub(super) const ISSUED: i128 = 6;
    pub(super) const ID: i128 = 7;
    pub(super) const REPLAY: i128 = 308;
    pub(super) const CHANCE: i128 = 309;
    pub(super) const VERSION: i128 = 310;
    pub(super) const NETWORKS: i128 = 311;
    pub(super) const URI: i128 = 312;
    pub(super) const METHODS: i128 = 313;
    pub(super) const PROTOCOLS: i128 = 314;
    pub(super) const FIELDS: i128 = 315;
    pub(super) const COUNTRIES: i128 = 316;
    pub(super) const COORDINATES: i128 = 317;
    /// What is asked of those who refuse a token, and who renew it: a wish, not a condition.
    pub(super) const IF_REFUSED: i128 = 322;
    pub(super) const IF_REFUSED_DATA: i128 = 320;
    pub(super) const RENEWAL: i128 = 323;
}

/// Claims that say something to others than the edge, as they are named in JSON.
const NAMED: [(i128, &str); 7] = [
    (number::ISSUER, "iss"),
    (number::SUBJECT, "sub"),
    (number::AUDIENCE, "aud"),
    (number::EXPIRES, "exp"),
    (number::NOT_BEFORE, "nbf"),
    (number::ISSUED, "iat"),
    (number::ID, "cti"),
];

/// What a token says, its signature being good.
#[derive(Debug, Default)]
pub(crate) struct CatToken {
    pub(super) times: Times,
    pub(super) issuer: Option<String>,
    pub(super) audiences: Vec<String>,
    pub(super) grant: Arc<Grant>,
    pub(super) renewal: Option<Renewal>,
    pub(super) uses: Uses,
    networks: Option<Vec<Network>>,
    protocols: Option<Vec<Vec<u8>>>,
    countries: Option<Vec<String>>,
    circles: Option<Vec<Circle>>,
    uri: Vec<(Component, Matches)>,
    methods: Option<Vec<String>>,
    fields: Vec<(String, Matches)>,
}

/// Where clients are let in from.
#[derive(Debug)]
enum Network {
    Prefix(IpAddr, u8),
    /// An autonomous system.
    System(u32),
}

/// Parts of a URI (CTA-5007 §4.6.4).
#[derive(Clone, Copy, Debug)]
enum Component {
    Scheme,
    Host,
    Port,
    Path,
    Query,
    ParentPath,
    FileName,
    Stem,
    Extension,
}

impl CatToken {
    /// Reads claims. Every claim has to be understood: one that is not may be a condition that is not
    /// met.
    pub(super) fn read(opened: Opened) -> Result<Self, Denied> {
        let Opened { claims, seal, digest } = opened;
        let Value::Map(map) = &claims else { return Err(Denied::Malformed) };
        if map.len() > ENTRIES_MAX {
            return Err(Denied::Malformed);
        }
        let (mut token, mut grant) = (Self::default(), Grant::default());
        for (key, value) in map {
            let Value::Integer(key) = key else { return Err(Denied::Claim) };
            let key = i128::from(*key);
            label(map, key)?;
            match key {
                // 0: it may be used again, and 2: so it may, and somebody may want to hear of it.
                number::REPLAY => match integer(value)? {
                    0 | 2 => {}
                    1 => token.uses.once = Some(digest),
                    _ => return Err(Denied::Claim),
                },
                _ => token.take(&mut grant, key, value)?,
            }
            let name = NAMED.iter().find(|(number, _)| *number == key);
            if let Some((name, value)) = name.zip(as_text(value)) {
                grant.claims.push((name.1.into(), value.into()));
            }
        }
        token.grant = Arc::new(grant);
        if let Some(renewal) = label(map, number::RENEWAL)? {
            token.renewal = Renewal::read(&renewal.clone(), claims, seal)?;
        }
        Ok(token)
    }

    fn take(&mut self, grant: &mut Grant, key: i128, value: &Value) -> Result<(), Denied> {
        match key {
            number::ISSUER => self.issuer = Some(text(value)?.to_owned()),
            number::SUBJECT => grant.subject = Some(text(value)?.into()),
            number::AUDIENCE => {
                self.audiences = match value {
                    Value::Array(all) => texts(all)?,
                    one => vec![text(one)?.to_owned()],
                }
            }
            number::EXPIRES => self.times.expires_s = Some(date(value)?),
            number::NOT_BEFORE => self.times.not_before_s = Some(date(value)?),
            number::ISSUED => drop(date(value)?),
            number::ID => {
                let Value::Bytes(id) = value else { return Err(Denied::Malformed) };
                grant.id = Some(to_hex(id).into());
            }
            number::CHANCE => self.uses.chance = Some(Chance::read(value)?),
            number::VERSION if integer(value)? == 1 => {}
            number::NETWORKS => self.networks = Some(networks(value)?),
            number::URI => self.uri = uri(value)?,
            number::METHODS => match value {
                Value::Array(all) => self.methods = Some(texts(all)?),
                _ => return Err(Denied::Malformed),
            },
            number::FIELDS => self.fields = fields(value)?,
            number::PROTOCOLS => match value {
                Value::Array(all) => {
                    self.protocols = Some(all.iter().map(bytes).collect::<Result<_, _>>()?);
                }
                _ => return Err(Denied::Malformed),
            },
            number::COUNTRIES => match value {
                Value::Array(all) => self.countries = Some(texts(all)?),
                _ => return Err(Denied::Malformed),
            },
            number::COORDINATES => self.circles = Some(Circle::all(value)?),
            number::IF_REFUSED | number::IF_REFUSED_DATA | number::RENEWAL => {}
            _ => return Err(Denied::Claim),
        }
        Ok(())
    }

    /// Whether a request is what the token is for. `parameter` has the token itself in the query.
    pub(super) fn check(
        &self,
        question: &Question<'_>,
        parameter: Option<&str>,
    ) -> Result<(), Denied> {
        if let Some(methods) = &self.methods
            && !methods.iter().any(|method| method == question.method)
        {
            return Err(Denied::Method);
        }
        if let Some(networks) = &self.networks {
            let client = question.client.ok_or(Denied::Client)?;
            let asn = || question.places.and_then(|places| places.asn(client));
            let has = |network: &Network| match network {
                Network::Prefix(address, length) => contains((*address, *length), client),
                Network::System(number) => asn() == Some(*number),
            };
            if !networks.iter().any(has) {
                return Err(Denied::Client);
            }
        }
        if let Some(countries) = &self.countries {
            let (client, places) = question.client.zip(question.places).ok_or(Denied::Client)?;
            if !countries.iter().any(|code| places.is_in(client, code)) {
                return Err(Denied::Client);
            }
        }
        if let Some(circles) = &self.circles {
            let (client, places) = question.client.zip(question.places).ok_or(Denied::Client)?;
            let at = places.coordinates(client).ok_or(Denied::Client)?;
            if !circles.iter().any(|circle| circle.has(at)) {
                return Err(Denied::Client);
            }
        }
        if let Some(protocols) = &self.protocols
            && !question.alpn.is_some_and(|alpn| protocols.iter().any(|one| one == alpn))
        {
            return Err(Denied::Protocol);
        }
        if !self.uri.is_empty() {
            question.decoded_path()?;
            let is_met = |(component, matches): &(Component, Matches)| {
                matches.is_met(component.of(question, parameter).as_bytes())
            };
            if !self.uri.iter().all(is_met) {
                return Err(Denied::Url);
            }
        }
        for (name, matches) in &self.fields {
            let value = question.fields.and_then(|fields| fields.joined(name));
            if !value.is_some_and(|value| matches.is_met(&value)) {
                return Err(Denied::Fields);
            }
        }
        Ok(())
    }
}

impl Component {
    fn from_number(number: i128) -> Option<Self> {
        Some(match number {
            0 => Self::Scheme,
            1 => Self::Host,
            2 => Self::Port,
            3 => Self::Path,
            4 => Self::Query,
            5 => Self::ParentPath,
            6 => Self::FileName,
            7 => Self::Stem,
            8 => Self::Extension,
            _ => return None,
        })
    }

    /// The part of a request's URI; the query without the token.
    fn of<'a>(self, question: &Question<'a>, parameter: Option<&str>) -> Cow<'a, str> {
        let (host, port) = target::split_authority(question.authority);
        let path = question.path();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (stem, extension) = match name.find('.') {
            Some(at) => name.split_at(at),
            None => (name, ""),
        };
        match self {
            Self::Scheme => question.scheme.into(),
            Self::Host => host.to_ascii_lowercase().into(),
            Self::Port => {
                let usual = if question.scheme == "https" { 443 } else { 80 };
                port.unwrap_or(usual).to_string().into()
            }
            Self::Path => path.into(),
            Self::Query => {
                let is_own =
                    |pair: &&str| parameter.is_none_or(|name| pair.split('=').next() != Some(name));
                question.query().split('&').filter(is_own).collect::<Vec<_>>().join("&").into()
            }
            Self::ParentPath => parent.into(),
            Self::FileName => name.into(),
            Self::Stem => stem.into(),
            Self::Extension => extension.into(),
        }
    }
}

/// A claim as text, bytes in hexadecimal, where it has no parts but those of a list.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Bytes(bytes) => Some(to_hex(bytes)),
        Value::Integer(number) => Some(i128::from(*number).to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Tag(_, inner) => as_text(inner),
        Value::Array(all) => {
            let all: Option<Vec<_>> = all.iter().map(as_text).collect();
            Some(all?.join(","))
        }
        _ => None,
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(value: &Value) -> Result<&str, Denied> {
    value.as_text().ok_or(Denied::Malformed)
}

fn texts(values: &[Value]) -> Result<Vec<String>, Denied> {
    if values.len() > ENTRIES_MAX {
        return Err(Denied::Malformed);
    }
    values.iter().map(|value| text(value).map(str::to_owned)).collect()
}

fn bytes(value: &Value) -> Result<Vec<u8>, Denied> {
    match value {
        Value::Bytes(bytes) => Ok(bytes.clone()),
        value => text(value).map(|text| text.as_bytes().to_vec()),
    }
}

fn integer(value: &Value) -> Result<i128, Denied> {
    value.as_integer().map(Into::into).ok_or(Denied::Malformed)
}

/// A number of any kind, which is one.
pub(super) fn number_of(value: &Value) -> Result<f64, Denied> {
    match value {
        Value::Integer(number) => Ok(i128::from(*number) as f64),
        Value::Float(number) if number.is_finite() => Ok(*number),
        _ => Err(Denied::Malformed),
    }
}

/// A time: a number, which may have the tag for times (RFC 8392 §2).
fn date(value: &Value) -> Result<f64, Denied> {
    match value {
        Value::Integer(number) => time(i128::from(*number) as f64),
        Value::Float(number) => time(*number),
        Value::Tag(1, inner) => match &**inner {
            Value::Tag(..) => Err(Denied::Malformed),
            inner => date(inner),
        },
        _ => Err(Denied::Malformed),
    }
}

fn uri(value: &Value) -> Result<Vec<(Component, Matches)>, Denied> {
    let Value::Map(map) = value else { return Err(Denied::Malformed) };
    let mut all = Vec::with_capacity(map.len().min(ENTRIES_MAX));
    for (key, value) in map {
        let key = integer(key)?;
        label(map, key)?;
        all.push((Component::from_number(key).ok_or(Denied::Claim)?, Matches::read(value)?));
    }
    Ok(all)
}

fn fields(value: &Value) -> Result<Vec<(String, Matches)>, Denied> {
    let Value::Map(map) = value else { return Err(Denied::Malformed) };
    if map.len() > ENTRIES_MAX {
        return Err(Denied::Malformed);
    }
    let read = |(name, value): &(Value, Value)| Ok((text(name)?.to_owned(), Matches::read(value)?));
    map.iter().map(read).collect()
}

/// Networks by RFC 9164: tag 52 for IPv4 and 54 for IPv6, of an address or of a length with the bytes
/// of a prefix; and numbers of autonomous systems.
fn networks(value: &Value) -> Result<Vec<Network>, Denied> {
    let Value::Array(all) = value else { return Err(Denied::Malformed) };
    if all.len() > ENTRIES_MAX {
        return Err(Denied::Malformed);
    }
    let mut networks = Vec::with_capacity(all.len());
    for one in all {
        if let Value::Integer(_) = one {
            let number = u32::try_from(integer(one)?).map_err(|_| Denied::Malformed)?;
            networks.push(Network::System(number));
            continue;
        }
        let Value::Tag(tag @ (52 | 54), inner) = one else { return Err(Denied::Claim) };
        let width = if *tag == 52 { 4 } else { 16 };
        let (bytes, length) = match &**inner {
            Value::Bytes(bytes) if bytes.len() == width => (bytes, width as i128 * 8),
            Value::Array(pair) => match pair.as_slice() {
                [length, Value::Bytes(bytes)] if bytes.len() <= width => (bytes, integer(length)?),
                _ => return Err(Denied::Malformed),
            },
            _ => return Err(Denied::Malformed),
        };
        let length = u8::try_from(length).ok().filter(|length| usize::from(*length) <= width * 8);
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        let address = match tag {
            52 => IpAddr::V4(Ipv4Addr::new(padded[0], padded[1], padded[2], padded[3])),
            _ => IpAddr::V6(Ipv6Addr::from(padded)),
        };
        networks.push(Network::Prefix(address, length.ok_or(Denied::Malformed)?));
    }
    Ok(networks)
}
