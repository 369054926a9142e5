//! `proxy` and `unix`: who is at the other end.

use super::{Function, Module, fault, function, function_in};
use crate::program::{Text, Value};
use crate::runtime::{CertificateFacts, Event, FrontFacts, Result, Run, TlsFacts, UnixPeer};
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
    function_in(ANY, "BOOL client_has_cert_sess()", has_in_session),
    function_in(ANY, "BOOL client_has_cert_conn()", has_on_connection),
    function_in(ANY, "INT ssl_verify_result()", verify_result),
    function_in(ANY, "STRING ssl_version()", version),
    function_in(ANY, "STRING client_cert_cn()", client_name),
    function_in(ANY, "STRING ssl_cipher()", cipher),
    function_in(ANY, "STRING cert_sign()", signature),
    function_in(ANY, "STRING cert_key()", key),
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

/// What the proxy in front says of the client's TLS, or else what is spoken to the client here.
fn said(
    run: &mut Run<'_>,
    front: fn(&FrontFacts) -> &Option<String>,
    tls: fn(&TlsFacts) -> Option<&String>,
) -> Result<Value> {
    let session = run.view.session;
    match &session.front {
        // A text of no bytes was said as well.
        Some(facts) => match front(facts) {
            Some(text) => run.store(text.as_bytes()).map(Value::Text),
            None => Ok(Value::Text(Text::Unset)),
        },
        None => text(run, session.tls.as_ref().and_then(tls).cloned()),
    }
}

fn alpn(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    said(run, |front| &front.alpn, |tls| Some(&tls.alpn))
}

fn authority(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    said(run, |front| &front.authority, |tls| Some(&tls.authority))
}

fn is_ssl(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let session = run.view.session;
    let is_tls = session.front.as_ref().map_or_else(|| session.tls.is_some(), |front| front.is_tls);
    Ok(Value::Bool(is_tls))
}

fn has_in_session(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    match &run.view.session.front {
        Some(front) => Ok(Value::Bool(front.has_certificate_in_session)),
        None => has_certificate(run, object, arguments),
    }
}

fn has_on_connection(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    match &run.view.session.front {
        Some(front) => Ok(Value::Bool(front.has_certificate_on_connection)),
        None => has_certificate(run, object, arguments),
    }
}

pub(super) fn has_certificate(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let tls = run.view.session.tls.as_ref();
    Ok(Value::Bool(tls.is_some_and(|tls| tls.client_certificate.is_some())))
}

/// 0 is a certificate that was verified, or none: TLS in process takes no other.
fn verify_result(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let front = run.view.session.front.as_ref();
    Ok(Value::Int(front.map_or(0, |front| front.verify_result.into())))
}

fn version(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    said(run, |front| &front.version, |tls| Some(&tls.version))
}

fn client_name(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    fn name(tls: &TlsFacts) -> Option<&String> {
        tls.client_certificate.as_ref().map(|shown| &shown.common_name)
    }
    said(run, |front| &front.common_name, name)
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
    said(run, |front| &front.cipher, |tls| Some(&tls.cipher))
}

/// Not told by TLS in process.
fn signature(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    said(run, |front| &front.signature_algorithm, |_| None)
}

/// Not told by TLS in process.
fn key(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    said(run, |front| &front.key_algorithm, |_| None)
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
