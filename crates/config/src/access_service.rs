//! `service` of `[[access]]`: somebody who is asked whether a request may go on.

use super::document::Row;
use super::mistake::Mistake;
use super::values::optional;
use freshet_origin::OriginSettings;
use std::time::Duration;

/// A service that is asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessService {
    /// Its URL as written.
    pub url: String,
    /// Scheme, host and port of that.
    pub origin: String,
    /// Its path, with the query.
    pub target: String,
    /// Fields of its answer that requests get.
    pub fields: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// How long its yes holds; not at all where zero.
    pub remember: Duration,
    /// What a yes is remembered by.
    pub by: Vec<Trait>,
}

/// What requests have in common that one yes is good for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Trait {
    /// `{client}`: the client's address.
    Client,
    /// `{target}`: path and query.
    Target,
    /// `{path}`: the path.
    Path,
    /// The value of this field.
    Field(String),
}

impl Trait {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "{client}" => Ok(Self::Client),
            "{target}" => Ok(Self::Target),
            "{path}" => Ok(Self::Path),
            name if is_name(name) => Ok(Self::Field(name.to_owned())),
            other => Err(format!(
                "access.service_by has names of fields, `{{client}}`, `{{target}}` and `{{path}}`, not \
                 `{other}`"
            )),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_sign(byte))
}

/// Fields that say how a message is framed or whom it is for: an answer has none for a request.
const NOT_TAKEN: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "range",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The service of a row, where it has one; what is wrong is listed.
pub(super) fn service(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<AccessService> {
    let value = |key: &str| row.value(&format!("access[].{key}"));
    let mut refuse = |key: &str, message: String| {
        wrong.push(Mistake::error(row.at(&format!("access[].{key}")), message));
    };
    let url = optional(value("service").text())?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (origin, target) = url.split_at(match rest.find('/') {
        Some(at) => url.len() - rest.len() + at,
        None => url.len(),
    });
    if rest.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        let message = format!("access.service is as `http://127.0.0.1:9000/check`, not `{url}`");
        refuse("service", message);
        return None;
    }
    if let Err(error) = origin.parse::<OriginSettings>() {
        refuse("service", format!("access.service: {error}"));
        return None;
    }
    let fields = value("service_fields").list();
    let is_taken =
        |name: &str| is_name(name) && !NOT_TAKEN.contains(&name.to_ascii_lowercase().as_str());
    if let Some(name) = fields.iter().find(|name| !is_taken(name)) {
        let message = format!("access.service_fields: `{name}` is no field a request can be given");
        refuse("service_fields", message);
    }
    let mut by = Vec::new();
    for text in value("service_by").list() {
        match Trait::parse(&text) {
            Ok(one) => by.push(one),
            Err(message) => refuse("service_by", message),
        }
    }
    let timeout = value("service_timeout").span();
    if timeout.is_zero() {
        refuse("service_timeout", "access.service_timeout is more than nothing, as `2s`".into());
    }
    Some(AccessService {
        origin: origin.to_owned(),
        target: if target.is_empty() { "/" } else { target }.to_owned(),
        fields,
        timeout,
        remember: value("service_remember").span(),
        by,
        url,
    })
}
