//! `service` of `[[access]]`: somebody who is asked whether a request may go on.

use super::document::Row;
use super::mistake::Mistake;
use super::values::{count, optional};
use freshet_http::fields::is_token;
use freshet_origin::OriginSettings;
use std::sync::Arc;
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
    /// Where it is asked whether something has changed.
    pub changes: Option<String>,
    /// The field in which it names origins.
    pub origin_field: Option<String>,
    /// Segments at the beginning of a path that those do not have.
    pub strip: usize,
    /// The field in which it says how many requests may be under way, and whose this one is.
    pub share_field: Option<String>,
    /// Fields by which requests are counted, and the labels they are in metrics.
    pub counted: Vec<(String, Arc<str>)>,
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
    /// `{path:2}`: so many of its first segments.
    Beginning(usize),
    /// The value of this field.
    Field(String),
}

impl Trait {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "{client}" => Ok(Self::Client),
            "{target}" => Ok(Self::Target),
            "{path}" => Ok(Self::Path),
            text if text.starts_with("{path:") => {
                let number = text.strip_prefix("{path:").and_then(|rest| rest.strip_suffix('}'));
                let segments = number.and_then(|number| number.parse().ok());
                let segments = segments.filter(|segments| (1..=SEGMENTS_MAX).contains(segments));
                segments.map(Self::Beginning).ok_or_else(|| {
                    format!(
                        "access.service_by: `{text}` is as `{{path:2}}`, of 1 to {SEGMENTS_MAX}"
                    )
                })
            }
            name if is_token(name) => Ok(Self::Field(name.to_owned())),
            other => Err(format!(
                "access.service_by has names of fields, `{{client}}`, `{{target}}` and `{{path}}`, not \
                 `{other}`"
            )),
        }
    }
}

/// Segments of a path that a yes may be remembered by.
const SEGMENTS_MAX: usize = 16;

/// Fields that requests are counted by.
const COUNTED_MAX: usize = 8;

/// Labels that such metrics have besides.
const OWN_LABELS: [&str; 4] = ["site", "access", "class", "le"];

/// The label that a field is in metrics: `Mec-Client` is `mec_client`.
fn label(name: &str) -> Option<Arc<str>> {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label =
        name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(is_sign);
    let label = name.to_ascii_lowercase().replace('-', "_");
    (is_label && !OWN_LABELS.contains(&label.as_str())).then(|| label.into())
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
        |name: &str| is_token(name) && !NOT_TAKEN.contains(&name.to_ascii_lowercase().as_str());
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
    let [origin_field, share_field] = ["service_origin", "service_share"].map(|key| {
        let field = optional(value(key).text());
        if let Some(name) = field.as_ref().filter(|name| !is_token(name)) {
            refuse(key, format!("access.{key}: `{name}` is no name of a field"));
        }
        field
    });
    let strip = count(value("service_strip").number());
    if strip > 0 && origin_field.is_none() {
        let message = "access.service_strip means nothing without `service_origin`";
        refuse("service_strip", message.into());
    }
    let mut counted: Vec<(String, Arc<str>)> = Vec::new();
    for name in value("service_counted").list() {
        match label(&name).filter(|label| !counted.iter().any(|(_, other)| other == label)) {
            Some(_) if counted.len() >= COUNTED_MAX => {
                let message = format!("access.service_counted has {COUNTED_MAX} fields at most");
                refuse("service_counted", message);
                break;
            }
            Some(label) => counted.push((name, label)),
            None => {
                let message = format!(
                    "access.service_counted: `{name}` makes no label of a metric of its own"
                );
                refuse("service_counted", message);
            }
        }
    }
    let remember = value("service_remember").span();
    let changes = optional(value("service_changes").text());
    if let Some(path) = &changes {
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("access.service_changes is a path at the service, not `{path}`");
            refuse("service_changes", message);
        } else if remember.is_zero() {
            let message = "access.service_changes means nothing without `service_remember`";
            refuse("service_changes", message.into());
        }
    }
    Some(AccessService {
        changes,
        origin_field,
        strip,
        share_field,
        counted,
        origin: origin.to_owned(),
        target: if target.is_empty() { "/" } else { target }.to_owned(),
        fields,
        timeout,
        remember,
        by,
        url,
    })
}
