//! Who may ask at all: what every request has to pass before its handler sees it.
//!
//! A page of another site in an operator's browser can send requests here. It cannot read answers,
//! unless its name resolves to our address (DNS rebinding); then the request names that site in
//! `Host`. And it cannot send a change that a person did not mean, if those of other sites are
//! refused (CSRF). The token guards changes besides: no browser adds it by itself.

use crate::answer::beside;
use crate::connection::PlaceOf;
use crate::context::Context;
use crate::limits::{BODY_BYTES_MAX, REFUSAL_EVERY};
use crate::problem::Problem;
use crate::scope::Scope;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// When refusals were last logged.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    hosts: LogLimit,
    sites: LogLimit,
    tokens: LogLimit,
}

/// Checks where a request is from and reads its body, so that the handler does not wait for its
/// client.
pub(crate) async fn guard(
    State(context): State<Arc<Context>>,
    ConnectInfo(PlaceOf(place)): ConnectInfo<PlaceOf>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(problem) = check_host(&context, &parts.uri, &parts.headers)
        .and_then(|()| check_site(&context, &parts.method, &parts.headers))
    {
        return problem.into_response();
    }
    let body = match read(&parts.headers, body).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    if let Some(place) = &place {
        place.begin_work();
    }
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(place) = &place {
        place.end_work();
    }
    // Lines of the log have what clients sent: never to be taken for a page.
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Checks the token, and says to what comes after it what it is good for.
pub(crate) async fn check_token(
    State(context): State<Arc<Context>>,
    mut request: Request,
    next: Next,
) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION);
    let Some(sent) = sent else {
        return Problem::unauthorized("this needs the admin token").into_response();
    };
    let token = sent
        .as_bytes()
        .split_at_checked("Bearer ".len())
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
        .map(|(_, token)| token.to_vec());
    let scope = match token {
        Some(token) if context.token.is(&token) => Some(Scope::Node),
        Some(token) => {
            let (context, settings) = (Arc::clone(&context), context.node.snapshot().settings);
            match beside(move || context.site_tokens.scope(&settings, &token)).await {
                Ok(scope) => scope,
                Err(problem) => return problem.into_response(),
            }
        }
        None => None,
    };
    match scope {
        Some(scope) => {
            request.extensions_mut().insert(scope);
            next.run(request).await
        }
        None => {
            note(&context.refusals.tokens, "a request with a wrong admin token was refused");
            Problem::unauthorized("this is not the admin token of this node").into_response()
        }
    }
}

/// Lets nobody on but who has the token of the whole node.
pub(crate) async fn check_node(scope: Scope, request: Request, next: Next) -> Response {
    match scope.check_node() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Reads a body of at most [`BODY_BYTES_MAX`].
async fn read(headers: &HeaderMap, body: Body) -> Result<Body, Problem> {
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {BODY_BYTES_MAX} bytes"),
            "send a short JSON object",
        )
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared
        .and_then(|text| text.parse().ok())
        .is_some_and(|bytes: u64| bytes > BODY_BYTES_MAX as u64)
    {
        return Err(too_large());
    }
    to_bytes(body, BODY_BYTES_MAX).await.map(Body::from).map_err(|_| too_large())
}

/// A request over TCP names this machine, if it names any: as loopback, by an address, by its host
/// name or as `admin.hosts` says. Addresses are safe, because a page of another site has a name.
fn check_host(context: &Context, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if context.is_local {
        return Ok(());
    }
    let snapshot = context.node.snapshot();
    let names = &snapshot.settings.admin_hosts;
    let fields = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let target = uri.authority().map(|authority| authority.as_str().as_bytes());
    // HTTP/1.0 needs no Host, and browsers speak HTTP/1.1.
    for authority in fields.chain(target) {
        if !is_ours(&String::from_utf8_lossy(authority), names, &context.host_name) {
            note(&context.refusals.hosts, "a request for another host was refused");
            return Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "the Host of this request is not one of this node's",
                "use its IP address or localhost, or add the name to admin.hosts",
            ));
        }
    }
    Ok(())
}

/// Whether `authority`, a host with or without a port, is this machine or one of `names`.
fn is_ours(authority: &str, names: &[String], host_name: &str) -> bool {
    let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((address, port)) = bracketed {
        return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
    }
    let host = authority.split_once(':').map_or(authority, |(host, _)| host);
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_named = |name: &str| !name.is_empty() && host == name.to_ascii_lowercase();
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok()
        || is_named(host_name)
        || names.iter().any(|name| is_named(name))
}

/// A change does not come from a page of another site. Programs other than browsers say nothing of
/// where a request is from (Fetch §3.1, Fetch Metadata §2).
fn check_site(context: &Context, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let is_same = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        let authority =
            origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some() && authority == host
    };
    let is_from_here = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let is_foreign = !headers.get_all(header::ORIGIN).iter().all(is_same)
        || !headers.get_all("sec-fetch-site").iter().all(is_from_here);
    if is_foreign {
        note(&context.refusals.sites, "a change asked for by a page of another site was refused");
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "a page of another site asks for this",
            "changes are made by freshet, by curl, or by pages of this address",
        ));
    }
    Ok(())
}

fn note(limit: &LogLimit, what: &str) {
    if let Some(held_back) = limit.admit(UnixMillis::now(), REFUSAL_EVERY) {
        tracing::warn!(held_back, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn loopback_addresses_and_given_names_are_ours() {
        let ours = |authority: &str| is_ours(authority, &["cdn.example".into()], "edge-1");
        for authority in [
            "localhost",
            "LOCALHOST:6080",
            "a.localhost:1",
            "127.0.0.1:6080",
            "192.0.2.1",
            "[::1]:6080",
            "[2001:db8::1]",
            "edge-1:6080",
            "cdn.example",
            "CDN.example.:80",
        ] {
            assert!(ours(authority), "{authority}");
        }
        for authority in [
            "",
            ":6080",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1].evil",
            "[evil.example]",
            "cdn.example.evil",
            "user@localhost",
            "localhost@evil.example",
            ".",
            "edge",
            "2130706433.example",
            "0x7f.1.evil:80",
        ] {
            assert!(!ours(authority), "{authority}");
        }
        assert!(!is_ours("", &[String::new()], ""));
    }
}
