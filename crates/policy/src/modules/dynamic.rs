//! `dynamic`: backends at hosts that are known when a request comes, as the module of this name for
//! Varnish has them. Names are looked up by who makes the backends; no state waits for it.

use super::{Arguments, Function, Module, NOTHING, fault, function_in};
use crate::acl::Acl;
use crate::policy::Object;
use crate::program::{BackendRef, Value};
use crate::runtime::{Result, Run};
use crate::types::{State, States};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    name: "dynamic",
    classes: &["dynamic.director"],
    functions: FUNCTIONS,
    is_test: false,
};

const FUNCTIONS: &[Function] = &[
    function_in(
        States::of(&[State::Init]),
        "VOID new director(STRING port=\"http\", STRING host_header=\"\", ENUM {DEFAULT, DIRECTOR, \
         HOST} share=DEFAULT, [ACL whitelist], DURATION ttl=3600, [DURATION connect_timeout], \
         [DURATION first_byte_timeout], [DURATION between_bytes_timeout], INT \
         max_connections=0, INT proxy_header=0)",
        new,
    ),
    function_in(
        States::CLIENT.and(States::BACKEND),
        "BACKEND director.backend(STRING host=\"\", STRING port=\"\")",
        backend,
    ),
];

/// Arguments of the module for Varnish that mean nothing here, and what is there instead.
pub(super) fn instead_of(argument: &str) -> Option<&'static str> {
    Some(match argument {
        "probe" => "leave it out: backends that are made are judged by how requests fare",
        "first_lookup_timeout" => "leave it out: a look-up is a part of `connect_timeout`",
        "domain_usage_timeout" => {
            "leave it out: of 1,000 backends that which was not used for longest makes room"
        }
        "retry_after" | "keep" => {
            "leave it out: addresses that are known stay while a name server is away"
        }
        "resolver" | "ttl_from" => "leave it out: names are looked up by the system",
        "via" | "authority" => "leave it out: nothing is asked through another backend",
        "wait_timeout" | "wait_limit" => "leave it out: what is over `max_connections` fails",
        _ => return None,
    })
}

/// Bytes of a host's name (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// How a director makes its backends.
#[derive(Debug, Default)]
pub struct Making {
    /// The director's name.
    pub name: Box<str>,
    /// The port where none is named.
    pub port: u16,
    /// The host that origins are told where a request names none; where it is `None` that of the backend.
    pub host_header: Option<Box<str>>,
    /// Addresses that may be asked; all where there is none.
    pub allowed: Option<Acl>,
    /// Seconds; as for other backends where not set.
    pub connect_timeout: Option<f64>,
    /// As `connect_timeout`.
    pub first_byte_timeout: Option<f64>,
    /// As `connect_timeout`.
    pub between_bytes_timeout: Option<f64>,
    /// Connections of one backend; 0 for as many as there are.
    pub connections_max: u32,
    /// Version of the PROXY header that goes before a request; 0 for none.
    pub proxy_header: u8,
}

/// A backend that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// `director(host:port)`
    pub name: Arc<str>,
    /// Whether it is healthy.
    pub is_healthy: bool,
    /// Since when, in seconds since 1970.
    pub since: f64,
}

fn new(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let port = run.string(arguments.text(0));
    let Some(port) = port_of(&port) else {
        return fault(format!("dynamic.director(): `{port}` is no port"));
    };
    let host_header = run.string(arguments.text(1));
    if !host_header.bytes().all(|byte| byte.is_ascii_graphic()) {
        return fault("dynamic.director(): host_header is no host");
    }
    let host_header = (!host_header.is_empty()).then(|| Box::from(&*host_header));
    let seconds = |at| arguments.is_given(at).then(|| arguments.real(at)).filter(|it| *it >= 0.0);
    let version = match arguments.int(9) {
        version @ 0..=2 => version as u8,
        _ => return fault("dynamic.director(): proxy_header is 0, 1 or 2"),
    };
    let allowed = match arguments.at(3) {
        Value::Acl(index) => run.program.acls.get(index as usize).cloned(),
        _ => None,
    };
    let making = Making {
        name: run.program.objects.get(object as usize).map_or("", |slot| &slot.name).into(),
        port,
        host_header,
        allowed,
        connect_timeout: seconds(5),
        first_byte_timeout: seconds(6),
        between_bytes_timeout: seconds(7),
        connections_max: u32::try_from(arguments.int(8).max(0)).unwrap_or(u32::MAX),
        proxy_header: version,
    };
    run.policy.put(object, Object::Dynamic(Arc::new(making)));
    NOTHING
}

/// The backend at a host, which is the request's where none is named. None where that is no host, or is
/// not allowed.
fn backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Some(Object::Dynamic(making)) = run.policy.object(object) else {
        return super::directors::not_made(run, object);
    };
    let host = match &*run.string(arguments.text(0)) {
        "" => {
            let head = run.view.bereq.as_deref().or(run.view.req.as_deref());
            head.map(|head| without_port(&head.authority).to_owned()).unwrap_or_default()
        }
        host => host.to_owned(),
    };
    let port = match &*run.string(arguments.text(1)) {
        "" => Some(making.port),
        port => port_of(port),
    };
    let made = match (host_of(&host), port) {
        (Some(host), Some(port)) => run.host.make_backend(object, &making, &host, port),
        (None, _) => Err(format!("`{host}` is no host")),
        (_, None) => Err("no such port".to_owned()),
    };
    Ok(Value::Backend(match made {
        Ok(number) => BackendRef::Made(number),
        Err(why) => {
            let text = format!("vmod-dynamic {} {} {why}", run.policy.name(), making.name);
            run.complain(&text);
            BackendRef::None
        }
    }))
}

/// A port by its number, or by one of the names that matter here.
fn port_of(text: &str) -> Option<u16> {
    match text {
        "http" => Some(80),
        "https" => Some(443),
        _ => text.parse().ok().filter(|port| *port > 0),
    }
}

/// A request's host as it is looked up.
fn without_port(authority: &str) -> &str {
    let end = match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => at,
        _ => authority.len(),
    };
    &authority[..end]
}

/// A host in one form: an address, or a name in small letters without its last dot.
fn host_of(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bare {
        return address.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let fits = !name.is_empty() && name.len() <= HOST_BYTES_MAX && name.bytes().all(is_name);
    fits.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_form_and_nothing_else_is_one() {
        for (given, expected) in [
            ("Tv.Example.", Some("tv.example")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("[2001:DB8::1]", Some("2001:db8::1")),
            ("2001:db8:0::1", Some("2001:db8::1")),
            ("a_b-c.example", Some("a_b-c.example")),
            ("", None),
            (".", None),
            ("a b", None),
            ("tv.example/x", None),
            ("user@tv.example", None),
            ("tv.example:80", None),
            ("[tv.example]", None),
        ] {
            assert_eq!(host_of(given).as_deref(), expected, "{given}");
        }
        assert_eq!(host_of(&"a".repeat(HOST_BYTES_MAX + 1)), None);
    }

    #[test]
    fn a_requests_host_is_taken_without_its_port() {
        for (given, expected) in [
            ("tv.example:8080", "tv.example"),
            ("tv.example", "tv.example"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(given), expected);
        }
    }
}
