//! Redirects.

use super::door::{Client, ClientOf};
use super::{Door, Entrance, Shared};
use crate::limits::CLIENTS;
use crate::redirect::{self, Reply, Request, host_of};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use freshet_base::clock::UnixMillis;
use freshet_net::places::Places;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Answers at all entrances until it is stopped.
pub(super) async fn serve(
    shared: Arc<Shared>,
    entrances: Vec<Entrance>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Places::new(CLIENTS);
    let mut serving = JoinSet::new();
    for entrance in entrances {
        let door = Door::open(entrance, Arc::clone(&places));
        let service = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let service = service.into_make_service_with_connect_info::<ClientOf>();
        serving.spawn(async move { axum::serve(door, service).await });
    }
    let _ = stopped.changed().await;
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(ClientOf(client)): ConnectInfo<ClientOf>,
    request: axum::extract::Request,
) -> Response {
    let Some(client) = client else { return Response::new(Body::empty()) };
    client.place.begin_work();
    if let Some(status) = refused(&request) {
        client.place.end_work();
        return response(&Reply { status: status.as_u16(), ..Reply::default() });
    }
    if let Some(response) = preflight(&shared, &request) {
        client.place.end_work();
        return response;
    }
    let headers = request.headers();
    let is_reading = [Method::GET, Method::HEAD].contains(request.method());
    let reply = redirect::answer(
        &shared.routing.load(),
        &Request {
            is_reading,
            is_secure: client.is_secure,
            host: host(&request),
            target: request.uri().path_and_query().map_or("/", |target| target.as_str()),
            client: client_of(&client, headers),
            cookie: text(headers, &header::COOKIE).unwrap_or_default(),
        },
        UnixMillis::now(),
    );
    client.place.end_work();
    response(&reply)
}

/// The status of what is about no resource that another place could have.
fn refused(request: &axum::extract::Request) -> Option<StatusCode> {
    if request.method() == Method::CONNECT {
        return Some(StatusCode::NOT_IMPLEMENTED);
    }
    // RFC 9112 §3.2: of which host it is has to be said once, also beside a target that says it.
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let is_lacking = hosts == 0 && request.version() == Version::HTTP_11;
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    // `*`, which OPTIONS may ask of a server as a whole.
    let is_wrong = is_lacking || hosts > 1 || !target.starts_with('/');
    is_wrong.then_some(StatusCode::BAD_REQUEST)
}

/// The host that is asked for, perhaps with a port.
fn host(request: &axum::extract::Request) -> &str {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    authority.or_else(|| text(request.headers(), &header::HOST)).unwrap_or_default()
}

/// What a browser is told that asks whether a page of another site may send such a request: browsers do
/// not follow a redirect there (Fetch §4.8, CORS-preflight fetch). The node that the request is sent
/// to is asked again, and decides for itself.
fn preflight(shared: &Shared, request: &axum::extract::Request) -> Option<Response> {
    let asked = request.headers();
    let method = asked.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
    let is_preflight = request.method() == Method::OPTIONS && asked.contains_key(header::ORIGIN);
    let is_known = || shared.routing.load().table.site_of(&host_of(host(request))).is_some();
    if !is_preflight || !is_known() {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let fields = response.headers_mut();
    fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    fields.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        fields.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    fields.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    Some(response)
}

fn response(reply: &Reply) -> Response {
    let body = reply.body.clone().map_or_else(Body::empty, Body::from);
    let mut response = Response::new(body);
    let status = StatusCode::from_u16(reply.status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    // The next client, or the same one later, may be sent elsewhere.
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Players of other sites' pages may follow; there is nothing here that is not for everybody.
    fields.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if reply.body.is_some() {
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, value) in [(header::LOCATION, &reply.location), (header::SET_COOKIE, &reply.cookie)]
    {
        if let Some(value) = value.as_ref().and_then(|text| HeaderValue::from_str(text).ok()) {
            fields.insert(name, value);
        }
    }
    if reply.status == 503 {
        fields.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

/// A field that is there once; of several, none counts.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Who asks: the peer, or who the last proxy that is believed speaks for. Read from the end: what is
/// further in front may be the client's own words.
fn client_of(client: &Client, headers: &HeaderMap) -> IpAddr {
    let mut nearest = client.peer.ip().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    if !client.trusted.contains(client.peer) {
        return nearest;
    }
    let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
    let named: Vec<_> = lines.flat_map(|line| line.split(',')).collect();
    for one in named.iter().rev() {
        let Ok(address) = one.trim().parse() else { break };
        nearest = address;
        if !client.trusted.networks.iter().any(|network| network.contains(address)) {
            break;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_no_resource_is_sent_nowhere() {
        let status = |method: &str, target: &str, hosts: &[&str]| {
            let mut request = axum::http::Request::builder().method(method).uri(target);
            for host in hosts {
                request = request.header("host", *host);
            }
            refused(&request.body(Body::empty()).unwrap()).map(|status| status.as_u16())
        };
        assert_eq!(status("GET", "/a", &["a.test"]), None);
        assert_eq!(status("OPTIONS", "/a", &["a.test"]), None);
        assert_eq!(status("GET", "http://a.test", &["a.test"]), None);
        assert_eq!(status("OPTIONS", "*", &["a.test"]), Some(400));
        assert_eq!(status("CONNECT", "a.test:443", &["a.test:443"]), Some(501));
        assert_eq!(status("GET", "/a", &["a.test", "a.test"]), Some(400));
        assert_eq!(status("GET", "/a", &[]), Some(400));
    }
}
