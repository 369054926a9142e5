//! `proxy` and `unix`: who is at the other end.

use super::{Function, Module, fault, function, function_in};
use crate::program::{Text, Value};
use crate::runtime::{CertificateFacts, Event, Result, Run, UnixPeer};
use crate::types::States;

pub(super) const MODULE: Module =
    Module { name: "proxy", classes: &[], functions: FUNCTIONS, is_test: false };

pub(super) const UNIX: Module =
    Module { name: "unix", classes: &[], functions: UNIX_FUNCTIONS, is_test: false };

pub(super) const ANY: States = States::CLIENT.and(States::BACKEND);

const FUNCTIONS: &[Function] = &[
    function_in(ANY, "STRING alpn()", alpn),
    function_in(ANY, "STRING authority()", authority),
    function_in(ANY, "BOOL is_ssl()", is_ssl),
    function_in(ANY, "BOOL client_has_cert_sess()", has_certificate),
    function_in(ANY, "BOOL client_has_cert_conn()", has_certificate),
    function_in(ANY, "INT ssl_verify_result()", verify_result),
    function_in(ANY, "STRING ssl_version()", version),
    function_in(ANY, "STRING client_cert_cn()", client_name),
    function_in(ANY, "STRING ssl_cipher()", cipher),
    function_in(ANY, "STRING cert_sign()", unknown),
    function_in(ANY, "STRING cert_key()", unknown),
];

const UNIX_FUNCTIONS: &[Function] = &[
    function("STRING user()", user),
    function("STRING group()", group),
    function("INT uid()", uid),
    function("INT gid()", gid),
];

fn text(run: &mut Run<'_>, text: Option<String>) -> Result<Value> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => run.store(text.as_bytes()).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn alpn(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = run.view.session.tls.as_ref().map(|tls| tls.alpn.clone());
    text(run, known)
}

fn authority(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = run.view.session.tls.as_ref().map(|tls| tls.authority.clone());
    text(run, known)
}

fn is_ssl(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Bool(run.view.session.tls.is_some()))
}

pub(super) fn has_certificate(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let tls = run.view.session.tls.as_ref();
    Ok(Value::Bool(tls.is_some_and(|tls| tls.client_certificate.is_some())))
}

/// 0 is a certificate that was verified.
fn verify_result(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Int(0))
}

fn version(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = run.view.session.tls.as_ref().map(|tls| tls.version.clone());
    text(run, known)
}

fn client_name(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    certificate_text(run, |shown| &shown.common_name)
}

/// What the client's certificate says, where it has one.
pub(super) fn certificate_text(
    run: &mut Run<'_>,
    part: fn(&CertificateFacts) -> &String,
) -> Result<Value> {
    let tls = run.view.session.tls.as_ref();
    let known =
        tls.and_then(|tls| tls.client_certificate.as_ref()).map(|shown| part(shown).clone());
    text(run, known)
}

fn cipher(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = run.view.session.tls.as_ref().map(|tls| tls.cipher.clone());
    text(run, known)
}

/// Not told by TLS in process.
fn unknown(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Text(Text::Unset))
}

/// The peer of a Unix socket; that there is none is logged.
fn peer<'a>(run: &mut Run<'a>) -> Result<Option<&'a UnixPeer>> {
    if !ANY.has(run.state) {
        return fault("vmod unix failure: may not be called in vcl_init or vcl_fini");
    }
    let peer = run.view.session.peer.as_ref();
    if peer.is_none() && run.traced {
        let why = "vmod unix error: not listening on a Unix domain socket";
        run.host.trace(Event::Error(why));
    }
    Ok(peer)
}

fn user(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = peer(run)?.map(|peer| peer.user.clone());
    text(run, known)
}

fn group(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let known = peer(run)?.map(|peer| peer.group.clone());
    text(run, known)
}

fn uid(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Int(peer(run)?.map_or(-1, |peer| peer.uid.into())))
}

fn gid(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Int(peer(run)?.map_or(-1, |peer| peer.gid.into())))
}
