//! Spans as a message of OTLP in JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>):
//! numbers of 64 bits are texts, ids are hexadecimal.

use crate::span::Span;
use freshet_http::message::Scheme;
use freshet_http::target::split_authority;
use serde_json::{Value, json};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Kinds of spans.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// Methods that go by their names (RFC 9110 §9.3, RFC 5789); others are anybody's.
const METHODS: &[&str] =
    &["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
const OTHER: &str = "_OTHER";
/// Status of a span that failed.
const ERROR: u8 = 2;

/// Who sends them.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) service: String,
    pub(crate) host: String,
}

/// `ExportTraceServiceRequest`
pub(crate) fn message(of: &Resource, spans: &[Box<Span>]) -> Value {
    json!({ "resourceSpans": [{
        "resource": resource(of),
        "scopeSpans": [{
            "scope": scope(),
            "spans": spans.iter().map(|one| span(one)).collect::<Vec<_>>(),
        }],
    }] })
}

pub(crate) fn resource(of: &Resource) -> Value {
    json!({ "attributes": [
        text("service.name", &of.service),
        text("service.version", VERSION),
        text("host.name", &of.host),
    ] })
}

pub(crate) fn scope() -> Value {
    json!({ "name": "freshet", "version": VERSION })
}

fn span(span: &Span) -> Value {
    let mut attributes = Vec::with_capacity(16);
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            attributes.push(text(key, value));
        }
    };
    let is_known = METHODS.contains(&span.method.as_str());
    if is_known || span.method.is_empty() {
        say("http.request.method", &span.method);
    } else {
        say("http.request.method", OTHER);
        say("http.request.method_original", &span.method);
    }
    say("freshet.reason", &span.reason);
    let scheme = span.scheme.unwrap_or(Scheme::Http).as_str();
    if span.is_fetch {
        say("url.full", &format!("{scheme}://{}{}", span.host, span.target));
        say("freshet.origin", &span.origin);
    } else {
        say("url.scheme", scheme);
        say("url.path", &span.target);
        say("client.address", &span.client);
        say("user_agent.original", &span.user_agent);
        say("network.protocol.version", &span.protocol);
    }
    match &span.peer {
        Some((address, port)) => {
            say("server.address", address);
            attributes.push(number("server.port", u64::from(*port)));
        }
        None => {
            let (host, port) = split_authority(&span.host);
            say("server.address", host);
            if let Some(port) = port {
                attributes.push(number("server.port", u64::from(port)));
            }
        }
    }
    if span.status != 0 {
        attributes.push(number("http.response.status_code", u64::from(span.status)));
    }
    if let Some(bytes) = span.body_bytes {
        attributes.push(number("http.response.body.size", bytes));
    }
    if !span.cache_status.is_empty() {
        let all = json!({ "values": [{ "stringValue": span.cache_status }] });
        let key = "http.response.header.cache-status";
        attributes.push(json!({ "key": key, "value": { "arrayValue": all } }));
    }
    // A server's spans fail by what it answers, a client's also by what it is told (HTTP conventions,
    // "Status").
    let is_error =
        span.status >= 500 || span.error.is_some() || (span.is_fetch && span.status >= 400);
    if is_error {
        let kind = span.error.clone().unwrap_or_else(|| span.status.to_string());
        attributes.push(text("error.type", &kind));
    }
    let mut value = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": if is_known { span.method.as_str() } else { "HTTP" },
        "kind": if span.is_fetch { CLIENT } else { SERVER },
        "startTimeUnixNano": span.began_ns.to_string(),
        "endTimeUnixNano": span.ended_ns.to_string(),
        "attributes": attributes,
        "events": span.events.iter().map(|(name, at_ns)| {
            json!({ "timeUnixNano": at_ns.to_string(), "name": name })
        }).collect::<Vec<_>>(),
        "status": if is_error { json!({ "code": ERROR }) } else { json!({}) },
    });
    if span.context.parent != 0
        && let Some(fields) = value.as_object_mut()
    {
        fields.insert("parentSpanId".into(), format!("{:016x}", span.context.parent).into());
    }
    value
}

pub(crate) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    #[test]
    fn ids_are_hexadecimal_and_long_numbers_text() {
        let context = Context { trace: 0xabc, span: 0x12, parent: 0x11, is_sampled: true };
        let mut one = Span::of(context);
        (one.began_ns, one.ended_ns, one.status) = (1_700_000_000_000_000_000, u64::MAX, 404);
        let resource = Resource { service: "edge".into(), host: "box".into() };
        let value = message(&resource, &[Box::new(one.clone())]);
        let span = &value["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "00000000000000000000000000000abc");
        assert_eq!(
            (&span["spanId"], &span["parentSpanId"]),
            (&json!("0000000000000012"), &json!("0000000000000011"))
        );
        assert_eq!(span["endTimeUnixNano"], "18446744073709551615");
        assert_eq!((&span["kind"], &span["status"]), (&json!(2), &json!({})));
        one.is_fetch = true;
        one.context.parent = 0;
        let value = message(&resource, &[Box::new(one)]);
        let span = &value["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!((&span["kind"], &span["status"]["code"]), (&json!(3), &json!(2)));
        assert!(span.get("parentSpanId").is_none());
    }

    #[test]
    fn what_was_asked_has_its_parts() {
        let resource = Resource { service: "edge".into(), host: "box".into() };
        let mut one = Span::of(Context { trace: 0xabc, span: 0x12, parent: 0, is_sampled: true });
        one.scheme = Some(Scheme::Https);
        (one.method, one.host, one.target) =
            ("BREW".into(), "[2001:db8::1]:8443".into(), "/pot".into());
        let said = |one: &Span| {
            let value = message(&resource, &[Box::new(one.clone())]);
            value["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone()
        };
        let has = |span: &Value, one: Value| {
            assert!(span["attributes"].as_array().is_some_and(|all| all.contains(&one)), "{span}");
        };
        let span = said(&one);
        assert_eq!(span["name"], "HTTP");
        has(&span, text("http.request.method", "_OTHER"));
        has(&span, text("http.request.method_original", "BREW"));
        has(&span, text("server.address", "[2001:db8::1]"));
        has(&span, number("server.port", 8443));
        has(&span, text("url.scheme", "https"));
        one.is_fetch = true;
        has(&said(&one), text("url.full", "https://[2001:db8::1]:8443/pot"));
    }
}
