//! `bodyaccess`: a request's body, where `std.cache_req_body` kept it.

use super::{Arguments, Function, Module, NOTHING, fault, function_in};
use crate::program::Value;
use crate::runtime::{Event, Fault, Result, Run};
use crate::types::{State, States};

pub(super) const MODULE: Module =
    Module { name: "bodyaccess", classes: &[], functions: FUNCTIONS, is_test: false };

const RECV: States = States::of(&[State::Recv]);

const FUNCTIONS: &[Function] = &[
    function_in(States::CLIENT, "INT rematch_req_body(REGEX re)", rematch),
    function_in(States::of(&[State::Hash]), "VOID hash_req_body()", hash),
    function_in(States::CLIENT, "INT len_req_body()", len),
    function_in(RECV, "VOID log_req_body(STRING prefix=\"\", INT length=200)", log),
];

fn body(run: &Run<'_>, name: &str) -> Result<std::sync::Arc<[u8]>> {
    run.host.request_body().ok_or_else(|| {
        Fault::new(format!("bodyaccess.{name}(): the request's body is not kept: call std.cache_req_body() in vcl_recv first"))
    })
}

/// 1 where it matches, 0 where not, -1 where there is no body.
fn rematch(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some(body) = run.host.request_body() else { return Ok(Value::Int(-1)) };
    let Value::Regex(regex) = arguments.at(0) else { return Ok(Value::Int(-1)) };
    let Some(regex) = run.program.regexes.get(regex as usize) else { return Ok(Value::Int(-1)) };
    match regex.is_match(&body) {
        Ok(matched) => Ok(Value::Int(matched.into())),
        Err(why) => fault(format!("Regexp matching failed: {}", why.0)),
    }
}

fn hash(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let body = body(run, "hash_req_body")?;
    // Parts have no NUL, so the body goes in as its digest.
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
    let text: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    run.spend(text.len())?;
    run.task.hash_parts.extend_from_slice(text.as_bytes());
    run.task.hash_parts.push(0);
    NOTHING
}

fn len(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let len = run.host.request_body().map(|body| body.len());
    Ok(Value::Int(len.and_then(|len| i64::try_from(len).ok()).unwrap_or(-1)))
}

fn log(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let body = body(run, "log_req_body")?;
    if run.traced {
        let prefix = run.bytes(arguments.text(0)).to_vec();
        let length = usize::try_from(arguments.int(1)).unwrap_or(0).max(1);
        for line in body.chunks(length) {
            let text = [&prefix[..], line].concat();
            run.host.trace(Event::Log(&text));
        }
    }
    NOTHING
}
