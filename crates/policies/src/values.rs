//! What a request has for the names in braces of a rule's value.

use freshet_config::template::{Piece, Template, Value};
use freshet_http::message::{Method, Scheme};
use freshet_http::reason::Reason;
use freshet_http::target;
use freshet_media::cmcd;
use freshet_net::tls::client_auth::ClientCertificate;
use freshet_site::policy::ClientTask;
use std::fmt::Write as _;

/// Longest value a rule makes; what would be longer is not there.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// What a value is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Moment {
    /// A request to an origin, whose response is for this client only or for all.
    Fetch {
        /// Whether it is for this one.
        is_for_one: bool,
    },
    /// A response to a client, and why it is what it is.
    Response(Reason),
}

/// The value, where the request has something for one name of it at least, nothing in it could end a
/// field, and whoever gets it may know it. `target` is as the client sent it, or as an origin is asked by it
/// whose response is for all.
pub(super) fn of(
    template: &Template,
    task: &ClientTask,
    target: &str,
    moment: Moment,
) -> Option<String> {
    if let Some(plain) = template.plain() {
        return Some(plain.to_owned());
    }
    if moment == (Moment::Fetch { is_for_one: false })
        && template.values().any(Value::is_of_one_client)
    {
        return None;
    }
    let (mut text, mut has_some) = (String::new(), false);
    for piece in template.pieces() {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Value(value) => {
                let before = text.len();
                append(*value, (task, target), moment, &mut text);
                has_some |= text.len() > before;
            }
        }
    }
    // Names in tokens and certificates, and targets, are others' texts.
    let is_value = text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
    let text = text.trim();
    (has_some && is_value && !text.is_empty() && text.len() <= VALUE_BYTES_MAX)
        .then(|| text.to_owned())
}

fn append(value: Value, (task, target): (&ClientTask, &str), moment: Moment, out: &mut String) {
    let reason = match moment {
        Moment::Response(reason) => Some(reason),
        Moment::Fetch { .. } => None,
    };
    let geo = &task.site.node().geo;
    let address = task.client.address.map(|address| address.ip().to_canonical());
    let identity = task.identity.as_deref();
    let split = || target.split_once('?').unwrap_or((target, ""));
    let shown = |part: fn(&ClientCertificate) -> &str| {
        task.client.certificate_for(task.site.client_auth.as_ref()).map_or("", part)
    };
    match value {
        Value::Client => display(address, out),
        Value::Host => out.push_str(target::split_authority(&task.request.authority).0),
        Value::Scheme => out.push_str(match task.request.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }),
        // What is for all is asked for by GET, whoever was first.
        Value::Method if moment == (Moment::Fetch { is_for_one: false }) => {
            out.push_str(Method::Get.as_str());
        }
        Value::Method => out.push_str(task.request.method.as_str()),
        Value::Path => out.push_str(split().0),
        Value::Query => out.push_str(split().1),
        Value::Id => display(Some(task.id), out),
        Value::Site => out.push_str(task.site.name.as_str()),
        Value::User => out.push_str(identity.map_or("", |identity| identity.user())),
        Value::TokenId => out.push_str(identity.map_or("", |identity| identity.token_id())),
        Value::Country => display(address.and_then(|address| geo.country(address)), out),
        Value::Continent => display(address.and_then(|address| geo.continent(address)), out),
        Value::City => display(address.and_then(|address| geo.city(address)), out),
        Value::Asn => display(address.and_then(|address| geo.asn(address)), out),
        Value::ClientName => out.push_str(shown(ClientCertificate::name)),
        Value::ClientSubject => out.push_str(shown(|one| &one.subject)),
        Value::ClientSerial => out.push_str(shown(|one| &one.serial)),
        Value::ClientFingerprint => out.push_str(shown(|one| &one.fingerprint)),
        Value::Cmcd(key) => {
            cmcd::of(target, &task.request.fields, |said| display(said.value(key), out));
        }
        Value::Hit => {
            out.push_str(if reason.is_some_and(Reason::is_hit) { "hit" } else { "miss" });
        }
        Value::Reason => out.push_str(reason.map_or("", Reason::code)),
    }
}

fn display(value: Option<impl std::fmt::Display>, out: &mut String) {
    if let Some(value) = value {
        let _ = write!(out, "{value}");
    }
}
