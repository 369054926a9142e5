//! A request over HTTP, and the response to it.

use super::door::PlaceOf;
use super::{METRICS, Shared, console, metrics};
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use freshet_base::hexadecimal;
use freshet_documents::problem::Problem;
use freshet_platform::limits::BODY_BYTES_MAX;
use freshet_platform::{Answer, Call, GATEWAY_CHANGES};
use std::net::IpAddr;
use std::sync::Arc;

/// What a gateway says it was asked for.
const FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// What it says of its client's certificate, as Envoy does.
const CLIENT_CERTIFICATE: HeaderName = HeaderName::from_static("x-forwarded-client-cert");

/// Answers a request.
pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(PlaceOf { place, from }): ConnectInfo<PlaceOf>,
    request: Request,
) -> Response {
    let begun = std::time::Instant::now();
    let (parts, body) = request.into_parts();
    let is_of_one_host = is_of_one_host(parts.version, &parts.headers);
    if is_of_one_host && let Some(page) = console::page(parts.method.as_str(), parts.uri.path()) {
        return page;
    }
    let field = |name: HeaderName| text(&parts.headers, &name);
    let if_match = condition(&parts.headers, &header::IF_MATCH);
    let if_none_match = condition(&parts.headers, &header::IF_NONE_MATCH);
    let call = Call {
        method: parts.method.as_str(),
        target: parts.uri.path_and_query().map_or("/", |target| target.as_str()),
        authorization: field(header::AUTHORIZATION),
        accept: field(header::ACCEPT),
        content_type: field(header::CONTENT_TYPE),
        if_match: if_match.as_deref(),
        if_none_match: if_none_match.as_deref(),
        forwarded_method: field(FORWARDED_METHOD),
        forwarded_uri: field(FORWARDED_URI),
        from,
        certificate: certificate(&shared, from, &parts.headers),
        body: &[],
    };
    let archive = shared.read().archive_of(call.method, call.target);
    let (answer, content) = match archive {
        _ if !is_of_one_host => (
            Problem::bad_request("`Host` must be there once, with a host and no user").into(),
            None,
        ),
        _ if is_coded(&parts.headers) => (coded(), None),
        Some(id) => {
            let place = place.as_deref();
            let done = shared.transfer(&call, &id, body, place).await;
            done.unwrap_or_else(|problem| (problem.into(), None))
        }
        None => {
            let read = to_bytes(body, BODY_BYTES_MAX).await;
            if let Some(place) = &place {
                place.begin_work();
            }
            let answer = match read {
                Err(_) => {
                    let most = format!("{BODY_BYTES_MAX} bytes of body are the most");
                    Problem::new(413, most).into()
                }
                Ok(_) if call.target.split('?').next() == Some(GATEWAY_CHANGES) => {
                    shared.changed(call.if_none_match, text(&parts.headers, &PREFER)).await
                }
                Ok(body) => {
                    let call = Call { body: &body, ..call };
                    shared.decide(&call).await.unwrap_or_else(Answer::from)
                }
            };
            let is_metrics = answer.status == 200 && call.target == METRICS;
            let content = is_metrics.then(|| {
                let (notified, waiting) = {
                    let queue = shared.queue();
                    (queue.notified, queue.waiting())
                };
                let standing = shared.read().standing();
                let text = shared.metrics.text(&standing, notified, waiting);
                (Body::from(text), metrics::MEDIA_TYPE)
            });
            (answer, content)
        }
    };
    let interface = shared.read().interface(call.target).map(str::to_owned);
    shared.metrics.count(interface.as_deref(), call.method, answer.status, begun.elapsed());
    if let Some(place) = &place {
        place.end_work();
    }
    let mut response = response(&answer);
    if let Some((content, kind)) = content {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if parts.method != Method::HEAD {
            *response.body_mut() = content;
        }
    }
    response
}

/// The SHA-256 of the certificate that a client has shown, where one of the gateways says so.
fn certificate(shared: &Shared, from: Option<IpAddr>, headers: &HeaderMap) -> Option<[u8; 32]> {
    let from = from?;
    let said = text(headers, &CLIENT_CERTIFICATE).filter(|_| shared.gateways.contains(&from))?;
    hexadecimal::decode(said.split(';').find_map(|part| part.trim().strip_prefix("Hash="))?)
}

/// A field that is there once; of several, none counts.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// A field that is a list and never left out, such as the entity tags of a condition: what was asked for under it would
/// be done without it. Its lines are one list (RFC 9110 §5.3), and what is no text is the tag of no document.
fn condition(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines = headers.get_all(name).iter();
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Whether a request has one `Host` that may be one (RFC 9112 §3.2). HTTP/1.0 may do without, and HTTP/2 has another word
/// for it.
fn is_of_one_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Empty where what is asked for has none.
        (Some(host), None) => host.to_str().is_ok_and(|host| {
            host.is_empty() || !host.contains('@') && host.parse::<Authority>().is_ok()
        }),
        (None, _) => version != Version::HTTP_11,
        (Some(_), Some(_)) => false,
    }
}

/// Whether a body is in a content coding (RFC 9110 §8.4), of which none is read here.
fn is_coded(headers: &HeaderMap) -> bool {
    condition(headers, &header::CONTENT_ENCODING).is_some_and(|codings| {
        let mut codings = codings.split(',').map(str::trim).filter(|coding| !coding.is_empty());
        codings.any(|coding| !coding.eq_ignore_ascii_case("identity"))
    })
}

fn coded() -> Answer {
    let problem = Problem::new(415, "the body has a `Content-Encoding`; this takes none");
    Answer::from(problem).with("Accept-Encoding", "identity")
}

/// The response to a request, also to a HEAD, of which the server sends the fields only.
fn response(answer: &Answer) -> Response {
    let body = answer.body.as_ref().map(ToString::to_string);
    let has_body = body.is_some();
    let mut response = Response::new(body.map_or_else(Body::empty, Body::from));
    let status = StatusCode::from_u16(answer.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if has_body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.media_type()));
    }
    for (name, value) in &answer.fields {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.insert(name, value);
        }
    }
    // Documents have what clients sent: never to be taken for a page, and nobody else's to keep.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
    response
}
