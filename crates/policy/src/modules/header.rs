//! `header`: fields with several lines.

use super::{Arguments, Function, Module, NOTHING, fault, function};
use crate::program::{Text, Value};
use crate::runtime::{Event, Result, Run};
use crate::variables::Message;
use freshet_http::fields::is_token_byte;

pub(super) const MODULE: Module =
    Module { name: "header", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("VOID append(HEADER, STRANDS)", append),
    function("VOID copy(HEADER, HEADER)", copy),
    function("STRING get(HEADER header, REGEX regex)", get),
    function("VOID remove(HEADER header, REGEX regex)", remove),
    function("VOID regsub(HTTP, REGEX regex, STRING sub, BOOL all=0)", regsub),
    function("HEADER dyn(HTTP, STRING)", dynamic),
];

/// A header field as functions take it: of which message, and its name.
pub(super) fn named(run: &Run<'_>, value: Value) -> Option<(Message, String)> {
    let (message, name) = match value {
        Value::Header(message, header) => {
            (message, run.program.headers.get(header as usize)?.to_string())
        }
        Value::NamedHeader(message, name) => (message, run.string(name).into_owned()),
        _ => return None,
    };
    // A page is its own outermost request.
    let is_top = message == Message::ReqTop && !run.is_included();
    Some((if is_top { Message::Req } else { message }, name))
}

fn writable(message: Message) -> Result<()> {
    match message {
        Message::Obj | Message::ReqTop => {
            fault(format!("header: {}.http cannot be changed", message.name()))
        }
        _ => Ok(()),
    }
}

fn append(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((message, name)) = named(run, arguments.at(0)) else { return NOTHING };
    writable(message)?;
    let value = run.bytes(arguments.text(1)).to_vec();
    run.append_field(message, &name, &value)?;
    NOTHING
}

fn copy(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((from, source)) = named(run, arguments.at(0)) else { return NOTHING };
    let Some((to, target)) = named(run, arguments.at(1)) else { return NOTHING };
    writable(to)?;
    for value in run.field_lines(from, &source) {
        run.append_field(to, &target, &value)?;
    }
    NOTHING
}

fn get(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((message, name)) = named(run, arguments.at(0)) else { return NOTHING };
    let program = run.program;
    let Value::Regex(regex) = arguments.at(1) else { return NOTHING };
    let Some(regex) = program.regexes.get(regex as usize) else { return NOTHING };
    let mut found = None;
    for value in run.field_lines(message, &name) {
        if run.counted(value.len(), |effort| regex.is_match(&value, effort))? {
            found = Some(value);
            break;
        }
    }
    match found {
        Some(value) => run.store(&value).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn remove(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((message, name)) = named(run, arguments.at(0)) else { return NOTHING };
    writable(message)?;
    let program = run.program;
    let Value::Regex(regex) = arguments.at(1) else { return NOTHING };
    let Some(regex) = program.regexes.get(regex as usize) else { return NOTHING };
    let lines = run.field_lines(message, &name);
    let matched = lines
        .iter()
        .map(|value| run.counted(value.len(), |effort| regex.is_match(value, effort)))
        .collect::<Result<Vec<_>>>()?;
    let mut matched = matched.into_iter();
    run.retain_fields(message, |line, _| {
        !line.eq_ignore_ascii_case(name.as_bytes()) || !matched.next().unwrap_or(false)
    });
    NOTHING
}

/// Substitutes in whole lines, `Name: value`.
fn regsub(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Http(message) = arguments.at(0) else { return NOTHING };
    writable(message)?;
    let program = run.program;
    let Value::Regex(regex) = arguments.at(1) else { return NOTHING };
    let Some(regex) = program.regexes.get(regex as usize) else { return NOTHING };
    let template = run.bytes(arguments.text(2)).to_vec();
    let all = arguments.truth(3);
    let Some(fields) = run.fields(message) else { return NOTHING };
    let budget = run.task.budget;
    let mut lines = Vec::new();
    let mut gone = Vec::new();
    let mut spent = 0;
    for (name, value) in fields.iter() {
        let line = [name, b": ", value].concat();
        let mut changed = Vec::new();
        let found = run.counted(line.len(), |effort| {
            regex.replace(&line, &template, all, budget, effort, &mut changed)
        })?;
        if found {
            gone.push((name.to_vec(), value.to_vec(), lines.len()));
            spent += changed.len();
            lines.push(changed);
        } else {
            lines.push(line);
        }
    }
    if spent == 0 {
        return NOTHING;
    }
    run.spend(spent)?;
    let mut split = Vec::new();
    for line in &lines {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        if name.is_empty() || !name.iter().copied().all(is_token_byte) {
            return fault("header.regsub(): what is left is no header field");
        }
        if value.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f) {
            return fault("header.regsub(): what is left is no header field");
        }
        split.push((name.to_vec(), value.to_vec()));
    }
    // All are written anew in their order; those who watch see those that changed.
    let traced = std::mem::replace(&mut run.traced, false);
    run.retain_fields(message, |_, _| false);
    let mut result = NOTHING;
    for (at, (name, value)) in split.iter().enumerate() {
        let name = String::from_utf8_lossy(name);
        let old = gone.iter().find(|(_, _, line)| *line == at).filter(|_| traced);
        if let Some((old, was, _)) = old {
            let old = String::from_utf8_lossy(old);
            run.host.trace(Event::FieldUnset { message, name: &old, value: was });
            run.host.trace(Event::FieldSet { message, name: &name, value });
        }
        if let Err(fault) = run.append_field(message, &name, value) {
            result = Err(fault);
            break;
        }
    }
    run.traced = traced;
    result
}

/// A field by a name made while running, less what stands behind a colon.
fn dynamic(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Http(message) = arguments.at(0) else { return NOTHING };
    let name = run.string(arguments.text(1)).into_owned();
    let name = name.split(':').next().unwrap_or("");
    // What is no name is no field of any message.
    let name = if name.bytes().all(is_token_byte) { name } else { "" };
    run.store(name.as_bytes()).map(|name| Value::NamedHeader(message, name))
}
