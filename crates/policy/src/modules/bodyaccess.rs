//! `bodyaccess`: a request's body, where `std.cache_req_body` kept it.

use super::{Arguments, Function, Module, NOTHING, function};
use crate::program::Value;
use crate::runtime::{Event, Result, Run};
use crate::types::State;
use freshet_base::hexadecimal;
use std::sync::Arc;

pub(super) const MODULE: Module =
    Module { name: "bodyaccess", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("INT rematch_req_body(REGEX re)", rematch),
    function("VOID hash_req_body()", hash),
    function("INT len_req_body()", len),
    function("VOID log_req_body(STRING prefix=\"\", INT length=200)", log),
];

/// The body, in the one state in which it is looked at like this; otherwise the log says why not.
fn body(run: &mut Run<'_>, name: &str, state: State) -> Option<Arc<[u8]>> {
    // As with Varnish: what is empty is not there to be kept.
    let body = run.host.request_body().filter(|body| !body.is_empty());
    let why = match &body {
        Some(_) if run.state == state => return body,
        Some(_) => format!("{name} can only be used in {}{{}}", state.subroutine()),
        None => "Unbuffered req.body".to_owned(),
    };
    if run.traced {
        run.host.trace(Event::Error(&why));
    }
    None
}

/// 1 where it matches, 0 where not, -1 where there is no body.
fn rematch(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some(body) = body(run, "rematch_req_body", State::Recv) else { return Ok(Value::Int(-1)) };
    let Value::Regex(regex) = arguments.at(0) else { return Ok(Value::Int(-1)) };
    let Some(regex) = run.program.regexes.get(regex as usize) else { return Ok(Value::Int(-1)) };
    let matched = run.counted(body.len(), |effort| regex.is_match(&body, effort))?;
    Ok(Value::Int(matched.into()))
}

fn hash(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let Some(body) = body(run, "hash_req_body", State::Hash) else { return NOTHING };
    // Parts have no NUL, so the body goes in as its digest.
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
    let text = hexadecimal::encode(digest.as_ref());
    run.spend(text.len())?;
    run.task.hash_parts.extend_from_slice(text.as_bytes());
    run.task.hash_parts.push(0);
    if run.traced {
        run.host.trace(Event::Hash(&body));
    }
    NOTHING
}

fn len(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let len = body(run, "len_req_body", State::Recv).map(|body| body.len());
    Ok(Value::Int(len.and_then(|len| i64::try_from(len).ok()).unwrap_or(-1)))
}

fn log(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some(body) = body(run, "log_req_body", State::Recv) else { return NOTHING };
    if run.traced {
        let prefix = run.bytes(arguments.text(0)).to_vec();
        let length = usize::try_from(arguments.int(1)).unwrap_or(0).max(1);
        for line in body.chunks(length) {
            let text = [&prefix[..], line].concat();
            run.host.trace(Event::Debug(&text));
        }
    }
    NOTHING
}
