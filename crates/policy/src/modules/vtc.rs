//! `vtc`: what Varnish's own tests need. Imported only where the settings allow it, since it can
//! make a worker wait.

use super::{Arguments, Function, Module, NOTHING, fault, function};
use crate::program::{BackendRef, Value};
use crate::runtime::{Result, Run};

pub(super) const MODULE: Module =
    Module { name: "vtc", classes: &[], functions: FUNCTIONS, is_test: true };

const FUNCTIONS: &[Function] = &[
    function("VOID barrier_sync(STRING addr, DURATION timeout=0)", barrier_sync),
    function("BACKEND no_backend()", no_backend),
    function("STEVEDORE no_stevedore()", no_stevedore),
    function("IP no_ip()", no_ip),
    function("VOID sleep(DURATION)", sleep),
    function("INT typesize(STRING)", typesize),
    function(
        "VOID workspace_alloc(ENUM {client, backend, session, thread} workspace, INT size)",
        workspace_alloc,
    ),
    function(
        "INT workspace_free(ENUM {client, backend, session, thread} workspace)",
        workspace_free,
    ),
    function(
        "BYTES workspace_reserve(ENUM {client, backend, session, thread} workspace, INT size)",
        workspace_reserve,
    ),
    function(
        "BLOB proxy_header(ENUM {v1, v2} version, IP client, IP server, STRING authority=\"\")",
        proxy_header,
    ),
];

fn barrier_sync(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let address = run.string(arguments.text(0)).into_owned();
    if run.host.test_barrier(&address, arguments.real(1)) {
        return NOTHING;
    }
    fault(format!("Barrier synchronization failed: {address}"))
}

fn no_backend(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Backend(BackendRef::None))
}

fn no_stevedore(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Stevedore(None))
}

fn no_ip(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Ip(None, 0))
}

fn sleep(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    run.host.test_sleep(arguments.real(0).clamp(0.0, 60.0));
    NOTHING
}

/// Bytes left in a workspace: a task has one, of its side, and there are no others.
fn free(run: &Run<'_>, workspace: &str) -> i64 {
    let is_own = match workspace {
        "client" => run.state.is_client(),
        "backend" => run.state.is_backend(),
        _ => false,
    };
    if is_own { i64::try_from(run.task.budget).unwrap_or(i64::MAX) } else { 0 }
}

/// The bytes meant by a size: of one below zero, all but so many.
fn meant(free: i64, size: i64) -> i64 {
    if size < 0 { free.saturating_add(size).max(0) } else { size }
}

fn workspace_alloc(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let free = free(run, arguments.word(0));
    let bytes = meant(free, arguments.int(1));
    if bytes > free {
        return fault("vtc.workspace_alloc");
    }
    run.spend(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    NOTHING
}

fn workspace_free(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Int(free(run, arguments.word(0))))
}

fn workspace_reserve(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let free = free(run, arguments.word(0));
    let bytes = meant(free, arguments.int(1));
    Ok(Value::Bytes(if bytes > free { 0 } else { bytes }))
}

/// Bytes of a C structure of these members; `-1` for a member nobody knows.
fn typesize(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let mut sum = 0_i64;
    for member in run.bytes(arguments.text(0)) {
        let size = match member {
            b'c' => 1,
            b's' => 2,
            b'f' | b'i' | b'u' => 4,
            b'd' | b'e' | b'j' | b'l' | b'o' | b'p' | b't' | b'z' => 8,
            _ => return Ok(Value::Int(-1)),
        };
        sum = (sum + size - 1) / size * size + size;
    }
    Ok(Value::Int(sum))
}

fn proxy_header(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let (Value::Ip(Some(client), from), Value::Ip(Some(server), to)) =
        (arguments.at(1), arguments.at(2))
    else {
        return fault("vtc.proxy_header(): an address is missing");
    };
    let mut out = Vec::new();
    match (arguments.word(0), client, server) {
        ("v1", client, server) => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let line = format!("PROXY {family} {client} {server} {from} {to}\r\n");
            out.extend_from_slice(line.as_bytes());
        }
        (_, client, server) => {
            out.extend_from_slice(b"\r\n\r\n\0\r\nQUIT\n\x21");
            let mut addresses = Vec::new();
            for ip in [client, server] {
                match ip {
                    std::net::IpAddr::V4(v4) => addresses.extend_from_slice(&v4.octets()),
                    std::net::IpAddr::V6(v6) => addresses.extend_from_slice(&v6.octets()),
                }
            }
            addresses.extend_from_slice(&from.to_be_bytes());
            addresses.extend_from_slice(&to.to_be_bytes());
            let authority = run.bytes(arguments.text(3));
            if let (false, Ok(len)) = (authority.is_empty(), u16::try_from(authority.len())) {
                addresses.push(2);
                addresses.extend_from_slice(&len.to_be_bytes());
                addresses.extend_from_slice(authority);
            }
            out.push(if client.is_ipv4() { 0x11 } else { 0x21 });
            let len = u16::try_from(addresses.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(&addresses);
        }
    }
    run.store(&out).map(Value::Blob)
}
